"""A setting that is tried: a training without each fold, which can pause and go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..boosting.auto import FoldRounds, fold_rounds, no_model
from ..boosting.data.auto_values import MOST_ROUNDS
from ..boosting.forest_builder import ForestBuilder
from ..boosting.metrics import Metric
from ..boosting.round_data import RoundSettings, Training, TrainingRows
from ..boosting.rounds import BoostingRounds
from ..boosting.steps.many_models import RoundsTogether, joins_on_gpu, meeting_here
from ..combining.folds import Fold
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array

PROGRESS = 0.25
"""Sum of the learning rates of the rounds from one measurement to the next: settings are compared
after the same sum, not after the same rounds, since lower rates need more of them."""
PATIENCE = 10
"""Measurements without a better one after which a setting is finished."""
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

    def held_out(self) -> TrainingRows:
        """Return the rows that folds ask for, one fold after the other."""
        rows, device = self.training.rows, self.training.device
        at = device.asarray(np.concatenate([fold.asked for fold in self.folds]))
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
    score : float
        The best so far, lower is better.
    n_rounds : int
        Its rounds.
    raw : float64, shape (n_outputs, n_held_out), or None
        The raw predictions of the rows held out after them.
    n_trained : int
        Rounds so far.
    is_over : bool
        Whether no more rounds will follow.
    seconds : float
        What a training to the best round takes.
    fit_time : float
        Seconds of all trainings so far; trainings whose rounds are joined share each second.
    """

    def __init__(
        self, number: int, params: dict[str, Any], settings: RoundSettings, table: FoldedTable
    ) -> None:
        self.number, self.params, self.settings, self._table = number, params, settings, table
        self.rate = float(settings.learning_rate(0))
        self.step = min(max(1, round(PROGRESS / self.rate)), MOST_ROUNDS)
        self.score, self.n_rounds, self.n_trained = math.inf, 0, 0
        self.raw: Array | None = None
        self.is_over = False
        self.fit_time, self._n_sharing = 0.0, 1
        self._parts: list[FoldRounds] = []

    @property
    def seconds(self) -> float:
        of_one = self.fit_time * self._n_sharing / len(self._table.folds)
        return of_one * self.n_rounds / max(self.n_trained, 1)

    def advance(
        self, progress: float, held_out: TrainingRows, run: Map, clock: Callable[[], float],
        stops: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Train until the learning rates of all rounds add up to ``progress``, or no round seems to
        become better than the best. ``clock`` returns seconds, ``stops`` whether time is up."""
        until = self.step * round(progress / PROGRESS)
        while self.n_trained < min(until, MOST_ROUNDS) and not self.is_over:
            steps = min((until - self.n_trained) // self.step, PATIENCE)
            self._train(max(steps, 1), held_out, run, clock, stops)
        self.is_over = self.is_over or self.n_trained >= MOST_ROUNDS

    def _train(
        self, n_steps: int, held_out: TrainingRows, run: Map, clock: Callable[[], float],
        stops: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Train some rounds and measure them; nothing changes where time is up before their end."""
        table, last = self._table, min(self.n_trained + n_steps * self.step, MOST_ROUNDS)

        def grow(k: int) -> tuple[list[Array], float]:
            begin, found = clock(), []
            rounds, asked = self._parts[k], table.folds[k].asked
            at = table.training.device.asarray(asked)
            with np.errstate(over="ignore", invalid="ignore"):
                for index in range(self.n_trained, last):
                    if stops():
                        return [], 0.0
                    rounds.finish(rounds.start(index))
                    if (index + 1) % self.step == 0 or index + 1 == last:
                        found.append(rounds.training.rows.raw[:, at])
            return found, clock() - begin

        if not self._parts:
            self._parts = [self._part(k) for k in range(len(table.folds))]
            meets = isinstance(self._parts[0], RoundsTogether)
            self._n_sharing = len(self._parts) if meets else 1
        self.is_over = True  # of what an interruption leaves half done
        found = run(grow, range(len(table.folds)))
        if not all(raws for raws, _ in found):
            return
        self.is_over = False
        self.fit_time += sum(seconds for _, seconds in found) / self._n_sharing
        xp = table.training.device.xp
        for i, raws in enumerate(zip(*(raws for raws, _ in found), strict=True)):
            raw = xp.concat(raws, axis=1) if len(raws) > 1 else raws[0]
            self._measure(min(self.n_trained + (i + 1) * self.step, last), raw, held_out)
        self.n_trained = last
        self.is_over = last - self.n_rounds >= PATIENCE * self.step

    def _measure(self, n_rounds: int, raw: Array, held_out: TrainingRows) -> None:
        score = self._table.score(held_out, raw)
        if score < self.score:
            self.score, self.n_rounds, self.raw = score, n_rounds, raw

    def _part(self, k: int) -> FoldRounds:
        return fold_rounds(self._table.without(k, self.settings), self._table.builder())

    def forget(self) -> None:
        """Release what only further rounds need."""
        self._parts.clear()

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
