"""Prediction on a CPU: what the rows and the forest decide about the way of the compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.prediction.cpu import deep
from gpuens.kernels.prediction.cpu import traverse as traverse_on_cpu
from gpuens.kernels.prediction.traverse import Trees, leaf_indices, traverse
from gpuens.kernels.runtime import arrays
from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.dispatch import Implementation, using
from tests.support.forest_problems import (
    CATEGORIES,
    LARGE,
    NUMERIC,
    awkward_values,
    frozen,
    random_forest,
)


@pytest.fixture(params=[1, 3], ids="threads={}".format, autouse=True)
def threads(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
    with team.using_threads(request.param):
        yield


def predict(trees: Trees, X: Any, raw: Any) -> tuple[Any, Any]:
    """Raw predictions that start at some values, and leaves."""
    filled = raw.copy()
    traverse(frozen(trees), X, filled)
    return filled, leaf_indices(trees, X)


@pytest.fixture
def assert_parity(same: Callable[[Any, Any], None]) -> Callable[..., None]:
    """Equal predictions and leaves, compiled and by the reference."""

    def check(trees: Trees, X: Any, raw: Any) -> None:
        with using(Implementation.REFERENCE):
            expected = predict(trees, X, raw)
        for a, b in zip(predict(trees, X, raw), expected, strict=True):
            same(a, b)

    return check


def kept_for(feature: int) -> int:
    """How many layouts and counters are kept for the array of features with this identity."""
    return sum(feature in sources for sources, _ in arrays._kept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds", [NUMERIC, CATEGORIES], ids=["numbers", "categories"])
def test_nodes_of_sixteen_bytes(assert_parity, random_tree, monkeypatch, kinds, dtype):
    monkeypatch.setattr(deep, "NARROW_BITS", 0)
    rng = np.random.default_rng(0)
    trees = random_forest(random_tree, rng, LARGE, 5, 3, 2, kinds)
    X = awkward_values(rng, trees, 500, 5, dtype)
    assert_parity(trees, X, rng.normal(size=(3, 500)))


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_many_blocks(assert_parity, random_tree, monkeypatch, missing):
    """Rows without missing values take half the room of others."""
    for name, value in {"KEY_BYTES": 1, "FEWEST_ROWS": 150, "BLOCKS_PER_THREAD": 1}.items():
        monkeypatch.setattr(deep, name, value)
    rng = np.random.default_rng(1)
    trees = random_forest(random_tree, rng, LARGE, 6, 1, 1, CATEGORIES)
    X = awkward_values(rng, trees, 1000, 6, np.float32)
    complete = np.where(np.isin(X, [0, 1, 2]), X, 1)
    has_missing = missing & (np.arange(1000) // 100 % 2 == 1)
    X = np.where(has_missing[:, None], X, complete)
    assert_parity(trees, X, rng.normal(size=(1, 1000)))


@pytest.mark.parametrize("n_leaves", [20, 300])
def test_columns_that_no_split_looks_at(assert_parity, random_tree, n_leaves):
    rng = np.random.default_rng(2)
    trees = random_forest(random_tree, rng, 20 * [n_leaves], 2)
    wide = trees._replace(
        feature=np.where(trees.feature < 0, -1, 41 * trees.feature + 3).astype(np.int32),
        n_categories=np.zeros(90, np.int32),
    )
    X = awkward_values(rng, wide, 2000, 90, np.float32)
    assert_parity(wide, X, np.zeros((1, 2000)))


@pytest.mark.parametrize(("width", "n_outputs"), [(1, 3), (2, 3)])
def test_trees_that_take_turns_in_outputs(assert_parity, random_tree, width, n_outputs):
    """Trees of one output are added together, where that keeps the order of each sum."""
    rng = np.random.default_rng(7)
    trees = random_forest(random_tree, rng, 5 * [2, 30, 1, 200], 4, n_outputs, width)
    trees.value[:] *= 10.0 ** rng.integers(-20, 20, trees.value.shape)
    X = awkward_values(rng, trees, 600, 4, np.float32)
    assert_parity(trees, X, np.zeros((n_outputs, 600)))


def test_rows_that_come_in_small_batches(same, random_tree):
    """The forest is laid out once enough of them have come; what it predicts is the same."""
    rng = np.random.default_rng(3)
    trees = random_forest(random_tree, rng, 20 * [1000], 4, 3, 3)
    X = awkward_values(rng, trees, 1400, 4, np.float32)
    raw, leaves = predict(trees, X, np.zeros((3, 1400)))
    copy = Trees(*(array.copy() for array in trees))
    for size, kept in {10: (0, 0), 20: (1, 2)}.items():  # the number of rows, and the layout
        for first in range(0, 1400, size):
            batch = slice(first, first + size)
            actual = predict(copy, X[batch], np.zeros((3, size)))
            same(actual[0], raw[:, batch])
            same(actual[1], leaves[batch])
            if first == 0:
                assert kept_for(id(copy.feature)) == kept[0]
        assert kept_for(id(copy.feature)) == kept[1]


@pytest.mark.parametrize("n_rows", [1, 5, 130])
@pytest.mark.parametrize("kinds", [NUMERIC, CATEGORIES], ids=["numbers", "categories"])
def test_few_rows_and_many_trees(assert_parity, random_tree, monkeypatch, n_rows, kinds):
    """Groups of pairs end within the rows of a tree."""
    monkeypatch.setattr(traverse_on_cpu, "FEW_ROWS", 130)
    rng = np.random.default_rng(8)
    trees = random_forest(random_tree, rng, 30 * [1, 2, 40, 5], 6, 3, 2, kinds)
    X = awkward_values(rng, trees, n_rows, 6, np.float32)
    assert_parity(trees, X, rng.normal(size=(3, n_rows)))
    assert kept_for(id(trees.feature)) == 0


@pytest.mark.parametrize("many", [False, True], ids=["few values", "many in the last tree"])
def test_values_that_leaves_share(assert_parity, random_tree, many):
    rng = np.random.default_rng(9)
    trees = random_forest(random_tree, rng, [*(10 * [300]), 1500], 4, 3, 3)
    trees.value[:] = rng.integers(0, 3, trees.value.shape)
    if many:
        last = slice(trees.offset[-2], None)
        trees.value[last] = rng.normal(size=trees.value[last].shape)
    X = awkward_values(rng, trees, 1000, 4, np.float32)
    assert_parity(trees, X, np.zeros((3, 1000)))
    values = deep.nodes_of(trees, X.dtype).values
    assert values.shape[0] == trees.feature.size if many else values.shape[0] <= 27 * 3


@pytest.mark.parametrize("n_leaves", [10, 300])
def test_new_values_in_an_old_structure(random_tree, n_leaves):
    """What was laid out for a forest is not taken for another one that shares its arrays."""
    rng = np.random.default_rng(4)
    trees = random_forest(random_tree, rng, [n_leaves], 2)
    X = awkward_values(rng, trees, 2000, 2, np.float64)
    raw, leaves = predict(trees, X, np.zeros((1, 2000)))
    for factor in (2.0, 4.0):
        other = trees._replace(value=factor * trees.value)
        np.testing.assert_array_equal(predict(other, X, np.zeros((1, 2000)))[0], factor * raw)
    doubled = trees._replace(threshold=2.0 * trees.threshold)
    np.testing.assert_array_equal(predict(doubled, 2.0 * X, np.zeros((1, 2000)))[1], leaves)


@pytest.mark.parametrize("n_values", [3, 2000], ids=["shared values", "own values"])
@pytest.mark.parametrize("n_leaves", [10, 1500])
def test_layouts_go_with_the_arrays(random_tree, n_leaves, n_values):
    rng = np.random.default_rng(6)
    trees = random_forest(random_tree, rng, [n_leaves], 2)
    X = awkward_values(rng, trees, 3000, 2, np.float32)
    feature = id(trees.feature)
    for _ in range(3):
        value = rng.integers(0, n_values, trees.value.shape).astype(np.float64)
        predict(trees._replace(value=value), X, np.zeros((1, 3000)))
    del value
    assert kept_for(feature) == 0
    predict(trees, X, np.zeros((1, 3000)))
    assert kept_for(feature) > 0
    del trees
    assert kept_for(feature) == 0


def between_other_fields(X: Any) -> Any:
    table = np.zeros(len(X), [("tag", "u1"), ("x", X.dtype, X.shape[1])])
    table["x"] = X
    return table["x"]


def read_only(X: Any) -> Any:
    X = X.copy()
    X.flags.writeable = False
    return X


VIEWS: dict[str, Callable[[Any], Any]] = {
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "rows backwards, by columns": lambda X: np.asfortranarray(X[::-1])[::-1],
    "between other fields": between_other_fields,
    "read-only": read_only,
    "one row for all": lambda X: np.broadcast_to(X[7], X.shape),
}


@pytest.mark.parametrize("n", [9, 400])
@pytest.mark.parametrize("n_leaves", [10, 300])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_tables_of_any_strides(same, random_tree, view, n_leaves, n):
    rng = np.random.default_rng(5)
    kinds = NUMERIC if n_leaves == 10 else (0, 0, 4)
    trees = random_forest(random_tree, rng, [n_leaves], 3, 1, 1, kinds)
    X = view(awkward_values(rng, trees, n, 3, np.float32))
    expected = predict(trees, np.ascontiguousarray(X), np.zeros((1, n)))
    for a, b in zip(predict(trees, X, np.zeros((1, n))), expected, strict=True):
        same(a, b)
