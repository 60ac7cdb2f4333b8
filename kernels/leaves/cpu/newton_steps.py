"""Leaf sums and Newton steps (contract: ``kernels.leaves.newton_steps``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import Scales
from ...scalars.rounding import nearest
from ..reference.newton_steps import newton_steps

__all__ = ["leaf_sums", "newton_steps"]

i64 = np.int64
BLOCK = 1024


@inner
def _to_fixed_point(values, begin, end, scale, out):
    for i in range(begin, end):
        out[i - begin] = i64(nearest(values[i] * scale))


@kernel
def _worker(thread, n_threads, barrier, leaf, g, h, scale_g, scale_h, sums):
    n = leaf.size
    fixed_g, fixed_h = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    mine = sums[thread]
    last = n * (thread + 1) // n_threads
    for begin in range(n * thread // n_threads, last, BLOCK):
        end = min(begin + BLOCK, last)
        _to_fixed_point(g, begin, end, scale_g, fixed_g)
        _to_fixed_point(h, begin, end, scale_h, fixed_h)
        for i in range(begin, end):
            node = leaf[i]
            if node >= 0:
                mine[node, 0] += fixed_g[i - begin]
                mine[node, 1] += fixed_h[i - begin]


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    n_threads = threads_for(leaf.size)
    sums = np.zeros((n_threads, n_nodes, 2), np.int64)
    run(_worker, n_threads, leaf, g, h, scales.g, scales.h, sums)
    return sums.sum(axis=0)
