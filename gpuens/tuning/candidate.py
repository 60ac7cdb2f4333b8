"""A setting that is tried: trainings without the rows of a fold, of more folds where it is good."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
Stops = Callable[[float], bool]
"""Returns whether time is up, where training a setting on all rows takes some seconds."""


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


class Trained(NamedTuple):
    """Measurements of some trainings: raw predictions of the rows held out by numbers of rounds,
    those of the first ``n_folds``; ``is_cut`` where time was up before the end."""

    raws: dict[int, Array]
    n_folds: int
    n_rounds: int
    seconds: float
    n_sharing: int
    is_cut: bool


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
        """Return the seconds of a training to the best round."""
        return self._seconds * self.n_rounds / max(self._n_finished, 1)

    def advance(
        self, n_folds: int, held_out: HeldOut, run: Map, clock: Callable[[], float], stops: Stops
    ) -> None:
        """Train without each of further folds, until no round seems to become better than the best.
        ``clock`` returns seconds. Where time is up, a setting that has no score gets that of the
        folds and rounds so far; else nothing changes."""
        self.is_over = True  # of what an interruption leaves half done
        if stops(self.seconds):
            return
        trained = self._train(range(self.n_folds, n_folds), held_out, run, clock, stops)
        if trained is None:
            return
        raws, n_folds = trained.raws, self.n_folds + trained.n_folds
        if self._raws:
            xp, both = self._table.training.device.xp, self._raws.keys() & raws.keys()
            raws = {n: xp.concat([self._raws[n], raws[n]], axis=1) for n in sorted(both)}
        rows = held_out(0, n_folds)
        known = {n: self._table.score(rows, raw) for n, raw in raws.items()}
        n_rounds = min(known, key=known.__getitem__)
        is_over = n_folds == len(self._table.folds) or trained.is_cut
        # Other folds will hardly be best after less than half of the rounds.
        kept = [n_rounds] if is_over else [n for n in raws if 2 * n >= n_rounds]
        vars(self).update(  # all in one step, between which and the next Ctrl-C may come
            n_folds=n_folds,
            n_rounds=n_rounds,
            n_trained=max(self.n_trained, trained.n_rounds),
            scores={**self.scores, n_folds: known[n_rounds]},
            is_over=is_over,
            fit_time=self.fit_time + trained.seconds / trained.n_sharing,
            _seconds=self._seconds + trained.seconds,
            _n_finished=self._n_finished + trained.n_rounds * trained.n_folds,
            _raws={n: raws[n] for n in kept},
        )

    def _train(
        self, folds: range, held_out: HeldOut, run: Map, clock: Callable[[], float], stops: Stops
    ) -> Trained | None:
        """Train until patience is out, or a setting without a score until time is up; None where
        that leaves nothing to score."""
        parts = [fold_rounds(self._table.without(k, self.settings), self._table.builder())
                 for k in folds]  # fmt: skip
        n_sharing = len(parts) if isinstance(parts[0], RoundsTogether) else 1
        xp, asarray = self._table.training.device.xp, self._table.training.device.asarray
        spent = [0.0 for _ in folds]
        n_done, best, best_score, is_cut = 0, 0, math.inf, False
        raws: dict[int, Array] = {}
        scores: dict[int, float] = {}

        def grow(k: int) -> list[Array]:
            begin, before, found = clock(), spent[k], []
            at = asarray(self._table.folds[folds[k]].asked)
            with np.errstate(over="ignore", invalid="ignore"):
                for index in range(n_done, points[-1]):
                    if stops(self.seconds or max(spent) * (best or index) / max(index, 1)):
                        break
                    parts[k].finish(parts[k].start(index))
                    spent[k] = before + clock() - begin
                    if index + 1 in points:
                        found.append(parts[k].training.rows.raw[:, at])
            return found

        while not is_cut and (points := self._points(n_done, best)):
            grown = run(grow, range(len(parts)))
            is_cut = any(len(own) < len(points) for own in grown)
            if is_cut and self.scores:
                return None
            if not raws:  # folds that time has left behind the first one are not scored
                behind = [len(own) < len(grown[0]) for own in grown]
                parts = parts[: [*behind, True].index(True)]
            measured = list(zip(points, *grown[: len(parts)], strict=False))
            rows = held_out(folds.start, folds.start + len(parts))
            for n_done, *own in measured:
                raws[n_done] = xp.concat(own, axis=1) if len(own) > 1 else own[0]
                score = scores[n_done] = self._table.score(rows, raws[n_done])
                if score < best_score - LEAST_GAIN * abs(score):
                    best, best_score = n_done, score
                raws = self._needed(raws, scores, best, len(folds))
        n = len(parts)
        return Trained(raws, n, n_done, sum(spent[:n]), n_sharing, is_cut) if raws else None

    def _needed(
        self, raws: dict[int, Array], scores: dict[int, float], best: int, n_folds: int
    ) -> dict[int, Array]:
        """Return those raw predictions that may be the best: where the trainings are without all
        folds, those of the best score alone, of which a large table holds no others."""
        if n_folds == len(self._table.folds):
            n = min(raws, key=scores.__getitem__)
            return {n: raws[n]}
        return {n: raw for n, raw in raws.items() if 2 * n >= best}

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
