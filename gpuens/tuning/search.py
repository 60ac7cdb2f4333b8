"""The search: settings of a space, each trained without the rows of every fold, and the best
averaged."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..combining.weights import select
from ..estimators.nothing_learned import warn_user
from ..forest.forest import Forest
from ..forest.linear import LinearForest
from ..kernels.runtime.arrays import Array
from .candidate import Candidate, FoldedTable, Map
from .space import Budget

MEMBERS = 5
"""Most settings in the ensemble, and best ones so far that others are drawn near."""
CHOICE = 2 * MEMBERS
"""Best settings that the members are chosen from."""
PICKS, FIRST_PICKS = 20, 4
"""Rounds of the greedy selection, and the best settings that it starts from at most."""
COPIES, SHARE_OF_COPIES = 3, 0.25
"""Times that each member is trained on all rows, with other seeds, and the share of a limited time
that is kept for this, if not more is needed to train each once. Measured on nine tables of 160 to
8000 training rows at 15 CPU seconds: three have 0.8 % less loss than one, a third of the gain of a
search."""
SEEDS = 1_000_003
"""Distance between the seeds of copies, which are those of no other setting."""
Candidates = Callable[[Callable[[], list[dict[str, Any]]]], Iterator[Candidate]]


class SearchPlan(NamedTuple):
    """Arguments of a search beside the table.

    Parameters
    ----------
    budget : Budget
    space : mapping or None
    cv : int, splitter, pairs of rows or None
    groups : array or None
    report : callable
        Gets lines of progress.
    """

    budget: Budget
    space: Mapping[str, Any] | None
    cv: Any
    groups: Any
    report: Callable[[str], None]


class SettingSearch:
    """A search on its way.

    Parameters
    ----------
    table : FoldedTable
    candidates : callable
        Returns an iterator of candidates, the first of which are the default; it is passed a
        function that returns the best settings so far.
    plan : SearchPlan
    run : Map
    n_at_once : int
        Trainings that ``run`` has at work at a time.
    clock : callable
        Returns seconds.
    begin : float
        The time at which the fit began.
    """

    def __init__(
        self, table: FoldedTable, candidates: Candidates, plan: SearchPlan, run: Map,
        n_at_once: int, clock: Callable[[], float], begin: float,
    ) -> None:  # fmt: skip
        self._table, self._budget, self._report = table, plan.budget, plan.report
        self._run, self._n_at_once, self._clock, self._begin = run, n_at_once, clock, begin
        self._new = candidates(lambda: [c.params for c in self.best(MEMBERS)])
        self.candidates: list[Candidate] = []

    def explore(self) -> None:
        """Try settings until the budget or the space ends, or Ctrl-C."""
        try:
            for candidate in self._new:
                self.candidates.append(candidate)
                self._train(candidate)
                if len(self.candidates) >= self._budget.settings or self._stops():
                    break
        except KeyboardInterrupt:
            n_tried = len(self.best())
            if not n_tried:
                raise
            warn_user(
                f"The search was interrupted: the model is made of the best of {n_tried} settings.",
                RuntimeWarning,
            )

    def best(self, n: int | None = None) -> list[Candidate]:
        """Return the best settings, best first."""
        known = [c for c in self.candidates if math.isfinite(c.score)]
        return sorted(known, key=lambda c: (c.score, c.number))[:n]

    def _train(self, candidate: Candidate) -> None:
        before = min((c.score for c in self.best(1)), default=math.inf)
        candidate.train(self._run, self._clock, self._stops)
        if candidate.score < before:
            metric = self._table.metric
            value = -candidate.score if metric.higher_is_better else candidate.score
            self._report(
                f"{self._elapsed:.1f} s, {len(self.candidates)} settings: best {metric.name} "
                f"{value:.6g} (setting {candidate.number}, {candidate.n_rounds} rounds)"
            )
        for behind in self.best()[CHOICE:]:
            behind.raw = None  # never a member

    @property
    def _elapsed(self) -> float:
        return self._clock() - self._begin

    def _stops(self) -> bool:
        """Return whether the rest of the time is needed to train members on all rows, which takes
        longer than without a fold."""
        if self._budget.seconds == math.inf:
            return False
        seconds = [c.seconds for c in self.best(MEMBERS)]
        n_turns = math.ceil(len(seconds) / self._n_at_once)
        once = 1.25 * min(sum(seconds), n_turns * max(seconds, default=0.0))
        reserve = max(once, min(COPIES * once, SHARE_OF_COPIES * self._budget.seconds))
        return self._elapsed + reserve > self._budget.seconds

    def choose(self) -> None:
        """Choose the members of the ensemble, and their weights, by greedy selection (Caruana et
        al. 2004); after Ctrl-C the best setting alone."""
        try:
            self._choose(self.best(CHOICE))
        except KeyboardInterrupt:
            self.members, self.weights = self.best(1), np.ones(1)
            self.score = self.members[0].score
            warn_user(
                "The choice of an ensemble was interrupted: the model is that of the best setting.",
                RuntimeWarning,
            )

    def _choose(self, best: list[Candidate]) -> None:
        loss = RawAverages(self._table, [c.raw for c in best])
        singly = np.array([c.score for c in best])
        counts = select(loss, np.arange(len(best)), singly, PICKS, FIRST_PICKS)
        kept = np.sort(np.argsort(-counts, kind="stable")[:MEMBERS])
        counts[np.setdiff1d(np.arange(len(best)), kept)] = 0
        self.score = loss.value(counts)
        self.members = [best[k] for k in np.flatnonzero(counts)]
        self.weights = counts[counts > 0] / counts.sum()

    def forest(self) -> Forest:
        """Train the members on all rows, ``COPIES`` times as far as there is time, and return the
        weighted sum of their trees."""
        begin = self._elapsed
        copies: list[dict[int, Forest]] = []
        trained: dict[int, Forest] = {}
        try:
            while len(copies) < COPIES and self._has_time(begin, len(copies)):
                trained = {}
                self._run(partial(self._refit, len(copies), trained), range(len(self.members)))
                copies.append(trained)
        except KeyboardInterrupt:
            if not copies:
                copies = [self._interrupted(trained)]
            else:
                warn_user(
                    f"The last trainings were interrupted: of {COPIES} copies of the members "
                    f"{len(copies)} are kept.",
                    RuntimeWarning,
                )
        kept = sorted(copies[0])
        self.members = [self.members[k] for k in kept]
        self.weights = self.weights[kept] / self.weights[kept].sum()
        shares = dict(zip(kept, self.weights / len(copies), strict=True))
        parts = [times(forest[k], float(w)) for forest in copies for k, w in shares.items()]
        return type(parts[0]).concatenate(parts)

    def _has_time(self, begin: float, n_copies: int) -> bool:
        """Return whether there is time to train the members again, which began at a time."""
        if not n_copies:
            return True
        spent = self._elapsed - begin
        return self._elapsed + spent / n_copies <= self._budget.seconds

    def _refit(self, copy: int, forests: dict[int, Forest], k: int) -> None:
        member = self.members[k]
        member.refit(k, (member.settings.seed + copy * SEEDS) % 2**32, forests)

    def _interrupted(self, done: dict[int, Forest]) -> dict[int, Forest]:
        """Return the members to keep after Ctrl-C in their first training: those that are finished,
        or where none is, as of members that grow together, all that have a round. Raises
        KeyboardInterrupt if there are none."""
        n_rounds = {k: n_rounds_of(forest) for k, forest in done.items()}
        kept = [k for k, n in n_rounds.items() if n == self.members[k].n_rounds]
        what = f"{len(kept)} of {len(self.members)} members are kept."
        if not kept:
            kept = [k for k, n in n_rounds.items() if n]
            most = max(n_rounds.values(), default=0)
            what = (
                f"the first {most} rounds of {len(kept)} of {len(self.members)} members are kept."
            )
        if not kept:
            raise KeyboardInterrupt
        average = RawAverages(self._table, [self.members[k].raw for k in kept])
        is_whole = all(n_rounds[k] == self.members[k].n_rounds for k in kept)
        self.score = average.value(self.weights[kept]) if is_whole else math.nan
        warn_user(f"The last training was interrupted: {what}", RuntimeWarning)
        return {k: done[k] for k in kept}

    def results(self) -> dict[str, Any]:
        """Return ``cv_results_``."""
        scores = [c.score for c in self.candidates]
        ordered = sorted(scores)
        return {
            "params": [c.params for c in self.candidates],
            "mean_test_score": -np.array(scores),
            "rank_test_score": np.array([bisect_left(ordered, s) + 1 for s in scores], np.int32),
            "n_rounds": np.array([c.n_rounds for c in self.candidates]),
            "n_trained": np.array([c.n_trained for c in self.candidates]),
            "fit_time": np.array([c.fit_time for c in self.candidates]),
        }


class RawAverages:
    """The metric of averages of raw predictions of the rows held out, for ``select``."""

    empty = 0.0

    def __init__(self, table: FoldedTable, raws: Sequence[Any]) -> None:
        self._table, self._raws = table, raws
        self.n_models = len(raws)

    def value(self, weights: np.ndarray) -> float:
        total = sum(float(w) * raw for w, raw in zip(weights, self._raws, strict=True) if w)
        return self._table.score(total / float(weights.sum()))

    def added(self, total: Any, model: int) -> Array:
        return total + self._raws[model]

    def of_sum(self, total: Any, n_added: int) -> float:
        return self._table.score(total / n_added)

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
