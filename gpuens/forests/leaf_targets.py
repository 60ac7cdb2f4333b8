"""The targets of the training rows in the leaves of a forest, for quantiles of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..forest.forest import Forest
from ..kernels.leaves.quantile_of_leaves import (
    SHARE_BITS,
    SHARE_MASK,
    LeafTargets,
    least_shares,
    quantile_of_leaves,
)
from ..kernels.runtime.compilation import kernel
from ..kernels.runtime.cpu.team import get_threads

BLOCK_ENTRIES = 2**24
"""Leaves of a block of rows that are looked up together, one for each row and tree."""
WHOLE = 2.0**SHARE_BITS


@dataclass(frozen=True, eq=False)
class TargetsInLeaves:
    """What a forest remembers of its training targets (NumPy, read-only).

    It takes 8 bytes for each row in the sample of each tree and 8 for each node.

    Parameters
    ----------
    values : float64, shape (n_values,)
        The distinct targets, ascending.
    offset, begin, segment, entries
        As in ``LeafTargets``.
    """

    values: np.ndarray
    offset: np.ndarray
    begin: np.ndarray
    segment: np.ndarray
    entries: np.ndarray

    def __post_init__(self) -> None:
        for array in (self.values, self.offset, self.begin, self.segment, self.entries):
            array.flags.writeable = False

    @classmethod
    def collect(
        cls, forest: Forest, records: Sequence[np.ndarray], y: np.ndarray, weight: np.ndarray
    ) -> TargetsInLeaves:
        """Sort the rows of every leaf by their targets.

        Parameters
        ----------
        forest : Forest
        records : sequence of uint64, shape (n_sampled_rows,), NumPy
            The records of each tree as growth left them: those of a node stand together, those of
            its left child first.
        y : float64, shape (n_rows,)
        weight : float64, shape (n_rows,)
            Sums of weights must be exact.
        """
        values, rank = np.unique(y, return_inverse=True)
        rank = rank.astype(np.int32)
        order = np.argsort(rank, kind="stable").astype(np.int32)
        begin = np.concatenate([[0], np.cumsum([r.size for r in records])]).astype(np.int64)
        segment = np.empty((forest.feature.size, 2), np.int32)
        entries = np.empty(begin[-1], np.int64)

        def fill(t: int) -> None:
            nodes = slice(forest.offset[t], forest.offset[t + 1])
            _fill(
                forest.left[nodes], forest.n_samples[nodes], records[t], order, rank, weight,
                segment[nodes], entries[begin[t] : begin[t + 1]],
            )  # fmt: skip

        with ThreadPoolExecutor(get_threads()) as pool:
            list(pool.map(fill, range(len(records))))
        return cls(values, forest.offset, begin, segment, entries)

    def joined(self, other: TargetsInLeaves) -> TargetsInLeaves:
        """These trees, then the others."""
        values = np.union1d(self.values, other.values)
        return TargetsInLeaves(
            values,
            np.concatenate([self.offset, self.offset[-1] + other.offset[1:]]),
            np.concatenate([self.begin, self.begin[-1] + other.begin[1:]]),
            np.concatenate([self.segment, other.segment]),
            np.concatenate([self._entries_among(values), other._entries_among(values)]),
        )

    def _entries_among(self, values: np.ndarray) -> np.ndarray:
        """The entries with ranks among more values."""
        rank = np.searchsorted(values, self.values)
        return rank[self.entries >> 32] << 32 | self.entries & SHARE_MASK

    def quantiles(self, forest: Forest, X: Any, quantiles: np.ndarray, device: Device) -> Any:
        """Quantiles of the weighted targets.

        Parameters
        ----------
        forest : Forest
            Whose targets these are.
        X : float32 or float64, shape (n_rows, n_features), on the device
        quantiles : float64, shape (n_quantiles,), NumPy
        device : Device

        Returns
        -------
        float64, shape (n_rows, n_quantiles), on the device
        """
        values, targets = self._on(device)
        least = device.asarray(least_shares(quantiles, forest.n_trees))
        result = device.xp.empty((X.shape[0], quantiles.size))
        step = max(1, BLOCK_ENTRIES // forest.n_trees)
        for first in range(0, X.shape[0], step):
            rows = slice(first, first + step)
            leaf = forest.apply(X[rows], device)
            result[rows] = values[quantile_of_leaves(targets, leaf, least)]
        return result

    def _on(self, device: Device) -> tuple[Any, LeafTargets]:
        """The values and the rest, copied to a device once."""
        kept: dict[str, tuple[Any, LeafTargets]] = self.__dict__.setdefault("_kept", {})
        if str(device) not in kept:
            arrays = (self.offset, self.begin, self.segment, self.entries)
            targets = LeafTargets(*(device.asarray(a) for a in arrays))
            kept[str(device)] = device.settled((device.asarray(self.values), targets))
        return kept[str(device)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


@kernel
def _fill(left, n_samples, records, order, rank, weight, segment, entries):
    """The segments of a tree's nodes and their entries, without sorting: rows come in the order of
    their targets, and each goes to the end of its leaf's list."""
    n_nodes = left.size
    leaf_of = np.full(rank.size, -1, np.int32)
    copies = np.zeros(rank.size, np.float64)
    total = np.zeros(n_nodes)
    segment[0, 0], segment[0, 1] = 0, n_samples[0]
    for node in range(n_nodes):
        first, last = segment[node, 0], segment[node, 1]
        child = left[node]
        if child >= 0:
            middle = first + n_samples[child]
            segment[child, 0], segment[child, 1] = first, middle
            segment[child + 1, 0], segment[child + 1, 1] = middle, last
            continue
        for i in range(first, last):
            row = records[i] & np.uint64(0xFFFFFFFF)
            leaf_of[row] = node
            copies[row] = weight[row] * float(records[i] >> np.uint64(32))
            total[node] += copies[row]
    so_far = np.zeros(n_nodes)
    place = segment[:, 0].copy()
    for i in range(order.size):
        row = order[i]
        node = leaf_of[row]
        if node < 0:
            continue
        so_far[node] += copies[row]
        share = np.int64(np.ceil(so_far[node] * WHOLE / total[node]))
        entries[place[node]] = np.int64(rank[row]) << np.int64(32) | share
        place[node] += 1


def rows_of_trees(forest: Forest, records: Any) -> list[np.ndarray]:
    """The records of each tree of a batch, on the host."""
    words = to_numpy(records)
    ends = np.cumsum(forest.n_samples[forest.offset[:-1]], dtype=np.int64)
    return np.split(words, ends[:-1])
