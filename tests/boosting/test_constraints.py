"""Monotone and interaction constraints of gradient boosting."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.kernels.leaves.inner_nodes import bound_values
from gpuens.kernels.runtime.dispatch import Implementation, using

SMALL: dict[str, Any] = {"n_estimators": 8, "max_leaf_nodes": 8, "min_samples_leaf": 3}


def table(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A target that rises and falls along every feature, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    X[rng.random(n) < 0.1, 2] = np.nan
    y = np.sin(5 * X[:, 0]) + X[:, 0] - np.sin(5 * X[:, 1]) - X[:, 1] - np.nan_to_num(X[:, 2]) ** 2
    return X, y + rng.normal(0, 0.7, n)


def along(X: np.ndarray, feature: int, n_rows: int = 40) -> np.ndarray:
    """Rows of X with a feature at each of a series of ascending values: (n_values, n_rows, d)."""
    values = np.sort(np.r_[np.unique(X[:, feature]), -1e6, 1e6])
    values = values[~np.isnan(values)]
    rows = np.repeat(X[None, :n_rows], values.size, axis=0)
    rows[:, :, feature] = values[:, None]
    return rows


def steps(model: Any, X: np.ndarray, feature: int, predict: str = "predict") -> np.ndarray:
    """How the prediction changes from each value of a feature to the next."""
    rows = along(X, feature)
    predicted = getattr(model, predict)(rows.reshape(-1, X.shape[1]))
    predicted = predicted[:, 1] if predict == "predict_proba" else predicted
    return np.diff(predicted.reshape(rows.shape[:2]), axis=0)


REGRESSIONS = ["squared_error", "absolute_error", "huber", "quantile", "poisson"]


@pytest.mark.parametrize("loss", REGRESSIONS)
@pytest.mark.parametrize("line_search", [False, True])
def test_predictions_keep_the_order(loss, line_search):
    """Exactly, not but for rounding; and the unconstrained model would not."""
    X, y = table()
    y = np.exp(y / 2) if loss == "poisson" else y
    settings = SMALL | {"loss": loss, "line_search": line_search}
    settings |= {"quantile": 0.7} if loss == "quantile" else {}
    free = GradientBoostingRegressor(**settings).fit(X, y)
    model = GradientBoostingRegressor(**settings, monotonic_cst=[1, -1, 0]).fit(X, y)
    assert steps(free, X, 0).min() < 0 < steps(free, X, 1).max()
    assert steps(model, X, 0).min() >= 0
    assert steps(model, X, 1).max() <= 0
    assert steps(model, X, 2).min() < 0 < steps(model, X, 2).max()


@pytest.mark.parametrize("loss", ["log_loss", "exponential", "focal"])
def test_probabilities_keep_the_order(loss):
    X, y = table()
    model = GradientBoostingClassifier(loss, **SMALL, monotonic_cst=[1, -1, 0]).fit(X, y > 0)
    assert steps(model, X, 0, "predict_proba").min() >= 0
    assert steps(model, X, 1, "predict_proba").max() <= 0


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([-1, 0, 1]), min_size=3, max_size=3),
    st.sampled_from(["squared_error", "absolute_error"]),
    st.sampled_from([1, 5]),
    st.booleans(),
)
def test_any_data_and_any_constraints(seed, constraints, loss, least, level_wise):
    """Ties, weights, missing values; all features constrained at once."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, size=(60, 3)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.normal(size=60) * 10.0 ** rng.integers(-3, 4)
    model = GradientBoostingRegressor(
        loss,
        n_estimators=4,
        max_leaf_nodes=None if level_wise else 9,
        max_depth=4,
        min_samples_leaf=least,
        l2_regularization=float(rng.integers(0, 2)),
        monotonic_cst=constraints,
    ).fit(X, y, sample_weight=rng.integers(0, 3, 60) + 0.5)
    for feature, direction in enumerate(constraints):
        if direction:
            assert (direction * steps(model, X, feature)).min() >= 0


def test_several_targets_and_quantiles_keep_the_order_each():
    X, y = table()
    model = GradientBoostingRegressor(**SMALL, monotonic_cst=[1, 0, 0]).fit(X, np.c_[y, -y])
    predicted = model.predict(along(X, 0).reshape(-1, 3)).reshape(-1, 40, 2)
    assert np.diff(predicted, axis=0).min() >= 0
    model = GradientBoostingRegressor(
        "quantile", quantile=[0.2, 0.8], **SMALL, monotonic_cst=[1, 0, 0]
    ).fit(X, y)
    predicted = model.predict(along(X, 0).reshape(-1, 3)).reshape(-1, 40, 2)
    assert np.diff(predicted, axis=0).min() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("constraints", [[1, -1, 0], [1, 0, 0]])
def test_as_accurate_as_scikit_learn(constraints):
    X, y = table(4000)
    X_test, y_test = table(4000, seed=1)
    same = {"min_samples_leaf": 20, "monotonic_cst": constraints}
    ours = GradientBoostingRegressor(l2_regularization=0.0, **same).fit(X, y)
    theirs = HistGradientBoostingRegressor(early_stopping=False, **same).fit(X, y)
    scores = [r2_score(y_test, model.predict(X_test)) for model in (ours, theirs)]
    assert scores[0] >= scores[1] - 0.005


def test_constraints_of_zero_are_none():
    X, y = table()
    plain = GradientBoostingRegressor(**SMALL).fit(X, y)
    for nothing in ([0, 0, 0], np.zeros(3)):
        model = GradientBoostingRegressor(**SMALL, monotonic_cst=nothing).fit(X, y)
        assert model.forest_.fingerprint() == plain.forest_.fingerprint()


def test_names_of_columns():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = {"monotonic_cst": {"b": -1, "a": 1}, "interaction_cst": [{"a", "c"}, ["b"]]}
    by_position = {"monotonic_cst": [1, -1, 0], "interaction_cst": [{0, 2}, [1]]}
    model = GradientBoostingRegressor(**SMALL, **by_name).fit(frame, y)
    expected = GradientBoostingRegressor(**SMALL, **by_position).fit(X, y)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


def best_root_split(
    x: np.ndarray, g: np.ndarray, direction: int, least: int
) -> tuple[float, float, float]:
    """(gain, mean on the left, on the right) of the best ordered split of squared error, by
    enumeration."""
    best = (-np.inf, 0.0, 0.0)
    for cut in np.unique(x)[:-1]:
        left, right = g[x <= cut], g[x > cut]
        if min(left.size, right.size) < least:
            continue
        values = left.mean(), right.mean()
        gain = left.size * values[0] ** 2 + right.size * values[1] ** 2
        if direction * values[0] <= direction * values[1] and gain > best[0]:
            best = (gain, *values)
    return best


@pytest.mark.parametrize("direction", [-1, 0, 1])
def test_the_first_split_is_the_best_of_those_allowed(direction):
    X, _ = table(200)
    x = np.round(X[:, :1], 1)
    y = np.sin(5 * x[:, 0])
    model = GradientBoostingRegressor(
        n_estimators=1, learning_rate=1.0, max_leaf_nodes=2, min_samples_leaf=5,
        l2_regularization=0.0, monotonic_cst=[direction],
    ).fit(x, y)  # fmt: skip
    _, *expected = best_root_split(x[:, 0], y - y.mean(), direction, 5)
    np.testing.assert_allclose(model.forest_.value[1:, 0], expected, rtol=1e-6)


def test_values_are_bounded_by_the_middles_above_them():
    """Node 1 (value 0) and 2 (value 4) part at 2; below them a free feature splits."""
    feature = np.array([0, 1, 1, -1, -1, -1, -1], np.int32)
    left = np.array([1, 3, 5, -1, -1, -1, -1], np.int32)
    right = np.where(left < 0, -1, left + 1).astype(np.int32)

    def bounded(sign: int) -> list[float]:
        value = np.array([1.0, 0.0, 4.0, -3.0, 3.0, 1.0, 7.0])
        bound_values(feature, left, right, np.array([sign, 0], np.int8), value)
        return value.tolist()

    expected = [1.0, 0.0, 4.0, -3.0, 2.0, 2.0, 7.0]
    assert bounded(1) == expected
    # Falling, the order is wrong from the start: all meet in the middle.
    expected = [1.0, 2.0, 2.0, 2.0, 3.0, 1.0, 2.0]
    assert bounded(-1) == expected


def paths(model: Any) -> list[set[int]]:
    """The features on the path to every leaf."""
    found = []
    forest = model.forest_
    for first, last in pairwise(forest.offset.tolist()):
        stack: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
        while stack:
            node, used = stack.pop()
            if forest.feature[first + node] < 0:
                found.append(set(used))
                continue
            used = used | {int(forest.feature[first + node])}
            stack += [
                (int(forest.left[first + node]), used),
                (int(forest.right[first + node]), used),
            ]
        assert last > first
    return found


def products(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(3).normal(size=(n, 5))
    return X, X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 0] + X[:, 4]


@pytest.mark.parametrize(
    "constraint, groups",
    [
        ("no_interactions", [{k} for k in range(5)]),
        ("pairwise", [{j, k} for j in range(5) for k in range(5)]),
        ([{0, 1}, {1, 2, 3}], [{0, 1}, {1, 2, 3}, {4}]),
        ([[3, 0], (4, 2)], [{0, 3}, {2, 4}, {1}]),
        ([], [set(range(5))]),
    ],
)
@pytest.mark.parametrize(
    "sampled", [{}, {"colsample_bynode": 0.5, "colsample_bytree": 0.8}], ids=str
)
def test_paths_stay_within_a_group(constraint, groups, sampled):
    X, y = products()
    model = GradientBoostingRegressor(
        n_estimators=20,
        max_leaf_nodes=20,
        min_samples_leaf=3,
        interaction_cst=constraint,
        **sampled,
    ).fit(X, y)
    found = paths(model)
    assert all(any(path <= group for group in groups) for path in found)
    assert max(map(len, found)) >= min(2, max(map(len, groups)))
    free = GradientBoostingRegressor(
        n_estimators=20, max_leaf_nodes=20, min_samples_leaf=3, **sampled
    )
    wide = paths(free.fit(X, y))
    assert len(groups) == 1 or any(not any(path <= group for group in groups) for path in wide)


def test_a_name_says_what_its_groups_say():
    X, y = products()
    pairs = [{j, k} for j in range(5) for k in range(j)]
    for name, groups in (("pairwise", pairs), ("no_interactions", [{k} for k in range(5)])):
        a, b = (
            GradientBoostingRegressor(**SMALL, interaction_cst=cst).fit(X, y)
            for cst in (name, groups)
        )
        assert a.forest_.fingerprint() == b.forest_.fingerprint()


@pytest.mark.parametrize(
    "constraints",
    [
        {"monotonic_cst": [1, -1, 0]},
        {
            "monotonic_cst": [1, 1, 1],
            "max_leaf_nodes": None,
            "max_depth": 3,
            "min_samples_leaf": 25,
        },
        {"interaction_cst": [{0, 1}, {2}], "colsample_bynode": 0.7},
        {"interaction_cst": "pairwise", "monotonic_cst": [0, 0, -1]},
    ],
    ids=str,
)
def test_one_model_everywhere(constraints):
    X, y = table(300)
    models = [GradientBoostingRegressor(**SMALL | constraints, n_jobs=n).fit(X, y) for n in (1, 3)]
    with using(Implementation.REFERENCE):
        models.append(GradientBoostingRegressor(**SMALL | constraints).fit(X, y))
    assert len({model.forest_.fingerprint() for model in models}) == 1


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"monotonic_cst": [1, 0]}, ["monotonic_cst has shape 2", "3 features"]),
    ({"monotonic_cst": [1, 0, 2]}, ["monotonic_cst must be None or an array-like of -1, 0 or 1"]),
    ({"monotonic_cst": [[1, 0, 0]]}, ["monotonic_cst must be None or a list", "[[1, 0, 0]]"]),
    ({"monotonic_cst": {"a": 1}}, ["monotonic_cst names the feature 'a'", "no column names"]),
    ({"monotonic_cst": {0: 1}}, ["monotonic_cst as a dict must have names", "{0: 1}"]),
    ({"interaction_cst": "none"}, ["interaction_cst must be None, 'pairwise'", "'none'"]),
    ({"interaction_cst": 3}, ["interaction_cst must be None, 'pairwise'", "got 3"]),
    ({"interaction_cst": [0, 1]}, ["interaction_cst", "one of its entries is 0"]),
    ({"interaction_cst": [{0, 3}]}, ["interaction_cst must name features from 0 to 2", "got 3"]),
    ({"interaction_cst": [{"a"}]}, ["interaction_cst names the feature 'a'", "positions"]),
    ({"interaction_cst": [{0.5}]}, ["interaction_cst must name features by position", "0.5"]),
]


@pytest.mark.parametrize("constraint, parts", BAD, ids=lambda value: str(value)[:40])
def test_bad_constraints(constraint, parts):
    X, y = table(50)
    with pytest.raises((ValueError, TypeError)) as error:
        GradientBoostingRegressor(**SMALL, **constraint).fit(X, y)
    for part in parts:
        assert part in str(error.value)


def test_bad_names():
    X, y = table(50)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for parameter, value in (("monotonic_cst", {"d": 1}), ("interaction_cst", [{"a", "d"}])):
        with pytest.raises(
            ValueError, match=f"{parameter} names a column that X does not have: 'd'"
        ):
            GradientBoostingRegressor(**SMALL, **{parameter: value}).fit(frame, y)


def test_order_of_more_than_two_classes():
    X, y = table(60)
    with pytest.raises(ValueError, match="not supported with multiclass classification"):
        GradientBoostingClassifier(**SMALL, monotonic_cst=[1, 0, 0]).fit(X, np.digitize(y, [-1, 1]))
