"""The loop of forward stagewise modelling: rounds, early stopping, callbacks, Ctrl-C."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..boosting.loop import Evaluation, Watch
from ..boosting.parameters import Schedule
from ..callbacks import Callback, Evaluations, TrainingState
from ..estimators.validation import EarlyStopping
from ..losses import Loss
from ..numerics.weighted import Later
from .learners import StagewiseLearners, StagewiseRows, directions_of

FRAMES_BELOW_FIT = 4
"""Calls between ``fit`` and a warning in ``run_rounds``, so that it shows the user's line."""


@dataclass(frozen=True)
class StagewiseResult:
    """What the loop leaves behind.

    members : list of estimators
        One an output for each round, the outputs of a round beside each other.
    steps : list of float
        Their factors, from line search.
    rates : list of float, one a round
    evals : Evaluations
    stopped : str
        "finished", "early stopping", "callback" or "interrupted".
    """

    members: list[Any]
    steps: list[float]
    rates: list[float]
    evals: Evaluations
    stopped: str = "finished"

    def first(self, n_rounds: int, stopped: str) -> StagewiseResult:
        """The first rounds only."""
        n = n_rounds * len(self.members) // max(len(self.rates), 1)
        rates = self.rates[:n_rounds]
        return StagewiseResult(self.members[:n], self.steps[:n], rates, self.evals, stopped)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and rates as float64 arrays."""
        return np.array(self.steps, np.float64), np.array(self.rates, np.float64)


def run_rounds(
    learners: StagewiseLearners,
    loss: Loss,
    schedule: Schedule,
    n_rounds: int,
    training: StagewiseRows,
    watched: Sequence[tuple[str, StagewiseRows]],
    stopping: EarlyStopping | None,
    callbacks: Sequence[Callback],
    model: Callable[[StagewiseResult], Any],
    before: StagewiseResult,
) -> StagewiseResult:
    """Run rounds until there are ``n_rounds``.

    Parameters
    ----------
    learners : StagewiseLearners
    loss : Loss
        The one whose mean is recorded.
    schedule : Schedule
        The learning rates.
    n_rounds : int
    training : StagewiseRows
        Its raw predictions are those of the rounds before.
    watched : sequence of (name, StagewiseRows)
        Where the loss is computed; early stopping watches the first.
    stopping : EarlyStopping or None
        Where it is given, rounds after the best one are dropped.
    callbacks : sequence
    model : callable
        Makes a fitted estimator of a result, for callbacks.
    before : StagewiseResult
        The rounds that are there already.

    Raises
    ------
    KeyboardInterrupt
        Before a single round was finished.
    """
    device = learners.device
    members, steps, rates = [*before.members], [*before.steps], [*before.rates]
    done = first = len(rates)

    def mean(rows: Any) -> Later:
        return loss.mean_later(rows.y, rows.raw, rows.weight, device)

    anything: list[tuple[str, Any]] = list(watched)
    evaluations = [Evaluation(data, "loss", rows, mean) for data, rows in anything]
    watch = Watch(evaluations, stopping, first, before.evals)

    def so_far() -> StagewiseResult:
        whole = StagewiseResult(members, steps, rates, watch.evals)
        return whole.first(done, "checkpoint")

    def current_model() -> Any:
        result = so_far()
        evals = copy.deepcopy(result.evals)
        return model(StagewiseResult(result.members, result.steps, result.rates, evals))

    def forest() -> Any:
        raise AttributeError("The base learners can be of any kind: they make no forest.")

    state = TrainingState(done, n_rounds, first, watch.evals, forest, current_model)
    stopped = "early stopping" if watch.stops else "finished"
    try:
        while done < n_rounds and stopped == "finished":
            stage, rate = learners.fit(done, loss, training), schedule(done)
            for _, rows in watched:
                if rows is not training:
                    predicted = directions_of(stage.members, rows.table, device)
                    stage.add_to(rows, rate, predicted)
            stage.add_to(training, rate, stage.directions)
            watch.update(done + 1, watch.measure())
            members += stage.members
            steps += stage.steps
            rates.append(rate)
            done += 1
            state.iteration = done
            stop = [callback.after_iteration(state) for callback in callbacks]
            if any(stop):
                stopped = "callback"
            elif watch.stops:
                stopped = "early stopping"
    except KeyboardInterrupt:
        if done == 0:
            raise
        stopped = "interrupted"
        watch.forget_after(done)
        del members[done * loss.n_outputs :], steps[done * loss.n_outputs :], rates[done:]
        warnings.warn(
            f"Training was interrupted: the model keeps the {done} rounds that were finished.",
            RuntimeWarning,
            stacklevel=FRAMES_BELOW_FIT,
        )
    for callback in callbacks:
        if hasattr(callback, "after_training"):
            callback.after_training(state)
    if stopping is not None and stopped in ("early stopping", "finished"):
        done = max(stopping.best_iteration, 1)
    return StagewiseResult(members, steps, rates, watch.evals).first(done, stopped)
