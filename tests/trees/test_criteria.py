"""Problems in integers, and the numbers of nodes, recomputed from the rows that reach them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import xlogy

from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeRegressor,
    RandomForestClassifier,
)
from gpuens.devices.placement import CPU
from gpuens.kernels.cart.problem import MAX_TREE_WEIGHT
from gpuens.trees.criteria import (
    CLASSIFICATION,
    LARGEST_TO_SQUARE,
    REGRESSION,
    classification_problem,
    regression_problem,
)

OF_NUMBERS = [name for name in REGRESSION if name != "friedman_mse"]  # another name of the first


def problem_of(y: Any, weight: Any = None, criterion: str = "squared_error", multiplicity: int = 1):
    y = np.atleast_2d(np.asarray(y, np.float64))
    return regression_problem(y, weight, criterion, multiplicity, CPU)


class TestIntegers:
    @pytest.mark.parametrize("multiplicity", [1, 31])
    @pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-3, 1.0, 1e5, 1e300])
    def test_weights_are_as_fine_as_their_sum_allows(self, scale, multiplicity):
        weight = np.random.default_rng(0).exponential(size=1000) * scale + 5e-324
        problem = problem_of(np.arange(1000) / 1e3, weight, multiplicity=multiplicity)
        integers = problem.target.weight
        assert integers.dtype == np.int64 and integers.min() >= 1
        total = float(integers.sum()) * multiplicity
        assert MAX_TREE_WEIGHT / 5 < total <= MAX_TREE_WEIGHT
        ratio = integers / (weight / weight.max())
        tolerance = np.maximum(2.0 / integers, 1e-9)
        assert (np.abs(ratio / np.median(ratio) - 1) < tolerance + 1e-6).all()
        if scale > 1e-290:
            np.testing.assert_allclose(problem.weight, weight, atol=weight.sum() * 3e-9)

    def test_whole_numbers_stay_what_they_are(self):
        weight = np.array([3.0, 0.0, 7.0, 1.0])
        problem = problem_of(np.arange(4), weight, multiplicity=31)
        assert problem.target.weight.tolist() == [3, 1, 7, 1] and problem.weight_scale == 1.0

    def test_whole_numbers_that_are_too_large_are_scaled(self):
        weight = np.array([1.0, 2.0, 2.0**40])
        problem = problem_of(np.arange(3), weight)
        assert problem.target.weight.sum() <= MAX_TREE_WEIGHT and problem.weight_scale < 1
        assert problem.target.weight.min() == 1

    def test_the_least_weight_counts(self):
        weight = np.array([1.0, 1e-30, 1e-30])
        assert problem_of(np.arange(3), weight).target.weight[1:].tolist() == [1, 1]

    @pytest.mark.parametrize("criterion", OF_NUMBERS)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_targets(self, criterion, weighted):
        rng = np.random.default_rng(0)
        y = rng.exponential(size=(2, 500)) * [[1.0], [30.0]]
        weight = rng.exponential(size=500) if weighted else None
        problem = problem_of(y, weight, criterion, 31)
        values, integers = problem.target.values, problem.target.weight
        assert values.dtype == np.int64 and np.abs(values).max() < 2**50
        assert (np.abs(values).astype(float) @ integers * 31 < 2.0**62).all()
        back = problem.centre[:, None] + values / problem.value_scale
        np.testing.assert_allclose(
            back, y, atol=np.abs(y).max() * 2.0 ** (-24 if weighted else -38)
        )
        if criterion == "poisson":
            assert (problem.centre == 0).all() and values.min() >= 0

    @pytest.mark.parametrize("criterion", ["squared_error", "absolute_error"])
    def test_rows_of_weight_zero_do_not_set_the_scale(self, criterion):
        y, weight = np.array([1.0, 2.0, 4.0, 1.5e308, -1.5e308]), np.array([1.0, 2, 1, 0, 0])
        problem = problem_of(y, weight, criterion)
        plain = problem_of(y[:3], weight[:3], criterion)
        assert problem.centre == plain.centre == 2.5
        back = problem.centre[:, None] + problem.target.values / problem.value_scale
        np.testing.assert_allclose(back[0, :3], y[:3])

    @pytest.mark.parametrize("y", [[5.0, 5.0], [0.1, 0.1], [1e300, 1e300], [-0.0, 0.0]])
    def test_equal_targets(self, y):
        problem = problem_of(y)
        assert problem.value_scale == 1.0 and not problem.target.values.any()
        assert problem.centre[0] == y[0]

    def test_too_large_to_be_squared(self):
        largest = 0.9 * LARGEST_TO_SQUARE
        model = DecisionTreeRegressor().fit([[0.0], [1.0]], [-largest, largest])
        assert np.isfinite(model.tree_.impurity).all() and np.isfinite(model.tree_.gain).all()
        with pytest.raises(ValueError, match="y has values that are 1e.300 away.*divide y by"):
            problem_of([-1e300, 1e300])

    def test_classes_of_several_outputs_count_in_different_entries(self):
        codes = [np.array([0, 1, 2, 1]), np.array([1, 0, 0, 1])]
        problem = classification_problem(codes, (3, 2), None, "gini", 1, CPU)
        assert problem.target.classes.tolist() == [[0, 1, 2, 1], [4, 3, 3, 4]]
        assert problem.target.output_begin.tolist() == [0, 3, 5] and problem.width == 5

    def test_weights_without_a_finite_sum(self):
        with pytest.raises(ValueError, match=r"weights of the rows, up to 1e\+308.*divide them"):
            problem_of([1.0, 2.0], np.full(2, 1e308))


def impurity(criterion: str, y: np.ndarray, weight: np.ndarray, value: np.ndarray) -> float:
    """Of a node, from its rows and the prediction of one output."""
    if criterion in CLASSIFICATION:
        if criterion == "gini":
            return float(1 - (value**2).sum())
        if criterion == "misclassification":
            return float(1 - value.max())
        return float(-xlogy(value, value).sum() / np.log(2))
    if criterion == "squared_error":
        errors = (y - value) ** 2
    elif criterion == "absolute_error":
        errors = np.abs(y - value)
    else:
        errors = xlogy(y, y / value) - y + value
    return float(np.average(errors, weights=weight))


def weighted_median(y: np.ndarray, weight: np.ndarray) -> float:
    """The middle of all values that have at most half of the weight on either side."""
    inner = [
        v for v in np.unique(y)
        if weight[y < v].sum() <= weight.sum() / 2 >= weight[y > v].sum()
    ]  # fmt: skip
    return (inner[0] + inner[-1]) / 2


def predicted(criterion: str, y: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    if criterion in CLASSIFICATION:
        return np.bincount(y, weight, n_classes) / weight.sum()
    if criterion == "absolute_error":
        return np.array([weighted_median(y, weight)])
    return np.array([np.average(y, weights=weight)])


class TestNodes:
    """Every number of every node, from the definition."""

    N = 150

    @pytest.fixture(params=["plain", "whole weights", "weights"])
    def weight(self, request):
        rng = np.random.default_rng(3)
        whole = rng.integers(0, 4, self.N).astype(float)
        return {"plain": None, "whole weights": whole}.get(
            request.param, rng.exponential(size=self.N) * (whole > 0)
        )

    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 7}], ids=str)
    @pytest.mark.parametrize("n_outputs", [1, 2])
    @pytest.mark.parametrize("criterion", [*CLASSIFICATION, *OF_NUMBERS])
    def test_numbers(self, criterion, n_outputs, settings, weight):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(self.N, 4)).round(1)
        X[rng.random(self.N) < 0.1, 0] = np.nan
        y = np.nan_to_num(X[:, :1]) + X[:, 1:2] * X[:, 2:3] + rng.normal(size=(self.N, n_outputs))
        n_classes = [3, 2][:n_outputs] if criterion in CLASSIFICATION else [1] * n_outputs
        if criterion in CLASSIFICATION:
            columns = zip(y.T, n_classes, strict=True)
            y = np.stack([np.digitize(c, [0, 1][: n - 1]) for c, n in columns], axis=1)
            model = DecisionTreeClassifier(criterion=criterion, **settings)
        else:
            y = np.abs(y).round(1)
            model = DecisionTreeRegressor(criterion=criterion, **settings)
        model.fit(X, y if n_outputs > 1 else y[:, 0], weight)
        used = np.ones(self.N) if weight is None else weight
        self.check(model, criterion, X[used > 0], y[used > 0], used[used > 0], n_classes)

    def check(self, model, criterion, X, y, weight, n_classes):
        view = model.tree_
        rows_of = model.decision_path(X).toarray().astype(bool).T
        exact = 3e-7 if (weight != np.floor(weight)).any() else 1e-10
        for node, rows in enumerate(rows_of):
            w = weight[rows]
            assert view.n_node_samples[node] == rows.sum()
            cover = view.weighted_n_node_samples
            np.testing.assert_allclose(cover[node], w.sum(), 1e-12, exact * 0.01 * cover[0])
            found = 0.0
            for o, n in enumerate(n_classes):
                value = predicted(criterion, y[rows, o], w, n)
                np.testing.assert_allclose(view.value[node, o, :n], value, 1e-6, exact * 10)
                found += impurity(criterion, y[rows, o], w, value) / len(n_classes)
            np.testing.assert_allclose(view.impurity[node], found, 1e-6, exact * 10)
        self.check_gains(view, criterion)

    @staticmethod
    def check_gains(view, criterion):
        weighted = view.impurity * view.weighted_n_node_samples
        inner = np.flatnonzero(view.feature >= 0)
        children = view.children_left[inner], view.children_right[inner]
        gain = weighted[inner] - weighted[children[0]] - weighted[children[1]]
        np.testing.assert_allclose(view.gain[inner], gain, 1e-5, 1e-6 * weighted[0])
        assert (view.gain[view.feature < 0] == 0).all() and inner.size > 4
        if criterion != "misclassification":
            assert view.gain[inner].min() > -1e-9 * weighted[0]

    def test_misclassification_counts_wrong_rows(self):
        """The best single split by brute force."""
        rng = np.random.default_rng(0)
        for _ in range(20):
            X, y = rng.integers(0, 8, (40, 3)), rng.integers(0, 3, 40)
            best = 0
            for f in range(3):
                for cut in range(7):
                    sides = y[X[:, f] <= cut], y[X[:, f] > cut]
                    right = sum(np.bincount(side, minlength=3).max() for side in sides)
                    best = max(best, right)
            model = DecisionTreeClassifier(criterion="misclassification", max_depth=1).fit(X, y)
            assert (model.predict(X) == y).sum() == best
            np.testing.assert_allclose(model.tree_.gain[0], best - np.bincount(y).max())

    def test_absolute_error_by_brute_force(self):
        rng = np.random.default_rng(0)
        for _ in range(20):
            X, y = rng.integers(0, 8, (30, 2)), rng.normal(size=30)
            weight = rng.integers(1, 4, 30).astype(float)

            def loss(at, y=y, weight=weight):
                return (weight[at] * np.abs(y[at] - weighted_median(y[at], weight[at]))).sum()

            cuts = [X[:, f] <= c for f in range(2) for c in range(7)]
            losses = [loss(at) + loss(~at) for at in cuts if at.any() and not at.all()]
            model = DecisionTreeRegressor(criterion="absolute_error", max_depth=1)
            gain = model.fit(X, y, weight).tree_.gain[0]
            np.testing.assert_allclose(gain, loss(np.ones(30, bool)) - min(losses), 1e-9)

    def test_poisson_never_predicts_zero(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 3))
        y = rng.poisson(np.exp(X[:, 0] - 1)).astype(float)
        for cls in (DecisionTreeRegressor, ExtraTreeRegressor):
            assert cls(criterion="poisson").fit(X, y).predict(X).min() > 0

    def test_trees_of_a_forest_hold_the_numbers_of_their_samples(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
        model = RandomForestClassifier(3, max_bins=20).fit(X, y)
        for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
            count = np.bincount(rows, minlength=200)
            self.check(tree, "gini", X[count > 0], y[count > 0, None], count[count > 0], [2])
