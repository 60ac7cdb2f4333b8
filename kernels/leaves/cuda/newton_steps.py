"""Leaf sums and Newton steps (contract: ``kernels.leaves.newton_steps``).

The host only launches: the leaves' values are ready for the update of the raw predictions before
the host knows them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...growth.cuda.grow import GrowingTrees
from ...runtime.arrays import Array
from ...runtime.cuda.blocks import arrives_last
from ...runtime.cuda.fetch import Fetched
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    device_function,
    download,
    empty,
    kernel,
    launch,
    zeros,
)
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...scalars.gain import limited_value
from ...scalars.primitives import mul
from ...scalars.rounding import nearest
from ...statistics.cuda.totals import on_device
from ...statistics.quantise import fixed_point_scales
from ..newton_steps import steps_of_sums

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64

BLOCK = block_size(256)
LIMB = i64(17)
"""Bits of a limb. Values below 2⁵⁰ have three; ``TILE`` of each fit 32 bits."""
LIMB_MASK = i64(2**17 - 1)
N_LIMBS = 3
TILE = 2**14
"""Rows that a block adds up before it empties its sums."""
SHARED_NODES = 1024
N_ENTRIES = SHARED_NODES * 2 * N_LIMBS


@device_function
def add_limbs(sums, entry, value):
    """Add a value of fewer than 51 bits to three int32 sums: the low limbs are not negative,
    the high one has the sign. Shared memory adds 32 bits natively, 64 only in a loop."""
    cuda.atomic.add(sums, entry, i32(value & LIMB_MASK))
    cuda.atomic.add(sums, entry + 1, i32((value >> LIMB) & LIMB_MASK))
    cuda.atomic.add(sums, entry + 2, i32(value >> (LIMB + LIMB)))


@device_function
def step_of(sum_g, sum_h, scales, l2, min_sum_hessian, largest):
    """Return the value of a leaf."""
    g = f64(sum_g) / scales[0]
    h = max(f64(sum_h) / scales[1], min_sum_hessian)
    return limited_value(g, h, l2, largest)


@kernel
def sum_in_shared(leaf, g, h, scales, l2, min_sum_hessian, largest, out, values):
    """``TILE`` rows a block at a time; up to ``SHARED_NODES`` nodes.

    Shared sums: ``[node][g, h][limb]``. ``out`` is the result; its last line counts the blocks
    that are done. The last one of them takes the steps of the nodes, if ``values`` has room.
    """
    sums = cuda.shared.array(N_ENTRIES, np.int32)
    is_last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    n = leaf.shape[0]
    n_nodes = out.shape[0] - 1
    n_sums = 2 * n_nodes
    first = cuda.blockIdx.x * TILE
    while first < n:
        for k in range(t, n_sums * N_LIMBS, BLOCK):
            sums[k] = 0
        cuda.syncthreads()
        for i in range(first + t, min(first + TILE, n), BLOCK):
            node = u32(leaf[i])
            if node < u32(n_nodes):
                entry = i64(node) * 2 * N_LIMBS
                add_limbs(sums, entry, i64(nearest(mul(f64(g[i]), scales[0]))))
                add_limbs(sums, entry + N_LIMBS, i64(nearest(mul(f64(h[i]), scales[1]))))
        cuda.syncthreads()
        for k in range(t, n_sums, BLOCK):
            total = i64(sums[N_LIMBS * k + 2]) << LIMB
            total = (total + i64(sums[N_LIMBS * k + 1])) << LIMB
            total += i64(sums[N_LIMBS * k])
            if total != 0:
                cuda.atomic.add(out, (k >> 1, k & 1), total)
        cuda.syncthreads()
        first += cuda.gridDim.x * TILE
    if values.shape[0] > 0 and arrives_last(out, (n_nodes, 0), is_last, t):
        for k in range(t, n_nodes, BLOCK):
            sum_g = cuda.atomic.add(out, (k, 0), i64(0))
            sum_h = cuda.atomic.add(out, (k, 1), i64(0))
            values[k] = step_of(sum_g, sum_h, scales, l2, min_sum_hessian, largest)


@kernel
def sum_in_global(leaf, g, h, scales, out):
    """One row a thread, for more nodes; with many leaves few rows meet in one."""
    n = u32(leaf.shape[0])
    scale_g = scales[0]
    scale_h = scales[1]
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(leaf[i])
        if node < u32(out.shape[0] - 1):
            cuda.atomic.add(out, (node, 0), i64(nearest(mul(f64(g[i]), scale_g))))
            cuda.atomic.add(out, (node, 1), i64(nearest(mul(f64(h[i]), scale_h))))
        i = u32(i + cuda.gridsize(1))


@kernel
def take_steps(sums, scales, l2, min_sum_hessian, largest, values):
    """One leaf a thread. Inner nodes have no rows; their values are not read."""
    i = cuda.grid(1)
    while i < values.shape[0]:
        values[i] = step_of(sums[i, 0], sums[i, 1], scales, l2, min_sum_hessian, largest)
        i += cuda.gridsize(1)


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    out = zeros((n_nodes + 1, 2), np.int64)
    launch_sums(leaf, g, h, on_device(scales), (0.0, 0.0, 0.0), out, empty(0, np.float64))
    return download(out[:n_nodes])


def launch_sums(
    leaf: Array, g: Array, h: Array, scales: Array, how: tuple[float, ...], out: Array, values: Any
) -> None:
    """Add the sums of leaves to ``out``, which has a line of zeros behind them, and write the
    Newton steps to ``values``, where that is not empty."""
    n, n_nodes = leaf.shape[0], out.shape[0] - 1
    if n_nodes <= SHARED_NODES:
        args = (leaf, g, h, scales, *how, out, values)
        launch(sum_in_shared, blocks_for(-(-n // TILE)), BLOCK, *args)
        return
    launch(sum_in_global, blocks_for_rows(n, BLOCK), BLOCK, leaf, g, h, scales, out)
    if values.shape[0] > 0:
        launch(take_steps, blocks_for_rows(n_nodes, BLOCK), BLOCK, out, scales, *how, values)


class FetchedNodeValues:
    """``NodeValues`` that are fetched when they are read; ``on_device`` holds the leaves'
    values. ``how`` is l2, the least hessian and the largest value."""

    def __init__(
        self, trees: GrowingTrees, i: int, g: Array, h: Array, scales: Scales, *how: float
    ) -> None:
        n = trees.most_nodes(i)
        self.on_device = empty(n, np.float64)
        self._of = trees, i
        self._how = scales, *how
        leaf, on_gpu = trees.early_leaf[i], on_device(scales)

        def start() -> None:
            sums = zeros((n + 1, 2), np.int64)
            launch_sums(leaf, g, h, on_gpu, how, sums, self.on_device)
            self._sums = Fetched(sums[:n])

        trees.launch_behind(start)

    @cached_property
    def _values(self) -> NodeValues:
        trees, i = self._of
        trees.settle()
        return steps_of_sums(trees, i, self._sums.wait(), *self._how)

    @property
    def value(self) -> np.ndarray:
        return self._values.value

    @property
    def hessian(self) -> np.ndarray:
        return self._values.hessian


def newton_steps(
    trees: GrowingTrees,
    i: int,
    g: Array,
    h: Array,
    totals: Totals,
    l2: float,
    min_sum_hessian: float,
    largest: float,
) -> FetchedNodeValues:
    scales = fixed_point_scales(totals, int(g.shape[0]))
    how = float(l2), float(min_sum_hessian), float(largest)
    return FetchedNodeValues(trees, i, g, h, scales, *how)
