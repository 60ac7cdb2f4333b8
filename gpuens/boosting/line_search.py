"""Line search: how far along the trees of a round the loss is least (Friedman 2001, eq. 12)."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.growth.grow import GrownTrees
from ..kernels.leaves.leaf_sums import leaf_sums
from ..kernels.runtime.dtypes import NodeValues
from ..kernels.statistics.scaling import fixed_point_scales
from ..losses import Loss
from ..numerics.minimise import minimise

LONGEST_STEP = 16.0
"""Where the loss falls for ever, as it does once all classes are told apart."""


@dataclass(frozen=True)
class OutputTree:
    """Tree ``i`` of a batch, for one output.

    values : NodeValues
        Of its nodes, without shrinkage.
    """

    trees: GrownTrees
    i: int
    output: int
    values: NodeValues


def find_steps(
    loss: Loss, y: Any, raw: Any, weight: Any, grown: list[OutputTree], device: Device
) -> list[float]:
    """The factor on each tree's values that makes the loss least.

    Over the rows of the trees' samples. The trees of outputs that depend on each other, as the
    classes of a multinomial model do, have a factor in common; others have their own. Gradients
    are summed in fixed point by leaf, which gives the slope along the trees in any order of rows.

    Parameters
    ----------
    loss : Loss
        Of the round.
    y, raw, weight
        As in ``TrainingRows``.
    grown : list of OutputTree
        In the order of the outputs.
    """
    if loss.coupled:
        return [_find_step(loss, y, raw, weight, grown, device)] * len(grown)
    return [_find_step(loss, y, raw, weight, [tree], device) for tree in grown]


def _find_step(
    loss: Loss, y: Any, raw: Any, weight: Any, grown: list[OutputTree], device: Device
) -> float:
    xp = device.xp
    g, h = (xp.empty(raw.shape[1], dtype=np.float32) for _ in range(2))
    moved = raw.copy()
    added = {}
    for tree in grown:
        leaf = tree.trees.leaf[tree.i]
        added[tree.output] = device.asarray(tree.values.value)[xp.maximum(leaf, 0)]

    def slope(step: float) -> tuple[float, float]:
        for k, direction in added.items():
            moved[k] = raw[k] + step * direction
        shared = loss.shared(y, moved, device)
        slopes, curvatures = [], []
        for tree in grown:
            k, leaf, value = tree.output, tree.trees.leaf[tree.i], tree.values.value
            target = loss.targets(y, k, device)
            totals = loss.gradients(k, target, moved[k], shared, weight, g, h)
            if not all(total < np.inf for total in totals):
                return np.inf, 0.0
            scales = fixed_point_scales(totals, raw.shape[1])
            sums = leaf_sums(leaf, g, h, scales, value.size)
            slopes += (value * (sums[:, 0] / scales.g)).tolist()
            curvatures += (value * value * (sums[:, 1] / scales.h)).tolist()
        return fsum(slopes), fsum(curvatures) if loss.has_hessian else 0.0

    return max(minimise(slope, LONGEST_STEP), 0.0) or 1.0
