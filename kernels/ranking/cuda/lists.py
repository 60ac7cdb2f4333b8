"""Gradients of lists of documents (contract: ``kernels.ranking.gradients``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import blocks_for, cuda, empty, kernel, launch
from ...scalars.elementary import exp
from ...scalars.primitives import mul
from ...scalars.ranking import list_correction, list_gradient, list_ratio, list_target
from ...scalars.rng import draw
from ..queries import LANES, Queries
from .lanes import BLOCK, GROUPS, max_of_lanes, sum_of_lanes

u32, u64, f64 = np.uint32, np.uint64, np.float64


@kernel
def compare_lists(score, gain, begin, key, out):
    """A group of threads a query. ``out`` first holds targets and softmax, then the first order
    of the gradients and the softmax, which the passes of the higher orders start from."""
    shared = cuda.shared.array(BLOCK, np.float64)
    n_queries = u32(begin.shape[0] - 1)
    lane = u32(cuda.threadIdx.x % LANES)
    step = u32(LANES)
    base = u32(cuda.blockIdx.x * GROUPS)
    while base < n_queries:
        query = u32(base + u32(cuda.threadIdx.x // LANES))
        # A group without a query has no rows, and meets the others at the barriers.
        first = u32(0)
        end = u32(0)
        if query < n_queries:
            first = u32(u32(begin[query]) + lane)
            end = u32(begin[u32(query + u32(1))])
        # The largest score, below which no exponential overflows.
        top = -np.inf
        for i in range(first, end, step):
            top = max(top, score[i])
        top = max_of_lanes(shared, top)
        # Softmax and targets, and their sums.
        size = 0.0
        targets = 0.0
        for i in range(first, end, step):
            out[1, i] = exp(score[i] - top)
            size += out[1, i]
            out[0, i] = list_target(gain[i], f64(draw(key, u64(i))))
            targets += out[0, i]
        size = sum_of_lanes(shared, size)
        targets = sum_of_lanes(shared, targets)
        # The first order of the gradients.
        ratios = 0.0
        for i in range(first, end, step):
            out[1, i] /= size
            out[0, i] = list_gradient(out[1, i], out[0, i], targets)
            ratios += list_ratio(out[0, i], out[1, i])
        ratios = sum_of_lanes(shared, ratios)
        # The second order, of which only a sum is kept: it is computed again below.
        second_ratios = 0.0
        for i in range(first, end, step):
            second = list_correction(out[1, i], ratios, list_ratio(out[0, i], out[1, i]))
            second_ratios += list_ratio(second, out[1, i])
        second_ratios = sum_of_lanes(shared, second_ratios)
        for i in range(first, end, step):
            # All three orders together, and the hessian.
            share = out[1, i]
            second = list_correction(share, ratios, list_ratio(out[0, i], share))
            third = list_correction(share, second_ratios, list_ratio(second, share))
            out[0, i] = out[0, i] + second + third
            out[1, i] = mul(share, 1.0 - share)
        base = u32(base + u32(cuda.gridDim.x * GROUPS))


def list_gradients(score: Array, gain: Array, queries: Queries, key: int) -> Array:
    n_queries = int(queries.begin.shape[0]) - 1
    out = empty((2, score.shape[0]), np.float64)
    launch(
        compare_lists, blocks_for(-(-n_queries // GROUPS)), BLOCK,
        score, gain, queries.begin, u64(key), out,
    )  # fmt: skip
    return out
