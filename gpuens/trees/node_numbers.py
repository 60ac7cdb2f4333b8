"""From the integers of grown trees back to real numbers: values, gains, impurities, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from ..devices.placement import to_numpy
from ..forest.structure import children, levels
from ..kernels.cart.grow_cart import add_children_impurity
from ..kernels.cart.problem import (
    ABSOLUTE_ERROR,
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    POISSON,
    WEIGHT_MASK,
    GrownCart,
)
from .criteria import Problem


@dataclass(frozen=True)
class NodeNumbers:
    """Real numbers of grown nodes (see ``forest.Forest``)."""

    value: np.ndarray
    gain: np.ndarray
    impurity: np.ndarray
    n_samples: np.ndarray
    cover: np.ndarray


def node_numbers(
    problem: Problem, grown: GrownCart, records: Any, is_monotone: bool = False
) -> NodeNumbers:
    """What a forest says of its nodes.

    Parameters
    ----------
    problem : Problem
    grown : GrownCart
    records : uint64, shape (m,)
        As growth left them; on any device.
    is_monotone : bool
        Whether any feature is constrained.
    """
    statistics = grown.statistics
    if problem.n_classes:
        packed = statistics[:, : problem.n_classes[0]].sum(axis=1)
    else:
        packed = statistics[:, 0]
    n_samples = (packed >> COUNT_SHIFT).astype(np.int32)
    weight = (packed & WEIGHT_MASK).astype(np.float64)
    cover = weight / problem.weight_scale
    gain = grown.gain / problem.gain_unit / problem.weight_scale
    if problem.n_classes:
        value = (statistics & WEIGHT_MASK) / weight[:, None]
        return NodeNumbers(value, gain, _class_impurity(problem, value), n_samples, cover)
    value = problem.centre + statistics[:, 1:] / weight[:, None] / problem.value_scale
    rows = _SampledRows(problem, grown, to_numpy(records))
    if problem.criterion == ABSOLUTE_ERROR:
        value = rows.medians(lower=is_monotone)
    elif problem.is_coarse:
        rows.correct(value, weight)
    error = rows.leaf_errors(value)
    add_children_impurity(grown.offset, grown.left, grown.right, gain, error)
    return NodeNumbers(value, gain, np.maximum(error / cover, 0.0), n_samples, cover)


def _class_impurity(problem: Problem, share: np.ndarray) -> np.ndarray:
    """Impurity of class shares, averaged over the outputs."""
    total = np.zeros(share.shape[0])
    first = 0
    for n in problem.n_classes:
        p = share[:, first : first + n]
        first += n
        if problem.criterion == GINI:
            total += 1.0 - (p * p).sum(axis=1)
        elif problem.criterion == ENTROPY:
            total -= xlogy(p, p).sum(axis=1) / math.log(2.0)
        else:
            total += 1.0 - p.max(axis=1)
    return np.maximum(total / problem.n_outputs, 0.0)


class _SampledRows:
    """The rows of a batch of trees in the order of their records."""

    def __init__(self, problem: Problem, grown: GrownCart, records: np.ndarray) -> None:
        rows = (records & np.uint64(0xFFFFFFFF)).astype(np.int64)
        self.problem = problem
        self.grown = grown
        self.y = problem.y[:, rows]
        self.weight = problem.weight[rows] * (records >> np.uint64(32)).astype(np.float64)

    def correct(self, value: np.ndarray, weight: np.ndarray) -> None:
        """Add to means, in place, what fixed point has rounded off.

        ``weight`` is that of the nodes. Those of leaves are corrected by their rows, the others
        follow from their children.
        """
        grown, (leaves, begin, end) = self.grown, self._leaves()
        total = np.add.reduceat(self.weight, begin)
        for o in range(self.y.shape[0]):
            rest = self.weight * (self.y[o] - np.repeat(value[leaves, o], end - begin))
            value[leaves, o] += np.add.reduceat(rest, begin) / total
        for level in reversed(list(levels(grown))):
            inner = level[grown.feature[level] >= 0]
            left, right = children(grown, inner)
            share = (weight[left] / weight[inner])[:, None]
            value[inner] = value[right] + share * (value[left] - value[right])

    def _leaves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The leaves in the order of their rows, and where these begin and end."""
        leaves = np.flatnonzero(self.grown.feature < 0)
        leaves = leaves[np.argsort(self.grown.begin[leaves], kind="stable")]
        return leaves, self.grown.begin[leaves], self.grown.end[leaves]

    def leaf_errors(self, value: np.ndarray) -> np.ndarray:
        """Weighted impurity of the leaves, averaged over the outputs; 0 at inner nodes."""
        leaves, begin, end = self._leaves()
        total = np.zeros(leaves.size)
        for o in range(self.y.shape[0]):
            predicted = np.repeat(value[leaves, o], end - begin)
            total += np.add.reduceat(self._errors(self.y[o], predicted), begin)
        error = np.zeros(self.grown.feature.size)
        error[leaves] = total / self.problem.n_outputs
        return error

    def _errors(self, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        if self.problem.criterion == ABSOLUTE_ERROR:
            return self.weight * np.abs(y - predicted)
        if self.problem.criterion == POISSON:
            ratio = y / np.where(predicted > 0, predicted, 1.0)
            return self.weight * (xlogy(y, np.where(y > 0, ratio, 1.0)) - y + predicted)
        return self.weight * (y - predicted) ** 2

    def medians(self, lower: bool) -> np.ndarray:
        """Weighted median of every node: the mean of the lower and the upper one, or the lower
        one, which is what growth compares where there are monotone constraints."""
        grown = self.grown
        result = np.empty((grown.feature.size, self.y.shape[0]))
        for level in levels(grown):
            begin, end = grown.begin[level], grown.end[level]
            order = np.argsort(begin)
            level, begin, end = level[order], begin[order], end[order]
            place = np.repeat(begin - np.cumsum(end - begin) + (end - begin), end - begin)
            at = np.arange(place.size) + place
            node = np.repeat(np.arange(level.size), end - begin)
            for o in range(self.y.shape[0]):
                result[level, o] = _grouped_medians(self.y[o, at], self.weight[at], node, lower)
        return result


def _grouped_medians(
    y: np.ndarray, weight: np.ndarray, group: np.ndarray, lower_only: bool
) -> np.ndarray:
    """Median of each group; ``group`` is ascending from 0 without gaps."""
    order = np.lexsort((y, group))
    y, weight = y[order], weight[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    total = np.add.reduceat(weight, first)
    before = np.concatenate([[0.0], np.cumsum(weight)])[first]
    upto = np.cumsum(weight) - before[group]
    half = 0.5 * total[group]
    n = y.size
    at = np.arange(n)
    lower = np.minimum.reduceat(np.where(upto >= half, at, n), first)
    if lower_only:
        return y[lower]
    upper = np.minimum.reduceat(np.where(upto > half, at, n), first)
    upper = np.where(upper < n, upper, lower)
    return 0.5 * y[lower] + 0.5 * y[upper]
