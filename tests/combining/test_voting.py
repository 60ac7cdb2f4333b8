"""Votes and averages beside NumPy's, and weights that are learned."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import VotingClassifier as TheirClassifier
from sklearn.ensemble import VotingRegressor as TheirRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import gpuens
from gpuens import RandomForestClassifier, RandomForestRegressor, VotingClassifier, VotingRegressor
from gpuens.combining.weights import accuracy_weights, greedy_weights, optimal_weights
from gpuens.estimators.validation import holdout_rows
from tests.support import strict_cupy
from tests.support.user_estimators import NearestMean, WeightedMean

X, C = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)[:, :6]
XR, Y = load_diabetes(return_X_y=True)
LABELS = np.array(["red", "rosé", "white"])
CLASSIFIERS = [
    ("bayes", GaussianNB()),
    ("linear", LogisticRegression()),
    ("forest", RandomForestClassifier(20)),
]
REGRESSORS = [
    ("near", KNeighborsRegressor()),
    ("ridge", Ridge(0.1)),
    ("forest", RandomForestRegressor(20)),
]


def votes_of(model, X):
    """The members' votes, one column a member."""
    return np.stack([member.predict(X) for member in model.estimators_], axis=1)


class TestVotes:
    @pytest.mark.parametrize("weights", [None, [1, 1, 1], [0.5, 3, 0.1], [1, 0, 2]])
    def test_hard(self, weights):
        model = VotingClassifier(CLASSIFIERS, weights=weights).fit(X, LABELS[C])
        votes, w = votes_of(model, X), np.ones(3) if weights is None else np.array(weights)
        counts = np.stack([(w * (votes == k)).sum(axis=1) for k in range(3)], axis=1)
        np.testing.assert_array_equal(model.predict(X), LABELS[counts.argmax(axis=1)])
        np.testing.assert_array_equal(model.transform(X), votes)
        assert model.transform(X).dtype == np.int64
        np.testing.assert_array_equal(model.weights_, w)
        assert not hasattr(model, "predict_proba")

    def test_the_lowest_class_wins_a_tie(self):
        members = [(f"m{i}", Says(k)) for i, k in enumerate((2, 1, 2, 1, 0))]
        model = VotingClassifier(members).fit(X, LABELS[C])
        assert set(model.predict(X)) == {"rosé"}
        # 0.1 + 0.2 > 0.3 in floating point: what is no tie is none
        model.set_params(weights=[0.3, 0.1, 0, 0.2, 0]).fit(X, LABELS[C])
        assert set(model.predict(X)) == {"rosé"}
        model.set_params(weights=[3, 1, 0, 2, 0]).fit(X, LABELS[C])
        assert set(model.predict(X)) == {"rosé"}
        model.set_params(weights=[4, 1, 0, 2, 0]).fit(X, LABELS[C])
        assert set(model.predict(X)) == {"white"}

    @pytest.mark.parametrize("weights", [None, [1, 5, 0.2], [0, 1, 0]])
    def test_soft(self, weights):
        model = VotingClassifier(CLASSIFIERS, voting="soft", weights=weights).fit(X, LABELS[C])
        shares = np.stack([member.predict_proba(X) for member in model.estimators_])
        expected = np.average(shares, axis=0, weights=weights)
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-14, atol=1e-16)
        np.testing.assert_array_equal(model.predict(X), LABELS[expected.argmax(axis=1)])
        np.testing.assert_array_equal(model.transform(X), np.hstack(shares))
        model.flatten_transform = False
        np.testing.assert_array_equal(model.transform(X), shares)

    @pytest.mark.parametrize("weights", [None, [1, 5, 0.2], [0, 1, 0]])
    def test_average(self, weights):
        model = VotingRegressor(REGRESSORS, weights=weights).fit(XR, Y)
        values = votes_of(model, XR)
        expected = np.average(values, axis=1, weights=weights)
        np.testing.assert_allclose(model.predict(XR), expected, rtol=1e-13)
        np.testing.assert_array_equal(model.transform(XR), values)
        assert model.score(XR, Y) == pytest.approx(r2_score(Y, expected))

    def test_several_outputs(self):
        outputs = np.stack([Y, -Y, Y**2], axis=1)
        model = VotingRegressor(REGRESSORS, weights=[1, 2, 3]).fit(XR, outputs)
        values = np.stack([member.predict(XR) for member in model.estimators_])
        expected = np.average(values, axis=0, weights=[1, 2, 3])
        np.testing.assert_allclose(model.predict(XR), expected, rtol=1e-13)
        assert model.transform(XR).shape == (len(Y), 9)
        names = model.get_feature_names_out()
        assert names[:4].tolist() == [*(f"votingregressor_near{i}" for i in range(3)),
                                      "votingregressor_ridge0"]  # fmt: skip
        learned = VotingRegressor(REGRESSORS, weights="optimal").fit(XR, outputs)
        assert learned.predict(XR).shape == outputs.shape and learned.weights_.sum() == 1

    def test_it_is_scikit_learns(self):
        members = CLASSIFIERS[:2]
        for voting in ("hard", "soft"):
            mine = VotingClassifier(members, voting=voting, weights=[2, 1]).fit(X, LABELS[C])
            theirs = TheirClassifier(members, voting=voting, weights=[2, 1]).fit(X, LABELS[C])
            np.testing.assert_array_equal(mine.predict(X), theirs.predict(X))
            np.testing.assert_array_equal(mine.transform(X), theirs.transform(X))
            np.testing.assert_array_equal(mine.le_.classes_, theirs.le_.classes_)
            assert mine.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
        mine, theirs = (cls(REGRESSORS[:2]).fit(XR, Y) for cls in (VotingRegressor, TheirRegressor))
        np.testing.assert_allclose(mine.predict(XR), theirs.predict(XR), rtol=1e-13)

    @pytest.mark.parametrize("labels", [
        np.array(["a", "b", "c"], object), np.array([-5, 2, 700]), np.array([0.0, 1.0, 5.0]),
        np.array([3, 1, 2], np.uint8), np.array([True, False, True]),
    ], ids=lambda labels: labels.dtype.str)  # fmt: skip
    @pytest.mark.parametrize("voting", ["hard", "soft"])
    def test_labels(self, labels, voting):
        model = VotingClassifier(CLASSIFIERS, voting=voting).fit(X, labels[C])
        assert model.predict(X).dtype == labels.dtype
        assert model.score(X, labels[C]) == (model.predict(X) == labels[C]).mean()
        assert model.score(X, labels[C]) > 0.9


class Says(NearestMean):
    """Votes for one class, whatever it sees."""

    def __init__(self, code=0):
        self.code = code

    def predict(self, X):
        return np.full(len(X), self.code)


class TestMembers:
    def test_dropped(self):
        members = [*CLASSIFIERS, ("none", "drop")]
        model = VotingClassifier(members, weights=[1, 2, 3, 7]).fit(X, C)
        assert len(model.estimators_) == 3 and model.weights_.tolist() == [1, 2, 3]
        assert model.named_estimators_["none"] == "drop"
        assert model.named_estimators_.bayes is model.estimators_[0]
        model.set_params(linear="drop").fit(X, C)
        assert [type(m).__name__ for m in model.estimators_] == [
            "GaussianNB", "RandomForestClassifier",
        ]  # fmt: skip
        assert model.get_feature_names_out().tolist() == [
            "votingclassifier_bayes", "votingclassifier_forest",
        ]  # fmt: skip
        assert model.weights_.tolist() == [1, 3]

    def test_parameters(self):
        model = VotingClassifier([("linear", LogisticRegression(C=3)), ("none", "drop")])
        parameters = model.get_params()
        assert parameters["linear__C"] == 3 and parameters["none"] == "drop"
        assert parameters["linear"] is model.named_estimators["linear"]
        assert "linear__C" not in model.get_params(deep=False)
        model.set_params(linear__C=4, none=GaussianNB(), voting="soft")
        assert model.estimators[0][1].C == 4 and model.voting == "soft"
        assert isinstance(model.estimators[1][1], GaussianNB)
        model.set_params(estimators=[("a", Perceptron())], a__alpha=2)
        assert model.get_params()["a__alpha"] == 2
        copy = clone(model)
        assert copy.estimators[0][1] is not model.estimators[0][1]
        assert copy.get_params()["a__alpha"] == 2

    @pytest.mark.slow
    def test_a_search(self):
        grid = {"linear__C": [0.1, 1.0], "weights": [None, [1, 2, 3], "greedy"],
                "bayes": ["drop", GaussianNB()]}  # fmt: skip
        members = [*CLASSIFIERS[:2], ("near", KNeighborsClassifier())]
        grid["weights"] = [None, "greedy"]
        search = GridSearchCV(VotingClassifier(members, voting="soft"), grid, cv=2).fit(X, C)
        assert search.best_score_ > 0.8

    def test_members_are_clones(self):
        members = [("bayes", GaussianNB())]
        model = VotingClassifier(members).fit(X, C)
        assert model.estimators_[0] is not members[0][1] and not hasattr(members[0][1], "classes_")

    @pytest.mark.slow
    @pytest.mark.parametrize("n_jobs", [2, -1])
    def test_processes(self, n_jobs):
        alone = VotingClassifier(CLASSIFIERS, voting="soft").fit(X, C)
        spread = VotingClassifier(CLASSIFIERS, voting="soft", n_jobs=n_jobs).fit(X, C)
        np.testing.assert_array_equal(alone.predict_proba(X), spread.predict_proba(X))
        assert [type(m) for m in spread.estimators_] == [type(m) for m in alone.estimators_]

    def test_weights_of_rows(self):
        weight = np.random.default_rng(0).random(len(C))
        model = VotingClassifier(CLASSIFIERS, voting="soft").fit(X, LABELS[C], weight)
        for (_, estimator), member in zip(CLASSIFIERS, model.estimators_, strict=True):
            alone = clone(estimator).fit(X, C, sample_weight=weight)
            np.testing.assert_array_equal(member.predict_proba(X), alone.predict_proba(X))

    def test_weights_of_rows_reach_the_last_step_of_a_pipeline(self):
        weight = np.random.default_rng(0).random(len(C))
        pipe = make_pipeline(StandardScaler(), LogisticRegression())
        model = VotingClassifier([("pipe", pipe)], voting="soft").fit(X, C, weight)
        expected = clone(pipe).fit(X, C, logisticregression__sample_weight=weight)
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))

    @config_context(enable_metadata_routing=True)
    def test_metadata(self):
        weight = np.random.default_rng(0).random(len(C))
        wants = LogisticRegression().set_fit_request(sample_weight=True)
        not_wants = GaussianNB().set_fit_request(sample_weight=False)
        model = VotingClassifier([("a", wants), ("b", not_wants)], voting="soft")
        model.fit(X, C, sample_weight=weight)
        expected = LogisticRegression().fit(X, C, weight).predict_proba(X)
        np.testing.assert_array_equal(model.estimators_[0].predict_proba(X), expected)
        expected = GaussianNB().fit(X, C).predict_proba(X)
        np.testing.assert_array_equal(model.estimators_[1].predict_proba(X), expected)

    def test_verbose(self, capsys):
        VotingClassifier(CLASSIFIERS, verbose=True).fit(X, C)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3 and lines[1].startswith("[Voting] ..")
        assert "(2 of 3) Processing linear, total=" in lines[1]

    def test_pickles(self):
        model = VotingClassifier(CLASSIFIERS, voting="soft", weights="optimal").fit(X, C)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


class TestLearnedWeights:
    @pytest.mark.parametrize("word, learn", [
        ("accuracy", accuracy_weights), ("optimal", optimal_weights), ("greedy", greedy_weights),
    ])  # fmt: skip
    @pytest.mark.parametrize("fraction, seed", [(0.2, 0), (0.5, 7), (60, None)])
    def test_from_rows_held_out(self, word, learn, fraction, seed):
        settings = {"weights": word, "validation_fraction": fraction, "random_state": seed}
        model = VotingClassifier(CLASSIFIERS, voting="soft", **settings).fit(X, LABELS[C])
        seen, asked = holdout_rows(len(C), fraction, C, seed or 0, "")
        n_asked = fraction if fraction > 1 else int(np.ceil(fraction * len(C)))
        assert asked.size == n_asked and set(seen) | set(asked) == set(range(len(C)))
        members = [clone(member).fit(X[seen], C[seen]) for _, member in CLASSIFIERS]
        shares = np.stack([member.predict_proba(X[asked]) for member in members], axis=1)
        np.testing.assert_array_equal(model.weights_, learn(shares, C[asked], loss="log_loss"))
        for member, expected in zip(model.estimators_, members, strict=True):
            np.testing.assert_array_equal(member.predict_proba(X), expected.predict_proba(X))

    @pytest.mark.parametrize("word, learn", [
        ("accuracy", accuracy_weights), ("greedy", greedy_weights),
    ])  # fmt: skip
    def test_of_votes(self, word, learn):
        model = VotingClassifier(CLASSIFIERS, weights=word).fit(X, C, eval_set=(X[::2], C[::2]))
        members = [clone(member).fit(X, C) for _, member in CLASSIFIERS]
        votes = np.stack([member.predict(X[::2]) for member in members], axis=1)
        np.testing.assert_array_equal(model.weights_, learn(votes, C[::2], loss="zero_one"))

    @pytest.mark.parametrize("word, learn", [
        ("accuracy", accuracy_weights), ("optimal", optimal_weights), ("greedy", greedy_weights),
    ])  # fmt: skip
    def test_of_values(self, word, learn):
        weight = np.random.default_rng(0).random(len(Y))
        rows, others = np.arange(300), np.arange(300, len(Y))
        model = VotingRegressor([m for m in REGRESSORS if m[0] != "near"], weights=word)
        model.fit(XR[rows], Y[rows], weight[rows],
                  eval_set=(XR[others], Y[others], weight[others]))  # fmt: skip
        values = np.stack([m.predict(XR[others]) for m in model.estimators_], axis=1)
        np.testing.assert_array_equal(model.weights_, learn(values, Y[others], weight[others]))
        alone = Ridge(0.1).fit(XR[rows], Y[rows], weight[rows])
        np.testing.assert_array_equal(model.estimators_[0].predict(XR), alone.predict(XR))

    def test_labels_of_the_evaluation_set(self):
        rows = LABELS[C] != "rosé"
        model = VotingClassifier(CLASSIFIERS, voting="soft", weights="optimal")
        model.fit(X, LABELS[C], eval_set=(X[rows], LABELS[C][rows]))
        shares = np.stack([m.predict_proba(X[rows]) for m in model.estimators_], axis=1)
        expected = optimal_weights(shares, C[rows], loss="log_loss")
        np.testing.assert_array_equal(model.weights_, expected)

    def test_better_than_the_others(self):
        """On the rows that the weights were learned from."""
        held_out = X[::3], C[::3]
        model = VotingClassifier(CLASSIFIERS, voting="soft", weights="optimal")
        model.fit(np.delete(X, np.s_[::3], 0), np.delete(C, np.s_[::3]), eval_set=held_out)
        mine = log_loss(held_out[1], model.predict_proba(held_out[0]))
        singly = [log_loss(held_out[1], m.predict_proba(held_out[0])) for m in model.estimators_]
        assert mine <= min(singly) + 1e-12
        model.weights_ = np.ones(3)
        assert mine <= log_loss(held_out[1], model.predict_proba(held_out[0])) + 1e-12

    def test_a_function(self):
        bags = functools.partial(greedy_weights, n_bags=3, n_rounds=7)
        model = VotingRegressor(REGRESSORS, weights=bags, random_state=5).fit(XR, Y)
        seen, asked = holdout_rows(len(Y), 0.2, None, 5, "")
        values = np.stack([m.predict(XR[asked]) for m in model.estimators_], axis=1)
        np.testing.assert_array_equal(model.weights_, bags(values, Y[asked]))
        given = {}

        def last(predictions, y, sample_weight, loss):
            given.update(predictions=predictions, y=y, weight=sample_weight, loss=loss)
            return [0, 0, 1]

        model = VotingRegressor(REGRESSORS, weights=last).fit(XR, Y, eval_set=(XR[:50], Y[:50]))
        assert given["predictions"].shape == (50, 3) and given["loss"] == "squared_error"
        assert given["weight"] is None and (given["y"] == Y[:50]).all()
        np.testing.assert_allclose(model.predict(XR), model.estimators_[2].predict(XR))

    def test_members_of_weight_zero_are_not_asked(self):
        model = VotingRegressor([*REGRESSORS, ("silent", Silent())], weights=[1, 2, 3, 0])
        expected = VotingRegressor(REGRESSORS, weights=[1, 2, 3]).fit(XR, Y).predict(XR)
        np.testing.assert_array_equal(model.fit(XR, Y).predict(XR), expected)


class Silent(WeightedMean):
    """A regressor that must not be asked."""

    def predict(self, X):
        raise AssertionError


class TestPrefit:
    def fitted(self, y):
        return [(name, clone(member).fit(X[::2], y[::2])) for name, member in CLASSIFIERS]

    @pytest.mark.parametrize("voting", ["hard", "soft"])
    @pytest.mark.parametrize("labels", [LABELS, np.arange(3), np.array([7, -1, 3])],
                             ids=["strings", "codes", "numbers"])  # fmt: skip
    def test_members_know_labels(self, labels, voting):
        members = self.fitted(labels[C])
        model = VotingClassifier(members, voting=voting, prefit=True).fit(X[1::2], labels[C[1::2]])
        assert model.estimators_ == [member for _, member in members]
        np.testing.assert_array_equal(model.classes_, np.unique(labels))
        fresh = VotingClassifier(CLASSIFIERS, voting=voting).fit(X[::2], labels[C[::2]])
        np.testing.assert_array_equal(model.predict(X), fresh.predict(X))

    def test_weights_are_learned_from_all_rows(self):
        members = self.fitted(LABELS[C])
        model = VotingClassifier(members, voting="soft", prefit=True, weights="optimal")
        model.fit(X[1::2], LABELS[C[1::2]])
        shares = np.stack([m.predict_proba(X[1::2]) for _, m in members], axis=1)
        np.testing.assert_array_equal(
            model.weights_, optimal_weights(shares, C[1::2], loss="log_loss")
        )

    def test_regressors(self):
        members = [(name, clone(member).fit(XR, Y)) for name, member in REGRESSORS]
        model = VotingRegressor(members, weights="optimal", prefit=True).fit(XR[:99], Y[:99])
        values = np.stack([m.predict(XR[:99]) for _, m in members], axis=1)
        np.testing.assert_array_equal(model.weights_, optimal_weights(values, Y[:99]))

    def test_members_that_do_not_tell_their_classes(self):
        class Untold(NearestMean):
            def fit(self, X, y):
                self.inner_ = NearestMean().fit(X, y)
                return self

            def predict(self, X):
                return self.inner_.predict(X)

        expected = NearestMean().fit(X, LABELS[C]).predict(X)
        for labels in (LABELS, np.array([4, 5, 9])):
            model = VotingClassifier([("it", Untold().fit(X, labels[C]))], prefit=True)
            prediction = model.fit(X, labels[C]).predict(X)
            np.testing.assert_array_equal(prediction, labels[np.searchsorted(LABELS, expected)])
            fresh = VotingClassifier([("it", Untold())]).fit(X, labels[C])
            np.testing.assert_array_equal(fresh.predict(X), prediction)

    def test_frozen_members(self):
        frozen = FrozenEstimator(GaussianNB().fit(X[::2], LABELS[C[::2]]))
        model = VotingClassifier([("frozen", frozen)]).fit(X, LABELS[C])
        np.testing.assert_array_equal(model.predict(X), frozen.predict(X))


class TestData:
    @pytest.mark.parametrize(
        "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
    )
    def test_frames(self, make):
        frame = make({f"f{j}": X[:, j] for j in range(X.shape[1])})
        model = VotingClassifier(CLASSIFIERS, voting="soft", weights="optimal").fit(
            frame, LABELS[C]
        )
        plain = VotingClassifier(CLASSIFIERS, voting="soft", weights="optimal").fit(X, LABELS[C])
        np.testing.assert_array_equal(model.predict_proba(frame), plain.predict_proba(X))
        assert model.feature_names_in_.tolist() == [f"f{j}" for j in range(X.shape[1])]
        assert model.n_features_in_ == X.shape[1]

    def test_members_see_the_frame(self):
        """Text, and categories in members of this package."""
        color = np.array(["red", "green", "blue"])[C]
        frame = pd.DataFrame({"color": pd.Categorical(color), "size": X[:, 0]})
        encoder = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        forest = RandomForestClassifier(5, categorical_features="from_dtype")
        model = VotingClassifier([("encoded", encoder), ("forest", forest)]).fit(frame, C)
        assert model.score(frame, C) > 0.9
        only = forest.fit(frame, C)
        np.testing.assert_array_equal(model.estimators_[1].predict(frame), only.predict(frame))

    def test_set_output(self):
        frame = pd.DataFrame(X).add_prefix("f")
        model = VotingClassifier(CLASSIFIERS, voting="soft").set_output(transform="pandas")
        out = model.fit(frame, C).transform(frame)
        assert list(out.columns) == list(model.get_feature_names_out())
        assert list(model.fit_transform(frame, C).columns) == list(out.columns)

    def test_sparse(self):
        tree = DecisionTreeClassifier(random_state=0)
        members = [("linear", LogisticRegression()), ("tree", tree)]
        dense = VotingClassifier(members, voting="soft", weights="greedy").fit(X, C)
        for container in (scipy.sparse.csr_array, scipy.sparse.coo_array):
            model = VotingClassifier(members, voting="soft", weights="greedy")
            model.fit(container(X), C)
            np.testing.assert_allclose(model.predict_proba(container(X)), dense.predict_proba(X),
                                       atol=1e-6)  # fmt: skip
        assert dense.__sklearn_tags__().input_tags.sparse
        assert not VotingClassifier(CLASSIFIERS).__sklearn_tags__().input_tags.sparse

    def test_missing_values_are_the_members_business(self):
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
        members = [("forest", RandomForestClassifier(9)), ("tree", DecisionTreeClassifier())]
        model = VotingClassifier(members).fit(holes, C)
        assert model.score(holes, C) > 0.9 and model.__sklearn_tags__().input_tags.allow_nan
        assert not VotingClassifier(CLASSIFIERS).__sklearn_tags__().input_tags.allow_nan
        with pytest.raises(ValueError, match="NaN"):
            VotingClassifier(CLASSIFIERS).fit(holes, C)

    def test_lists(self):
        model = VotingRegressor(REGRESSORS[:2]).fit(XR.tolist(), Y.tolist())
        np.testing.assert_allclose(model.predict(XR.tolist()), model.predict(XR))


class TestDevices:
    """On a stand-in for CuPy."""

    @pytest.fixture
    def cupy(self, monkeypatch):
        return strict_cupy.install(monkeypatch)

    @pytest.mark.parametrize("voting", ["hard", "soft"])
    def test_each_member_gets_what_it_takes(self, cupy, voting):
        X32 = X.astype(np.float32)
        gpu, y = (strict_cupy.on_gpu(cupy, array, 1) for array in (X32, C))
        members = [("own", gpuens.DecisionTreeClassifier(device="cpu")), ("theirs", Watching())]
        members += [("more", Watching())]
        model = VotingClassifier(members, voting=voting, weights="accuracy").fit(gpu, y)
        first, second = (member.seen_ for member in model.estimators_[1:])
        assert type(first[0]) is np.ndarray and first[0] is second[0]  # copied once
        assert type(first[1]) is np.ndarray
        host = VotingClassifier(members, voting=voting, weights="accuracy").fit(X32, C)
        prediction = model.predict(gpu)
        assert type(prediction) is cupy.ndarray and prediction.device.id == 1
        np.testing.assert_array_equal(prediction.get(), host.predict(X32))
        np.testing.assert_array_equal(model.weights_, host.weights_)
        assert type(model.weights_) is np.ndarray
        assert type(model.transform(gpu)) is cupy.ndarray
        assert model.score(gpu, y) == host.score(X32, C)

    def test_asked_for_the_gpu(self, cupy):
        model = VotingClassifier([("it", Watching())], device="cuda").fit(X, C)
        assert type(model.estimators_[0].seen_[0]) is cupy.ndarray
        assert type(model.predict(X)) is np.ndarray

    def test_asked_for_the_host(self, cupy):
        gpu = strict_cupy.on_gpu(cupy, X, 0)
        model = VotingClassifier([("it", Watching())], device="cpu").fit(gpu, C)
        assert type(model.estimators_[0].seen_[0]) is np.ndarray
        assert type(model.predict(gpu)) is cupy.ndarray

    def test_cuml_and_pipelines(self, cupy):
        cuml = type("Watched", (Watching,), {"__module__": "cuml.linear_model"})
        both = [("cuml", cuml()), ("pipe", make_pipeline(Watching()))]
        gpu = strict_cupy.on_gpu(cupy, X, 0)
        model = VotingClassifier([*both, ("cuml_pipe", make_pipeline(cuml()))]).fit(gpu, C)
        seen = [getattr(m, "steps", [(0, m)])[-1][1].seen_[0] for m in model.estimators_]
        assert [type(X) is cupy.ndarray for X in seen] == [True, False, True]

    def test_regression(self, cupy):
        gpu, y = (strict_cupy.on_gpu(cupy, array, 0) for array in (XR, Y))
        model = VotingRegressor(REGRESSORS[:2], weights="optimal").fit(gpu, y)
        host = VotingRegressor(REGRESSORS[:2], weights="optimal").fit(XR, Y)
        np.testing.assert_array_equal(model.weights_, host.weights_)
        np.testing.assert_array_equal(model.predict(gpu).get(), host.predict(XR))

    def test_arrays_on_two_gpus(self, cupy):
        arrays = strict_cupy.on_gpu(cupy, XR, 0), strict_cupy.on_gpu(cupy, Y, 1)
        with pytest.raises(ValueError, match="All arrays must be on one GPU, got X on cuda:0"):
            VotingRegressor(REGRESSORS).fit(*arrays)


class Watching(NearestMean):
    """Keeps what it was fitted on, and gives probabilities."""

    def predict_proba(self, X):
        codes = np.asarray(self.predict(X))
        return np.eye(len(self.classes_))[codes]


def test_splits_are_those_of_the_seed():
    seen, asked = holdout_rows(100, 0.3, None, 4, "")
    expected = train_test_split(np.arange(100), test_size=0.3, random_state=4)
    assert sorted(expected[1]) == asked.tolist() and sorted(expected[0]) == seen.tolist()
