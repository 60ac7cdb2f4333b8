"""Growth driven from the host, one operation after the other.

Serves the reference and CUDA: the operations dispatch on the arrays, and the control, shared
with the CPU's compiled loop, is ``frontier``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .. import frontier as fr
from ..dtypes import Codes
from ..frontier import Frontier, GrowthParams, Nodes
from ..grow import GrownTrees, empty_trees, n_histogram_slots, table_capacity
from ..histogram import histogram
from ..partition import partition
from ..scatter_leaves import scatter_leaves
from ..split import split


def grow(
    codes: Codes,
    n_bins: np.ndarray,
    records: Any,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    scale_g: np.ndarray,
    scale_h: np.ndarray,
    params: GrowthParams,
) -> GrownTrees:
    n_features, n_rows = (int(size) for size in codes.columns.shape)
    capacity = table_capacity(params, tree_begin, tree_end)
    slots = n_histogram_slots(n_features, capacity)
    nodes, frontier = fr.allocate(tree_begin.size, capacity, slots)
    frontier.scale_g[:] = scale_g
    frontier.scale_h[:] = scale_h
    batch = _Batch(codes, n_bins, records, keys, params, nodes, frontier)
    root_g, root_h = _root_totals(records, tree_begin, tree_end)
    fr.start(nodes, frontier, params, tree_begin, tree_end, root_g, root_h, keys)
    batch.find_splits()
    while fr.choose(nodes, frontier, params):
        batch.partition()
        fr.commit(nodes, frontier, params)
        batch.find_splits()
    return batch.result(n_rows)


def _root_totals(records: Any, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of g and h over the records of each tree."""
    xp = array_namespace(records)
    g = xp.astype(records >> 48, xp.int64)
    g = xp.where(g >= 2**15, g - 2**16, g)
    h = xp.astype((records >> 32) & 0xFFFF, xp.int64)
    return tuple(
        np.array([int(xp.sum(v[int(b) : int(e)])) for b, e in zip(begin, end, strict=True)])
        for v in (g, h)
    )


class _Batch:
    """The trees under construction: the tables of ``frontier`` and the kept histograms."""

    def __init__(
        self,
        codes: Codes,
        n_bins: np.ndarray,
        records: Any,
        keys: np.ndarray,
        params: GrowthParams,
        nodes: Nodes,
        frontier: Frontier,
    ) -> None:
        self.codes = codes
        self.n_bins = n_bins
        self.records = records
        self.keys = keys
        self.params = params
        self.nodes = nodes
        self.frontier = frontier
        self.kept: dict[int, Any] = {}
        self.xp = array_namespace(records)

    def partition(self) -> None:
        nodes, frontier = self.nodes, self.frontier
        x = frontier.expand[: frontier.state[fr.N_EXPAND]]
        frontier.n_left[: x.size] = partition(
            self.codes,
            self.records,
            nodes.begin[x],
            nodes.end[x],
            nodes.feature[x],
            nodes.bin[x],
            nodes.missing_left[x],
        )

    def find_splits(self) -> None:
        """Histograms and best splits of the round's pairs, then of the nodes to recheck."""
        nodes, frontier, params = self.nodes, self.frontier, self.params
        build = frontier.build[: frontier.state[fr.N_PAIRS]]
        sibling = frontier.sibling[: build.size]
        new = [int(x) for pair in zip(build, sibling, strict=True) for x in pair if x >= 0]
        if new:
            for x, sums in zip(build, self.sums(self.records, build), strict=True):
                self.kept[int(nodes.slot[x])] = sums
            for x, other in zip(build, sibling, strict=True):
                if other >= 0:
                    slot = int(nodes.slot[other])
                    self.kept[slot] = self.kept[slot] - self.kept[int(nodes.slot[x])]
        splittable = [x for x in new if fr.can_split(nodes, frontier, params, x)]
        for x in set(new).difference(splittable):
            fr.release(nodes, frontier, x)
        self.choose_splits(splittable, exact=False)
        recheck = [int(x) for x in frontier.recheck[: frontier.state[fr.N_RECHECK]]]
        frontier.state[fr.N_RECHECK] = 0
        self.choose_splits(recheck, exact=True)

    def sums(self, records: Any, x: Any) -> list[Any]:
        """Histograms of nodes, added up from their rows."""
        at = np.asarray(x)
        total = histogram(self.codes, records, self.nodes.begin[at], self.nodes.end[at])
        return [total[k, ...] for k in range(at.size)]

    def choose_splits(self, x: list[int], exact: bool) -> None:
        """Compare the splits of nodes, with exact row counts if asked for."""
        if not x:
            return
        nodes, frontier, params, xp = self.nodes, self.frontier, self.params, self.xp
        at = np.array(x)
        histograms = [
            self.kept[slot] if slot >= 0 else self.sums(self.records, [k])[0]
            for k, slot in zip(x, nodes.slot[at].tolist(), strict=True)
        ]
        counts = xp.zeros((0, 0, 0), dtype=xp.int32, device=device(self.records))
        if exact:  # a row count is the sum of a hessian of one
            counted = (self.records & 0xFFFFFFFF) | 2**32
            counts = xp.stack([total[1, ...] for total in self.sums(counted, x)])
        best = split(
            xp.stack(histograms),
            self.n_bins,
            np.stack([nodes.g[at], nodes.h[at]], axis=1),
            np.array([fr.least_h(nodes, frontier, params, k) for k in x]),
            params.l2 * frontier.scale_h[nodes.tree[at]],
            self.allowed(x),
            counts,
            params.min_samples_leaf,
        )
        nodes.feature[at] = best.feature
        nodes.bin[at] = best.bin
        nodes.missing_left[at] = best.missing_left
        nodes.left_g[at] = best.left_g
        nodes.left_h[at] = best.left_h
        for k, score in zip(x, best.score, strict=True):
            fr.settle(nodes, frontier, params, k, score)

    def allowed(self, x: list[int]) -> np.ndarray:
        """The features that each node may use."""
        n_features = self.n_bins.size
        mask = np.empty((len(x), n_features), np.uint8)
        features, scratch = np.empty(n_features, np.int32), np.empty(n_features, np.uint64)
        for k, row in zip(x, mask, strict=True):
            key = self.keys[self.nodes.tree[k]]
            fr.allow_features(self.nodes, self.params, k, key, features, scratch, row)
        return mask

    def result(self, n_rows: int) -> GrownTrees:
        nodes, frontier = self.nodes, self.frontier
        n_trees = frontier.expanded.size
        n_nodes = int(frontier.state[fr.N_NODES])
        order, offset = np.empty(n_nodes, np.int32), np.empty(n_trees + 1, np.int64)
        total = fr.finish(nodes, frontier, self.params, order, offset)
        ends = np.flatnonzero(nodes.child[:n_nodes] < 0)
        ends = ends[np.argsort(nodes.begin[ends], kind="stable")]
        trees = empty_trees(
            n_trees,
            total,
            scatter_leaves(
                self.records,
                nodes.begin[ends],
                nodes.end[ends],
                nodes.tree[ends],
                nodes.leaf[ends],
                (n_trees, n_rows),
            ),
        )
        trees.offset[:] = offset
        fr.emit(nodes, order, *trees[:-1])
        return trees
