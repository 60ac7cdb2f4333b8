"""The number of rounds and the learning rate that the data ask for: ``n_estimators="auto"`` and
``learning_rate="auto"``.

Some rows are held out, in turn where there are few. Boosting on the others shows after how many
rounds the metric of those held out is best; that many rounds are then trained on all rows. All
trainings share the bins: rows that are held out have weight zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

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
from ..kernels.runtime.arrays import Array
from .data.auto_values import FIXED_ROUNDS, N_PARTS, folds_of
from .forest_builder import ForestBuilder
from .metrics import Metric
from .round_data import GrownRound, Training, TrainingRows
from .rounds import BoostingRounds
from .steps.many_models import Meeting, RoundsTogether, joins_on_gpu, meeting_here

PATIENCE = 50
"""Rounds without a better metric after which the search ends."""
DATA = "held out"
"""The name of these rows in callbacks."""


def no_model(result: Any) -> Any:
    """Raise RuntimeError: trainings of a search have no callbacks, which would ask for a model."""
    raise RuntimeError("A search for the number of rounds has no model.")


class KeepsNoTrees(BoostingRounds):
    """The rounds of a training without the rows that are held out, which keep no trees."""

    def settle(self, finished: GrownRound) -> None:
        pass

    def keep(self, n_rounds: int) -> None:
        pass


class FoldRounds(KeepsNoTrees):
    """Such rounds, whose trees grow by themselves."""


class JoinedFoldRounds(KeepsNoTrees, RoundsTogether):
    """Such rounds, whose trees grow with those of others."""


def fold_rounds(training: Training, builder: ForestBuilder) -> FoldRounds | JoinedFoldRounds:
    """Return the rounds of a training of a search, which on a GPU are joined with others."""
    kind = JoinedFoldRounds if joins_on_gpu(training) else FoldRounds
    return kind(training, builder, [training.rows], no_model)


class FoldsTogether(Rounds):
    """Trainings that hold out different rows: joined, or a round of each after the other."""

    def __init__(self, folds: Sequence[FoldRounds | JoinedFoldRounds]) -> None:
        self._folds = folds
        self._joined = [fold for fold in folds if isinstance(fold, JoinedFoldRounds)]
        self._meeting = meeting_here.get() or Meeting(1)

    def start(self, index: int) -> Any:
        return self._meeting.wait_for(self._joined, index) if self._joined else index

    def finish(self, started: Any) -> list[GrownRound]:
        if self._joined:
            pairs = zip(self._joined, started, strict=True)
            return [fold.finish(asked) for fold, asked in pairs]
        # A GPU grows one batch of trees at a time: none begins before those of the last are there.
        return [fold.finish(fold.start(started)) for fold in self._folds]

    def settle(self, finished: list[GrownRound]) -> None:
        pass

    def keep(self, n_rounds: int) -> None:
        pass

    def forest(self) -> Forest:
        return self._folds[0].forest()

    def model(self, result: TrainingResult) -> Any:
        return no_model(result)


def rounds_for(
    training: Training,
    builder: ForestBuilder,
    fold_of: np.ndarray,
    n_folds: int,
    metric: Metric,
    has_constant: bool,
    most: int,
) -> tuple[int, float, bool]:
    """Return the number of rounds after which a metric of the rows held out is best, its score
    then, of which higher is better, and whether the search was not ended by Ctrl-C.

    Parameters
    ----------
    training : Training
        On all rows.
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
    with np.errstate(all="ignore"):  # a part may lack what its loss needs
        pairs = [_without(training, fold_of == k, has_constant) for k in range(n_folds)]
    folds = FoldsTogether([fold_rounds(own, builder) for own, _ in pairs])
    held_out = [rows for _, rows in pairs]
    places = [training.device.asarray(np.flatnonzero(fold_of == k)) for k in range(n_folds)]

    def mean(rows: Sequence[TrainingRows]) -> Callable[[], float]:
        # Joined rounds have raw predictions in another array than the one that both began with.
        rows = [replace(own, raw=seen.rows.raw) for own, (seen, _) in zip(rows, pairs, strict=True)]
        if not metric.by_weight:
            weight = training.rows.weight
            rows = [_alone(own, weight, at) for own, at in zip(rows, places, strict=True)]
        later = [metric.compute(own) for own in rows]
        return lambda: _mean_of_known([value() for value in later])

    stopping = EarlyStopping(PATIENCE, 0.0, metric.higher_is_better)
    evaluation = Evaluation(DATA, metric.name, held_out, mean)
    runs_ahead = training.device.runs_ahead
    plan = TrainingPlan(most, 0, {}, [evaluation], stopping, (), True, runs_ahead)
    with np.errstate(over="ignore"):  # a loss that grows without bound ends the search
        found = train(folds, plan)
    if np.isnan(found.evals[DATA][metric.name]).all():
        return FIXED_ROUNDS, -math.inf, True
    # Ctrl-C ends the search alone.
    return max(stopping.best_iteration, 1), stopping.best, found.stopped != INTERRUPTED


def _mean_of_known(values: Sequence[float]) -> float:
    """Return the mean of a metric over the parts that have what it needs, such as both classes."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _without(
    training: Training, is_held_out: np.ndarray, has_constant: bool
) -> tuple[Training, TrainingRows]:
    """Return a training without some rows, and these rows; both have the raw predictions of all.
    Losses keep what they derive from targets and weights: each set has targets of its own."""
    rows, device, loss = training.rows, training.device, training.loss
    out = device.asarray(is_held_out)
    weight = rows.weight if rows.weight.size else device.xp.ones(training.n_rows)
    own = replace(rows, y=rows.y.copy(), weight=weight * ~out, raw=rows.raw.copy())
    target = own.y.astype(np.float64, copy=False)
    base = loss.base_score(target, own.weight, device)
    loss = loss.on_training_rows(target, own.weight, base, device)
    if has_constant:
        own.raw[...] = device.asarray(base)[:, None]
    held_out = replace(own, y=rows.y.copy(), weight=weight * out)
    return replace(training, rows=own, loss=loss), held_out


def _alone(rows: TrainingRows, weight: Array, at: Array) -> TrainingRows:
    """Return the rows held out without the others, for functions that take no weights."""
    own = weight[at] if weight.size else weight
    return replace(rows, y=rows.y[..., at], weight=own, raw=rows.raw[:, at])


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
