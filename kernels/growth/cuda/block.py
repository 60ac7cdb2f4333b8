"""The block of the kernels that have a single one: its size, sums over its threads, the control of
growth as compiled for the device, and the numbers of leaves.

A function of the control (``kernels.growth.control``) takes the ``Frontier`` that ``frontier_of``
returns; kernels read records from the ``Tables`` of ``tables_of``. In the simulator the former has
NumPy's arrays and the latter the simulator's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import callable_from_python
from ...runtime.cuda.blocks import inclusive_scan
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import block_size, cuda, device_function, is_simulated

i32, i64 = np.int32, np.int64

BLOCK = block_size(512)
GROUPS = BLOCK.bit_length() - 1
"""A block has 2**GROUPS threads."""


def control(function: Any) -> Any:
    """Return a function of the control as a kernel calls it."""
    return callable_from_python(function) if is_simulated() else function


@device_function
def share_of(n, t):
    """Return the begin and the end of a thread's share of n neighbouring entries, of which there
    are fewer than 2**31 as of those of all tables: so the counters of loops have 32 bits."""
    share = (i32(n) + i32(BLOCK - 1)) >> i32(GROUPS)
    begin = i32(min(i32(i32(t) * share), i32(n)))
    return begin, i32(min(i32(begin + share), i32(n)))


@device_function
def before(sums, own, t):
    """Return the sum of the threads' ``own`` over those before this one, and over all.

    Every thread of the block must call this, with ``sums`` an int64 array of an entry a thread.
    """
    sums[t] = own
    inclusive_scan(sums, t)
    found = sums[t] - own
    total = sums[BLOCK - 1]
    cuda.syncthreads()  # ``sums`` may be written again
    return found, total


@device_function
def before_in_group(sums, own, t, width):
    """Do the same among ``width`` neighbouring threads, a power of two of them."""
    first = t & ~(width - 1)
    sums[t] = own
    inclusive_scan(sums, t)
    base = sums[first - 1] if first > 0 else i64(0)
    found = sums[t] - own - base
    total = sums[first + width - 1] - base
    cuda.syncthreads()  # ``sums`` may be written again
    return found, total


@device_function
def width_for(n, most):
    """Return the logarithm of the largest power of two of threads that each of n pieces of work
    can have of ``2**most`` threads, at least 0."""
    width = most
    while width > 0 and (i64(n) << width) > (i64(1) << most):
        width -= 1
    return width


@device_function
def begins_tree(x, queue, first, at):
    """Return whether an entry of a level is the first one of its tree."""
    return at == first or x.nodes[queue[at]].tree != x.nodes[queue[at - 1]].tree


@device_function
def number_level(x, queue, first, end, sums, t):
    """Number the leaves of a level, and return the end of the next one, which follows in the
    queue.

    A tree's ``offset`` leads from places in the queue to numbers. It is that of the level before
    when the level begins.
    """
    begin, stop = share_of(end - first, t)
    begin += first
    stop += first
    # Where the children of this thread's nodes come in the next level.
    own = i64(0)
    for at in rolled(range(begin, stop)):
        own += x.nodes[queue[at]].chosen
    to, total = before(sums, own, t)
    for at in rolled(range(begin, stop)):
        if begins_tree(x, queue, first, at):
            x.plans[x.nodes[queue[at]].tree].offset = at - x.plans[x.nodes[queue[at]].tree].numbered
    cuda.syncthreads()  # the offsets are those of this level
    # List the children of chosen nodes; the others are leaves, whose place in their tree is
    # its nodes on the levels above and those before it on this one.
    to = end + 2 * to
    for at in rolled(range(begin, stop)):
        node = x.nodes[queue[at]]
        if node.chosen == 1:
            queue[to] = node.child
            queue[to + 1] = node.child + 1
            to += 2
        else:
            node.leaf = at - x.plans[node.tree].offset
    cuda.syncthreads()  # all have read the offsets
    for at in rolled(range(begin, stop)):
        node = x.nodes[queue[at]]
        if at + 1 == end or begins_tree(x, queue, first, at + 1):
            plan = x.plans[node.tree]
            plan.numbered = at + 1 - plan.offset
    cuda.syncthreads()  # the level is done, the next one listed
    return end + 2 * total


@device_function
def number_trees(x, queue, sums, t):
    """Number the leaves of all trees breadth first, the same as ``control.number_nodes``; their
    nodes are ``chosen`` or not, and ``queue`` has an entry a node of the table.

    The block walks down all trees at the same time. Its queue holds the nodes of a level, those of
    a tree beside each other; the children of the chosen ones are the next level::

        queue    a0 b0 | a1 a2 b1 b2 | b3 b4          trees a and b; b1 is chosen
        numbers   0  0 |  1  2  1  2 |  3  4
    """
    n_trees = i64(x.trees.shape[0])
    for tree in rolled(range(t, n_trees, BLOCK)):
        queue[tree] = tree
        x.plans[tree].numbered = 0
    cuda.syncthreads()  # the first level is listed
    first, end = i64(0), n_trees
    while first < end:
        next_end = number_level(x, queue, first, end, sums, t)
        first, end = end, next_end
