"""Gradient boosting, a round on one page (Friedman 2001, "Greedy function approximation").

A round draws rows, computes gradients, grows a tree for every output of the loss, gives its leaves
their values and adds it to the raw predictions. These steps are in ``steps.plain``; others may take
their place:

    sample        the schemes are in ``steps.sampling``
    gradients     ``steps.pieces``: of a part of the rows at a time, where not all fit into memory
    grow          ``steps.fused``: in one call with leaf values and update, on the CPU, where leaf
                  values are Newton steps: a loss with ``leaf_values`` of its own is never fused
                  (``takes_newton_steps``)
    leaf values   ``steps.linear_leaves``: functions of the features in place of constants
    trees         ``steps.one_tree``: one for all outputs, with a value of each in every leaf
    update        ``steps.fused``: joined with the next gradients, on a GPU

``steps.line_search`` comes between values and update; ``steps.dropout`` has rounds of its own. The
raw predictions before the first round are those of ``boosting/start.py``. After each round
``estimators/training.py`` computes the metrics, and decides whether to stop.

A loss (``gpuens/losses``) is asked for its rate and its state in a round (``safe_rate``,
``in_round``), for what the gradients of all outputs share (``shared``), for gradients
(``gradients``) and for the values of leaves (``leaf_values``), by default Newton steps.

Where workers share the rows of the table, every operation that sums over rows gets
``training.rows.workers``: without it the sum is that of this worker's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..estimators.training import Rounds, TrainingResult
from ..forest.forest import Forest
from ..kernels.runtime.collective import rows_of_all
from .forest_builder import ForestBuilder
from .round_data import (
    BoostingResult,
    Drop,
    GrownRound,
    OutputTree,
    Round,
    Training,
    TrainingRows,
)
from .steps.fused import FusedGrowth, JoinedUpdates, can_fuse, can_join
from .steps.line_search import searched
from .steps.linear_leaves import LinearLeafValues, LinearUpdates
from .steps.one_tree import OneTreeGrowth, OneTreeUpdates, OneTreeValues, ProjectedGradients
from .steps.pieces import PieceGradients, PieceGrowth
from .steps.plain import Batch, Gradients, LeafValues, RowSampler, TreeGrowth, Updates, batch_size


class BoostingRounds(Rounds):
    """The rounds of boosting.

    Parameters
    ----------
    training : Training
    builder : ForestBuilder
        Collects the trees, and holds those of the rounds before.
    watched : sequence of TrainingRows
        Rows whose metrics are computed after every round. Several metrics may share their rows,
        whose raw predictions are updated once.
    model : callable
        Makes a fitted estimator from a result, for callbacks.
    """

    fuses = True
    """Whether steps may be done in one. Dropout says no: it changes the values of trees before they
    are added."""

    def __init__(
        self,
        training: Training,
        builder: ForestBuilder,
        watched: Sequence[TrainingRows],
        model: Callable[[BoostingResult], Any],
    ) -> None:
        self.training, self.builder, self._model = training, builder, model
        self.others = list({id(own): own for own in watched if own is not training.rows}.values())
        size = n_outputs = training.loss.n_outputs
        n_rows = rows_of_all(training.n_rows, training.rows.workers)
        if not training.settings.one_tree:
            n_features, params = training.n_bins.size, training.settings.params
            size = batch_size(n_outputs, n_rows, n_features, params, training.device)
        starts = range(0, n_outputs, size)
        self.batches = [range(first, min(first + size, n_outputs)) for first in starts]
        self._n_trees = 1 if training.settings.one_tree else n_outputs
        self._choose_steps(any(own is training.rows for own in watched))

    def _choose_steps(self, are_rows_watched: bool) -> None:
        training, settings = self.training, self.training.settings
        fuses = self.fuses and can_fuse(training)
        joins = self.fuses and can_join(training, are_rows_watched)
        gradients: Gradients
        growth: TreeGrowth
        if settings.one_tree:
            gradients = ProjectedGradients(training)
            growth = OneTreeGrowth(training, gradients)
        elif settings.in_pieces:
            gradients = PieceGradients(training)
            growth = PieceGrowth(training, gradients)
        else:
            gradients = Gradients(training, len(self.batches[0]))
            growth = (FusedGrowth if fuses else TreeGrowth)(training, gradients)
        is_linear = settings.ridge is not None
        updates = LinearUpdates if is_linear else JoinedUpdates if joins else Updates
        values = LinearLeafValues if is_linear else LeafValues
        if settings.one_tree:
            values, updates = OneTreeValues, OneTreeUpdates
        self.gradients, self._growth = gradients, growth
        self.sampler = RowSampler(training, gradients)
        self._leaf_values = values(training, gradients)
        self._updates = updates(training, self.others)

    def round(self, index: int) -> Iterator[Any]:
        """Run a round, counted from 0: ``start`` runs it to the first ``yield``, ``finish`` to the
        second, which returns the ``GrownRound``. In between a GPU grows the trees of the first
        batch of outputs, while ``estimators.training.train`` measures the round before.

        Raises
        ------
        ValueError
            The gradients were not finite.
        """
        training, round_ = self.training, self.begin(index)
        rows = training.rows
        round_.shared = round_.loss.shared(rows.y, rows.raw, training.device)
        # Leaf values that minimise the loss already, as medians do, need no line search.
        searches = training.settings.line_search and not round_.loss.exact_leaves
        trees: list[OutputTree] = []
        for outputs in self.batches:
            totals = self.gradients.compute(round_, outputs, self._updates.pending())
            batch = self._growth.start(round_, outputs, totals)
            if outputs.start == 0:
                yield  # to ``start``
            grown = self._leaf_values.trees(round_, batch)
            trees += grown if searches else self.add(round_, grown, batch)
        if searches:
            trees = self.add(round_, searched(training, round_, trees))
        self.end(round_)
        yield GrownRound(index, trees, round_.drop)

    def begin(self, index: int, adapts: bool = True) -> Round:
        """Draw the rows of a round, and adapt the loss to it (``Loss.in_round``), unless
        ``steps.joined_round`` adapts the losses of several models at once."""
        training, rows = self.training, self.training.rows
        rate = training.loss.safe_rate(training.settings.learning_rate(index))
        drop = self.leave_out(index, rate)
        sample = self.sampler.draw(index)
        loss = training.loss
        if adapts:
            whole, device = training.whole_weight, training.device
            loss = loss.in_round(index, rows.y, rows.raw, whole, sample.rows, device)
        return Round(index, loss, rate, sample, drop)

    def leave_out(self, index: int, rate: float) -> Drop | None:
        """Take the trees that a round leaves out from the raw predictions of the training rows:
        none, but with dropout."""
        return None

    def add(
        self, round_: Round, trees: list[OutputTree], batch: Batch | None = None
    ) -> list[OutputTree]:
        """Add trees, those of ``batch`` or of all outputs, to all raw predictions; return them as
        the model gets them."""
        if batch is not None and batch.values is not None:  # a fused step has added them already
            self._updates.add_to_others(trees)
        else:
            self._updates.add(round_, trees)
        return trees

    def end(self, round_: Round) -> None:
        """Check the sums of gradients that ``Gradients.compute`` left to a GPU. They have arrived:
        they were requested before the trees, which are here."""
        for totals in round_.unchecked:
            round_.loss.check_totals(totals, round_)

    def start(self, index: int) -> Iterator[Any]:
        started = self.round(index)
        next(started)
        return started

    def finish(self, started: Iterator[Any]) -> GrownRound:
        grown: GrownRound
        (grown,) = started  # which ends it
        return grown

    def settle(self, finished: GrownRound) -> None:
        width = len(finished.trees) // self._n_trees
        for first in range(0, len(finished.trees), width):
            self.builder.append(finished.trees[first : first + width], self.training.binner)

    def keep(self, n_rounds: int) -> None:
        self.builder.keep(n_rounds * self._n_trees)

    def forest(self) -> Forest:
        return self.builder.freeze()

    def model(self, result: TrainingResult) -> Any:
        return self._model(self.result(result))

    def result(self, result: TrainingResult) -> BoostingResult:
        """Return the forest with the rest of a result."""
        forest = self.builder.freeze()
        return BoostingResult(forest, result.n_rounds, result.evals, result.stopped, result.error)
