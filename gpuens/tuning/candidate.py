"""A setting that is tried: trainings without the rows of each fold, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..boosting.auto import fold_rounds, no_model
from ..boosting.data.auto_values import MOST_ROUNDS
from ..boosting.forest_builder import ForestBuilder
from ..boosting.metrics import Metric
from ..boosting.round_data import RoundSettings, Training, TrainingRows
from ..boosting.rounds import BoostingRounds
from ..boosting.steps.many_models import RoundsTogether, joins_on_gpu, meeting_here
from ..combining.folds import Fold
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.lazy_jit import lazy_property

PROGRESS, GROWTH = 0.25, 1.05
"""From one measurement to the next the learning rates of the rounds add up to ``PROGRESS`` at
least, and their number grows by ``GROWTH``."""
PATIENCE, PATIENT, LEAST_GAIN = 2.5, 1.15, 0.001
"""A training ends where no measurement is better by ``LEAST_GAIN`` though the learning rates of
later rounds add up to ``PATIENCE``, and the rounds are ``PATIENT`` times as many. What is gained by
smaller steps (0.2 % at most, on four tables) took a seventh of the time."""
Map = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Calls a function for some items, perhaps in threads."""


@dataclass(frozen=True)
class FoldedTable:
    """The rows that all settings share.

    Parameters
    ----------
    training : Training
        On all rows; its raw predictions are those before the first round.
    forest : Forest
        Without a tree.
    folds : sequence of Fold
    metric : Metric
    codes : sequence of Codes, SparseCodes or StreamedCodes
        Those of the rows, one for each training that may run at a time: growth keeps its workspace
        for as long as this array lives.
    has_constant : bool
        Whether raw predictions begin with the best constant; else with those of all rows.
    """

    training: Training
    forest: Forest
    folds: Sequence[Fold]
    metric: Metric
    codes: Sequence[Any]
    has_constant: bool = True

    def builder(self) -> ForestBuilder:
        """Return a new forest without trees."""
        return ForestBuilder(self.forest.n_features, self.forest.base, self.forest)

    def rows(self, k: int, weight: Array) -> TrainingRows:
        """Return the rows of training ``k`` of those that run together, with other weights, and raw
        predictions of their own. Losses keep what they derive from targets and weights: each
        training has targets of its own."""
        rows = self.training.rows
        own = {"y": rows.y.copy(), "weight": weight, "raw": rows.raw.copy()}
        return replace(rows, codes=self.codes[k % len(self.codes)], **own)

    def without(self, k: int, settings: RoundSettings) -> Training:
        """Return a training on the rows that fold ``k`` sees; the others have weight zero."""
        rows, device, loss = self.training.rows, self.training.device, self.training.loss
        seen = np.zeros(self.training.n_rows)
        seen[self.folds[k].seen] = 1.0
        weight = device.asarray(seen)
        own = self.rows(k, rows.weight * weight if rows.weight.size else weight)
        target = own.y.astype(np.float64, copy=False)
        base = loss.base_score(target, own.weight, device)
        loss = loss.on_training_rows(target, own.weight, base, device)
        if self.has_constant:
            own.raw[...] = device.asarray(base)[:, None]
        return replace(self.training, rows=own, loss=loss, settings=settings)

    @lazy_property
    def held_out(self) -> TrainingRows:
        """The rows that the folds ask for, one fold after the other."""
        rows, device = self.training.rows, self.training.device
        at = device.asarray(np.concatenate([fold.asked for fold in self.folds]))
        weight = rows.weight[at] if rows.weight.size else rows.weight
        return replace(rows, y=rows.y[..., at], weight=weight, raw=rows.raw[:, at])

    def score(self, raw: Array) -> float:
        """Return the metric of raw predictions of the rows held out, lower is better; infinity
        where it is unknown."""
        value = self.metric.compute(replace(self.held_out, raw=raw))()
        if math.isnan(value):
            return math.inf
        return -value if self.metric.higher_is_better else value


class Candidate:
    """A setting that is tried.

    Attributes
    ----------
    score : float
        The best one so far on the rows held out, lower is better; infinity before one is known.
    n_rounds : int
        The number of rounds that it was reached with.
    raw : float64, shape (n_outputs, n_held_out), or None
        The raw predictions of the rows held out after as many.
    n_trained : int
        Rounds of the trainings.
    seconds : float
        Of a training to the best round.
    fit_time : float
        Seconds of all trainings; those whose rounds are joined share each second.
    """

    def __init__(
        self, number: int, params: dict[str, Any], settings: RoundSettings, table: FoldedTable
    ) -> None:
        self.number, self.params, self.settings, self._table = number, params, settings, table
        self.rate = float(settings.learning_rate(0))
        self.score, self.n_rounds, self.n_trained = math.inf, 0, 0
        self.seconds = self.fit_time = 0.0
        self.raw: Array | None = None

    def train(self, run: Map, clock: Callable[[], float], stops: Callable[[], bool]) -> None:
        """Train without each of the folds until no round seems to become better than the best.
        ``clock`` returns seconds, ``stops`` whether time is up."""
        table, folds = self._table, self._table.folds
        parts = [fold_rounds(table.without(k, self.settings), table.builder())
                 for k in range(len(folds))]  # fmt: skip
        n_sharing = len(parts) if isinstance(parts[0], RoundsTogether) else 1
        at = [table.training.device.asarray(fold.asked) for fold in folds]
        spent, best, best_score = [0.0 for _ in folds], 0, math.inf
        step = max(1, round(PROGRESS / self.rate))

        def grow(k: int) -> Array:
            begin = clock()
            with np.errstate(over="ignore", invalid="ignore"):
                for index in range(self.n_trained, n_rounds):
                    parts[k].finish(parts[k].start(index))
            spent[k] += clock() - begin
            return parts[k].training.rows.raw[:, at[k]]

        while self.n_trained < self._last(best) and not stops():
            n_rounds = max(self.n_trained + step, round(self.n_trained * GROWTH))
            n_rounds = min(n_rounds, MOST_ROUNDS)
            raws = run(grow, range(len(parts)))
            raw = table.training.device.xp.concat(raws, axis=1) if len(raws) > 1 else raws[0]
            score, seconds = table.score(raw), sum(spent) / len(spent)
            found: dict[str, Any] = {"n_trained": n_rounds, "fit_time": sum(spent) / n_sharing}
            if score < self.score:
                found |= {"score": score, "n_rounds": n_rounds, "raw": raw, "seconds": seconds}
            if score < best_score - LEAST_GAIN * abs(score):
                best, best_score = n_rounds, score
            vars(self).update(found)  # in one step, before or after which Ctrl-C may come

    def _last(self, best: int) -> int:
        """Return the round with which patience is out, where one is the best so far."""
        return min(max(round(best * PATIENT), best + round(PATIENCE / self.rate)), MOST_ROUNDS)

    def refit(self, k: int, seed: int, forests: dict[int, Forest]) -> None:
        """Train the best number of rounds on all rows, with a seed, as training ``k`` of those
        together, and add its forest: after Ctrl-C that of the rounds which are finished."""
        table, builder = self._table, self._table.builder()
        rows = table.rows(k, table.training.rows.weight)
        settings = replace(self.settings, seed=seed)
        training = replace(table.training, rows=rows, settings=settings)
        meets = meeting_here.get() is not None and joins_on_gpu(training)
        kind = RoundsTogether if meets else BoostingRounds
        rounds = kind(training, builder, [], no_model)
        n_done = 0
        try:
            while n_done < self.n_rounds:
                rounds.settle(rounds.finish(rounds.start(n_done)))
                n_done += 1
        finally:
            rounds.keep(n_done)
            forests[k] = builder.freeze()
