"""Growth by passes over the rows, beside the reference."""

from __future__ import annotations

import gc
import weakref
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuens.kernels.growth import frontier as fr
from gpuens.kernels.growth import streamed_codes
from gpuens.kernels.growth.cpu import streamed
from gpuens.kernels.growth.grow import grow, records_for
from gpuens.kernels.growth.params import UNLIMITED, FeatureRules, GrowthParams
from gpuens.kernels.growth.streamed_codes import StreamedCodes
from gpuens.kernels.runtime.cpu.team import get_threads, using_threads
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.runtime.dtypes import (
    MISSING,
    NO_LEAF,
    Codes,
    RowStatistics,
    Scales,
    TreeRecords,
)
from gpuens.kernels.statistics.quantise import quantise
from tests.kernels.growth.test_grow import DEFAULTS, N_BINS, columns, grow_on, records

ON_CPU = ("cpu", "cpu-threads")
"""The implementations beside CUDA's that have it."""
N_ROWS = 5000
"""Some blocks of each of several slabs, or chunks."""
SIMULATED_ROWS = 400
SLAB_ROWS, GROUP_ROWS = 2100, 500
CHUNKS = 7


@pytest.fixture
def on_stream(target, oracle, monkeypatch):
    """Growth of codes that are streamed in small slabs, every other one without its padding, on
    CUDA in chunks of which two stay on the device; ``read`` are the slabs of each pass."""
    read: list[list[tuple[int, int]]] = []
    on_cuda = target.implementation is Implementation.CUDA
    n_rows = target.rows(N_ROWS, SIMULATED_ROWS)

    class OnStream(type(target)):
        def codes(self, columns: np.ndarray) -> Any:
            held, size = oracle.codes(columns), -(-columns.shape[1] // CHUNKS)
            monkeypatch.setattr(streamed_codes, "CHUNK_BYTES", size * held.rows.shape[1])
            n_resident = 2 * size if on_cuda else 0

            def slabs(ranges):
                read.append(list(ranges))
                parts = list(ranges)
                if len(read) % 3 == 2 and len(parts) > 2:  # as if two of them were in memory
                    parts[1:3] = [(parts[1][0], parts[2][1])]
                for number, (begin, end) in enumerate(parts):
                    padding = slice(len(columns) if number % 2 else None)
                    rows = held.rows[begin:end, padding].copy()
                    yield begin, end, rows
                    rows[:] = MISSING  # what is read next may take its place

            return StreamedCodes(*held, lambda *rows: None, slabs, n_resident)

        @property
        def module(self) -> Any:
            return import_module(f"gpuens.kernels.growth.{self.implementation.value}.streamed")

    monkeypatch.setattr(streamed_codes, "SLAB_ROWS", SLAB_ROWS)
    monkeypatch.setattr(streamed, "GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(streamed, "MIN_ROWS_PER_THREAD", 1)
    found = OnStream(target.implementation, target.xp)
    object.__setattr__(found, "read", read)
    object.__setattr__(found, "n_rows", n_rows)
    with using_threads(get_threads() if on_cuda or get_threads() == 3 else 1):
        yield found


@pytest.fixture
def on_cpu(on_stream):
    if on_stream.implementation is not Implementation.CPU:
        pytest.skip("is about the CPU alone")
    return on_stream


def require_same(target, oracle, same, codes, rows, **settings):
    found, wanted = (grow_on(each, codes, rows, **settings) for each in (target, oracle))
    for actual, expected in zip(found, wanted, strict=True):
        same(actual, expected)
    return wanted


def table(on_stream, pack, seed):
    rng = np.random.default_rng(seed)
    codes = columns(on_stream.n_rows, rng)
    return codes, records(codes, rng, pack)


@pytest.mark.parametrize("settings", [
    {}, {"max_leaves": UNLIMITED, "max_depth": 6}, {"max_leaves": 1},
    {"max_leaves": 120, "min_samples_leaf": 1},
    {"n_trees": 3, "colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    {"l2": 3.0, "min_gain": 0.5, "min_sum_hessian": 20.0},
    {"max_leaves": 30, "min_samples_leaf": 130},
], ids=str)  # fmt: skip
def test_parity(on_stream, oracle, same, pack, settings):
    require_same(on_stream, oracle, same, *table(on_stream, pack, 1), **settings)


@pytest.mark.parametrize("most", [NO_LEAF, 10])
def test_rows_outside_the_sample_have_no_leaf(on_stream, oracle, same, pack, monkeypatch, most):
    """On CUDA their numbers have two bytes, or four where there are many."""
    monkeypatch.setattr(streamed_codes, "NO_LEAF", most)
    codes, rows = table(on_stream, pack, 2)
    *_, leaf = require_same(on_stream, oracle, same, codes, rows[::3], max_leaves=30)
    assert np.count_nonzero(leaf < 0) == len(rows) - len(rows[::3])


@pytest.mark.parametrize("slots", [4, 6])
def test_few_histograms(on_stream, oracle, same, pack, monkeypatch, slots):
    """Both children of a node whose histogram was given up are added up."""
    monkeypatch.setattr(fr, "HISTOGRAM_BYTES", slots * N_BINS.size * 256 * 8)
    settings = {"max_leaves": UNLIMITED, "max_depth": 5}
    require_same(on_stream, oracle, same, *table(on_stream, pack, 3), **settings)


@pytest.mark.parametrize("settings", [{"max_leaves": UNLIMITED, "max_depth": 6}, {}], ids=str)
def test_few_sums_a_pass(on_stream, oracle, same, pack, monkeypatch, settings):
    """Nodes for which no histogram is left wait for another pass."""
    monkeypatch.setattr(streamed, "SUMS_BYTES", 0)
    monkeypatch.setattr(streamed_codes, "SUMS_BYTES", 0)
    require_same(
        on_stream, oracle, same, *table(on_stream, pack, 4), **{"max_leaves": 60, **settings}
    )


@pytest.mark.parametrize("slots", [4, 100])
def test_splits_with_too_few_rows_are_chosen_again(
    on_stream, oracle, same, pack, monkeypatch, slots
):
    """The best split of a node cuts off the rows without a value, which are too few."""
    rng = np.random.default_rng(9)
    n = on_stream.n_rows
    codes = columns(n, rng)
    g = np.where(codes[0] % 2 == 0, 25_000, -25_000) + rng.normal(0, 400, n)
    g += 2500.0 * codes[1] + 1000.0 * codes[2] + 80.0 * codes[5]
    g[codes[0] == MISSING] = 0
    rows = pack(np.rint(g), np.full(n, 50), np.arange(n))
    counted = []
    count = on_stream.module.Passes.count

    def counting(self, growth, leaf):
        counted.append(int(growth.frontier.state[fr.N_RECHECK]))
        return count(self, growth, leaf)

    monkeypatch.setattr(on_stream.module.Passes, "count", counting)
    monkeypatch.setattr(fr, "HISTOGRAM_BYTES", slots * N_BINS.size * 256 * 8)
    settings = {"max_leaves": UNLIMITED, "max_depth": 4, "min_samples_leaf": n // 30}
    require_same(on_stream, oracle, same, codes, rows, **settings)
    assert sum(counted) > 2


@pytest.mark.parametrize("n_features", [3, 6, 8, 13, 24])
def test_rows_of_any_number_of_words(on_stream, oracle, same, pack, n_features):
    codes, rows = table(on_stream, pack, 5)
    codes = np.tile(codes, (4, 1))[:n_features]
    n_bins = np.tile(N_BINS, 4)[:n_features]
    require_same(on_stream, oracle, same, codes, rows, n_bins=n_bins, max_leaves=40)


@pytest.mark.parametrize("min_samples_leaf", [4, 200])
def test_categories_monotone_features_and_interactions(
    on_stream, oracle, same, pack, min_samples_leaf
):
    codes, rows = table(on_stream, pack, 6)
    flags = np.array([0, 0, 1, 0, 0, 1], bool)
    monotone = np.array([1, -1, 0, 0, 0, 0], np.int8)
    rules = FeatureRules(monotone, ((0, 1, 2, 5), (2, 3, 4, 5)), flags)
    least = min(min_samples_leaf, on_stream.n_rows // 25)
    params = GrowthParams(**{**DEFAULTS, "max_leaves": 40, "min_samples_leaf": least})
    keys = np.ones(1, np.uint64)
    found = []
    for target in (on_stream, oracle):
        statistics = target.tree_records(rows, Scales(64.0, 32.0))
        own = target.codes(codes)
        trees = target.run(grow, own, N_BINS, statistics, keys, params, rules)
        found.append(trees._replace(leaf=target.host_leaves(trees.leaf)))
    for actual, expected in zip(*found, strict=True):
        same(actual, expected)
    assert (found[1].bin[found[1].feature >= 0] < 0).any()


def test_slabs_are_read_once_a_pass(on_cpu, pack):
    codes, rows = table(on_cpu, pack, 7)
    grow_on(on_cpu, codes, rows, max_leaves=UNLIMITED, max_depth=2)
    slabs = [(0, SLAB_ROWS), (SLAB_ROWS, 2 * SLAB_ROWS), (2 * SLAB_ROWS, N_ROWS)]
    assert on_cpu.read == 3 * [slabs]


def test_slabs_without_rows_of_the_sample_are_not_read(on_cpu, oracle, same, pack):
    codes, rows = table(on_cpu, pack, 7)
    inside = rows[SLAB_ROWS + 100 : 2 * SLAB_ROWS - 100]
    require_same(on_cpu, oracle, same, codes, inside, max_leaves=UNLIMITED, max_depth=2)
    assert on_cpu.read == 3 * [[(SLAB_ROWS, 2 * SLAB_ROWS)]]


@pytest.mark.parametrize("n_trees", [1, 2])
@pytest.mark.parametrize("settings", [
    {}, {"max_leaves": 1}, {"max_leaves": 30, "min_samples_leaf": 130},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("leaf_type", [np.int32, np.uint16])
def test_statistics_in_the_order_of_the_rows(on_cpu, same, n_trees, settings, leaf_type):
    """Where all rows are in the sample they need no numbers: the trees are the same."""
    rng = np.random.default_rng(11)
    codes = on_cpu.codes(columns(on_cpu.n_rows, rng))
    g = rng.normal(size=(n_trees, N_ROWS)).astype(np.float32) + codes.columns[0] / np.float32(50)
    h = rng.random((n_trees, N_ROWS)).astype(np.float32)
    scales = [Scales(1024.0, 4096.0), Scales(512.0, 2048.0)][:n_trees]
    rows, params = np.empty(0, np.int32), GrowthParams(**{**DEFAULTS, **settings})
    how = g, h, rows, 2**31 + 5, 2**32 - 1, scales
    made, packed = quantise(*how), records_for(codes, *how)
    assert isinstance(packed, RowStatistics)
    same(packed.sums, made.sums)
    packed = packed._replace(leaf_type=np.dtype(leaf_type))
    keys = np.arange(1, n_trees + 1, dtype=np.uint64)
    found, wanted = (on_cpu.run(grow, codes, N_BINS, each, keys, params) for each in (packed, made))
    assert found.leaf.dtype == leaf_type
    for actual, expected in zip(
        found._replace(leaf=found.leaf.astype(np.int32)), wanted, strict=True
    ):
        same(actual, expected)


def test_leaves_of_large_trees_do_not_fit_two_bytes(on_cpu, monkeypatch):
    monkeypatch.setattr(streamed, "NO_LEAF", 10)
    codes = on_cpu.codes(columns(on_cpu.n_rows, np.random.default_rng(0)))
    g = np.ones((1, on_cpu.n_rows), np.float32)
    packed = records_for(codes, g, g, np.empty(0, np.int32), 1, 0, [Scales(64.0, 32.0)])
    packed = packed._replace(leaf_type=np.dtype(np.uint16))
    params = GrowthParams(**DEFAULTS)
    found = on_cpu.run(grow, codes, N_BINS, packed, np.ones(1, np.uint64), params)
    assert found.leaf.dtype == np.int32


@pytest.mark.parametrize("sampled", [False, True])
def test_codes_in_memory_and_samples_take_records(on_stream, sampled):
    target = on_stream
    codes = columns(target.n_rows, np.random.default_rng(0))
    held = target.codes(codes)
    if target.implementation is Implementation.CPU and not sampled:
        held = Codes(held.rows, held.columns)
    g = target.array(np.ones((1, target.n_rows), np.float32))
    rows = target.array(np.arange(0, target.n_rows, 2 if sampled else 1, dtype=np.int32))
    own = g, g, rows if sampled else rows[:0], 1, 0, [Scales(64.0, 32.0)]
    made = target.run(records_for, held, *own)
    assert isinstance(made, TreeRecords) and made.words.shape == (1, rows.size)


def nested_parities(pack, n_features=14, copies=4):
    """Codes and records of which every further feature of a path gains more than those before."""
    row = np.arange(2**n_features * copies)
    codes = ((row >> np.arange(n_features)[:, None]) & 1).astype(np.uint8)
    parity = np.cumprod(2 * codes.astype(np.int64) - 1, axis=0)
    g = (40 * 1.6 ** np.arange(n_features)) @ parity
    return codes, pack(np.rint(g * (30_000 / abs(g).max())), np.full(row.size, 40), row)


@pytest.mark.parametrize("max_leaves", [8, 31, 63])
def test_speculation_stays_within_the_table_of_nodes(
    on_stream, oracle, same, pack, monkeypatch, max_leaves
):
    """Where children gain more than their parents most nodes are opened in vain. There is room
    for many here, so that a growth that opens too many does not write behind the table."""
    codes, rows = nested_parities(pack)
    settings = {"max_leaves": max_leaves, "min_samples_leaf": 1}
    most = fr.node_capacity(GrowthParams(**{**DEFAULTS, **settings}), rows.size)
    frontiers = []
    allocate = fr.allocate
    monkeypatch.setattr(fr, "node_capacity", lambda params, n_rows: 40 * params.max_leaves)
    monkeypatch.setattr(fr, "allocate", lambda *a: frontiers.append(allocate(*a)) or frontiers[-1])
    n_bins = np.full(len(codes), 2, np.int32)
    require_same(on_stream, oracle, same, codes, rows, n_bins=n_bins, **settings)
    written = [int(frontier.state[fr.N_NODES]) for frontier in frontiers]
    assert len(written) >= 1 and max(written) <= most


def test_records_of_earlier_trees_are_released(on_cpu, pack, monkeypatch):
    alive = []
    grow_tree = streamed._grow_tree

    def growing(codes, n_bins, source, *args):
        own = source.records
        while isinstance(own.base, np.ndarray):
            own = own.base
        alive.append(weakref.ref(own))
        return grow_tree(codes, n_bins, source, *args)

    monkeypatch.setattr(streamed, "_grow_tree", growing)
    codes, rows = table(on_cpu, pack, 8)
    held = on_cpu.codes(codes)  # the workspace is kept with the codes
    grow(
        held,
        N_BINS,
        on_cpu.tree_records(rows.copy(), Scales(64.0, 32.0)),
        np.ones(1, np.uint64),
        GrowthParams(**DEFAULTS),
    )
    gc.collect()
    assert len(alive) == 1 and alive[0]() is None
    assert held.rows.size > 0
