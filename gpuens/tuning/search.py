"""The search: settings of a space, of which those that are behind after some folds are not trained
without the others, and the best averaged.

Settings pause where ``PAUSES`` rows have been held out. Of those that reached a pause the best
third goes on, before another setting begins (Li et al. 2020, "A system for massively parallel
hyperparameter tuning"). What a setting trains, it trains to the end: after the same sum of learning
rates, settings that are best in the end are behind those that have more leaves. The first settings,
those of the default, do not pause.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from ..boosting.round_data import TrainingRows
from ..combining.weights import select
from ..estimators.nothing_learned import warn_user
from ..forest.forest import Forest
from ..forest.linear import LinearForest
from ..kernels.runtime.arrays import Array
from .candidate import Candidate, FoldedTable, HeldOut, Map
from .space import Budget

PAUSES = (500, 1000)
GOES_ON = 3
"""Settings at a pause for each one that goes on."""
MEMBERS = 5
"""Most settings in the ensemble."""
PARENTS = MEMBERS
"""Best settings so far that others are drawn near."""
KEPT = 2 * MEMBERS
"""Settings at a pause that may still go on; the others are forgotten."""
FINALISTS = 4
"""Settings that are trained without every fold before the ensemble is chosen."""
PICKS, FIRST_PICKS = 20, 4
"""Rounds of the greedy selection, and the best settings that it starts from at most."""
SEARCHING = 0.7
"""Share of the time after which the best settings are finished before others begin."""
Candidates = Callable[[Callable[[], list[dict[str, Any]]]], Iterator[Candidate]]


class SettingSearch:
    """A search on its way.

    Parameters
    ----------
    table : FoldedTable
    candidates : callable
        Returns an iterator of candidates, the first of which are the default; it is passed a
        function that returns the best settings so far.
    budget : Budget
    run : Map
    clock : callable
        Returns seconds.
    n_at_once : int
        Trainings that ``run`` has at work at a time.
    report : callable
        Gets a line of progress.
    begin : float
        The time at which the fit began.
    n_defaults : int
        Candidates that do not pause.
    """

    def __init__(
        self, table: FoldedTable, candidates: Candidates, budget: Budget, run: Map,
        clock: Callable[[], float], n_at_once: int, report: Callable[[str], None],
        begin: float, n_defaults: int = 1,
    ) -> None:  # fmt: skip
        self._table, self._budget = table, budget
        self.stages = stages_of(table)
        self._run, self._clock, self._report = run, clock, report
        self._n_at_once = n_at_once
        self._held_out: HeldOut = cache(table.held_out)
        self.candidates: list[Candidate] = []
        self._new = candidates(lambda: [c.params for c in self._ahead()[:PARENTS]])
        self._begin, self._n_defaults = begin, n_defaults
        self._seconds: list[float] = []
        self._paused: dict[int, list[Candidate]] = {n: [] for n in self.stages[:-1]}

    def explore(self) -> None:
        """Try settings until the budget or the space ends, or Ctrl-C."""
        try:
            self._default()
            while not self.stops(self._quickest()) and (self._step() or self._finish()):
                pass
        except KeyboardInterrupt:
            if not self.best(1):
                raise
            warn_user(
                f"The search was interrupted: the model is made of the best of {self.n_tried} "
                "settings.",
                RuntimeWarning,
            )

    @property
    def n_tried(self) -> int:
        return sum(math.isfinite(candidate.score) for candidate in self.candidates)

    def best(self, n: int) -> list[Candidate]:
        """Return the best settings, best first: of those that were trained without all folds, or
        without as many as any; of defaults that time or Ctrl-C has left without the same folds,
        those with as many as the one that is ahead on the folds of both."""
        known = [c for c in self.candidates if math.isfinite(c.score)]
        defaults = [c for c in known if c.number < self._n_defaults]
        common = min((c.n_folds for c in defaults), default=0)
        ahead = sorted(defaults, key=lambda c: c.scores.get(common, -math.inf))[:1]
        others = [c for c in known if c.number >= self._n_defaults]
        most = max((c.n_folds for c in ahead + others), default=0)
        known = [c for c in known if c.n_folds == most]
        return sorted(known, key=lambda c: (c.score, c.number))[:n]

    def _ahead(self) -> list[Candidate]:
        """Return all settings, by how much better they are than the default without as many
        folds."""
        default = self.candidates[0].scores if self.candidates else {}
        known = [c for c in self.candidates if math.isfinite(c.score)]
        return sorted(known, key=lambda c: (c.score - default.get(c.n_folds, 0.0), c.number))

    def _default(self) -> None:
        n_defaults = int(min(self._n_defaults, self._budget.settings))
        self.candidates = list(islice(self._new, n_defaults))
        for n_folds in self.stages:
            for default in self.candidates:
                self._advance(default, n_folds)
                if n_folds in self._paused and n_folds in default.scores:
                    self._paused[n_folds].append(default)

    def _step(self) -> bool:
        """Let a setting go on, or begin one; returns whether there was one. Late in a search of
        limited time the best are finished first."""
        if self._elapsed > SEARCHING * self._budget.seconds and self._finish():
            return True
        for n_folds in reversed(self.stages[:-1]):
            if (candidate := self._next_at(n_folds)) is not None:
                self._go_on(candidate)
                return True
        if len(self.candidates) >= self._budget.settings:
            return False
        candidate = next(self._new, None)
        if candidate is None:
            return False
        self.candidates.append(candidate)
        self._go_on(candidate)
        return True

    def _finish(self) -> bool:
        """Let the best setting that is not finished go on; returns whether there was one among the
        finalists."""
        for candidate in self._ahead()[:FINALISTS]:
            if not candidate.is_over:
                self._go_on(candidate)
                return True
        return False

    def _next_at(self, n_folds: int) -> Candidate | None:
        """Return the best setting at a pause that may go on."""
        ranked = sorted(self._paused[n_folds], key=lambda c: (c.scores[n_folds], c.number))
        for candidate in ranked[: len(ranked) // GOES_ON]:
            if not candidate.is_over and candidate.n_folds == n_folds:
                return candidate
        return None

    def _go_on(self, candidate: Candidate) -> None:
        """Train a setting until its next pause."""
        n_folds = next(n for n in self.stages if n > candidate.n_folds)
        self._advance(candidate, n_folds)
        if n_folds == self.stages[-1] or candidate.n_folds < n_folds:
            return
        self._paused[n_folds].append(candidate)
        waiting = [c for c in self._paused[n_folds] if not c.is_over and c.n_folds == n_folds]
        for c in sorted(waiting, key=lambda c: (c.scores[n_folds], c.number))[KEPT:]:
            c.forget()  # better ones wait: it will not be a member

    def _advance(self, candidate: Candidate, n_folds: int) -> None:
        before = min((c.score for c in self.best(1)), default=math.inf)
        self._seconds = [c.seconds for c in self.best(MEMBERS) if c is not candidate]
        candidate.advance(n_folds, self._held_out, self._run, self._clock, self.stops)
        if candidate.score < before and candidate in self.best(1):
            metric = self._table.metric
            value = -candidate.score if metric.higher_is_better else candidate.score
            self._report(
                f"{self._elapsed:.1f} s, {len(self.candidates)} settings: best {metric.name} "
                f"{value:.6g} (setting {candidate.number}, {candidate.n_rounds} rounds)"
            )

    @property
    def _elapsed(self) -> float:
        return self._clock() - self._begin

    def _quickest(self) -> float:
        self._seconds = [c.seconds for c in self.best(MEMBERS)]
        return min(self._seconds, default=0.0)

    def _of_members(self, seconds: list[float]) -> float:
        """Return the seconds that training members on all rows takes, from those that each took
        without a fold."""
        n_turns = math.ceil(len(seconds) / self._n_at_once)
        return min(sum(seconds), n_turns * max(seconds, default=0.0)) * 1.25

    def stops(self, seconds: float) -> bool:
        """Return whether time is up: the trainings of the members are counted, and that of a
        setting which may become one of them and takes some seconds."""
        if self._budget.seconds == math.inf:
            return False
        with_it = [*self._seconds[: MEMBERS - 1], seconds]
        reserve = max(self._of_members(self._seconds), self._of_members(with_it))
        return self._elapsed + reserve > self._budget.seconds

    def choose(self) -> None:
        """Choose the members of the ensemble, and their weights, by greedy selection (Caruana et
        al. 2004); after Ctrl-C the best setting alone."""
        try:
            self._choose(self.best(2 * MEMBERS))
        except KeyboardInterrupt:
            self.members, self.weights = self.best(1), np.ones(1)
            self.score = self.members[0].score
            warn_user(
                "The choice of an ensemble was interrupted: the model is that of the best setting.",
                RuntimeWarning,
            )

    def _choose(self, best: list[Candidate]) -> None:
        rows = self._held_out(0, best[0].n_folds)
        loss = RawAverages(self._table, rows, [c.raw for c in best])
        singly = np.array([c.score for c in best])
        counts = select(loss, np.arange(len(best)), singly, PICKS, FIRST_PICKS)
        kept = np.sort(np.argsort(-counts, kind="stable")[:MEMBERS])
        counts[np.setdiff1d(np.arange(len(best)), kept)] = 0
        self.score = loss.value(counts)
        self.members = [best[k] for k in np.flatnonzero(counts)]
        self.weights = counts[counts > 0] / counts.sum()

    def forest(self) -> Forest:
        """Train the members on all rows, and return the weighted sum of their trees."""
        done: dict[int, Forest] = {}

        def refit(k: int) -> None:
            self.members[k].refit(k, done)

        try:
            self._run(refit, range(len(self.members)))
        except KeyboardInterrupt:
            done = self._interrupted(done)
            if not done:
                raise
        kept = sorted(done)
        self.members = [self.members[k] for k in kept]
        self.weights = self.weights[kept] / self.weights[kept].sum()
        parts = [times(done[k], float(w)) for k, w in zip(kept, self.weights, strict=True)]
        return type(parts[0]).concatenate(parts)

    def _interrupted(self, done: dict[int, Forest]) -> dict[int, Forest]:
        """Return the members to keep after Ctrl-C: those that are finished, or where none is, as of
        members that grow together, all that have a round."""
        n_rounds = {k: n_rounds_of(forest) for k, forest in done.items()}
        kept = [k for k, n in n_rounds.items() if n == self.members[k].n_rounds]
        what = f"{len(kept)} of {len(self.members)} members are kept."
        if not kept:
            kept = [k for k, n in n_rounds.items() if n]
            most = max(n_rounds.values(), default=0)
            what = (
                f"the first {most} rounds of {len(kept)} of {len(self.members)} members are kept."
            )
        if kept:
            raws = [self.members[k].raw for k in kept]
            is_whole = all(n_rounds[k] == self.members[k].n_rounds for k in kept)
            rows = self._held_out(0, self.members[0].n_folds)
            score = RawAverages(self._table, rows, raws).value
            self.score = score(self.weights[kept]) if is_whole else math.nan
            warn_user(f"The last training was interrupted: {what}", RuntimeWarning)
        return {k: done[k] for k in kept}

    def results(self) -> dict[str, Any]:
        """Return ``cv_results_``."""
        scores = np.array([-c.score for c in self.candidates])
        keys = [(-c.n_folds, c.score) for c in self.candidates]
        ordered = sorted(keys)
        return {
            "params": [c.params for c in self.candidates],
            "mean_test_score": scores,
            "rank_test_score": np.array([bisect_left(ordered, key) + 1 for key in keys], np.int32),
            "n_folds": np.array([c.n_folds for c in self.candidates]),
            "n_rounds": np.array([c.n_rounds for c in self.candidates]),
            "n_trained": np.array([c.n_trained for c in self.candidates]),
            "fit_time": np.array([c.fit_time for c in self.candidates]),
        }


def stages_of(table: FoldedTable) -> list[int]:
    """Return the numbers of folds after which settings pause, and that of all."""
    n_rows = np.cumsum([fold.asked.size for fold in table.folds])
    pauses = {int(np.searchsorted(n_rows, n)) + 1 for n in PAUSES}
    return sorted({*(n for n in pauses if n < n_rows.size), n_rows.size})


class RawAverages:
    """The metric of averages of raw predictions, for ``select``."""

    empty = 0.0

    def __init__(self, table: FoldedTable, held_out: TrainingRows, raws: Sequence[Any]) -> None:
        self._table, self._held_out, self._raws = table, held_out, raws
        self.n_models = len(raws)

    def value(self, weights: np.ndarray) -> float:
        total = sum(float(w) * raw for w, raw in zip(weights, self._raws, strict=True) if w)
        return self._table.score(self._held_out, total / float(weights.sum()))

    def added(self, total: Any, model: int) -> Array:
        return total + self._raws[model]

    def of_sum(self, total: Any, n_added: int) -> float:
        return self._table.score(self._held_out, total / n_added)

    def minimum(self) -> np.ndarray:
        raise NotImplementedError("Weights are selected greedily.")


def n_rounds_of(forest: Forest) -> int:
    """Return the number of rounds of boosting whose trees a forest holds."""
    return forest.n_trees // (forest.n_outputs // forest.width)


def times(forest: Forest, factor: float) -> Forest:
    """Return a forest whose trees add their values times a factor; the base does not change."""
    parts: dict[str, Any] = {"value": forest.value * factor, "gain": forest.gain * factor}
    if isinstance(forest, LinearForest):
        parts["coefficient"] = forest.coefficient * factor
        parts["intercept"] = forest.intercept * factor
    return replace(forest, **parts)


def stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
