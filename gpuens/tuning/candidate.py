"""A setting that is tried: trainings without the rows of a fold, of more folds where it is good."""

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

PROGRESS, GROWTH = 0.25, 1.05
"""From one measurement to the next the learning rates of the rounds add up to ``PROGRESS`` at
least, and their number grows by ``GROWTH``."""
PATIENCE, PATIENT, LEAST_GAIN = 2.5, 1.15, 0.001
"""A training ends where no measurement is better by ``LEAST_GAIN`` though the learning rates of
later rounds add up to ``PATIENCE``, and the rounds are ``PATIENT`` times as many. What is gained by
smaller steps (0.2 % at most, on four tables) took a seventh of the time."""
HeldOut = Callable[[int, int], TrainingRows]
"""Returns the rows held out by the folds from one number to before another."""
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

    def held_out(self, first: int, last: int) -> TrainingRows:
        """Return the rows that the folds before ``last`` ask for, one fold after the other."""
        rows, device = self.training.rows, self.training.device
        at = device.asarray(np.concatenate([fold.asked for fold in self.folds[first:last]]))
        weight = rows.weight[at] if rows.weight.size else rows.weight
        return replace(rows, y=rows.y[..., at], weight=weight, raw=rows.raw[:, at])

    def score(self, held_out: TrainingRows, raw: Array) -> float:
        """Return the metric of raw predictions of the rows held out, lower is better; infinity
        where it is unknown."""
        value = self.metric.compute(replace(held_out, raw=raw))()
        if math.isnan(value):
            return math.inf
        return -value if self.metric.higher_is_better else value


class Candidate:
    """A setting on its way.

    Attributes
    ----------
    n_folds : int
        Folds that it was trained without, the first ones.
    scores : dict of int to float
        Its score on the rows held out, lower is better, by the number of folds.
    n_rounds : int
        Its best number of rounds.
    n_trained : int
        Rounds of its longest training.
    is_over : bool
        Whether no more trainings will follow.
    fit_time : float
        Seconds of all trainings so far; trainings whose rounds are joined share each second.
    """

    def __init__(
        self, number: int, params: dict[str, Any], settings: RoundSettings, table: FoldedTable
    ) -> None:
        self.number, self.params, self.settings, self._table = number, params, settings, table
        self.rate = float(settings.learning_rate(0))
        self._step = max(1, round(PROGRESS / self.rate))
        self.n_folds, self.n_rounds, self.n_trained = 0, 0, 0
        self.scores: dict[int, float] = {}
        self.is_over = False
        self.fit_time, self._seconds, self._n_finished = 0.0, 0.0, 0
        self._raws: dict[int, Array] = {}

    @property
    def score(self) -> float:
        return self.scores.get(self.n_folds, math.inf)

    @property
    def raw(self) -> Array:
        """The raw predictions of the rows held out after the best round, float64 of shape
        (n_outputs, n_held_out)."""
        return self._raws[self.n_rounds]

    @property
    def seconds(self) -> float:
        """What a training to the best round takes."""
        return self._seconds * self.n_rounds / max(self._n_finished, 1)

    def advance(
        self, n_folds: int, held_out: HeldOut, run: Map, clock: Callable[[], float],
        stops: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Train without each of further folds, until no round seems to become better than the best.
        ``clock`` returns seconds; nothing changes where ``stops`` returns that time is up."""
        self.is_over = True  # of what an interruption leaves half done
        raws = self._train(range(self.n_folds, n_folds), held_out, run, clock, stops)
        if not raws:
            return
        if self._raws:
            xp, both = self._table.training.device.xp, self._raws.keys() & raws.keys()
            raws = {n: xp.concat([self._raws[n], raws[n]], axis=1) for n in sorted(both)}
        self.n_folds, rows = n_folds, held_out(0, n_folds)
        known = {n: self._table.score(rows, raw) for n, raw in raws.items()}
        self.n_rounds = min(known, key=known.__getitem__)
        self.scores[n_folds] = known[self.n_rounds]
        # Other folds will hardly be best after less than half of the rounds.
        self._raws = {n: raw for n, raw in raws.items() if 2 * n >= self.n_rounds}
        self.is_over = n_folds == len(self._table.folds)
        if self.is_over:
            self._raws = {self.n_rounds: self.raw}

    def _train(
        self, folds: range, held_out: HeldOut, run: Map, clock: Callable[[], float],
        stops: Callable[[], bool],
    ) -> dict[int, Array]:  # fmt: skip
        """Return the raw predictions of the rows held out at some numbers of rounds; none where
        time is up before the end."""
        table, rows = self._table, held_out(folds.start, folds.stop)
        parts = [fold_rounds(table.without(k, self.settings), table.builder()) for k in folds]
        raws: dict[int, Array] = {}
        n_sharing = len(parts) if isinstance(parts[0], RoundsTogether) else 1
        n_done, best, best_score = 0, 0, math.inf

        def grow(k: int) -> tuple[list[Array], float]:
            begin, found, rounds = clock(), [], parts[k]
            at = table.training.device.asarray(table.folds[folds[k]].asked)
            with np.errstate(over="ignore", invalid="ignore"):
                for index in range(n_done, points[-1]):
                    if stops():
                        return [], 0.0
                    rounds.finish(rounds.start(index))
                    if index + 1 in points:
                        found.append(rounds.training.rows.raw[:, at])
            return found, clock() - begin

        while points := self._points(n_done, best):
            found = run(grow, range(len(folds)))
            if not all(own for own, _ in found):
                return {}
            spent = sum(seconds for _, seconds in found)
            self.fit_time += spent / n_sharing
            self._seconds += spent
            self._n_finished += (points[-1] - n_done) * len(folds)
            xp, n_done = table.training.device.xp, points[-1]
            for n, own in zip(points, zip(*(own for own, _ in found), strict=True), strict=True):
                raws[n] = xp.concat(own, axis=1) if len(own) > 1 else own[0]
                score = table.score(rows, raws[n])
                if score < best_score - LEAST_GAIN * abs(score):
                    best, best_score = n, score
            self.n_trained = max(self.n_trained, n_done)
        return raws

    def _points(self, n_done: int, best: int) -> list[int]:
        """Return the numbers of rounds at which to measure next, until patience is out, but not
        before earlier folds were best; none where the training ends."""
        patient = max(round(best * PATIENT), best + round(PATIENCE / self.rate), self.n_rounds)
        points = [n_done]
        while points[-1] < min(patient, MOST_ROUNDS):
            further = max(points[-1] + self._step, round(points[-1] * GROWTH))
            points.append(min(further, MOST_ROUNDS))
        return points[1:]

    def forget(self) -> None:
        """Release what only further folds need."""
        self.is_over = True
        self._raws.clear()

    def refit(self, k: int, forests: dict[int, Forest]) -> None:
        """Train the best number of rounds on all rows, as training ``k`` of those together, and
        add its forest: after Ctrl-C that of the rounds which are finished."""
        table, builder = self._table, self._table.builder()
        rows = table.rows(k, table.training.rows.weight)
        training = replace(table.training, rows=rows, settings=self.settings)
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
