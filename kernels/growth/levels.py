"""The levels of symmetric trees: one feature, cut and side of the missing values for all nodes of a
level (Prokhorenkova et al. 2018, "CatBoost: unbiased boosting with categorical features").

The gains of the nodes are added up for each cut, in the order of the nodes' numbers: the same sums,
rounded alike, whatever the device, the threads and the workers. A node in which the cut leaves a
child that is too small, or values out of order, gains nothing and stays whole; it takes part in the
next level again, so that a row's answers to the splits of the levels still name its leaf::

    level 1    x0 <= 3     A                    answers    0 0   0 1   1 0   1 1
    level 2    x4 <= 7     B         C          leaf       b0    b1    C     C
                           b0  b1    C whole

Categories are cut in the order that the sums of all nodes of the level give. While cuts are
compared, rows are estimated from hessians (``limits.least_h_of_level``); a node whose children turn
out to have too few stays whole, too.
"""

from __future__ import annotations

from ..runtime.compilation import inner
from .frontier import N_NODES, NO_GAIN
from .limits import can_split
from .params import UNLIMITED


@inner
def list_levels(frontier, params):
    """List the nodes of the next level of every symmetric tree in its part of ``heap``: those
    without children that have a histogram, so also nodes that the splits of levels before have left
    whole. While nodes of a level wait to be opened, the list of the tree is empty."""
    for t in range(frontier.trees.size):
        frontier.trees[t].n_open = 0
    for x in range(frontier.state[N_NODES]):
        node, tree = frontier.nodes[x], frontier.trees[frontier.nodes[x].tree]
        if node.child >= 0 or node.slot < 0 or tree.n_levels >= params.max_depth:
            continue
        if node.gain > NO_GAIN:
            tree.n_open = -params.max_leaves  # more than there are nodes
        elif can_split(frontier, params, x):
            if tree.n_open >= 0:
                frontier.heap[tree.first + tree.n_open] = x
            tree.n_open += 1


@inner
def take_level(frontier, params, t, gain):
    """Return whether the next level of tree t is split, which gains so much in quantised units (see
    ``take_gain``). If not, the tree is complete."""
    tree = frontier.trees[t]
    noise = 0.0
    for i in range(tree.n_open):
        node = frontier.nodes[frontier.heap[tree.first + i]]
        noise += 4.0 * (node.end - node.begin) / node.h
    is_split = gain > noise and gain / tree.scale_g / tree.scale_g * tree.scale_h > params.min_gain
    tree.n_levels = tree.n_levels + 1 if is_split else UNLIMITED
    return is_split
