"""Leaf values that are not Newton steps: quantiles of the residuals, Huber's step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..devices.placement import Device
from ..kernels.growth.grow import GrownTrees
from ..kernels.growth.params import GrowthParams
from ..kernels.leaves.inner_nodes import average_children
from ..kernels.leaves.newton_steps import add_children, leaf_sums
from ..kernels.leaves.quantiles import leaf_quantiles
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers, rows_of_all
from ..kernels.runtime.dtypes import Totals
from ..kernels.scalars.gain import newton_value
from ..kernels.scalars.lazy_jit import lazy_property
from ..kernels.scalars.losses import Given, Huber
from ..kernels.scalars.primitives import vectorise
from ..kernels.statistics.gradients import gradients, row_values
from ..kernels.statistics.quantise import fixed_point_scales

_newton_value = vectorise(newton_value)


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

    def rows_of(self, i: int) -> LeafRows:
        """Return tree i and its rows."""
        return LeafRows(
            self.trees, i, self.g[i], self.h[i], self.totals[i], lambda: self.read_target(i),
            self.raw[i], self.weight, self.whole_weight, self.device, self.workers,
        )  # fmt: skip


@dataclass(frozen=True)
class LeafRows:
    """A tree of a ``LeafBatch``, whose attributes these are."""

    trees: GrownTrees
    i: int
    g: Array
    h: Array
    totals: Totals
    read_target: Callable[[], Array]
    raw: Array
    weight: Array
    whole_weight: Array
    device: Device
    workers: Workers

    @property
    def left(self) -> np.ndarray:
        """Children, int32 of shape (n_nodes,); -1 at a leaf. Children have higher numbers than
        their parents."""
        return self.trees.left[self._nodes]

    @property
    def right(self) -> np.ndarray:
        return self.trees.right[self._nodes]

    @property
    def leaf(self) -> Array:
        """The leaf of every row, of shape (n_rows,) on the device (see ``GrownTrees``)."""
        return self.trees.leaf[self.i]

    @property
    def n_nodes(self) -> int:
        return self._nodes.stop - self._nodes.start

    @lazy_property
    def target(self) -> Array:
        return self.read_target()

    @property
    def _nodes(self) -> slice:
        return slice(int(self.trees.offset[self.i]), int(self.trees.offset[self.i + 1]))


def of_leaves(value: np.ndarray, leaf: Array, device: Device) -> Array:
    """Return the value of each row's leaf, and the first one of rows that are in none."""
    is_inside = (leaf >= 0) & (leaf < value.size)
    return device.asarray(value)[device.xp.where(is_inside, leaf, leaf.dtype.type(0))]


def node_sums(rows: LeafRows, g: Array, h: Array, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
    """Sum statistics over the rows of each node, exact to 50 bits; float64, NumPy."""
    scales = fixed_point_scales(totals, rows_of_all(g.shape[0], rows.workers))
    sums = leaf_sums(rows.leaf, g, h, scales, rows.n_nodes, rows.workers)
    add_children(rows.left, rows.right, sums)
    return sums[:, 0] / scales.g, sums[:, 1] / scales.h


def residual_quantiles(rows: LeafRows, quantile: float, cover: np.ndarray) -> np.ndarray:
    """Compute the quantile of ``target - raw`` in each leaf, which minimises the quantile loss.

    Inner nodes, which no prediction reaches, get the mean of their children by ``cover``.
    """
    residual = rows.target - rows.raw
    value = leaf_quantiles(
        rows.leaf, residual, rows.whole_weight, quantile, rows.n_nodes, rows.workers
    )
    average_children(rows.left, rows.right, cover, value)
    return value


def huber_steps(rows: LeafRows, delta: float, cover: np.ndarray) -> np.ndarray:
    """Compute ``median + mean(clip(residual - median, -delta, delta))`` in each leaf (Friedman
    2001, algorithm 4).

    Both the median and the mean are weighted; ``l2`` does not apply. The median may be a worse
    place than zero. Where the loss of a leaf's rows would rise, its value is the step from zero,
    ``mean(clip(residual, -delta, delta))``, which lowers it.
    """
    value = residual_quantiles(rows, 0.5, cover)
    moved = rows.raw + of_leaves(value, rows.leaf, rows.device)
    g, h = rows.device.xp.empty_like(rows.g), rows.device.xp.empty_like(rows.h)
    nothing = rows.raw[:0]
    totals = gradients(Huber(delta), rows.target, moved, nothing, rows.weight, g, h, rows.workers)
    sum_g, sum_h = node_sums(rows, g, h, totals)
    at_leaves = rows.left < 0
    step = np.zeros_like(value)
    step[at_leaves] = _newton_value(sum_g[at_leaves], sum_h[at_leaves], 0.0)
    value = np.where(at_leaves, value + step, value)
    rises = at_leaves & (_huber_changes(rows, delta, value) > 0.0)
    if rises.any():
        sum_g, sum_h = node_sums(rows, rows.g, rows.h, rows.totals)
        value[rises] = _newton_value(sum_g[rises], sum_h[rises], 0.0)
    average_children(rows.left, rows.right, cover, value)
    return value


def _huber_changes(rows: LeafRows, delta: float, value: np.ndarray) -> np.ndarray:
    """Return by how much the values of leaves would change the loss of their rows."""
    moved = rows.raw + of_leaves(value, rows.leaf, rows.device)
    nothing = rows.raw[:0]
    before, after = (row_values(Huber(delta), rows.target, f, nothing) for f in (rows.raw, moved))
    change, ones = rows.device.xp.empty_like(rows.g), rows.device.xp.empty_like(rows.h)
    one = rows.device.xp.ones_like(rows.raw)
    totals = gradients(
        Given(), after - before, one, nothing, rows.weight, change, ones, rows.workers
    )
    return node_sums(rows, change, ones, totals)[0]
