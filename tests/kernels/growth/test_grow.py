"""Growth of batches of trees."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth import frontier as fr
from gpuens.kernels.growth.cpu.grow import frontier_of
from gpuens.kernels.growth.cpu.layout import FEWEST_ROWS, layout
from gpuens.kernels.growth.grow import GrownTrees, grow
from gpuens.kernels.growth.params import NO_RULES, UNLIMITED, FeatureRules, GrowthParams
from gpuens.kernels.growth.reference.grow import _Batch
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.runtime.dtypes import MISSING, Scales
from tests.kernels.implementations import Target

N_BINS = np.array([200, 2, 3, 1, 2, 17], np.int32)
DEFAULTS = {
    "max_leaves": 8,
    "max_depth": UNLIMITED,
    "min_samples_leaf": 4,
    "min_sum_hessian": 1e-3,
    "l2": 0.0,
    "min_gain": 0.0,
    "colsample_bytree": 1.0,
    "colsample_bylevel": 1.0,
    "colsample_bynode": 1.0,
}


def columns(n: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of a wide feature, small ones, a constant one, some with missing values."""
    codes = np.stack([rng.integers(0, n_bins, n) for n_bins in N_BINS]).astype(np.uint8)
    codes[0, rng.random(n) < 0.1] = MISSING
    codes[4, rng.random(n) < 0.2] = MISSING
    return codes


def records(codes: np.ndarray, rng: np.random.Generator, pack) -> np.ndarray:
    """Statistics that depend on the features; hessians so uneven that counts mislead."""
    n = codes.shape[1]
    g = 300.0 * (codes[0] > 90) - 200.0 * codes[1] + 100.0 * codes[2] + rng.normal(0, 80, n)
    h = np.where(rng.random(n) < 0.05, 4000, 40)
    return pack(np.rint(g), h, np.arange(n))


def grow_on(target, codes, rows, n_trees=1, n_bins=N_BINS, rules=NO_RULES, **settings):
    trees = target.run(
        grow,
        target.codes(codes),
        n_bins,
        target.tree_records(rows, Scales(64.0, 32.0), n_trees),
        np.arange(1, n_trees + 1, dtype=np.uint64),
        GrowthParams(**{**DEFAULTS, **settings}),
        rules,
    )
    return [
        *(getattr(trees, name) for name in GrownTrees._fields[:-1]),
        target.host_leaves(trees.leaf),
    ]


@pytest.mark.parametrize("min_samples_leaf", [1, 12])
def test_one_thread_opens_no_node_in_vain(pack, min_samples_leaf):
    """Also where splits leave too few rows, and other nodes take their places."""
    rng, cpu = np.random.default_rng(2), Target(Implementation.CPU, np)
    codes = cpu.codes(columns(900, rng))
    words = records(codes.columns, rng, pack)
    params = GrowthParams(**{**DEFAULTS, "max_leaves": 20, "min_samples_leaf": min_samples_leaf})
    keys, trees = np.arange(1, 4, dtype=np.uint64), cpu.tree_records(words, Scales(64.0, 32.0), 3)
    grown = grow(codes, N_BINS, trees, keys, params)
    tables = frontier_of(codes, 3, words.size, params, N_BINS, NO_RULES)
    assert tables.state[fr.N_NODES] == grown.offset[-1]


@pytest.mark.parametrize("settings", [
    {}, {"max_leaves": UNLIMITED, "max_depth": 3}, {"max_leaves": 1},
    {"max_leaves": 40, "min_samples_leaf": 1},
    {"n_trees": 3, "colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    {"l2": 3.0, "min_gain": 0.5, "min_sum_hessian": 20.0},
    {"max_leaves": 20, "min_samples_leaf": 12},
], ids=str)  # fmt: skip
def test_parity(target, oracle, same, pack, settings):
    rng = np.random.default_rng(1)
    n = target.rows(500)
    codes = columns(n, rng)
    rows = records(codes, rng, pack)
    actual, expected = (grow_on(t, codes, rows, **settings) for t in (target, oracle))
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)


@pytest.mark.parametrize("settings", [{}, {"colsample_bynode": 0.6}, {"l2": 1.0}], ids=str)
def test_nodes_of_many_rows_with_a_large_least_leaf(target, oracle, same, pack, settings):
    if target.rows(2500) < 2500:
        pytest.skip("the simulator is too slow for so many rows")
    rng = np.random.default_rng(8)
    codes = columns(2500, rng)
    rows = records(codes, rng, pack)
    settings = {"min_samples_leaf": 120, "max_leaves": 16, **settings}
    actual, expected = (grow_on(t, codes, rows, **settings) for t in (target, oracle))
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)


def test_rows_outside_the_sample_have_no_leaf(target, oracle, same, pack):
    rng = np.random.default_rng(2)
    codes = columns(target.rows(300), rng)
    rows = records(codes, rng, pack)[::3]
    *_, leaf = grow_on(target, codes, rows)
    same(leaf, grow_on(oracle, codes, rows)[-1])
    assert np.all((leaf[0] >= 0) == np.isin(np.arange(codes.shape[1]), rows & 0xFFFFFFFF))


@pytest.mark.parametrize("slots, n_trees", [(4, 1), (6, 1), (4, 6)])
def test_few_histograms_grow_the_same_trees(
    target, oracle, same, pack, monkeypatch, slots, n_trees
):
    """Histograms that were given up are built again; every root has one."""
    rng = np.random.default_rng(3)
    codes = columns(target.rows(400), rng)
    rows = records(codes, rng, pack)
    settings = {"max_leaves": UNLIMITED, "max_depth": 4 if n_trees == 1 else 2, "n_trees": n_trees}
    expected = grow_on(oracle, codes, rows, **settings)
    monkeypatch.setattr(fr, "HISTOGRAM_BYTES", slots * N_BINS.size * 256 * 8)
    actual = grow_on(target, codes, rows, **settings)
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)


@pytest.mark.parametrize("slots", [4, 100])
def test_equal_gains_are_opened_from_the_left(target, oracle, same, pack, monkeypatch, slots):
    """Both halves of the table have the same gains, whichever nodes a round opens."""
    rng = np.random.default_rng(7)
    half = columns(target.rows(200), rng)
    codes = np.concatenate([half, half], axis=1)
    codes[1] = np.repeat([0, 1], half.shape[1])
    g = np.rint(900 + 300 * (half[0] > 90) + 100.0 * half[2] + rng.normal(0, 80, half.shape[1]))
    rows = pack(np.concatenate([g, -g]), np.full(codes.shape[1], 40), np.arange(codes.shape[1]))
    settings = {"max_leaves": 14, "min_samples_leaf": 1, "n_trees": 2}
    expected = grow_on(oracle, codes, rows, **settings)
    gains = expected[GrownTrees._fields.index("gain")]
    assert np.unique(gains[gains > 0]).size < np.count_nonzero(gains[: gains.size // 2])
    monkeypatch.setattr(fr, "HISTOGRAM_BYTES", slots * N_BINS.size * 256 * 8)
    actual = grow_on(target, codes, rows, **settings)
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)


def test_splits_that_leave_too_few_rows_are_chosen_again(oracle, pack, monkeypatch):
    rng = np.random.default_rng(4)
    codes = columns(600, rng)
    rows = records(codes, rng, pack)
    rechecked = []
    original = _Batch.best_splits_counted
    monkeypatch.setattr(
        _Batch, "best_splits_counted", lambda self, x: rechecked.extend(x) or original(self, x)
    )
    trees = grow_on(oracle, codes, rows, max_leaves=UNLIMITED, min_samples_leaf=15)
    n_samples = trees[7]
    assert rechecked
    assert n_samples.min() >= 15


@pytest.mark.parametrize("slots", [4, 100])
def test_large_nodes_are_chosen_again(target, oracle, same, pack, monkeypatch, slots):
    """The best split of every node cuts off the first bin of a feature whose neighbouring bins
    cancel; its rows are too few. On a GPU blocks share the rows of such nodes. With few slots, the
    histograms of some have been given up."""
    rng = np.random.default_rng(9)
    n = target.rows(120_000, 600)
    codes = columns(n, rng)
    g = np.where(codes[0] % 2 == 0, 25_000, -25_000) + rng.normal(0, 400, n)
    g += 2500.0 * codes[1] + 1000.0 * codes[2] + 80.0 * codes[5]
    rows = pack(np.rint(np.where(codes[0] == MISSING, 0, g)), np.full(n, 50), np.arange(n))
    rechecked = []
    original = _Batch.best_splits_counted
    monkeypatch.setattr(
        _Batch, "best_splits_counted", lambda self, x: rechecked.extend(x) or original(self, x)
    )
    monkeypatch.setattr(fr, "HISTOGRAM_BYTES", slots * N_BINS.size * 256 * 8)
    settings = {"max_leaves": UNLIMITED, "max_depth": 4, "min_samples_leaf": n // 30}
    actual, expected = (grow_on(t, codes, rows, **settings) for t in (target, oracle))
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)
    assert len(rechecked) > 3


@pytest.mark.parametrize("categorical", [[], [True] + [False] * 5], ids=["numbers", "categories"])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_nodes_that_threads_share(oracle, same, pack, n_threads, categorical):
    """Nodes of tens of thousands of rows are cut, smaller ones of the same round are not."""
    from gpuens.kernels.runtime.cpu import team
    from gpuens.kernels.runtime.dispatch import Implementation

    rng = np.random.default_rng(10)
    codes = columns(70_000, rng)
    rows = records(codes, rng, pack)
    cpu = type(oracle)(Implementation.CPU, oracle.xp)
    rules = FeatureRules(categorical=np.array(categorical, bool))
    settings = {"max_leaves": 12, "n_trees": 2, "rules": rules}
    with team.using_threads(n_threads):
        actual = grow_on(cpu, codes, rows, **settings)
    for got, wanted in zip(actual, grow_on(oracle, codes, rows, **settings), strict=True):
        same(got, wanted)


def one_of(choice: np.ndarray, n_columns: int) -> list[np.ndarray]:
    """Columns of which at most one is 1 in a row, none where the choice is ``n_columns``."""
    return [choice == k for k in range(n_columns)]


def shared_bytes(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """A table, its numbers of bins, and how many features each byte holds."""
    n_bins = np.array([50] + [2] * 11 + [5, 4], np.int32)
    codes = np.stack([rng.integers(0, k, n) for k in n_bins]).astype(np.uint8)
    codes[3, :7] = MISSING
    return codes, n_bins, [1, 1, 8, 4]


def shared_digits(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Two choices as columns of zeros and ones, one of which is the other way round; rare counts
    that never meet; a feature of its own; one that meets the others in one row only."""
    codes = np.zeros((16, n), np.uint8)
    codes[0] = rng.integers(0, 200, n)
    codes[1:6] = one_of(rng.integers(0, 5, n), 5)
    codes[3] = 1 - codes[3]
    choice, counted = rng.integers(0, 9, n), rng.integers(0, 12, n)
    codes[6:13] = one_of(choice, 7)
    codes[13] = np.where(counted == 0, rng.integers(0, 30, n), 3)
    codes[14] = np.where(counted == 1, rng.integers(0, 20, n), 19)
    not_sampled = np.arange(n) % 2 == 1
    codes[15, np.flatnonzero((choice == 0) & (counted == 0) & not_sampled)[0]] = 1
    n_bins = np.array([200] + [2] * 12 + [30, 20, 2], np.int32)
    return codes, n_bins, [1, 12, 3]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("table", [shared_bytes, shared_digits])
def test_features_that_share_a_byte_change_nothing(
    oracle, same, pack, monkeypatch, request, n_threads, table
):
    from gpuens.kernels.runtime.cpu import team
    from gpuens.kernels.runtime.dispatch import Implementation

    rng = np.random.default_rng(5)
    n = FEWEST_ROWS
    codes, n_bins, in_a_byte = table(n, rng)
    g = codes[2] * 50.0 - codes[9] * 70 + codes[13] * 8.0 + rng.normal(0, 60, n)
    rows = pack(np.rint(g), 30, np.arange(n))
    cpu = type(oracle)(Implementation.CPU, oracle.xp)
    settings = {"max_leaves": 60, "colsample_bynode": 0.8}
    with team.using_threads(n_threads):
        actual = grow_on(cpu, codes, rows, n_bins=n_bins, **settings)
    expected = grow_on(oracle, codes, rows, n_bins=n_bins, **settings)
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)
    assert np.diff(layout(cpu.codes(codes), n_bins).column_begin).tolist() == in_a_byte


def test_trees_of_a_batch_are_those_grown_alone(oracle, same, pack):
    rng = np.random.default_rng(6)
    codes = columns(200, rng)
    rows = records(codes, rng, pack)
    together = grow_on(oracle, codes, rows, n_trees=3)
    alone = grow_on(oracle, codes, rows)
    first = slice(0, alone[0][-1])
    for got, wanted in zip(together[1:-1], alone[1:-1], strict=True):
        same(got[first], wanted)
    assert together[0].tolist() == [k * int(alone[0][-1]) for k in range(4)]


def test_a_smaller_budget_keeps_the_best_splits(oracle, pack):
    """Best first: the splits of a small tree are those of the large one with the largest gain
    along every path."""
    rng = np.random.default_rng(7)
    codes = columns(800, rng)
    rows = records(codes, rng, pack)
    gains = [
        sorted(g for g in grow_on(oracle, codes, rows, max_leaves=n)[6] if g > 0)
        for n in (4, 8, 16)
    ]
    for fewer, more in zip(gains[:-1], gains[1:], strict=True):
        assert set(fewer) <= set(more)


def test_min_samples_leaf_counts_rows_not_hessians(oracle, pack):
    """The best split with enough rows, found by trying all. Left of it stand nearly certain rows
    only, which have a thousandth of the hessian: fewer than ``min_samples_leaf`` average ones."""
    n, least = 400, 30
    codes = (np.arange(n) // 4).astype(np.uint8)[None, :]
    g = np.where(np.arange(n) < 60, 8, -3)
    h = np.where(np.arange(n) < 60, 2, 2000)
    g[-8:] = 900  # the best split of all has too few rows on its right
    trees = grow_on(
        oracle, codes, pack(g, h, np.arange(n)), n_bins=np.array([100], np.int32),
        max_leaves=2, min_samples_leaf=least, min_sum_hessian=0.0,
    )  # fmt: skip
    left_g, left_h, rows = (np.cumsum(a)[3::4][:-1] for a in (g, h, np.ones(n)))
    score = left_g**2 / left_h + (g.sum() - left_g) ** 2 / (h.sum() - left_h)
    unlimited = int(np.argmax(score))
    assert min(rows[unlimited], n - rows[unlimited]) < least
    score[np.minimum(rows, n - rows) < least] = -np.inf
    best = int(np.argmax(score))
    assert trees[2][0] == best
    assert trees[7].tolist() == [n, int(rows[best]), n - int(rows[best])]
    assert left_h[best] < least * h.mean()
