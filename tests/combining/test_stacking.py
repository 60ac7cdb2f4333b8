"""Stacks, put together again by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import StackingClassifier as TheirClassifier
from sklearn.ensemble import StackingRegressor as TheirRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import (
    BayesianRidge,
    LogisticRegression,
    Perceptron,
    Ridge,
)
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpuens
from gpuens import (
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
)
from gpuens.combining.linear import RidgeRegression
from gpuens.combining.logistic import LogisticRegression as Logistic
from gpuens.estimators.validation import holdout_rows
from tests.support import strict_cupy
from tests.support.lanes import few
from tests.support.user_estimators import NearestMean, NearestMeanWithDecisions

X, C = load_wine(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(C))
X, C = StandardScaler().fit_transform(X)[ORDER, :6], C[ORDER]
XR, Y = load_diabetes(return_X_y=True)
XB, B = load_breast_cancer(return_X_y=True)
XB = StandardScaler().fit_transform(XB)[:, :8]
LABELS = np.array(["red", "rosé", "white"])
TREE = DecisionTreeClassifier(max_depth=4, random_state=0)
CLASSIFIERS = [("bayes", GaussianNB()), ("tree", TREE), ("forest", RandomForestClassifier(9))]
REGRESSORS = [("near", KNeighborsRegressor()), ("ridge", Ridge(0.1))]


def logistic(n):
    """The default meta-model of n columns of probabilities."""
    return Logistic(log_odds=list(range(n)))


def shares_of(members, X):
    """The members' probabilities beside each other."""
    return np.concatenate([member.predict_proba(X) for member in members], axis=1)


class TestFolds:
    """The meta-model learns from predictions of rows that the members have not seen."""

    @pytest.mark.parametrize("cv", [None, 3, StratifiedKFold(4, shuffle=True, random_state=1)])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_classifier(self, cv, weighted):
        weight = np.random.default_rng(1).random(len(C)) if weighted else None
        model = StackingClassifier(CLASSIFIERS, cv=cv).fit(X, LABELS[C], weight)
        params = {} if weight is None else {"sample_weight": weight}
        folds = StratifiedKFold(5) if cv is None else StratifiedKFold(3) if cv == 3 else cv
        parts = [cross_val_predict(clone(member), X, C, cv=folds, method="predict_proba",
                                   params=params) for _, member in CLASSIFIERS]  # fmt: skip
        final = logistic(9).fit(np.hstack(parts), C, weight)
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)
        members = [clone(member).fit(X, C, **params) for _, member in CLASSIFIERS]
        expected = final.predict_proba(shares_of(members, X))
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.predict(X), LABELS[expected.argmax(axis=1)])
        np.testing.assert_array_equal(model.transform(X), shares_of(members, X))
        assert model.score(X, LABELS[C]) == accuracy_score(LABELS[C], model.predict(X))

    @pytest.mark.parametrize("cv", [None, 4, KFold(3, shuffle=True, random_state=1)])
    def test_regressor(self, cv):
        model = StackingRegressor(REGRESSORS, cv=cv, passthrough=True).fit(XR, Y)
        parts = [
            cross_val_predict(clone(member), XR, Y, cv=cv)[:, None] for _, member in REGRESSORS
        ]
        final = RidgeRegression().fit(np.hstack([*parts, XR]), Y)
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)
        members = [clone(member).fit(XR, Y) for _, member in REGRESSORS]
        table = np.column_stack([*(member.predict(XR) for member in members), XR])
        np.testing.assert_array_equal(model.transform(XR), table)
        np.testing.assert_array_equal(model.predict(XR), final.predict(table))

    def test_two_classes_are_one_column(self):
        members = [("bayes", GaussianNB()), ("line", Perceptron()), ("near", NearestMean())]
        model = StackingClassifier(members).fit(XB, B)
        assert model.stack_method_ == ["predict_proba", "decision_function", "predict"]
        table = model.transform(XB)
        fitted = model.named_estimators_
        np.testing.assert_array_equal(table[:, 0], fitted.bayes.predict_proba(XB)[:, 1])
        np.testing.assert_array_equal(table[:, 1], fitted.line.decision_function(XB))
        np.testing.assert_array_equal(table[:, 2], fitted.near.predict(XB))
        assert table.shape == (len(B), 3)

    @pytest.mark.parametrize("method", ["predict_proba", "decision_function", "predict"])
    def test_methods(self, method):
        member = {"predict_proba": GaussianNB(), "decision_function": NearestMeanWithDecisions(),
                  "predict": NearestMean()}[method]  # fmt: skip
        model = StackingClassifier([("it", member)], stack_method=method, cv=3).fit(X, LABELS[C])
        fitted = clone(member).fit(X, C)
        answer = getattr(fitted, method)(X)
        np.testing.assert_array_equal(model.transform(X), answer.reshape(len(C), -1))
        found = cross_val_predict(clone(member), X, C, cv=3, method=method)
        final = logistic(3) if method == "predict_proba" else Logistic()
        final.fit(found.reshape(len(C), -1), C)
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)

    def test_it_is_scikit_learns(self):
        settings = {"final_estimator": LogisticRegression(max_iter=1000), "cv": 4}
        for passthrough in (False, True):
            settings["passthrough"] = passthrough
            mine = StackingClassifier(CLASSIFIERS[:2], **settings).fit(X, LABELS[C])
            theirs = TheirClassifier(CLASSIFIERS[:2], **settings).fit(X, LABELS[C])
            np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X))
            np.testing.assert_array_equal(mine.predict(X), theirs.predict(X))
            np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X))
            names = mine.get_feature_names_out().tolist()
            assert names == theirs.get_feature_names_out().tolist()
        settings = {"final_estimator": Ridge(), "cv": 4}
        mine, theirs = (cls(REGRESSORS, **settings).fit(XR, Y)
                        for cls in (StackingRegressor, TheirRegressor))  # fmt: skip
        np.testing.assert_allclose(mine.predict(XR), theirs.predict(XR))

    def test_groups(self):
        groups = np.random.default_rng(0).integers(0, 9, len(Y))
        model = StackingRegressor(REGRESSORS, cv=GroupKFold(3)).fit(XR, Y, groups=groups)
        parts = [cross_val_predict(clone(m), XR, Y, cv=GroupKFold(3), groups=groups)
                 for _, m in REGRESSORS]  # fmt: skip
        final = RidgeRegression().fit(np.stack(parts, axis=1), Y)
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)

    def test_time(self):
        folds = TimeSeriesSplit(4)
        with pytest.warns(UserWarning, match="predicts 90 of the 442 rows in no fold") as seen:
            model = StackingRegressor(REGRESSORS, cv=folds).fit(XR, Y)
        assert seen[0].filename == __file__
        parts = [
            np.concatenate([clone(m).fit(XR[a], Y[a]).predict(XR[b]) for a, b in folds.split(XR)])
            for _, m in REGRESSORS
        ]
        final = RidgeRegression().fit(np.stack(parts, axis=1), Y[90:])
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)
        whole = Ridge(0.1).fit(XR, Y)  # the members themselves see all rows
        np.testing.assert_array_equal(model.named_estimators_.ridge.coef_, whole.coef_)

    def test_rows_that_several_folds_predict(self):
        folds = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
        weight = np.random.default_rng(0).random(len(Y))
        model = StackingRegressor([("ridge", Ridge())], cv=folds).fit(XR, Y, weight)
        rows, values = [], []
        for seen, asked in folds.split(XR):
            rows += asked.tolist()
            values += Ridge().fit(XR[seen], Y[seen], weight[seen]).predict(XR[asked]).tolist()
        assert len(rows) == 2 * len(Y)
        final = RidgeRegression().fit(np.array(values)[:, None], Y[rows], weight[rows])
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)

    def test_folds_as_pairs(self):
        pairs = [(np.arange(100), np.arange(100, 442)), (np.arange(442) >= 100, range(100))]
        model = StackingRegressor(REGRESSORS, cv=pairs).fit(XR, Y)
        parts = []
        for _, m in REGRESSORS:
            late = clone(m).fit(XR[:100], Y[:100]).predict(XR[100:])
            parts.append(np.r_[clone(m).fit(XR[100:], Y[100:]).predict(XR[:100]), late])
        final = RidgeRegression().fit(np.stack(parts, axis=1), Y)
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)

    def test_splitters_without_a_seed_get_one(self):
        cv = KFold(3, shuffle=True)
        one, other = (StackingRegressor(REGRESSORS, cv=cv).fit(XR, Y) for _ in range(2))
        np.testing.assert_array_equal(one.final_estimator_.coef_, other.final_estimator_.coef_)
        given = KFold(3, shuffle=True, random_state=7)
        given = StackingRegressor(REGRESSORS, cv=given).fit(XR, Y)
        seeded = StackingRegressor(REGRESSORS, cv=cv, random_state=7).fit(XR, Y)
        np.testing.assert_array_equal(given.final_estimator_.coef_, seeded.final_estimator_.coef_)
        assert cv.random_state is None
        assert (one.final_estimator_.coef_ != seeded.final_estimator_.coef_).any()


class TestHoldout:
    @pytest.mark.parametrize("cv, share, seed", [("holdout", 0.2, 0), (0.5, 0.5, 3)])
    def test_classifier(self, cv, share, seed):
        model = StackingClassifier(CLASSIFIERS, cv=cv, random_state=seed).fit(X, LABELS[C])
        seen, asked = holdout_rows(len(C), share, C, seed, "")
        members = [clone(m).fit(X[seen], C[seen]) for _, m in CLASSIFIERS]
        final = logistic(9).fit(shares_of(members, X[asked]), C[asked])
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)
        np.testing.assert_array_equal(model.transform(X), shares_of(members, X))

    def test_regressor_with_weights(self):
        weight = np.random.default_rng(0).random(len(Y))
        members = [("ridge", Ridge(0.1)), ("tree", DecisionTreeRegressor(random_state=0))]
        model = StackingRegressor(members, cv=0.3).fit(XR, Y, weight)
        seen, asked = holdout_rows(len(Y), 0.3, None, 0, "")
        fitted = [clone(m).fit(XR[seen], Y[seen], weight[seen]) for _, m in members]
        table = np.stack([m.predict(XR[asked]) for m in fitted], axis=1)
        final = RidgeRegression().fit(table, Y[asked], weight[asked])
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)

    def test_prefit(self):
        members = [(name, clone(m).fit(X[::2], LABELS[C[::2]])) for name, m in CLASSIFIERS]
        members.append(("near", NearestMean().fit(X[::2], LABELS[C[::2]])))
        model = StackingClassifier(members, cv="prefit").fit(X[1::2], LABELS[C[1::2]])
        assert model.estimators_ == [member for _, member in members]
        votes = np.searchsorted(LABELS, members[3][1].predict(X))
        table = np.column_stack([shares_of([m for _, m in members[:3]], X), votes])
        np.testing.assert_array_equal(model.transform(X), table)
        final = logistic(9).fit(table[1::2], C[1::2])
        np.testing.assert_array_equal(model.predict(X), LABELS[final.predict(table)])


class TestFinalEstimator:
    def test_two_layers(self):
        second = StackingClassifier([("near", KNeighborsClassifier()), ("bayes", GaussianNB())])
        model = StackingClassifier(CLASSIFIERS, second).fit(X, LABELS[C])
        parts = [cross_val_predict(clone(m), X, C, cv=5, method="predict_proba")
                 for _, m in CLASSIFIERS]  # fmt: skip
        expected = clone(second).fit(np.hstack(parts), C)
        np.testing.assert_array_equal(
            model.predict(X), LABELS[expected.predict(model.transform(X))]
        )
        inner = model.final_estimator_
        assert inner.transform(model.transform(X)).shape == (len(C), 6)
        assert model.get_params()["final_estimator__near__n_neighbors"] == 5

    def test_spread_of_the_prediction(self):
        model = StackingRegressor(REGRESSORS, BayesianRidge()).fit(XR, Y)
        mean, std = model.predict(XR, return_std=True)
        expected = model.final_estimator_.predict(model.transform(XR), return_std=True)
        np.testing.assert_array_equal(mean, expected[0])
        np.testing.assert_array_equal(std, expected[1])

    def test_what_the_meta_model_has(self):
        model = StackingClassifier(CLASSIFIERS, KNeighborsClassifier())
        assert hasattr(model, "predict_proba") and not hasattr(model, "decision_function")
        assert not hasattr(StackingClassifier(CLASSIFIERS, Perceptron()), "predict_proba")
        assert hasattr(StackingClassifier(CLASSIFIERS), "decision_function")

    def test_it_does_not_need_weights_without_weights(self):
        model = StackingClassifier(CLASSIFIERS, KNeighborsClassifier()).fit(X, C)
        assert model.score(X, C) > 0.9

    def test_a_regressor_among_classifiers(self):
        model = StackingClassifier([*CLASSIFIERS, ("ridge", Ridge())]).fit(X, LABELS[C])
        np.testing.assert_array_equal(model.transform(X)[:, -1], Ridge().fit(X, C).predict(X))

    def test_several_outputs(self):
        outputs = np.stack([Y, Y**2], axis=1)
        model = StackingRegressor([*REGRESSORS, ("forest", RandomForestRegressor(5))])
        model.fit(XR, outputs)
        assert model.transform(XR).shape == (len(Y), 6)
        assert model.predict(XR).shape == outputs.shape and model.score(XR, outputs) > 0.5
        names = model.get_feature_names_out().tolist()
        assert names[:2] == ["stackingregressor_near0", "stackingregressor_near1"]

    def test_several_labels(self):
        labels = np.stack([C == 0, C == 1, X[:, 0] > 0], axis=1).astype(int)
        members = [("near", KNeighborsClassifier()), ("tree", TREE)]
        model = StackingClassifier(members, KNeighborsClassifier()).fit(X, labels)
        near = KNeighborsClassifier().fit(X, labels)
        table = model.transform(X)
        expected = np.stack([share[:, 1] for share in near.predict_proba(X)], axis=1)
        np.testing.assert_array_equal(table[:, :3], expected)
        assert table.shape == (len(C), 6) and [c.tolist() for c in model.classes_] == [[0, 1]] * 3
        assert (model.predict(X) == labels).mean() > 0.95
        final = model.final_estimator_.predict_proba(table)
        shares = np.stack([share[:, 1] for share in final], axis=1)
        np.testing.assert_array_equal(model.predict_proba(X), shares)


class TestMembers:
    def test_dropped(self):
        model = StackingClassifier([*CLASSIFIERS, ("none", "drop")]).fit(X, C)
        model.set_params(tree="drop").fit(X, C)
        plain = StackingClassifier([CLASSIFIERS[0], CLASSIFIERS[2]]).fit(X, C)
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
        assert model.named_estimators_["tree"] == "drop"
        assert model.stack_method_ == ["predict_proba"] * 2
        names = [f"stackingclassifier_{m}{k}" for m in ("bayes", "forest") for k in range(3)]
        assert model.get_feature_names_out().tolist() == names

    def test_one_member(self):
        model = StackingRegressor(REGRESSORS[:1]).fit(XR, Y)
        assert model.transform(XR).shape == (len(Y), 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_jobs", [2, -1])
    def test_processes(self, n_jobs):
        alone = StackingClassifier(CLASSIFIERS, cv=3).fit(X, C)
        spread = StackingClassifier(CLASSIFIERS, cv=3, n_jobs=n_jobs).fit(X, C)
        np.testing.assert_array_equal(alone.predict_proba(X), spread.predict_proba(X))

    def test_a_search(self):
        grid = {"tree__max_depth": [1, 4], "final_estimator": [None, GaussianNB()]}
        search = GridSearchCV(StackingClassifier(CLASSIFIERS[:2], cv=2), grid, cv=2).fit(X, C)
        assert search.best_score_ > 0.8

    def test_pickles(self):
        model = StackingClassifier(CLASSIFIERS).fit(X, C)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))

    def test_verbose(self, capsys):
        StackingClassifier(CLASSIFIERS, verbose=1, cv=2).fit(X, C)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3 and lines[0].startswith("[Stacking] ")
        assert "(3 of 3) Processing forest, total=" in lines[2]

    def test_weights_reach_the_last_step_of_a_pipeline(self):
        weight = np.random.default_rng(0).random(len(C))
        pipe = make_pipeline(StandardScaler(), LogisticRegression())
        model = StackingClassifier([("pipe", pipe)], cv=3).fit(X, C, weight)
        found = cross_val_predict(pipe, X, C, cv=3, method="predict_proba",
                                  params={"logisticregression__sample_weight": weight})  # fmt: skip
        final = logistic(3).fit(found, C, weight)
        np.testing.assert_array_equal(model.final_estimator_.coef_, final.coef_)

    @pytest.mark.slow
    @config_context(enable_metadata_routing=True)
    def test_metadata(self):
        weight = np.random.default_rng(0).random(len(C))
        groups = np.random.default_rng(0).integers(0, 20, len(C))
        wants = LogisticRegression().set_fit_request(sample_weight=True)
        not_wants = GaussianNB().set_fit_request(sample_weight=False)
        model = StackingClassifier([("a", wants), ("b", not_wants)], cv=GroupKFold(3))
        model.fit(X, C, sample_weight=weight, groups=groups)
        expected = LogisticRegression().fit(X, C, weight).predict_proba(X)
        np.testing.assert_array_equal(model.estimators_[0].predict_proba(X), expected)
        expected = GaussianNB().fit(X, C).predict_proba(X)
        np.testing.assert_array_equal(model.estimators_[1].predict_proba(X), expected)
        search = GridSearchCV(model, {"a__C": [1.0]}, cv=GroupKFold(2))
        assert search.fit(X, C, sample_weight=weight, groups=groups).best_score_ > 0.8

    @config_context(enable_metadata_routing=True)
    def test_metadata_of_some_rows(self):
        class Keeps(NearestMean):
            def fit(self, X, y, tag=None, scale=None, name=None):
                self.given_ = tag, scale, name, X
                return super().fit(X, y)

        member = Keeps().set_fit_request(tag=True, scale=True, name=True)
        model = StackingClassifier([("it", member)], cv=0.5)
        model.fit(X, C, tag=pd.Series(X[:, 0]), scale=[1, 2], name="abc")
        tag, scale, name, seen = model.estimators_[0].given_
        np.testing.assert_array_equal(tag, seen[:, 0])
        assert len(tag) == len(C) // 2 and scale == [1, 2] and name == "abc"


class TestData:
    @pytest.mark.parametrize(
        "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
    )
    @pytest.mark.parametrize("cv", [3, "holdout"])
    def test_frames(self, make, cv):
        frame = make({f"f{j}": X[:, j] for j in range(X.shape[1])})
        settings = {"cv": cv, "passthrough": True}
        model = StackingClassifier(CLASSIFIERS, **settings).fit(frame, LABELS[C])
        plain = StackingClassifier(CLASSIFIERS, **settings).fit(X, LABELS[C])
        np.testing.assert_array_equal(model.predict_proba(frame), plain.predict_proba(X))
        assert model.feature_names_in_.tolist() == [f"f{j}" for j in range(X.shape[1])]
        assert model.get_feature_names_out().tolist()[-2:] == ["f4", "f5"]
        assert plain.get_feature_names_out().tolist()[-2:] == ["x4", "x5"]

    def test_the_index_of_a_frame_does_not_matter(self):
        frame = pd.DataFrame(X, index=np.arange(len(C))[::-1] * 7).add_prefix("f")
        model = StackingClassifier(CLASSIFIERS).fit(frame, pd.Series(C, index=range(5, 183)))
        plain = StackingClassifier(CLASSIFIERS).fit(X, C)
        np.testing.assert_array_equal(model.predict(frame), plain.predict(X))

    def test_text_columns(self):
        frame = pd.DataFrame({"color": np.array(["a", "b", "c"])[C], "size": X[:, 0]})
        encoder = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        forest = RandomForestClassifier(5, categorical_features=["color"])
        model = StackingClassifier([("encoded", encoder), ("forest", forest)]).fit(frame, C)
        assert model.score(frame, C) > 0.95

    def test_documents(self):
        words = np.array(["grape skin", "pink", "clear light"])
        texts = [f"{words[code]} {i % 7}" for i, code in enumerate(C)]
        member = make_pipeline(CountVectorizer(), LogisticRegression())
        model = StackingClassifier([("words", member)]).fit(texts, LABELS[C])
        assert model.score(texts, LABELS[C]) == 1 and not hasattr(model, "n_features_in_")

    @pytest.mark.parametrize("passthrough", [False, True])
    @pytest.mark.parametrize("container", few([scipy.sparse.csr_array, scipy.sparse.csc_array], 0))
    def test_sparse(self, container, passthrough):
        members = [("linear", LogisticRegression()), ("tree", TREE)]
        settings = {"final_estimator": LogisticRegression(), "passthrough": passthrough}
        model = StackingClassifier(members, **settings).fit(container(X), C)
        dense = StackingClassifier(members, **settings).fit(X, C)
        table = model.transform(container(X))
        assert scipy.sparse.issparse(table) is passthrough
        table = table.toarray() if passthrough else table
        np.testing.assert_allclose(table, dense.transform(X), atol=1e-5)

    def test_set_output(self):
        frame = pd.DataFrame(X).add_prefix("f")
        model = StackingClassifier(CLASSIFIERS, passthrough=True).set_output(transform="pandas")
        out = model.fit(frame, C).transform(frame)
        assert list(out.columns) == list(model.get_feature_names_out())
        plain = StackingClassifier(CLASSIFIERS, passthrough=True).fit(frame, C)
        np.testing.assert_array_equal(model.predict(frame), plain.predict(frame))


class TestDevices:
    """On a stand-in for CuPy, whose arrays are NumPy's in disguise."""

    @pytest.fixture
    def cupy(self, monkeypatch):
        return strict_cupy.install(monkeypatch)

    @pytest.mark.parametrize("final", [None, LogisticRegression()], ids=["own", "theirs"])
    @pytest.mark.parametrize("cv", [3, 0.3])
    def test_members_of_different_kinds(self, cupy, cv, final):
        X32 = X.astype(np.float32)
        gpu, y = (strict_cupy.on_gpu(cupy, array, 1) for array in (X32, C))
        members = [("own", gpuens.DecisionTreeClassifier(device="cpu")), ("bayes", GaussianNB()),
                   ("near", NearestMean()), ("more", NearestMean())]  # fmt: skip
        settings = {"cv": cv, "passthrough": True}
        model = StackingClassifier(members, final, **settings).fit(gpu, y)
        host = StackingClassifier(members, final, **settings).fit(X32, C)
        np.testing.assert_array_equal(
            np.asarray(model.final_estimator_.coef_), host.final_estimator_.coef_
        )
        first, second = (model.named_estimators_[name].seen_[0] for name in ("near", "more"))
        assert type(first) is np.ndarray and first is second  # copied once
        for method in ("predict", "predict_proba", "decision_function", "transform"):
            answer = getattr(model, method)(gpu)
            assert type(answer) is cupy.ndarray and answer.device.id == 1
            np.testing.assert_array_equal(answer.get(), getattr(host, method)(X32))
        assert model.score(gpu, y) == host.score(X32, C)

    def test_the_meta_model_gets_what_it_takes(self, cupy):
        gpu = strict_cupy.on_gpu(cupy, X, 0)
        cuml = type("Watched", (NearestMean,), {"__module__": "cuml.linear_model"})
        for final, kind in ((NearestMean(), np.ndarray), (cuml(), cupy.ndarray)):
            model = StackingClassifier([("bayes", GaussianNB())], final, cv=3).fit(gpu, C)
            assert all(type(array) is kind for array in model.final_estimator_.seen_)

    def test_regression(self, cupy):
        gpu, y = (strict_cupy.on_gpu(cupy, array, 0) for array in (XR, Y))
        model, host = (StackingRegressor(REGRESSORS, cv=3) for _ in range(2))
        model.fit(gpu, y), host.fit(XR, Y)
        np.testing.assert_array_equal(model.final_estimator_.coef_, host.final_estimator_.coef_)
        np.testing.assert_array_equal(model.predict(gpu).get(), host.predict(XR))
        assert type(model.predict(gpu)) is cupy.ndarray


def test_a_stack_beats_its_members():
    """Compare on unseen rows; the mean over several draws of them."""
    members = [("bayes", GaussianNB()), ("near", KNeighborsRegressorAsClassifier()), ("tree", TREE)]
    found = {name: [] for name, _ in [*members, ("stack", None)]}
    for seed in range(5):
        ((seen, asked),) = ShuffleSplit(1, test_size=0.4, random_state=seed).split(XB)
        model = StackingClassifier(members).fit(XB[seen], B[seen])
        found["stack"].append(model.score(XB[asked], B[asked]))
        for name, member in model.named_estimators_.items():
            found[name].append((member.predict(XB[asked]) == B[asked]).mean())
    means = {name: np.mean(scores) for name, scores in found.items()}
    assert means.pop("stack") >= max(means.values()) - 0.005


class KNeighborsRegressorAsClassifier(KNeighborsClassifier):
    """Neighbours by another name, to have a class of the user."""


@pytest.mark.parametrize(
    "problem", few(["two classes", "three classes", "numbers", "sparse"], "two classes", "sparse")
)
def test_boosting_trains_the_rounds_that_it_has_found_without_a_search(problem):
    kind = gpuens.GradientBoostingRegressor
    table, y = XR[:120], Y[:120]
    if problem.endswith("classes"):
        kind = gpuens.GradientBoostingClassifier
        table, y = (X[:100], C[:100]) if problem == "three classes" else (XB[:100], B[:100])
    if problem == "sparse":
        table = scipy.sparse.csr_array(np.where(table > 0, table, 0.0))
    estimator = kind(random_state=0, max_leaf_nodes=31 if problem == "numbers" else 8)
    model = clone(estimator).fit(table, y)
    again = model._with_rounds_found(estimator, problem == "sparse")
    assert again.n_estimators == model.n_iter_
    assert again.fit(table, y).forest_.fingerprint() == model.forest_.fingerprint()


def test_boosting_searches_for_rounds_once_in_a_stack():
    members = [("boosting", gpuens.GradientBoostingRegressor(random_state=0)), ("ridge", Ridge())]
    table, y = XR[:120], Y[:120]
    stack = StackingRegressor(members, cv=KFold(3)).fit(table, y)
    columns = [
        cross_val_predict(member, table, y, cv=KFold(3))
        for member in (stack.estimators_[0]._with_rounds_found(members[0][1], False), Ridge())
    ]
    final = clone(stack._final_estimator()).fit(np.column_stack(columns), y)
    assert np.array_equal(final.predict(stack.transform(table)), stack.predict(table))


def test_boosting_that_does_not_search_is_fitted_to_folds_as_it_is():
    table, y = XR[:120], Y[:120]
    estimator = gpuens.GradientBoostingRegressor(n_estimators=5, learning_rate=0.2)
    model = clone(estimator).fit(table, y)
    assert model._with_rounds_found(estimator, False) is estimator


class StopsAfter:
    """A callback that a training changes: copies of a used one stop at once."""

    def __init__(self, n_rounds):
        self.left = n_rounds

    def after_iteration(self, state):
        self.left -= 1
        return self.left <= 0


@pytest.mark.parametrize("settings", [{}, {"n_estimators": 30}])
def test_copies_in_folds_have_callbacks_that_no_training_has_used(settings):
    member = gpuens.GradientBoostingRegressor(callbacks=[StopsAfter(9)], **settings)
    stack = StackingRegressor([("boosting", member)], cv=KFold(3)).fit(XR[:120], Y[:120])
    fitted = stack.estimators_[0]
    again = fitted._with_rounds_found(member, False).fit(XR[:120], Y[:120])
    assert fitted.n_iter_ == again.n_iter_ == 9
