"""Measures of a ranking (contract: ``kernels.ranking.measures``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ..queries import Queries


@kernel
def _gains_worker(thread, n_threads, barrier, gain, order, begin, discount, depth, out):
    n = out.size
    for q in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        total = 0.0
        for rank in range(min(depth, begin[q + 1] - begin[q])):
            total += gain[order[begin[q] + rank]] * discount[rank]
        out[q] = total


def discounted_gains(
    gain: Array, order: Array, queries: Queries, discount: Array, depth: int
) -> Array:
    out = np.empty(queries.begin.size - 1)
    run(_gains_worker, threads_for(gain.size), gain, order, queries.begin, discount, depth, out)
    return out


@kernel
def _precisions_worker(thread, n_threads, barrier, relevance, order, begin, depth, out):
    n = out.size
    for q in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        total = 0.0
        hits = n_relevant = 0
        for rank in range(begin[q + 1] - begin[q]):
            if relevance[order[begin[q] + rank]] > 0.0:
                n_relevant += 1
                if rank < depth:
                    hits += 1
                    total += float(hits) / float(rank + 1)
        most = min(n_relevant, depth)
        out[q] = total / most if most > 0 else 1.0


def average_precisions(relevance: Array, order: Array, queries: Queries, depth: int) -> Array:
    out = np.empty(queries.begin.size - 1)
    run(
        _precisions_worker, threads_for(relevance.size), relevance, order, queries.begin, depth, out
    )
    return out
