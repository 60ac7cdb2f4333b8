"""What may happen after every round of boosting.

A callback is any object with ``after_iteration(state) -> bool | None``; a true result stops
the training and keeps the trees so far. If it has a method ``after_training(state)``, that is
called once at the end, also after early stopping and Ctrl-C.
"""

from __future__ import annotations

import copy
import os
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from .estimators.all_or_nothing import replacing
from .forest.forest import Forest

Evaluations = dict[str, dict[str, list[float]]]
"""``evaluations[data][metric]``: a value for every round, entry 0 is before the first."""


@dataclass
class TrainingState:
    """What a callback sees.

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
        Returns a fitted copy of the estimator with the trees so far, without its callbacks.
    started : float
        ``time.perf_counter()`` at the start of the first round.
    """

    iteration: int
    n_iterations: int
    first_iteration: int
    evals: Evaluations
    forest: Callable[[], Forest]
    model: Callable[[], Any]
    started: float = field(default_factory=time.perf_counter)


class Callback(Protocol):
    """The interface of a callback."""

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Called after every round; true stops the training."""


def _latest(state: TrainingState) -> str:
    return "  ".join(
        f"{data} {metric} {values[-1]:.6g}"
        for data, metrics in state.evals.items()
        for metric, values in metrics.items()
        if values
    )


class _Printer:
    """A callback that writes to a text stream."""

    def __init__(self, file: TextIO | None) -> None:
        self.file = file

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.copy(self)  # scikit-learn's clone copies parameters; streams cannot be


class ProgressBar(_Printer):
    """A line that shows the rounds done, the time left and the latest metrics.

    Parameters
    ----------
    file : text stream, default=sys.stderr
    width : int, default=30
        Characters of the bar.
    interval : float, default=0.1
        Seconds between two updates.
    """

    def __init__(self, file: TextIO | None = None, width: int = 30, interval: float = 0.1) -> None:
        super().__init__(file)
        self.width = width
        self.interval = interval
        self._shown = 0.0

    def after_iteration(self, state: TrainingState) -> None:
        """Draw the line anew, unless that was just done."""
        now = time.perf_counter()
        if now - self._shown >= self.interval:
            self._shown = now
            self._draw(state, "")

    def after_training(self, state: TrainingState) -> None:
        """Draw the last state and end the line."""
        self._draw(state, "\n")

    def _draw(self, state: TrainingState, end: str) -> None:
        filled = round(state.iteration / state.n_iterations * self.width)
        elapsed = time.perf_counter() - state.started
        rounds = max(1, state.iteration - state.first_iteration)
        left = elapsed / rounds * (state.n_iterations - state.iteration)
        stream = self.file or sys.stderr
        stream.write(
            f"\r{'#' * filled:-<{self.width}} {state.iteration}/{state.n_iterations} "
            f"{elapsed:.1f} s, {left:.1f} s left  {_latest(state)}{end}"
        )
        stream.flush()


class EvaluationLog(_Printer):
    """Prints the metrics every few rounds.

    Parameters
    ----------
    period : int, default=10
    file : text stream, default=sys.stdout
    """

    def __init__(self, period: int = 10, file: TextIO | None = None) -> None:
        super().__init__(file)
        self.period = period

    def after_iteration(self, state: TrainingState) -> None:
        """Print a line when its turn has come, and after the last round."""
        if state.iteration % self.period == 0 or state.iteration == state.n_iterations:
            print(f"[{state.iteration}] {_latest(state)}", file=self.file or sys.stdout)


class Checkpoint:
    """Saves a fitted model every few rounds, whole or not at all.

    ``gpuens.load`` brings it back; after ``set_params(warm_start=True)`` its ``fit`` goes on
    from there, to the model that one uninterrupted ``fit`` gives. Callbacks are not saved.

    Parameters
    ----------
    path : str or path
        Replaced at every save.
    period : int, default=10
    pickled : bool, default=False
        Whether to pickle the model, for one that holds functions (a loss or metric of your own);
        then ``pickle.load`` brings it back, from files that you trust.
    """

    def __init__(
        self, path: str | os.PathLike[str], period: int = 10, *, pickled: bool = False
    ) -> None:
        self.path = path
        self.period = period
        self.pickled = pickled

    def after_iteration(self, state: TrainingState) -> None:
        """Save when its turn has come, and after the last round."""
        if state.iteration % self.period and state.iteration != state.n_iterations:
            return
        if not self.pickled:
            import gpuens  # saving knows every class, training needs few

            gpuens.save(state.model(), self.path)
            return
        with replacing(self.path) as unfinished, open(unfinished, "wb") as file:
            pickle.dump(state.model(), file, protocol=pickle.HIGHEST_PROTOCOL)
