"""Honest trees: one half of a tree's sample chooses the splits, the other half the numbers of the
nodes.

A leaf's own rows were chosen so that their targets look alike, so their mean is biased towards
whatever they have in common by chance. Rows that had no part in the choice give the mean of
others like them (Athey and Imbens 2016; Wager and Athey 2018).

A split is undone where a child has none of these rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import xlogy

from ..devices.placement import Device, to_numpy
from ..forest.forest import Forest
from ..forest.pruning import cut, kept_nodes
from ..forest.structure import children, impurity_decrease, levels
from ..kernels.cart.problem import COUNT_SHIFT, POISSON, WEIGHT_MASK, CartTable, GrownCart
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_HALVES
from .criteria import Problem, host_records, node_numbers
from .growth import clip, rows_and_counts

_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)


def halves_of(records: Array, key: int, device: Device) -> tuple[Array, np.ndarray]:
    """Return the records of a tree's sample that it is grown on, on the device, and those that its
    numbers are from (NumPy). A fair coin is tossed for each row; where all fall on one side, both
    halves are the whole sample.

    Parameters
    ----------
    records : uint64, shape (n,), on the device
        See ``kernels.cart.problem``.
    key : int
        The random key of the tree.
    """
    words = host_records(records)
    stream = _subkey(np.uint64(key), PURPOSE_HALVES, np.uint64(0))
    grows = (_draw(stream, words & np.uint64(0xFFFFFFFF)) & np.uint64(1)).astype(bool)
    if grows.all() or not grows.any():
        return records, words
    return records[device.asarray(grows)], words[~grows]


class Estimates:
    """The problem that the numbers of nodes are computed from, with its arrays on the host.

    Parameters
    ----------
    problem : Problem
    table : CartTable
    """

    def __init__(self, problem: Problem, table: CartTable) -> None:
        self.problem, self.table = problem, table
        target = problem.target
        self.classes, self.targets = to_numpy(target.classes), to_numpy(target.values)
        self.weight = to_numpy(target.weight)
        self.is_monotone = bool(table.monotone.any())

    def applied(
        self, tree: Forest, records: np.ndarray, leaf: np.ndarray
    ) -> tuple[Forest, np.ndarray]:
        """Return a tree with the numbers of some rows, and their records in the order of the
        leaves; ``leaf`` is the node that each record's row ends in."""
        statistics = self._statistics(tree, records, leaf)
        size = self._packed(statistics) >> COUNT_SHIFT
        is_cut = np.zeros(size.size, bool)
        inner = np.flatnonzero(tree.feature >= 0)
        left, right = children(tree, inner)
        is_cut[inner] = np.minimum(size[left], size[right]) == 0
        kept = kept_nodes(tree, is_cut)
        leaf = (np.cumsum(kept) - 1)[_lowest_kept(tree, kept)[leaf]]
        tree = cut(tree, is_cut)
        begin = _begin(tree, size[kept])
        records = records[np.argsort(begin[leaf], kind="stable")]
        grown = self._grown(tree, statistics[kept], begin, begin + size[kept])
        return self._numbered(tree, grown, records), records

    def _statistics(self, tree: Forest, records: np.ndarray, leaf: np.ndarray) -> np.ndarray:
        """Return the statistics of the nodes (see ``kernels.cart.problem``)."""
        rows, counts = rows_and_counts(records)
        weight = self.weight[rows] * counts
        packed = weight + (1 << COUNT_SHIFT)
        result = np.zeros((tree.feature.size, self.problem.target.n_statistics), np.int64)
        if self.problem.n_classes:
            for classes in self.classes:
                np.add.at(result, (leaf, classes[rows]), packed)
        else:
            np.add.at(result[:, 0], leaf, packed)
            for o, targets in enumerate(self.targets):
                np.add.at(result[:, 1 + o], leaf, targets[rows] * weight)
        for nodes in reversed(list(levels(tree))):
            inner = nodes[tree.feature[nodes] >= 0]
            left, right = children(tree, inner)
            result[inner] = result[left] + result[right]
        return result

    def _packed(self, statistics: np.ndarray) -> np.ndarray:
        """Return rows and weight of the nodes."""
        if self.problem.n_classes:
            return statistics[:, : self.problem.n_classes[0]].sum(axis=1)
        return statistics[:, 0]

    def _grown(
        self, tree: Forest, statistics: np.ndarray, begin: np.ndarray, end: np.ndarray
    ) -> GrownCart:
        """Return a tree as growth would have left it."""
        own = {name: getattr(tree, name) for name in GrownCart._fields if hasattr(tree, name)}
        if self.problem.n_classes:
            gain = np.zeros(tree.feature.size)  # follows from the impurities
        else:
            gain = self._gain(tree, statistics)
        return GrownCart(
            **own | {"gain": gain, "statistics": statistics, "begin": begin, "end": end}
        )

    def _gain(self, tree: Forest, statistics: np.ndarray) -> np.ndarray:
        """Return by how much the splits lower the error of a regression, in its integer units."""
        gain = np.zeros(tree.feature.size)
        inner = np.flatnonzero(tree.feature >= 0)
        nodes = (inner, *children(tree, inner))
        weight, *of_children = ((statistics[at, 0] & WEIGHT_MASK)[:, None] for at in nodes)
        mean, *means = (statistics[at, 1:] / (statistics[at, :1] & WEIGHT_MASK) for at in nodes)
        if self.problem.criterion == POISSON:
            sums = [statistics[at, 1:] for at in nodes[1:]]
            middle = np.where(mean > 0, mean, 1.0)
            decrease = sum(xlogy(s, m / middle) for s, m in zip(sums, means, strict=True))
        else:
            decrease = of_children[0] / weight * of_children[1] * (means[0] - means[1]) ** 2
        gain[inner] = np.maximum(decrease.sum(axis=1), 0.0)
        return gain

    def _numbered(self, tree: Forest, grown: GrownCart, records: np.ndarray) -> Forest:
        numbers = node_numbers(self.problem, grown, records, self.is_monotone)
        tree = replace(tree, **numbers)
        if self.problem.n_classes:
            tree = replace(tree, gain=np.maximum(impurity_decrease(tree), 0.0))
        if not self.is_monotone:
            return tree
        value = numbers["value"].copy()
        clip(self.table, self.problem, tree, value)
        return replace(tree, value=value)


def _lowest_kept(tree: Forest, kept: np.ndarray) -> np.ndarray:
    """Return the lowest of the nodes kept on the path to each node, itself included."""
    lowest = np.arange(kept.size)
    for nodes in levels(tree):
        inner = nodes[tree.feature[nodes] >= 0]
        for child in children(tree, inner):
            lowest[child] = np.where(kept[child], child, lowest[inner])
    return lowest


def _begin(tree: Forest, size: np.ndarray) -> np.ndarray:
    """Return where the rows of each node begin: those of its left child come first."""
    begin = np.zeros(size.size, np.int64)
    for nodes in levels(tree):
        inner = nodes[tree.feature[nodes] >= 0]
        left, right = children(tree, inner)
        begin[left] = begin[inner]
        begin[right] = begin[inner] + size[left]
    return begin
