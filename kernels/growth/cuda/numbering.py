"""The numbers of leaves, found by a block: breadth first, the same as ``control.number_nodes``.

The block walks down all trees at the same time. Its queue holds the nodes of a level, those of a
tree beside each other; the children of the chosen ones are the next level::

    queue    a0 b0 | a1 a2 b1 b2 | b3 b4          trees a and b; b1 is chosen
    numbers   0  0 |  1  2  1  2 |  3  4
"""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.loops import rolled
from ...runtime.cuda.target import cuda, device_function
from .block import BLOCK, before, share_of

i64 = np.int64


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
    """Number the leaves of all trees, whose nodes are ``chosen`` or not; ``queue`` has an entry a
    node of the table."""
    n_trees = i64(x.trees.shape[0])
    for tree in rolled(range(t, n_trees, BLOCK)):
        queue[tree] = tree
        x.plans[tree].numbered = 0
    cuda.syncthreads()  # the first level is listed
    first, end = i64(0), n_trees
    while first < end:
        next_end = number_level(x, queue, first, end, sums, t)
        first, end = end, next_end
