"""From a problem and samples of its rows to a forest of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..forest.forest import Forest
from ..kernels.cart.grow_cart import clip_values, grow_cart
from ..kernels.cart.problem import CartParams, CartTable, GrownCart
from ..kernels.runtime.cpu.team import get_threads
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_TREE, subkey
from .criteria import Problem
from .node_numbers import node_numbers

BATCH_BYTES = 2**25
"""Memory that the records and nodes of one batch of trees may take, about. The allocator hands
blocks of this size out again, where larger ones come from the system and are cleared first."""
NODE_BYTES = 160
"""Of a node while it grows, without its statistics."""
MOST_TREES = 256
"""Trees of one batch: between two batches training can be watched and stopped."""

_subkey = vectorise(subkey)


def tree_key(seed: int, tree: int) -> int:
    """The random key of a tree."""
    return int(_subkey(np.uint64(seed), PURPOSE_TREE, np.uint64(tree)))


def grow_forest(
    table: CartTable,
    problem: Problem,
    sample: Callable[[int], Any],
    seeds: Sequence[int],
    params: CartParams,
    device: Device,
    *,
    after_batch: Callable[[int, Forest, Any], bool] | None = None,
) -> Forest:
    """Grow trees, as many at a time as memory allows.

    Parameters
    ----------
    table : CartTable
    problem : Problem
    sample : callable
        ``sample(i)`` gives the records of tree i, uint64 on the device
        (see ``kernels.cart.problem``).
    seeds : sequence of int
        The random key of each tree.
    params : CartParams
    device : Device
    after_batch : callable, default=None
        ``after_batch(first, forest, records)`` with the number of a batch's first tree, its
        trees and its records as growth left them. A true result ends the growth.

    Returns
    -------
    Forest
        After Ctrl-C that of the batches that were finished, if there are any.
    """
    done: list[Forest] = []
    first, n_trees = 0, len(seeds)
    size = min(n_trees, max(get_threads(), 1))
    while first < n_trees:
        try:
            forest, records = _grow_batch(
                table, problem, [sample(i) for i in range(first, first + size)],
                seeds[first : first + size], params, device,
            )  # fmt: skip
            done.append(forest)
            stop = after_batch is not None and after_batch(first, forest, records)
        except KeyboardInterrupt:
            if not done:
                raise
            break
        if stop:
            break
        first += size
        size = min(n_trees - first, _batch_size(forest, records))
    return Forest.concatenate(done) if len(done) > 1 else done[0]


def _batch_size(forest: Forest, records: Any) -> int:
    """Trees of the next batch, from those of the last one."""
    node = NODE_BYTES + 16 * forest.width
    size = (records.size * 8 + forest.feature.size * node) / forest.n_trees
    return max(get_threads(), min(MOST_TREES, int(BATCH_BYTES / size)))


def _grow_batch(
    table: CartTable,
    problem: Problem,
    samples: list[Any],
    keys: Sequence[int],
    params: CartParams,
    device: Device,
) -> tuple[Forest, Any]:
    sizes = np.array([sample.size for sample in samples], np.int64)
    end = np.cumsum(sizes)
    records = samples[0] if len(samples) == 1 else device.xp.concatenate(samples)
    begin = end - sizes
    grown = grow_cart(table, problem.target, records, begin, end, np.array(keys, np.uint64), params)
    return forest_of(table, problem, grown, records), records


def forest_of(table: CartTable, problem: Problem, grown: GrownCart, records: Any) -> Forest:
    """The frozen form of grown trees."""
    is_monotone = bool(table.monotone.any())
    numbers = node_numbers(problem, grown, records, is_monotone)
    if is_monotone:
        _clip(table, problem, grown, numbers.value)
    return Forest(
        n_features=table.n_bins.size,
        base=np.zeros(problem.width),
        offset=grown.offset,
        output=np.zeros(grown.offset.size - 1, np.int32),
        feature=grown.feature,
        threshold=grown.threshold,
        missing_left=grown.missing_left,
        left=grown.left,
        right=grown.right,
        category_begin=grown.category_begin,
        value=numbers.value,
        gain=numbers.gain,
        impurity=numbers.impurity,
        n_samples=numbers.n_samples,
        cover=numbers.cover,
        categories=grown.categories,
        n_categories=np.where(table.categorical == 1, table.n_bins, 0).astype(np.int32),
    )


def _clip(table: CartTable, problem: Problem, grown: GrownCart, value: np.ndarray) -> None:
    """Bring the values of all nodes within their bounds: means, or the shares of class 1."""
    free = value[:, -1].copy()
    clipped = free.copy()
    low, high = np.empty_like(free), np.empty_like(free)
    clip_values(
        grown.offset, grown.left, grown.right, grown.feature, table.monotone, clipped, low, high
    )
    value[:, -1] = clipped
    if problem.n_classes:
        value[:, 0] = np.where(clipped == free, value[:, 0], 1.0 - clipped)


def all_rows(n: int, device: Device) -> Any:
    """Records of a sample that has every row once."""
    return device.xp.arange(n, dtype=np.uint64) | np.uint64(2**32)


def rows_and_counts(records: Any) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and multiplicities of records, int64."""
    words = to_numpy(records)
    return (words & np.uint64(0xFFFFFFFF)).astype(np.int64), (words >> np.uint64(32)).astype(
        np.int64
    )
