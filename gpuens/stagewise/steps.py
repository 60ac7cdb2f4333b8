"""Negative gradients, and line search along base learners (Friedman 2001, algorithm 1), in
float64."""

from __future__ import annotations

import functools
from math import fsum
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import Totals
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import formula
from ..kernels.statistics.gradients import row_values
from ..kernels.statistics.reference.gradients import gradient_of_rows
from ..losses import ArrayLoss, Loss
from ..losses.base import RegressionLoss
from ..losses.names import OF_POSITIVE_NUMBERS
from ..numerics.minimise import minimise
from ..numerics.weighted import ordered_sum

LARGEST_CHANGE = 16.0
"""Largest change of a raw prediction where the loss can fall for ever, as it does once all
classes are separated."""
UNLIMITED = 1e30


def row_gradients(
    loss: Loss, k: int, target: Array, raw: Array, shared: Array
) -> tuple[Array, Array]:
    """Return gradient and hessian of every row with respect to output k, without weights, from
    ``loss.targets(y, k, device)``, the raw predictions of output k, and ``loss.shared(y, raw,
    device)`` of those of all outputs."""
    if isinstance(loss, ArrayLoss):
        return shared[0, k], shared[1, k]
    of_row = loss.formula(k)
    cls: Any = type(of_row)
    if formulas.is_custom(cls):  # it may have branches, so arrays cannot run it
        g, h = (row_values(part(), target, raw, shared) for part in _parts_of(cls))
        return g, h
    f = raw - shared if shared.shape[0] else raw
    with np.errstate(over="ignore", invalid="ignore"):
        g, h = gradient_of_rows(of_row)(target, f, of_row.parameter)
    return g, h + 0.0 * raw


@functools.lru_cache(maxsize=64)
def _parts_of(cls: Any) -> tuple[type, type]:
    """Return gradient and hessian of a custom loss, each as the value of a formula."""
    both = formulas.formulas_of(cls).gradient

    @formula
    def slope(y, f, parameter):
        return both(y, f, parameter)[0]

    @formula
    def curvature(y, f, parameter):
        return both(y, f, parameter)[1]

    return formulas.custom(slope, None), formulas.custom(curvature, None)


def negative_gradients(loss: Loss, y: Array, raw: Array, where: str, device: Device) -> Array:
    """Return the targets of the base learners of a round, float64 (n_outputs, n_rows). Raises a
    ValueError, which names the round, if some are not finite."""
    shared = loss.shared(y, raw, device)
    residuals = device.xp.empty(raw.shape)
    for k in range(loss.n_outputs):
        target = loss.targets(y, k, device)
        g, h = row_gradients(loss, k, target, raw[k], shared)
        finite = bool((abs(g) < np.inf).all()) and bool(((h >= 0) & (h < np.inf)).all())
        largest = 1.0 if finite else np.inf
        loss.check_gradients(Totals(largest, largest, 1.0, 1.0), g, h, target, raw[k], where)
        residuals[k] = -g
    return residuals


def find_steps(
    loss: Loss, y: Array, raw: Array, directions: Array, weight: Array, device: Device
) -> list[float]:
    """Return the factor on the predictions ``directions`` (n_outputs, n_rows) of each base learner
    that makes the loss least: negative where it falls in the opposite direction, 0 where it falls
    in none.

    Outputs that depend on each other, as the classes of a multinomial model do, have a factor in
    common; others have their own. It is exact to nine digits; no raw prediction changes by more
    than ``LARGEST_CHANGE`` where the loss can fall for ever."""
    outputs = list(range(loss.n_outputs))
    if loss.coupled:
        return [_find_step(loss, y, raw, directions, weight, outputs, device)] * len(outputs)
    return [_find_step(loss, y, raw, directions, weight, [k], device) for k in outputs]


def _find_step(
    loss: Loss,
    y: Array,
    raw: Array,
    directions: Array,
    weight: Array,
    outputs: list[int],
    device: Device,
) -> float:
    largest = max(float(abs(directions[k]).max()) for k in outputs)
    if largest == 0.0:
        return 0.0
    # Of piecewise linear losses the hessian 1 says nothing about the way to the minimum.
    curved = loss.has_hessian and not loss.exact_leaves
    moved = raw.copy()
    targets = {k: loss.targets(y, k, device) for k in outputs}

    def slope(step: float) -> tuple[float, float]:
        for k in outputs:
            moved[k] = raw[k] + step * directions[k]
        shared = loss.shared(y, moved, device)
        slopes, curvatures = [], []
        for k in outputs:
            along = directions[k] if weight.size == 0 else directions[k] * weight
            g, h = row_gradients(loss, k, targets[k], moved[k], shared)
            slopes.append(ordered_sum(g * along, device))
            curvatures.append(ordered_sum(h * directions[k] * along, device) if curved else 0.0)
        total = fsum(slopes) if all(map(np.isfinite, slopes)) else np.inf
        curvature = fsum(curvatures) if all(map(np.isfinite, curvatures)) else 0.0
        return total, curvature

    with np.errstate(over="ignore", invalid="ignore"):
        return minimise(slope, _limit(loss) / largest)


def _limit(loss: Loss) -> float:
    """Return the largest change of a raw prediction in a round."""
    of_numbers = isinstance(loss, RegressionLoss) and not isinstance(loss, OF_POSITIVE_NUMBERS)
    return UNLIMITED if of_numbers or getattr(loss, "of_classes", True) is False else LARGEST_CHANGE
