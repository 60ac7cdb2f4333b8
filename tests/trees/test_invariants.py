"""What holds for every tree, whatever the data and the settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier

from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

NAN = float("nan")
MODELS = [
    *((cls, c) for cls in (DecisionTreeClassifier, ExtraTreeClassifier, RandomForestClassifier)
      for c in ("gini", "entropy", "misclassification")),
    *((cls, c) for cls in (DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor)
      for c in ("squared_error", "absolute_error", "poisson")),
]  # fmt: skip
CATEGORICAL = (2,)


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Data with ties, missing values, categories, constants and weights; and settings."""
    n, seed = draw(st.integers(1, 60)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    X = np.stack(
        [
            rng.normal(size=n),
            rng.integers(0, draw(st.integers(1, 6)), n),
            rng.integers(0, draw(st.integers(1, 40)), n),
            np.full(n, draw(st.sampled_from([NAN, 1.0, np.inf]))),
        ],
        axis=1,
    )
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.2, 0.7]))] = NAN
    weight = draw(st.sampled_from([None, "whole", "any"]))
    if weight is not None:
        weight = rng.integers(0, 3, n) if weight == "whole" else rng.exponential(size=n)
        weight = weight.astype(float)
        weight[0] = 1.0
    return {
        "X": X,
        "classes": rng.integers(0, draw(st.integers(1, 4)), (n, draw(st.integers(1, 2)))),
        "weight": weight,
        "settings": {
            "max_depth": draw(st.sampled_from([None, 1, 3])),
            "max_leaf_nodes": draw(st.sampled_from([None, None, 2, 5])),
            "min_samples_leaf": draw(st.sampled_from([1, 1, 3, 0.1])),
            "min_samples_split": draw(st.sampled_from([2, 5, 0.3])),
            "min_weight_fraction_leaf": draw(st.sampled_from([0.0, 0.0, 0.2])),
            "max_features": draw(st.sampled_from([None, 1, "sqrt"])),
            "max_bins": draw(st.sampled_from([None, 2, 20])),
            "random_state": seed,
            "categorical_features": draw(st.sampled_from([None, CATEGORICAL])),
        },
    }


@pytest.mark.parametrize("cls, criterion", MODELS)
@given(problem=problems())
@settings(max_examples=20)
def test_every_tree(cls, criterion, problem):
    X, y, weight = problem["X"], problem["classes"], problem["weight"]
    if criterion == "poisson":
        y = y + 1.0
    elif not is_classifier(cls()):
        y = y * 0.7 - 3
    forest = "Forest" in cls.__name__
    model = cls(
        criterion=criterion, **problem["settings"], **({"n_estimators": 2} if forest else {})
    )
    model.fit(X, y if y.shape[1] > 1 else y[:, 0], weight)
    count = np.ones((1, len(X)), int)
    if forest:
        rows = model.estimators_samples_
        count = np.stack([np.bincount(r, minlength=len(X)) for r in rows])
    for t, tree in enumerate(model.estimators_ if forest else [model]):
        total = count[t] * (1.0 if weight is None else weight)
        if total.any():  # else the tree stands on one row, which was not drawn
            check_nodes(tree, X, total)
            check_limits(tree, problem["settings"], len(X))
    check_predictions(model, X, y)


def check_nodes(tree: Any, X: np.ndarray, weight: np.ndarray) -> None:
    """Rows go where the nodes say that they went."""
    view = tree.tree_
    inner = np.flatnonzero(view.feature >= 0)
    left, right = view.children_left[inner], view.children_right[inner]
    np.testing.assert_array_equal(right, left + 1)
    np.testing.assert_array_equal(np.sort(np.concatenate([[0], left, right])),
                                  np.arange(view.node_count))  # fmt: skip
    assert (np.diff(left) > 0).all() and (left > inner).all()
    used = weight > 0
    reached = tree.decision_path(X[used]).toarray().astype(bool)
    np.testing.assert_array_equal(reached.sum(axis=0), view.n_node_samples)
    np.testing.assert_allclose(weight[used] @ reached, view.weighted_n_node_samples, 1e-6,
                               1e-8 * weight.sum())  # fmt: skip
    assert view.n_node_samples.min() >= 1 and (view.impurity >= 0).all()
    assert np.isfinite(view.value).all() and (view.gain[view.feature < 0] == 0).all()
    categories = view.splits_by_categories
    assert set(view.feature[categories]) <= set(CATEGORICAL)
    for node in np.flatnonzero(categories):
        assert len(view.categories_left(node)) > 0
    finite = np.isfinite(view.threshold) | categories
    assert (finite | (view.threshold == np.inf) & (view.missing_go_to_left == 0)).all()


def check_limits(tree: Any, settings: dict[str, Any], n: int) -> None:
    view = tree.tree_
    leaf = view.feature < 0
    assert view.max_depth <= (settings["max_depth"] or n)
    assert view.n_leaves <= (settings["max_leaf_nodes"] or n)
    share = view.weighted_n_node_samples / view.weighted_n_node_samples[0]
    if view.node_count > 1:
        least = settings["min_samples_leaf"]
        assert view.n_node_samples[leaf].min() >= (least if least >= 1 else least * n)
        assert share[leaf].min() >= settings["min_weight_fraction_leaf"] - 1e-12
        least = settings["min_samples_split"]
        assert view.n_node_samples[~leaf].min() >= (least if least >= 1 else least * n)


def check_predictions(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Within what training has seen, and leaf by leaf what the forest holds."""
    forest, leaves = model.forest_, model.apply(X).reshape(len(X), -1)
    held = forest.value[leaves + forest.offset[:-1]].mean(axis=1)
    predicted = model.predict(X).reshape(len(X), -1)
    if is_classifier(model):
        proba = model.predict_proba(X)
        proba = proba if isinstance(proba, list) else [proba]
        np.testing.assert_allclose(np.concatenate(proba, axis=1), held, 1e-14)
        for o, share in enumerate(proba):
            np.testing.assert_allclose(share.sum(axis=1), 1.0)
            assert share.min() >= 0 and set(predicted[:, o]) <= set(y[:, o])
    else:
        np.testing.assert_allclose(predicted, held, 1e-14)
        slack = 1e-12 * np.abs(y).max()
        assert (predicted >= y.min(axis=0) - slack).all()
        assert (predicted <= y.max(axis=0) + slack).all()
    importances = model.feature_importances_
    assert (
        importances.min() >= -1e-9
        and 3 not in np.flatnonzero(importances > 1e-9)
        or (np.isnan(X[:, 3]).any() and not np.isnan(X[:, 3]).all())
    )
