"""What may happen after every round of boosting.

A callback is any object with ``after_iteration(state) -> bool | None``; a true result stops
the training and keeps the trees so far.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

from .forest import Forest


@dataclass
class TrainingState:
    """What a callback sees.

    Parameters
    ----------
    iteration : int
        Rounds done, from 1.
    n_iterations : int
        Rounds that were asked for.
    evals : dict of dict of list of float
        ``evals[data][metric]``: one value for every round, from the start (entry 0 is the
        model without trees). Lower is better for "loss", higher for scores.
    forest : callable
        Returns the ``Forest`` of the trees so far.
    model : callable
        Returns a fitted copy of the estimator with the trees so far.
    started : float
        ``time.perf_counter()`` at the start of the first round.
    """

    iteration: int
    n_iterations: int
    evals: dict[str, dict[str, list[float]]]
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


class ProgressBar:
    """A line that shows the rounds done, the time left and the latest metrics.

    Parameters
    ----------
    file : text stream, default=sys.stderr
    width : int, default=30
        Characters of the bar.
    interval : float, default=0.1
        Seconds between two updates.
    """

    def __init__(
        self, file: TextIO | None = None, width: int = 30, interval: float = 0.1
    ) -> None:
        self.file = file
        self.width = width
        self.interval = interval
        self._last = 0.0

    def after_iteration(self, state: TrainingState) -> None:
        now = time.perf_counter()
        done = state.iteration >= state.n_iterations
        if not done and now - self._last < self.interval:
            return
        self._last = now
        share = state.iteration / state.n_iterations
        bar = "#" * round(share * self.width)
        elapsed = now - state.started
        left = elapsed * (1 / share - 1)
        line = (
            f"\r{bar:-<{self.width}} {state.iteration}/{state.n_iterations} "
            f"{elapsed:.1f} s, {left:.1f} s left  {_latest(state)}"
        )
        stream = self.file or sys.stderr
        stream.write(line + ("\n" if done else ""))
        stream.flush()


class EvaluationLog:
    """Prints the metrics every few rounds.

    Parameters
    ----------
    period : int, default=10
    file : text stream, default=sys.stdout
    """

    def __init__(self, period: int = 10, file: TextIO | None = None) -> None:
        self.period = period
        self.file = file

    def after_iteration(self, state: TrainingState) -> None:
        if state.iteration % self.period == 0 or state.iteration == state.n_iterations:
            print(f"[{state.iteration}] {_latest(state)}", file=self.file or sys.stdout)


class Checkpoint:
    """Saves a fitted model every few rounds, whole or not at all.

    ``pickle.load`` brings it back; with ``warm_start=True`` its ``fit`` goes on from there.

    Parameters
    ----------
    path : str or path
        Replaced at every save.
    period : int, default=10
    """

    def __init__(self, path: str | os.PathLike[str], period: int = 10) -> None:
        self.path = path
        self.period = period

    def after_iteration(self, state: TrainingState) -> None:
        if state.iteration % self.period and state.iteration != state.n_iterations:
            return
        path = Path(self.path)
        unfinished = path.with_name(path.name + ".part")
        with open(unfinished, "wb") as file:
            pickle.dump(state.model(), file, protocol=pickle.HIGHEST_PROTOCOL)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
