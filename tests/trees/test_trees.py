"""Single trees beside scikit-learn's: the same splits, numbers and predictions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import datasets, tree
from sklearn.base import clone, is_classifier

import gpuens
from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from tests.support.sklearn_trees import breadth_first

NAN = float("nan")
BOTH = (DecisionTreeClassifier, DecisionTreeRegressor)
ALL = (*BOTH, ExtraTreeClassifier, ExtraTreeRegressor)


@functools.cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Real data; the features as float32, as scikit-learn's trees see them."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X.astype(np.float32), y


def data_for(cls: type) -> tuple[np.ndarray, np.ndarray]:
    return table("breast_cancer" if is_classifier(cls()) else "diabetes")


@functools.cache
def without_ties(cls: type) -> tuple[np.ndarray, np.ndarray]:
    """Data on which large nodes have one best split."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    y = 3.0 * X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=400)
    return X, np.digitize(y, [-1.5, 1.5]) if is_classifier(cls()) else y


def with_missing(X: np.ndarray, share: float = 0.2, seed: int = 0) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = NAN
    return X


def weights(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.exponential(size=n) * (rng.random(n) < 0.8)


def theirs(model: Any, X: np.ndarray, y: np.ndarray, weight: Any = None) -> Any:
    """scikit-learn's tree with the same parameters."""
    cls = getattr(tree, type(model).__name__)
    own = {k: v for k, v in model.get_params().items() if k in cls().get_params()}
    return cls(**{**own, "random_state": model.random_state or 0}).fit(X, y, weight)


def assert_same_tree(ours: Any, other: Any) -> int:
    """Compare the trees from the root down to where two splits gain the same and each has chosen
    its own; the number of such places."""
    a, b = ours.tree_, other.tree_
    total, spread = b.weighted_n_node_samples[0], b.impurity[0]
    nodes, compared, ties = [(0, 0)], 0, 0
    while nodes:
        i, j = nodes.pop()
        compared += 1
        weight = b.weighted_n_node_samples[j]
        assert a.n_node_samples[i] == b.n_node_samples[j]
        close(a.weighted_n_node_samples[i], weight, 1e-9 * total)
        close(a.impurity[i] * weight, b.impurity[j] * weight, 1e-8 * total * spread)
        close(a.value[i], b.value[j], 1e-7 * total / weight)
        if a.feature[i] < 0:
            # Rounding can make scikit-learn split a pure node.
            assert b.feature[j] < 0 or b.impurity[j] < 1e-12 * spread
            continue
        left = a.children_left[i], b.children_left[j]
        right = a.children_right[i], b.children_right[j]
        same = a.feature[i] == b.feature[j] and np.isclose(a.threshold[i], b.threshold[j], 1e-12)
        # Missing values may have gone to either side, too.
        if same and a.n_node_samples[left[0]] == b.n_node_samples[left[1]]:
            nodes += [left, right]
            continue
        weighted = b.weighted_n_node_samples * b.impurity
        gain = weighted[j] - weighted[left[1]] - weighted[right[1]]
        close(a.gain[i], gain, 1e-8 * total * spread)
        ties += 1
    assert compared > 0.15 * b.node_count
    return ties


def close(actual: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, wanted, 1e-6, tolerance)


SETTINGS: dict[str, dict[str, Any]] = {
    "no limits": {},
    "depth": {"max_depth": 4},
    "best first": {"max_leaf_nodes": 12},
    "best first, depth": {"max_leaf_nodes": 20, "max_depth": 5},
    "split by rows": {"min_samples_split": 40},
    "split by share": {"min_samples_split": 0.13},
    "leaf by rows": {"min_samples_leaf": 11},
    "leaf by share": {"min_samples_leaf": 0.037},
    "leaf by weight": {"min_weight_fraction_leaf": 0.043},
    "everything": {
        "max_depth": 6, "min_samples_split": 0.05, "min_samples_leaf": 4,
        "min_weight_fraction_leaf": 0.02, "max_leaf_nodes": 17,
    },
}  # fmt: skip


class TestSettings:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
    @pytest.mark.parametrize("cls", BOTH)
    def test_same_tree(self, cls, settings, weighted):
        X, y = data_for(cls)
        weight = weights(len(y)) if weighted else None
        model = cls(**settings).fit(X, y, weight)
        assert_same_tree(model, theirs(model, X, y, weight))

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("cls, least", [
        (DecisionTreeClassifier, 0.004), (DecisionTreeRegressor, 40.0),
    ])  # fmt: skip
    def test_least_decrease_of_the_impurity(self, cls, least, weighted):
        X, y = data_for(cls)
        weight = 1e-3 * weights(len(y)) if weighted else None
        model = cls(min_impurity_decrease=least).fit(X, y, weight)
        assert 3 < model.get_n_leaves() < 40
        assert_same_tree(model, theirs(model, X, y, weight))
        whole = cls().fit(X, y, weight)
        gain = whole.tree_.gain[0] / whole.tree_.weighted_n_node_samples[0]
        for factor, n_leaves in ((1.0, 2), (1.0 + 1e-6, 1)):
            stump = cls(max_depth=1, min_impurity_decrease=gain * factor).fit(X, y, weight)
            assert stump.get_n_leaves() == n_leaves

    @pytest.mark.parametrize("max_features", [None, "sqrt", "log2", 1, 7, 0.01, 0.5, 1.0])
    @pytest.mark.parametrize("cls", ALL)
    def test_number_of_features_to_look_at(self, cls, max_features):
        X, y = data_for(cls)
        model = cls(max_features=max_features, max_depth=2).fit(X, y)
        assert model.max_features_ == theirs(model, X, y).max_features_

    @pytest.mark.slow
    def test_features_that_nodes_look_at_are_drawn_evenly(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
        roots = [
            DecisionTreeRegressor(max_depth=1, max_features=1, random_state=seed)
            .fit(X, y).tree_.feature[0]
            for seed in range(500)
        ]  # fmt: skip
        counts = np.bincount(roots, minlength=5)
        assert np.abs(counts - 100).max() < 5 * np.sqrt(500 * 0.2 * 0.8)

    @pytest.mark.parametrize("cls", ALL)
    def test_the_search_goes_on_past_constant_features(self, cls):
        X, y = data_for(cls)
        X = np.hstack([np.ones((len(y), 20), np.float32), X[:, 2:3]])
        model = cls(max_features=1).fit(X, y)
        assert set(model.tree_.feature) == {-2, 20}
        assert model.get_n_leaves() > 20

    @pytest.mark.parametrize("cls", ALL)
    def test_the_same_call_gives_the_same_tree(self, cls):
        X, y = data_for(cls)
        found = {cls(max_features=3).fit(X, y).forest_.fingerprint() for _ in range(2)}
        other = cls(max_features=3, random_state=1).fit(X, y).forest_.fingerprint()
        assert len(found) == 1 and other not in found
        by_state = [
            cls(max_features=3, random_state=np.random.RandomState(5)).fit(X, y) for _ in range(2)
        ]
        assert len({model.forest_.fingerprint() for model in by_state}) == 1

    @pytest.mark.parametrize("n_jobs", [2, -1])
    @pytest.mark.parametrize("cls", ALL)
    def test_the_number_of_threads_does_not_matter(self, cls, n_jobs):
        X, y = data_for(cls)
        X, y = np.tile(X, (8, 1)), np.tile(y, 8)
        found = {cls(n_jobs=k).fit(X, y).forest_.fingerprint() for k in (1, n_jobs)}
        assert len(found) == 1


class TestCriteria:
    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 15}, {"min_samples_leaf": 5}])
    @pytest.mark.parametrize("criterion", ["gini", "entropy", "log_loss"])
    @pytest.mark.parametrize("name", ["breast_cancer", "wine"])
    def test_classification(self, name, criterion, settings):
        X, y = table(name)
        model = DecisionTreeClassifier(criterion=criterion, **settings).fit(X, y)
        assert_same_tree(model, theirs(model, X, y))
        assert model.score(X, y) > 0.94

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 15}, {"min_samples_leaf": 5}])
    @pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
    def test_regression(self, criterion, settings, weighted):
        X, y = table("diabetes")
        weight = weights(len(y)) if weighted else None
        model = DecisionTreeRegressor(criterion=criterion, **settings).fit(X, y, weight)
        assert_same_tree(model, theirs(model, X, y, weight))

    def test_digits(self):
        X, y = table("digits")
        model = DecisionTreeClassifier(min_samples_leaf=3).fit(X, y)
        assert_same_tree(model, theirs(model, X, y))


class TestWeights:
    @pytest.mark.parametrize("cls", BOTH)
    def test_whole_numbers_are_repetitions(self, cls):
        X, y = data_for(cls)
        weight = np.random.default_rng(0).integers(0, 4, len(y))
        a = cls().fit(X, y, weight).forest_
        b = cls().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).forest_
        for name in ("feature", "threshold", "left", "cover"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        for name in ("value", "impurity", "gain"):
            actual, wanted = getattr(a, name), getattr(b, name)
            np.testing.assert_allclose(actual, wanted, 1e-9, 1e-9 * np.abs(wanted).max())

    @pytest.mark.parametrize("cls, criterion", [
        *((cls, "gini") for cls in (DecisionTreeClassifier, ExtraTreeClassifier)),
        *(
            (cls, criterion)
            for cls in (DecisionTreeRegressor, ExtraTreeRegressor)
            for criterion in ("squared_error", "absolute_error", "poisson")
        ),
    ])  # fmt: skip
    def test_rows_of_weight_zero_are_not_there(self, cls, criterion):
        X, y = data_for(cls)
        weight = weights(len(y))
        used = weight > 0
        y = y if is_classifier(cls()) else np.where(used, y, 1e200)
        model = cls(criterion=criterion, max_features=3)
        a = clone(model).fit(X, y, weight).forest_
        b = clone(model).fit(X[used], y[used], weight[used]).forest_
        assert a.fingerprint() == b.fingerprint()

    @pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-30, 0.1, 1e30, 1e300])
    @pytest.mark.parametrize("cls", BOTH)
    def test_any_scale(self, cls, scale):
        X, y = data_for(cls)
        if not is_classifier(cls()):
            y = y + np.random.default_rng(0).random(len(y))  # without ties for rounding to decide
        plain = cls().fit(X, y)
        model = cls().fit(X, y, np.full(len(y), scale))
        np.testing.assert_array_equal(model.forest_.threshold, plain.forest_.threshold)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), 1e-9)
        if scale >= 1e-30:
            cover = model.tree_.weighted_n_node_samples
            np.testing.assert_allclose(cover, plain.tree_.weighted_n_node_samples * scale)

    def test_weights_as_lists_numbers_and_series(self):
        X, y = table("wine")
        weight = np.arange(len(y)) % 3
        found = {
            DecisionTreeClassifier().fit(X, y, w).forest_.fingerprint()
            for w in (weight, weight.tolist(), pd.Series(weight), weight.astype(np.float32))
        }
        assert len(found) == 1
        one = DecisionTreeClassifier().fit(X, y, 1.0).forest_.fingerprint()
        assert one == DecisionTreeClassifier().fit(X, y).forest_.fingerprint()


class TestClassWeight:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("class_weight", [
        "balanced", {0: 1.0, 1: 2.5, 2: 0.3}, {0: 1, 1: 0, 2: 1}, {0: 2, 1: 1, 2: 1, 7: 5},
    ], ids=str)  # fmt: skip
    def test_one_output(self, class_weight, weighted):
        X, y = table("wine")
        weight = weights(len(y)) if weighted else None
        model = DecisionTreeClassifier(class_weight=class_weight, max_depth=3).fit(X, y, weight)
        assert_same_tree(model, theirs(model, X, y, weight))

    def test_text_labels(self):
        X, c = table("wine")
        y = np.array(["b", "a", "c"])[c]
        model = DecisionTreeClassifier(class_weight={"a": 3, "b": 1, "c": 0.5}).fit(X, y)
        assert_same_tree(model, theirs(model, X, y))

    @pytest.mark.parametrize("class_weight", [
        "balanced", [{0: 1.0, 1: 2.0, 2: 3.0}, {0: 5.0, 1: 1.0}],
    ], ids=str)  # fmt: skip
    def test_several_outputs(self, class_weight):
        X, c = table("wine")
        y = np.stack([c, X[:, 3] > 20], axis=1).astype(int)
        model = DecisionTreeClassifier(class_weight=class_weight).fit(X, y)
        assert_same_tree(model, theirs(model, X, y))


class TestSeveralOutputs:
    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 9}, {"min_samples_leaf": 7}])
    @pytest.mark.parametrize("criterion", ["gini", "entropy"])
    def test_classes(self, criterion, settings):
        X, c = table("wine")
        y = np.stack([c, X[:, 3] > 20, (X[:, 9] * 2).astype(int) % 4], axis=1).astype(int)
        model = DecisionTreeClassifier(criterion=criterion, **settings).fit(X[:, :9], y)
        other = theirs(model, X[:, :9], y)
        assert model.n_outputs_ == 3 and model.n_classes_ == [3, 2, 4]
        ties = assert_same_tree(model, other)
        assert model.predict(X[:, :9]).shape == (len(y), 3)
        proba = model.predict_proba(X[:, :9])
        assert [p.shape for p in proba] == [(len(y), n) for n in (3, 2, 4)]
        if not ties:
            for a, b in zip(proba, other.predict_proba(X[:, :9]), strict=True):
                np.testing.assert_allclose(a, b)
        for a, b in zip(proba, model.predict_log_proba(X[:, :9]), strict=True):
            np.testing.assert_allclose(np.exp(b), a)

    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 9}, {"min_samples_leaf": 7}])
    @pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
    def test_numbers(self, criterion, settings):
        X, y = table("diabetes")
        y = np.stack([y, 100 + 50 * np.sin(3 * y)], axis=1)
        model = DecisionTreeRegressor(criterion=criterion, **settings).fit(X, y)
        assert_same_tree(model, theirs(model, X, y))
        assert model.predict(X).shape == y.shape
        assert model.score(X, y) == 1.0 if settings == {} else model.score(X, y) < 0.9

    def test_labels_of_different_types(self):
        X, c = table("wine")
        columns = {"kind": c, "name": np.array(["x", "y", "z"])[c]}
        for y in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
            model = DecisionTreeClassifier().fit(X, y)
            predicted = model.predict(X)
            assert predicted[:, 0].tolist() == c.tolist()
            assert predicted[:, 1].tolist() == columns["name"].tolist()


class TestMissingValues:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 10}, {"min_samples_leaf": 6}])
    @pytest.mark.parametrize("cls", BOTH)
    def test_in_training(self, cls, settings, weighted):
        X, y = data_for(cls)
        X = with_missing(X)
        weight = weights(len(y)) if weighted else None
        model = cls(**settings).fit(X, y, weight)
        other = theirs(model, X, y, weight)
        if not assert_same_tree(model, other):
            Z = with_missing(X, seed=1)
            np.testing.assert_allclose(model.predict(Z), other.predict(Z), 1e-6)

    @pytest.mark.parametrize("cls", BOTH)
    def test_only_in_prediction(self, cls):
        X, y = without_ties(cls)
        model = cls(max_depth=3).fit(X, y)
        other = theirs(model, X, y)
        assert not assert_same_tree(model, other)
        Z = with_missing(X, 0.5)
        np.testing.assert_allclose(model.predict(Z), other.predict(Z), 1e-9)

    @pytest.mark.parametrize("cls", ALL)
    def test_missing_is_all_that_matters(self, cls):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 2))
        y = np.isnan(with_missing(X, 0.4))[:, 0].astype(int)
        X[y == 1, 0] = NAN
        X[:, 1] = 0.0
        model = cls(max_features=None, max_depth=1 if cls in BOTH else None).fit(X, y)
        assert model.score(X, y) == 1.0
        if cls in BOTH:
            assert model.tree_.threshold[0] == np.inf and not model.tree_.missing_go_to_left[0]

    @pytest.mark.parametrize("value", [NAN, 3.0, np.inf])
    @pytest.mark.parametrize("max_bins", [None, 8])
    @pytest.mark.parametrize("cls", ALL)
    def test_columns_without_information(self, cls, max_bins, value):
        X, y = data_for(cls)
        X = np.insert(X, 1, value, axis=1)
        model = cls(max_bins=max_bins, max_features=None).fit(X, y)
        assert 1 not in model.tree_.feature and model.score(X, y) > 0.9
        alone = cls(max_bins=max_bins).fit(X[:, 1:2], y)
        assert alone.get_n_leaves() == 1


class TestStructure:
    @pytest.fixture(params=[
        (DecisionTreeClassifier, {"max_depth": 3}),
        (DecisionTreeClassifier, {"max_leaf_nodes": 9, "criterion": "entropy"}),
        (DecisionTreeRegressor, {"max_leaf_nodes": 16}),
        (DecisionTreeRegressor, {"min_samples_leaf": 9, "criterion": "absolute_error"}),
    ], ids=str)  # fmt: skip
    def pair(self, request):
        """A tree, scikit-learn's without a difference, and their data."""
        cls, settings = request.param
        X, y = without_ties(cls)
        model = cls(**settings).fit(X, y)
        other = theirs(model, X, y)
        assert assert_same_tree(model, other) == 0
        return model, other, X, y

    def test_predictions(self, pair):
        model, other, X, y = pair
        np.testing.assert_allclose(model.predict(X), other.predict(X), 1e-9)
        np.testing.assert_allclose(model.score(X, y), other.score(X, y))
        if is_classifier(model):
            np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X))
            np.testing.assert_array_equal(model.classes_, other.classes_)

    def test_importances_and_sizes(self, pair):
        model, other, _, _ = pair
        importances = model.feature_importances_
        np.testing.assert_allclose(importances, other.feature_importances_, 1e-6, 1e-9)
        np.testing.assert_allclose(importances.sum(), 1.0)
        assert model.get_depth() == other.get_depth()
        assert model.get_n_leaves() == other.get_n_leaves()

    def test_nodes_of_rows(self, pair):
        model, other, X, _ = pair
        order = breadth_first(other.tree_)
        leaf = model.apply(X)
        assert leaf.dtype == np.int64 and leaf.shape == (len(X),)
        np.testing.assert_array_equal(order[leaf], other.apply(X))
        path = model.decision_path(X)
        assert path.format == "csr"
        np.testing.assert_array_equal(path.toarray(), other.decision_path(X).toarray()[:, order])

    def test_cost_complexity(self, pair):
        model, other, X, y = pair
        path = model.cost_complexity_pruning_path(X, y)
        expected = other.cost_complexity_pruning_path(X, y)
        np.testing.assert_allclose(path.impurities[-1], expected.impurities[-1], 1e-6)
        # scikit-learn lists a branch whose alpha is that of the one before separately.
        alphas, first = np.unique(path.ccp_alphas.round(9), return_index=True)
        theirs_alphas = np.unique(expected.ccp_alphas.round(9))
        np.testing.assert_allclose(alphas, theirs_alphas, 1e-5, 1e-8)
        middle = alphas[len(alphas) // 2] * (1 + 1e-6)
        for alpha in (middle, 1e9):
            pruned = clone(model).set_params(ccp_alpha=alpha).fit(X, y)
            wanted = clone(other).set_params(ccp_alpha=alpha).fit(X, y)
            assert pruned.get_n_leaves() == wanted.get_n_leaves()
            np.testing.assert_allclose(pruned.predict(X), wanted.predict(X), 1e-9)

    def test_weighted_path(self, pair):
        model, _, X, y = pair
        weight = weights(len(y))
        path = model.cost_complexity_pruning_path(X, y, weight)
        expected = theirs(model, X, y, weight).cost_complexity_pruning_path(X, y, weight)
        np.testing.assert_allclose(path.impurities[-1], expected.impurities[-1], 1e-6)


class TestRandomSplits:
    @pytest.mark.slow
    def test_cuts_are_uniform(self):
        x = np.array([0.0, 0.1, 0.2, 0.9, 1.0])[:, None]
        y = np.arange(5.0)
        cuts = np.sort([
            ExtraTreeRegressor(max_depth=1, random_state=seed).fit(x, y).tree_.threshold[0]
            for seed in range(500)
        ])  # fmt: skip
        distance = np.abs(cuts - (np.arange(500) + 0.5) / 500).max()
        assert distance < 1.63 / np.sqrt(500)  # Kolmogorov and Smirnov, 1 %

    def test_missing_rows_go_either_way(self):
        X = np.array([0.0, 1.0, NAN])[:, None]
        sides = [
            ExtraTreeRegressor(max_depth=1, random_state=seed)
            .fit(X, [0.0, 1.0, 2.0]).tree_.missing_go_to_left[0]
            for seed in range(200)
        ]  # fmt: skip
        assert 60 < np.sum(sides) < 140

    @pytest.mark.parametrize("cls", [ExtraTreeClassifier, ExtraTreeRegressor])
    def test_the_best_of_the_features_looked_at(self, cls):
        """All of them: the split that gains most. One: any."""
        X, y = data_for(cls)
        gains = {
            max_features: np.mean([
                cls(max_depth=1, max_features=max_features, random_state=seed)
                .fit(X, y).tree_.gain[0] for seed in range(40)
            ])
            for max_features in (1, None)
        }  # fmt: skip
        assert gains[None] > 1.5 * gains[1]

    @pytest.mark.parametrize("cls", [ExtraTreeClassifier, ExtraTreeRegressor])
    @pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
    def test_limits(self, cls, settings):
        X, y = data_for(cls)
        model = cls(**settings).fit(X, y)
        view, n = model.tree_, len(y)
        leaf = view.feature < 0
        rows, inner = view.n_node_samples[leaf], view.n_node_samples[~leaf]
        assert inner.size and view.max_depth <= settings.get("max_depth", n)
        assert leaf.sum() <= settings.get("max_leaf_nodes", n)
        for name, found in (("min_samples_leaf", rows), ("min_samples_split", inner)):
            least = settings.get(name, 1)
            assert found.min() >= (least if isinstance(least, int) else least * n)
        weight = view.weighted_n_node_samples[leaf]
        assert weight.min() >= settings.get("min_weight_fraction_leaf", 0.0) * n
        if settings == {}:
            np.testing.assert_allclose(model.predict(X), y)

    @pytest.mark.parametrize("cls", [ExtraTreeClassifier, ExtraTreeRegressor])
    def test_as_good_as_scikit_learns(self, cls):
        X, y = data_for(cls)
        even, odd = slice(0, None, 2), slice(1, None, 2)
        scores = np.empty((2, 30))
        for seed in range(30):
            model = cls(random_state=seed, min_samples_leaf=3).fit(X[even], y[even])
            other = theirs(model, X[even], y[even])
            scores[:, seed] = model.score(X[odd], y[odd]), other.score(X[odd], y[odd])
        error = np.sqrt((scores.var(axis=1, ddof=1) / 30).sum())
        assert abs(scores[0].mean() - scores[1].mean()) < 4 * error


def test_all_trees_are_exported():
    for cls in ALL:
        assert getattr(gpuens, cls.__name__) is cls
