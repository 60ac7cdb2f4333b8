"""Linear functions in the leaves of boosted trees (Shi et al. 2019, "Gradient boosting with
piece-wise linear regression trees"), fitted as LightGBM fits them.

A step of Newton's method over all linear functions is as safe as one over constants: with the
moves d of the rows of a leaf, sums of g d and h d² take the place of G d and H d² in the proof of
``losses.safe_steps``, and the largest move that of the move. Functions with a larger one are
shortened. With missing values a leaf has rows that move by its constant, so that both parts are
looked at together; where their sum may raise the loss, all rows move by the constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...devices.placement import Device, to_numpy
from ...kernels.leaves.linear_sums import (
    LinearFits,
    PathFeatures,
    linear_sums,
    path_features,
    solve_linear,
)
from ...kernels.prediction.linear_leaves import (
    LinearLeaves,
    add_linear_values,
    largest_linear_values,
)
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import ONE_WORKER, Workers, largest_of_each, rows_of_all
from ...kernels.runtime.dtypes import NodeValues
from ...kernels.statistics.quantise import fixed_point_scales
from ...losses import Loss
from ...losses.leaves import LeafBatch, LeafLines, node_sums
from ..data.tables import FeatureTable
from ..round_data import OutputTree, Round, Training, TrainingRows
from .plain import Batch, Gradients, LeafValues, Updates

ROWS_AT_ONCE = 2**16
"""Rows whose finite values are looked at together."""


@dataclass(frozen=True)
class Bounds:
    """Least and largest finite value of each feature in the rows of positive weight, float64 of
    shape (n_features,); those of all workers where they share the rows."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(
        cls, table: Array, weight: Array, device: Device, workers: Workers = ONE_WORKER
    ) -> Bounds:
        xp, n_features = device.xp, table.shape[1]
        low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        for begin in range(0, table.shape[0], ROWS_AT_ONCE):
            rows = table[begin : begin + ROWS_AT_ONCE]
            finite, infinity = xp.isfinite(rows), rows.dtype.type(np.inf)
            if weight.size:
                finite &= (weight[begin : begin + ROWS_AT_ONCE] > 0)[:, None]
            least = xp.where(finite, rows, infinity).min(axis=0)
            largest = xp.where(finite, rows, -infinity).max(axis=0)
            low = np.minimum(low, to_numpy(least))
            high = np.maximum(high, to_numpy(largest))
        return cls(-largest_of_each(-low, workers), largest_of_each(high, workers))


def require_linear(model: Any, loss: Loss, tables: list[FeatureTable]) -> None:
    """Raise ValueError where the settings or the data do not go with linear functions in leaves.

    Parameters
    ----------
    model : BoostingEstimator
        With ``linear_leaves=True``.
    loss : Loss
    tables : list of FeatureTable
    """
    if loss.exact_leaves or type(loss).leaf_values is not Loss.leaf_values:
        _refuse(f"loss={model.loss!r}", "whose leaf values are not Newton steps", "another loss")
    if model.dropout:
        _refuse(f"dropout={model.dropout!r}", "which changes the values of trees", "dropout=0")
    if model.line_search:
        _refuse("line_search=True", "which moves along constants", "line_search=False")
    if model.monotonic_cst is not None:
        _refuse("monotonic_cst", "which bounds constants", "monotonic_cst=None")
    for table in tables:
        if table.without_values is not None:
            _refuse(*table.without_values)


def _refuse(what: str, why: str, instead: str) -> None:
    raise ValueError(
        f"linear_leaves=True does not go with {what}, {why}: use {instead}, or linear_leaves=False."
    )


class LinearLeafValues(LeafValues):
    """Linear functions in the leaves of all rounds but the first, whose trees have constants."""

    def __init__(self, training: Training, gradients: Gradients) -> None:
        super().__init__(training, gradients)
        rows, ridge = training.rows, training.settings.ridge
        assert rows.table is not None and ridge is not None
        self._table, self._ridge = rows.table, ridge
        self._bounds = Bounds.of(rows.table, rows.weight, training.device, rows.workers)

    def trees(self, round_: Round, batch: Batch) -> list[OutputTree]:
        trees = super().trees(round_, batch)
        if round_.index == 0:
            return trees
        of_batch, largest = self.leaf_batch(round_, batch), round_.loss.largest_step(round_.rate)
        return [self._fitted(tree, of_batch, largest) for tree in trees]

    def _fitted(self, tree: OutputTree, batch: LeafBatch, largest: float) -> OutputTree:
        """Return a tree with linear functions, whose values are multiplied by the learning rate
        already; rows with missing values get the constants. ``largest`` is
        ``Loss.largest_step``."""
        linear = self._fit(
            tree, batch.lines(slice(tree.i, tree.i + 1)), batch.params.min_sum_hessian, largest
        )
        return _scaled(tree, linear, batch.learning_rate)

    def _features(self, tree: OutputTree) -> PathFeatures:
        grown, nodes = tree.trees, tree.nodes
        feature, bin_ = grown.feature[nodes], grown.bin[nodes]
        binner = self.training.binner
        cut = binner.cuts_at(np.maximum(feature, 0), np.maximum(bin_, 0))
        columns, by_value = binner.numbers(feature), np.where(bin_ >= 0, cut, np.nan)
        left, right, bounds = grown.left[nodes], grown.right[nodes], self._bounds
        return path_features(columns, by_value, left, right, bounds.low, bounds.high)

    def _fit(
        self, tree: OutputTree, rows: LeafLines, min_sum_hessian: float, largest: float
    ) -> LinearFits:
        value, features = tree.values.value, self._features(tree)
        scales = fixed_point_scales(rows.totals[0], rows_of_all(rows.n_rows[0], rows.workers))
        leaf, g, h = rows.leaf[0], rows.g[0], rows.h[0]
        sums = linear_sums(leaf, g, h, self._table, features, scales, rows.workers)
        n_rows, is_bounded = tree.trees.n_samples[tree.nodes], largest < math.inf
        is_complete = features.complete_rows(sums) >= n_rows
        total = np.zeros((value.size, 2))
        if is_bounded and not is_complete.all():
            (of_nodes,) = node_sums(rows, rows.g, rows.h, rows.totals)
            total = np.stack(of_nodes, axis=1)
        fits = solve_linear(
            features, sums, scales, n_rows, total, value, self._ridge, min_sum_hessian, is_bounded
        )
        if is_bounded:
            leaves = _leaves(fits, value, self.training.device)
            found = largest_linear_values(leaves, self._table, leaf, rows.workers)
            fits = _shortened(fits, value, found, largest, is_complete)
        return fits


def _shortened(
    fits: LinearFits,
    value: np.ndarray,
    found: np.ndarray,
    largest: float,
    is_complete: np.ndarray,
) -> LinearFits:
    """Multiply functions that are further from zero than ``largest`` by a number below 1, or
    replace them by constants where some of their rows have others."""
    is_long = found > largest
    if not is_long.any():
        return fits
    factor = np.where(is_long, largest / np.maximum(found, largest), 1.0)
    falls_back = is_long & ~is_complete
    n = np.diff(fits.begin)
    kept = ~np.repeat(falls_back, n)
    intercept = np.where(falls_back, value, factor * fits.intercept)
    coefficient = (np.repeat(factor, n) * fits.coefficient)[kept]
    begin = np.cumsum([0, *np.where(falls_back, 0, n)])
    return LinearFits(begin, fits.feature[kept], coefficient, intercept)


def _scaled(tree: OutputTree, linear: LinearFits, factor: float) -> OutputTree:
    """Return a tree with linear functions, all of whose values are multiplied by a factor."""
    values = NodeValues(factor * tree.values.value, tree.values.hessian)
    coefficient, intercept = factor * linear.coefficient, factor * linear.intercept
    linear = LinearFits(linear.begin, linear.feature, coefficient, intercept)
    return tree._replace(values=values, factor=1.0, linear=linear)


class LinearUpdates(Updates):
    """Adds trees with linear functions."""

    def add_to_training_rows(self, trees: list[OutputTree]) -> None:
        if trees[0].linear is None:
            super().add_to_training_rows(trees)
            return
        for tree in trees:
            self.add_tree(tree, tree.leaf, self.training.rows)

    def add_tree(self, tree: OutputTree, leaf: Array, rows: TrainingRows) -> None:
        if tree.linear is None:
            super().add_tree(tree, leaf, rows)
            return
        assert rows.table is not None
        leaves = _leaves(tree.linear, tree.values.value, self.training.device)
        numbers, raw = leaf[:, None].astype(np.int32, copy=False), rows.raw[tree.output]
        add_linear_values(leaves, rows.table, numbers, raw[None])


def _leaves(fits: LinearFits, value: np.ndarray, device: Device) -> LinearLeaves:
    """Return a tree's leaves on the device, whose arrays are read-only as those of a forest: for
    others kernels would be compiled once more."""
    offset, output = np.array([0, value.size], np.int64), np.zeros(1, np.int32)
    arrays: list[np.ndarray] = [offset, output, *fits, value]
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return LinearLeaves(*map(device.asarray, views))
