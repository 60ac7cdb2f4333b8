"""What the leaves of a boosted tree add: Newton steps, quantiles of residuals, Huber's step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .devices import Device
from .kernels.compilation import kernel
from .kernels.dtypes import Totals
from .kernels.gradients import gradients
from .kernels.leaf_quantiles import leaf_quantiles
from .kernels.leaf_sums import add_children, fixed_point_scales, leaf_sums
from .kernels.scalars.gain import newton_value
from .kernels.scalars.losses import Huber
from .kernels.scalars.primitives import vectorise

_newton_value = vectorise(newton_value)


@dataclass(frozen=True)
class LeafRows:
    """A grown tree and the rows that it was grown on.

    left, right : int32, shape (n_nodes,), NumPy
        Children; -1 at a leaf. Children have higher numbers than their parents.
    leaf : int32, shape (n_rows,), on the device
        The leaf of every row, negative outside of the tree's sample.
    g, h : float32, shape (n_rows,), on the device
        Gradients and hessians, times the weights.
    totals : Totals
        Of these.
    target, raw : float64, shape (n_rows,), on the device
    weight : float64, shape (n_rows,) or (0,), on the device
    whole_weight : int64, shape (n_rows,) or (0,), on the device
        See ``whole_weights``.
    l2, min_sum_hessian : float
    device : Device
    """

    left: np.ndarray
    right: np.ndarray
    leaf: Any
    g: Any
    h: Any
    totals: Totals
    target: Any
    raw: Any
    weight: Any
    whole_weight: Any
    l2: float
    min_sum_hessian: float
    device: Device

    @property
    def n_nodes(self) -> int:
        return self.left.size


def node_sums(rows: LeafRows, g: Any, h: Any, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
    """Sums of statistics over the rows of each node, exact to 50 bits; float64, NumPy."""
    scales = fixed_point_scales(totals, g.shape[0])
    sums = leaf_sums(rows.leaf, g, h, scales, rows.n_nodes)
    add_children(rows.left, rows.right, sums)
    return sums[:, 0] / scales.g, sums[:, 1] / scales.h


def newton_steps(rows: LeafRows, g: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The value of each node that minimises the loss's second-order model, from its sums.

    The hessian of a leaf counts at least ``min_sum_hessian``: its integer estimate passed that
    test, and a leaf of almost certain rows must not take an endless step.
    """
    return _newton_value(g, np.maximum(h, rows.min_sum_hessian), rows.l2)


def residual_quantiles(rows: LeafRows, quantile: float, cover: np.ndarray) -> np.ndarray:
    """The quantile of ``target - raw`` in each leaf, which minimises the quantile loss there.

    Inner nodes, which no prediction reaches, get the mean of their children by ``cover``.
    """
    residual = rows.target - rows.raw
    value = leaf_quantiles(rows.leaf, residual, rows.whole_weight, quantile, rows.n_nodes)
    _average_children(rows.left, rows.right, cover, value)
    return value


def huber_steps(rows: LeafRows, delta: float, cover: np.ndarray) -> np.ndarray:
    """The median of the residuals in each leaf, and one step of mean clipped residuals from it
    (Friedman 2001, algorithm 4): ``median + mean(clip(residual - median, -delta, delta))``.

    Sample weights count in both. ``l2`` does not.
    """
    value = residual_quantiles(rows, 0.5, cover)
    moved = rows.raw + rows.device.asarray(value)[rows.device.xp.maximum(rows.leaf, 0)]
    g, h = rows.device.xp.empty_like(rows.g), rows.device.xp.empty_like(rows.h)
    nothing = rows.raw[:0]
    totals = gradients(Huber(delta), rows.target, moved, nothing, rows.weight, g, h)
    sum_g, sum_h = node_sums(rows, g, h, totals)
    at_leaves = rows.left < 0
    step = np.zeros_like(value)
    step[at_leaves] = _newton_value(sum_g[at_leaves], sum_h[at_leaves], 0.0)
    value = np.where(at_leaves, value + step, value)
    _average_children(rows.left, rows.right, cover, value)
    return value


@kernel
def _average_children(left, right, cover, value):
    """Fill in the inner nodes; children have higher numbers than their parents."""
    for node in range(left.size - 1, -1, -1):
        if left[node] >= 0:
            a, b = left[node], right[node]
            share = cover[a] / (cover[a] + cover[b]) if cover[a] + cover[b] > 0.0 else 0.5
            value[node] = share * value[a] + (1.0 - share) * value[b]
