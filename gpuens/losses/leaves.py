"""Leaf values that are not Newton steps: quantiles of the residuals, Huber's step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.boosting.many_models import (
    gradients_of_models,
    leaf_quantiles_of_models,
    leaf_sums_of_models,
    values_of_models,
)
from ..kernels.growth.grow import GrownTrees
from ..kernels.growth.params import GrowthParams
from ..kernels.leaves.inner_nodes import average_children
from ..kernels.leaves.newton_steps import add_children
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, rows_of_all
from ..kernels.runtime.dtypes import Totals
from ..kernels.scalars.gain import newton_value
from ..kernels.scalars.lazy_jit import lazy_property
from ..kernels.scalars.losses import Given, Huber
from ..kernels.scalars.primitives import vectorise
from ..kernels.statistics.gradients import NO_CLASS, gradients
from ..kernels.statistics.quantise import fixed_point_scales

_newton_value = vectorise(newton_value)

LARGE_EXPONENT = 32
"""Exponent of 2 up to which thresholds of Huber's loss are not scaled: squares fit float32."""
LARGEST = 1e38
"""A number within float32."""


@dataclass(frozen=True)
class LeafBatch:
    """Grown trees and the rows that they were grown on.

    Parameters
    ----------
    trees : GrownTrees
    g, h : float32, shape (n_trees, n_rows), on the device
        Gradients and hessians, times the weights.
    totals : sequence of Totals
        Of these, by tree.
    raw : float64, shape (n_trees, n_rows), on the device
    read_target : callable
        Returns the target of a tree, float64 of shape (n_rows,), on the device.
    weight : float64, shape (n_rows,) or (0,), on the device
    whole_weight : int64, shape (n_rows,) or (0,), on the device
        See ``whole_weights``.
    params : GrowthParams
        With ``l2`` and ``min_sum_hessian``.
    learning_rate : float
        Of the round.
    device : Device
    workers : Workers
    """

    trees: GrownTrees
    g: Array
    h: Array
    totals: Sequence[Totals]
    read_target: Callable[[int], Array]
    raw: Array
    weight: Array
    whole_weight: Array
    params: GrowthParams
    learning_rate: float
    device: Device
    workers: Workers

    def lines(self, trees: slice) -> LeafLines:
        """Return some of the trees, and their rows; of several lines of one tree ``trees`` is that
        of the line."""
        offset, n_trees = self.trees.offset, len(self.g[trees])
        nodes = [slice(int(offset[i]), int(offset[i + 1])) for i in range(trees.start, trees.stop)]
        return LeafLines(
            [self.trees.left[own] for own in nodes], [self.trees.right[own] for own in nodes],
            self.trees.leaf[trees], self.g[trees], self.h[trees], self.totals[trees],
            [self.g.shape[1]] * n_trees, lambda: self._target(trees), self.raw[trees], self.weight,
            self.whole_weight, self.device, self.workers,
        )  # fmt: skip

    def _target(self, trees: slice) -> Array:
        targets = [self.read_target(i) for i in range(trees.start, trees.stop)]
        is_common = all(own is targets[0] for own in targets)
        return targets[0][None] if is_common else self.device.xp.stack(targets)


@dataclass(frozen=True)
class LeafLines:
    """Trees, of one model or several, and the rows that they were grown on; a line a tree.

    Parameters
    ----------
    left, right : sequence of int32, shape (n_nodes,), NumPy
        Children; -1 at a leaf. Children have higher numbers than their parents.
    leaf : int32 or on CUDA uint16, shape (n_trees, n), on the device
        The leaf of every row (see ``GrownTrees``); that of no row behind those of a model.
    g, h : float32, shape (n_trees, n), on the device
    totals : sequence of Totals
    n_rows : sequence of int
        Of each tree, at most n.
    read_target : callable
        Returns float64 of shape (n_trees, n), or (1, n), if it is that of all; on the device.
    raw : float64, shape (n_trees, n), on the device
    weight, whole_weight : float64 and int64, shape (n,), (n_trees, n) or (0,), on the device
    device : Device
    workers : Workers
    """

    left: Sequence[np.ndarray]
    right: Sequence[np.ndarray]
    leaf: Array
    g: Array
    h: Array
    totals: Sequence[Totals]
    n_rows: Sequence[int]
    read_target: Callable[[], Array]
    raw: Array
    weight: Array
    whole_weight: Array
    device: Device
    workers: Workers

    @property
    def n_nodes(self) -> int:
        """The nodes of the largest tree."""
        return max(own.size for own in self.left)

    @lazy_property
    def target(self) -> Array:
        return self.read_target()

    @lazy_property
    def cover(self) -> list[np.ndarray]:
        """The sums of the hessians of the nodes of each tree."""
        return [hessian for _, hessian in node_sums(self, self.g, self.h, self.totals)]

    def of_nodes(self, values: Sequence[np.ndarray]) -> Array:
        """Return the value of each row's leaf, that of the first node where it is in none."""
        width, xp = self.n_nodes, self.device.xp
        table = np.zeros((len(values), width))
        for line, own in zip(table, values, strict=True):
            line[: own.size] = own
        is_inside = (self.leaf >= 0) & (self.leaf < width)
        leaf = xp.where(is_inside, self.leaf, self.leaf.dtype.type(0))
        first = self.device.asarray(np.arange(len(values))[:, None] * width)
        return self.device.asarray(table.reshape(-1))[leaf + first]


def of_leaves(value: np.ndarray, leaf: Array, device: Device) -> Array:
    """Return the value of each row's leaf, and the first one of rows that are in none."""
    is_inside = (leaf >= 0) & (leaf < value.size)
    return device.asarray(value)[device.xp.where(is_inside, leaf, leaf.dtype.type(0))]


def node_sums(
    lines: LeafLines, g: Array, h: Array, totals: Sequence[Totals]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sum statistics over the rows of each node, exact to 50 bits; float64, NumPy, by tree."""
    rows = [rows_of_all(n, lines.workers) for n in lines.n_rows]
    scales = [fixed_point_scales(own, n) for own, n in zip(totals, rows, strict=True)]
    found = leaf_sums_of_models(lines.leaf, g, h, scales, lines.n_nodes, lines.workers)
    pairs = []
    for left, right, own, sums in zip(lines.left, lines.right, scales, found, strict=True):
        of_tree = sums[: left.size]
        add_children(left, right, of_tree)
        pairs.append((of_tree[:, 0] / own.g, of_tree[:, 1] / own.h))
    return pairs


def residual_quantiles(lines: LeafLines, quantiles: Sequence[float]) -> list[np.ndarray]:
    """Compute the quantile of ``target - raw`` in the leaves of each tree, which minimises the
    quantile loss.

    Inner nodes, which no prediction reaches, get the mean of their children by ``cover``.
    """
    residual = lines.target - lines.raw
    found = leaf_quantiles_of_models(
        lines.leaf, residual, lines.whole_weight, quantiles, lines.n_nodes, lines.workers
    )
    values = [own[: left.size] for own, left in zip(found, lines.left, strict=True)]
    average_inner_nodes(lines, values)
    return values


def average_inner_nodes(lines: LeafLines, values: Sequence[np.ndarray]) -> None:
    """Give the inner nodes of each tree the means of their children by cover, in place."""
    for of_tree in zip(lines.left, lines.right, lines.cover, values, strict=True):
        average_children(*of_tree)


def huber_steps(lines: LeafLines, deltas: Sequence[float]) -> list[np.ndarray]:
    """Compute ``median + mean(clip(residual - median, -delta, delta))`` in the leaves of each tree
    (Friedman 2001, algorithm 4).

    Both the median and the mean are weighted; ``l2`` does not apply. The median may be a worse
    place than zero. Where the loss of a leaf's rows would rise, its value is the step from zero,
    ``mean(clip(residual, -delta, delta))``, which lowers it.
    """
    medians = residual_quantiles(lines, [0.5] * len(deltas))
    formulas = [Huber(delta) for delta in deltas]
    values = []
    moved = lines.raw + lines.of_nodes(medians)
    for left, median, step in zip(
        lines.left, medians, _steps(lines, formulas, lines.target, moved), strict=True
    ):
        at_leaves = left < 0
        values.append(np.where(at_leaves, median + np.where(at_leaves, step, 0.0), median))
    changes = _huber_changes(lines, formulas, values)
    rises = [(left < 0) & (own > 0.0) for left, own in zip(lines.left, changes, strict=True)]
    if any(own.any() for own in rises):
        sums = node_sums(lines, lines.g, lines.h, lines.totals)
        for value, own, (sum_g, sum_h) in zip(values, rises, sums, strict=True):
            value[own] = _newton_value(sum_g[own], sum_h[own], 0.0)
    average_inner_nodes(lines, values)
    return values


def _steps(
    lines: LeafLines, formulas: Sequence[Any], target: Array, raw: Array
) -> list[np.ndarray]:
    """Return the Newton steps from other raw predictions, without a penalty; 0 in inner nodes."""
    steps = []
    for left, (sum_g, sum_h) in zip(
        lines.left, _sums_of_gradients(lines, formulas, target, raw), strict=True
    ):
        step, at_leaves = np.zeros(left.size), left < 0
        step[at_leaves] = _newton_value(sum_g[at_leaves], sum_h[at_leaves], 0.0)
        steps.append(step)
    return steps


def _sums_of_gradients(
    lines: LeafLines, formulas: Sequence[Any], target: Array, raw: Array
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the sums of gradients and hessians, times the weights, over the rows of the nodes."""
    g, h = lines.device.xp.empty_like(lines.g), lines.device.xp.empty_like(lines.h)
    nothing = lines.raw[0, :0]
    totals: Sequence[Totals]
    if lines.workers is ONE_WORKER:
        y = target if target.shape[0] == len(formulas) else target[0]
        totals = gradients_of_models(
            formulas, y, raw, nothing, lines.weight, g, h, NO_CLASS, lines.n_rows
        )
    else:
        totals = [
            gradients(own, target[i % target.shape[0]], raw[i], nothing, lines.weight, g[i], h[i],
                      lines.workers)
            for i, own in enumerate(formulas)
        ]  # fmt: skip
    return node_sums(lines, g, h, totals)


def _huber_changes(
    lines: LeafLines, formulas: Sequence[Any], values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return by how much the values of leaves would change the loss of their rows."""
    moved, nothing = lines.raw + lines.of_nodes(values), lines.raw[0, :0]
    target = lines.target if lines.target.shape[0] == len(formulas) else lines.target[0]
    before, after = (
        values_of_models(formulas, target, f, nothing, NO_CLASS, len(formulas))
        for f in (lines.raw, moved)
    )
    # Squares of large residuals, and those times large weights, are beyond float32, in which they
    # are added up. Only signs matter: multiples by a power of two have the same, and so have the
    # largest that fit.
    xp, exponents = lines.device.xp, np.frexp([formula.parameter for formula in formulas])[1]
    unit = lines.device.asarray(np.ldexp(1.0, -2 * np.maximum(exponents - LARGE_EXPONENT, 0)))
    largest = LARGEST / xp.maximum(lines.weight, 1.0) if lines.weight.size else LARGEST
    change = xp.clip((after - before) * unit[:, None], -largest, largest)
    one, given = xp.ones_like(lines.raw), [Given()] * len(formulas)
    return [change for change, _ in _sums_of_gradients(lines, given, change, one)]
