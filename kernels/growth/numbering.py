"""The final trees: which nodes belong to them, and their numbers."""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import inner
from .frontier import N_NODES
from .order import simulate
from .params import UNLIMITED


@inner
def finish(frontier, params, order, tree_offset):
    """Number the nodes of the final trees breadth first.

    ``order`` receives the table's entries tree by tree, ``tree_offset`` where each tree
    begins. Sets the ``leaf`` of every node at or below a leaf to that leaf's number in its
    tree, and to -1 above.
    """
    for x in range(frontier.state[N_NODES]):
        forget_choice(frontier, params, x)
    end = np.int64(0)
    for t in range(frontier.trees.size):
        tree_offset[t] = end
        simulate(frontier, params, t)
        end = number_nodes(frontier, t, order, end)
    tree_offset[frontier.trees.size] = end
    for x in range(frontier.state[N_NODES]):
        inherit_leaf(frontier, x)


@inner
def forget_choice(frontier, params, x):
    """Undo what simulations have marked; without a limit of leaves every parent is chosen."""
    node = frontier.nodes[x]
    node.chosen = 1 if params.max_leaves == UNLIMITED and node.child >= 0 else 0
    node.leaf = -1


@inner
def number_nodes(frontier, t, order, first):
    """List the nodes of tree t breadth first in ``order`` from ``first`` on, and number its
    leaves; the end of the list."""
    end = first
    order[end] = t
    end += 1
    head = first
    while head < end:
        node = frontier.nodes[order[head]]
        if node.chosen == 1:
            order[end] = node.child
            order[end + 1] = node.child + 1
            end += 2
        else:
            node.leaf = head - first
        head += 1
    return end


@inner
def inherit_leaf(frontier, x):
    """Give a node below a leaf, which was opened too early, the number of the leaf."""
    nodes = frontier.nodes
    y = np.int64(x)
    if nodes[x].chosen == 1:
        return
    while y >= 0 and nodes[y].leaf < 0:
        y = nodes[y].parent
    if y >= 0:
        nodes[x].leaf = nodes[y].leaf


@inner
def emit(
    nodes,
    sets,
    order,
    tree_offset,
    feature,
    bin_,
    missing_left,
    left,
    right,
    gain,
    n_samples,
    left_codes,
):
    """Write the final trees' arrays (see ``grow.GrownTrees``)."""
    for tree in range(tree_offset.size - 1):
        next_child = 1
        for i in range(tree_offset[tree], tree_offset[tree + 1]):
            node = nodes[order[i]]
            n_samples[i] = node.end - node.begin
            if node.leaf >= 0:
                feature[i] = bin_[i] = left[i] = right[i] = -1
                missing_left[i] = 0
                gain[i] = 0.0
                continue
            feature[i] = node.feature
            bin_[i] = node.bin
            missing_left[i] = node.missing_left
            gain[i] = node.gain
            if node.bin < 0:
                left_codes[i] = sets[order[i]]
            left[i] = next_child  # breadth first: children are numbered in their parents' order
            right[i] = next_child + 1
            next_child += 2
