"""The steps of a round of boosting, in the order of ``rounds``: rows, gradients, trees, the values
of their leaves, and new raw predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...devices.placement import Device, to_numpy
from ...kernels.growth.frontier import most_slots
from ...kernels.growth.grow import GrownTrees, grow, records_for
from ...kernels.growth.params import GrowthParams
from ...kernels.growth.sparse_codes import SparseCodes
from ...kernels.leaves.inner_nodes import bound_values
from ...kernels.prediction.traverse import traverse_codes
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import (
    NO_ROWS,
    count_of_all,
    largest_of_all,
    rows_of_all,
    selected,
)
from ...kernels.runtime.dtypes import MOST_OUTPUTS, NodeValues, Totals, Update
from ...kernels.runtime.each import each
from ...kernels.scalars.lazy_jit import lazy_property
from ...kernels.statistics.add_leaf_values import add_leaf_values, add_values_of_trees
from ...kernels.statistics.quantise import scales_for
from ...losses import Loss
from ...losses.leaves import LeafBatch
from ...numerics.sampling import RowDraw, draw_rows
from ...numerics.weighted import ordered_sum
from ..round_data import OutputTree, Round, Training, TrainingRows
from .sampling import (
    Sample,
    Sampling,
    balanced_chances,
    draw_by_chance,
    goss_chances,
    mvs_chances,
    scale_statistics,
)

BATCH_RECORDS = 2_000_000
"""Most records of the trees of one batch on the CPU: more would not fit into its caches."""
BATCH_RECORDS_ON_GPU = 2**24
"""Most records of a batch on a GPU, where the host waits for each, and a record takes 36 bytes."""


def batch_size(
    n_outputs: int, n_rows: int, n_features: int, params: GrowthParams, device: Device
) -> int:
    """Return the number of trees of a round that grow together; the model does not depend on it.

    Each tree of a batch needs a histogram from the start, a symmetric one those of a level.
    """
    n_kept = 2 ** min(params.max_depth, 31) if params.is_symmetric else 1
    most = BATCH_RECORDS_ON_GPU if device.runs_ahead else BATCH_RECORDS
    most = min(most // max(n_rows, 1), most_slots(n_features) // n_kept, MOST_OUTPUTS)
    return max(1, min(n_outputs, most))


class RowSampler:
    """Draws the rows of the rounds (see ``sampling``).

    Attributes
    ----------
    given : Sample or None
        The rows of the next round, if they have been drawn with those of other models.
    """

    given: Sample | None = None

    def __init__(self, training: Training, gradients: Gradients) -> None:
        self._training, self._gradients = training, gradients

    def scheme(self, index: int) -> Sampling:
        """Return how the rows of a round are drawn."""
        settings = self._training.settings
        sampling = settings.sampling
        if sampling.scheme == "goss" and index < 1.0 / settings.learning_rate(0):  # as in LightGBM
            return sampling._replace(scheme="uniform", fraction=1.0)
        return sampling

    def draw(self, index: int) -> Sample:
        """Draw the rows of a round."""
        training, device = self._training, self._training.device
        rows, settings = training.rows, training.settings
        scheme, fraction, top_rate, other_rate = self.scheme(index)
        if scheme == "uniform" and fraction == 1.0:
            return self._weighted_rows
        given, self.given = self.given, None
        if given is not None:
            return given
        if scheme == "uniform":
            return self._uniform(fraction, settings.seed, index)
        if scheme == "balanced":
            chance = self.balanced
        elif scheme == "goss":
            importance = self._gradients.sum_of_rows(index, lambda g, h: abs(g) * h, np.float32)
            chance = goss_chances(importance, top_rate, other_rate, device, rows.workers)
        else:
            squares = self._gradients.sum_of_rows(
                index, lambda g, h: g.astype(np.float64) ** 2, np.float64
            )
            chance = mvs_chances(squares, fraction, device, rows.workers)
        return draw_by_chance(chance, rows.weight, settings.seed, index, device, rows.workers)

    def equal_draw(self, index: int) -> RowDraw | None:
        """Return what decides the rows of a round, if their chances are equal and below 1."""
        settings = self._training.settings
        scheme, fraction = settings.sampling.scheme, settings.sampling.fraction
        is_equal = scheme == "uniform" and fraction < 1.0
        return RowDraw(self._training.n_rows, fraction, settings.seed, index) if is_equal else None

    def _uniform(self, fraction: float, seed: int, index: int) -> Sample:
        training = self._training
        weight, device = training.rows.weight, training.device
        drawn = draw_rows(
            training.n_rows, fraction, weight, seed, index, device, training.rows.workers
        )
        return Sample(drawn, device.xp.empty(0, dtype=device.xp.float32))

    @lazy_property
    def _weighted_rows(self) -> Sample:
        """The rows with a positive weight; kept, because finding them waits for a GPU."""
        return self._uniform(1.0, 0, 0)

    @lazy_property
    def balanced(self) -> Array:
        """The chance of each row to be drawn, by its class; kept."""
        training, workers = self._training, self._training.rows.workers
        classes = training.rows.y.astype(np.int64)
        n_classes = int(largest_of_all(float(classes.max()), workers)) + 1
        fraction = training.settings.sampling.fraction
        return balanced_chances(classes, n_classes, fraction, training.device, workers)


class Gradients:
    """The gradients of one batch of outputs after another, in the same arrays.

    Attributes
    ----------
    g, h : float32, shape (n_outputs of the largest batch, n_rows), on the device
        Gradients and hessians, times the weights of the rows.
    """

    def __init__(self, training: Training, n_outputs: int) -> None:
        self.training = training
        n, xp = training.n_rows, training.device.xp
        self.g = xp.empty((n_outputs, n), dtype=xp.float32)
        self.h = xp.empty((n_outputs, n), dtype=xp.float32)

    def compute(
        self, round_: Round, outputs: range, update: Update | None = None
    ) -> Sequence[Totals]:
        """Compute the gradients of a batch of outputs and return their totals.

        Parameters
        ----------
        round_ : Round
        outputs : range
        update : Update or None
            Values that the raw predictions get in the same pass, before.

        Raises
        ------
        ValueError
            They are not finite.
        """
        totals = self._fill(round_, outputs, update)
        self._check(round_, outputs, totals)
        if round_.sample.factor.size:
            totals = self._scale(round_, len(outputs))
        return totals

    def _fill(self, round_: Round, outputs: range, update: Update | None) -> Sequence[Totals]:
        rows, device, loss = self.training.rows, self.training.device, round_.loss
        g, h = self.g[: len(outputs)], self.h[: len(outputs)]
        raw = rows.raw[outputs.start : outputs.stop]
        if len(outputs) > 1:
            return loss.gradients_of_outputs(
                outputs, rows.y, raw, round_.shared, rows.weight, g, h, device
            )
        k = outputs.start
        target = loss.targets(rows.y, k, device)
        return [loss.gradients(k, target, raw[0], round_.shared, rows.weight, g[0], h[0], update)]

    def _check(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> None:
        """Check the gradients, or their totals where the host has them; a GPU's totals that nothing
        needs before the trees are checked when the round ends."""
        training, loss = self.training, round_.loss
        rows = training.rows
        if loss.checks_rows:

            def check(i: int) -> None:
                target = loss.targets(rows.y, outputs[i], training.device)
                raw = rows.raw[outputs[i]]
                loss.check_gradients(totals[i], self.g[i], self.h[i], target, raw, round_)

            each(check, range(len(outputs)), self.g[0])
            return
        waits = training.settings.line_search or loss.exact_leaves or round_.sample.factor.size > 0
        if not (waits or totals[0].is_here):
            round_.unchecked += totals
            return
        for own in totals:
            loss.check_totals(own, round_)

    def _scale(self, round_: Round, n_outputs: int) -> Sequence[Totals]:
        """Multiply the gradients of a sample by the factors of its rows."""

        device, workers = self.training.device, self.training.rows.workers

        def scaled(i: int) -> Totals:
            own = scale_statistics(self.g[i], self.h[i], round_.sample, device, workers)
            round_.loss.check_totals(own, round_)
            return own

        return each(scaled, range(n_outputs), self.g[0], workers)

    def sum_of_rows(self, index: int, term: Callable[[Any, Any], Array], dtype: Any) -> Array:
        """Return the sum of a function of every row's gradient and hessian over all outputs."""
        total = self.training.device.xp.zeros(self.training.n_rows, dtype=dtype)
        loss, shared = self._loss_of(index)
        for k in range(loss.n_outputs):
            self._of_output(loss, k, shared)
            total += term(self.g[0], self.h[0])
        return total

    def of_rows(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the gradients of some rows before the first round, float64 of shape (n_outputs,
        n), for each array of their numbers."""
        loss, shared = self._loss_of(0)
        found = [np.empty((loss.n_outputs, at.size)) for at in rows]
        for k in range(loss.n_outputs):
            loss.check_totals(self._of_output(loss, k, shared), "round 1")
            for of_rows, at in zip(found, rows, strict=True):
                of_rows[k] = to_numpy(self.g[0][self.training.device.asarray(at)])
        return found

    def sizes(self) -> tuple[float, float]:
        """Return the largest size of a gradient and the sum of the hessians, over all outputs."""
        loss, rows, largest, total = self.training.loss, self.training.rows, 0.0, 0.0
        shared = loss.shared(rows.y, rows.raw, self.training.device)
        for k in range(loss.n_outputs):
            totals = self._of_output(loss, k, shared)
            largest, total = max(largest, float(totals.max_g)), total + float(totals.sum_h)
        return largest, total

    def squares(self) -> list[float]:
        """Return the sum of the squared gradients of each output, as they are before a round."""
        loss, shared = self._loss_of(0)
        found = []
        for k in range(loss.n_outputs):
            self._of_output(loss, k, shared)
            squares = self.g[0].astype(np.float64) ** 2
            found.append(ordered_sum(squares, self.training.device, self.training.rows.workers))
        return found

    def _loss_of(self, index: int) -> tuple[Any, Array]:
        """Return the loss of a round for all rows, and its shared values."""
        training = self.training
        rows, device = training.rows, training.device
        everything, weight = device.xp.empty(0, dtype=device.xp.int32), training.whole_weight
        loss = training.loss.in_round(index, rows.y, rows.raw, weight, everything, device)
        return loss, loss.shared(rows.y, rows.raw, device)

    def _of_output(self, loss: Any, k: int, shared: Array) -> Totals:
        """Compute the gradients of one output into the first line."""
        rows, device = self.training.rows, self.training.device
        target, g, h = loss.targets(rows.y, k, device), self.g[0], self.h[0]
        return loss.gradients(k, target, rows.raw[k], shared, rows.weight, g, h)


class Batch(NamedTuple):
    """The trees of some outputs, which a GPU may still be growing. With ``values`` the raw
    predictions of the training rows include them already."""

    outputs: range
    totals: Sequence[Totals]
    trees: GrownTrees
    values: Sequence[NodeValues] | None = None


class TreeGrowth:
    """Trees on the gradients of a sample, in two operations: integers, and growth on these."""

    def __init__(self, training: Training, gradients: Gradients) -> None:
        self.training, self.gradients = training, gradients

    def start(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> Batch:
        """Start to grow trees on the gradients at hand; ``totals`` are theirs."""
        g, h = self.gradients.g[: len(outputs)], self.gradients.h[: len(outputs)]
        return Batch(outputs, totals, self.grow_on(round_, outputs, g, h, totals))

    def grow_on(
        self, round_: Round, trees: range, g: Array, h: Array, totals: Sequence[Totals]
    ) -> GrownTrees:
        """Start to grow some trees of a round on gradients, arrays of a line a tree."""
        training = self.training
        codes, draws = training.rows.codes, training.draws(round_, trees)
        workers = training.rows.workers
        n_rows = rows_of_all(training.n_rows, workers)
        scales = [scales_for(t, n_rows) for t in totals]
        records = records_for(
            codes, g, h, round_.sample.rows, draws.rounding, draws.first, scales, workers
        )
        return grow(
            codes,
            training.n_bins,
            records,
            training.tree_keys(round_, trees),
            params_of(training, round_.sample),
            training.settings.rules,
            workers,
        )


def params_of(training: Training, sample: Sample) -> GrowthParams:
    """Return the settings of growth on the rows of a round."""
    params, decrease = training.settings.params, training.settings.min_decrease
    if decrease == 0.0:
        return params
    # Slightly less: the gain is rounded, the number it is compared with is not.
    least = decrease * _weight_of(training, sample) * (1.0 - 1e-10)
    return params._replace(min_gain=max(params.min_gain, least))


def _weight_of(training: Training, sample: Sample) -> float:
    """Return the weight of a round's rows; rows that are drawn with factors count for all."""
    weight, workers, drawn = training.rows.weight, training.rows.workers, sample.rows
    is_part = drawn.size > 0 and sample.factor.size == 0
    if weight.size:
        own = selected(weight, drawn) if is_part else weight
        return ordered_sum(own, training.device, workers)
    if is_part:
        return float(count_of_all(0 if drawn is NO_ROWS else drawn.size, workers))
    return float(rows_of_all(training.n_rows, workers))


def takes_newton_steps(loss: Loss) -> bool:
    """Return whether the values of leaves are Newton steps as they are."""
    return type(loss).leaf_values is Loss.leaf_values


class LeafValues:
    """The values that the loss gives, bounded by monotone constraints."""

    def __init__(self, training: Training, gradients: Gradients) -> None:
        self.training, self.gradients = training, gradients
        self._is_monotone = bool(training.settings.rules.monotone.any())

    def trees(self, round_: Round, batch: Batch) -> list[OutputTree]:
        """Return the trees of a batch with the values of their nodes."""
        values = batch.values
        if values is None:
            values = round_.loss.leaf_values(self.leaf_batch(round_, batch), batch.outputs)
        if self._is_monotone:
            values = self._bounded(batch, values)
        trees, rate = batch.trees, round_.rate
        return [OutputTree(trees, i, k, values[i], rate) for i, k in enumerate(batch.outputs)]

    def leaf_batch(self, round_: Round, batch: Batch, first: int = 0) -> LeafBatch:
        """Return the trees with the rows that they were grown on, whose gradients begin with line
        ``first`` of the arrays."""
        training, outputs = self.training, batch.outputs
        rows = training.rows
        return LeafBatch(
            trees=batch.trees,
            g=self.gradients.g[first : first + len(outputs)],
            h=self.gradients.h[first : first + len(outputs)],
            totals=batch.totals,
            read_target=lambda i: training.loss.targets(rows.y, outputs[i], training.device),
            raw=rows.raw[outputs.start : outputs.stop],
            weight=rows.weight,
            whole_weight=training.whole_weight,
            params=training.settings.params,
            learning_rate=round_.rate,
            device=training.device,
            workers=training.rows.workers,
        )

    def _bounded(self, batch: Batch, values: Sequence[NodeValues]) -> Sequence[NodeValues]:
        """Clip the values of nodes so that monotone constraints hold."""
        trees, monotone = batch.trees, self.training.settings.rules.monotone

        def bounded(i: int) -> NodeValues:
            nodes = slice(trees.offset[i], trees.offset[i + 1])
            own = values[i].value.copy()
            bound_values(trees.feature[nodes], trees.left[nodes], trees.right[nodes], monotone, own)
            return NodeValues(own, values[i].hessian)

        return each(bounded, range(len(batch.outputs)), self.gradients.g[0])


class Updates:
    """Adds trees to raw predictions."""

    def __init__(self, training: Training, others: Sequence[TrainingRows]) -> None:
        self.training, self.others = training, others

    def pending(self) -> Update | None:
        """Return values that the raw predictions of the training rows have not got yet, for those
        who are about to read them."""
        return None

    def add(self, round_: Round, trees: list[OutputTree]) -> None:
        """Add the trees of some outputs, one after the other, to all raw predictions."""
        if round_.sample.rows.size:  # growth has only seen the leaves of the sample
            for own in _batches_of(trees):
                self._find_leaves(own)
        self.add_to_training_rows(trees)
        self.add_to_others(trees)

    def _find_leaves(self, trees: list[OutputTree]) -> None:
        """Find the leaves of the training rows that the trees of a batch have not been grown on."""
        codes, grown = self.training.rows.codes, trees[0].trees
        if isinstance(codes, SparseCodes):  # the dense codes of one tree's features at a time
            each(lambda tree: tree.find_leaves(codes, tree.leaf), trees, trees[0].leaf)
        else:
            traverse_codes(
                codes, grown.offset, grown.feature, grown.bin, grown.missing_left, grown.left,
                grown.right, grown.leaf, grown.left_codes,
            )  # fmt: skip

    def add_to_training_rows(self, trees: list[OutputTree]) -> None:
        """Add trees whose leaves are known."""
        rows = self.training.rows
        for own in _batches_of(trees):
            leaf, output = own[0].trees.leaf, own[0].output
            values, factors = [tree.values for tree in own], [tree.factor for tree in own]
            add_values_of_trees(rows.raw[output : output + len(own)], leaf, values, factors)

    def add_to_others(self, trees: list[OutputTree]) -> None:
        """Add trees to the raw predictions of the evaluation sets."""

        xp = self.training.device.xp

        def add(tree: OutputTree) -> None:
            for other in self.others:
                leaf = xp.full(other.raw.shape[1], -1, dtype=xp.int32)
                tree.find_leaves(other.codes, leaf)
                self.add_tree(tree, leaf, other)

        if self.others:
            each(add, trees, self.training.rows.raw[0])

    def add_tree(self, tree: OutputTree, leaf: Array, rows: TrainingRows) -> None:
        """Add a tree to the raw predictions of rows whose leaves are known."""
        add_leaf_values(rows.raw[tree.output], leaf, tree.values, tree.factor)


def _batches_of(trees: list[OutputTree]) -> Iterator[list[OutputTree]]:
    """Yield the trees of one batch after the other."""
    begin = 0
    while begin < len(trees):
        own = trees[begin : begin + len(trees[begin].trees.leaf)]
        yield own
        begin += len(own)
