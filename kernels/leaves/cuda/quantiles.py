"""Quantiles in leaves (contract: ``kernels.leaves.quantiles``).

``leaf_quantiles`` is a radix selection: the bits of a float64, turned so that they ascend with the
value, are found eight at a time, from the highest down. For each node and each of its two shares,
rows that agree with the bits found so far are counted by their next eight bits; the counts say
which bits the wanted value has. ``quantile_of_leaves`` bisects over the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    on_device,
    upload,
    zeros,
)
from ...scalars.rounding import lower_share, upper_share
from ..quantiles import SHARE_MASK, LeafTargets

u32, i64, u64, f64 = np.uint32, np.int64, np.uint64, np.float64

BLOCK = block_size(256)
DIGITS = 256
S8 = u64(8)
SIGN, ALL = u64(2**63), u64(2**64 - 1)
LOW_8 = u64(DIGITS - 1)
MOST_COUNTS = 2**25
"""Counts of all lines at a time, of 8 bytes each."""


@device_function
def ascending(bits):
    """Return the bits of a float64 as a number that ascends with it: negative ones all flipped, of
    the others the sign."""
    return bits ^ (ALL if bits >= SIGN else SIGN)


@device_function
def weight_of(weight, line, i):
    """Return the weight of row i: one of all lines, or of its line, or 1."""
    if weight.shape[1] == 0:
        return i64(1)
    return weight[min(line, weight.shape[0] - 1), i]


@kernel
def sum_weights(leaf, weight, total):
    """One row a thread; ``blockIdx.y`` is the line; ``total`` (n_lines, n_nodes)."""
    line = i64(cuda.blockIdx.y)
    own_leaf, own_total = leaf[line], total[line]
    n = u32(leaf.shape[1])
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(own_leaf[i])
        if node < u32(own_total.shape[0]):
            cuda.atomic.add(own_total, node, weight_of(weight, line, i))
        i = u32(i + cuda.gridsize(1))


@kernel
def find_shares(total, quantiles, least):
    """One node a thread; ``blockIdx.y`` is the line; ``least`` (n_lines, n_nodes, 2)."""
    line = i64(cuda.blockIdx.y)
    own_total, own_least = total[line], least[line]
    node = u32(cuda.grid(1))
    while node < u32(own_total.shape[0]):
        whole = f64(own_total[node])
        own_least[node, u32(0)] = i64(lower_share(quantiles[line], whole))
        own_least[node, u32(1)] = i64(upper_share(quantiles[line], whole))
        node = u32(node + cuda.gridsize(1))


@kernel
def count_digits(leaf, bits, weight, found, place, counts):
    """One row a thread; ``blockIdx.y`` is the line. ``found`` (n_lines, n_nodes, 2) are the bits
    above those at ``place``, ``counts`` (n_lines, n_nodes, 2, 256) the weights by the digit
    there."""
    line = i64(cuda.blockIdx.y)
    own_leaf, own_bits, own_found, own_counts = leaf[line], bits[line], found[line], counts[line]
    n = u32(leaf.shape[1])
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(own_leaf[i])
        if node < u32(own_found.shape[0]):
            key = ascending(own_bits[i]) >> place
            for side in range(2):
                # Only rows that agree with the bits found so far; a shift by 8 after the one by
                # ``place``, as one by 64 would be undefined.
                if key >> S8 == (own_found[node, side] >> place) >> S8:
                    own = weight_of(weight, line, i)
                    cuda.atomic.add(own_counts, (node, side, i64(key & LOW_8)), own)
        i = u32(i + cuda.gridsize(1))


@kernel
def pick_digits(counts, total, least, place, found):
    """One node and side a thread; ``blockIdx.y`` is the line. What is still needed stays in
    ``least``; ``counts`` are set back to zero."""
    line = i64(cuda.blockIdx.y)
    own_counts, own_total, own_least, own_found = (
        counts[line],
        total[line],
        least[line],
        found[line],
    )
    i = u32(cuda.grid(1))
    while i < u32(2) * u32(own_total.shape[0]):
        node, side = i >> u32(1), i & u32(1)
        before = i64(0)
        digit = i64(-1)
        # All digits, though the wanted one may come early: each count is cleared for the next
        # place.
        for d in range(DIGITS):
            count = own_counts[node, side, d]
            own_counts[node, side, d] = 0
            if digit < 0:
                if before + count >= own_least[node, side]:
                    digit = i64(d)
                else:
                    before += count
        # What is left to reach among the rows with this digit.
        if own_total[node] > 0:
            own_least[node, side] -= before
            own_found[node, side] |= u64(digit) << place
        i = u32(i + cuda.gridsize(1))


def leaf_quantiles(
    leaf: Array,
    values: Array,
    weight: Array,
    quantile: float,
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    (found,) = quantiles_of_lines(
        leaf[None], values[None], weight[None], [quantile], n_nodes, workers
    )
    return found


def quantiles_of_lines(
    leaf: Array,
    values: Array,
    weight: Array,
    quantiles: Sequence[float],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    """Return the quantiles of each line, (n_lines, n_nodes), as many lines at a time as there is
    room for their counts; ``weight`` has one for all lines or each, which may be empty.

    The workers add up the sums of weights that the selection is made by."""
    n_lines = len(quantiles)
    size = max(1, MOST_COUNTS // (2 * DIGITS * n_nodes))
    parts = [slice(first, min(first + size, n_lines)) for first in range(0, n_lines, size)]
    found = [
        _select(
            leaf[own], values[own], weight if weight.shape[0] == 1 else weight[own],
            quantiles[own], n_nodes, workers,
        )
        for own in parts
    ]  # fmt: skip
    return np.concatenate(found)


def _select(
    leaf: Array, values: Array, weight: Array, quantiles: Sequence[float], n_nodes: int,
    workers: Workers,
) -> np.ndarray:  # fmt: skip
    def join(sums: Array) -> None:
        if workers is not ONE_WORKER:
            sums[...] = on_device(workers.collective.sum_to_host(sums))

    bits, n_lines = values.view(np.uint64), len(quantiles)
    total = zeros((n_lines, n_nodes), np.int64)
    least, found = (zeros((n_lines, n_nodes, 2), kind) for kind in (np.int64, np.uint64))
    counts = zeros((n_lines, n_nodes, 2, DIGITS), np.int64)
    over_rows, over_nodes = (
        (blocks_for_rows(size, BLOCK), n_lines) for size in (leaf.shape[1], 2 * n_nodes)
    )
    launch(sum_weights, over_rows, BLOCK, leaf, weight, total)
    join(total)
    (of_lines,) = upload(np.array(quantiles, np.float64))
    launch(find_shares, over_nodes, BLOCK, total, of_lines, least)
    # From the highest byte down: eight rounds, each of which narrows the value by a byte.
    for place in range(56, -1, -8):
        launch(count_digits, over_rows, BLOCK, leaf, bits, weight, found, u64(place), counts)
        join(counts)
        launch(pick_digits, over_nodes, BLOCK, counts, total, least, u64(place), found)
    # Keys back into floats; nodes without rows get 0.
    keys, used = download(found), download(total) > 0
    back = np.where(keys >= SIGN, keys ^ SIGN, ~keys).view(np.float64)
    return np.where(used, 0.5 * back[..., 0] + 0.5 * back[..., 1], 0.0) + 0.0


u32, i64 = np.uint32, np.int64
ROWS_BLOCK = block_size(128)
S32 = i64(32)


@device_function
def share_up_to(entries, first, last, rank):
    """Return the summed shares of the ascending entries ``first ... last - 1`` up to a rank."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> i64(1)
        if entries[middle] >> S32 <= rank:
            low = middle + i64(1)
        else:
            high = middle
    return entries[low - i64(1)] & SHARE_MASK if low > first else i64(0)


@kernel
def find_ranks(offset, begin, segment, entries, leaf, least, n_ranks, rank):
    """One row and quantile a thread, quantiles of a row beside each other: their threads look at
    the same leaves. Bisection over the ranks."""
    n_quantiles = least.shape[0]
    n_trees = leaf.shape[1]
    n = i64(leaf.shape[0]) * n_quantiles
    i = i64(cuda.grid(1))
    while i < n:
        row, j = u32(i // n_quantiles), u32(i % n_quantiles)
        low, high = i64(0), i64(n_ranks - 1)
        while low < high:
            middle = (low + high) >> i64(1)
            total = i64(0)
            for t in range(n_trees):
                tree = u32(t)
                # The CPU narrows the stretch of each tree from step to step: here every thread
                # would need memory for that.
                node = u32(offset[tree] + leaf[row, tree])
                first = begin[tree] + segment[node, u32(0)]
                last = begin[tree] + segment[node, u32(1)]
                total += share_up_to(entries, first, last, middle)
            if total >= least[j]:
                high = middle
            else:
                low = middle + i64(1)
        rank[row, j] = low
        i += i64(cuda.gridsize(1))


def quantile_of_leaves(targets: LeafTargets, leaf: Array, least: Array) -> Array:
    shape = leaf.shape[0], least.shape[0]
    rank = empty(shape, np.int32)
    n_ranks = int(targets.entries.max() >> 32) + 1
    blocks = blocks_for_rows(shape[0] * shape[1], ROWS_BLOCK)
    launch(find_ranks, blocks, ROWS_BLOCK, *targets, leaf, least, n_ranks, rank)
    return rank
