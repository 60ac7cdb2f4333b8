"""Quantile regression forests."""

from __future__ import annotations

import pickle
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.metrics import mean_pinball_loss

from gpuens import QuantileForestRegressor, RandomForestRegressor
from gpuens.forests import quantile as quantile_forest
from gpuens.forests.growing import Progress
from gpuens.trees import growth as tree_growth

DATA = Path(__file__).parents[3] / "shared" / "data"
NAN = float("nan")
X, Y = load_diabetes(return_X_y=True)


def raises(*parts: str) -> Any:
    return pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, parts)))


def weights_by_hand(model: Any, weight: np.ndarray, x: np.ndarray) -> list[Fraction]:
    """The weight of every training row at x, in exact fractions; weights are whole numbers."""
    leaves, own = model.apply(X), model.apply(x[None])[0]
    total = [Fraction(0)] * len(X)
    for t, rows in enumerate(model.estimators_samples_):
        copies = np.bincount(rows, minlength=len(X)) * weight.astype(int)
        copies[leaves[:, t] != own[t]] = 0
        for row in np.flatnonzero(copies):
            total[row] += Fraction(int(copies[row]), int(copies.sum()) * len(model))
    return total


def quantile_by_hand(weights: list[Fraction], quantile: Fraction) -> float:
    so_far = Fraction(0)
    for row in np.argsort(Y, kind="stable"):
        so_far += weights[row]
        if weights[row] and so_far >= quantile:
            return Y[row]
    raise AssertionError


FORESTS: dict[str, dict[str, Any]] = {
    "default": {},
    "large leaves": {"min_samples_leaf": 20},
    "all rows": {"bootstrap": False, "max_features": 0.5},
    "best first": {"max_leaf_nodes": 9},
    "pruned": {"ccp_alpha": 20.0},
    "absolute error": {"criterion": "absolute_error", "max_depth": 4},
}


@pytest.mark.parametrize("settings", FORESTS.values(), ids=FORESTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_against_brute_force(settings, weighted):
    weight = np.random.default_rng(0).integers(0, 5, len(X)) if weighted else np.ones(len(X))
    model = QuantileForestRegressor(n_estimators=6, random_state=1, **settings)
    model.fit(X, Y, weight if weighted else None)
    asked = [Fraction(k, 12) for k in range(13)]  # weights of leaves add up to some exactly
    found = model.predict(X[:15], [float(q) for q in asked])
    for x, row in zip(X[:15], found, strict=True):
        weights = weights_by_hand(model, weight, x)
        assert sum(weights) == 1
        np.testing.assert_array_equal(row, [quantile_by_hand(weights, q) for q in asked])
        mean = sum(float(w) * y for w, y in zip(weights, Y, strict=True))
        if "criterion" not in settings:
            assert model.predict(x[None], "mean")[0] == pytest.approx(mean)


def test_against_numpy():
    rng = np.random.default_rng(3)
    weight = rng.lognormal(size=len(X))
    model = QuantileForestRegressor(n_estimators=8, min_samples_leaf=4).fit(X, Y, weight)
    asked = rng.random(20)  # no sum of weights is as close to one of them as it is rounded
    leaves = model.apply(X)
    counts = [np.bincount(rows, minlength=len(X)) for rows in model.estimators_samples_]
    for row, found in enumerate(model.predict(X[:10], asked)):
        total = np.zeros(len(X))
        for t in range(8):
            inside = counts[t] * weight * (leaves[:, t] == leaves[row, t])
            total += inside / inside.sum()
        expected = np.quantile(Y, asked, weights=total, method="inverted_cdf")
        np.testing.assert_array_equal(found, expected)


def test_shapes_and_defaults():
    model = QuantileForestRegressor(n_estimators=4).fit(X, Y)
    median = model.predict(X)
    assert median.shape == (len(X),) and median.dtype == np.float64
    np.testing.assert_array_equal(model.predict(X, 0.5), median)
    np.testing.assert_array_equal(model.predict(X, [0.5]), median[:, None])
    np.testing.assert_array_equal(model.predict(X, np.array([0.9, 0.5]))[:, 1], median)
    np.testing.assert_array_equal(model.predict(X, 0), model.predict(X, [0.0, 1])[:, 0])
    forest = RandomForestRegressor(n_estimators=4).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X, "mean"), forest.predict(X))
    assert model.forest_.fingerprint() == forest.forest_.fingerprint()
    for default in (0.25, [0.1, 0.9], "mean"):
        model.set_params(default_quantiles=default)
        np.testing.assert_array_equal(model.predict(X), model.predict(X, default))
    assert set(model.predict(X, [0.0, 0.3, 1.0]).ravel()) <= set(Y)


def test_intervals():
    model = QuantileForestRegressor(n_estimators=20, min_samples_leaf=3).fit(X, Y)
    narrow, wide = model.predict_interval(X, 0.5), model.predict_interval(X)
    assert wide.shape == (len(X), 2)
    np.testing.assert_array_equal(narrow, model.predict(X, [0.25, 0.75]))
    assert bool((wide[:, 0] <= narrow[:, 0]).all() and (narrow[:, 1] <= wide[:, 1]).all())
    everything = model.predict_interval(X, 1)
    np.testing.assert_array_equal(everything, model.predict(X, [0, 1]))


@pytest.mark.parametrize("coverage", [0, 1.1, NAN, "0.9", None, True])
def test_coverage_is_a_share(coverage):
    model = QuantileForestRegressor(n_estimators=1).fit(X, Y)
    with raises("coverage must be a number in (0, 1]", repr(coverage)):
        model.predict_interval(X, coverage)


@pytest.mark.parametrize(
    "quantiles", [-0.1, 1.5, NAN, [], [0.5, NAN], [[0.5]], "median", ["a"], True, {}]
)
def test_quantiles_are_shares(quantiles):
    model = QuantileForestRegressor(n_estimators=1).fit(X, Y)
    with raises("quantiles must be a number in [0, 1]", repr(quantiles)):
        model.predict(X, quantiles)
    with raises("default_quantiles must be a number in [0, 1]", repr(quantiles)):
        QuantileForestRegressor(default_quantiles=quantiles).fit(X, Y)


def test_one_output_only():
    with raises("y has 2 columns", "MultiOutputRegressor"):
        QuantileForestRegressor(n_estimators=1).fit(X, np.stack([Y, Y], axis=1))


def test_other_parameters_are_checked():
    with raises("n_estimators must be an integer >= 1, got 0"):
        QuantileForestRegressor(n_estimators=0).fit(X, Y)


def test_the_same_on_any_number_of_threads(monkeypatch):
    models = [
        QuantileForestRegressor(n_estimators=9, min_samples_leaf=3, n_jobs=n).fit(X, Y)
        for n in (1, 2, 4)
    ]
    expected = models[0].predict(X, [0.1, 0.5, 0.9])
    monkeypatch.setattr(quantile_forest, "BLOCK_ENTRIES", 100)  # several blocks of rows
    for model in models:
        np.testing.assert_array_equal(model.predict(X, [0.1, 0.5, 0.9]), expected)
        for name in ("values", "begin", "segment", "entries"):
            kept = getattr(model._targets, name)
            np.testing.assert_array_equal(kept, getattr(models[0]._targets, name))


class TestWarmStart:
    def test_the_model_is_that_of_one_fit(self):
        whole = QuantileForestRegressor(n_estimators=7).fit(X, Y)
        parts = QuantileForestRegressor(n_estimators=3, warm_start=True).fit(X, Y)
        parts.predict(X)
        parts.set_params(n_estimators=7).fit(X, Y)
        asked = [0.05, 0.5, 0.95]
        np.testing.assert_array_equal(parts.predict(X, asked), whole.predict(X, asked))

    def test_other_targets_later(self):
        first = QuantileForestRegressor(n_estimators=1, bootstrap=False, max_leaf_nodes=2)
        model = clone(first).set_params(warm_start=True).fit(X, Y)
        model.set_params(n_estimators=2).fit(X, Y + 0.5)
        low = first.fit(X, Y).predict(X, [0, 1])
        np.testing.assert_array_equal(model.predict(X, [0, 1]), low + [0.0, 0.5])

    def test_nothing_to_add(self):
        model = QuantileForestRegressor(n_estimators=2, warm_start=True).fit(X, Y)
        expected = model.predict(X)
        with pytest.warns(UserWarning, match="does not fit new trees"):
            model.fit(X, Y)
        np.testing.assert_array_equal(model.predict(X), expected)


def test_ctrl_c_keeps_the_trees_that_are_finished(monkeypatch):
    progress = Progress.__call__
    batches = []

    def interrupted(self, first, forest, records):
        progress(self, first, forest, records)
        batches.append(forest.n_trees)
        if len(batches) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(tree_growth, "MOST_TREES", 2)
    monkeypatch.setattr(Progress, "__call__", interrupted)
    model = QuantileForestRegressor(n_estimators=9, n_jobs=1)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        model.fit(X, Y)
    n_finished = sum(batches)
    assert len(model) == n_finished < 9
    whole = QuantileForestRegressor(n_estimators=n_finished).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X, [0.1, 0.9]), whole.predict(X, [0.1, 0.9]))


def test_rows_of_weight_zero_are_in_no_leaf():
    weight = (Y < 150).astype(float)
    model = QuantileForestRegressor(n_estimators=5).fit(X, Y, weight)
    assert model.predict(X, 1.0).max() < 150


def test_targets_that_are_all_equal():
    model = QuantileForestRegressor(n_estimators=3).fit(X, np.full(len(X), 2.5))
    np.testing.assert_array_equal(model.predict(X, [0.0, 0.5, 1.0]), 2.5)


def test_out_of_bag_predictions_are_those_of_the_mean():
    settings = {"n_estimators": 30, "oob_score": True}
    model = QuantileForestRegressor(**settings).fit(X, Y)
    forest = RandomForestRegressor(**settings).fit(X, Y)
    np.testing.assert_array_equal(model.oob_prediction_, forest.oob_prediction_)
    assert model.oob_score_ == forest.oob_score_


def test_copies_predict_the_same():
    model = QuantileForestRegressor(n_estimators=5).fit(X, Y)
    expected = model.predict(X, [0.2, 0.8])
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X, [0.2, 0.8]), expected)
    np.testing.assert_array_equal(clone(model).fit(X, Y).predict(X, [0.2, 0.8]), expected)


def test_missing_values_and_categories():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 6, 500).astype(float), rng.normal(size=500)])
    table[rng.random(500) < 0.2, 1] = NAN
    y = np.isin(table[:, 0], [1, 4]) * 10.0 + np.nan_to_num(table[:, 1], nan=5.0)
    model = QuantileForestRegressor(n_estimators=20, categorical_features=[0]).fit(table, y)
    low, high = model.predict_interval(table, 0.8).T
    assert np.mean((low <= y) & (y <= high)) > 0.8
    assert np.mean(high - low) < 2.0


def real_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}")
    with np.load(path) as arrays:
        return arrays["X"], arrays["y"].astype(np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "margin"),
    [
        # Leaves spread wider than the target does around its mean where the signal is strong.
        ("california_housing", {}, 0.03),
        ("diamonds", {"max_features": 0.5}, 0.02),
    ],
)
def test_coverage_on_held_out_rows(name, settings, margin):
    table, y = real_table(name)
    test = np.random.default_rng(0).random(len(y)) < 0.3
    model = QuantileForestRegressor(**settings).fit(table[~test], y[~test])
    low, high = model.predict_interval(table[test]).T
    assert np.mean((low <= y[test]) & (y[test] <= high)) == pytest.approx(0.9, abs=margin)
    assert np.mean(y[test] < low) == pytest.approx(np.mean(y[test] > high), abs=0.01)
    for quantile in (0.05, 0.5, 0.95):
        constant = np.full(test.sum(), np.quantile(y[~test], quantile))
        loss, reference = (
            mean_pinball_loss(y[test], predicted, alpha=quantile)
            for predicted in (model.predict(table[test], quantile), constant)
        )
        assert loss < 0.6 * reference


def test_coverage_where_the_noise_is_known():
    """The spread depends on the second feature: intervals follow it."""
    rng = np.random.default_rng(5)
    table = rng.uniform(-1, 1, size=(6000, 3))
    spread = 0.2 + (table[:, 1] > 0)
    y = table[:, 0] + spread * rng.normal(size=6000)
    model = QuantileForestRegressor(n_estimators=50, min_samples_leaf=20)
    model.fit(table[:4000], y[:4000])
    low, high = model.predict_interval(table[4000:]).T
    inside = (low <= y[4000:]) & (y[4000:] <= high)
    assert inside.mean() == pytest.approx(0.9, abs=0.02)
    wide = table[4000:, 1] > 0
    for half in (wide, ~wide):
        assert inside[half].mean() == pytest.approx(0.9, abs=0.06)
    assert (high - low)[wide].mean() > 3 * (high - low)[~wide].mean()


def test_monotone_constraints_bound_means_alone():
    refused = "monotonic_cst=.* bounds means, and quantiles of the rows in leaves need not follow"
    constraints = [1, *[0] * 9]
    forest = QuantileForestRegressor(5, monotonic_cst=constraints, device="cpu")
    with pytest.raises(ValueError, match=refused):
        forest.fit(X, Y)
    forest.set_params(default_quantiles="mean").fit(X, Y)
    for ask in (lambda: forest.predict(X, 0.5), lambda: forest.predict_interval(X)):
        with pytest.raises(ValueError, match=refused):
            ask()
    plain = RandomForestRegressor(5, monotonic_cst=constraints, device="cpu").fit(X, Y)
    assert np.array_equal(forest.predict(X), plain.predict(X))
    free = forest.set_params(default_quantiles=0.5, monotonic_cst=[0] * 10).fit(X, Y)
    assert free.predict_interval(X).shape == (len(X), 2)
