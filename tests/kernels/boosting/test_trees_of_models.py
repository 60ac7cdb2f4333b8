"""Operations on CUDA on trees of several models, each with rows of its own in one table: what is
written for a tree is what is written for that tree alone, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.frontier import NODE
from gpuens.kernels.prediction.traverse import traverse_codes
from gpuens.kernels.runtime.dtypes import NO_SETS, NodeValues, Scales
from gpuens.kernels.statistics.add_leaf_values import add_values_of_trees
from gpuens.kernels.statistics.quantise import quantise

ON_CPU = ()
N_ROWS = (700, 1, 513)
"""Of the tables of three models: one beside the other they are rows of a table of all."""
FIRST = (0, 700, 701)
MODELS = range(3)
LOW_32 = np.uint64(0xFFFFFFFF)


def own_trees(numbers=(0, 0, 0), sizes=N_ROWS, begin=(-1, -1, -1)):
    """A tree a model."""
    keys = [7 + k for k in MODELS]
    return np.array([keys, numbers, sizes, begin, FIRST, N_ROWS], np.int64).T.copy()


def leaves_with_marks(rng, n_nodes):
    """The leaves of each model's rows, and marks behind them."""
    leaf = np.full((3, max(N_ROWS)), -1, np.int32)
    for k, n in enumerate(N_ROWS):
        leaf[k, :n] = rng.integers(0, n_nodes[k], n)
    return leaf


@pytest.mark.parametrize("factors", [(0.5, 0.5, 0.5), (0.1, 0.3, -2.0)])
def test_values_are_added_to_rows_that_have_a_leaf(target, oracle, same, factors):
    rng, n_nodes = np.random.default_rng(0), (40, 1, 7)
    leaf, raw = leaves_with_marks(rng, n_nodes), rng.normal(size=(3, max(N_ROWS)))
    values = [NodeValues(own, own) for own in map(rng.normal, (0,) * 3, (1,) * 3, n_nodes)]
    expected = raw.copy()
    for k, n in enumerate(N_ROWS):
        one = expected[k : k + 1, :n].copy()
        oracle.run(add_values_of_trees, one, leaf[k : k + 1, :n], [values[k]], [factors[k]])
        expected[k, :n] = one[0]
    for own in target.leaves(leaf):
        updated = target.array(raw)
        target.run(add_values_of_trees, updated, own, values, factors)
        same(target.host(updated), expected)


@pytest.mark.parametrize("sampled", [(), (0, 2), (0, 1, 2)], ids=str)
def test_records_have_rows_of_the_table_of_all(target, oracle, same, sampled):
    from gpuens.kernels.statistics.cuda.quantise import quantise_models

    rng, scales = np.random.default_rng(1), [Scales(2.0**k, 2.0 ** (k + 3)) for k in MODELS]
    g, h = rng.normal(0, 9, (2, 3, max(N_ROWS))).astype(np.float32)
    h = abs(h)
    samples = [np.arange(n, dtype=np.int32) for n in N_ROWS]
    numbers, begin = (2, 0, 5), [-1, -1, -1]
    for k in sampled:
        begin[k] = sum(samples[i].size for i in sampled if i < k)
        samples[k] = samples[k][:: k + 1]
    rows = [np.zeros(0, np.int32), *(samples[k] for k in sampled)]
    of_trees = own_trees(numbers, [own.size for own in samples], begin)
    made, on_gpu = target.run(
        quantise_models, target.array(g), target.array(h), target.array(np.concatenate(rows)),
        of_trees, scales,
    )  # fmt: skip
    same(target.host(on_gpu), of_trees)
    for k, own in enumerate(samples):
        line = g[k : k + 1], h[k : k + 1]
        alone = oracle.run(quantise, *line, own, 7 + k, numbers[k], scales[k : k + 1])
        same(target.host(made.words)[k, : own.size], alone.words[0] + np.uint64(FIRST[k]))
        same(target.host(made.sums)[k], alone.sums[0])


def test_leaves_are_scattered_to_rows_of_each_model(target, same):
    from gpuens.kernels.growth.cuda.partition import scatter_tiles
    from gpuens.kernels.runtime.cuda.blocks import TILE
    from gpuens.kernels.runtime.cuda.target import upload, upload_records

    rng = np.random.default_rng(2)
    nodes, tiles = np.zeros(6, NODE), np.zeros(6, TILE)
    words = rng.integers(0, 2**62, (2, 3 * max(N_ROWS))).astype(np.uint64) & ~LOW_32
    expected = np.full((3, max(N_ROWS)), -1, np.int32)
    for k, n in enumerate(N_ROWS):
        order, begin, middle = rng.permutation(n), k * max(N_ROWS), n // 3
        for side, part in enumerate((slice(0, middle), slice(middle, n))):
            x = 2 * k + side
            nodes[5 - x]["tree"], nodes[5 - x]["leaf"] = k, 3 + x
            tiles[x]["of"], tiles[x]["buffer"] = x, side
            tiles[x]["begin"], tiles[x]["end"] = begin + part.start, begin + part.stop
            rows = order[part]
            words[side, begin + part.start : begin + part.stop] |= (FIRST[k] + rows).astype(
                np.uint64
            )
            expected[k, rows] = 3 + x
    of, n_tiles, of_trees = upload(np.arange(6)[::-1].copy(), np.array([6]), own_trees())
    for out in target.leaves(np.full(expected.shape, -1)):
        records = map(target.array, words)
        target.run(
            scatter_tiles, *records, upload_records(nodes), of, upload_records(tiles), n_tiles, out,
            of_trees,
        )  # fmt: skip
        same(target.host_leaves(out), expected)


def test_rows_go_down_the_trees_of_their_model(target, oracle, same, random_tree):
    from gpuens.kernels.prediction.cuda.traverse import traverse_codes as traverse_of_models

    rng = np.random.default_rng(3)
    columns = rng.integers(0, 256, (5, sum(N_ROWS))).astype(np.uint8)
    trees = [random_tree(rng, n_leaves, 5) for n_leaves in (31, 9, 2)]
    offset = np.cumsum([0, *(len(tree["feature"]) for tree in trees)])
    order = ("feature", "bin_", "missing_left", "left", "right")
    arrays = [np.concatenate([tree[name] for tree in trees]) for name in order]
    given = np.full((3, max(N_ROWS)), -1, np.int32)
    given[:, 2::3] = 1  # rows of a sample, and others behind those of a model
    expected = given.copy()
    for k, n in enumerate(N_ROWS):
        codes = oracle.codes(columns[:, FIRST[k] : FIRST[k] + n])
        own = [trees[k][name] for name in order]
        leaf = given[k : k + 1, :n].copy()
        oracle.run(traverse_codes, codes, np.array([0, len(own[0])]), *own, leaf)
        expected[k, :n] = leaf[0]
    for leaf in target.leaves(given):
        of_trees = target.array(own_trees())
        target.run(
            traverse_of_models, target.codes(columns), offset, *arrays, leaf, NO_SETS, of_trees
        )
        same(target.host_leaves(leaf), expected)
