"""The number of rounds and the learning rate that the data ask for: ``n_estimators="auto"`` and
``learning_rate="auto"``.

Some rows are held out, in turn where there are few. Boosting on the others shows after how many
rounds the metric of those held out is best; that many rounds are then trained on all rows. All
trainings share the bins: rows that are held out have weight zero.

Where leaf-wise and symmetric trees come into question, a part of these trainings decides between
them first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..devices.placement import to_numpy
from ..estimators.training import (
    INTERRUPTED,
    Evaluation,
    Rounds,
    TrainingPlan,
    TrainingResult,
    train,
)
from ..estimators.validation import EarlyStopping
from ..forest.forest import Forest
from ..kernels.growth.params import GrowthParams
from ..numerics.weighted import Later
from .data.auto_values import AUTO, FIXED_ROUNDS, N_PARTS, folds_of, tries_symmetric
from .forest_builder import ForestBuilder
from .metrics import Metric
from .parameters import of_symmetric_trees
from .round_data import GrownRound, Training
from .rounds import BoostingRounds
from .steps.many_models import (
    AskedRounds,
    Meeting,
    RoundsTogether,
    can_meet,
    joins_on_gpu,
    meeting_here,
)

PATIENCE = 50
"""Rounds without a better metric after which the search ends."""
ROWS_THAT_DECIDE = 150
"""Rows held out that decide between shapes of trees, if there are so many."""
DATA = "held out"
"""The name of these rows in callbacks."""


def no_model(result: Any) -> Any:
    """Raise RuntimeError: trainings of a search have no callbacks, which would ask for a model."""
    raise RuntimeError("A search for the number of rounds has no model.")


class FoldRounds(BoostingRounds):
    """The rounds of a training without the rows that are held out, which keep no trees."""

    def settle(self, finished: GrownRound) -> None:
        pass

    def keep(self, n_rounds: int) -> None:
        pass


class JoinedFoldRounds(FoldRounds, RoundsTogether):
    """Such rounds, whose trees grow with those of others."""


def fold_rounds(training: Training, builder: ForestBuilder) -> FoldRounds:
    """Return the rounds of a training of a search, which on a GPU are joined with others."""
    kind = JoinedFoldRounds if joins_on_gpu(training) else FoldRounds
    return kind(training, builder, [training.rows], no_model)


class HeldOutRows:
    """Rows that a training does without, and their metric before and after each of its rounds."""

    def __init__(
        self, training: Training, builder: ForestBuilder, is_held_out: np.ndarray, metric: Metric,
        has_constant: bool,
    ) -> None:  # fmt: skip
        own, rows = _without(training, is_held_out, has_constant), training.rows
        self._at = training.device.asarray(np.flatnonzero(is_held_out))
        weight = rows.weight[self._at] if rows.weight.size else rows.weight
        y = training.device.xp.take(rows.y, self._at, axis=-1)
        self._rows = replace(own.rows, y=y, weight=weight)
        self._compute = metric.compute
        self._known: list[Later] = []
        self.asked: AskedRounds | None = None
        self.rounds = fold_rounds(own, builder)
        self._measure()

    def lacks(self, n_rounds: int) -> bool:
        return len(self._known) <= n_rounds

    def finish(self, index: int) -> None:
        """Finish a round, which joined ones have asked for, and ask for the metric after it."""
        asked, self.asked = self.asked, None
        started: Any = self.rounds.start(index) if asked is None else asked
        self.rounds.finish(started)
        self._measure()

    def _measure(self) -> None:
        # Joined rounds have raw predictions in another array than the one that all began with.
        training = self.rounds.training
        # ``take`` keeps the order of rows that kernels are compiled for, as indexing does not.
        self._rows.raw = training.device.xp.take(training.rows.raw, self._at, axis=-1)
        self._known.append(self._compute(self._rows))

    def after(self, n_rounds: int) -> Later:
        """Return the metric after so many rounds, which may be none."""
        return self._known[n_rounds]

    def remember(self, n_rounds: int, value: float) -> None:
        """Keep a metric in place of what waits for it."""
        self._known[n_rounds] = lambda: value


class FoldsTogether(Rounds):
    """Trainings that hold out different rows: joined, or a round of each after the other."""

    def __init__(self, folds: Sequence[HeldOutRows]) -> None:
        self._folds, self._n_rounds = folds, 0
        self._meeting = meeting_here.get() or Meeting(1, 1)
        # An earlier search may have asked for a round that it did not need. Other models of the
        # meeting may have finished it, so that it must not be asked for again.
        for fold in folds:
            if fold.asked is not None and fold.asked.joined is not None:
                fold.asked.joined.finish()

    def start(self, index: int) -> int:
        """Begin the round of those that lack it, if they are joined."""
        asking = [fold for fold in self._folds if fold.lacks(index + 1) and fold.asked is None]
        joined = [each.rounds for each in asking if isinstance(each.rounds, JoinedFoldRounds)]
        if joined:  # all are, or none
            asked = self._meeting.wait_for(joined, index, index + 1)
            for fold, own in zip(asking, asked, strict=True):
                fold.asked = own
        return index

    def finish(self, started: int) -> int:
        # A GPU grows one batch of trees at a time: none begins before those of the last are there.
        self._n_rounds = started + 1
        for fold in self._folds:
            if fold.lacks(self._n_rounds):
                fold.finish(started)
        return self._n_rounds

    def measure(self, folds: Sequence[HeldOutRows]) -> Later:
        """Return the mean of the metric over the parts that have what it needs."""
        n_rounds = self._n_rounds
        later = [fold.after(n_rounds) for fold in folds]

        def mean() -> float:
            values = [value() for value in later]
            for fold, value in zip(folds, values, strict=True):
                fold.remember(n_rounds, value)
            return _mean_of_known(values)

        return mean

    def settle(self, finished: int) -> None:
        pass

    def keep(self, n_rounds: int) -> None:
        pass

    def forest(self) -> Forest:
        return self._folds[0].rounds.forest()

    def model(self, result: TrainingResult) -> Any:
        return no_model(result)


@dataclass
class CatchingUp(EarlyStopping):
    """Stop also where the score of a rival is further off than what the last doubling of the rounds
    has gained: the next one will gain less."""

    rival: float = math.nan
    _bests: list[float] = field(default_factory=list, init=False)

    def update(self, iteration: int, value: float) -> bool:
        stops = super().update(iteration, value)
        self._bests.append(self.best)
        n_rounds = len(self._bests) - 1
        gained = self.best - self._bests[n_rounds // 2]
        return stops or (n_rounds >= self.patience and self.rival - self.best > gained)


class FoundRounds(NamedTuple):
    """The number of rounds after which the metric of rows held out is best, its score then, of
    which higher is better, and whether the search was not ended by Ctrl-C."""

    n_rounds: int
    score: float
    is_whole: bool


def best_training(
    trainings: Sequence[Training],
    builder: ForestBuilder,
    fold_of: np.ndarray,
    n_folds: int,
    metric: Metric,
    has_constant: bool,
    most: int,
) -> tuple[Training, int]:
    """Return the training that is best for rows held out, and its number of rounds.

    Of several trainings those that hold out the first ``ROWS_THAT_DECIDE`` rows decide; the rest
    are needed for the rounds of the best one alone. One that cannot catch up is given up.

    Parameters
    ----------
    trainings : sequence of Training
        On all rows; the first of equal ones is taken, and the last where no metric is known.
    builder : ForestBuilder
        Without a tree.
    fold_of : integers, shape (n_rows,), NumPy
        The training that holds a row out; others than 0 … n_folds - 1: none.
    n_folds : int
    metric : Metric
    has_constant : bool
        Whether raw predictions begin with the best constant; else with those of all rows.
    most : int
        Rounds.
    """

    def folds_of(training: Training, numbers: range) -> list[HeldOutRows]:
        with np.errstate(all="ignore"):  # a part may lack what its loss needs
            return [
                HeldOutRows(training, builder, fold_of == k, metric, has_constant) for k in numbers
            ]

    n_few, best = n_folds, FoundRounds(0, math.nan, True)
    if len(trainings) > 1:
        n_few = min(-(-ROWS_THAT_DECIDE // max(int((fold_of == 0).sum()), 1)), n_folds)
    for each in trainings:
        few = folds_of(each, range(n_few))
        found = rounds_for(few, metric, most, best.score, each.device.runs_ahead)
        if best.n_rounds == 0 or best.score == -math.inf or found.score > best.score:
            training, folds, best = each, few, found
        if not found.is_whole:
            return training, best.n_rounds
    if n_few < n_folds:
        folds += folds_of(training, range(n_few, n_folds))
        found = rounds_for(folds, metric, most, math.nan, training.device.runs_ahead)
        if found.is_whole or found.n_rounds > best.n_rounds:
            best = found
    return training, best.n_rounds


def rounds_for(
    folds: Sequence[HeldOutRows], metric: Metric, most: int, rival: float, runs_ahead: bool
) -> FoundRounds:
    """Search for the rounds of trainings that hold out rows, as long as they may reach the score of
    a rival, if it has one."""
    stopping = CatchingUp(PATIENCE, 0.0, metric.higher_is_better, rival)
    together = FoldsTogether(folds)
    evaluation = Evaluation(DATA, metric.name, folds, together.measure)
    plan = TrainingPlan(most, 0, {}, [evaluation], stopping, (), True, runs_ahead)
    with np.errstate(over="ignore"):  # a loss that grows without bound ends the search
        found = train(together, plan)
    if np.isnan(found.evals[DATA][metric.name]).all():
        return FoundRounds(min(FIXED_ROUNDS, most), -math.inf, True)
    # Ctrl-C ends the search alone.
    return FoundRounds(max(stopping.best_iteration, 1), stopping.best, found.stopped != INTERRUPTED)


def _mean_of_known(values: Sequence[float]) -> float:
    """Return the mean of a metric over the parts that have what it needs, such as both classes."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _without(training: Training, is_held_out: np.ndarray, has_constant: bool) -> Training:
    """Return a training in which some rows have no weight. Losses keep what they derive from
    targets and weights: each training has targets of its own."""
    rows, device, loss = training.rows, training.device, training.loss
    weight = rows.weight if rows.weight.size else device.xp.ones(training.n_rows)
    weight = weight * ~device.asarray(is_held_out)
    own = replace(rows, y=rows.y.copy(), weight=weight, raw=rows.raw.copy())
    target = own.y.astype(np.float64, copy=False)
    base = loss.base_score(target, own.weight, device)
    loss = loss.on_training_rows(target, own.weight, base, device)
    if has_constant:
        own.raw[...] = device.asarray(base)[:, None]
    return replace(training, rows=own, loss=loss)


def draw_folds(training: Training, labels: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    """Deal the rows to trainings that hold them out; returns the number of these, too.

    Parameters
    ----------
    training : Training
    labels : integers, shape (n_rows,), NumPy
        The classes, of which each training holds out as many as of the others; or numbers of
        queries, negative, whose rows stay together; or (0,). Rows of weight zero are not dealt.
    seed : int
    """
    rows = np.arange(training.n_rows)
    if training.rows.weight.size:
        rows = np.flatnonzero(to_numpy(training.rows.weight) > 0)
    n = rows.size
    n_folds = folds_of(n)
    n_parts = N_PARTS if n_folds <= 2 else N_PARTS // 2
    rng = np.random.default_rng(seed)
    fold_of = np.full(training.n_rows, n_parts)
    if labels.size and labels.min() < 0:
        _, query = np.unique(labels[rows], return_inverse=True)
        fold_of[rows] = rng.permutation(query.max() + 1)[query] % n_parts
        return fold_of, n_folds
    order = rng.permutation(n)
    if labels.size:
        order = order[np.argsort(labels[rows][order], kind="stable")]
    fold_of[rows[order]] = np.arange(n) % n_parts
    return fold_of, n_folds


def shapes_to_try(
    model: Any, params: GrowthParams, is_sparse: bool, shape: tuple[int, int]
) -> list[GrowthParams]:
    """Return the shapes of trees that a search for rounds compares, for so many rows that can be
    held out and features."""
    if is_sparse or not tries_symmetric(model, shape):
        return [params]
    return [of_symmetric_trees(model, params), params]


def training_by_search(
    model: Any, training: Training, builder: ForestBuilder, metric: Metric, most: int,
    shapes: Sequence[GrowthParams],
) -> tuple[Training, int]:  # fmt: skip
    """Return the training of a model and the number of rounds that are best for rows held out."""
    meeting = meeting_here.get()
    if meeting is not None and can_meet(training):
        meeting.share_table(training)  # parts of several models then grow as one batch
    fold_of, n_folds = draw_folds(training, model._labels_of_folds(training), model._seed)
    has_constant = getattr(model, "init", None) is None
    settings = [replace(training.settings, params=params) for params in shapes]
    trainings = [replace(training, settings=own) for own in settings]
    training, n_rounds = best_training(
        trainings, builder, fold_of, n_folds, metric, has_constant, most
    )
    is_symmetric = training.settings.params.is_symmetric == 1
    tried = "symmetric" if is_symmetric else "lossguide"
    model.grow_policy_ = tried if model.grow_policy == AUTO else model.grow_policy
    if model.verbose:
        trees = " of symmetric trees" if is_symmetric else ""
        print(
            f"n_estimators='auto': {n_rounds} rounds{trees}, by the {metric.name} of rows held out",
            file=sys.stderr,
        )
    return training, n_rounds
