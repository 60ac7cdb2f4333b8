"""Linear functions in the leaves of boosting."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LinearRegression

from gpuens import (
    BinnedTable,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    TreeExplainer,
    load,
)
from gpuens.boosting.steps.linear_leaves import Bounds
from gpuens.devices.placement import CPU
from gpuens.forest.export import export_text
from gpuens.forest.linear import LinearForest
from gpuens.forest.view import TreeView
from gpuens.inspection import partial_dependence as own_partial_dependence
from gpuens.saving import ModelFileError

N = 600
SMALL = {"n_estimators": 12, "linear_leaves": True, "device": "cpu", "max_leaf_nodes": 8}


def table(n=N, with_missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 4, n)
    y = np.where(X[:, 0] > 0, 3.0 * X[:, 1], -2.0 * X[:, 2]) + X[:, 3] % 2
    y += 0.05 * rng.normal(size=n)
    if with_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def regressor(**settings):
    return GradientBoostingRegressor(**SMALL | settings)


def classifier(**settings):
    return GradientBoostingClassifier(**SMALL | settings)


def classes(y, k):
    return np.digitize(y, np.quantile(y, np.linspace(0, 1, k + 1)[1:-1]))


def value_by_hand(forest, t, row):
    """What tree t adds to a row, and the leaf."""
    leaf = int(forest.apply(row[None])[0, t])
    tree = forest.slice(t, t + 1)
    value = tree.intercept[leaf]
    for c in range(tree.linear_begin[leaf], tree.linear_begin[leaf + 1]):
        value += tree.coefficient[c] * row[tree.linear_feature[c]]
    return value if np.isfinite(value) else tree.value[leaf, 0], leaf


def test_linear_functions_are_learned():
    X, y = table()
    linear, constant = regressor().fit(X, y), regressor(linear_leaves=False).fit(X, y)
    test = table(seed=1)
    error = [np.mean((model.predict(test[0]) - test[1]) ** 2) for model in (linear, constant)]
    assert error[0] < 0.5 * error[1]
    # The first round has constants, the same as without linear leaves.
    forest = linear.forest_
    assert isinstance(forest, LinearForest) and forest.slice(0, 1).coefficient.size == 0
    np.testing.assert_array_equal(forest.slice(0, 1).value, constant.forest_.slice(0, 1).value)
    assert forest.slice(1, 2).coefficient.size > 0


def test_predictions_are_the_functions_of_the_leaves():
    X, y = table(with_missing=True)
    forest = regressor(categorical_features=[3]).fit(X, y).forest_
    raw = np.full(N, forest.base[0])
    for t in range(forest.n_trees):
        raw += [value_by_hand(forest, t, row)[0] for row in X]
    np.testing.assert_array_equal(forest.raw_predict(X)[0], raw)
    expected = [value_by_hand(forest, 5, row)[0] for row in X]
    np.testing.assert_array_equal(forest.tree_predict(X)[:, 5], expected)
    assert 3 not in forest.linear_feature and 3 in forest.feature


def test_features_are_those_of_the_path():
    X, y = table(with_missing=True)
    forest = regressor().fit(X, y).forest_
    for t in range(1, forest.n_trees):
        tree = forest.slice(t, t + 1)
        paths = {0: set()}
        for node in range(tree.feature.size):
            own = tree.linear_feature[tree.linear_begin[node] : tree.linear_begin[node + 1]]
            assert set(own.tolist()) <= paths[node] and (np.diff(own) > 0).all()
            if tree.feature[node] >= 0:
                assert own.size == 0
                for child in (tree.left[node], tree.right[node]):
                    paths[child] = paths[node] | {int(tree.feature[node])}


def test_least_squares_of_a_leaf():
    """The second round of squared errors fits the residuals of the first."""
    X, y = table()
    model = regressor(n_estimators=2, learning_rate=0.5, linear_lambda=2.0).fit(X, y)
    tree, residual = model.forest_.slice(1, 2), y - next(model.staged_predict(X))
    leaf = tree.apply(X)[:, 0]
    for node in np.flatnonzero(np.diff(tree.linear_begin)):
        own = slice(tree.linear_begin[node], tree.linear_begin[node + 1])
        rows = leaf == node
        A = np.column_stack([X[rows][:, tree.linear_feature[own]], np.ones(rows.sum())])
        left = A.T @ A + 2.0 * np.diag([1.0] * (A.shape[1] - 1) + [0.0])
        expected = 0.5 * np.linalg.solve(left, A.T @ residual[rows])
        np.testing.assert_allclose(tree.coefficient[own], expected[:-1], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(tree.intercept[node], expected[-1], rtol=1e-4, atol=1e-6)


def test_as_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table(2000)
    same = {"n_estimators": 20, "learning_rate": 0.1, "random_state": 0}
    own = regressor(**same, l2_regularization=0.0, min_samples_leaf=20).fit(X, y)
    other = lightgbm.LGBMRegressor(
        **same, linear_tree=True, num_leaves=8, min_child_samples=20, verbose=-1, n_jobs=1
    ).fit(X, y)
    X, y = table(2000, seed=1)
    errors = [np.mean((model.predict(X) - y) ** 2) for model in (own, other)]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


LOSSES = {
    "squared error": (regressor, {}, None),
    "poisson": (regressor, {"loss": "poisson"}, "counts"),
    "gamma": (regressor, {"loss": "gamma"}, "positive"),
    "two classes": (classifier, {}, 2),
    "exponential": (classifier, {"loss": "exponential"}, 2),
    "classes": (classifier, {"learning_rate": 0.7}, 4),
}


def target(y, kind):
    if kind is None:
        return y
    if kind == "counts":
        return np.floor(np.exp(y / 3))
    return np.exp(y / 3) if kind == "positive" else classes(y, kind)


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("make, settings, kind", LOSSES.values(), ids=LOSSES)
def test_the_training_loss_does_not_rise(make, settings, kind, with_missing):
    X, y = table(with_missing=with_missing)
    y = target(y, kind)
    own = {"n_estimators": 40, "learning_rate": 1.0, "max_leaf_nodes": 20, "min_samples_leaf": 4}
    model = make(**own | settings).fit(X, y, eval_set=(X, y))
    losses = np.array(model.evals_result_["validation_0"]["loss"])
    assert np.diff(losses).max() <= 1e-9 * losses[0]
    assert model.forest_.coefficient.size > 0 and np.isfinite(losses).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make, k", [(regressor, 0), (classifier, 2), (classifier, 3)])
def test_all_ways_to_predictions(make, k, dtype, tmp_path):
    X, y = table(with_missing=True)
    X, y = X.astype(dtype), classes(y, k) if k else y
    model = make().fit(X, y)
    ask = "predict_proba" if k else "predict"
    expected = getattr(model, ask)(X)
    model.save(tmp_path / "model.gpuens")
    copies = [load(tmp_path / "model.gpuens"), pickle.loads(pickle.dumps(model))]
    copies.append(clone(model).fit(X, y))
    for copied in copies:
        assert copied.forest_.fingerprint() == model.forest_.fingerprint()
        np.testing.assert_array_equal(getattr(copied, ask)(X), expected)
    *_, staged = getattr(model, f"staged_{ask}")(X)
    np.testing.assert_array_equal(staged, expected)
    for rows in (np.asfortranarray(X), X[::-1][::-1], pd.DataFrame(X).to_numpy()):
        np.testing.assert_array_equal(getattr(model, ask)(rows), expected)
    alone = [getattr(model, ask)(X[i : i + 1])[0] for i in range(5)]
    np.testing.assert_array_equal(alone, expected[:5])
    zeros = np.nan_to_num(X)
    sparse = getattr(model, ask)(scipy.sparse.csr_array(zeros))
    np.testing.assert_array_equal(sparse, getattr(model, ask)(zeros))


def test_data_frames():
    X, y = table(with_missing=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["d"] = pd.Categorical(frame["d"])
    model = regressor().fit(frame, y)
    plain = regressor(categorical_features=[3]).fit(X, y)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))


def test_many_leaves_at_once(monkeypatch):
    X, y = table()
    model = regressor().fit(X, y)
    expected = model.predict(X)
    monkeypatch.setattr("gpuens.forest.linear.LEAVES_AT_ONCE", 100)
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("settings", [{}, {"subsample": 0.6}, {"early_stopping": True}])
def test_resumed_training_gives_the_same_model(settings, tmp_path):
    X, y = table(with_missing=True)
    settings = settings | {"warm_start": True, "random_state": 3}
    whole = regressor(**settings).fit(X, y, sample_weight=np.arange(N) % 3)
    part = regressor(**settings, **{"n_estimators": 5}).fit(X, y, sample_weight=np.arange(N) % 3)
    part.save(tmp_path / "model.gpuens")
    part = load(tmp_path / "model.gpuens").set_params(n_estimators=12)
    part.fit(X, y, sample_weight=np.arange(N) % 3)
    assert part.forest_.fingerprint() == whole.forest_.fingerprint()


def test_training_goes_on_with_the_other_kind_of_leaves():
    X, y = table()
    for first in (False, True):
        model = regressor(n_estimators=4, linear_leaves=first, warm_start=True).fit(X, y)
        before = model.forest_
        model.set_params(n_estimators=8, linear_leaves=not first).fit(X, y)
        forest = model.forest_
        assert isinstance(forest, LinearForest) and forest.n_trees == 8
        kept = forest.slice(0, 4)
        assert kept.fingerprint() == LinearForest.of(before).fingerprint()
        assert (forest.slice(4, 8).coefficient.size > 0) is not first
    other = regressor(n_estimators=2).fit(X, y, init=model)
    assert other.forest_.n_trees == 10
    with pytest.raises(ValueError, match="dropout needs leaves with constant values"):
        model.set_params(linear_leaves=False, dropout=0.1, n_estimators=9).fit(X, y)


def test_early_stopping_keeps_the_best_round():
    X, y = table()
    model = regressor(early_stopping=True, n_estimators=300, learning_rate=0.8, random_state=0)
    model.fit(X, y)
    assert model.stopped_ == "early stopping" and model.forest_.n_trees == model.n_iter_
    short = clone(model).set_params(n_estimators=model.n_iter_).fit(X, y)
    assert short.forest_.fingerprint() == model.forest_.fingerprint()


def test_other_estimators_and_targets():
    X, y = table()
    both = np.column_stack([y, -y])
    model = regressor().fit(X, both)
    np.testing.assert_allclose(model.predict(X)[:, 0], regressor().fit(X, y).predict(X), rtol=1e-6)
    ranker = GradientBoostingRanker(n_estimators=5, linear_leaves=True, device="cpu")
    ranker.fit(X, classes(y, 4), group=[100] * 6)
    assert ranker.forest_.coefficient.size > 0 and ranker.score(X, classes(y, 4), group=[100] * 6)
    start = regressor(init=LinearRegression()).fit(X, y)
    assert start.forest_.coefficient.size > 0


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e12])
def test_features_and_targets_of_any_size(scale):
    X, y = table()
    unit = regressor(min_sum_hessian=0.0).fit(X, y)
    model = regressor(min_sum_hessian=0.0).fit(X * scale + 0.0, y)
    np.testing.assert_allclose(model.predict(X * scale), unit.predict(X), rtol=1e-5, atol=1e-5)
    model = regressor(min_sum_hessian=0.0).fit(X, y * scale)
    np.testing.assert_allclose(model.predict(X) / scale, unit.predict(X), rtol=1e-3, atol=1e-3)


def test_features_far_from_zero():
    X, y = table()
    far = X + np.array([1e6, -1e7, 1e5, 0.0])
    unit, model = regressor().fit(X, y), regressor().fit(far, y)
    np.testing.assert_allclose(model.predict(far), unit.predict(X), rtol=1e-3, atol=1e-3)


def test_infinite_values_count_as_missing():
    X, y = table(with_missing=True)
    X[::17, 1] = np.inf
    X[5::17, 2] = -np.inf
    model = regressor().fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    only_missing = np.full((3, 4), np.nan)
    assert np.isfinite(model.predict(only_missing)).all()


def test_feature_without_finite_values():
    X, y = table()
    X[:, 1] = np.where(X[:, 1] > 0, np.inf, np.nan)
    model = regressor().fit(X, y)
    assert 1 not in model.forest_.linear_feature and np.isfinite(model.predict(X)).all()


REFUSED = [
    (regressor, {"loss": "absolute_error"}, "loss='absolute_error', whose leaf values"),
    (regressor, {"loss": "huber"}, "loss='huber'"),
    (regressor, {"loss": "quantile", "quantile": 0.3}, "loss='quantile'"),
    (regressor, {"loss": "normal"}, "loss='normal'"),
    (regressor, {"dropout": 0.2}, "dropout=0.2"),
    (regressor, {"line_search": True}, "line_search=True"),
    (regressor, {"monotonic_cst": [0, 1, 0, 0]}, "monotonic_cst"),
]


@pytest.mark.parametrize("make, settings, message", REFUSED)
def test_settings_that_are_refused(make, settings, message):
    X, y = table()
    with pytest.raises(ValueError, match="linear_leaves=True does not go with") as error:
        make(**settings).fit(X, y)
    assert message in str(error.value) and "linear_leaves=False" in str(error.value)


def test_tables_that_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match=r"a sparse X, .* use X\.toarray\(\)"):
        regressor().fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="a sparse X"):
        regressor().fit(X, y, eval_set=(scipy.sparse.csr_array(X), y))
    binned = BinnedTable.from_batches(lambda: iter([(X, y)]), max_bins=32)
    with pytest.raises(ValueError, match="a BinnedTable, .* use the rows as an array"):
        regressor().fit(binned)


def test_what_needs_constants_is_refused(tmp_path):
    X, y = table()
    model = regressor().fit(X, y)
    with pytest.raises(ValueError, match="Shapley values needs leaves with constant values"):
        TreeExplainer(model)
    with pytest.raises(ValueError, match="permutation_importance"):
        model.predict(X, pred_contribs=True)
    for write in (model.to_lightgbm, model.to_c):
        with pytest.raises(ValueError, match="An export .* use model.save and gpuens.load"):
            write(tmp_path / "model.c")
    with pytest.raises(ValueError, match="TreeView needs"):
        export_text(TreeView(model.forest_, 1, n_classes=[1]))
    for method in ("recursion", "auto"):  # scikit-learn's "auto" asks the class, not the model
        with pytest.raises(ValueError, match=r"use gpuens\.inspection\.partial_dependence"):
            partial_dependence(model, X, [0], method=method)
    own = own_partial_dependence(model, X, [0], grid_resolution=5)
    brute = partial_dependence(model, X, [0], method="brute", grid_resolution=5)
    np.testing.assert_allclose(own["average"], brute["average"], rtol=1e-9)


def test_formats_of_files(tmp_path):
    """Older versions read models without linear leaves."""
    import json

    from safetensors import safe_open

    from gpuens.saving.file import DOCUMENT

    X, y = table()
    for linear, number in ((False, 1), (True, 2)):
        regressor(linear_leaves=linear).fit(X, y).save(tmp_path / "model.gpuens")
        with safe_open(tmp_path / "model.gpuens", framework="numpy") as file:
            assert json.loads(file.metadata()[DOCUMENT])["format"] == number


@pytest.mark.parametrize("field, value, message", [
    ("linear_begin", np.zeros(3, np.int64), "linear_begin has 3 entries"),
    ("linear_begin", "descends", "linear_begin does not ascend"),
    ("linear_begin", "short", "does not cover the coefficients"),
    ("linear_feature", 4, "linear_feature has columns beyond X"),
    ("linear_feature", -1, "linear_feature has columns beyond X"),
    ("coefficient", np.nan, "coefficient is not finite"),
    ("coefficient", np.ones(1), "coefficient and linear_feature differ"),
    ("intercept", np.inf, "intercept is not finite"),
    ("intercept", np.ones(2), "intercept has 2 entries"),
])  # fmt: skip
def test_damaged_files_are_refused(field, value, message, tmp_path):
    X, y = table()
    model = regressor().fit(X, y)
    changed = getattr(model.forest_, field).copy()
    if isinstance(value, np.ndarray):
        changed = value
    elif value == "descends":
        changed[3] = -1
    elif value == "short":
        changed[:] = 0
    else:
        changed[0] = value
    model.forest_ = dataclasses.replace(model.forest_, **{field: changed})
    model.save(tmp_path / "model.gpuens")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model.gpuens")


def test_rows_of_weight_zero_do_not_widen_ranges():
    """By which features are scaled, and their coefficients penalised."""
    table = np.array([[1.0, np.nan], [3.0, 4.0], [1e9, -1e9], [2.0, np.inf]])
    found = Bounds.of(table, np.array([1.0, 0.5, 0.0, 2.0]), CPU)
    assert found.low.tolist() == [1.0, 4.0] and found.high.tolist() == [3.0, 4.0]
    found = Bounds.of(table, np.empty(0), CPU)
    assert found.low.tolist() == [1.0, -1e9] and found.high.tolist() == [1e9, 4.0]
