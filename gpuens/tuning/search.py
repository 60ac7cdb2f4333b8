"""The search: random settings, of which those that are behind stop growing, and the best averaged.

Settings pause where their learning rates add up to ``PAUSES``. Of those that reached a pause the
best third goes on, before another setting begins (Li et al. 2020, "A system for massively parallel
hyperparameter tuning"). The first settings, those of the default, do not pause.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..boosting.round_data import TrainingRows
from ..combining.weights import select
from ..estimators.nothing_learned import warn_user
from ..forest.forest import Forest
from ..forest.linear import LinearForest
from ..kernels.runtime.arrays import Array
from .candidate import Candidate, FoldedTable, Map
from .space import Budget

PAUSES = (2.5, 7.5)
THE_END = 1000.0
GOES_ON = 3
"""Settings at a pause for each one that goes on."""
MEMBERS = 5
"""Most settings in the ensemble."""
PARENTS = MEMBERS
"""Best settings so far that others are drawn near."""
KEPT = 2 * MEMBERS
"""Settings at a pause that may still go on; the others are forgotten."""
FINALISTS = 6
"""Settings that are trained to the end before the ensemble is chosen."""
PICKS, FIRST_PICKS = 20, 4
"""Rounds of the greedy selection, and the best settings that it starts from at most."""
SEARCHING = 0.6
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
        self._run, self._clock, self._report = run, clock, report
        self._n_at_once = n_at_once
        self.held_out: TrainingRows = table.held_out()
        self.candidates: list[Candidate] = []
        self._new = candidates(lambda: [c.params for c in self.best(PARENTS)])
        self._begin, self._n_defaults = begin, n_defaults
        self._paused: list[list[Candidate]] = [[] for _ in PAUSES]
        self._went_on: set[tuple[int, int]] = set()

    def explore(self) -> None:
        """Try settings until the budget or the space ends, or Ctrl-C."""
        try:
            self._default()
            while not self.stops() and (self._step() or self._finish()):
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
        """Return the best settings, best first."""
        known = [c for c in self.candidates if math.isfinite(c.score)]
        return sorted(known, key=lambda c: (c.score, c.number))[:n]

    def _default(self) -> None:
        for _ in range(int(min(self._n_defaults, self._budget.settings))):
            if self.candidates and self.stops():
                return
            default = next(self._new)
            self.candidates.append(default)
            for pause, paused in enumerate(self._paused):
                self._advance(default, PAUSES[pause])
                paused.append(default)
                self._went_on.add((pause, default.number))
            self._advance(default, THE_END)

    def _step(self) -> bool:
        """Let a setting go on, or begin one; returns whether there was one. Late in a search of
        limited time the best are finished first."""
        if self._elapsed > SEARCHING * self._budget.seconds and self._finish():
            return True
        for pause in reversed(range(len(PAUSES))):
            if (candidate := self._next_at(pause)) is not None:
                self._went_on.add((pause, candidate.number))
                if pause + 1 < len(PAUSES):
                    self._advance(candidate, PAUSES[pause + 1])
                    self._pause(candidate, pause + 1)
                else:
                    self._advance(candidate, THE_END)
                return True
        if len(self.candidates) >= self._budget.settings:
            return False
        candidate = next(self._new, None)
        if candidate is None:
            return False
        self.candidates.append(candidate)
        self._advance(candidate, PAUSES[0])
        self._pause(candidate, 0)
        return True

    def _finish(self) -> bool:
        """Train the best setting that is not finished to the end; returns whether there was one
        among the finalists."""
        for candidate in self.best(FINALISTS):
            if not candidate.is_over:
                self._advance(candidate, THE_END)
                return True
        return False

    def _next_at(self, pause: int) -> Candidate | None:
        """Return the best setting at a pause that may go on."""
        ranked = sorted(self._paused[pause], key=lambda c: (c.score, c.number))
        for candidate in ranked[: len(ranked) // GOES_ON]:
            if not candidate.is_over and (pause, candidate.number) not in self._went_on:
                return candidate
        return None

    def _pause(self, candidate: Candidate, pause: int) -> None:
        self._paused[pause].append(candidate)
        waiting = [
            c for c in self._paused[pause]
            if not c.is_over and (pause, c.number) not in self._went_on
        ]  # fmt: skip
        for c in sorted(waiting, key=lambda c: (c.score, c.number))[KEPT:]:
            c.is_over, c.raw = True, None  # better ones wait: it will not be a member
            c.forget()

    def _advance(self, candidate: Candidate, progress: float) -> None:
        before = min((c.score for c in self.candidates), default=math.inf)
        candidate.advance(progress, self.held_out, self._run, self._clock, self.stops)
        if candidate.is_over:
            candidate.forget()
        if candidate.score < before:
            metric = self._table.metric
            value = -candidate.score if metric.higher_is_better else candidate.score
            self._report(
                f"{self._elapsed:.1f} s, {len(self.candidates)} settings: best {metric.name} "
                f"{value:.6g} (setting {candidate.number}, {candidate.n_rounds} rounds)"
            )

    @property
    def _elapsed(self) -> float:
        return self._clock() - self._begin

    def _reserve(self) -> float:
        """Return the seconds that training the members on all rows takes."""
        members = self.best(MEMBERS)
        n_turns = math.ceil(len(members) / self._n_at_once)
        longest = max((c.seconds for c in members), default=0.0)
        return min(sum(c.seconds for c in members), n_turns * longest) * 1.25

    def stops(self) -> bool:
        """Return whether time is up, the members' trainings counted."""
        if self._budget.seconds == math.inf:
            return False
        return self._elapsed + self._reserve() > self._budget.seconds

    def choose(self) -> None:
        """Choose the members of the ensemble, and their weights, by greedy selection (Caruana et
        al. 2004)."""
        best = self.best(2 * MEMBERS)
        loss = RawAverages(self._table, self.held_out, [c.raw for c in best])
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
            score = RawAverages(self._table, self.held_out, raws).value
            self.score = score(self.weights[kept]) if is_whole else math.nan
            warn_user(f"The last training was interrupted: {what}", RuntimeWarning)
        return {k: done[k] for k in kept}

    def results(self) -> dict[str, Any]:
        """Return ``cv_results_``."""
        scores = np.array([-c.score for c in self.candidates])
        return {
            "params": [c.params for c in self.candidates],
            "mean_test_score": scores,
            "rank_test_score": rankdata(-scores, "min").astype(np.int32),
            "n_rounds": np.array([c.n_rounds for c in self.candidates]),
            "n_trained": np.array([c.n_trained for c in self.candidates]),
            "fit_time": np.array([c.fit_time for c in self.candidates]),
        }


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
