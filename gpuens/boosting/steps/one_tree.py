"""One tree a round for all outputs, with a value of each in every leaf
(``multi_strategy="multi_output_tree"``).

The tree is grown on one sum of the gradients of all outputs, with random factors that are drawn
again in every round (Iosipoi and Vakhrushev 2022, "SketchBoost": a projection of the gradients to
one dimension). On average a split gains from it what it gains over all outputs together. So growth
is that of a tree of one output, whatever runs it, and costs as much; only the values of the leaves
are found for each output, as its loss has them.

Rows count by their weights and not by hessians: those of different outputs do not agree on which
rows are certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.runtime.arrays import Array
from ...kernels.runtime.dtypes import NodeValues, Totals, Update
from ...kernels.runtime.each import each
from ...kernels.scalars.losses import Given
from ...kernels.scalars.primitives import vectorise
from ...kernels.scalars.rng import PURPOSE_PROJECTIONS, draw, subkey
from ...kernels.statistics.add_leaf_values import add_values_of_trees
from ...kernels.statistics.gradients import gradients
from ..round_data import OutputTree, Round, Training, TrainingRows
from .plain import Batch, Gradients, LeafValues, TreeGrowth, Updates, takes_newton_steps
from .sampling import scale_statistics

_draw, _subkey = vectorise(draw), vectorise(subkey)

NOT_FINITE = Totals(math.inf, math.inf, math.inf, math.inf)
"""Those of gradients that overflow at the constant."""


class ProjectedGradients(Gradients):
    """The gradients of all outputs, and those that the tree of a round is grown on.

    Attributes
    ----------
    tree_g, tree_h : float32, shape (1, n_rows), on the device
        A sum of the gradients of all outputs with random factors, and the weights of the rows.
    tree_totals : Totals
        Of these.
    """

    def __init__(self, training: Training) -> None:
        n_outputs, n, xp = training.loss.n_outputs, training.n_rows, training.device.xp
        super().__init__(training, n_outputs)
        self.tree_g, self.tree_h = (xp.empty((1, n), dtype=xp.float32) for _ in range(2))
        weight = training.rows.weight
        self._weight = weight if weight.size else xp.ones(n)
        self._sizes = self._sizes_at_constant()

    def compute(
        self, round_: Round, outputs: range, update: Update | None = None
    ) -> Sequence[Totals]:
        totals = self._fill(round_, outputs, update)
        self._check(round_, outputs, totals)
        if not all(size > 0.0 for size in self._sizes):  # where a GPU's totals are checked later
            round_.loss.check_totals(NOT_FINITE, round_)
        self.tree_totals = self._project(round_)
        if round_.sample.factor.size:
            device = self.training.device
            g, h = self.tree_g[0], self.tree_h[0]
            workers = self.training.rows.workers
            self.tree_totals = scale_statistics(g, h, round_.sample, device, workers)
            totals = self._scale(round_, len(outputs))
        if not self.tree_totals.is_here:
            round_.unchecked.append(self.tree_totals)
        return totals

    def _project(self, round_: Round) -> Totals:
        """Fill in the gradients of the tree. The outputs are added one after the other in float64,
        so that they are the same on all devices."""
        xp = self.training.device.xp
        total = xp.zeros(self.training.n_rows)
        for factor, g in zip(self._factors(round_.index), self.g, strict=True):
            total = total + factor * g.astype(xp.float64)
        nothing = self._weight[:0]
        g, h, workers = self.tree_g[0], self.tree_h[0], self.training.rows.workers
        return gradients(Given(), total, self._weight, nothing, nothing, g, h, workers)

    def _factors(self, index: int) -> list[float]:
        """Draw the factor of each output in a round, uniform in (-1, 1) over the size of its
        gradients at the constant: targets count alike, whatever their units."""
        key = _subkey(self.training.settings.seed, PURPOSE_PROJECTIONS, index)
        draws = [int(_draw(key, k)) for k in range(len(self.g))]
        units = [(2 * bits + 1 - 2**32) / 2**32 for bits in draws]
        return [unit / size for unit, size in zip(units, self._sizes, strict=True)]

    def _sizes_at_constant(self) -> list[float]:
        """Return the root of the sum of squares of each output's gradients, over the largest one, 1
        where all are zero; at the best constant: the same in a training that goes on. Where
        gradients overflow, some are 0 or NaN."""
        training, rows, device = self.training, self.training.rows, self.training.device
        raw = device.xp.empty_like(rows.raw)
        target = rows.y.astype(np.float64, copy=False)
        raw[...] = device.asarray(training.loss.base_score(target, rows.weight, device))[:, None]
        at_constant = replace(training, rows=replace(rows, raw=raw))
        squares = Gradients(at_constant, 1).squares()
        largest = max(squares)
        return [math.sqrt(own / largest) if own > 0.0 else 1.0 for own in squares]


class OneTreeGrowth(TreeGrowth):
    """A tree on the projected gradients."""

    gradients: ProjectedGradients

    def start(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> Batch:
        own = self.gradients
        trees = self.grow_on(round_, range(1), own.tree_g, own.tree_h, [own.tree_totals])
        return Batch(outputs, totals, trees)


class OneTreeValues(LeafValues):
    """The values that the loss gives each output in the leaves of one tree."""

    def trees(self, round_: Round, batch: Batch) -> list[OutputTree]:
        trees, rate, loss = batch.trees, round_.rate, round_.loss

        def of_output(k: int) -> NodeValues:
            own = Batch(range(k, k + 1), [batch.totals[k]], trees)
            (values,) = loss.leaf_values(self.leaf_batch(round_, own, k), own.outputs)
            return values

        values: Sequence[NodeValues]
        if takes_newton_steps(loss):  # of all outputs in one call
            values = loss.leaf_values(self.leaf_batch(round_, batch), batch.outputs)
        else:
            workers = self.training.rows.workers
            values = each(of_output, batch.outputs, self.gradients.g[0], workers)
        return [OutputTree(trees, 0, k, values[k], rate) for k in batch.outputs]


class OneTreeUpdates(Updates):
    """Adds one tree to the raw predictions of all outputs."""

    def add(self, round_: Round, trees: list[OutputTree]) -> None:
        if round_.sample.rows.size:  # growth has only seen the leaves of the sample
            trees[0].find_leaves(self.training.rows.codes, trees[0].leaf)
        self._add_to(self.training.rows, trees[0].trees.leaf, trees)
        self.add_to_others(trees)

    def add_to_others(self, trees: list[OutputTree]) -> None:
        for other in self.others:
            xp = self.training.device.xp
            leaf = xp.full((1, other.raw.shape[1]), -1, dtype=xp.int32)
            trees[0].find_leaves(other.codes, leaf[0])
            self._add_to(other, leaf, trees)

    def _add_to(self, rows: TrainingRows, leaf: Array, trees: list[OutputTree]) -> None:
        values, factors = [tree.values for tree in trees], [tree.factor for tree in trees]
        add_values_of_trees(rows.raw, leaf, values, factors)
