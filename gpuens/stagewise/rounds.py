"""The rounds of forward stagewise modelling: base learners fitted to negative gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from sklearn.base import is_classifier

from ..adaboost.learners import new_member
from ..boosting.parameters import Schedule
from ..devices.array_functions import contiguous
from ..devices.placement import Device, to_numpy
from ..estimators.nothing_learned import of_ensemble, warn_if_members_have_no_split
from ..estimators.parameters import check_learner
from ..estimators.training import FINISHED, Evaluations, Rounds, TrainingResult
from ..kernels.runtime.arrays import Array
from ..losses import Loss
from ..members.rows import MemberRows, fit_one, takes_weights
from ..numerics.sampling import draw_rows
from ..numerics.weighted import Later, whole_weights
from .steps import find_steps, negative_gradients


@dataclass(frozen=True)
class StagewiseResult:
    """The rounds of a model: members, one an output for each round, side by side; their factors
    from line search, the rates and evaluations, why training stopped ("finished", "early stopping",
    "callback", "interrupted" or "error"), and the error of a callback."""

    members: list[Any]
    steps: list[float]
    rates: list[float]
    evals: Evaluations
    stopped: str = FINISHED
    error: Exception | None = None

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps and rates as float64 arrays."""
        return np.array(self.steps, np.float64), np.array(self.rates, np.float64)


class StagewiseRounds(Rounds):
    """Rounds that add base learners. The mean of ``loss`` is recorded; the raw predictions of
    ``training`` are those of the rounds ``before``, of a warm start, and those of ``others`` are
    updated, too. ``model`` makes a fitted estimator from a result, for callbacks."""

    def __init__(
        self,
        learners: StagewiseLearners,
        loss: Loss,
        schedule: Schedule,
        training: StagewiseRows,
        others: Sequence[StagewiseRows],
        before: StagewiseResult,
        model: Callable[[StagewiseResult], Any],
    ) -> None:
        self._learners, self._loss, self._schedule = learners, loss, schedule
        self._training, self._others, self._model = training, others, model
        self._members, self._steps = [*before.members], [*before.steps]
        self._rates = [*before.rates]

    def finish(self, started: int) -> tuple[AdditiveStage, float]:
        stage = self._learners.fit(started, self._loss, self._training)
        rate = self._schedule(started)
        for rows in self._others:
            directions = directions_of(stage.members, rows.table, self._learners.device)
            stage.add_to(rows, rate, directions)
        stage.add_to(self._training, rate, stage.directions)
        return stage, rate

    def settle(self, finished: tuple[AdditiveStage, float]) -> None:
        stage, rate = finished
        self._members += stage.members
        self._steps += stage.steps
        self._rates.append(rate)

    def keep(self, n_rounds: int) -> None:
        n = n_rounds * self._loss.n_outputs
        del self._members[n:], self._steps[n:], self._rates[n_rounds:]

    def mean_loss(self, rows: StagewiseRows) -> Later:
        """Compute the mean loss of rows, for evaluations."""
        return self._loss.mean_later(rows.y, rows.raw, rows.weight, self._learners.device)

    def forest(self) -> NoReturn:
        raise AttributeError("forest_ exists only if all base learners are trees of gpuens.")

    def model(self, result: TrainingResult) -> Any:
        return self._model(self.result(result))

    def result(self, result: TrainingResult) -> StagewiseResult:
        """Return the base learners with the rest of a result."""
        return StagewiseResult(
            [*self._members], [*self._steps], [*self._rates],
            result.evals, result.stopped, result.error,
        )  # fmt: skip


@dataclass
class StagewiseRows:
    """The rows of a training or validation set, ``table`` in the forms that base learners need.
    Weights are empty where each is 1; ``raw`` has the predictions (n_outputs, n_rows) of the rounds
    so far."""

    table: MemberRows
    y: Array
    weight: Array
    raw: Any  # None until the best constant is known


@dataclass(frozen=True)
class AdditiveStage:
    """The additions of a round: ``steps[k] * members[k]`` to output k. ``directions`` are the
    members' predictions (n_outputs, n_rows) for the training rows."""

    members: list[Any]
    steps: list[float]
    directions: Array

    def add_to(self, rows: StagewiseRows, rate: float, directions: Array) -> None:
        """Update raw predictions; ``directions`` are the members' predictions for the rows."""
        for k, step in enumerate(self.steps):
            rows.raw[k] = rows.raw[k] + (rate * step) * directions[k]


@dataclass(frozen=True)
class StagewiseLearners:
    """The way in which the base learners of a round are trained: ``kinds``, not fitted, take turns
    if ``cyclic``, else the one with the lowest loss is taken; steps are 1 without
    ``line_search``."""

    kinds: list[Any]
    cyclic: bool
    line_search: bool
    subsample: float
    seed: int
    device: Device

    def fit(self, t: int, loss: Loss, rows: StagewiseRows) -> AdditiveStage:
        """Train the members of round t, counted from 0. Raises a ValueError for gradients or
        predictions that are not finite."""
        device = self.device
        n = rows.raw.shape[1]
        sample = draw_rows(n, self.subsample, rows.y[:0], self.seed, t, device)
        whole = whole_weights(rows.weight, device)
        loss = loss.in_round(t, rows.y, rows.raw, whole, sample, device)
        residuals = negative_gradients(loss, rows.y, rows.raw, f"round {t + 1}", device)
        drawn = rows
        if sample.size:
            weight = rows.weight[sample] if rows.weight.size else rows.weight
            table = rows.table.part(to_numpy(sample))
            raw = contiguous(rows.raw[:, sample])
            drawn = StagewiseRows(table, rows.y[sample], weight, raw)
            residuals = residuals[:, sample]
        chosen = [t % len(self.kinds)] if self.cyclic else list(range(len(self.kinds)))
        best, least = None, np.inf
        for kind in chosen:
            members = self._fit_members(t, kind, drawn, residuals)
            directions = directions_of(members, rows.table, device, checked=True)
            own = contiguous(directions[:, sample]) if sample.size else directions
            steps = [1.0] * len(members)
            if self.line_search:
                steps = find_steps(loss, drawn.y, drawn.raw, own, drawn.weight, device)
            stage = AdditiveStage(members, steps, directions)
            if len(chosen) == 1:
                return stage
            after = drawn.raw + device.asarray(np.array(steps))[:, None] * own
            value = loss.mean(drawn.y, after, drawn.weight, device)
            if best is None or value < least:
                best, least = stage, value
        assert best is not None
        return best

    def _fit_members(self, t: int, kind: int, drawn: StagewiseRows, residuals: Any) -> list[Any]:
        """Fit a member for each output to its negative gradients."""
        base, table, members = self.kinds[kind], drawn.table, []
        for k, residual in enumerate(residuals):
            number = (t * len(residuals) + k) * len(self.kinds) + kind
            member = new_member(base, self.seed, number)
            parameters = {}
            if drawn.weight.size:
                parameters["sample_weight"] = table.vector(member, drawn.weight)
            y = table.vector(member, residual)
            with of_ensemble():
                fitted = fit_one("sample_weight", member, table.table(member), y, parameters)
            members.append(fitted)
        return members


def warn_if_nothing_was_learned(
    kinds: list[Any], result: StagewiseResult, rows: StagewiseRows, subsample: float
) -> None:
    """Warn if the members are trees of this package, none of which has a split."""
    n_seen = round(subsample * rows.table.n)
    warn_if_members_have_no_split(kinds[0], result.members, rows.table.X, rows.y, n_seen)


def directions_of(
    members: list[Any], table: MemberRows, device: Device, checked: bool = False
) -> Array:
    """Return the predictions of members, float64 (n_members, n_rows). Raises a ValueError if a
    member does not predict one number for each row, finite ones where they are ``checked``."""
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


def check_kinds(kinds: list[Any]) -> None:
    """Raise a TypeError unless base learners are regressors, and a ValueError if there is none."""
    if not kinds:
        raise ValueError("estimator is an empty list: pass a regressor, or a list of some.")
    for kind in kinds:
        check_learner(kind, "None, a list of regressors, or an object")
        if hasattr(kind, "__sklearn_tags__") and is_classifier(kind):
            raise TypeError(
                f"estimator must be a regressor, got {kind!r}, which is a classifier. Base "
                "learners are fitted to negative gradients, which are real numbers for classes too."
            )


def check_weighted(kinds: list[Any]) -> None:
    """Check that base learners take the weights of the rows. Raises a ValueError if one of them
    does not."""
    for kind in kinds:
        if not takes_weights(kind):
            raise ValueError(
                f"sample_weight was given, but the fit of the base learner {kind!r} takes none. "
                "Fit without sample_weight, or use base learners that take it."
            )
