"""Leaf sums and Newton steps (contract: ``kernels.leaves.newton_steps``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for, wait
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...scalars.primitives import INT_IN_MANTISSA, bits_of
from ...scalars.rounding import nearest
from ...statistics.quantise import fixed_point_scales
from ..newton_steps import take_steps

u64 = np.uint64
BLOCK = 1024
MOST_SUMS = 2**20
"""Most leaves of all threads for whose sums there is room at a time, 16 bytes each, if these are
outputs of one tree."""


@inner
def _to_fixed_point(values, scale, out):
    """Fill in whole numbers below 2**51, which are read from the bits of their sum with a constant:
    only AVX-512 has an instruction that converts several."""
    for i in range(out.size):
        whole = nearest(values[i] * scale)
        out[i] = bits_of(whole + INT_IN_MANTISSA) - bits_of(INT_IN_MANTISSA)


@inner
def _add_rows(leaf, g, h, sums):
    for i in range(u64(leaf.size)):
        node = leaf[i]
        if node >= 0:
            sums[u64(node), 0] += g[i]
            sums[u64(node), 1] += h[i]


@inner
def add_share(thread, n_threads, leaf, g, h, scale_g, scale_h, fixed, sums):
    """Add up a thread's share of the rows; ``fixed`` is scratch, (2, BLOCK)."""
    n = leaf.size
    last = n * (thread + 1) // n_threads
    for begin in range(n * thread // n_threads, last, BLOCK):
        # By blocks: whole numbers in one loop, which vectorises, then additions, which cannot.
        end = min(begin + BLOCK, last)
        fixed_g, fixed_h = fixed[0, : end - begin], fixed[1, : end - begin]
        _to_fixed_point(g[begin:end], scale_g, fixed_g)
        _to_fixed_point(h[begin:end], scale_h, fixed_h)
        _add_rows(leaf[begin:end], fixed_g, fixed_h, sums)


@inner
def add_threads(sums):
    """Add the sums of all threads to those of the first."""
    for thread in range(1, sums.shape[0]):
        # In integers: the sums are the same for any number of threads.
        for node in range(sums.shape[1]):
            sums[0, node, 0] += sums[thread, node, 0]
            sums[0, node, 1] += sums[thread, node, 1]


@kernel
def _sum_worker(thread, n_threads, barrier, leaf, g, h, scales, sums):
    fixed = np.empty((2, BLOCK), np.int64)
    add_share(thread, n_threads, leaf, g, h, scales[0], scales[1], fixed, sums[thread])
    wait(barrier, n_threads)
    if thread == 0:
        add_threads(sums)


@kernel
def _step_worker(
    thread, n_threads, barrier, leaf, g, h, left, right, offset, scales, limits, sums, value,
    hessian,
):  # fmt: skip
    fixed = np.empty((2, BLOCK), np.int64)
    n_lines = g.shape[0]
    for t in range(n_lines):
        # Sums of the thread's rows, for all trees, or for all outputs of the only tree.
        own = sums[thread, offset[t] : offset[t + 1]]
        leaf_t = leaf[min(t, leaf.shape[0] - 1)]
        add_share(thread, n_threads, leaf_t, g[t], h[t], scales[t, 0], scales[t, 1], fixed, own)
    # Behind the barrier all sums are there; the lines are shared out for the steps.
    wait(barrier, n_threads)
    for t in range(thread, n_lines, n_threads):
        begin, end = offset[t], offset[t + 1]
        own = sums[:, begin:end]
        add_threads(own)
        how = scales[t, 0], scales[t, 1], limits[0], limits[1], limits[2]
        take_steps(
            left[begin:end], right[begin:end], own[0], how, value[begin:end], hessian[begin:end]
        )


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
    n_threads = threads_for(g.size)
    left, right, offset = trees.left, trees.right, trees.offset
    most = max(1, MOST_SUMS // (n_threads * left.size))
    if len(trees.leaf) < len(g) and most < len(g):
        parts = [slice(first, first + most) for first in range(0, len(g), most)]
        steps = [
            newton_steps(trees, g[own], h[own], totals[own], l2, min_sum_hessian, largest)
            for own in parts
        ]
        return list(chain.from_iterable(steps))
    scales = np.array([fixed_point_scales(own, g.shape[1]) for own in totals])
    if len(trees.leaf) < len(g):  # the nodes of one tree once more for each of its outputs
        offset = left.size * np.arange(len(g) + 1)
        left, right = np.tile(left, len(g)), np.tile(right, len(g))
    sums = np.zeros((n_threads, left.size, 2), np.int64)
    value, hessian = np.empty(left.size), np.empty(left.size)
    run(
        _step_worker, n_threads,
        trees.leaf, g, h, left, right, offset, scales, limits, sums, value, hessian,
    )  # fmt: skip
    ends = offset.tolist()
    return [
        NodeValues(value[begin:end], hessian[begin:end])
        for begin, end in zip(ends[:-1], ends[1:], strict=True)
    ]
