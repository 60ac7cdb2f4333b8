"""The frozen trees: what is kept, cut out, joined and predicted."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.forest import forest as forest_module
from gpuens.forest.forest import NODE_ARRAYS, Forest, ForestRoom

N_CATEGORIES = (0, 40, 0, 3)
SIZES = (9, 1, 30, 2, 700)
"""Leaves of the trees."""


def random_tree(rng: np.random.Generator, n_leaves: int, width: int, output: int) -> Forest:
    """Breadth first; half of the splits of a feature with categories is by them."""
    n_nodes, n_categories = 2 * n_leaves - 1, np.array(N_CATEGORIES, np.int32)
    is_inner = np.zeros(n_nodes, bool)
    n_open = 1
    for node in range(n_nodes):  # a leaf must not be the last node whose children are open
        n_left = n_leaves - 1 - np.count_nonzero(is_inner)
        n_open -= 1
        is_inner[node] = n_left > 0 and (n_open == 0 or rng.random() < 0.6)
        n_open += 2 * is_inner[node]
    left = np.where(is_inner, 2 * np.cumsum(is_inner) - 1, -1).astype(np.int32)
    feature = np.where(is_inner, rng.integers(0, 4, n_nodes), -1).astype(np.int32)
    n_words = (
        (np.where(is_inner, n_categories[feature], 0) + 31) // 32 * rng.integers(0, 2, n_nodes)
    )
    return Forest(
        n_features=4,
        base=np.zeros(3),
        offset=np.array([0, n_nodes]),
        output=np.array([output], np.int32),
        feature=feature,
        threshold=np.where(is_inner & (n_words == 0), rng.normal(size=n_nodes), 0.0),
        missing_left=(is_inner & (rng.random(n_nodes) < 0.5)).astype(np.uint8),
        left=left,
        right=np.where(is_inner, left + 1, -1).astype(np.int32),
        category_begin=np.where(n_words > 0, np.cumsum(n_words) - n_words, -1).astype(np.int32),
        value=rng.normal(size=(n_nodes, width)),
        gain=rng.random(n_nodes) * is_inner,
        impurity=rng.random(n_nodes),
        n_samples=rng.integers(1, 99, n_nodes).astype(np.int32),
        cover=rng.random(n_nodes),
        categories=rng.integers(0, 2**32, n_words.sum(), dtype=np.uint32),
        n_categories=n_categories,
    )


@pytest.fixture(params=[1, 3], ids="width={}".format)
def trees(request: Any) -> list[Forest]:
    rng = np.random.default_rng(request.param)
    width = request.param
    return [random_tree(rng, n, width, t % (4 - width)) for t, n in enumerate(SIZES)]


@pytest.fixture
def forest(trees: list[Forest]) -> Forest:
    return Forest.concatenate(trees)


@pytest.fixture
def table() -> np.ndarray:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 4))
    X[:, 1], X[:, 3] = rng.integers(-1, 41, 200), rng.integers(-1, 4, 200)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def arrays_of(forest: Forest) -> dict[str, np.ndarray]:
    names = (field.name for field in fields(forest))
    return {name: np.asarray(getattr(forest, name)) for name in names}


def assert_equal(a: Forest, b: Forest) -> None:
    for (name, x), y in zip(arrays_of(a).items(), arrays_of(b).values(), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=name, strict=True)
    assert a.fingerprint() == b.fingerprint()


def test_sizes(forest, trees):
    assert forest.n_trees == len(SIZES) and forest.n_outputs == 3
    assert forest.n_leaves.tolist() == list(SIZES)
    assert forest.width == trees[0].width
    assert forest.categories.size == sum(tree.categories.size for tree in trees) > 30
    for name in NODE_ARRAYS:
        assert len(getattr(forest, name)) == sum(2 * n - 1 for n in SIZES)


def test_a_slice_is_what_was_joined(forest, trees):
    for first in range(len(SIZES) + 1):
        for last in range(first, len(SIZES) + 1):
            expected = Forest.concatenate([forest.slice(0, 0), *trees[first:last]])
            assert_equal(forest.slice(first, last), expected)


def test_slices_join_to_the_whole(forest):
    parts = [forest.slice(0, 2), forest.slice(2, 2), forest.slice(2, 3), forest.slice(3, 5)]
    assert_equal(Forest.concatenate(parts), forest)
    assert_equal(Forest.concatenate([forest]), forest)


def test_a_slice_shares_memory(forest):
    part = forest.slice(1, 4)
    for name in NODE_ARRAYS.keys() - {"category_begin"}:
        assert np.shares_memory(getattr(part, name), getattr(forest, name))


def test_what_a_tree_predicts_does_not_depend_on_its_neighbours(forest, trees, table):
    leaves, added = forest.apply(table), forest.tree_predict(table)
    assert leaves.shape == (200, 5) and leaves.dtype == np.int32
    width = forest.width
    assert added.shape == ((200, 5) if width == 1 else (200, 5, width))
    for t, tree in enumerate(trees):
        np.testing.assert_array_equal(leaves[:, t], tree.apply(table)[:, 0])
        assert (tree.feature[leaves[:, t]] == -1).all()
        at = tree.value[leaves[:, t]]
        np.testing.assert_array_equal(added[:, t].reshape(200, width), at)


def test_the_sum_of_the_trees(forest, trees, table):
    expected = np.zeros((3, 200))
    for tree, added in zip(trees, np.moveaxis(forest.tree_predict(table), 1, 0), strict=True):
        first = tree.output[0]
        expected[first : first + forest.width] += added.reshape(200, forest.width).T
    np.testing.assert_array_equal(forest.raw_predict(table), expected)
    np.testing.assert_array_equal(forest.raw_predict(table[:3]), expected[:, :3])
    raw = forest.slice(0, 2).raw_predict(table)
    forest.slice(2, 5).add_to(raw, table)
    np.testing.assert_array_equal(raw, expected)


def test_the_base_comes_first(trees, table):
    based = replace(trees[0], base=np.array([1.0, -2.0, 0.5]))
    expected = np.repeat(based.base[:, None], 200, axis=1)
    np.testing.assert_array_equal(based.slice(0, 0).raw_predict(table), expected)
    expected[: based.width] += based.tree_predict(table).reshape(200, based.width).T
    np.testing.assert_array_equal(based.raw_predict(table), expected)


@pytest.mark.parametrize("n_categories", [None, N_CATEGORIES])
def test_no_trees(table, n_categories):
    forest = Forest.empty(4, np.array([2.0, 3.0]), 2, n_categories)
    assert forest.n_trees == 0 and forest.n_leaves.tolist() == []
    assert forest.raw_predict(table).tolist() == [[2.0] * 200, [3.0] * 200]
    assert forest.apply(table).shape == (200, 0) and forest.tree_predict(table).shape == (200, 0, 2)
    assert forest.n_categories.tolist() == list(n_categories or (0, 0, 0, 0))
    assert_equal(Forest.concatenate([forest, forest]), forest)


def test_new_values_are_predicted_at_once(forest, table):
    """Nothing derived from the arrays outlives their replacement."""
    raw = forest.raw_predict(table)
    for factor in (2.0, -4.0):
        other = replace(forest, value=factor * forest.value)
        np.testing.assert_array_equal(other.raw_predict(table), factor * raw)


def test_pickling_keeps_the_arrays_alone(forest, table):
    size = len(pickle.dumps(forest))
    raw = forest.raw_predict(table)
    assert len(pickle.dumps(forest)) == size
    copy = pickle.loads(pickle.dumps(forest))
    assert_equal(copy, forest)
    np.testing.assert_array_equal(copy.raw_predict(table), raw)
    with pytest.raises(ValueError, match="read-only"):
        copy.value[0] = 0.0


def test_every_array_counts_in_the_fingerprint(forest):
    found = {forest.fingerprint()}
    for name, array in arrays_of(forest).items():
        if array.ndim:
            changed = array.copy()
            changed.flat[-1] += 1
            found.add(replace(forest, **{name: changed}).fingerprint())
    assert len(found) == len(fields(forest))
    views = {name: array[:] for name, array in arrays_of(forest).items() if array.ndim}
    assert replace(forest, **views).fingerprint() == forest.fingerprint()


CHANGES: dict[str, Callable[[Forest], Forest]] = {
    "base": lambda forest: replace(forest, base=forest.base + 1),
    "features": lambda forest: replace(forest, n_features=5),
    "categories": lambda forest: replace(forest, n_categories=forest.n_categories + 1),
    "width": lambda forest: replace(forest, value=np.zeros((forest.value.shape[0], 2))),
    "impurities": lambda forest: replace(forest, impurity=np.empty(0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_cannot_be_joined(forest, change):
    what = "impurities" if change == "impurities" else "differ in n_features, base"
    with pytest.raises(ValueError, match=what):
        Forest.concatenate([forest, CHANGES[change](forest)])


class TestBoosting:
    """What boosting puts into the arrays."""

    @pytest.fixture
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 3))
        return X, X[:, 0] + rng.normal(size=400)

    def test_no_impurity_and_no_categories(self, data):
        forest = GradientBoostingRegressor(n_estimators=3).fit(*data).forest_
        assert forest.width == 1 and forest.impurity.size == forest.categories.size == 0
        assert (forest.category_begin == -1).all() and forest.n_categories.tolist() == [0, 0, 0]

    def test_cover_is_the_number_of_rows_for_the_squared_error(self, data):
        forest = GradientBoostingRegressor(n_estimators=3).fit(*data).forest_
        np.testing.assert_allclose(forest.cover, forest.n_samples, rtol=1e-6)

    def test_cover_is_the_sum_of_hessians(self, data):
        X, y = data
        weight = np.random.default_rng(1).random(400)
        model = GradientBoostingClassifier(n_estimators=2).fit(X, y > 0, weight)
        forest = model.forest_
        p = 1 / (1 + np.exp(-forest.slice(0, 1).raw_predict(X)[0]))
        second, leaf = forest.slice(1, 2), forest.apply(X)[:, 1]
        expected = np.bincount(leaf, weight * p * (1 - p), second.feature.size)
        for node in np.flatnonzero(second.feature >= 0)[::-1]:
            expected[node] = expected[second.left[node]] + expected[second.right[node]]
        np.testing.assert_allclose(second.cover, expected, rtol=1e-5)

    def test_children_follow_each_other(self, data):
        forest = GradientBoostingRegressor(n_estimators=3).fit(*data).forest_
        inner = forest.feature >= 0
        np.testing.assert_array_equal(forest.right[inner], forest.left[inner] + 1)
        for t in range(3):
            left = forest.slice(t, t + 1).left
            np.testing.assert_array_equal(left[left > 0], 1 + 2 * np.arange((left > 0).sum()))


@pytest.mark.parametrize("planned", [0, 1, 3, 5, 40], ids="planned={}".format)
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["small", "large"])
def test_a_forest_grows_in_its_room(trees, planned, order):
    """Whatever was expected of its size; of trees that are ended early it keeps no room."""
    trees = trees[order]
    room = ForestRoom(planned)
    assert room.is_empty
    for n_done, tree in enumerate(trees, start=1):
        room.append(tree)
        found = room.forest()
        assert_equal(found, Forest.concatenate(trees[:n_done]))
        base = found.feature.base
        assert base is None or base.size <= max(2 * found.feature.size, 9)


def test_an_interrupted_append_leaves_what_there_was(trees):
    """Wherever Ctrl-C comes."""
    n_lines, at = 0, -1

    def count(frame: Any, event: str, _: Any) -> Any:
        nonlocal n_lines
        if frame.f_code.co_filename != forest_module.__file__:
            return None
        n_lines += event == "line"
        if n_lines == at:
            raise KeyboardInterrupt
        return count

    def appended(stop: int) -> ForestRoom:
        nonlocal n_lines, at
        room = ForestRoom(5)
        for tree in trees[:2]:
            room.append(tree)
        before, n_lines, at = sys.gettrace(), 0, stop
        sys.settrace(count)
        try:
            room.append(trees[4])
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        return room

    appended(-1)
    for stop in range(1, n_lines + 1):
        found = appended(stop).forest()
        assert found.n_trees in (2, 3)
        assert_equal(found, Forest.concatenate([*trees[:2], trees[4]][: found.n_trees]))
