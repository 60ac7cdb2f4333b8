"""Leaf sums and Newton steps (contract: ``kernels.leaves.newton_steps``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.each import each
from ...runtime.cpu.team import run, threads_for, wait
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...scalars.rounding import nearest
from ...statistics.quantise import fixed_point_scales
from ..newton_steps import take_steps

i64 = np.int64
BLOCK = 1024


@inner
def _to_fixed_point(values, begin, end, scale, out):
    for i in range(begin, end):
        out[i - begin] = i64(nearest(values[i] * scale))


@inner
def _add_rows(thread, n_threads, leaf, g, h, scales, fixed, sums):
    """Add up a thread's share of the rows; ``fixed`` is scratch, (2, BLOCK)."""
    n = leaf.size
    mine = sums[thread]
    last = n * (thread + 1) // n_threads
    for begin in range(n * thread // n_threads, last, BLOCK):
        end = min(begin + BLOCK, last)
        _to_fixed_point(g, begin, end, scales[0], fixed[0])
        _to_fixed_point(h, begin, end, scales[1], fixed[1])
        for i in range(begin, end):
            node = leaf[i]
            if node >= 0:
                mine[node, 0] += fixed[0, i - begin]
                mine[node, 1] += fixed[1, i - begin]


@inner
def _add_threads(n_threads, sums):
    """Add the sums of all threads to those of the first."""
    for thread in range(1, n_threads):
        for node in range(sums.shape[1]):
            sums[0, node, 0] += sums[thread, node, 0]
            sums[0, node, 1] += sums[thread, node, 1]


@kernel
def _sum_worker(thread, n_threads, barrier, leaf, g, h, scales, sums):
    fixed = np.empty((2, BLOCK), np.int64)
    _add_rows(thread, n_threads, leaf, g, h, scales, fixed, sums)
    wait(barrier, n_threads)
    if thread == 0:
        _add_threads(n_threads, sums)


@kernel
def _step_worker(thread, n_threads, barrier, leaf, g, h, left, right, how, sums, value, hessian):
    fixed = np.empty((2, BLOCK), np.int64)
    _add_rows(thread, n_threads, leaf, g, h, (how[0], how[1]), fixed, sums)
    wait(barrier, n_threads)
    if thread == 0:
        _add_threads(n_threads, sums)
        take_steps(left, right, sums[0], how, value, hessian)


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    n_threads = threads_for(leaf.size)
    sums = np.zeros((n_threads, n_nodes, 2), np.int64)
    run(_sum_worker, n_threads, leaf, g, h, (scales.g, scales.h), sums)
    return sums[0]


def newton_steps(
    trees: Any,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    l2: float,
    min_sum_hessian: float,
    largest: float,
) -> list[NodeValues]:
    limits = float(l2), float(min_sum_hessian), float(largest)

    def steps(i: int) -> NodeValues:
        scales = fixed_point_scales(totals[i], g.shape[1])
        nodes = slice(trees.offset[i], trees.offset[i + 1])
        left, right = trees.left[nodes], trees.right[nodes]
        n_threads = threads_for(g.shape[1])
        sums = np.zeros((n_threads, left.size, 2), np.int64)
        values = NodeValues(np.empty(left.size), np.empty(left.size))
        how = (scales.g, scales.h, *limits)
        run(_step_worker, n_threads, trees.leaf[i], g[i], h[i], left, right, how, sums, *values)
        return values

    return each(steps, range(len(totals)), g[0])
