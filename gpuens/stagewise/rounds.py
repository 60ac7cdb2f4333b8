"""The rounds of forward stagewise modelling: base learners fitted to negative gradients."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..adaboost.learners import new_member
from ..boosting.loop import Evaluation, Watch
from ..boosting.parameters import Schedule
from ..callbacks import Callback, Evaluations, TrainingState
from ..devices.placement import Device, to_numpy
from ..estimators.validation import EarlyStopping
from ..losses import Loss
from ..members.rows import Rows, fit_one
from ..numerics.sampling import draw_rows
from ..numerics.weighted import Later, whole_weights
from .steps import find_steps, negative_gradients

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


@dataclass
class StagewiseRows:
    """The rows of a training or validation set.

    table : Rows
        In the forms that base learners need.
    y : float64, shape (n_rows,), on the device
    weight : float64, shape (n_rows,) or (0,), on the device
        Empty where every weight is 1.
    raw : float64, shape (n_outputs, n_rows), on the device
        Raw predictions of the rounds so far; updated.
    """

    table: Rows
    y: Any
    weight: Any
    raw: Any


@dataclass(frozen=True)
class Stage:
    """What a round adds: ``steps[k] * members[k]`` to output k.

    members : list of fitted estimators, one an output
    steps : list of float
    directions : float64, shape (n_outputs, n_rows)
        What the members predict for the training rows.
    """

    members: list[Any]
    steps: list[float]
    directions: Any

    def add_to(self, rows: StagewiseRows, rate: float, directions: Any) -> None:
        """Update raw predictions; ``directions`` are the members' predictions for the rows."""
        for k, step in enumerate(self.steps):
            rows.raw[k] = rows.raw[k] + (rate * step) * directions[k]


@dataclass(frozen=True)
class StagewiseLearners:
    """How the base learners of a round are made.

    Parameters
    ----------
    kinds : list of estimators
        Not fitted.
    cyclic : bool
        Whether the kinds take turns; else the one with the lowest loss is taken.
    line_search : bool
        Whether steps are found by line search; else they are 1.
    subsample : float
    seed : int
    device : Device
    """

    kinds: list[Any]
    cyclic: bool
    line_search: bool
    subsample: float
    seed: int
    device: Device

    def fit(self, t: int, loss: Loss, rows: StagewiseRows) -> Stage:
        """The members of round t, counted from 0.

        Raises
        ------
        ValueError
            Gradients or predictions that are not finite.
        """
        device = self.device
        n = rows.raw.shape[1]
        sample = draw_rows(n, self.subsample, rows.y[:0], self.seed, t, device)
        loss = loss.in_round(rows.y, rows.raw, whole_weights(rows.weight, device), sample, device)
        residuals = negative_gradients(loss, rows.y, rows.raw, f"round {t + 1}", device)
        drawn = rows
        if sample.size:
            weight = rows.weight[sample] if rows.weight.size else rows.weight
            table = rows.table.part(to_numpy(sample))
            raw = device.xp.ascontiguousarray(rows.raw[:, sample])
            drawn = StagewiseRows(table, rows.y[sample], weight, raw)
            residuals = residuals[:, sample]
        chosen = [t % len(self.kinds)] if self.cyclic else list(range(len(self.kinds)))
        best, least = None, np.inf
        for kind in chosen:
            members = self._fit_members(t, kind, drawn, residuals)
            directions = directions_of(members, rows.table, device, checked=True)
            own = device.xp.ascontiguousarray(directions[:, sample]) if sample.size else directions
            steps = [1.0] * len(members)
            if self.line_search:
                steps = find_steps(loss, drawn.y, drawn.raw, own, drawn.weight, device)
            stage = Stage(members, steps, directions)
            if len(chosen) == 1:
                return stage
            after = drawn.raw + device.asarray(np.array(steps))[:, None] * own
            value = loss.mean(drawn.y, after, drawn.weight, device)
            if best is None or value < least:
                best, least = stage, value
        assert best is not None
        return best

    def _fit_members(self, t: int, kind: int, drawn: StagewiseRows, residuals: Any) -> list[Any]:
        """A member for each output, fitted to its negative gradients."""
        base, table, members = self.kinds[kind], drawn.table, []
        for k, residual in enumerate(residuals):
            number = (t * len(residuals) + k) * len(self.kinds) + kind
            member = new_member(base, self.seed, number)
            parameters = {}
            if drawn.weight.size:
                parameters["sample_weight"] = table.vector(member, drawn.weight)
            y = table.vector(member, residual)
            members.append(fit_one("sample_weight", member, table.table(member), y, parameters))
        return members


def directions_of(members: list[Any], table: Rows, device: Device, checked: bool = False) -> Any:
    """What members predict.

    Parameters
    ----------
    members : list of fitted estimators
    table : Rows
    device : Device
    checked : bool
        Whether to refuse NaN and infinity.

    Returns
    -------
    float64, shape (n_members, n_rows), on the device

    Raises
    ------
    ValueError
        A member predicts something else than one (finite) number a row.
    """
    result = device.xp.empty((len(members), table.n))
    for k, member in enumerate(members):
        predicted = device.asarray(member.predict(table.table(member)), np.float64)
        if predicted.size != table.n:
            raise ValueError(
                f"The base learner {member!r} must predict one number for each of the {table.n} "
                f"rows, got an array of shape {tuple(predicted.shape)}."
            )
        if checked and not bool((abs(predicted) < np.inf).all()):
            raise ValueError(
                f"The base learner {member!r} predicts NaN or infinity for rows that it was "
                "fitted on: change its parameters, or use another one."
            )
        result[k] = predicted.reshape(table.n)
    return result
