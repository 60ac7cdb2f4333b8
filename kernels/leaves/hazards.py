"""Cumulative hazards of the training rows in the leaves of a tree, and their means over trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..runtime.compilation import inner, kernel
from ..runtime.dispatch import implementation
from .targets import find_rows


class LeafSteps(NamedTuple):
    """The steps of the cumulative hazard in every leaf.

    offset : int64, shape (n_trees + 1,)
        Tree t owns nodes ``offset[t]:offset[t + 1]``.
    begin : int64, shape (n_nodes + 1,)
        Node k owns steps ``begin[k]:begin[k + 1]``; inner nodes have none.
    place : int32, shape (n_steps,)
        The first time that a step has an effect at, ascending in each leaf.
    increase : float64, shape (n_steps,)
    """

    offset: np.ndarray
    begin: np.ndarray
    place: np.ndarray
    increase: np.ndarray


@inner
def _flush(node, place, steps, increases, at_risk, dying, leaving, time):
    """End the time of a leaf: a step where there were events, and fewer rows at risk."""
    if dying[node] > 0.0:
        # Rows leave one after the other: rounding must not leave fewer than die.
        risk = max(at_risk[node], dying[node])
        steps[place[node]] = time[node]
        increases[place[node]] = dying[node] / risk
        place[node] += 1
    at_risk[node] -= leaving[node]
    dying[node] = 0.0
    leaving[node] = 0.0


@kernel
def fill_hazards(
    left, n_samples, records, order, rank, event, weight, segment, steps, increases, n_steps
):
    """Fill in the steps of each leaf (Nelson 1969, Aalen 1978) without sorting: rows come in the
    order of their times, ``rank``, and each counts in its leaf.

    The steps of a leaf begin at ``segment[leaf, 0]`` of ``steps`` (times) and ``increases``.
    """
    n_nodes = left.size
    leaf_of = np.full(rank.size, -1, np.int32)
    copies = np.zeros(rank.size, np.float64)
    at_risk, dying, leaving = np.zeros(n_nodes), np.zeros(n_nodes), np.zeros(n_nodes)
    find_rows(left, n_samples, records, weight, segment, leaf_of, copies, at_risk)
    # Along the times: a leaf whose next row is of a later time ends the one before.
    place = segment[:, 0].copy()
    time = np.full(n_nodes, -2, np.int32)
    for i in range(order.size):
        row = order[i]
        node = leaf_of[row]
        if node < 0:
            continue
        if rank[row] != time[node]:
            _flush(node, place, steps, increases, at_risk, dying, leaving, time)
            time[node] = rank[row]
        leaving[node] += copies[row]
        if event[row]:
            dying[node] += copies[row]
    # The last time of every leaf. Those without rows, and inner nodes, have no step.
    for node in range(n_nodes):
        _flush(node, place, steps, increases, at_risk, dying, leaving, time)
        n_steps[node] = place[node] - segment[node, 0]


def mean_hazards(steps: LeafSteps, leaf: np.ndarray, n_times: int) -> np.ndarray:
    """Return the mean over the trees of the cumulative hazards in the leaves that rows reach.

    Increases are added up tree by tree for each time, then over the times; the sums are divided by
    the number of trees.

    Parameters
    ----------
    steps : LeafSteps
    leaf : int32 ndarray, shape (n_rows, n_trees), contiguous
        Counted from the root of the tree.
    n_times : int
        Steps with this place or a later one have no effect.

    Returns
    -------
    float64 ndarray, shape (n_rows, n_times)
    """
    return implementation(__name__, leaf).mean_hazards(steps, leaf, n_times)
