"""Values of the inner nodes of a tree, and values that fit those of their parents; NumPy arrays of
one tree."""

from __future__ import annotations

import numpy as np

from ..runtime.compilation import kernel
from ..scalars.gain import between_values, within


@kernel
def average_children(left, right, cover, value):
    """Give the inner nodes the means of their children by ``cover``, in place."""
    # Children have higher numbers than their parents.
    for node in range(left.size - 1, -1, -1):
        if left[node] >= 0:
            a, b = left[node], right[node]
            # A node without cover, as a file may have: both children count alike.
            share = cover[a] / (cover[a] + cover[b]) if cover[a] + cover[b] > 0.0 else 0.5
            value[node] = share * value[a] + (1.0 - share) * value[b]


@kernel
def bound_values(feature, left, right, monotone, value):
    """Clip the values of a tree's nodes so that monotone constraints hold, in place."""
    # Children have higher numbers than their parents: one pass visits the tree from the root down.
    # A split on a constrained feature divides the interval of its node at the middle of its
    # children's values, so that no leaf on one side can pass a leaf on the other:
    #
    #     low <------- left -------> middle <------- right -------> high     (rising feature)
    low = np.full(value.size, -np.inf)
    high = np.full(value.size, np.inf)
    for node in range(value.size):
        value[node] = within(value[node], low[node], high[node])
        if left[node] < 0:
            continue
        a, b = left[node], right[node]
        low[a] = low[b] = low[node]
        high[a] = high[b] = high[node]
        middle = between_values(
            within(value[a], low[node], high[node]), within(value[b], low[node], high[node])
        )
        direction = monotone[feature[node]]
        if direction > 0:
            high[a] = low[b] = middle
        elif direction < 0:
            low[a] = high[b] = middle
