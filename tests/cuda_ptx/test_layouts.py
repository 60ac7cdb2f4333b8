"""Prediction on a GPU: what the rows and the forest decide about the way of the kernels."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from gpuens.kernels.prediction.cuda import deep, perfect_trees, rows
from gpuens.kernels.prediction.cuda import traverse as entry
from gpuens.kernels.prediction.cuda.perfect_trees import MOST_DEPTH, Shape, shape_of
from gpuens.kernels.prediction.cuda.rows import Cells, cells_of, rows_of_tile
from gpuens.kernels.prediction.reference import traverse as reference
from gpuens.kernels.prediction.traverse import Trees
from gpuens.kernels.runtime import arrays as kept_arrays
from tests.support.forest_problems import CATEGORIES, awkward_values
from tests.support.strict_cupy.arrays import result

WAYS = {
    "few": (entry, "add_to_few"),
    "perfect": (perfect_trees, "add_trees"),
    "deep": (deep, "add_trees"),
}


pytestmark = pytest.mark.usefixtures("host")


def on_gpu(value):
    """Arrays of the device on the memory of NumPy's, with its strides; theirs as they are."""
    if isinstance(value, Trees):
        return Trees(*map(on_gpu, value))
    return result(value) if isinstance(value, np.ndarray) else value


def traverse(trees, X, raw):
    entry.traverse(on_gpu(trees), on_gpu(X), on_gpu(raw))


def leaf_indices(trees, X):
    return entry.leaf_indices(on_gpu(trees), on_gpu(X)).get()


@pytest.fixture(autouse=True)
def every_number_of_rows(monkeypatch):
    """No batch is small, unless a test says so."""
    monkeypatch.setattr(entry, "FEW_ROWS", 0)


@pytest.fixture
def ways(monkeypatch):
    """The names of the modules that predicted."""
    taken = []
    for name, (module, function) in WAYS.items():
        add = getattr(module, function)

        def noted(*args, name=name, add=add):
            taken.append(name)
            add(*args)

        monkeypatch.setattr(module, function, noted)
    return taken


def tree_of(rng, depth, n_features, full):
    """A tree of a depth, breadth first; each node above it splits, or some do not."""
    level, splits = [True], []
    for d in range(depth + 1):
        last = d == depth
        inner = [not last and (k == 0 or full or rng.random() < 0.7) for k in range(len(level))]
        splits += inner
        level = [True] * (2 * sum(inner))
    splits = np.array(splits)
    left = np.full(splits.size, -1, np.int32)
    left[splits] = 1 + 2 * np.arange(splits.sum())
    return {
        "feature": np.where(splits, rng.integers(0, n_features, splits.size), -1).astype(np.int32),
        "missing_left": rng.integers(0, 2, splits.size).astype(np.uint8),
        "left": left,
    }


def forest_of(rng, depths, n_features, n_outputs=1, width=1, full=False):
    """Numeric trees of some depths."""
    trees = [tree_of(rng, depth, n_features, full) for depth in depths]
    joined = {name: np.concatenate([t[name] for t in trees]) for name in trees[0]}
    n_nodes = joined["left"].size
    left = joined["left"]
    return Trees(
        np.cumsum([0, *(t["left"].size for t in trees)]),
        joined["feature"],
        rng.normal(size=n_nodes),
        joined["missing_left"],
        left,
        np.where(left < 0, -1, left + 1).astype(np.int32),
        np.full(n_nodes, -1, np.int32),
        np.empty(0, np.uint32),
        np.zeros(n_features, np.int32),
        rng.normal(size=(n_nodes, width)),
        (np.arange(len(depths)) % (n_outputs - width + 1)).astype(np.int32),
    )


on_each_gpu = pytest.mark.parametrize("gpu", [0, 1], ids=["sm_80", "sm_120"])
of_each_type = pytest.mark.parametrize(
    ("dtype", "sums"),
    [(np.float32, np.float64), (np.float64, np.float64), (np.float32, np.float32)],
    ids=["float32", "float64", "sums in float32"],
)


def assert_like_the_reference(trees, X, n_outputs=1, sums=np.float64):
    base = np.random.default_rng(7).normal(size=(n_outputs, len(X))).astype(sums)
    trees = trees._replace(value=trees.value.astype(sums).astype(np.float64))
    expected, raw = base.copy(), base.copy()
    reference.traverse(trees, np.ascontiguousarray(X), expected)
    traverse(trees, X, raw)
    np.testing.assert_array_equal(raw, expected)
    np.testing.assert_array_equal(
        leaf_indices(trees, X), reference.leaf_indices(trees, np.ascontiguousarray(X))
    )


@on_each_gpu
@of_each_type
@pytest.mark.parametrize("full", [False, True], ids=["early leaves", "perfect"])
@pytest.mark.parametrize("depths", [(0, 0), (1, 0, 1, 1), (5, 3, 5, 4, 0, 1, 5), (8, 2, 8)])
def test_shallow_trees(rng, host, ways, depths, full, dtype, sums, gpu):
    """More than fit shared memory at a time, where they are deep enough."""
    trees = forest_of(rng, depths, 4, n_outputs=2, full=full)
    assert shape_of(on_gpu(trees)) == Shape(int(np.diff(trees.offset).max()), max(depths))
    X = awkward_values(rng, trees, 70, 4, dtype)
    with host.cupy.cuda.Device(gpu):
        assert_like_the_reference(trees, X, 2, sums)
    assert ways == ["perfect"]


def test_the_deepest_tree_of_the_shallow_way(rng, ways):
    for depth, way in ((MOST_DEPTH, "perfect"), (MOST_DEPTH + 1, "deep")):
        trees = forest_of(rng, [depth, 1], 3, full=depth < 6)
        assert_like_the_reference(trees, awkward_values(rng, trees, 40, 3, np.float32))
        assert ways.pop() == way


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_blocks_of_many_rows(rng, ways, monkeypatch, n_outputs):
    """Batches that fill the card have other blocks than smaller ones."""
    monkeypatch.setattr(rows, "FULL", 0)
    for depth, way in ((6, "perfect"), (9, "deep")):
        trees = forest_of(rng, [depth, 3, 4], 4, n_outputs)
        X = awkward_values(rng, trees, 300, 4, np.float32)
        assert rows.tiles_of(on_gpu(X)) == (256, 2)
        assert_like_the_reference(trees, X, n_outputs)
        assert ways.pop() == way


@on_each_gpu
@of_each_type
@pytest.mark.parametrize("n_features", [3, 70, 600], ids=["tile", "small tile", "in place"])
@pytest.mark.parametrize("width", [1, 3])
def test_deep_trees(rng, host, ways, width, n_features, dtype, sums, gpu):
    trees = forest_of(rng, [11, 2, 10], n_features, n_outputs=4, width=width)
    X = awkward_values(rng, trees, 50, n_features, dtype)
    assert (rows_of_tile(on_gpu(X)) > 0) == (n_features * X.itemsize * 64 <= 2**15)
    with host.cupy.cuda.Device(gpu):
        assert_like_the_reference(trees, X, 4, sums)
    assert ways == ["deep"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", ["few", "deep"])
def test_categories(rng, ways, monkeypatch, random_forest_with_sets, way, dtype):
    monkeypatch.setattr(entry, "FEW_ROWS", 100 if way == "few" else 0)
    trees = random_forest_with_sets
    assert (trees.category_begin >= 0).any()
    assert_like_the_reference(trees, awkward_values(rng, trees, 60, 3, dtype))
    assert ways == [way]


@pytest.fixture
def random_forest_with_sets(rng):
    numeric = forest_of(rng, [6, 4, 9], 3)
    categories = np.array(CATEGORIES, np.int32)
    words = np.where(numeric.feature >= 0, (categories[numeric.feature] + 31) // 32, 0)
    begin = np.where(words > 0, np.cumsum(words) - words, -1).astype(np.int32)
    sets = rng.integers(0, 2**32, int(words.sum()), dtype=np.uint32)
    return numeric._replace(category_begin=begin, categories=sets, n_categories=categories)


@pytest.mark.parametrize(("n_rows", "n_trees"), [(1, 1), (1, 75), (5, 33), (3, 64)])
@pytest.mark.parametrize(("width", "n_outputs"), [(1, 1), (1, 3), (2, 2), (2, 40)])
def test_few_rows(rng, ways, monkeypatch, width, n_outputs, n_rows, n_trees):
    """One launch, and nothing is laid out."""
    monkeypatch.setattr(entry, "FEW_ROWS", 5)
    launches = []
    launch = entry.launch
    monkeypatch.setattr(entry, "launch", lambda *a: (launches.append(a), launch(*a)))
    trees = forest_of(rng, rng.integers(0, 5, n_trees), 4, n_outputs, width)
    X = awkward_values(rng, trees, n_rows, 4, np.float32)
    raw = np.zeros((n_outputs, n_rows))
    traverse(trees, X, raw)
    assert len(launches) == 1
    assert not any(id(trees.feature) in arrays for arrays, _ in kept_arrays._kept)
    assert_like_the_reference(trees, X, n_outputs)
    assert set(ways) == {"few"}


def test_children_and_columns_that_do_not_fit_a_word(rng, ways, monkeypatch):
    trees = forest_of(rng, [9, 9], 3)
    X = awkward_values(rng, trees, 40, 3, np.float32)
    n_largest = shape_of(on_gpu(trees)).n_largest
    bits = n_largest.bit_length() + 2 + 2
    for limit, way in ((bits, "deep"), (bits - 1, "few")):
        monkeypatch.setattr(deep, "NARROW_BITS", limit)
        assert_like_the_reference(trees, X)
        assert ways.pop() == way


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [3, 10])
def test_thresholds_beyond_float32(rng, ways, depth, dtype):
    trees = forest_of(rng, [depth], 2)
    limits = [1e300, -1e300, 1e-60, -1e-60, 3.4028235e38, 3.40282351e38, 1 + 1e-12, 1 - 1e-12]
    limits += [1e-45, -1e-45, -3.4028235e38, -3.40282351e38, np.inf, -np.inf, 0.0, -0.0]
    limits += [5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, np.nan]
    trees.threshold[:] = rng.choice(limits, trees.threshold.size)
    with np.errstate(over="ignore"):
        X = rng.choice([*limits, 1.0], (60, 2)).astype(dtype)
    assert_like_the_reference(trees, X)
    assert ways == ["perfect" if depth == 3 else "deep"]


def test_layouts_are_made_once_and_go_with_the_forest(rng, monkeypatch):
    made = []
    for module, name in ((deep, "_pack"), (perfect_trees, "_fill")):
        make = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, m=make, n=name: (made.append(n), m(*a))[1])
    trees = forest_of(rng, [4], 3)
    X = awkward_values(rng, trees, 40, 3, np.float32)
    trees = on_gpu(trees)
    feature = id(trees.feature)
    for _ in range(3):
        traverse(trees, X, np.zeros((1, 40)))
        leaf_indices(trees, X)
    assert sorted(made) == ["_fill", "_pack"]
    doubled = trees._replace(value=2.0 * trees.value)
    raw, twice = np.zeros((2, 1, 40))
    traverse(trees, X, raw)
    traverse(doubled, X, twice)
    np.testing.assert_array_equal(twice, 2.0 * raw)
    assert any(feature in arrays for arrays, _ in kept_arrays._kept)
    (kept,) = [
        weakref.ref(layout.words)
        for (arrays, _), layout in kept_arrays._kept.items()
        if feature in arrays and hasattr(layout, "words")
    ]
    del trees, doubled
    gc.collect()
    assert not any(feature in arrays for arrays, _ in kept_arrays._kept)
    assert kept() is None


@pytest.mark.parametrize("depth", [3, 10])
def test_layouts_are_kept_once_other_streams_may_read_them(rng, monkeypatch, depth):
    """Whoever finds a layout knows nothing of the stream that made it."""
    settled = []
    for module in (deep, perfect_trees):
        monkeypatch.setattr(module, "settled", lambda made: (settled.append(made), made)[1])
    trees = forest_of(rng, [depth], 3)
    X = awkward_values(rng, trees, 40, 3, np.float32)
    trees = on_gpu(trees)
    for _ in range(2):
        traverse(trees, X, np.zeros((1, 40)))
        leaf_indices(trees, X)
    kept = [v for (arrays, _), v in kept_arrays._kept.items() if id(trees.feature) in arrays]
    made = [v for v in kept if not isinstance(v, Shape)]
    assert {id(v) for v in made} == {id(v) for v in settled}
    assert len(settled) == len(made) == (2 if depth == 3 else 1)


VIEWS = {
    "rows": lambda X: X,
    "columns": np.asfortranarray,
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "without the first column": lambda X: np.hstack([X[:, :1], X])[:, 1:],
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "one row for all": lambda X: np.broadcast_to(X[3], X.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_tables_of_any_strides(rng, view):
    trees = forest_of(rng, [4, 10], 3)
    X = VIEWS[view](awkward_values(rng, trees, 40, 3, np.float32))
    cells = cells_of(on_gpu(X))
    at = np.arange(40)[:, None] * cells.row + np.arange(3) * cells.column
    np.testing.assert_array_equal(cells.values.memory[at], X)
    assert np.shares_memory(cells.values.memory, X) == (view != "backwards")
    assert_like_the_reference(trees, X)


def test_a_table_between_other_cells_is_copied():
    """Whose distance is not a whole number of cells."""
    table = np.zeros(4, [("tag", "u1"), ("x", "f4", 3)])
    table["x"] = np.arange(12).reshape(4, 3)
    assert cells_of(on_gpu(table["x"])).values.get().tolist() == list(range(12))
    assert isinstance(cells_of(on_gpu(np.zeros((0, 3), np.float32))), Cells)
