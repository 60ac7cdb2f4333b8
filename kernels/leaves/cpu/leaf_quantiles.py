"""Quantiles in leaves (contract: ``kernels.leaves.leaf_quantiles``).

The rows are brought together by leaf, then each leaf is searched by quickselect (Hoare 1961)
with sums of weights in the place of ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for, wait
from ...scalars.quantile import lower_share, upper_share
from ...scalars.rng import draw

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
    """The least of ``values[begin:end]``, which are reordered, up to which the weights sum to
    ``least``, and that sum.

    Each round parts the values in three: below the pivot, equal to it, above it::

        begin      low         i          high       end
        | < pivot  | == pivot  | unknown  | > pivot  |
    """
    before = i64(0)
    counter = u64(0)
    while True:
        size = u64(end - begin)
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
            end = low
        elif before + below + equal >= least:
            return pivot, before + below + equal
        else:
            before += below + equal
            begin = high


@inner
def _quantile(values, weight, begin, end, quantile):
    total = i64(end - begin)
    if weight.size > 0:
        total = i64(0)
        for i in range(begin, end):
            total += weight[i]
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
def _worker(
    thread, n_threads, barrier, leaf, values, weight, quantile, place, kept, kept_weight, queue, out
):
    """``place[t]`` counts the rows of thread t by leaf, then says where the next one goes."""
    n, n_nodes = leaf.size, out.size
    first, last = n * thread // n_threads, n * (thread + 1) // n_threads
    mine = place[thread]
    for i in range(first, last):
        if leaf[i] >= 0:
            mine[leaf[i]] += 1
    wait(barrier, n_threads)
    if thread == 0:
        total = i64(0)
        for node in range(n_nodes):
            for t in range(n_threads):
                count = place[t, node]
                place[t, node] = total
                total += count
    wait(barrier, n_threads)
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


def leaf_quantiles(leaf: Any, values: Any, weight: Any, quantile: float, n_nodes: int) -> Any:
    n_threads = threads_for(leaf.size)
    place = np.zeros((n_threads, n_nodes), np.int64)
    kept = np.empty(values.shape[0])
    kept_weight = np.empty(weight.shape[0], np.int64)
    queue = np.zeros(CACHE_LINE, np.int64)
    out = np.empty(n_nodes)
    args = (leaf, values, weight, float(quantile), place, kept, kept_weight, queue, out)
    run(_worker, n_threads, *args)
    return out
