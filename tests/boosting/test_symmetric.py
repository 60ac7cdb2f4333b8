"""Gradient boosting of symmetric trees: what users rely on."""

from __future__ import annotations

import numpy as np
import pytest

import gpuens
from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, TreeExplainer

RNG = np.random.default_rng(0)
N = 1500
X = RNG.normal(size=(N, 6)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
FILLED = np.nan_to_num(X)
Y = FILLED[:, 0] + np.sin(3 * FILLED[:, 1]) * FILLED[:, 2] + RNG.normal(size=N) * 0.3


def symmetric(**params):
    own = {"n_estimators": 20, "random_state": 0, "device": "cpu", "grow_policy": "symmetric"}
    return GradientBoostingRegressor(**own | params)


def splits_of(forest, tree):
    """The different splits of a tree."""
    nodes = slice(forest.offset[tree], forest.offset[tree + 1])
    inner = forest.feature[nodes] >= 0
    parts = (
        getattr(forest, name)[nodes][inner] for name in ("feature", "threshold", "missing_left")
    )
    return set(zip(*(part.tolist() for part in parts), strict=True))


@pytest.mark.parametrize("max_depth", [None, 1, 4])
def test_a_tree_has_one_split_for_each_level(max_depth):
    forest = symmetric(max_depth=max_depth).fit(X, Y).forest_
    most = [len(splits_of(forest, tree)) for tree in range(20)]
    assert max(most) == (max_depth or 6)


def test_leaves_have_enough_rows_of_uneven_hessians():
    model = GradientBoostingClassifier(
        n_estimators=30, learning_rate=1.0, min_samples_leaf=40, device="cpu",
        grow_policy="symmetric",
    ).fit(X, Y > 1.5)  # fmt: skip
    forest = model.forest_
    assert forest.n_samples[forest.feature < 0].min() >= 40
    assert forest.feature.max() >= 0


def test_predictions_rise_where_they_must():
    noise = RNG.normal(size=N) * 3
    model = symmetric(monotonic_cst=[1, 0, 0, 0, 0, -1], n_estimators=60).fit(X, Y + noise)
    grid = np.linspace(-3, 3, 50, dtype=np.float32)
    for column, sign in ((0, 1), (5, -1)):
        rows = np.repeat(X[:40], 50, axis=0)
        rows[:, column] = np.tile(grid, 40)
        steps = np.diff(model.predict(rows).reshape(40, 50), axis=1)
        assert (sign * steps >= 0).all() and (steps != 0).any()


def test_features_of_a_path_may_interact():
    model = symmetric(interaction_cst="no_interactions").fit(X, Y)
    forest = model.forest_
    assert all(len({s[0] for s in splits_of(forest, tree)}) == 1 for tree in range(20))


def test_a_gain_that_is_demanded_of_a_level():
    whole = symmetric(n_estimators=1).fit(X, Y).forest_
    least = whole.gain[0] + 1.0
    with pytest.warns(UserWarning):
        assert (
            symmetric(n_estimators=1, min_gain_to_split=least).fit(X, Y).forest_.feature.size == 1
        )


def test_what_forests_are_for(tmp_path):
    model = symmetric().fit(X, Y)
    model.save(tmp_path / "model")
    loaded = gpuens.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.grow_policy == "symmetric"
    values = TreeExplainer(model)(X[:50])
    total = values.values.sum(axis=1) + values.base_values
    np.testing.assert_allclose(total, model.predict(X[:50]), rtol=1e-9, atol=1e-9)


def test_other_names_of_the_shape():
    with pytest.raises(ValueError, match=r"grow_policy.*Did you mean 'symmetric'"):
        symmetric(grow_policy="SymmetricTree").fit(X, Y)
