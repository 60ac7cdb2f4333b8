"""Growth of classification and regression trees (contract: ``kernels.cart.grow_cart``).

Driven from the host for now, generation by generation, some launches for the nodes of all
trees. ABSOLUTE_ERROR, whose scores do not follow from statistics, and codes of 32 bits are grown
by the host's threads on copies of the arrays: the trees are the same.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import download, on_device
from ...scalars import rng, routing
from ...scalars.primitives import vectorise
from ..cpu import grow_cart as host
from ..problem import ABSOLUTE_ERROR, CartParams, CartTable, CartTarget, GrownCart
from ..reference.grow_cart import drive
from ..reference.splits import score
from .cuts import (
    CUT,
    FIRST_RIGHT,
    IS_CONSTANT,
    LAST_LEFT,
    LEFT_VALUE,
    MISSING_LEFT,
    RIGHT_VALUE,
    SCORE,
    Cuts,
    find_cuts,
    upload_bins,
)
from .rows import add_up, partition

draw, subkey, midpoint = (
    vectorise(formula) for formula in (rng.draw, rng.subkey, routing.midpoint)
)

MOST_FEATURES = 2**24
"""Nodes times features whose orders are drawn at a time."""


def grow_cart(
    table: CartTable,
    target: CartTarget,
    records: Array,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    args = (table, target, records, tree_begin, tree_end, keys, params)
    if params.criterion == ABSOLUTE_ERROR or table.codes.dtype != np.uint8:
        return _grow_on_host(*args)
    rows = Generation(table, target, records, params)
    return drive(rows, table, target, tree_begin, tree_end, keys, params)


def _grow_on_host(table: CartTable, target: CartTarget, records: Array, *trees: Array) -> GrownCart:
    table = table._replace(codes=download(table.codes))
    arrays = (download(a) for a in (target.classes, target.values, target.weight))
    on_host = CartTarget(*arrays, target.output_begin)
    moved = download(records).copy()
    grown = host.grow_cart(table, on_host, moved, *trees)
    records[...] = on_device(moved)
    return grown


class Generation:
    """The rows of a batch of trees (see ``Rows``), for all nodes of a generation."""

    def __init__(
        self, table: CartTable, target: CartTarget, records: Array, params: CartParams
    ) -> None:
        self.table = table
        self.target = target
        self.records = records
        self.params = params
        self.bins = upload_bins(table)

    def add_up(self, nodes: np.ndarray) -> np.ndarray:
        segments = nodes["begin"], nodes["end"]
        nodes["statistics"], pure = add_up(self.target, self.records, *segments)
        return pure

    def partition(self, nodes: np.ndarray) -> np.ndarray:
        return partition(self.table, self.records, nodes)

    def find_splits(self, nodes: np.ndarray) -> None:
        step = max(1, MOST_FEATURES // self.table.n_bins.size)
        for first in range(0, nodes.size, step):
            self._find_splits(nodes[first : first + step])

    def _find_splits(self, nodes: np.ndarray) -> None:
        """Search in rounds; later ones are for nodes that have seen only constant features.

        The first round looks at ``max_features`` features of every node, the next ones at more of
        them at once than they may have to, of which the first that varies counts.
        """
        features = FeatureOrder(nodes["key"], self.table.n_bins.size, self.params.shuffle)
        waiting = np.arange(nodes.size)
        seen, width = 0, self.params.max_features
        while waiting.size and seen < self.table.n_bins.size:
            looked_at = features.next(width)
            n_nodes, width = looked_at.shape
            item_node, item_feature = np.repeat(waiting, width), looked_at.ravel()
            cuts = self._find_cuts(nodes, item_node.astype(np.int32), item_feature)
            varies = (cuts.integers[:, IS_CONSTANT] == 0).reshape(n_nodes, width)
            scores = cuts.reals[:, SCORE].reshape(n_nodes, width)
            best = np.argmax(varies if seen else scores, axis=1)
            best += np.arange(n_nodes) * width
            best = best[cuts.reals[best, SCORE] > -np.inf]
            self._write(nodes, item_node[best], item_feature[best], Cuts(*(a[best] for a in cuts)))
            constant = ~varies.any(axis=1)
            waiting, seen = waiting[constant], seen + width
            features.keep(constant)
            width *= 2

    def _find_cuts(self, nodes: np.ndarray, node: np.ndarray, feature: np.ndarray) -> Cuts:
        on_device = self.table, self.bins, self.target, self.records
        return find_cuts(*on_device, nodes, node, feature, self.params)

    def _write(self, nodes: np.ndarray, at: np.ndarray, feature: np.ndarray, cuts: Cuts) -> None:
        """Fill the columns of nodes with their splits."""
        table = self.table
        parents = score(nodes["statistics"][at].T, self.target, self.params.criterion)
        last_left, first_right = cuts.integers[:, LAST_LEFT], cuts.integers[:, FIRST_RIGHT]
        nodes["feature"][at] = feature
        nodes["bin"][at] = last_left
        nodes["missing_left"][at] = cuts.integers[:, MISSING_LEFT]
        nodes["categories"][at] = cuts.categories
        nodes["gain"][at] = cuts.reals[:, SCORE] - parents
        nodes["values"][at] = cuts.reals[:, [LEFT_VALUE, RIGHT_VALUE]]
        numeric = table.categorical[feature] == 0
        nodes["threshold"][at[numeric]] = np.inf
        between = numeric & (first_right >= 0)
        begin = table.begin[feature[between]]
        low = table.upper[begin + last_left[between]]
        high = table.lower[begin + first_right[between]]
        with np.errstate(invalid="ignore"):  # the middle of infinities
            threshold = midpoint(low, high)
        if self.params.random_splits:
            cut = cuts.reals[between, CUT]
            threshold = np.where((low <= cut) & (cut < high), cut, threshold)
        nodes["threshold"][at[between]] = threshold


class FeatureOrder:
    """The features of many nodes in the orders in which these look at them."""

    def __init__(self, keys: np.ndarray, n_features: int, shuffle: int) -> None:
        self.order = np.tile(np.arange(n_features, dtype=np.int32), (keys.size, 1))
        zeros = np.zeros_like(keys)
        self.streams = subkey(keys, zeros + rng.PURPOSE_FEATURES, zeros)
        self.shuffle = shuffle
        self.n_seen = 0

    def next(self, n: int) -> np.ndarray:
        """Return the next n features of every node, or all that are left."""
        first, n_features = self.n_seen, self.order.shape[1]
        self.n_seen = min(first + n, n_features)
        node = np.arange(self.streams.size)
        for j in range(first, self.n_seen if self.shuffle else first):
            share = draw(self.streams, np.full_like(self.streams, j)) * np.uint64(n_features - j)
            other = j + (share >> np.uint64(32)).astype(np.int64)
            chosen = self.order[node, other]
            self.order[node, other] = self.order[:, j]
            self.order[:, j] = chosen
        return self.order[:, first : self.n_seen]

    def keep(self, nodes: np.ndarray) -> None:
        """Drop all other nodes."""
        self.order, self.streams = self.order[nodes], self.streams[nodes]
