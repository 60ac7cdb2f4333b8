"""Partial dependence of a forest by one weighted pass down its trees.

At a split of another feature a path goes on to both children, weighted by their shares of the
training rows (Friedman 2001, section 8.2). At a split of a feature of interest each point of the
grid goes one way: the ascending values of an axis are cut into those up to the threshold and those
above. So all points that come along a path are a box of the grid, and a path needs no more than
its weight and the ends of the box::

    x <= 3            axis:  0 1 2 3 4 5 6 .   "." is the missing value, a box of its own
     /    \\
    box 0...3   box 4...6                      whatever the number of points

A leaf adds its weighted value to all points of its box: to the differences between neighbouring
points, at the corners of the box. Their running sums are the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .forest import Forest
from .structure import children

NODES_AT_ONCE = 2**21
"""Nodes of the trees that are passed together, about."""


@dataclass
class _Paths:
    """Paths of equal length from the roots.

    node : int64, shape (n_paths,)
        Entries of the node arrays.
    weight : float64, shape (n_paths,)
    low, high : int64, shape (n_axes, n_paths)
        The points ``low ... high - 1`` of each axis.
    output : int64, shape (n_paths,)
        Of the path's tree.
    """

    node: np.ndarray
    weight: np.ndarray
    low: np.ndarray
    high: np.ndarray
    output: np.ndarray

    def at(self, chosen: np.ndarray) -> _Paths:
        return _Paths(
            self.node[chosen], self.weight[chosen], self.low[:, chosen], self.high[:, chosen],
            self.output[chosen],
        )  # fmt: skip

    @staticmethod
    def joined(parts: Sequence[_Paths]) -> _Paths:
        return _Paths(
            np.concatenate([p.node for p in parts]),
            np.concatenate([p.weight for p in parts]),
            np.concatenate([p.low for p in parts], axis=1),
            np.concatenate([p.high for p in parts], axis=1),
            np.concatenate([p.output for p in parts]),
        )


@dataclass(frozen=True)
class _Line:
    """The points of an axis: n_finite ascending numbers and perhaps, at the end, NaN."""

    feature: int
    points: np.ndarray
    n_finite: int


def weighted_recursion(
    forest: Forest, share: np.ndarray, features: Sequence[int], grid: Sequence[np.ndarray]
) -> np.ndarray:
    """Compute the mean raw prediction over the training rows at every point of a grid.

    Parameters
    ----------
    share : float64, shape (n_nodes,)
        Of the training rows, or of their weight, that came to each node; positive.
    features : sequence of int
        Different features.
    grid : sequence of float64, shape (n_values_j,)
        Values of each feature, in any order. NaN is missing; a categorical feature has its
        category numbers.

    Returns
    -------
    float64, shape (n_outputs, n_values_0, n_values_1, ...)
        With the forest's base. The same on every machine: all sums have a fixed order.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics
    29, 2001, section 8.2.
    """
    lines, places = [], []
    for feature, values in zip(features, grid, strict=True):
        points, place = np.unique(values, return_inverse=True)  # NaN comes last, and once
        lines.append(_Line(feature, points, int(np.count_nonzero(points == points))))
        places.append(place)
    shape = (forest.n_outputs, *(line.points.size + 1 for line in lines))
    steps = np.zeros(shape)
    for trees in _batches(forest):
        _add_trees(steps, forest, share, trees, lines)
    for axis in range(1, steps.ndim):
        steps = np.cumsum(steps, axis=axis)
    mean = steps + forest.base.reshape(-1, *[1] * len(lines))
    for axis, place in enumerate(places, start=1):
        mean = np.take(mean, place, axis=axis)
    return mean


def _batches(forest: Forest) -> Iterator[np.ndarray]:
    """Yield the numbers of the trees that are processed together."""
    batch = forest.offset[1:] // NODES_AT_ONCE
    for number in np.unique(batch):
        yield np.flatnonzero(batch == number)


def _add_trees(
    steps: np.ndarray, forest: Forest, share: np.ndarray, trees: np.ndarray, lines: Sequence[_Line]
) -> None:
    paths = _roots(forest, trees, lines)
    ends = []
    while paths.node.size:
        inner = forest.feature[paths.node] >= 0
        ends.append(paths.at(~inner))
        paths = _one_level_down(forest, share, paths.at(inner), lines)
    _add_leaves(steps, forest, _Paths.joined(ends))


def _roots(forest: Forest, trees: np.ndarray, lines: Sequence[_Line]) -> _Paths:
    """Return a path for each tree and each box of the grid that holds no missing value or nothing
    else."""
    parts = []
    pieces = [[(0, line.n_finite), (line.n_finite, line.points.size)] for line in lines]
    for box in product(*pieces):
        if all(low < high for low, high in box):
            low, high = np.tile(np.array(box, np.int64).T[:, :, None], trees.size)
            output = forest.output[trees].astype(np.int64)
            parts.append(_Paths(forest.offset[trees], np.ones(trees.size), low, high, output))
    return _Paths.joined(parts)


def _one_level_down(
    forest: Forest, share: np.ndarray, paths: _Paths, lines: Sequence[_Line]
) -> _Paths:
    """Follow the paths to the children of inner nodes."""
    feature = forest.feature[paths.node]
    other = np.ones(feature.size, np.bool_)
    below = []
    for axis, line in enumerate(lines):
        here = feature == line.feature
        if here.any():
            other &= ~here
            below += _split_by(forest, paths.at(here), axis, line)
    rest = paths.at(other)
    for child in children(forest, rest.node):
        weight = rest.weight * (share[child] / share[rest.node])
        below.append(_Paths(child, weight, rest.low, rest.high, rest.output))
    return _Paths.joined(below)


def _split_by(forest: Forest, paths: _Paths, axis: int, line: _Line) -> list[_Paths]:
    """Send every point of the boxes left or right, at splits of the axis' own feature."""
    by_categories = forest.category_begin[paths.node] >= 0
    if by_categories.any():
        single = _one_point_each(paths.at(by_categories), axis)
        paths = _Paths.joined([paths.at(~by_categories), single])
    low, high = paths.low[axis], paths.high[axis]
    # The points below the cut go left.
    cut = np.searchsorted(line.points[: line.n_finite], forest.threshold[paths.node], side="right")
    one_way = forest.missing_left[paths.node] != 0
    alone = low >= line.n_finite
    if by_categories.any():
        known = (forest.category_begin[paths.node] >= 0) & ~alone
        one_way[known] = _goes_left(forest, paths.node[known], line.points[low[known]])
        alone |= known
    cut = np.where(alone, np.where(one_way, high, low), cut)
    left, right = children(forest, paths.node)
    parts = []
    for child, begin, end in (
        (left, low, np.minimum(high, cut)),
        (right, np.maximum(low, cut), high),
    ):
        reached = begin < end
        part = _Paths(child, paths.weight, paths.low.copy(), paths.high.copy(), paths.output)
        part.low[axis], part.high[axis] = begin, end
        parts.append(part.at(reached))
    return parts


def _one_point_each(paths: _Paths, axis: int) -> _Paths:
    """Cut boxes along an axis until they are one point wide."""
    width = paths.high[axis] - paths.low[axis]
    chosen = np.repeat(np.arange(width.size), width)
    single = paths.at(chosen)
    first = np.repeat(np.cumsum(width) - width, width)
    single.low[axis] += np.arange(chosen.size) - first
    single.high[axis] = single.low[axis] + 1
    return single


def _goes_left(forest: Forest, node: np.ndarray, category: np.ndarray) -> np.ndarray:
    """Return whether splits by categories send a category left."""
    number = category.astype(np.int64)
    word = forest.categories[forest.category_begin[node] + number // 32]
    return (word >> (number % 32).astype(np.uint32)) & np.uint32(1) != 0


def _add_leaves(steps: np.ndarray, forest: Forest, leaves: _Paths) -> None:
    """Add weighted values to the corners of boxes."""
    flat = steps.reshape(-1)
    stride = np.array(steps.strides) // steps.itemsize
    for corner in product((False, True), repeat=len(leaves.low)):
        at = leaves.output * stride[0]
        for axis, is_high in enumerate(corner):
            at += (leaves.high if is_high else leaves.low)[axis] * stride[axis + 1]
        sign = -1.0 if sum(corner) % 2 else 1.0
        for column in range(forest.width):
            value = sign * leaves.weight * forest.value[leaves.node, column]
            flat += np.bincount(at + column * stride[0], value, flat.size)
