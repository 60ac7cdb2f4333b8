"""The way of arrays to the kernels on hardware, with arrays of the host in the place of CuPy's:
Numba's own typing and reading of arguments, and its views of tables of records."""

from __future__ import annotations

import ctypes
from collections import defaultdict

import numpy as np
import pytest
from numba import config, types

if config.ENABLE_CUDASIM:
    pytest.skip("needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from gpuens.kernels import catalogue
from gpuens.kernels.binning.cuda.bin_values import bin_values
from gpuens.kernels.growth import frontier as fr
from gpuens.kernels.growth.cuda.grow import grow
from gpuens.kernels.growth.cuda.histogram import add_histograms
from gpuens.kernels.growth.cuda.tables import IS_DONE, N_COUNTS, READ, WRITTEN, Arena
from gpuens.kernels.growth.params import NO_RULES, FeatureRules, GrowthParams
from gpuens.kernels.leaves.cuda.newton_steps import newton_steps
from gpuens.kernels.prediction.cuda import traverse
from gpuens.kernels.prediction.traverse import Trees
from gpuens.kernels.runtime.cuda import target
from gpuens.kernels.runtime.cuda.blocks import TILE
from gpuens.kernels.runtime.dtypes import (
    ROW_ALIGNMENT,
    Codes,
    NodeValues,
    Scales,
    TreeRecords,
    Update,
)
from gpuens.kernels.scalars.losses import BinomialLogLoss
from gpuens.kernels.statistics.cuda.add_leaf_values import add_values_of_trees
from gpuens.kernels.statistics.cuda.gradients import gradients
from gpuens.kernels.statistics.cuda.quantise import quantise
from tests.support import host_cupy

N_ROWS, N_FEATURES = 100, 3
PARAMS = GrowthParams(4, 3, 2, 1e-3, 1.0, 0.0, 1.0, 1.0, 1.0)
RULED = FeatureRules(np.array([1, 0, 0], np.int8), ((0, 1), (2,)), np.array([0, 0, 1], bool))
CATALOGUED: dict[object, set[tuple[types.Type, ...]]] = defaultdict(set)
for entry in catalogue.entries():
    CATALOGUED[entry.kernel].add(entry.arguments)


@pytest.fixture
def launches(monkeypatch):
    return host_cupy.install(monkeypatch)


def assert_startable(launches: list[host_cupy.Launch]) -> None:
    """The types are compiled ahead, and the words are those that Numba would pass."""
    assert launches
    for launch in launches:
        assert launch.types in CATALOGUED[launch.kernel], launch.kernel.py_func.__qualname__
        first = 0
        for kind, argument in zip(launch.types, launch.arguments, strict=True):
            theirs = host_cupy.words_of_numba(kind, argument)
            ours = launch.words[first : first + len(theirs)]
            first += len(ours)
            if getattr(argument, "size", 1) == 0:  # begins and steps anywhere
                n_axes = len(argument.shape)
                theirs = [*theirs[:4], ours[4], *theirs[5 : 5 + n_axes], *argument.strides]
            assert ours == list(map(bits, theirs)), launch.kernel.py_func.__qualname__
        assert first == len(launch.words)


def bits(word: object) -> int:
    """The bytes of a word as an integer; those that the kernel does not read are zeros."""
    if isinstance(word, ctypes._SimpleCData):
        word = int.from_bytes(bytes(word), "little")
    return ctypes.c_int64(word).value


def frontier_of(rules: FeatureRules) -> fr.Frontier:
    n_bins = np.full(N_FEATURES, 10)
    return fr.allocate([60, N_ROWS - 60], np.zeros(2, np.uint64), PARAMS, n_bins, rules)


@pytest.mark.parametrize("rules", [NO_RULES, RULED], ids=["numbers", "rules"])
def test_tables_lie_beside_each_other(launches, rules):
    """Each where the host writes and reads it; those that are empty take no room."""
    frontier = frontier_of(rules)
    arena = Arena(frontier, 4, 2)
    tables = arena.tables._asdict()
    places = {name: (table.data.ptr, table.nbytes) for name, table in tables.items() if table.size}
    in_order = sorted(places.values())
    assert all(a + size <= b for (a, size), (b, _) in zip(in_order, in_order[1:], strict=False))
    begin = arena._memory.array.ctypes.data
    assert all(place % 16 == begin % 16 for place, _ in in_order)
    assert in_order[-1][0] + in_order[-1][1] <= begin + arena._memory.size
    host = [table for table in frontier if table.size]
    assert [(t.dtype, t.size) for t in arena.tables[: len(frontier)] if t.size] == [
        (t.dtype, t.size) for t in host
    ]
    assert tables["left_codes"].shape == frontier.left_codes.shape
    written = [name for name in WRITTEN if name in places]
    assert [name for name, _ in sorted(places.items(), key=lambda p: p[1])][: len(written)] == list(
        written
    )
    assert max(places, key=lambda name: places[name]) in READ


def test_what_the_host_writes_arrives(launches):
    frontier = frontier_of(RULED)
    frontier.trees["scale_g"] = [0.5, 2.0]
    arena = Arena(frontier, 4, 2)
    arena._memory.array[:] = 255
    other = PARAMS._replace(l2=3.0)
    arena.write(frontier, [PARAMS, other])
    for name, expected in (("trees", frontier.trees), ("rules", frontier.rules)):
        assert on_host(getattr(arena.tables, name)).tolist() == expected.tolist()
    assert on_host(arena.tables.params).tolist() == [tuple(PARAMS), tuple(other)]
    done = np.zeros(N_COUNTS, np.int64)
    done[IS_DONE] = 1
    on_host(arena.tables.counts)[:] = done
    on_host(arena.tables.state)[:] = 0
    on_host(arena.tables.state)[fr.N_NODES] = 2
    on_host(arena.tables.nodes)["h"][:2] = [7, 8]
    fetched = arena.fetch()
    assert frontier.nodes["h"][:2].tolist() == [0, 0]
    assert arena.read(frontier, fetched)
    assert frontier.nodes["h"][:2].tolist() == [7, 8]


def on_host(table):
    """The memory of a table."""
    place = table.data.ptr
    memory = (ctypes.c_uint8 * table.nbytes).from_address(place)
    return np.frombuffer(memory, table.dtype)


@pytest.mark.parametrize("params", [PARAMS, PARAMS._replace(colsample_bynode=0.5)])
@pytest.mark.parametrize("rules", [NO_RULES, RULED], ids=["numbers", "rules"])
def test_growth_can_be_launched(launches, rules, params):
    xp = target._arrays()
    rows = xp.zeros((N_ROWS, ROW_ALIGNMENT), np.uint8)
    codes = Codes(rows, xp.zeros((N_FEATURES, N_ROWS), np.uint8))
    n_bins = np.full(N_FEATURES, 10)
    sums, scales = xp.zeros((2, 2), np.int64), [Scales(2.0, 4.0)] * 2
    records = TreeRecords(xp.zeros((2, 60), np.uint64), sums, scales)
    growing = grow(codes, n_bins, records, np.zeros(2, np.uint64), params, rules)
    assert_startable(launches)
    is_drawing = params.colsample_bynode < 1 or rules is RULED
    assert len({launch.kernel for launch in launches}) == 8 + is_drawing
    assert growing.most_nodes > 1


def test_a_round_of_boosting_can_be_launched(launches):
    """Gradients with an update, integers, growth and Newton steps; nobody waits."""
    xp = target._arrays()
    codes = Codes(
        xp.zeros((N_ROWS, ROW_ALIGNMENT), np.uint8), xp.zeros((N_FEATURES, N_ROWS), np.uint8)
    )
    y, raw = xp.zeros(N_ROWS), xp.zeros((1, N_ROWS))
    g, h = (xp.zeros((1, N_ROWS), np.float32) for _ in range(2))
    update = Update(xp.zeros(N_ROWS, np.uint16), NodeValues(np.zeros(3), np.zeros(3)), 0.1)
    nothing = xp.zeros(0)
    totals = gradients(BinomialLogLoss(), y, raw[0], nothing, nothing, g[0], h[0], update=update)
    scales = [totals.scales_for(N_ROWS)]
    records = quantise(g, h, xp.zeros(0, np.int32), 1, 0, scales)
    growing = grow(codes, np.full(N_FEATURES, 10), records, np.zeros(1, np.uint64), PARAMS)
    leaf = xp.zeros((1, N_ROWS), np.int32)
    growing.__dict__["leaf"] = leaf
    values = newton_steps(growing, g, h, [totals], 0.0, 1e-3, np.inf)
    add_values_of_trees(raw, leaf, values, [0.1])
    assert_startable(launches)
    started = [launch.kernel.py_func.__name__ for launch in launches]
    assert started[:2] == ["gradients_of_chunks", "make_records"]
    assert started[-2:] == ["sum_in_shared", "add_values"]
    assert target.cupy_stream().work


MANY = 2_097_121
"""Features of more groups than a grid has along its second and third axes."""


def test_tables_of_many_features_can_be_launched(launches):
    """Codes and histograms of them; the lists of a forest lie along the first axis as well."""
    thresholds = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (MANY, 255), (0, 0))
    codes = bin_values(target._arrays().zeros((2, MANY), np.float32), host_cupy.ndarray(thresholds))
    assert codes.columns.shape == (MANY, 2)
    tiles = target.upload_records(np.zeros(1, TILE))
    out = target.empty((1, 2, 1, 256), np.int32)
    words = target.zeros(2, np.uint64)
    add_histograms(codes, words, words, tiles, target.zeros(1, np.int64), out)
    assert [launch.grid[0] for launch in launches] == [-(-MANY // 8), 65_536]
    assert all(n < 65_536 for launch in launches for n in launch.grid[1:])


@pytest.fixture
def trees():
    one = np.array([0, -1, -1], np.int32)
    left = np.array([1, -1, -1], np.int32)
    none = np.full(3, -1, np.int32)
    host = Trees(
        np.array([0, 3]), one, np.zeros(3), np.zeros(3, np.uint8), left, left + (left > 0), none,
        np.empty(0, np.uint32), np.zeros(N_FEATURES, np.int32), np.zeros((3, 1)),
        np.zeros(1, np.int32),
    )  # fmt: skip
    return host


VIEWS = {
    "rows": lambda X: X,
    "columns": lambda X: X.T.copy().T,
    "every second row": lambda X: X[::2],
    "some columns": lambda X: X[:, 1:],
    "backwards": lambda X: X[::-1],
    "one row": lambda X: X[:1],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("depth", [1, 12])
def test_predictions_can_be_launched(launches, trees, monkeypatch, view, dtype, depth):
    """From tables that lie anyhow: one compiled kernel reads them all."""
    monkeypatch.setattr(traverse, "FEW_ROWS", 0.01)
    monkeypatch.setattr(traverse.perfect_trees, "MOST_DEPTH", 8 if depth == 1 else 0)
    there = Trees(*map(host_cupy.ndarray, trees))
    X = VIEWS[view](host_cupy.ndarray(np.zeros((50, N_FEATURES + (view == "some columns")), dtype)))
    raw = host_cupy.ndarray(np.zeros((1, X.shape[0])))
    traverse.traverse(there, X, raw)
    leaves = traverse.leaf_indices(there, X)
    waits = target._arrays().cuda.get_current_stream().events
    assert waits == ["synchronize"] * sum(
        launch.kernel.py_func.__name__ in ("fill", "pack_nodes") for launch in launches
    )
    assert leaves.shape == (X.shape[0], 1)
    assert_startable(launches)
    names = [launch.kernel.py_func.__name__ for launch in launches]
    if view == "one row":
        assert names == ["add_trees_of_rows", "find_leaves_of_rows"]
    elif depth == 1:
        assert names == ["fill", "add", "pack_nodes", "find"]
    else:
        assert names == ["pack_nodes", "add_values", "find"]


def test_uploads(launches):
    """Small arrays of any kinds arrive by one transfer, each where its type may lie."""
    arrays = np.arange(3, dtype=np.int8), np.arange(4.0), np.zeros((0, 2)), np.ones((2, 3), "i4")
    for host, there in zip(arrays, target.upload(*arrays), strict=True):
        assert (there.dtype, there.shape) == (host.dtype, host.shape)
        assert there.array.ctypes.data % 16 == there.array.base.ctypes.data % 16
        np.testing.assert_array_equal(target.download(there), host)
    table = np.array([(1, 2.0), (3, 4.0)], np.dtype([("a", "i8"), ("b", "f8")], align=True))
    assert on_host(target.upload_records(table)).tolist() == table.tolist()
