"""Honest forests: the numbers of their nodes are those of rows that had no part in the splits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_wine

from gpuens import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    ObliqueRandomForestClassifier,
    ObliqueRandomForestRegressor,
    QuantileForestRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.forest.structure import children, impurity_decrease, levels
from gpuens.kernels.scalars.rng import PURPOSE_HALVES, draw, subkey
from gpuens.trees.growth import tree_key

X, Y = load_diabetes(return_X_y=True)
WINE, CLASSES = load_wine(return_X_y=True)
N_TREES = 4


def other_half(model: Any, t: int) -> np.ndarray:
    """The rows of a tree's sample whose coin falls on the other side, with repetitions."""
    stream = subkey(np.uint64(tree_key(model._seed, t)), PURPOSE_HALVES, np.uint64(0))
    rows = np.asarray(model.estimators_samples_[t])
    return rows[[int(draw(stream, np.uint64(row))) & 1 == 0 for row in rows]]


def mean_errors(tree: Any, node_of: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.array([
        np.average((y[at] - np.average(y[at], weights=weight[at])) ** 2, weights=weight[at])
        for at in (node_of[:, node] for node in range(tree.feature.size))
    ])  # fmt: skip


def nodes_on_path(tree: Any, leaf: np.ndarray) -> np.ndarray:
    """Whether each row passes each node, bool of shape (n_rows, n_nodes)."""
    passes = np.zeros((leaf.size, tree.feature.size), bool)
    passes[np.arange(leaf.size), leaf] = True
    for nodes in reversed(list(levels(tree))):
        inner = nodes[tree.feature[nodes] >= 0]
        left, right = children(tree, inner)
        passes[:, inner] = passes[:, left] | passes[:, right]
    return passes


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("cls", [RandomForestRegressor, ExtraTreesRegressor])
def test_numbers_of_the_nodes_are_those_of_the_other_half(cls, bootstrap):
    weight = np.random.default_rng(0).integers(1, 5, len(Y)).astype(float)
    forest = cls(N_TREES, honest=True, bootstrap=bootstrap, device="cpu").fit(X, Y, weight)
    for t in range(N_TREES):
        tree = forest.forest_.slice(t, t + 1)
        rows = other_half(forest, t)
        assert 0.3 < len(rows) / len(forest.estimators_samples_[t]) < 0.7
        passes = nodes_on_path(tree, tree.apply(X)[rows, 0])
        mean = (Y[rows] * weight[rows]) @ passes / (weight[rows] @ passes)
        np.testing.assert_allclose(tree.value[:, 0], mean, rtol=1e-12)
        np.testing.assert_allclose(tree.cover, weight[rows] @ passes)
        distinct = nodes_on_path(tree, tree.apply(X)[np.unique(rows), 0])
        assert (tree.n_samples == distinct.sum(axis=0)).all()
        errors = mean_errors(tree, passes, Y[rows], weight[rows])
        np.testing.assert_allclose(tree.impurity, errors, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(tree.gain, impurity_decrease(tree), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("class_weight", [None, "balanced_subsample"])
@pytest.mark.parametrize("cls", [RandomForestClassifier, ExtraTreesClassifier])
def test_shares_of_classes_are_those_of_the_other_half(cls, class_weight):
    forest = cls(N_TREES, honest=True, bootstrap=True, class_weight=class_weight, device="cpu")
    forest.fit(WINE, CLASSES)
    for t in range(N_TREES):
        tree = forest.forest_.slice(t, t + 1)
        rows = other_half(forest, t)
        passes = nodes_on_path(tree, tree.apply(WINE)[rows, 0])
        factor = np.ones(3)
        if class_weight:
            sampled = np.bincount(CLASSES[forest.estimators_samples_[t]], minlength=3)
            factor = sampled.sum() / (3 * sampled)
        counts = np.stack([factor[k] * (CLASSES[rows] == k) @ passes for k in range(3)], axis=1)
        np.testing.assert_allclose(tree.value, counts / counts.sum(axis=1)[:, None], rtol=1e-6)
        assert (tree.n_samples > 0).all()
        assert (tree.gain >= 0).all()


def test_splits_are_those_of_trees_on_the_first_half():
    forest = RandomForestRegressor(
        1, honest=True, bootstrap=False, max_depth=2, max_features=1.0, device="cpu"
    ).fit(X, Y)
    first_half = np.ones(len(Y))
    first_half[other_half(forest, 0)] = 0.0
    plain = RandomForestRegressor(
        1, bootstrap=False, max_depth=2, max_features=1.0, device="cpu"
    ).fit(X, Y, first_half)
    for name in ("feature", "threshold", "left"):
        ours, theirs = getattr(forest.forest_, name), getattr(plain.forest_, name)
        np.testing.assert_array_equal(ours, theirs)


def test_noise_is_not_learned():
    """A tree grown to purity repeats its rows; the other half knows nothing of them."""
    rng = np.random.default_rng(0)
    table, noise = rng.normal(size=(2000, 5)), rng.normal(size=2000)
    honest = RandomForestRegressor(30, honest=True, device="cpu").fit(table, noise)
    plain = RandomForestRegressor(30, device="cpu").fit(table, noise)
    assert plain.score(table, noise) > 0.8
    assert honest.score(table, noise) < 0.45
    assert np.var(honest.predict(rng.normal(size=(500, 5)))) < 0.6 * np.var(
        plain.predict(rng.normal(size=(500, 5)))
    )


def test_quantiles_are_those_of_the_other_half():
    forest = QuantileForestRegressor(1, honest=True, min_samples_leaf=20, device="cpu").fit(X, Y)
    rows = other_half(forest, 0)
    leaves = forest.apply(X)[:, 0]
    for leaf in np.unique(leaves):
        own = np.sort(Y[rows[leaves[rows] == leaf]])
        median = np.quantile(own, 0.5, method="inverted_cdf")
        assert (forest.predict(X[leaves == leaf]) == median).all()


MONOTONE = [1, -1, *[0] * 8]


@pytest.mark.parametrize("settings", [
    {}, {"bootstrap": False, "min_samples_leaf": 2}, {"ccp_alpha": 0.002, "max_bins": 16},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("cls, further", [
    (RandomForestRegressor, {}),
    (RandomForestRegressor, {"criterion": "poisson"}),
    (ExtraTreesRegressor, {}),
    (ObliqueRandomForestRegressor, {"feature_combinations": 2}),
    (QuantileForestRegressor, {"default_quantiles": "mean"}),
    (RandomForestClassifier, {}),
    (RandomForestClassifier, {"class_weight": "balanced_subsample"}),
    (ExtraTreesClassifier, {"criterion": "entropy"}),
    (ObliqueRandomForestClassifier, {"feature_combinations": 2}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("reads", [np.asarray, csr_array])
def test_monotone_constraints_hold(cls, further, settings, reads):
    """Also where the targets of the other half contradict them: these are noise."""
    rng = np.random.default_rng(0)
    table, noise = rng.normal(size=(200, 10)).round(1), rng.integers(0, 2, 200)
    model = cls(6, honest=True, monotonic_cst=MONOTONE, device="cpu", **further, **settings)
    model.fit(reads(table), noise)
    answer = model.predict_proba if hasattr(model, "classes_") else model.predict
    for feature, sign in ((0, 1), (1, -1)):
        along = np.repeat(table[:20], 90, axis=0)
        along[:, feature] = np.tile(np.linspace(-4.5, 4.5, 90), 20)
        found = answer(along).reshape(20, 90, -1)[:, :, -1]
        assert (sign * np.diff(found, axis=1) >= -1e-15).all()
        assert len(np.unique(found)) > 1


def test_bounds_of_bounds():
    """A node far below a split is bounded by it, whatever its own children say."""
    table, y = np.arange(40.0)[:, None], np.tile([0.0, 1.0], 20)
    settings = {"monotonic_cst": [1], "honest": True, "bootstrap": False, "min_samples_leaf": 2}
    for seed in range(20):
        forest = RandomForestRegressor(1, random_state=seed, device="cpu", **settings)
        assert (np.diff(forest.fit(table, y).predict(table)) >= 0).all()


def test_several_outputs_poisson_and_out_of_bag():
    targets = np.stack([Y, np.sqrt(Y)], axis=1)
    forest = RandomForestRegressor(
        60, honest=True, oob_score=True, min_samples_leaf=5, device="cpu"
    )
    assert forest.fit(X, targets).oob_score_ > 0.3
    counts = np.floor(Y / 40)
    counts[::3] = 0
    poisson = RandomForestRegressor(20, honest=True, criterion="poisson", device="cpu")
    predicted = poisson.fit(X, counts).predict(X)
    assert np.isfinite(predicted).all()
    assert (predicted >= 0).all()
    assert np.isfinite(poisson.forest_.impurity).all()


def test_any_number_of_threads_and_a_warm_start_give_the_same_forest():
    whole = RandomForestRegressor(8, honest=True, n_jobs=1, device="cpu").fit(X, Y)
    threads = RandomForestRegressor(8, honest=True, n_jobs=2, device="cpu").fit(X, Y)
    started = RandomForestRegressor(3, honest=True, warm_start=True, device="cpu").fit(X, Y)
    started.set_params(n_estimators=8).fit(X, Y)
    assert whole.forest_.fingerprint() == threads.forest_.fingerprint()
    assert whole.forest_.fingerprint() == started.forest_.fingerprint()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n):
    forest = RandomForestRegressor(5, honest=True, device="cpu").fit(X[:n], Y[:n])
    assert np.isin(forest.forest_.n_samples >= 1, True).all()
    assert Y[:n].min() <= forest.predict(X).min() <= forest.predict(X).max() <= Y[:n].max()


def test_refused():
    with pytest.raises(ValueError, match=re.escape("honest=True does not go with criterion=")):
        RandomForestRegressor(honest=True, criterion="absolute_error").fit(X, Y)
    with pytest.raises(ValueError, match="honest must be"):
        RandomForestClassifier(honest="yes").fit(WINE, CLASSES)
