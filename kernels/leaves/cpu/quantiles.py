"""Quantiles in leaves (contract: ``kernels.leaves.quantiles``).

``leaf_quantiles`` brings the rows together by leaf, then searches each leaf by quickselect (Hoare
1961) with sums of weights in the place of ranks. Where workers share the rows, the bits of a
number, turned so that they ascend with it, are found eight at a time from the highest ones: the
workers add up the weights of the rows of each leaf that have its bits so far, by their next eight,
which leaves the first that have weight enough::

    0.5    3fe|0000... -> bfe|0...     -2.0    c00|0000... -> 3ff|f...

A message has 256 sums for each leaf, eight times for each of the two values.

``quantile_of_leaves`` bisects over the ranks, row by row. A step that looks for entries of a rank
in every tree's leaf narrows the stretch of entries where later steps have to look, too; a tree
whose stretch is empty leaves the search, and its share counts from then on::

    ranks      [1 4 6] [5] [0 2 9]      up to 4: 2/3 + 0 + 2/3 of a tree, too little
               [6]     [5] [9]          up to 7: 1 + 1 + 2/3, enough
               [6]     [5] []           up to 6: 1 + 1 + 2/3, ...
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, get_threads, run, threads_for, wait
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...scalars.rounding import lower_share, upper_share
from ..quantiles import SHARE_MASK, LeafTargets

i64, u64, f64 = np.int64, np.uint64, np.float64
PIVOTS = u64(1961)
"""The key of the pivots' places: at fixed places, rows in some order would take quadratic time."""


@inner
def _swap(values, weight, i, j):
    values[i], values[j] = values[j], values[i]
    if weight.size > 0:
        weight[i], weight[j] = weight[j], weight[i]


@inner
def _median(a, b, c):
    return max(min(a, b), min(max(a, b), c))


@inner
def _select(values, weight, begin, end, least):
    """Return the least of ``values[begin:end]``, which are reordered, up to which the weights sum
    to ``least``, and that sum.

    Each round parts the values in three: below the pivot, equal to it, above it::

        begin      low         i          high       end
        | < pivot  | == pivot  | unknown  | > pivot  |
    """
    before = i64(0)
    counter = u64(0)
    while True:
        size = u64(end - begin)
        # The median of three at random places: neither sorted rows nor equal ones make it slow.
        pivot = _median(
            values[begin + i64(draw(PIVOTS, counter) % size)],
            values[begin + i64(draw(PIVOTS, counter + u64(1)) % size)],
            values[begin + i64(draw(PIVOTS, counter + u64(2)) % size)],
        )
        counter += u64(3)
        low, i, high = begin, begin, end
        below, equal = i64(0), i64(0)
        while i < high:
            x = values[i]
            w = i64(1) if weight.size == 0 else weight[i]
            if x < pivot:
                below += w
                _swap(values, weight, low, i)
                low += 1
                i += 1
            elif x > pivot:
                high -= 1
                _swap(values, weight, i, high)
            else:
                equal += w
                i += 1
        if before + below >= least:
            # It is below the pivot.
            end = low
        elif before + below + equal >= least:
            return pivot, before + below + equal
        else:
            # It is above the pivot: what is left out below keeps counting.
            before += below + equal
            begin = high


@inner
def _quantile(values, weight, begin, end, quantile):
    total = i64(end - begin)
    if weight.size > 0:
        total = i64(0)
        for i in range(begin, end):
            total += weight[i]
    # Two shares that differ where the quantile falls between two values, whose mean it then is.
    lower = i64(lower_share(quantile, f64(total)))
    upper = i64(upper_share(quantile, f64(total)))
    x, reached = _select(values, weight, begin, end, lower)
    y = x
    if reached < upper:  # the next value
        y = np.inf
        for i in range(begin, end):
            if values[i] > x:
                y = min(y, values[i])
    return 0.5 * x + 0.5 * y


@kernel
def _leaf_quantiles_worker(
    thread, n_threads, barrier, leaf, values, weight, quantile, place, kept, kept_weight, queue, out
):
    """``place[t]`` counts the rows of thread t by leaf, then holds the place of the next one."""
    n, n_nodes = leaf.size, out.size
    first, last = n * thread // n_threads, n * (thread + 1) // n_threads
    mine = place[thread]
    # Count: each thread its rows by leaf.
    for i in range(first, last):
        if leaf[i] >= 0:
            mine[leaf[i]] += 1
    wait(barrier, n_threads)
    if thread == 0:
        # Place: leaf by leaf, and in a leaf thread by thread, so that rows keep their order.
        total = i64(0)
        for node in range(n_nodes):
            for t in range(n_threads):
                count = place[t, node]
                place[t, node] = total
                total += count
    wait(barrier, n_threads)
    # Move: each thread has places of its own. The barrier: thread 0 has found all of them.
    for i in range(first, last):
        node = leaf[i]
        if node >= 0:
            kept[mine[node]] = values[i]
            if weight.size > 0:
                kept_weight[mine[node]] = weight[i]
            mine[node] += 1
    wait(barrier, n_threads)
    while True:  # the last thread's rows of a leaf end where the next leaf's begin
        node = atomic_add(queue, 0, 1)
        if node >= n_nodes:
            break
        begin = i64(0) if node == 0 else place[n_threads - 1, node - 1]
        end = place[n_threads - 1, node]
        out[node] = 0.0
        if begin < end:
            out[node] = _quantile(kept, kept_weight, begin, end, quantile) + 0.0


def leaf_quantiles(
    leaf: Array,
    values: Array,
    weight: Array,
    quantile: float,
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    if workers is not ONE_WORKER:
        return _leaf_quantiles_of_workers(leaf, values, weight, quantile, n_nodes, workers)
    n_threads = threads_for(leaf.size)
    place = np.zeros((n_threads, n_nodes), np.int64)
    kept = np.empty(values.shape[0])
    kept_weight = np.empty(weight.shape[0], np.int64)
    queue = np.zeros(CACHE_LINE, np.int64)
    out = np.empty(n_nodes)
    run(
        _leaf_quantiles_worker, n_threads,
        leaf, values, weight, float(quantile), place, kept, kept_weight, queue, out,
    )  # fmt: skip
    return out


BITS = 8
KEY_BITS = 64
SIGN = np.uint64(1 << 63)
_lower_share, _upper_share = vectorise(lower_share), vectorise(upper_share)


@kernel
def _weigh_worker(thread, n_threads, barrier, leaf, keys, weight, prefix, shift, sums):
    """Add up the weights of the rows whose bits above ``shift + 8`` are those of ``prefix``, which
    has an entry a node, in ``sums`` of shape (n_threads, n_nodes, 256)."""
    n = leaf.size
    mine = sums[thread]
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        node = leaf[i]
        if node >= 0:
            digits = keys[i] >> shift
            if digits >> u64(8) == prefix[node]:
                mine[node, digits & u64(255)] += i64(1) if weight.size == 0 else weight[i]


def _leaf_quantiles_of_workers(
    leaf: Array, values: Array, weight: Array, quantile: float, n_nodes: int, workers: Workers
) -> np.ndarray:
    bits = (values + 0.0).view(np.uint64)  # without negative zeros
    keys = np.where(bits & SIGN, ~bits, bits | SIGN)
    rows = leaf, keys, weight
    total = np.zeros(n_nodes, np.int64)
    inside = leaf >= 0
    if weight.size:
        np.add.at(total, leaf[inside], weight[inside])
    else:
        total += np.bincount(leaf[inside], minlength=n_nodes)
    workers.collective.add(total)
    whole = total.astype(np.float64)
    mean = np.zeros(n_nodes)
    for share_of in (_lower_share, _upper_share):
        least = share_of(float(quantile), whole).astype(np.int64)
        mean += 0.5 * _select_by_bits(rows, np.where(total > 0, least, 0), workers)
    return np.where(total > 0, mean, 0.0) + 0.0


def _select_by_bits(
    rows: tuple[Array, Array, Array], least: np.ndarray, workers: Workers
) -> np.ndarray:
    """Return the least value of each node up to which the weights sum to ``least``; anything for a
    node without rows."""
    n_nodes = least.size
    n_threads = threads_for(rows[0].size)
    prefix = np.zeros(n_nodes, np.uint64)
    missing = least.copy()
    nodes = np.arange(n_nodes)
    for shift in range(KEY_BITS - BITS, -1, -BITS):
        sums = np.zeros((n_threads, n_nodes, 1 << BITS), np.int64)
        run(_weigh_worker, n_threads, *rows, prefix, np.uint64(shift), sums)
        of_all = sums.sum(axis=0)
        workers.collective.add(of_all)
        running = np.cumsum(of_all, axis=1)
        digit = (running >= missing[:, None]).argmax(axis=1)
        missing -= running[nodes, digit] - of_all[nodes, digit]
        prefix = prefix << np.uint64(BITS) | digit.astype(np.uint64)
    bits = np.where(prefix & SIGN, prefix ^ SIGN, ~prefix)
    return np.where(least > 0, bits.view(np.float64), 0.0)


i64 = np.int64
S32 = i64(32)
BLOCK = 64
"""Rows that a thread takes at once."""
FEWEST_LOOKS = 2000
"""Looks at a leaf below which another thread costs more than it saves."""


@inner
def _find_leaves(targets, leaf, row, whole):
    """Find where the entries of a row's leaves begin and end, and return the range of ranks."""
    low, high = i64(2**31), i64(0)
    for t in range(leaf.shape[1]):
        node = targets.offset[t] + leaf[row, t]
        first = targets.begin[t] + targets.segment[node, 0]
        last = targets.begin[t] + targets.segment[node, 1]
        whole[0, t] = first
        whole[1, t] = last
        # The entries of a leaf ascend: the range of ranks follows from its ends.
        low = min(low, targets.entries[first] >> S32)
        high = max(high, targets.entries[last - 1] >> S32)
    return low, high


@inner
def _first_beyond(entries, low, high, rank):
    """Return the first of the entries ``low ... high - 1`` with a higher rank; high if there is
    none."""
    while low < high:
        middle = (low + high) >> 1
        if entries[middle] >> S32 <= rank:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _search(entries, whole, searched, low, high, least):
    """Return the least rank with enough shares; ``searched`` (tree, begin, end, place) is room."""
    n = whole.shape[1]
    for t in range(n):
        searched[0, t], searched[1, t], searched[2, t] = t, whole[0, t], whole[1, t]
    settled = i64(0)
    while low < high:
        # The shares of all entries up to the middle; trees that have left the search count with the
        # share that is settled.
        middle = (low + high) >> 1
        total = settled
        for k in range(n):
            place = _first_beyond(entries, searched[1, k], searched[2, k], middle)
            searched[3, k] = place
            if place > whole[0, searched[0, k]]:
                total += entries[place - 1] & SHARE_MASK
        enough = total >= least
        if enough:
            high = middle
        else:
            low = middle + 1
        n, settled = _narrow(entries, whole, searched, n, enough, settled)
    return low


@inner
def _narrow(entries, whole, searched, n, enough, settled):
    """Keep the trees in which there is something left to search; their number, and the shares
    of the others."""
    kept = 0
    for k in range(n):
        tree, place = searched[0, k], searched[3, k]
        # The wanted rank is up to the middle, or beyond it: the other part of each stretch is left
        # out.
        begin = searched[1, k] if enough else place
        end = place if enough else searched[2, k]
        if begin < end:
            searched[0, kept], searched[1, kept], searched[2, kept] = tree, begin, end
            kept += 1
        elif begin > whole[0, tree]:
            # Nothing left to search: whatever the rank will be, the tree counts with this share.
            settled += entries[begin - 1] & SHARE_MASK
    return kept, settled


@kernel
def _quantile_of_leaves_worker(thread, n_threads, barrier, targets, leaf, least, rank, queue):
    n_rows, n_trees = leaf.shape
    whole, searched = np.empty((2, n_trees), np.int64), np.empty((4, n_trees), np.int64)
    while True:
        begin = atomic_add(queue, 0, BLOCK)
        if begin >= n_rows:
            break
        for row in range(begin, min(begin + BLOCK, n_rows)):
            low, high = _find_leaves(targets, leaf, row, whole)
            for j in range(least.size):
                rank[row, j] = _search(targets.entries, whole, searched, low, high, least[j])


def quantile_of_leaves(targets: LeafTargets, leaf: Array, least: Array) -> Array:
    rank = np.empty((leaf.shape[0], least.size), np.int32)
    n_threads = max(1, min(get_threads(), leaf.size * least.size // FEWEST_LOOKS))
    queue = np.zeros(CACHE_LINE, np.int64)
    run(_quantile_of_leaves_worker, n_threads, targets, leaf, least, rank, queue)
    return rank
