"""The order of documents (contract: ``kernels.ranking.order``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, atomic_add, run, threads_for
from ..queries import Queries

RUN = 128
"""Rows that are ordered by counting, without a branch; longer queries merge such runs."""
QUERIES_AT_ONCE = 8


@inner
def _rows_before(score, own, counts_equal):
    before = 0
    if counts_equal:
        for j in range(score.size):
            # Of equal scores the earlier row comes first: those before a row count if they are
            # equal, those behind it do not.
            before += score[j] >= own
    else:
        for j in range(score.size):
            before += score[j] > own
    return before


@inner
def _order_run(score, first, order):
    """Write the rows of a run, which begins at row ``first``, in order."""
    for i in range(score.size):
        rank = _rows_before(score[:i], score[i], True)
        rank += _rows_before(score[i + 1 :], score[i], False)
        order[rank] = first + i


@inner
def _merge(score, source, target, begin, middle, end):
    a, b = begin, middle
    for k in range(begin, end):
        # ``>=``: the earlier run wins ties, so that the order is stable.
        if b == end or (a < middle and score[source[a]] >= score[source[b]]):
            target[k] = source[a]
            a += 1
        else:
            target[k] = source[b]
            b += 1


@inner
def _order_query(score, first, end, order, other):
    # Runs by counting: no branches, and the comparisons vectorise.
    for begin in range(first, end, RUN):
        stop = min(begin + RUN, end)
        _order_run(score[begin:stop], begin, order[begin:stop])
    # Then merges of neighbouring runs, from one array into the other.
    source, target, width = order, other, RUN
    while width < end - first:
        for begin in range(first, end, 2 * width):
            middle, stop = min(begin + width, end), min(begin + 2 * width, end)
            _merge(score, source, target, begin, middle, stop)
        source, target, width = target, source, 2 * width
    return width


@kernel
def _worker(thread, n_threads, barrier, score, begin, counter, order, other):
    n_queries = begin.size - 1
    while True:
        chunk = atomic_add(counter, 0, QUERIES_AT_ONCE)
        if chunk >= n_queries:
            break
        for q in range(chunk, min(chunk + QUERIES_AT_ONCE, n_queries)):
            first, end = begin[q], begin[q + 1]
            width, levels = _order_query(score, first, end, order, other), 0
            # How many merges there were tells which array holds the result.
            while width > RUN:
                width, levels = width // 2, levels + 1
            if levels % 2 == 1:  # the last merge wrote to the other array
                for k in range(first, end):
                    order[k] = other[k]


def order_queries(score: Array, queries: Queries) -> Array:
    order = np.empty(score.size, np.int32)
    other = np.empty(score.size if queries.longest > RUN else 0, np.int32)
    counter = np.zeros(CACHE_LINE, np.int64)
    run(_worker, threads_for(score.size), score, queries.begin, counter, order, other)
    return order
