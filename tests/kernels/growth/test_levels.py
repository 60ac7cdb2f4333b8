"""Symmetric trees: one split for all nodes of a level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuens.kernels.growth.grow import GrownTrees, grow
from gpuens.kernels.growth.params import UNLIMITED
from gpuens.kernels.runtime.dtypes import TreeRecords
from tests.kernels.growth.batches import BATCHES, DRAWN, batch, ruled
from tests.kernels.growth.rounds import Batch
from tests.support.lanes import few


def symmetric(made: Batch, max_depth: int = 4, **settings) -> Batch:
    params = made.params._replace(max_leaves=UNLIMITED, max_depth=max_depth, is_symmetric=1)
    return replace(made, params=params._replace(**settings))


OWN = {
    "one level": lambda rng: batch(rng, max_depth=1),
    "interactions of two": lambda rng: batch(rng, n_trees=2, max_path_features=2, max_depth=5),
    "categories of many rows": lambda rng: ruled(rng, min_samples_leaf=40, cat_l2=5.0),
    "drawn features of each level": lambda rng: batch(rng, n_trees=3, min_samples_leaf=30, **DRAWN),
}
LARGE = ("ties of categories", "ties, by histograms")
"""Sixty trees each; those of "ties" are as many."""
NAMES = [*BATCHES, *OWN]
CASES = few(NAMES, *(name for name in NAMES if name not in LARGE))


def made(name: str) -> Batch:
    own = {**BATCHES, **OWN}[name](np.random.default_rng(1))
    depth = own.params.max_depth if own.params.max_depth < 6 else 4
    return symmetric(own, depth)


def grown(target, own: Batch) -> list[np.ndarray]:
    records = TreeRecords(target.array(own.words.copy()), target.array(own.sums()), own.scales)
    keys = np.arange(1, len(own.words) + 1, dtype=np.uint64)
    what = target.codes(own.columns), own.n_bins, records, keys, own.params, own.rules
    trees = target.run(grow, *what)
    return [
        *(getattr(trees, name) for name in GrownTrees._fields[:-1]),
        target.host_leaves(trees.leaf),
    ]


@pytest.mark.parametrize("name", CASES)
def test_parity(target, oracle, same, name):
    if target.simulated:
        pytest.skip("the simulator is too slow for whole growths")
    own = made(name)
    for got, wanted in zip(grown(target, own), grown(oracle, own), strict=True):
        same(got, wanted)


def levels_of(trees: dict[str, np.ndarray], tree: int) -> list[set[tuple[int, ...]]]:
    """The splits of each depth."""
    begin, end = trees["offset"][tree : tree + 2]
    depth = np.zeros(end - begin, int)
    splits: list[set[tuple[int, ...]]] = []
    for x in range(end - begin):
        left = trees["left"][begin + x]
        if left >= 0:
            depth[left] = depth[trees["right"][begin + x]] = depth[x] + 1
            names = "feature", "bin", "missing_left"
            split = tuple(int(trees[name][begin + x]) for name in names)
            if depth[x] == len(splits):
                splits.append(set())
            splits[depth[x]].add((*split, *trees["left_codes"][begin + x : begin + x + 1].ravel()))
    return splits


@pytest.mark.parametrize("name", CASES)
def test_a_tree_has_no_more_splits_than_levels(oracle, name):
    own = made(name)
    trees = dict(zip(GrownTrees._fields, grown(oracle, own), strict=True))
    for tree in range(len(own.words)):
        levels = levels_of(trees, tree)
        assert len(levels) <= own.params.max_depth
        assert len(set().union(*levels)) <= own.params.max_depth
        assert all(len(splits) == 1 for splits in levels[:1])
    leaves = trees["left"] < 0
    assert trees["n_samples"][leaves].min() >= min(own.params.min_samples_leaf, own.words.shape[1])
