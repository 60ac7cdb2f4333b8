"""Leaf sums and Newton steps (contract: ``kernels.leaves.newton_steps``).

The host only launches: the leaves' values are ready for the update of the raw predictions before
the host knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    upload,
    zeros,
)
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...scalars.gain import limited_value
from ...scalars.lazy_jit import lazy_property
from ...scalars.primitives import mul, vectorise
from ...scalars.rounding import nearest
from ...statistics.cuda.totals import on_device, on_host
from ...statistics.quantise import fixed_point_scales
from ..newton_steps import add_children

i32, i64, u32, f64 = np.int32, np.int64, np.uint32, np.float64
_limited_value = vectorise(limited_value)

BLOCK = block_size(256)
LIMB = i64(17)
"""Bits of a limb. Values below 2⁵⁰ have three; ``MOST_ROWS`` of each fit 32 bits."""
LIMB_MASK = i64(2**17 - 1)
N_LIMBS = 3
LEAST_ROWS, MOST_ROWS = 4 * BLOCK, 2**14
"""Rows that a block adds up before it empties its sums."""
SHARED_NODES = 1024
N_ENTRIES = SHARED_NODES * 2 * N_LIMBS
NO_STEPS = 0.0, 0.0, 0.0
MOST_COPIES = 32
"""Copies of the sums of few nodes, by the lane of a warp: its lanes would meet in them."""


@device_function
def add_limbs(sums, entry, plane, value):
    """Add a value of fewer than 51 bits to three int32 sums, which are ``plane`` entries apart: the
    low limbs are not negative, the high one has the sign. Shared memory adds 32 bits natively, 64
    only in a loop."""
    cuda.atomic.add(sums, entry, i32(value & LIMB_MASK))
    cuda.atomic.add(sums, entry + plane, i32((value >> LIMB) & LIMB_MASK))
    cuda.atomic.add(sums, entry + 2 * plane, i32(value >> (LIMB + LIMB)))


@device_function
def joined(sums, line, plane, n_copies, first):
    """Return the sum of a line of copies, beginning with the thread's own."""
    low = middle = high = i64(0)
    for k in range(n_copies):
        # Each thread begins with another copy: neighbours then read different banks.
        entry = line * n_copies + ((first + k) & (n_copies - 1))
        low += i64(sums[entry])
        middle += i64(sums[entry + plane])
        high += i64(sums[entry + 2 * plane])
    # In 64 bits, where limbs carry into the next one.
    return (((high << LIMB) + middle) << LIMB) + low


@device_function
def step_of(sum_g, sum_h, scale_g, scale_h, how):
    """Return the value of a leaf."""
    l2, min_sum_hessian, largest = how
    g = f64(sum_g) / scale_g
    h = max(f64(sum_h) / scale_h, min_sum_hessian)
    return limited_value(g, h, l2, largest)


@device_function
def how_of(l2, min_sum_hessian, largest, own, tree):
    """Return the settings of a tree: its line of ``own``, if that has any."""
    if own.shape[0] > 0:
        return own[tree, 0], own[tree, 1], own[tree, 2]
    return l2, min_sum_hessian, largest


@kernel
def sum_in_shared(
    leaf, g, h, scales, l2, min_sum_hessian, largest, own_settings, n_rows, n_copies, out, values
):  # fmt: skip
    """``n_rows`` rows a block at a time; up to ``SHARED_NODES`` nodes. ``blockIdx.y`` is the tree,
    or the output of the only tree.

    Shared sums: ``[g, h][limb][node][copy]``. ``out`` is the result; a tree's last line counts the
    blocks that are done. The last one of them takes the steps of the nodes, if ``values`` has room.
    """
    sums = cuda.shared.array(N_ENTRIES, np.int32)
    is_last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    tree = i64(cuda.blockIdx.y)
    own_leaf = leaf[min(tree, leaf.shape[0] - 1)]
    own_g, own_h, own = g[tree], h[tree], out[tree]
    scale_g = scales[tree, 0]
    scale_h = scales[tree, 1]
    n = leaf.shape[1]
    n_nodes = out.shape[1] - 1
    plane = n_nodes * n_copies
    copy = i64(t) & (n_copies - 1)
    first = i64(cuda.blockIdx.x) * n_rows
    while first < n:
        for k in range(t, 2 * N_LIMBS * plane, BLOCK):
            # Clear the block's sums.
            sums[k] = 0
        cuda.syncthreads()
        # Add the rows. Behind the barrier all sums are zero.
        for i in range(first + t, min(first + n_rows, n), BLOCK):
            # Rows without a leaf have a mark that is, unsigned, above all nodes.
            node = u32(own_leaf[i])
            if node < u32(n_nodes):
                entry = i64(node) * n_copies + copy
                add_limbs(sums, entry, plane, i64(nearest(mul(f64(own_g[i]), scale_g))))
                entry += N_LIMBS * plane
                add_limbs(sums, entry, plane, i64(nearest(mul(f64(own_h[i]), scale_h))))
        cuda.syncthreads()
        for k in range(t, 2 * n_nodes, BLOCK):
            # Empty the sums into those of all blocks. Behind the barrier all rows are added.
            line = k >> 1 if k & 1 == 0 else (k >> 1) + N_LIMBS * n_nodes
            total = joined(sums, line, plane, n_copies, copy)
            if total != 0:
                cuda.atomic.add(own, (k >> 1, k & 1), total)
        cuda.syncthreads()  # the sums are read before they are cleared for the next rows
        first += cuda.gridDim.x * n_rows
    if values.shape[1] > 0 and arrives_last(own, (n_nodes, 0), is_last, t):
        how = how_of(l2, min_sum_hessian, largest, own_settings, tree)
        for k in range(t, n_nodes, BLOCK):
            # Read by atomic operations, which see what other blocks have added; a plain load may be
            # stale.
            sum_g = cuda.atomic.add(own, (k, 0), i64(0))
            sum_h = cuda.atomic.add(own, (k, 1), i64(0))
            values[tree, k] = step_of(sum_g, sum_h, scale_g, scale_h, how)


@kernel
def sum_in_global(leaf, g, h, scales, out):
    """One row a thread, for more nodes; with many leaves few rows meet in one."""
    tree = i64(cuda.blockIdx.y)
    own_leaf = leaf[min(tree, leaf.shape[0] - 1)]
    own_g, own_h, own = g[tree], h[tree], out[tree]
    n = u32(leaf.shape[1])
    scale_g = scales[tree, 0]
    scale_h = scales[tree, 1]
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(own_leaf[i])
        if node < u32(out.shape[1] - 1):
            cuda.atomic.add(own, (node, 0), i64(nearest(mul(f64(own_g[i]), scale_g))))
            cuda.atomic.add(own, (node, 1), i64(nearest(mul(f64(own_h[i]), scale_h))))
        i = u32(i + cuda.gridsize(1))


@kernel
def take_steps(sums, scales, l2, min_sum_hessian, largest, own_settings, values):
    """One leaf a thread. Inner nodes have no rows; their values are not read."""
    tree = i64(cuda.blockIdx.y)
    scale_g = scales[tree, 0]
    scale_h = scales[tree, 1]
    how = how_of(l2, min_sum_hessian, largest, own_settings, tree)
    i = cuda.grid(1)
    while i < values.shape[1]:
        sum_g, sum_h = sums[tree, i, 0], sums[tree, i, 1]
        values[tree, i] = step_of(sum_g, sum_h, scale_g, scale_h, how)
        i += cuda.gridsize(1)


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    (sums,) = sums_of_lines(leaf[None], g[None], h[None], [scales], n_nodes)
    return sums


def sums_of_lines(
    leaf: Array, g: Array, h: Array, scales: Sequence[Scales], n_nodes: int
) -> np.ndarray:
    """Return the sums of each line, (n_lines, n_nodes, 2)."""
    out = zeros((len(scales), n_nodes + 1, 2), np.int64)
    no_values = empty((len(scales), 0), np.float64)
    launch_sums(leaf, g, h, on_device(scales), [NO_STEPS], out, no_values)
    return download(out)[:, :n_nodes]


def launch_sums(
    leaf: Array, g: Array, h: Array, scales: Array, how: Sequence[Any], out: Array, values: Any
) -> None:
    """Add the sums of leaves to ``out``, which has a line of zeros behind those of each tree, and
    write the Newton steps to ``values``, where that is not empty. ``how`` are the settings of all
    trees, or of each."""
    (n_trees, n), n_nodes = g.shape, out.shape[1] - 1
    own = empty((0, 3), np.float64) if len(set(how)) == 1 else upload(np.array(how))[0]
    if n_nodes <= SHARED_NODES:
        # Few nodes: sums in shared memory, and the steps by the block that is last.
        rows = rows_of_block(n, n_trees)
        launch(
            sum_in_shared, (blocks_for(-(-n // rows)), n_trees), BLOCK,
            leaf, g, h, scales, *how[0], own, rows, copies_of(n_nodes), out, values,
        )  # fmt: skip
        return
    # Many nodes: sums in global memory, and the steps by a launch of their own, a node a thread.
    blocks = blocks_for_rows(n, BLOCK), n_trees
    launch(sum_in_global, blocks, BLOCK, leaf, g, h, scales, out)
    if values.shape[1] > 0:
        blocks = blocks_for_rows(n_nodes, BLOCK), n_trees
        launch(take_steps, blocks, BLOCK, out, scales, *how[0], own, values)


def rows_of_block(n: int, n_trees: int) -> int:
    """Return how many rows a block adds up at a time: all blocks that run together have as many,
    unless those would be too few to be worth emptying the sums, or too many for them."""
    fair = -(-n // max(1, blocks_for(2**31) // n_trees))
    return min(max(LEAST_ROWS, fair), MOST_ROWS)


def copies_of(n_nodes: int) -> int:
    """Return how many copies of the sums of so many nodes there is room for, a power of two."""
    return min(MOST_COPIES, 1 << (SHARED_NODES // n_nodes).bit_length() - 1)


class Steps:
    """The Newton steps of the trees of a batch, which may still be growing. ``how`` has l2, the
    least hessian and the largest value of each tree."""

    def __init__(
        self,
        trees: GrowingTrees,
        g: Array,
        h: Array,
        scales: Sequence[Scales],
        how: Sequence[tuple[float, float, float]],
    ) -> None:
        n_trees, n = len(scales), trees.most_nodes
        self.values = empty((n_trees, n), np.float64)
        self._trees, self._scales, self._how = trees, scales, how
        on_gpu = on_device(scales)

        def start() -> None:
            # Launched behind the growth of the trees, before the host knows their nodes.
            sums = zeros((n_trees, n + 1, 2), np.int64)
            launch_sums(trees.early_leaf, g, h, on_gpu, how, sums, self.values)
            self._sums = Fetched(sums)

        trees.launch_behind(start)

    @lazy_property
    def of_lines(self) -> list[NodeValues]:
        """The values of the nodes of each tree, or of the lines of the only one, for which the host
        waits."""
        trees, how, n_lines = self._trees, np.array(self._how), len(self._how)
        sizes, left, right = np.diff(trees.offset), trees.left, trees.right
        if sizes.size < n_lines:
            sizes, left, right = (np.tile(own, n_lines) for own in (sizes, left, right))
        ends = np.cumsum(sizes)
        line, first = np.repeat(np.arange(n_lines), sizes), np.repeat(ends - sizes, sizes)
        sums = self._sums.wait()[line, np.arange(line.size) - first]
        # All nodes as if they were those of one tree: children have higher numbers.
        add_children(
            *(np.where(own < 0, -1, own + first).astype(np.int32) for own in (left, right)), sums
        )
        scale, (l2, least, largest) = on_host(self._scales)[line], how[line].T
        with np.errstate(all="ignore"):  # as in compiled code
            hessian = sums[:, 1] / scale[:, 1]
            value = _limited_value(
                sums[:, 0] / scale[:, 0], np.maximum(hessian, least), l2, largest
            )
        places = zip([0, *ends.tolist()], ends.tolist(), strict=False)
        return [NodeValues(value[begin:end], hessian[begin:end]) for begin, end in places]


class FetchedNodeValues:
    """``NodeValues`` that are fetched when they are read; line ``line`` of ``lines`` holds the
    leaves' values on the device."""

    def __init__(self, steps: Steps, i: int) -> None:
        self.lines, self.line = steps.values, i
        self._steps = steps

    @property
    def value(self) -> np.ndarray:
        return self._steps.of_lines[self.line].value

    @property
    def hessian(self) -> np.ndarray:
        return self._steps.of_lines[self.line].hessian


def newton_steps(
    trees: GrowingTrees,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    l2: float,
    min_sum_hessian: float,
    largest: float,
) -> list[FetchedNodeValues]:
    how = [(float(l2), float(min_sum_hessian), float(largest))] * len(totals)
    return steps_of_trees(trees, g, h, totals, how, [int(g.shape[1])] * len(totals))


def steps_of_trees(
    trees: GrowingTrees,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    how: Sequence[tuple[float, float, float]],
    n_rows: Sequence[int],
) -> list[FetchedNodeValues]:
    """Take the Newton steps of trees with settings and numbers of rows of their own (see
    ``Steps``)."""
    scales = [fixed_point_scales(own, n) for own, n in zip(totals, n_rows, strict=True)]
    steps = Steps(trees, g, h, scales, how)
    return [FetchedNodeValues(steps, i) for i in range(len(scales))]
