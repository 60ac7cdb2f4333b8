"""AdaBoost against the algorithm written out by hand, against scikit-learn's, and between its own
two ways of training."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import AdaBoostClassifier as SklearnClassifier
from sklearn.ensemble import AdaBoostRegressor as SklearnRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier as SklearnTree

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from gpuens.numerics.sampling import weighted_counts
from tests.support.lanes import few

DATA = Path(__file__).parents[3] / "shared" / "data"
NAN = float("nan")
CANCER, IRIS, WINE = (f(return_X_y=True) for f in (load_breast_cancer, load_iris, load_wine))
DIABETES = load_diabetes(return_X_y=True)


def small(n_classes: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Noisy classes of rows without ties."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + 0.7 * X[:, 1] + rng.normal(scale=0.5, size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def best_stump(X: np.ndarray, y: np.ndarray, w: np.ndarray, n_classes: int) -> Any:
    """Feature, threshold and the two classes of the stump with the least weighted error, by
    trying all."""
    best = None
    for f in range(X.shape[1]):
        values = np.unique(X[:, f])
        for cut in (values[1:] + values[:-1]) / 2:
            left = X[:, f] <= cut
            sums = [np.bincount(y[s], w[s], n_classes) for s in (left, ~left)]
            error = w.sum() - sum(s.max() for s in sums)
            if best is None or error < best[0]:
                best = error, f, cut, [int(s.argmax()) for s in sums]
    return best[1:]


def by_hand(X: np.ndarray, y: np.ndarray, n_rounds: int, rate: float = 1.0) -> dict[str, Any]:
    """AdaBoost.M1 (with exp of -alpha * y * h) or SAMME as the papers write them."""
    n_classes = y.max() + 1
    w = np.full(len(y), 1 / len(y))
    found: dict[str, Any] = {"stumps": [], "errors": [], "alphas": [], "weights": []}
    for _ in range(n_rounds):
        found["weights"].append(w)
        feature, cut, classes = best_stump(X, y, w, n_classes)
        h = np.where(X[:, feature] <= cut, *classes)
        error = w[h != y].sum()
        if n_classes == 2:
            alpha = rate * 0.5 * np.log((1 - error) / error)
            w = w * np.exp(-alpha * (2 * y - 1) * (2 * h - 1))
        else:
            alpha = rate * (np.log((1 - error) / error) + np.log(n_classes - 1))
            w = w * np.exp(alpha * (h != y))
        w = w / w.sum()
        found["stumps"].append((feature, cut))
        found["errors"].append(error)
        found["alphas"].append(alpha)
        votes = found.setdefault("votes", np.zeros((len(y), n_classes)))
        votes[np.arange(len(y)), h] += alpha
    return found


class Recorded(DecisionTreeClassifier):
    """A tree that AdaBoost does not know, which keeps the weights that it was fitted with."""

    def fit(self, X, y, sample_weight=None):
        self.weights_ = sample_weight
        return super().fit(X, y, sample_weight)


class RecordedRegressor(DecisionTreeRegressor):
    def fit(self, X, y, sample_weight=None):
        self.weights_ = sample_weight
        return super().fit(X, y, sample_weight)


STUMP = {"max_depth": 1, "criterion": "misclassification"}


class TestByHand:
    @pytest.mark.parametrize("base", [DecisionTreeClassifier, Recorded])
    @pytest.mark.parametrize("rate", [1.0, 0.4])
    @pytest.mark.parametrize("n_classes", [2, 3, 4])
    def test_classes(self, n_classes, rate, base):
        X, y = small(n_classes)
        expected = by_hand(X, y, 8, rate)
        model = AdaBoostClassifier(base(**STUMP), n_estimators=8, learning_rate=rate).fit(X, y)
        stumps = [(tree.tree_.feature[0], tree.tree_.threshold[0]) for tree in model]
        np.testing.assert_allclose(stumps, expected["stumps"], rtol=1e-12)
        np.testing.assert_allclose(model.estimator_errors_, expected["errors"], rtol=1e-9)
        np.testing.assert_allclose(model.estimator_weights_, expected["alphas"], rtol=1e-9)
        np.testing.assert_array_equal(model.predict(X), expected["votes"].argmax(axis=1))
        if base is Recorded:  # weights are rounded to multiples of 2**-35
            weights = [tree.weights_ for tree in model]
            np.testing.assert_allclose(weights, expected["weights"], atol=2.0**-33)

    @pytest.mark.parametrize("rate", [1.0, 0.5])
    @pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
    @pytest.mark.parametrize("base", [DecisionTreeRegressor, RecordedRegressor])
    def test_numbers(self, base, loss, rate):
        X, y = DIABETES[0][:150], DIABETES[1][:150]
        model = AdaBoostRegressor(
            base(max_depth=3), n_estimators=6, loss=loss, learning_rate=rate, random_state=7
        ).fit(X, y)
        w = np.full(len(y), 1 / len(y))
        weights = []
        for t, tree in enumerate(model):
            counts = weighted_counts(w, len(y), 7, t)
            again = DecisionTreeRegressor(max_depth=3, random_state=tree.random_state)
            again.fit(X, y, counts.astype(float))
            assert again.forest_.fingerprint() == tree.forest_.fingerprint()
            error = np.abs(again.predict(X) - y)
            r = error / error.max()
            r = {"linear": r, "square": r**2, "exponential": 1 - np.exp(-r)}[loss]
            mean = (w * r).sum()
            beta = mean / (1 - mean)
            assert model.estimator_errors_[t] == pytest.approx(mean, rel=1e-9)
            assert model.estimator_weights_[t] == pytest.approx(rate * np.log(1 / beta), rel=1e-9)
            w = w * beta ** ((1 - r) * rate)
            w = w / w.sum()
            weights.append(rate * np.log(1 / beta))
        predictions = np.array([tree.predict(X) for tree in model])
        for i in range(0, len(y), 10):
            order = np.argsort(predictions[:, i])
            upto = np.cumsum(np.array(weights)[order])
            median = predictions[order[np.argmax(upto >= upto[-1] / 2)], i]
            assert model.predict(X[i : i + 1])[0] == median

    def test_rows_without_weight_are_not_there(self):
        X, y = small(2)
        here = np.arange(60) % 5 > 0
        settings = {"estimator": DecisionTreeClassifier(**STUMP), "n_estimators": 6}
        model = AdaBoostClassifier(**settings).fit(X, y, here.astype(float))
        other = AdaBoostClassifier(**settings).fit(X[here], y[here])
        np.testing.assert_allclose(model.estimator_errors_, other.estimator_errors_, rtol=1e-9)
        np.testing.assert_array_equal(model.predict(X), other.predict(X))
        X, y = DIABETES[0][:60], DIABETES[1][:60]
        model = AdaBoostRegressor(n_estimators=4).fit(X, y, here.astype(float))
        other = AdaBoostRegressor(n_estimators=4).fit(X[here], y[here])
        np.testing.assert_array_equal(model.estimator_weights_, other.estimator_weights_)

    def test_a_weight_of_two_is_a_row_twice(self):
        X, y = small(3)
        weight = np.arange(60) % 3
        settings = {"estimator": DecisionTreeClassifier(**STUMP), "n_estimators": 6}
        model = AdaBoostClassifier(**settings).fit(X, y, weight)
        rows = np.repeat(np.arange(60), weight)
        other = AdaBoostClassifier(**settings).fit(X[rows], y[rows])
        np.testing.assert_allclose(model.estimator_errors_, other.estimator_errors_, rtol=1e-9)

    def test_only_the_ratio_of_the_weights_matters(self):
        X, y = small(2)
        weight = np.random.default_rng(0).exponential(size=60)
        models = [
            AdaBoostClassifier(n_estimators=6).fit(X, y, weight * factor)
            for factor in (1.0, 2.0**-900, 2.0**900)
        ]
        assert len({model.forest_.fingerprint() for model in models}) == 1


class TestBesideScikitLearn:
    @pytest.mark.parametrize("rate", [1.0, 0.3])
    @pytest.mark.parametrize("X, y", [CANCER, IRIS, WINE], ids=["cancer", "iris", "wine"])
    @pytest.mark.parametrize("base", [None, SklearnTree(max_depth=1, random_state=0)])
    def test_the_same_model(self, base, X, y, rate):
        settings = {"n_estimators": 20, "learning_rate": rate}
        ours = AdaBoostClassifier(base, max_bins=None, **settings).fit(X, y)
        theirs = SklearnClassifier(base, **settings, random_state=0).fit(X, y)
        half = 0.5 if len(theirs.classes_) == 2 else 1.0
        np.testing.assert_allclose(ours.estimator_errors_, theirs.estimator_errors_, rtol=1e-9)
        np.testing.assert_allclose(
            ours.estimator_weights_, half * theirs.estimator_weights_, rtol=1e-9
        )
        for method in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
            expected = getattr(theirs, method)(X)
            np.testing.assert_allclose(getattr(ours, method)(X), expected, rtol=1e-9, atol=1e-12)
        for name in ("decision_function", "predict", "predict_proba"):
            stages = (getattr(model, f"staged_{name}")(X) for model in (ours, theirs))
            for a, b in zip(*stages, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        if X is not IRIS[0]:  # which has features that split equally well
            np.testing.assert_allclose(
                ours.feature_importances_, theirs.feature_importances_, rtol=1e-6, atol=1e-9
            )
        assert list(ours.staged_score(X, y)) == list(theirs.staged_score(X, y))
        assert ours.score(X, y) == theirs.score(X, y)

    @pytest.mark.parametrize("loss", few(["linear", "square", "exponential"], "linear"))
    def test_numbers_as_well(self, loss):
        X, y = DIABETES
        test = np.arange(len(y)) % 3 == 0

        def score(cls: type, seed: int) -> float:
            model = cls(loss=loss, random_state=seed).fit(X[~test], y[~test])
            return model.score(X[test], y[test])

        ours, theirs = (
            np.mean([score(cls, seed) for seed in range(5)])
            for cls in (AdaBoostRegressor, SklearnRegressor)
        )
        assert ours > theirs - 0.02

    def test_ten_dimensional_example(self):
        """Hastie, Tibshirani and Friedman 2009, 10.1."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6000, 10))
        y = (X**2).sum(axis=1) > 9.34
        X, y, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
        errors = [
            np.mean(model.fit(X, y).predict(X_test) != y_test)
            for model in (
                AdaBoostClassifier(n_estimators=100),
                AdaBoostClassifier(n_estimators=100, max_bins=None),
                SklearnClassifier(n_estimators=100),
            )
        ]
        assert errors[1] == errors[2] < 0.25
        assert errors[0] < errors[2] + 0.015

    @pytest.mark.slow
    @pytest.mark.parametrize("base, n, most", [
        (None, 400, 6.5), (DecisionTreeClassifier(max_leaf_nodes=16, max_bins=255), 100, 5.3),
    ], ids=["stumps", "trees"])  # fmt: skip
    def test_spambase(self, base, n, most):
        path = DATA / "spambase.npz"
        if not path.exists():
            pytest.skip(f"{path.name} is not in {DATA}")
        with np.load(path) as arrays:
            X, y, test = arrays["X"], arrays["y"], arrays["is_test"]
        model = AdaBoostClassifier(base, n_estimators=n).fit(X[~test], y[~test])
        assert 100 * (1 - model.score(X[test], y[test])) <= most


def with_categories_and_gaps(n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table, numbers to predict, and weights of which some are zero."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4)).round(1)
    X[:, 1] = rng.integers(0, 6, n)
    y = X[:, 0] + (X[:, 1] % 2) + X[:, 2] * X[:, 3] + rng.normal(scale=0.3, size=n)
    X[rng.random(n) < 0.1, 0] = NAN
    return X, y, rng.exponential(size=n) * (np.arange(n) % 7 > 0)


class OwnExtraTree(ExtraTreeClassifier):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)


class OwnExtraRegressor(ExtraTreeRegressor):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)


CLASS_TREES: list[tuple[type, type, dict[str, Any]]] = [
    (DecisionTreeClassifier, Recorded, settings)
    for settings in (
        {"max_depth": 1}, {"max_depth": 1, "max_bins": 100}, {"max_leaf_nodes": 5},
        {"max_depth": 3, "max_features": 2}, {"max_depth": 2, "categorical_features": [1]},
        {"max_depth": 3, "criterion": "entropy", "min_samples_leaf": 5, "splitter": "random"},
        {"max_depth": 4, "min_weight_fraction_leaf": 0.05, "min_impurity_decrease": 1e-3},
    )
] + [(ExtraTreeClassifier, OwnExtraTree, {"max_depth": 3})]  # fmt: skip
NUMBER_TREES: list[tuple[type, type, dict[str, Any]]] = [
    (DecisionTreeRegressor, RecordedRegressor, settings)
    for settings in (
        {"max_depth": 3}, {"max_depth": 3, "max_bins": 100},
        {"max_leaf_nodes": 6, "categorical_features": [1]},
        {"max_depth": 3, "criterion": "absolute_error"}, {"max_depth": 3, "max_features": 2},
        {"max_depth": 3, "monotonic_cst": [0, 0, 1, 0]},
    )
] + [(ExtraTreeRegressor, OwnExtraRegressor, {"max_depth": 4})]  # fmt: skip


def same_trees(fast: Any, slow: Any) -> None:
    """Whether a model of the forest and one of fitted copies are equal bit for bit."""
    assert hasattr(fast, "forest_") and not hasattr(slow, "forest_")
    np.testing.assert_array_equal(fast.estimator_weights_, slow.estimator_weights_)
    np.testing.assert_array_equal(fast.estimator_errors_, slow.estimator_errors_)
    for a, b in zip(fast, slow, strict=True):
        assert a.random_state == b.random_state
        assert a.forest_.fingerprint() == b.forest_.fingerprint()


class TestTwoWays:
    """Trees grown on one table, and fitted one by one."""

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("cls, own, settings", CLASS_TREES)
    def test_classes(self, cls, own, settings, n_classes):
        X, y, weight = with_categories_and_gaps()
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
        fast, slow = (
            AdaBoostClassifier(tree(**settings), n_estimators=5, learning_rate=0.8, random_state=3)
            for tree in (cls, own)
        )
        same_trees(fast.fit(X, y, weight), slow.fit(X, y, weight))
        for method in ("predict", "decision_function", "predict_proba"):
            expected = getattr(slow, method)(X)
            np.testing.assert_array_equal(getattr(fast, method)(X), expected, strict=True)
            if method != "predict":
                stages = (getattr(model, f"staged_{method}")(X) for model in (fast, slow))
                for a, b in zip(*stages, strict=True):
                    np.testing.assert_array_equal(a, b, strict=True)
        np.testing.assert_allclose(fast.feature_importances_, slow.feature_importances_)

    @pytest.mark.parametrize("cls, own, settings", NUMBER_TREES)
    def test_numbers(self, cls, own, settings):
        X, y, weight = with_categories_and_gaps()
        fast, slow = (
            AdaBoostRegressor(tree(**settings), n_estimators=5, loss="square", random_state=3)
            for tree in (cls, own)
        )
        same_trees(fast.fit(X, y, weight), slow.fit(X, y, weight))
        np.testing.assert_array_equal(fast.predict(X), slow.predict(X), strict=True)
        for a, b in zip(fast.staged_predict(X), slow.staged_predict(X), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)

    @pytest.mark.parametrize("settings", [
        {"class_weight": "balanced", "max_depth": 2}, {"ccp_alpha": 0.01, "max_depth": 3},
    ])  # fmt: skip
    def test_trees_that_do_more_in_fit_are_fitted(self, settings):
        X, y = CANCER
        model = AdaBoostClassifier(DecisionTreeClassifier(**settings), n_estimators=3).fit(X, y)
        assert not hasattr(model, "forest_") and model.score(X, y) > 0.9
        y = np.abs(DIABETES[1])
        base = DecisionTreeRegressor(max_depth=3, criterion="poisson")
        assert not hasattr(AdaBoostRegressor(base, n_estimators=2).fit(DIABETES[0], y), "forest_")

    @pytest.mark.parametrize("n_jobs", [1, 2, 3])
    def test_threads(self, n_jobs):
        X, y, weight = with_categories_and_gaps(5000)
        classes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
        cases = [
            (AdaBoostClassifier(n_estimators=5), classes),
            (AdaBoostClassifier(DecisionTreeClassifier(max_depth=5), n_estimators=3), classes),
            (AdaBoostRegressor(n_estimators=3, loss="exponential"), y),
        ]
        for model, target in cases:
            one, many = (
                clone(model).set_params(n_jobs=n).fit(X, target, weight) for n in (1, n_jobs)
            )
            assert one.forest_.fingerprint() == many.forest_.fingerprint()
            np.testing.assert_array_equal(one.estimator_weights_, many.estimator_weights_)

    def test_the_forest_votes(self):
        X, y = WINE
        model = AdaBoostClassifier(n_estimators=9).fit(X, y)
        raw = model.forest_.raw_predict(X) / model.estimator_weights_.sum()
        np.testing.assert_allclose(raw.T, model.decision_function(X), rtol=1e-12)
        leaves = model.apply(X)
        assert leaves.shape == (len(X), 9)
        for t, tree in enumerate(model):
            np.testing.assert_array_equal(tree.apply(X), leaves[:, t])
        X, y = DIABETES
        trees = AdaBoostRegressor(n_estimators=4).fit(X, y)
        predicted = trees.forest_.tree_predict(X)
        for t, tree in enumerate(trees):
            np.testing.assert_array_equal(tree.predict(X), predicted[:, t])


class TestLearners:
    @pytest.mark.parametrize("base", [GaussianNB(), SVC(kernel="linear"), SklearnTree(max_depth=2)])
    def test_classifiers_of_any_kind(self, base):
        X, y = WINE
        names = np.array(["red", "white", "rosé"])
        model = AdaBoostClassifier(base, n_estimators=4).fit(X, names[y])
        assert model.score(X, names[y]) > 0.9
        assert set(model.estimators_[0].predict(X)) <= set(names)
        assert model.predict(X).dtype == names.dtype

    @pytest.mark.parametrize("base", [Ridge(), KNeighborsRegressor()], ids=["weights", "rows"])
    def test_regressors_of_any_kind(self, base):
        X, y = DIABETES
        model = AdaBoostRegressor(base, n_estimators=5, random_state=1).fit(X, y)
        assert model.score(X, y) > 0.3
        counts = weighted_counts(np.ones(len(y)), len(y), 1, 0)
        rows = np.repeat(np.arange(len(y)), counts)
        first = clone(model.estimators_[0]).fit(X[rows], y[rows])
        np.testing.assert_allclose(first.predict(X), model.estimators_[0].predict(X))

    def test_each_has_a_seed_of_its_own(self):
        base = SklearnTree(max_depth=3, max_features=2)
        model = AdaBoostClassifier(base, n_estimators=6, random_state=5).fit(*WINE)
        again = AdaBoostClassifier(base, n_estimators=6, random_state=5).fit(*WINE)
        seeds = [tree.random_state for tree in model]
        assert len(set(seeds)) == 6
        assert seeds == [tree.random_state for tree in again]
        np.testing.assert_array_equal(model.predict(WINE[0]), again.predict(WINE[0]))

    def test_importances(self):
        X, y = CANCER
        model = AdaBoostClassifier(n_estimators=12).fit(X, y)
        importances = np.array([tree.feature_importances_ for tree in model])
        mean = np.average(importances, axis=0, weights=model.estimator_weights_)
        np.testing.assert_allclose(model.feature_importances_, mean)
        assert model.feature_importances_.sum() == pytest.approx(1)
        with pytest.raises(AttributeError, match="Unable to compute feature importances"):
            _ = AdaBoostClassifier(GaussianNB(), n_estimators=2).fit(X, y).feature_importances_

    @pytest.mark.parametrize("base", [None, GaussianNB()])
    def test_pickle_and_container(self, base):
        X, y = CANCER
        model = AdaBoostClassifier(base, n_estimators=3).fit(X, y)
        assert len(model) == len(model.estimators_) == len(list(model)) == 3
        assert model[1] is model.estimators_[1]
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(copy[2].predict(X), model[2].predict(X))

    def test_trees_are_not_saved_twice(self):
        model = AdaBoostClassifier(n_estimators=200).fit(*CANCER)
        size = len(pickle.dumps(model))
        assert len(list(model)) == 200
        assert len(pickle.dumps(model)) == size
        assert size < 1.3 * len(pickle.dumps((model._trees, model.forest_.value)))


class TestStages:
    @pytest.mark.parametrize("base", [None, Recorded(max_depth=1, max_bins=255)])
    def test_classes(self, base):
        X, y = WINE
        model = AdaBoostClassifier(base, n_estimators=6).fit(X, y)
        for n, (labels, decision, proba, score) in enumerate(
            zip(
                model.staged_predict(X), model.staged_decision_function(X),
                model.staged_predict_proba(X), model.staged_score(X, y), strict=True,
            ),
            1,
        ):  # fmt: skip
            shorter = AdaBoostClassifier(base, n_estimators=n).fit(X, y)
            np.testing.assert_array_equal(labels, shorter.predict(X))
            np.testing.assert_array_equal(decision, shorter.decision_function(X))
            np.testing.assert_array_equal(proba, shorter.predict_proba(X))
            assert score == accuracy_score(y, labels)
        np.testing.assert_array_equal(decision, model.decision_function(X))

    def test_numbers(self):
        X, y = DIABETES
        model = AdaBoostRegressor(n_estimators=5).fit(X, y)
        weight = np.arange(len(y)) % 3
        stages = zip(model.staged_predict(X), model.staged_score(X, y, weight), strict=True)
        for n, (predicted, score) in enumerate(stages, 1):
            shorter = AdaBoostRegressor(n_estimators=n).fit(X, y)
            np.testing.assert_array_equal(predicted, shorter.predict(X))
            assert score == r2_score(y, predicted, sample_weight=weight)
