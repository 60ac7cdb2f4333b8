"""Training in rounds: evaluation, early stopping, callbacks, Ctrl-C and errors of callbacks.

``train`` runs the rounds of gradient boosting, AdaBoost and stagewise modelling alike, so that all
of them end in the same ways.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..forest.forest import Forest
from ..numerics.weighted import Later
from .nothing_learned import warn_of_unknown_metric, warn_user
from .validation import EarlyStopping

FINISHED, EARLY, CALLBACK, INTERRUPTED, ERROR = (
    "finished", "early stopping", "callback", "interrupted", "error",
)  # fmt: skip
"""Why a training ended; ``Rounds.ends`` may give further reasons."""

Evaluations = dict[str, dict[str, list[float]]]
"""``evaluations[data][metric]``: a value for every round, entry 0 is before the first."""


@dataclass
class TrainingState:
    """The state of a training, which callbacks get after every round.

    Parameters
    ----------
    iteration : int
        Rounds done, from 1; those before a warm start count.
    n_iterations : int
        Rounds that were asked for.
    first_iteration : int
        Rounds that were there before a warm start, else 0.
    evals : dict of dict of list of float
        ``evals[data][metric]``: one value for every round, from the start (entry 0 is the
        model without trees). Lower is better for "loss", higher for scores.
    forest : callable
        Returns the ``Forest`` of the trees so far.
    model : callable
        Returns a fitted copy of the estimator with the rounds so far, without its callbacks.
    started : float, default=now
        ``time.perf_counter()`` at the start of the first round.
    stopped : str, default=""
        Why the training ended, as ``stopped_`` of the estimators; empty before the end.
    n_kept : int, default=0
        Rounds that the model keeps, at the end.
    """

    iteration: int
    n_iterations: int
    first_iteration: int
    evals: Evaluations
    forest: Callable[[], Forest]
    model: Callable[[], Any]
    started: float = field(default_factory=time.perf_counter)
    stopped: str = ""
    n_kept: int = 0


class Callback(Protocol):
    """The interface of a callback."""

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Called after every round; a true result stops the training."""


@dataclass(frozen=True)
class Evaluation:
    """A metric on a set of rows, computed after every round.

    ``data`` and ``metric`` name it in ``evals``. The rounds update the raw predictions of
    ``rows``; ``compute(rows)`` returns a callable that waits for the value.
    """

    data: str
    metric: str
    rows: Any
    compute: Callable[[Any], Later]


@dataclass(frozen=True)
class TrainingPlan:
    """The settings of ``train``.

    Parameters
    ----------
    n_rounds : int
        Rounds of the whole model.
    first : int
        Rounds that the model has before.
    before : Evaluations
        Their metrics.
    evaluations : sequence of Evaluation
        The first one decides about early stopping.
    stopping : EarlyStopping or None
    keep_best : bool
        Whether ``stopping`` has the rounds after the best one dropped.
    callbacks : sequence of objects with ``after_iteration``, or functions
    runs_ahead : bool
        Whether rounds are settled while the next one is at work, on a GPU.
    """

    n_rounds: int
    first: int
    before: Evaluations
    evaluations: Sequence[Evaluation]
    stopping: EarlyStopping | None
    callbacks: Sequence[Any]
    keep_best: bool = True
    runs_ahead: bool = False


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    ``n_rounds`` counts those of a warm start too; ``stopped`` is the reason why the training
    ended; ``error`` is that of a callback, to be raised once the model is complete.
    """

    n_rounds: int
    evals: Evaluations
    stopped: str
    error: Exception | None = None


group_here: ContextVar[Any] = ContextVar("group_here", default=None)
"""The group of trainings (see ``members.side_by_side``) that this one is part of, all of which
Ctrl-C ends."""


def stop_with_group() -> None:
    """Raise a KeyboardInterrupt if the group that this training is part of has ended: Ctrl-C does
    not reach its thread."""
    group = group_here.get()
    if group is not None and group.has_ended:
        raise KeyboardInterrupt


def rounds_in_words(n_rounds: int, patience: int | None = None, data: str = "") -> str:
    """Return how many rounds a training has, and when early stopping ends it, for verbose fits."""
    if patience is None:
        return f"{n_rounds} rounds, without early stopping."
    return (
        f"At most {n_rounds} rounds: early stopping after {patience} without improvement on {data}."
    )


class Rounds(ABC):
    """The rounds of an ensemble: how one is trained, and how the model holds them."""

    ends = ""
    """Why no round can follow those of the model; empty while one can."""

    def start(self, index: int) -> Any:
        """Start round ``index``, from 0. What is returned may still be at work on a GPU."""
        return index

    @abstractmethod
    def finish(self, started: Any) -> Any:
        """Complete a round, so that metrics can be computed. None: it must not become part of
        the model, for the reason in ``ends``."""

    @abstractmethod
    def settle(self, finished: Any) -> None:
        """Make a completed round part of the model."""

    @abstractmethod
    def keep(self, n_rounds: int) -> None:
        """Drop all but the first rounds."""

    @abstractmethod
    def forest(self) -> Forest:
        """Return the trees of the model so far."""

    @abstractmethod
    def model(self, result: TrainingResult) -> Any:
        """Return a fitted estimator with the rounds so far."""


# One round after the other:
#   host    start 0 | finish 0 | settle 0 | start 1 | finish 1 | settle 1 | ...
# Running ahead:
#   host    start 0 | finish 0 | start 1 | settle 0 | finish 1 | start 2 | settle 1 | ...
#   device  round 0 ............ round 1 ...................... round 2 .................
def train(rounds: Rounds, plan: TrainingPlan) -> TrainingResult:
    """Run rounds ``plan.first … plan.n_rounds - 1``, or fewer.

    A round is started, finished and settled. On a GPU the host settles a round, with its metrics
    and callbacks, while the device works on the next one; if the round turns out to be the last
    one, the next is thrown away, and an error on the way to it is as if it had not happened. So
    the model is the same as without running ahead.

    Raises
    ------
    KeyboardInterrupt
        Before a single round was finished; later it ends the training.
    """
    course = _Course(rounds, plan)
    unsettled: list[tuple[Any, list[Later]]] = []  # one round at most

    def goes_on() -> bool:
        """Settle the round that was finished last, and return whether another one follows."""
        if unsettled:
            course.settle(*unsettled.pop())
        return course.stopped == FINISHED

    try:
        for index in range(plan.first, plan.n_rounds if goes_on() else plan.first):
            stop_with_group()
            try:
                started = rounds.start(index)
            except Exception:
                if goes_on():
                    raise
                break
            if unsettled and not goes_on():  # asked while the device works on this round
                break
            unsettled.append((rounds.finish(started), course.watch.measure()))
            del started  # which may hold arrays as long as the table
            if not (plan.runs_ahead or goes_on()):
                break
        goes_on()
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            goes_on()
        if course.done == 0 or group_here.get() is not None:
            raise
        course.interrupt()
    return course.end()


class _Course:
    """A training on its way.

    Attributes
    ----------
    done : int
        Rounds that are part of the model.
    stopped : str
        "finished" while no reason to stop is known.
    """

    def __init__(self, rounds: Rounds, plan: TrainingPlan) -> None:
        self._rounds, self._plan = rounds, plan
        self._error: Exception | None = None
        self._calls = [getattr(each, "after_iteration", each) for each in plan.callbacks]
        self.watch = Watch(plan.evaluations, plan.stopping, plan.first, plan.before)
        self.done = plan.first
        self.stopped = rounds.ends or (EARLY if self.watch.stops else FINISHED)
        evals = self.watch.evals
        self.state = TrainingState(
            self.done, plan.n_rounds, plan.first, evals, rounds.forest,
            lambda: rounds.model(TrainingResult(self.done, copy.deepcopy(evals), "checkpoint")),
        )  # fmt: skip

    def settle(self, finished: Any, measured: list[Later]) -> None:
        """Make a round part of the model, and find out whether it is the last one."""
        if finished is None:
            self.stopped = self._rounds.ends
            return
        self._rounds.settle(finished)
        self.watch.update(self.done + 1, measured)
        self.done += 1
        self.state.iteration = self.done
        try:
            stop = [call(self.state) for call in self._calls]
        except Exception as failure:
            self.stopped, self._error = ERROR, failure
            return
        if self._rounds.ends:
            self.stopped = self._rounds.ends
        elif any(stop):
            self.stopped = CALLBACK
        elif self.watch.stops:
            self.stopped = EARLY

    def interrupt(self) -> None:
        """Keep the rounds that are done, after Ctrl-C."""
        self.watch.forget_after(self.done)
        self._rounds.keep(self.done)
        if self.stopped == FINISHED:  # else the round before was the last one anyway
            self.stopped = INTERRUPTED
            warn_user(
                f"Training was interrupted: the model keeps the {self.done} rounds that were "
                "finished.",
                RuntimeWarning,
            )

    def end(self) -> TrainingResult:
        """Call ``after_training``, and drop the rounds after the best one."""
        stopping, kept = self._plan.stopping, self.done
        if stopping is not None and self._plan.keep_best and self.stopped in (EARLY, FINISHED):
            kept = max(stopping.best_iteration, 1)
        self.state.stopped, self.state.n_kept = self.stopped, kept
        for callback in self._plan.callbacks:
            try:
                if hasattr(callback, "after_training"):
                    callback.after_training(self.state)
            except Exception as failure:
                self._error = self._error or failure
        self.done = kept
        self._rounds.keep(kept)
        for k, e in enumerate(self._plan.evaluations):
            stops = k == 0 and stopping is not None
            warn_of_unknown_metric(e.data, e.metric, self.watch.evals[e.data][e.metric], stops)
        del self.state  # a cycle, which would keep the rows until garbage is collected
        return TrainingResult(self.done, self.watch.evals, self.stopped, self._error)


class Watch:
    """The metrics of all rounds, and whether the first of them stops the training.

    Parameters
    ----------
    evaluations : sequence of Evaluation
    stopping : EarlyStopping or None
    first : int
        Rounds that the model has before.
    before : Evaluations
        Their metrics. They are carried on if the last of them are those of the sets at hand,
        so that resumed training ends like training that was never interrupted.
    """

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        stopping: EarlyStopping | None,
        first: int,
        before: Evaluations,
    ) -> None:
        self.evals: Evaluations = {}
        self._evaluations = evaluations
        self._stopping = stopping
        self._note(self.measure())
        kept = _same_until(before, self.evals, first)
        self._first = 0 if kept else first
        if kept:
            self.evals = kept
        self.stops = False
        if stopping is not None:
            for index, value in enumerate(self._watched()):
                self.stops = stopping.update(self._first + index, value)

    def measure(self) -> list[Later]:
        """Compute the metrics of the round that was finished last; on a GPU they may be under
        way."""
        return [e.compute(e.rows) for e in self._evaluations]

    def update(self, iteration: int, measured: list[Later]) -> None:
        """Record a round's metrics; ``stops`` is whether it was the last one."""
        self._note(measured)
        if self._stopping is not None:
            self.stops = self._stopping.update(iteration, self._watched()[-1])

    def forget_after(self, iteration: int) -> None:
        """Drop the metrics of a round that was not finished."""
        for metrics in self.evals.values():
            for values in metrics.values():
                del values[iteration - self._first + 1 :]

    def _note(self, measured: list[Later]) -> None:
        for e, value in zip(self._evaluations, measured, strict=True):
            self.evals.setdefault(e.data, {}).setdefault(e.metric, []).append(value())

    def _watched(self) -> list[float]:
        first = self._evaluations[0]
        return self.evals[first.data][first.metric]


def _same_until(before: Evaluations, now: Evaluations, first: int) -> Evaluations:
    """Return the metrics before a warm start up to round ``first``, or nothing if that round's
    are not those that were computed now."""
    kept: Evaluations = {}
    for data, metrics in now.items():
        for metric, (value,) in metrics.items():
            values = before.get(data, {}).get(metric, [])[: first + 1]
            if len(values) != first + 1 or values[-1] != value:
                return {}
            kept.setdefault(data, {})[metric] = values
    return kept
