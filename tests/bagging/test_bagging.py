"""Bagging around any estimator."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier as SklearnBaggingClassifier
from sklearn.ensemble import BaggingRegressor as SklearnBaggingRegressor
from sklearn.linear_model import (
    LinearRegression,
    Perceptron,
    Ridge,
)
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gpuens import BaggingClassifier, BaggingRegressor
from tests.support.user_estimators import NearestMean, WeightedMean

DATA = Path(__file__).parents[3] / "shared" / "data"

X, C = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
XR, Y = load_diabetes(return_X_y=True)
BOTH = [(BaggingClassifier, X, C), (BaggingRegressor, XR, Y)]
both = pytest.mark.parametrize("cls, X, y", BOTH, ids=["classifier", "regressor"])


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A real table, if it is there."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}")
    with np.load(path) as arrays:
        return arrays["X"], arrays["y"]


class TestSamples:
    @both
    @pytest.mark.parametrize("settings", [
        {}, {"max_samples": 50}, {"max_samples": 0.5}, {"max_samples": 1000},
        {"bootstrap": False, "max_samples": 0.7}, {"bootstrap": False},
    ])  # fmt: skip
    def test_size_and_order(self, cls, X, y, settings):
        model = cls(**settings, n_estimators=3).fit(X, y)
        size = settings.get("max_samples", len(X))
        size = size if isinstance(size, int) else int(size * len(X))
        assert len(model.estimators_samples_) == 3
        for rows in model.estimators_samples_:
            assert rows.dtype == np.int64 and rows.shape == (size,)
            step = np.diff(rows)
            assert (step >= 0).all() if model.bootstrap else (step > 0).all()
            assert rows[0] >= 0 and rows[-1] < len(X)

    def test_share_of_the_rows_in_a_sample(self):
        n, members = 2000, 100
        X, y = np.zeros((n, 1)), np.zeros(n)
        model = BaggingRegressor(WeightedMean(), n_estimators=members).fit(X, y)
        shares = [np.unique(rows).size / n for rows in model.estimators_samples_]
        expected = 1 - (1 - 1 / n) ** n  # 63.2 %
        sd = np.sqrt(expected * (1 - expected) / n)  # of independent rows, an upper bound
        assert abs(np.mean(shares) - expected) < 5 * sd / np.sqrt(members)
        assert np.abs(np.array(shares) - expected).max() < 5 * sd

    def test_rows_by_weight_where_the_estimator_takes_weights(self):
        model = BaggingRegressor(WeightedMean(), n_estimators=4).fit(XR, Y)
        for member, rows in zip(model, model.estimators_samples_, strict=True):
            np.testing.assert_array_equal(member.seen_[0], XR)
            np.testing.assert_array_equal(member.seen_[2], np.bincount(rows, minlength=len(XR)))
            np.testing.assert_allclose(member.mean_, Y[rows].mean())

    def test_rows_by_copy_where_it_does_not(self):
        model = BaggingClassifier(NearestMean(), n_estimators=4, max_samples=60).fit(X, C)
        for member, rows in zip(model, model.estimators_samples_, strict=True):
            np.testing.assert_array_equal(member.seen_[0], X[rows])
            np.testing.assert_array_equal(member.seen_[1], C[rows])

    @both
    @pytest.mark.parametrize("replace", [False, True])
    def test_features(self, cls, X, y, replace):
        model = cls(max_features=0.6, bootstrap_features=replace, n_estimators=8).fit(X, y)
        for member, features in zip(model, model.estimators_features_, strict=True):
            assert features.shape == (int(0.6 * X.shape[1]),) == (member.n_features_in_,)
            assert (np.diff(features) >= (0 if replace else 1)).all()
        assert len({features.tobytes() for features in model.estimators_features_}) > 1

    def test_a_member_can_be_fitted_again_by_hand(self):
        base = DecisionTreeClassifier(max_features=2)
        model = BaggingClassifier(base, max_features=5, bootstrap=False, max_samples=90).fit(X, C)
        for member, rows, features in zip(
            model, model.estimators_samples_, model.estimators_features_, strict=True
        ):
            weight = np.bincount(rows, minlength=len(X))
            part = X[:, features]
            again = clone(member).fit(part, C, weight)
            np.testing.assert_array_equal(again.predict(part), member.predict(part))

    def test_all_features_are_not_copied(self):
        X = np.ones((20, 3))
        model = BaggingRegressor(WeightedMean(), n_estimators=1).fit(X, X[:, 0])
        assert np.shares_memory(model[0].seen_[0], X)

    def test_every_random_state_is_set(self):
        base = make_pipeline(StandardScaler(), SVC(random_state=5))
        model = BaggingClassifier(base, n_estimators=5).fit(X, C)
        states = [member[-1].random_state for member in model]
        assert len(set(states)) == 5 and all(type(s) is int and 0 <= s < 2**31 for s in states)
        assert base[-1].random_state == 5


class TestSampleWeight:
    def test_it_is_the_chance_of_a_row(self):
        weight = np.zeros(len(X))
        weight[[3, 9]] = 1, 3
        model = BaggingClassifier(DummyClassifier(), max_samples=2000, n_estimators=5)
        model.fit(X, C, sample_weight=weight)
        drawn = np.bincount(np.concatenate(model.estimators_samples_), minlength=len(X))
        assert drawn.sum() == 10_000 and set(np.flatnonzero(drawn)) == {3, 9}
        assert abs(drawn[9] - 7500) < 5 * np.sqrt(10_000 * 0.25 * 0.75)

    def test_equal_weights_change_nothing(self):
        for cls, X, y in BOTH:
            model = cls(random_state=3).fit(X, y)
            weighted = cls(random_state=3).fit(X, y, sample_weight=np.full(len(X), 0.3))
            np.testing.assert_array_equal(weighted.predict(X), model.predict(X))

    def test_a_share_is_one_of_the_sum(self):
        weight = np.arange(len(X), dtype=float)
        model = BaggingClassifier(max_samples=0.25).fit(X, C, sample_weight=weight)
        assert model.estimators_samples_[0].size == int(0.25 * weight.sum())

    def test_without_replacement(self):
        weight = np.zeros(len(X))
        weight[5:60] = np.arange(55) + 1
        model = BaggingClassifier(max_samples=30, bootstrap=False)
        with pytest.warns(UserWarning, match="recommended to use bootstrap=True"):
            model.fit(X, C, sample_weight=weight)
        for rows in model.estimators_samples_:
            assert rows.shape == (30,) and (np.diff(rows) > 0).all()
            assert rows[0] >= 5 and rows[-1] < 60


class TestPredictions:
    def test_probabilities_are_averaged(self):
        model = BaggingClassifier(GaussianNB(), max_features=6).fit(X, C)
        members = zip(model, model.estimators_features_, strict=True)
        expected = np.mean([m.predict_proba(X[:, f]) for m, f in members], axis=0)
        np.testing.assert_allclose(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
        np.testing.assert_array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))

    @pytest.mark.parametrize("base, voting", [
        (Perceptron(), "auto"), (Perceptron(), "hard"), (GaussianNB(), "hard"),
    ])  # fmt: skip
    def test_votes_are_counted(self, base, voting):
        model = BaggingClassifier(base, n_estimators=7, voting=voting).fit(X, C)
        votes = np.stack([member.predict(X) for member in model])
        expected = np.stack([(votes == k).mean(axis=0) for k in range(3)], axis=1)
        np.testing.assert_allclose(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))

    def test_the_first_class_wins_a_tie(self):
        model = BaggingClassifier(NearestMean(), n_estimators=2, voting="hard").fit(X, C)
        tied = (model[0].predict(X) != model[1].predict(X)).nonzero()[0]
        assert tied.size
        pair = np.minimum(model[0].predict(X), model[1].predict(X))
        np.testing.assert_array_equal(model.predict(X)[tied], pair[tied])

    def test_soft_and_hard_voting_differ(self):
        soft, hard = (
            BaggingClassifier(GaussianNB(), voting=voting, max_samples=30).fit(X, C)
            for voting in ("soft", "hard")
        )
        assert not np.array_equal(soft.predict_proba(X), hard.predict_proba(X))
        auto = BaggingClassifier(GaussianNB(), max_samples=30).fit(X, C)
        np.testing.assert_array_equal(soft.predict_proba(X), auto.predict_proba(X))

    def test_decision_functions_are_averaged(self):
        model = BaggingClassifier(SVC(), max_samples=120).fit(X, C)
        expected = np.mean([member.decision_function(X) for member in model], axis=0)
        np.testing.assert_allclose(model.decision_function(X), expected)
        binary = BaggingClassifier(SVC()).fit(X, C == 1)
        assert binary.decision_function(X).shape == (len(X),)

    def test_no_decision_function_without_one(self):
        for model in (BaggingClassifier(), BaggingClassifier(NearestMean()).fit(X, C)):
            assert not hasattr(model, "decision_function")
        assert hasattr(BaggingClassifier(SVC()), "decision_function")

    def test_members_that_lack_classes(self):
        y = np.repeat([0, 1, 2], [90, 85, 3])
        model = BaggingClassifier(KNeighborsClassifier(1), max_samples=15).fit(X, y)
        assert min(len(member.classes_) for member in model) == 2
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        expected = np.zeros_like(proba)
        for member in model:
            expected[:, member.classes_] += member.predict_proba(X) / len(model)
        np.testing.assert_allclose(proba, expected)
        assert (proba[:, 2] == 0).any()

    def test_means_and_their_spread(self):
        model = BaggingRegressor(KNeighborsRegressor(), n_estimators=13, max_features=4).fit(XR, Y)
        members = zip(model, model.estimators_features_, strict=True)
        values = np.stack([m.predict(XR[:, f]) for m, f in members])
        mean, std = model.predict(XR, return_std=True)
        np.testing.assert_array_equal(mean, model.predict(XR))
        np.testing.assert_allclose(mean, values.mean(axis=0))
        expected = np.sqrt(((values - values.mean(axis=0)) ** 2).sum(axis=0) / 13)
        assert std.shape == (len(XR),)
        np.testing.assert_allclose(std, expected)

    def test_no_spread_where_all_agree(self):
        model = BaggingRegressor(n_estimators=7).fit(XR, np.full(len(XR), 3.0))
        mean, std = model.predict(XR, return_std=True)
        np.testing.assert_array_equal(std, 0)
        np.testing.assert_array_equal(mean, 3)

    def test_the_spread_survives_a_large_offset(self):
        small = BaggingRegressor(LinearRegression()).fit(XR, Y).predict(XR, return_std=True)[1]
        large = BaggingRegressor(LinearRegression()).fit(XR, Y + 1e9).predict(XR, return_std=True)
        np.testing.assert_allclose(large[1], small, rtol=1e-4)

    def test_several_outputs(self):
        Y2 = np.stack([Y, -Y, Y**2], axis=1)
        model = BaggingRegressor(DecisionTreeRegressor(), oob_score=True, n_estimators=30)
        model.fit(XR, Y2)
        mean, std = model.predict(XR, return_std=True)
        assert mean.shape == std.shape == model.oob_prediction_.shape == Y2.shape
        np.testing.assert_allclose(mean, np.mean([m.predict(XR) for m in model], axis=0))
        assert model.score(XR, Y2) == r2_score(Y2, mean) > 0.8
        one = BaggingRegressor(DecisionTreeRegressor()).fit(XR, Y2[:, 0])
        assert one.predict(XR).shape == (len(XR),)

    def test_score(self):
        weight = np.arange(len(X)) % 3
        model = BaggingClassifier(max_samples=20).fit(X, C)
        prediction = model.predict(X)
        assert model.score(X, C) == accuracy_score(C, prediction)
        assert model.score(X, C, weight) == accuracy_score(C, prediction, sample_weight=weight)
        weight = np.arange(len(XR)) % 3
        model = BaggingRegressor().fit(XR, Y)
        assert model.score(XR, Y, weight) == r2_score(Y, model.predict(XR), sample_weight=weight)


class TestOutOfBag:
    def test_classification_by_definition(self):
        names = np.array(["x", "y", "z"])[C]
        model = BaggingClassifier(GaussianNB(), n_estimators=30, max_features=7, oob_score=True)
        model.fit(X, names)
        total, count = np.zeros((len(X), 3)), np.zeros(len(X))
        for member, rows, features in zip(
            model, model.estimators_samples_, model.estimators_features_, strict=True
        ):
            out = np.setdiff1d(np.arange(len(X)), rows)
            total[out] += member.predict_proba(X[out][:, features])
            count[out] += 1
        expected = total / count[:, None]
        np.testing.assert_allclose(model.oob_decision_function_, expected)
        assert model.oob_score_ == np.mean(model.classes_[expected.argmax(axis=1)] == names)
        assert not hasattr(model, "oob_prediction_")

    def test_regression_by_definition(self):
        model = BaggingRegressor(KNeighborsRegressor(), n_estimators=30, oob_score=True).fit(XR, Y)
        total, count = np.zeros(len(XR)), np.zeros(len(XR))
        for member, rows in zip(model, model.estimators_samples_, strict=True):
            out = np.setdiff1d(np.arange(len(XR)), rows)
            total[out] += member.predict(XR[out])
            count[out] += 1
        np.testing.assert_allclose(model.oob_prediction_, total / count)
        assert model.oob_score_ == r2_score(Y, model.oob_prediction_)
        assert model.oob_score_ < model.score(XR, Y)

    def test_a_metric_of_the_user(self):
        settings = {"n_estimators": 30, "random_state": 1}
        model = BaggingClassifier(**settings, oob_score=balanced_accuracy_score).fit(X, C)
        oob = BaggingClassifier(**settings, oob_score=True).fit(X, C).oob_decision_function_
        assert model.oob_score_ == balanced_accuracy_score(C, oob.argmax(axis=1))

    @both
    def test_rows_that_every_member_saw(self, cls, X, y):
        model = cls(n_estimators=2, oob_score=True)
        with pytest.warns(UserWarning, match="Some inputs do not have OOB scores"):
            model.fit(X, y)
        seen = np.ones(len(X), bool)
        for rows in model.estimators_samples_:
            seen &= np.bincount(rows, minlength=len(X)) > 0
        oob = model.oob_decision_function_ if cls is BaggingClassifier else model.oob_prediction_
        np.testing.assert_array_equal(np.isnan(oob.reshape(len(X), -1)).all(axis=1), seen)
        assert -1 < model.oob_score_ < 1

    def test_a_single_row_is_never_left_out(self):
        model = BaggingRegressor(oob_score=True)
        with pytest.warns(UserWarning, match="1 of 1 rows"):
            model.fit([[1.0]], [2.0])
        assert np.isnan(model.oob_score_) and np.isnan(model.oob_prediction_).all()

    def test_it_goes_when_it_is_no_longer_asked_for(self):
        model = BaggingClassifier(oob_score=True, n_estimators=40).fit(X, C)
        model.set_params(oob_score=False).fit(X, C)
        assert not hasattr(model, "oob_score_") and not hasattr(model, "oob_decision_function_")


class TestReproducibility:
    @both
    def test_n_jobs_does_not_matter(self, cls, X, y):
        settings = {"n_estimators": 5, "oob_score": True, "max_features": 0.7}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            one, two = (cls(**settings, n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 2))
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
        assert one.oob_score_ == two.oob_score_
        if cls is BaggingClassifier:
            np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))

    @both
    def test_processes_do_not_matter(self, cls, X, y):
        """Members that do not grow together are fitted one by one, in processes if asked for."""
        member = KNeighborsClassifier() if cls is BaggingClassifier else KNeighborsRegressor()
        one, two = (cls(member, n_estimators=4, n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 2))
        np.testing.assert_array_equal(one.predict(X), two.predict(X))

    @both
    @pytest.mark.parametrize("seed", [None, 7])
    def test_warm_start_gives_what_one_go_gives(self, cls, X, y, seed):
        settings = {"random_state": seed, "max_features": 0.5, "max_samples": 0.8}
        whole = cls(n_estimators=9, **settings).fit(X, y)
        model = cls(n_estimators=4, warm_start=True, **settings).fit(X, y)
        first = model.estimators_
        model.set_params(n_estimators=9).fit(X, y)
        assert all(a is b for a, b in zip(first, model, strict=False))
        for name in ("estimators_samples_", "estimators_features_"):
            np.testing.assert_array_equal(getattr(model, name), getattr(whole, name))
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))

    def test_warm_start_on_other_rows_remembers_the_samples(self):
        model = BaggingClassifier(warm_start=True, n_estimators=2).fit(X, C)
        before = model.estimators_samples_
        model.set_params(n_estimators=4).fit(X[:70], C[:70] % 3 + np.arange(70) % 3 - C[:70])
        after = model.estimators_samples_
        assert [rows.size for rows in after] == [len(X)] * 2 + [70] * 2
        np.testing.assert_array_equal(after[:2], before)

    def test_warm_start_without_more_members_fits_nothing(self):
        model = BaggingRegressor(warm_start=True).fit(XR, Y)
        members = model.estimators_
        with pytest.warns(UserWarning, match="without increasing n_estimators"):
            model.fit(XR, Y)
        assert model.estimators_ == members

    def test_the_seed_decides(self):
        def samples(seed):
            return np.stack(BaggingRegressor(random_state=seed).fit(XR, Y).estimators_samples_)

        np.testing.assert_array_equal(samples(None), samples(None))
        np.testing.assert_array_equal(samples(4), samples(4))
        assert not np.array_equal(samples(4), samples(5))
        generator = np.random.RandomState(0)
        assert not np.array_equal(samples(generator), samples(generator))

    @both
    def test_pickle_and_clone(self, cls, X, y):
        model = cls(Perceptron() if cls is BaggingClassifier else Ridge()).fit(X, y)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        np.testing.assert_array_equal(copy.estimators_samples_, model.estimators_samples_)
        np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


@pytest.mark.slow
class TestAccuracy:
    """On real tables, beside a single tree and beside scikit-learn's bag."""

    @pytest.mark.parametrize("name", ["pima_diabetes", "vehicle", "ionosphere"])
    def test_classification(self, name):
        X, y = table(name)
        tree = DecisionTreeClassifier(random_state=0)
        scores = {
            label: cross_val_score(model, X, y, cv=5).mean()
            for label, model in {
                "tree": tree,
                "ours": BaggingClassifier(tree, n_estimators=50),
                "theirs": SklearnBaggingClassifier(tree, n_estimators=50, random_state=0),
            }.items()
        }
        assert scores["ours"] > scores["tree"]
        assert abs(scores["ours"] - scores["theirs"]) < 0.025

    def test_regression(self):
        X, y = table("california_housing")
        X, Xt, y, yt = train_test_split(X[::5], y[::5], random_state=0)
        tree = DecisionTreeRegressor(random_state=0)
        ours = BaggingRegressor(tree, n_estimators=60, oob_score=True).fit(X, y)
        theirs = SklearnBaggingRegressor(tree, n_estimators=60, random_state=0)
        score = ours.score(Xt, yt)
        assert score > tree.fit(X, y).score(Xt, yt) + 0.1
        assert abs(score - theirs.fit(X, y).score(Xt, yt)) < 0.03
        assert abs(score - ours.oob_score_) < 0.05

    def test_the_spread_says_where_errors_are_large(self):
        X, y = table("california_housing")
        X, Xt, y, yt = train_test_split(X[::5], y[::5], random_state=0)
        mean, std = BaggingRegressor(n_estimators=30).fit(X, y).predict(Xt, return_std=True)
        error, sure = np.abs(mean - yt), std < np.median(std)
        assert error[sure].mean() < 0.6 * error[~sure].mean()

    def test_stable_learners_gain_nothing(self):
        """Breiman (1996): bagging helps unstable predictors."""
        X, y = table("sonar")
        near = KNeighborsClassifier(5)
        gain = (
            cross_val_score(BaggingClassifier(near, n_estimators=30), X, y, cv=5).mean()
            - cross_val_score(near, X, y, cv=5).mean()
        )
        assert abs(gain) < 0.06
