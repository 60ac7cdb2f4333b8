"""The boosting loop: rounds, evaluation, early stopping, callbacks, Ctrl-C."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..callbacks import Callback, Evaluations, TrainingState
from ..estimators.validation import EarlyStopping
from ..forest.forest import Forest
from ..numerics.weighted import Later
from .round import Grower, TrainingRows
from .trees import ForestBuilder, GrownRound

FRAMES_BELOW_FIT = 5
"""Calls between ``fit`` and a warning in ``boost``, so that it shows the user's line."""


@dataclass
class Evaluation:
    """A metric on a set of rows, computed after every round.

    ``rows`` whose raw predictions the rounds update; ``data`` and ``metric`` name it. What
    ``compute`` returns gives the value, once it is known.
    """

    data: str
    metric: str
    rows: TrainingRows
    compute: Callable[[TrainingRows], Later]


@dataclass
class BoostingResult:
    """What the loop leaves behind.

    ``n_iter`` counts the rounds in ``forest``, those of a warm start included; ``stopped``
    says why the loop ended: "finished", "early stopping", "callback", "interrupted" or "error",
    with the ``error`` of a callback.
    """

    forest: Forest
    n_iter: int
    evals: Evaluations
    stopped: str
    error: Exception | None = None


class Watch:
    """The metrics of all rounds, and what early stopping makes of the first of them.

    Parameters
    ----------
    evaluations : sequence of Evaluation
    stopping : EarlyStopping or None
    first : int
        Rounds that the model has before the loop.
    before : Evaluations
        Their metrics. They are carried on if the last of them are those of the sets at hand,
        so that a training that goes on ends as one that was never left.
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
        """The metrics of the round that was finished last; on a GPU they may be under way."""
        return [e.compute(e.rows) for e in self._evaluations]

    def update(self, iteration: int, measured: list[Later]) -> None:
        """Take note of a round's metrics; ``stops`` says whether it was the last one."""
        self._note(measured)
        if self._stopping is not None:
            self.stops = self._stopping.update(iteration, self._watched()[-1])

    def forget_after(self, iteration: int) -> None:
        """Drop what a round that was not finished has left."""
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
    """The metrics before a warm start up to round ``first``, nothing if that round's are not
    those that were computed now."""
    kept: Evaluations = {}
    for data, metrics in now.items():
        for metric, (value,) in metrics.items():
            values = before.get(data, {}).get(metric, [])[: first + 1]
            if len(values) != first + 1 or values[-1] != value:
                return {}
            kept.setdefault(data, {})[metric] = values
    return kept


def boost(
    grower: Grower,
    builder: ForestBuilder,
    n_iterations: int,
    first: int,
    evaluations: Sequence[Evaluation],
    stopping: EarlyStopping | None,
    callbacks: Sequence[Callback],
    model: Callable[[BoostingResult], Any],
    before: Evaluations,
    keep_best: bool = True,
) -> BoostingResult:
    """Run rounds ``first … n_iterations - 1``.

    A round is started, finished and settled. On a GPU the host settles a round, with its metrics
    and callbacks, while the device grows the trees of the next one; if the round turns out to be
    the last one, these are thrown away, and an error on the way to them is as if it had not
    happened. So the model is the same as without running ahead.

    Parameters
    ----------
    grower, builder
        Grow the trees and collect them; ``builder`` holds those of the rounds before.
    evaluations : sequence of Evaluation
        The first one decides about stopping.
    stopping : EarlyStopping or None
        Decides about stopping.
    model : callable
        Makes a fitted estimator from a result, for callbacks.
    before : Evaluations
        The metrics of the rounds before ``first``.
    keep_best : bool
        Whether ``stopping`` has the trees after the best round dropped.

    Raises
    ------
    KeyboardInterrupt
        Before a single round was finished.
    """
    n_outputs = grower.loss.n_outputs
    others = _distinct([e.rows for e in evaluations if e.rows is not grower.rows])
    is_watched = any(e.rows is grower.rows for e in evaluations)
    watch = Watch(evaluations, stopping, first, before)
    done = first
    stopped = "early stopping" if watch.stops else "finished"
    error: Exception | None = None

    def current_model() -> Any:
        evals = copy.deepcopy(watch.evals)
        return model(BoostingResult(builder.freeze(), done, evals, "checkpoint"))

    state = TrainingState(done, n_iterations, first, watch.evals, builder.freeze, current_model)

    def settle(grown: GrownRound, measured: list[Later]) -> None:
        """Make a round part of the model, and ask whether it was the last one."""
        nonlocal done, stopped, error
        grown.append_to(builder, grower.binner)
        watch.update(done + 1, measured)
        done += 1
        state.iteration = done
        try:
            stop = [callback.after_iteration(state) for callback in callbacks]
        except Exception as failure:
            stopped, error = "error", failure
            return
        if any(stop):
            stopped = "callback"
        elif watch.stops:
            stopped = "early stopping"

    unsettled: list[tuple[GrownRound, list[Later]]] = []  # one round at most

    def goes_on() -> bool:
        """Settle the round that was finished last; whether it was not the last one."""
        if unsettled:
            settle(*unsettled.pop())
        return stopped == "finished"

    try:
        for index in range(first, n_iterations if goes_on() else first):
            try:
                started = grower.start_round(index)
            except Exception:
                if goes_on():
                    raise
                break
            if not goes_on():  # asked while the trees of this round grow
                break
            finished = grower.finish_round(started, others, is_watched), watch.measure()
            unsettled.append(finished)
            del started, finished  # which keep the leaves of all rows
            if not (grower.device.runs_ahead or goes_on()):
                break
        goes_on()
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            goes_on()
        if done == 0:
            raise
        watch.forget_after(done)
        builder.keep(done * n_outputs)
        if stopped == "finished":  # else the round before was the last one anyway
            stopped = "interrupted"
            warnings.warn(
                f"Training was interrupted: the model keeps the {done} rounds that were finished.",
                RuntimeWarning,
                stacklevel=FRAMES_BELOW_FIT,
            )
    for callback in callbacks:
        try:
            if hasattr(callback, "after_training"):
                callback.after_training(state)
        except Exception as failure:
            error = error or failure
    if stopping is not None and keep_best and stopped in ("early stopping", "finished"):
        done = max(stopping.best_iteration, 1)
    builder.keep(done * n_outputs)
    return BoostingResult(builder.freeze(), done, watch.evals, stopped, error)


def _distinct(rows: list[TrainingRows]) -> list[TrainingRows]:
    return list({id(r): r for r in rows}.values())
