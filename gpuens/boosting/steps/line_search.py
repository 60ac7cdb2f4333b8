"""The line search: the step along the trees of a round that lowers the loss most."""

from __future__ import annotations

from math import fsum

import numpy as np

from ...kernels.leaves.newton_steps import leaf_sums
from ...kernels.runtime.collective import rows_of_all
from ...kernels.statistics.quantise import fixed_point_scales
from ...losses import Loss
from ...losses.leaves import of_leaves
from ...numerics.minimise import minimise
from ..round_data import OutputTree, Round, Training

LONGEST_STEP = 16.0
"""Limit of the line search where the loss has no minimum, as for perfectly separated classes."""


def searched(training: Training, round_: Round, trees: list[OutputTree]) -> list[OutputTree]:
    """Return the trees of all outputs with the factors on their values that minimise the loss
    (Friedman 2001, eq. 12), times the learning rate.

    Only the rows of the trees' samples count. Trees of coupled outputs, as the classes of a
    multinomial model, share one factor; others have their own.
    """
    loss, rate = round_.loss, round_.rate
    if loss.coupled:
        factors = [rate * _find_step(training, loss, trees)] * len(trees)
    else:
        factors = [rate * _find_step(training, loss, [tree]) for tree in trees]
    return [tree._replace(factor=factor) for tree, factor in zip(trees, factors, strict=True)]


def _find_step(training: Training, loss: Loss, grown: list[OutputTree]) -> float:
    rows, device = training.rows, training.device
    xp, raw = device.xp, rows.raw
    g, h = (xp.empty(raw.shape[1], dtype=xp.float32) for _ in range(2))
    moved = raw.copy()
    added = {}
    for tree in grown:
        added[tree.output] = of_leaves(tree.values.value, tree.leaf, device)

    def slope(step: float) -> tuple[float, float]:
        for k, direction in added.items():
            moved[k] = raw[k] + step * direction
        shared = loss.shared(rows.y, moved, device)
        slopes, curvatures = [], []
        for tree in grown:
            k, leaf, value = tree.output, tree.leaf, tree.values.value
            target = loss.targets(rows.y, k, device)
            totals = loss.gradients(k, target, moved[k], shared, rows.weight, g, h)
            if not all(total < np.inf for total in totals):
                return np.inf, 0.0
            # Sums by leaf are exact in fixed point, so that the order of the rows has no effect.
            scales = fixed_point_scales(totals, rows_of_all(raw.shape[1], rows.workers))
            sums = leaf_sums(leaf, g, h, scales, value.size, rows.workers)
            slopes += (value * (sums[:, 0] / scales.g)).tolist()
            curvatures += (value * value * (sums[:, 1] / scales.h)).tolist()
        return fsum(slopes), fsum(curvatures) if loss.has_hessian else 0.0

    return max(minimise(slope, LONGEST_STEP), 0.0) or 1.0
