"""Compare two classification trees that grew on the same rows, node by node.

Where their splits differ the Gini gains of both are compared in exact arithmetic: equal gains
are a tie, which every library breaks in its own way.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

CLOSE = 1e-7
"""scikit-learn does not cut between neighbouring values that differ by no more than this."""


class Nodes(NamedTuple):
    """One tree; ``feature`` is negative at a leaf, children have higher numbers than parents."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    n_samples: np.ndarray

    def sizes(self) -> np.ndarray:
        """Return the number of nodes of the subtree below each node, itself included."""
        size = np.ones(self.feature.size, np.int64)
        for node in range(self.feature.size - 1, -1, -1):
            if self.feature[node] >= 0:
                size[node] += size[self.left[node]] + size[self.right[node]]
        return size


def nodes_of_ours(model: Any) -> Nodes:
    """Return the first tree of a gpuens model."""
    forest = model.forest_
    part = slice(int(forest.offset[0]), int(forest.offset[1]))
    names = ("feature", "threshold", "left", "right", "n_samples")
    return Nodes(*(getattr(forest, name)[part] for name in names))


def nodes_of_theirs(model: Any) -> Nodes:
    """Return a tree of scikit-learn."""
    t = model.tree_
    feature = np.where(t.children_left < 0, -1, t.feature)
    return Nodes(feature, t.threshold, t.children_left, t.children_right, t.n_node_samples)


def compare(a: Nodes, b: Nodes, X: np.ndarray, y: np.ndarray) -> dict[str, int]:
    """Go down both trees together, with their training rows; returns how many nodes of ``a`` there
    are of each kind.

    ``nodes``: all of them; ``ties``: another split of equal gain; ``close``: a better split between
    values that only ``a`` distinguishes; ``different``: any other difference; ``below``: not
    compared, since other rows came there.
    """
    counts = dict.fromkeys(("nodes", "equal", "ties", "close", "different", "below"), 0)
    counts["nodes"] = a.feature.size
    size = a.sizes()
    open_nodes = [(0, 0, np.arange(y.size))]
    while open_nodes:
        i, j, rows = open_nodes.pop()
        if not a.n_samples[i] == b.n_samples[j] == rows.size:
            verdict, pairs = "different", []
        else:
            verdict, pairs = _compare_node(a, i, b, j, X, y, rows)
        counts[verdict] += 1
        if not pairs:
            counts["below"] += int(size[i]) - 1
        open_nodes += pairs
    return counts


def _compare_node(
    a: Nodes, i: int, b: Nodes, j: int, X: np.ndarray, y: np.ndarray, rows: np.ndarray
) -> tuple[str, list[tuple[int, int, np.ndarray]]]:
    """Return the verdict on two nodes, and the pairs of children that hold the same rows."""
    if a.feature[i] < 0 or b.feature[j] < 0:
        return ("equal" if a.feature[i] < 0 and b.feature[j] < 0 else "different"), []
    left = X[rows, a.feature[i]] <= a.threshold[i]
    same_split = a.feature[i] == b.feature[j] and a.threshold[i] == b.threshold[j]
    other = left if same_split else X[rows, b.feature[j]] <= b.threshold[j]
    children = [(a.left[i], rows[left]), (a.right[i], rows[~left])]
    pairs: list[tuple[int, int, np.ndarray]] = []
    if np.array_equal(left, other):
        pairs = [(u, v, r) for (u, r), v in zip(children, (b.left[j], b.right[j]), strict=True)]
    elif np.array_equal(left, ~other):
        pairs = [(u, v, r) for (u, r), v in zip(children, (b.right[j], b.left[j]), strict=True)]
    if same_split:
        return "equal", pairs
    ours, theirs = gini_score(y[rows], left), gini_score(y[rows], other)
    if ours == theirs:
        return "ties", pairs
    x = X[rows, a.feature[i]]
    close = ours > theirs and x[~left].min() - x[left].max() <= CLOSE
    return ("close" if close else "different"), pairs


def gini_score(y: np.ndarray, left: np.ndarray) -> Fraction:
    """Return the sum over children of (sum of squared class counts) / rows; larger is purer."""
    total = Fraction(0)
    for side in (left, ~left):
        counts = Counter(y[side].tolist())
        total += Fraction(sum(n * n for n in counts.values()), max(1, sum(counts.values())))
    return total
