"""One round of boosting: gradients, trees, leaf values, new raw predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..inputs.binning import Binner
from ..kernels.boosting.newton_trees import Draws, add_newton_trees
from ..kernels.growth.frontier import most_slots
from ..kernels.growth.grow import grow, records_for
from ..kernels.growth.params import GrowthParams
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import (
    NO_ROWS,
    count_of_all,
    largest_of_all,
    rows_of_all,
    selected,
)
from ..kernels.runtime.dtypes import MOST_OUTPUTS, NodeValues, Scales, Totals, Update
from ..kernels.runtime.each import each
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_ROUNDING, PURPOSE_TREE, draw
from ..kernels.statistics.add_leaf_values import add_leaf_values, add_values_of_trees
from ..kernels.statistics.quantise import scales_for
from ..losses import Loss
from ..losses.leaves import LeafBatch
from ..numerics.sampling import draw_rows
from ..numerics.weighted import ordered_sum, whole_weights
from .dropout import Dropout
from .linear_leaves import LinearFitter, add_values
from .pieces import NO_SCALES, Gradients, add_tree
from .round_data import OutputTree, RoundSettings, StartedBatch, StartedRound, TrainingRows
from .sampling import (
    Sample,
    balanced_chances,
    draw_by_chance,
    goss_chances,
    mvs_chances,
    scale_statistics,
)
from .trees import GrownRound, bound_values, find_steps

BATCH_RECORDS = 2_000_000
"""Most records of the trees of one batch on the CPU: more would not fit into its caches."""
BATCH_RECORDS_ON_GPU = 2**24
"""The same on a GPU, where the host waits for each batch and a record takes 36 bytes."""


def batch_size(n_outputs: int, n_rows: int, n_features: int, device: Device) -> int:
    """Return the number of trees of a round that grow together; the model does not depend on it.

    Each tree of a batch needs a histogram from the start.
    """
    most = BATCH_RECORDS_ON_GPU if device.runs_ahead else BATCH_RECORDS
    most = min(most // max(n_rows, 1), most_slots(n_features), MOST_OUTPUTS)
    return max(1, min(n_outputs, most))


class Grower:
    """Grows the trees of one round after another, on the same rows."""

    def __init__(
        self,
        rows: TrainingRows,
        binner: Binner,
        loss: Loss,
        settings: RoundSettings,
        device: Device,
        dropout: Dropout | None = None,
    ) -> None:
        self.dropout = dropout
        self.rows = rows
        self.binner = binner
        self.n_bins = binner.n_bins
        self.loss = loss
        self.settings = settings
        self.device = device
        n = rows.raw.shape[1]
        self.batch = batch_size(loss.n_outputs, rows_of_all(n), self.n_bins.size, device)
        xp = device.xp
        self.joins_updates = device.runs_ahead and self._reads_raw_once()
        self._update: Update | None = None
        self._is_monotone = bool(settings.rules.monotone.any())
        self._is_newton = not device.runs_ahead and self._takes_newton_steps()
        self._whole_weight: Array | None = None
        self._all_rows: Sample | None = None
        self._chances: Array | None = None
        self._scales: dict[int, Scales] = {}  # of the last tree of each output
        # Keys of the draws for a purpose; drawn with integers of Python, which is fastest.
        self._rounding_key = _draw(int(settings.seed), int(PURPOSE_ROUNDING))
        self._tree_key = _draw(int(settings.seed), int(PURPOSE_TREE))
        self.linear: LinearFitter | None = None
        if settings.ridge is not None and rows.table is not None:
            self.linear = LinearFitter(rows.table, rows.weight, binner, settings.ridge, device)
        n_kept = 0 if settings.in_pieces else n
        self.g = xp.empty((self.batch, n_kept), dtype=xp.float32)
        self.h = xp.empty((self.batch, n_kept), dtype=xp.float32)

    # Not cached properties: until Python 3.12 these have a lock, and while one worker of a shared
    # table held it, other workers in its process could not take part in the collective.

    @property
    def whole_weight(self) -> Array:
        """The weights as integers, for quantiles."""
        if self._whole_weight is None:
            self._whole_weight = whole_weights(self.rows.weight, self.device)
        return self._whole_weight

    def _reads_raw_once(self) -> bool:
        """Whether a round needs the raw predictions for its gradients only."""
        loss, settings = self.loss, self.settings
        of_gradients = settings.sampling.scheme in ("goss", "mvs")
        once = loss.n_outputs == 1 and self.dropout is None and settings.ridge is None
        return once and not (of_gradients or settings.line_search or loss.reads_raw)

    def _takes_newton_steps(self) -> bool:
        """Whether the raw predictions get the Newton steps of the trees as they are."""
        settings, takes_steps = self.settings, type(self.loss).leaf_values is Loss.leaf_values
        revises = settings.line_search or self._is_monotone or settings.ridge is not None
        return takes_steps and self.dropout is None and not revises

    def start_round(self, index: int) -> StartedRound:
        """Start to grow the trees of a round, counted from 0.

        On a GPU they are still growing when this returns: the host is free until ``finish_round``.
        """
        rows, settings, device = self.rows, self.settings, self.device
        loss, drop = self.loss.at_round(index), None
        rate = loss.safe_rate(settings.learning_rate(index))
        if self.dropout is not None:
            drop = self.dropout.begin(index, rate, rows, device)
        sample = self._draw(index)
        loss = loss.in_round(rows.y, rows.raw, self.whole_weight, sample.rows, device)
        shared = loss.shared(rows.y, rows.raw, device)
        searching = settings.line_search and not loss.exact_leaves
        started = StartedRound(index, loss, rate, shared, sample, searching, drop)
        self._start_batch(started, 0)
        return started

    def finish_round(
        self, started: StartedRound, others: list[TrainingRows], is_watched: bool = True
    ) -> GrownRound:
        """Add one tree for every output to all raw predictions.

        Parameters
        ----------
        started : StartedRound
        others : list of TrainingRows
            Evaluation sets.
        is_watched : bool
            Whether metrics read the raw predictions of the training rows. If not, their update may
            be joined with the next gradients.

        Raises
        ------
        ValueError
            The gradients were not finite.
        """
        loss, rate = started.loss, started.rate
        done = GrownRound([], [], started.index, started.drop)
        for first in range(0, loss.n_outputs, self.batch):
            if first > 0:
                self._start_batch(started, first)
            grown = self._finish_batch(started, rate)
            if self.linear is not None and started.index > 0:
                batch = self._leaf_batch(started.batch, rate)
                grown = self.linear.fitted(grown, batch, loss.largest_step(rate))
            done.trees.extend(grown)
            if not started.searching:
                done.factors += [1.0 if tree.linear else rate for tree in grown]
                if started.batch.values is None:
                    self._add(done, first, others, started.sample, is_watched)
                else:
                    self._add_to_others(done, first, others)
        if started.searching:
            steps = find_steps(loss, self.rows, done.trees, self.device)
            done.factors += [rate * step for step in steps]
            self._add(done, 0, others, started.sample, is_watched)
        if self.dropout is not None and started.drop is not None:
            self.dropout.end(started.drop, self.rows, others, self.device)
        for totals in started.unchecked:  # they have arrived: they were requested before the trees
            loss.check_totals(totals, started.where)
        return done

    def _draw(self, index: int) -> Sample:
        """Draw the rows of a round."""
        rows, seed, device = self.rows, self.settings.seed, self.device
        scheme, fraction, top_rate, other_rate = self.settings.sampling
        n = rows.raw.shape[1]
        if scheme == "goss" and index < 1.0 / self.settings.learning_rate(0):  # as in LightGBM
            scheme, fraction = "uniform", 1.0
        if scheme == "uniform" and fraction == 1.0:
            return self._weighted_rows
        if scheme == "uniform":
            drawn = draw_rows(n, fraction, rows.weight, seed, index, device)
            return Sample(drawn, device.xp.empty(0, dtype=np.float32))
        if scheme == "balanced":
            chance = self._balanced
        elif scheme == "goss":
            importance = self._over_outputs(index, lambda g, h: abs(g) * h, np.float32)
            chance = goss_chances(importance, top_rate, other_rate, device)
        else:
            squares = self._over_outputs(index, lambda g, h: g.astype(np.float64) ** 2, np.float64)
            chance = mvs_chances(squares, fraction, device)
        return draw_by_chance(chance, rows.weight, seed, index, device)

    @property
    def _weighted_rows(self) -> Sample:
        """The rows with a positive weight; kept, because finding them waits for a GPU."""
        if self._all_rows is None:
            rows, device = self.rows, self.device
            drawn = draw_rows(rows.raw.shape[1], 1.0, rows.weight, 0, 0, device)
            self._all_rows = Sample(drawn, device.xp.empty(0, dtype=np.float32))
        return self._all_rows

    @property
    def _balanced(self) -> Array:
        """The chance of each row to be drawn, by its class; kept."""
        if self._chances is None:
            classes = self.rows.y.astype(np.int64)
            n_classes = int(largest_of_all(float(classes.max()))) + 1
            fraction = self.settings.sampling.fraction
            self._chances = balanced_chances(classes, n_classes, fraction, self.device)
        return self._chances

    def _growth_of(self, sample: Sample) -> GrowthParams:
        """Return the settings of growth on the rows of a round."""
        params, decrease = self.settings.params, self.settings.min_decrease
        if decrease == 0.0:
            return params
        # Slightly less: the gain is rounded, the number it is compared with is not.
        least = decrease * self._weight_of(sample) * (1.0 - 1e-10)
        return params._replace(min_gain=max(params.min_gain, least))

    def _weight_of(self, sample: Sample) -> float:
        """Return the weight of a round's rows; rows that are drawn with factors count for all."""
        weight, drawn = self.rows.weight, sample.rows
        is_part = drawn.size > 0 and sample.factor.size == 0
        if weight.size:
            return ordered_sum(selected(weight, drawn) if is_part else weight, self.device)
        if is_part:
            return float(count_of_all(0 if drawn is NO_ROWS else drawn.size))
        return float(rows_of_all(self.rows.raw.shape[1]))

    def _over_outputs(self, index: int, term: Callable[[Any, Any], Array], dtype: Any) -> Array:
        """Sum a function of every row's gradient and hessian over the outputs."""
        rows, device = self.rows, self.device
        total = device.xp.zeros(rows.raw.shape[1], dtype=dtype)
        everything = device.xp.empty(0, dtype=np.int32)
        loss = self.loss.at_round(index)
        loss = loss.in_round(rows.y, rows.raw, self.whole_weight, everything, device)
        shared = loss.shared(rows.y, rows.raw, device)
        for k in range(loss.n_outputs):
            g, h = self.g[0], self.h[0]
            self._gradients(loss, k, shared).fill(g, h)
            total += term(g, h)
        return total

    def sizes(self) -> tuple[float, float]:
        """Return the largest size of a gradient and the sum of the hessians, over all outputs."""
        largest, total = 0.0, 0.0
        shared = self.loss.shared(self.rows.y, self.rows.raw, self.device)
        for k in range(self.loss.n_outputs):
            own = self._gradients(self.loss, k, shared)
            totals = own.totals() if self.settings.in_pieces else own.fill(self.g[0], self.h[0])
            largest, total = max(largest, float(totals.max_g)), total + float(totals.sum_h)
        return largest, total

    def gradients_of_rows(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the gradients of some of the rows before the next round, float64 of shape
        (n_outputs, n), for each array of their numbers."""
        found = [np.empty((self.loss.n_outputs, at.size)) for at in rows]
        everything = self.device.xp.empty(0, dtype=np.int32)
        raw, y = self.rows.raw, self.rows.y
        loss = self.loss.at_round(0)
        loss = loss.in_round(y, raw, self.whole_weight, everything, self.device)
        shared = loss.shared(y, raw, self.device)
        for k in range(loss.n_outputs):
            own = self._gradients(loss, k, shared)
            if not self.settings.in_pieces:
                own.fill(self.g[0], self.h[0])
                for of_rows, at in zip(found, rows, strict=True):
                    of_rows[k] = to_numpy(self.g[0][self.device.asarray(at)])
                continue
            for begin, end, g, *_ in own.pieces():
                for of_rows, at in zip(found, rows, strict=True):
                    inside = (at >= begin) & (at < end)
                    of_rows[k, inside] = g[at[inside] - begin]
        return found

    def _gradients(self, loss: Loss, k: int, shared: Array) -> Gradients:
        rows = self.rows
        return Gradients(loss, k, rows.y, rows.raw[k], shared, rows.weight, self.device)

    def _start_batch(self, started: StartedRound, first: int) -> None:
        """Start to grow the trees of a batch of outputs, from ``first`` on."""
        rows, device = self.rows, self.device
        loss, sample = started.loss, started.sample
        outputs = range(first, min(first + self.batch, loss.n_outputs))
        if self.settings.in_pieces:
            started.batch = self._batch_in_pieces(started, first)
            return

        g, h = self.g[: len(outputs)], self.h[: len(outputs)]
        totals = self._measure(started, outputs, g, h)
        if sample.factor.size:

            def scaled(i: int) -> Totals:
                own = scale_statistics(g[i], h[i], sample, device)
                loss.check_totals(own, started.where)
                return own

            totals = each(scaled, range(len(outputs)), g[0])
        started.unchecked += [own for own in totals if not own.is_here]
        number = started.index * loss.n_outputs + first
        if self._is_newton and sample.rows.size == 0:
            draws = Draws(self._rounding_key, self._tree_key, number)
            started.batch = self._added_batch(started, outputs, totals, draws)
            return
        scales = [scales_for(own, g.shape[1]) for own in totals]
        own = g, h, sample.rows, self._rounding_key, number, scales
        records = records_for(rows.codes, *own)
        keys = [_draw(self._tree_key, number + i) for i in range(len(outputs))]
        settings = self._growth_of(sample), self.settings.rules
        trees = grow(rows.codes, self.n_bins, records, np.array(keys, np.uint64), *settings)
        started.batch = StartedBatch(outputs, totals, trees)

    def _added_batch(
        self, started: StartedRound, outputs: range, totals: Sequence[Totals], draws: Draws
    ) -> StartedBatch:
        """Grow trees whose values the raw predictions of the training rows include at once."""
        rows, loss = self.rows, started.loss
        g, h = self.g[: len(outputs)], self.h[: len(outputs)]
        rate = started.rate
        how = rate, loss.largest_step(rate), self._growth_of(started.sample), self.settings.rules
        raw = rows.raw[outputs.start : outputs.stop]
        found = add_newton_trees(rows.codes, self.n_bins, g, h, totals, raw, draws, *how)
        return StartedBatch(outputs, totals, *found)

    def _batch_in_pieces(self, started: StartedRound, k: int) -> StartedBatch:
        """Do the same for one output whose gradients are not kept."""
        rows, loss, rate = self.rows, started.loss, started.rate
        gradients = self._gradients(loss, k, started.shared)
        number = started.index * loss.n_outputs + k
        draws = Draws(self._rounding_key, self._tree_key, number)
        expected = self._scales.get(k, NO_SCALES)
        totals, statistics = gradients.integers(draws, expected, started.where)
        (self._scales[k],) = statistics.scales
        how = rate, loss.largest_step(rate), self._growth_of(started.sample), self.settings.rules
        what = rows.codes, self.n_bins, gradients, totals, statistics
        found = add_tree(*what, draws, *how)
        return StartedBatch(range(k, k + 1), [totals], *found)

    def _measure(
        self, started: StartedRound, outputs: range, g: Array, h: Array
    ) -> Sequence[Totals]:
        """Compute the gradients of a batch of outputs and check them."""
        rows, device, loss = self.rows, self.device, started.loss
        raw = rows.raw[outputs.start : outputs.stop]
        # The values of the round before reach the raw predictions with this pass over the rows.
        update, self._update = self._update, None
        if len(outputs) == 1:
            k = outputs.start
            own = loss.targets(rows.y, k, device), raw[0], started.shared, rows.weight, g[0], h[0]
            totals: Sequence[Totals] = [loss.gradients(k, *own, update)]
        else:
            args = rows.y, raw, started.shared, rows.weight, g, h, device
            totals = loss.gradients_of_outputs(outputs, *args)

        def check(i: int) -> None:
            target = loss.targets(rows.y, outputs[i], device)
            loss.check_gradients(totals[i], g[i], h[i], target, raw[i], started.where)

        if loss.checks_rows:
            each(check, range(len(outputs)), g[0])
        elif started.waits or totals[0].is_here:
            for own_totals in totals:
                loss.check_totals(own_totals, started.where)
        return totals

    def _finish_batch(self, started: StartedRound, rate: float) -> list[OutputTree]:
        """Return the trees of a batch with the values of their nodes, before shrinkage."""
        outputs, _, trees, values = started.batch
        if values is None:
            values = self._values(started, rate)
        leaf = trees.leaf  # a GPU may grow the trees until now, and goes on with their values
        return [OutputTree(trees, i, k, values[i], leaf[i]) for i, k in enumerate(outputs)]

    def _values(self, started: StartedRound, rate: float) -> Sequence[NodeValues]:
        batch = started.batch
        values = started.loss.leaf_values(self._leaf_batch(batch, rate), batch.outputs)
        if not self._is_monotone:
            return values
        monotone = self.settings.rules.monotone

        def bounded(i: int) -> NodeValues:
            own = bound_values(batch.trees, i, monotone, values[i].value)
            return NodeValues(own, values[i].hessian)

        return each(bounded, range(len(batch.outputs)), self.g[0])

    def _leaf_batch(self, batch: StartedBatch, learning_rate: float) -> LeafBatch:
        rows, outputs = self.rows, batch.outputs
        return LeafBatch(
            trees=batch.trees,
            g=self.g[: len(outputs)],
            h=self.h[: len(outputs)],
            totals=batch.totals,
            read_target=lambda i: self.loss.targets(rows.y, outputs[i], self.device),
            raw=rows.raw[outputs.start : outputs.stop],
            weight=rows.weight,
            whole_weight=self.whole_weight,
            params=self.settings.params,
            learning_rate=learning_rate,
            device=self.device,
        )

    def _add(
        self,
        done: GrownRound,
        first: int,
        others: list[TrainingRows],
        sample: Sample,
        is_watched: bool,
    ) -> None:
        """Add the trees of a round, from ``first`` on, to all raw predictions."""
        rows = self.rows
        if done.drop is not None:
            self._weigh(done, first, others)

        def see(tree: OutputTree) -> None:
            tree.find_leaves(rows.codes, tree.leaf)

        if sample.rows.size:  # growth has only seen the leaves of the sample
            each(see, done.trees[first:], rows.raw[0])
        if self.joins_updates and not is_watched:
            (tree,) = done.trees
            self._update = Update(tree.leaf, tree.values, done.factors[0])
        elif done.trees[first].linear is not None:
            for tree in done.trees[first:]:
                self._add_tree(tree, 1.0, tree.leaf, rows)
        else:
            for begin in range(first, len(done.trees), self.batch):
                self._add_batch(done, begin)
        self._add_to_others(done, first, others)

    def _add_to_others(self, done: GrownRound, first: int, others: list[TrainingRows]) -> None:
        """Add the trees from ``first`` on to the raw predictions of evaluation sets."""

        def add(at: int) -> None:
            tree, factor = done.trees[at], done.factors[at]
            for other in others:
                leaf = self.device.xp.full(other.raw.shape[1], -1, dtype=np.int32)
                tree.find_leaves(other.codes, leaf)
                self._add_tree(tree, factor, leaf, other)

        if others:
            each(add, range(first, len(done.trees)), self.rows.raw[0])

    def _weigh(self, done: GrownRound, first: int, others: list[TrainingRows]) -> None:
        """Give the trees of a round with dropout, from ``first`` on, the values that they add."""
        assert self.dropout is not None and done.drop is not None
        for at in range(first, len(done.trees)):
            factor = done.factors[at] * done.drop.share
            everywhere = [self.rows, *others]
            tree = self.dropout.settled(done.drop, done.trees[at], factor, everywhere, self.device)
            done.trees[at], done.factors[at] = tree, 1.0

    def _add_tree(self, tree: OutputTree, factor: float, leaf: Array, rows: TrainingRows) -> None:
        """Add a tree to the raw predictions of rows whose leaves are known."""
        raw = rows.raw[tree.output]
        if tree.linear is None:
            add_leaf_values(raw, leaf, tree.values, factor)
        else:
            assert rows.table is not None
            add_values(tree, rows.table, leaf, raw, self.device)

    def _add_batch(self, done: GrownRound, first: int) -> None:
        """Add the batch of trees from ``first`` on to the raw predictions of the training rows."""
        trees = done.trees[first].trees
        end = first + trees.leaf.shape[0]
        values = [tree.values for tree in done.trees[first:end]]
        raw, factors = self.rows.raw[first:end], done.factors[first:end]
        add_values_of_trees(raw, trees.leaf, values, factors)


_draw = vectorise(draw)
