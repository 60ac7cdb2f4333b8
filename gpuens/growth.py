"""One round of boosting: gradients, trees, leaf values, new raw predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .binning import Binner
from .constraints import bound_values
from .devices import Device
from .forest import ForestBuilder
from .gradient_sampling import (
    Sample,
    Sampling,
    balanced_chances,
    draw_by_chance,
    goss_chances,
    mvs_chances,
    scale_statistics,
)
from .kernels.add_leaf_values import add_leaf_values
from .kernels.dtypes import Codes, Scales, Totals
from .kernels.each import each
from .kernels.frontier import NO_RULES, FeatureRules, GrowthParams
from .kernels.grow import GrownTrees, grow
from .kernels.quantise import quantise, scales_for
from .kernels.scalars.primitives import vectorise
from .kernels.scalars.rng import PURPOSE_ROUNDING, PURPOSE_TREE, subkey
from .kernels.traverse_codes import traverse_codes
from .leaf_values import LeafRows
from .learning_rates import Schedule
from .line_search import OutputTree, find_steps
from .losses import Loss
from .sampling import draw_rows
from .weighted import whole_weights

BATCH_RECORDS = 2_000_000
"""Records that the trees of one batch may have together on the CPU."""


@dataclass
class TrainingRows:
    """The rows of a training or validation set, on the device.

    codes : Codes
    y : float64, shape (n_rows,) or (n_targets, n_rows)
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
    """What a round of boosting must know.

    With ``line_search`` the trees of a round go as far along their values as lowers the loss
    most, times the learning rate.
    """

    params: GrowthParams
    learning_rate: Schedule
    sampling: Sampling
    seed: int
    line_search: bool = False
    rules: FeatureRules = NO_RULES


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

    @cached_property
    def whole_weight(self) -> Any:
        """The weights for quantiles, see ``whole_weights``."""
        return whole_weights(self.rows.weight, self.device)

    def grow_round(self, index: int, forest: ForestBuilder, others: list[TrainingRows]) -> None:
        """Add one tree for every output to the forest and to all raw predictions.

        ``index`` counts the rounds; ``others`` are further sets, such as validation rows.
        """
        rows, settings, device = self.rows, self.settings, self.device
        rate = settings.learning_rate(index)
        sample = self._draw(index)
        loss = self.loss.in_round(rows.y, rows.raw, self.whole_weight, sample.rows, device)
        shared = loss.shared(rows.y, rows.raw, device)
        searching = settings.line_search and not loss.exact_leaves
        grown: list[OutputTree] = []
        for first in range(0, loss.n_outputs, self.batch):
            outputs = range(first, min(first + self.batch, loss.n_outputs))
            batch = self._grow_batch(index, outputs, sample, loss, shared)
            if searching:
                grown += batch
            else:
                self._add(batch, [rate] * len(batch), forest, others)
        if searching:
            steps = find_steps(loss, rows.y, rows.raw, rows.weight, grown, device)
            self._add(grown, [rate * step for step in steps], forest, others)

    def _draw(self, index: int) -> Sample:
        """The rows of a round."""
        rows, seed, device = self.rows, self.settings.seed, self.device
        scheme, fraction, top_rate, other_rate = self.settings.sampling
        n = rows.raw.shape[1]
        if scheme == "goss" and index < 1.0 / self.settings.learning_rate(0):
            scheme, fraction = "uniform", 1.0
        if scheme == "uniform":
            drawn = draw_rows(n, fraction, rows.weight, seed, index, device)
            return Sample(drawn, device.xp.empty(0, dtype=np.float32))
        if scheme == "balanced":
            chance = self._balanced
        elif scheme == "goss":
            importance = self._over_outputs(lambda g, h: abs(g) * h, np.float32)
            chance = goss_chances(importance, top_rate, other_rate, device)
        else:
            squares = self._over_outputs(lambda g, h: g.astype(np.float64) ** 2, np.float64)
            chance = mvs_chances(squares, fraction, device)
        return draw_by_chance(chance, rows.weight, seed, index, device)

    @cached_property
    def _balanced(self) -> Any:
        classes = self.rows.y.astype(np.int64)
        fraction = self.settings.sampling.fraction
        return balanced_chances(classes, int(classes.max()) + 1, fraction, self.device)

    def _over_outputs(self, term: Callable[[Any, Any], Any], dtype: Any) -> Any:
        """The sum over the outputs of a term of every row's gradient and hessian."""
        rows, device = self.rows, self.device
        total = device.xp.zeros(rows.raw.shape[1], dtype=dtype)
        everything = device.xp.empty(0, dtype=np.int32)
        loss = self.loss.in_round(rows.y, rows.raw, self.whole_weight, everything, device)
        shared = loss.shared(rows.y, rows.raw, device)
        for k in range(loss.n_outputs):
            target = loss.targets(rows.y, k, device)
            g, h = self.g[0], self.h[0]
            loss.gradients(k, target, rows.raw[k], shared, rows.weight, g, h)
            total += term(g, h)
        return total

    def _grow_batch(
        self, index: int, outputs: range, sample: Sample, loss: Loss, shared: Any
    ) -> list[OutputTree]:
        """Trees of some outputs, with the values of their nodes before any shrinkage."""
        rows, device, seed = self.rows, self.device, self.settings.seed
        n = rows.raw.shape[1]

        def statistics(i: int) -> tuple[Totals, Scales, Any, int]:
            """Of output i of the batch: totals, scales, records and the tree's key."""
            k = outputs[i]
            target = loss.targets(rows.y, k, device)
            g, h = self.g[i], self.h[i]
            totals = loss.gradients(k, target, rows.raw[k], shared, rows.weight, g, h)
            loss.check_gradients(totals, g, h, target, rows.raw[k], f"round {index + 1}")
            if sample.factor.size:
                totals = scale_statistics(g, h, sample, device)
            scales = scales_for(totals, n)
            tree = np.uint64(index * loss.n_outputs + k)
            key = int(_subkey(np.uint64(seed), PURPOSE_ROUNDING, tree))
            records = quantise(g, h, sample.rows, key, scales)
            return totals, scales, records, _subkey(np.uint64(seed), PURPOSE_TREE, tree)

        found = each(statistics, range(len(outputs)), self.g[0])
        totals, scales, records, keys = zip(*found, strict=True)
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
            self.settings.rules,
        )

        def tree(i: int) -> OutputTree:
            k = outputs[i]
            return OutputTree(trees, i, k, *self._leaf_values(trees, i, k, totals[i], loss))

        return each(tree, range(len(outputs)), self.g[0])

    def _leaf_values(
        self, trees: GrownTrees, i: int, k: int, totals: Totals, loss: Loss
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values and hessians of the nodes of tree i of a batch, of output k."""
        value, hessian = loss.leaf_values(self._leaf_rows(trees, i, k, totals), k)
        monotone = self.settings.rules.monotone
        return bound_values(trees, i, monotone, value) if monotone.any() else value, hessian

    def _leaf_rows(self, trees: GrownTrees, i: int, k: int, totals: Totals) -> LeafRows:
        rows, params = self.rows, self.settings.params
        nodes = slice(trees.offset[i], trees.offset[i + 1])
        return LeafRows(
            left=trees.left[nodes],
            right=trees.right[nodes],
            leaf=trees.leaf[i],
            g=self.g[i],
            h=self.h[i],
            totals=totals,
            target=self.loss.targets(rows.y, k, self.device),
            raw=rows.raw[k],
            weight=rows.weight,
            whole_weight=self.whole_weight,
            l2=params.l2,
            min_sum_hessian=params.min_sum_hessian,
            device=self.device,
        )

    def _add(
        self,
        grown: list[OutputTree],
        factors: list[float],
        forest: ForestBuilder,
        others: list[TrainingRows],
    ) -> None:
        """Add trees, their values times a factor each, to the forest and to raw predictions."""
        rows = self.rows

        def add(at: int) -> np.ndarray:
            """Add a tree to raw predictions; its values."""
            trees, i, k = grown[at].trees, grown[at].i, grown[at].output
            value = factors[at] * grown[at].value
            if trees.n_samples[trees.offset[i]] < rows.raw.shape[1]:
                _find_leaves(trees, i, rows.codes, trees.leaf[i])
            add_leaf_values(rows.raw[k], trees.leaf[i], value)
            for other in others:
                leaf = self.device.xp.full(other.raw.shape[1], -1, dtype=np.int32)
                _find_leaves(trees, i, other.codes, leaf)
                add_leaf_values(other.raw[k], leaf, value)
            return value

        values = each(add, range(len(grown)), rows.raw[0])
        for tree, value in zip(grown, values, strict=True):
            forest.append(tree.trees, tree.i, value, tree.hessian, tree.output, self.binner)


_subkey = vectorise(subkey)


def _find_leaves(trees: GrownTrees, i: int, codes: Codes, leaf: Any) -> None:
    """Fill in the negative entries of ``leaf``."""
    nodes = slice(trees.offset[i], trees.offset[i + 1])
    traverse_codes(
        codes,
        trees.feature[nodes],
        trees.bin[nodes],
        trees.missing_left[nodes],
        trees.left[nodes],
        trees.right[nodes],
        leaf,
        trees.left_codes[nodes] if trees.left_codes.size else trees.left_codes,
    )
