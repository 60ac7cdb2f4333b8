"""One round of boosting: gradients, trees, leaf values, new raw predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .binning import Binner
from .devices import Device
from .forest import ForestBuilder
from .kernels.add_leaf_values import add_leaf_values
from .kernels.dtypes import Codes, Totals
from .kernels.frontier import GrowthParams
from .kernels.grow import GrownTrees, grow
from .kernels.leaf_sums import add_children, fixed_point_scales, leaf_sums
from .kernels.quantise import quantise, scales_for
from .kernels.scalars.gain import newton_value
from .kernels.scalars.primitives import vectorise
from .kernels.scalars.rng import PURPOSE_ROUNDING, PURPOSE_TREE, subkey
from .kernels.traverse_codes import traverse_codes
from .losses import Loss
from .sampling import draw_rows

BATCH_RECORDS = 2_000_000
"""Records that the trees of one batch may have together on the CPU."""


@dataclass
class TrainingRows:
    """The rows of a training or validation set, on the device.

    codes : Codes
    y : float64, shape (n_rows,)
    weight : float64, shape (n_rows,) or (0,)
        Empty where every weight is 1.
    raw : float64, shape (n_outputs, n_rows)
        Raw predictions of the trees so far; updated.
    """

    codes: Codes
    y: Any
    weight: Any
    raw: Any


@dataclass(frozen=True)
class RoundSettings:
    """What a round of boosting must know."""

    params: GrowthParams
    learning_rate: float
    subsample: float
    seed: int


class Grower:
    """Grows the trees of one round after another on a fixed set of rows."""

    def __init__(
        self,
        rows: TrainingRows,
        binner: Binner,
        loss: Loss,
        settings: RoundSettings,
        device: Device,
    ) -> None:
        self.rows = rows
        self.binner = binner
        self.n_bins = binner.n_bins
        self.loss = loss
        self.settings = settings
        self.device = device
        n = rows.raw.shape[1]
        self.batch = max(1, min(loss.n_outputs, BATCH_RECORDS // n))
        xp = device.xp
        self.g = xp.empty((self.batch, n), dtype=xp.float32)
        self.h = xp.empty((self.batch, n), dtype=xp.float32)

    def grow_round(self, index: int, forest: ForestBuilder, others: list[TrainingRows]) -> None:
        """Add one tree for every output to the forest and to all raw predictions.

        ``index`` counts the rounds; ``others`` are further sets, such as validation rows.
        """
        rows, settings, loss = self.rows, self.settings, self.loss
        n = rows.raw.shape[1]
        sample = draw_rows(n, settings.subsample, rows.weight, settings.seed, index, self.device)
        shift = loss.shift(rows.raw, self.device)
        for first in range(0, loss.n_outputs, self.batch):
            outputs = range(first, min(first + self.batch, loss.n_outputs))
            self._grow_batch(index, outputs, sample, shift, forest, others)

    def _grow_batch(
        self,
        index: int,
        outputs: range,
        sample: Any,
        shift: Any,
        forest: ForestBuilder,
        others: list[TrainingRows],
    ) -> None:
        rows, device, loss, seed = self.rows, self.device, self.loss, self.settings.seed
        n = rows.raw.shape[1]
        totals, scales, records, keys = [], [], [], []
        for i, k in enumerate(outputs):
            target = loss.targets(rows.y, k, device)
            g, h = self.g[i], self.h[i]
            totals.append(loss.gradients(target, rows.raw[k], shift, rows.weight, g, h))
            if not all(total < math.inf for total in totals[-1]):
                raise ValueError(
                    f"The gradients of round {index + 1} do not fit float32: divide y or "
                    "sample_weight by a constant, or lower learning_rate."
                )
            scales.append(scales_for(totals[-1], n))
            tree = np.uint64(index * loss.n_outputs + k)
            key = int(_subkey(np.uint64(seed), PURPOSE_ROUNDING, tree))
            records.append(quantise(g, h, sample, key, scales[-1]))
            keys.append(_subkey(np.uint64(seed), PURPOSE_TREE, tree))
        size = records[0].size
        begin = np.arange(len(records), dtype=np.int64) * size
        trees = grow(
            rows.codes,
            self.n_bins,
            records[0] if len(records) == 1 else device.xp.concatenate(records),
            begin,
            begin + size,
            np.array(keys, np.uint64),
            np.array([scale.g for scale in scales]),
            np.array([scale.h for scale in scales]),
            self.settings.params,
        )
        for i, k in enumerate(outputs):
            value, hessian = self._leaf_values(trees, i, totals[i])
            forest.append(trees, i, value, hessian, k, self.binner)
            if size < n:
                _find_leaves(trees, i, rows.codes, trees.leaf[i])
            add_leaf_values(rows.raw[k], trees.leaf[i], value)
            for other in others:
                leaf = device.xp.full(other.raw.shape[1], -1, dtype=np.int32)
                _find_leaves(trees, i, other.codes, leaf)
                add_leaf_values(other.raw[k], leaf, value)

    def _leaf_values(
        self, trees: GrownTrees, i: int, totals: Totals
    ) -> tuple[np.ndarray, np.ndarray]:
        """Shrunken Newton steps from the exact sums of the unquantised statistics, and the sums
        of hessians.

        The hessian of a leaf counts at least ``min_sum_hessian``: its integer estimate passed
        that test, and a leaf of almost certain rows must not take an endless step.
        """
        params = self.settings.params
        scales = fixed_point_scales(totals, self.g.shape[1])
        nodes = slice(trees.offset[i], trees.offset[i + 1])
        left, right = trees.left[nodes], trees.right[nodes]
        sums = leaf_sums(trees.leaf[i], self.g[i], self.h[i], scales, left.size)
        add_children(left, right, sums)
        g, h = sums[:, 0] / scales.g, sums[:, 1] / scales.h
        step = _newton_value(g, np.maximum(h, params.min_sum_hessian), params.l2)
        return self.settings.learning_rate * step, h


_subkey = vectorise(subkey)
_newton_value = vectorise(newton_value)


def _find_leaves(trees: GrownTrees, i: int, codes: Codes, leaf: Any) -> None:
    nodes = slice(trees.offset[i], trees.offset[i + 1])
    traverse_codes(
        codes,
        trees.feature[nodes],
        trees.bin[nodes],
        trees.missing_left[nodes],
        trees.left[nodes],
        trees.right[nodes],
        leaf,
    )
