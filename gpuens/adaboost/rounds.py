"""The rounds of AdaBoost: a learner, its error and weight, new weights of the rows, and again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..callbacks import Callback, TrainingState
from ..devices.placement import Device
from ..kernels.scalars.elementary import EXP_MAX, exp, log
from ..kernels.scalars.primitives import vectorise

FRAMES_BELOW_FIT = 5
"""Calls between ``fit`` and a warning in ``_warn``, so that it shows the user's line."""
DATA, METRIC = "training", "learner_error"
"""What callbacks see the errors of the learners as."""


class Learners(Protocol):
    """The learners of a model, as many as there were rounds."""

    def fit(self, t: int, rows: RowWeights) -> Any:
        """Fit learner t; what it predicts for the training rows."""

    def predictions(self, t: int) -> Any:
        """What learner t predicts for the training rows."""

    def keep(self, n: int) -> None:
        """Forget all but the first n learners."""

    def forest(self, weights: np.ndarray) -> Any:
        """All of them as one ``Forest``."""


@dataclass(frozen=True)
class Rounds:
    """What the loop leaves behind, beside the learners.

    weights, errors : float64, shape (n_rounds,)
        Of the learners.
    stopped : str
        "finished", "perfect learner", "weak learner", "infinite weights", "callback" or
        "interrupted".
    """

    weights: np.ndarray
    errors: np.ndarray
    stopped: str = "finished"

    @classmethod
    def of(cls, learners: list[Judgement], stopped: str) -> Rounds:
        """Of the learners that a model keeps."""
        weights = np.array([learner.weight for learner in learners], np.float64)
        return cls(weights, np.array([learner.error for learner in learners], np.float64), stopped)


def boost(
    learners: Learners,
    rule: Rule,
    rows: RowWeights,
    n_rounds: int,
    before: Rounds,
    callbacks: Sequence[Callback],
    model: Callable[[Rounds], Any],
) -> Rounds:
    """Run rounds until there are ``n_rounds``, or the rule ends them.

    Parameters
    ----------
    learners : Learners
        Holds those of the rounds before.
    rule : Rule
    rows : RowWeights
        The weights before the first round of all.
    n_rounds : int
    before : Rounds
        The rounds that are there already.
    callbacks : sequence
    model : callable
        Makes a fitted estimator of rounds, for callbacks.

    Raises
    ------
    KeyboardInterrupt
        Before a single round was finished.
    ValueError
        The first learner is too weak for the rule.
    """
    run = _Run(learners, rule, rows, n_rounds, before, model)
    stopped = _ended_by_rule(before, rule)
    try:
        if stopped == "finished" and len(run.done) < n_rounds:
            run.replay()
        while stopped == "finished" and len(run.done) < n_rounds:
            stopped = run.round(callbacks)
    except KeyboardInterrupt:
        if not run.done:
            raise
        stopped = "interrupted"
        _warn(
            f"Training was interrupted: the model keeps the {len(run.done)} rounds that were "
            "finished.",
            RuntimeWarning,
        )
    if stopped == INFINITE:
        _warn(
            f"Sample weights have reached infinite values in round {len(run.done)}, so boosting "
            "ends there. Try a lower learning_rate.",
            UserWarning,
        )
    for callback in callbacks:
        if hasattr(callback, "after_training"):
            callback.after_training(run.state)
    learners.keep(len(run.done))
    return Rounds.of(run.done, stopped)


def _warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, stacklevel=FRAMES_BELOW_FIT)


def _ended_by_rule(before: Rounds, rule: Rule) -> str:
    """Why no round can follow those that are there; "finished" if some can."""
    if before.errors.size and before.errors[-1] == 0:
        return PERFECT
    if before.errors.size and before.errors[-1] >= rule.chance:
        return WEAK
    return INFINITE if before.stopped == INFINITE else "finished"


class _Run:
    """The rounds so far; the parameters are those of ``boost``.

    Attributes
    ----------
    done : list of Judgement
        Of the learners that belong to the model.
    state : TrainingState
        What callbacks see.
    """

    def __init__(
        self,
        learners: Learners,
        rule: Rule,
        rows: RowWeights,
        n_rounds: int,
        before: Rounds,
        model: Callable[[Rounds], Any],
    ) -> None:
        pairs = zip(before.errors.tolist(), before.weights.tolist(), strict=True)
        self.done = done = [Judgement(error, weight) for error, weight in pairs]
        self._learners, self._rule, self._rows, self._n_rounds = learners, rule, rows, n_rounds
        self._history = [rule.chance, *before.errors.tolist()]
        self.state = TrainingState(
            len(done), n_rounds, len(done), {DATA: {METRIC: self._history}},
            lambda: learners.forest(Rounds.of(done, "checkpoint").weights),
            lambda: model(Rounds.of(done, "checkpoint")),
        )  # fmt: skip

    def replay(self) -> None:
        """Give the rows the weights that the rounds so far have left."""
        for t, learner in enumerate(self.done):
            self._rule.reweight(self._learners.predictions(t), learner.weight, self._rows)

    def round(self, callbacks: Sequence[Callback]) -> str:
        """One more round; why it is the last one, or "finished"."""
        t = len(self.done)
        predicted = self._learners.fit(t, self._rows)
        learner = self._rule.judge(predicted, self._rows)
        if learner.ends == WEAK:
            if t > 0:
                return WEAK
            alone = self._rule.weight_alone(learner.error)
            learner = Judgement(learner.error, alone, WEAK)
        self.done.append(learner)
        self._history.append(learner.error)
        self.state.iteration = t + 1
        stop = [callback.after_iteration(self.state) for callback in callbacks]
        if learner.ends:
            return learner.ends
        if any(stop):
            return "callback"
        if t + 1 < self._n_rounds:
            self._rule.reweight(predicted, learner.weight, self._rows)
        return "finished"


_exp, _log = vectorise(exp), vectorise(log)

PERFECT, WEAK, INFINITE = "perfect learner", "weak learner", "infinite weights"
"""Why boosting ends before its last round."""
CHANCE_R2 = 0.5
"""Average loss at which AdaBoost.R2 ends."""


@dataclass(frozen=True)
class Judgement:
    """What is found of a learner.

    error : float
        Weighted share of wrong rows, or weighted mean loss.
    weight : float
        Of the learner in the model; 0 if it does not belong there.
    ends : str
        Why boosting ends with it; empty if it goes on.
    """

    error: float
    weight: float
    ends: str = ""


class Rule(Protocol):
    """A variant of AdaBoost."""

    chance: float

    def judge(self, predicted: Any, rows: RowWeights) -> Judgement:
        """Error and weight of a learner that predicts this for the training rows."""

    def reweight(self, predicted: Any, weight: float, rows: RowWeights) -> None:
        """Change the weights of the rows after a learner of this weight."""

    def weight_alone(self, error: float) -> float:
        """The weight of a first learner that is too weak.

        Raises
        ------
        ValueError
            A model cannot be made of it.
        """


class Samme:
    """AdaBoost.M1 for two classes, SAMME for more.

    Parameters
    ----------
    codes : int64, shape (n_rows,), on the device
        Class numbers.
    n_classes : int
    learning_rate : float

    References
    ----------
    Freund and Schapire, "A decision-theoretic generalization of on-line learning and an
    application to boosting", JCSS 55, 1997. Zhu, Zou, Rosset and Hastie, "Multi-class AdaBoost",
    Statistics and Its Interface 2, 2009.
    """

    def __init__(self, codes: Any, n_classes: int, learning_rate: float) -> None:
        self._codes = codes
        self._n_classes = n_classes
        self._learning_rate = learning_rate
        self._unit = 0.5 if n_classes == 2 else 1.0
        self.chance = 1.0 - 1.0 / n_classes

    def judge(self, predicted: Any, rows: RowWeights) -> Judgement:
        wrong, whole = rows.share(predicted != self._codes)
        error = wrong / whole
        if wrong == 0:
            return Judgement(0.0, self._unit, PERFECT)
        if self._n_classes * wrong >= (self._n_classes - 1) * whole:
            return Judgement(error, 0.0, WEAK)
        odds = np.float64((whole - wrong) / wrong)
        log_factor = float(_log(odds) + _log(np.float64(self._n_classes - 1)))
        log_factor *= self._learning_rate
        ends = INFINITE if log_factor > EXP_MAX else ""
        return Judgement(error, self._unit * log_factor, ends)

    def reweight(self, predicted: Any, weight: float, rows: RowWeights) -> None:
        factor = float(_exp(np.float64(weight / self._unit)))
        rows.multiply_some(predicted != self._codes, factor)

    def weight_alone(self, error: float) -> float:
        raise ValueError(
            f"The first learner is wrong on {error:.3g} of the weight, which is as bad as or worse "
            f"than random guessing ({self.chance:.3g}), so AdaBoost cannot start. Use a stronger "
            "base estimator (deeper trees), and check that X tells the classes of y apart."
        )


class R2:
    """AdaBoost.R2.

    Parameters
    ----------
    y : float64, shape (n_rows,), on the device
    loss : {"linear", "square", "exponential"}
    learning_rate : float
    device : Device

    References
    ----------
    Drucker, "Improving regressors using boosting techniques", ICML 1997.
    """

    chance = CHANCE_R2

    def __init__(self, y: Any, loss: str, learning_rate: float, device: Device) -> None:
        self._y = y
        self._loss = loss
        self._learning_rate = learning_rate
        self._xp = device.xp

    def judge(self, predicted: Any, rows: RowWeights) -> Judgement:
        error = rows.mean(self._losses(predicted, rows))
        if error <= 0:
            return Judgement(0.0, 1.0, PERFECT)
        if error >= CHANCE_R2:
            return Judgement(error, 0.0, WEAK)
        weight = float(_log(np.float64((1.0 - error) / error))) * self._learning_rate
        return Judgement(error, weight)

    def reweight(self, predicted: Any, weight: float, rows: RowWeights) -> None:
        rows.multiply(_exp((self._losses(predicted, rows) - 1.0) * weight))

    def weight_alone(self, error: float) -> float:
        return 1.0

    def _losses(self, predicted: Any, rows: RowWeights) -> Any:
        """From 0 to 1, relative to the largest error of a row that has a weight."""
        xp = self._xp
        error = abs(predicted - self._y)
        if rows.used is not None:
            error = xp.where(rows.used, error, 0.0)
        largest = float(error.max())
        if not largest < np.inf:
            raise ValueError(
                "The base estimator predicts NaN or infinity for rows of X: AdaBoost needs a "
                "finite prediction for each of them."
            )
        loss = error / largest if largest > 0 else error
        if self._loss == "square":
            return loss * loss
        return 1.0 - _exp(-loss) if self._loss == "exponential" else loss


UNIT = 2.0**60
"""Sums are sums of integers: a weight, or a part of one, counts in units of 1 / UNIT."""
LEAST = 2.0**-52
"""No weight of a row that takes part falls below this share of the whole."""
GRID = 2.0**35
"""Learners get weights that are multiples of 1 / GRID, at least one of them."""


class RowWeights:
    """Weights that sum up to one, and sums over them that depend on no order of addition.

    Parameters
    ----------
    sample_weight : float64, shape (n_rows,), on the device, or None
        Rows of weight zero keep it; None: all rows have the same weight.
    n_rows : int
    device : Device

    Attributes
    ----------
    values : float64, shape (n_rows,), on the device
    used : bool, shape (n_rows,), on the device, or None
        The rows of positive weight; None: all.
    """

    def __init__(self, sample_weight: Any, n_rows: int, device: Device) -> None:
        self._xp = xp = device.xp
        self.used = None
        if sample_weight is None:
            values = xp.full(n_rows, 1.0 / n_rows)
        else:
            used = sample_weight > 0
            self.used = None if bool(used.all()) else used
            values = sample_weight / float(sample_weight.max()) / n_rows
        self._keep(self._normalised(values))

    @property
    def n_used(self) -> int:
        """How many rows have a positive weight."""
        return self.values.size if self.used is None else int(self._xp.count_nonzero(self.used))

    def share(self, rows: Any) -> tuple[int, int]:
        """The weight of some rows and that of all, as integers in the same unit.

        Parameters
        ----------
        rows : bool, shape (n_rows,)
        """
        return int((self._units * rows).sum()), self._total

    def mean(self, losses: Any) -> float:
        """The weighted mean of losses between 0 and 1; those of rows without weight may be any
        finite numbers."""
        return int((self.values * losses * UNIT).astype("int64").sum()) / self._total

    def multiply_some(self, rows: Any, factor: float) -> None:
        """Multiply the weights of some rows, and divide all by their new sum.

        Parameters
        ----------
        rows : bool, shape (n_rows,)
        factor : float
            At least 1, finite.
        """
        part, whole = self.share(rows)
        total = (whole - part) / UNIT + part / UNIT * factor
        self._keep(self.values * self._xp.where(rows, factor / total, 1.0 / total))

    def multiply(self, factors: Any) -> None:
        """Multiply the weights by factors from 0 to 1, float64 of shape (n_rows,), and divide
        all by their new sum."""
        self._keep(self._normalised(self.values * factors))

    def whole(self) -> Any:
        """The weights on the grid, times GRID: int64 of shape (n_rows,), at least 1."""
        scale = GRID - 2.0 * self.values.size  # their sum stays below GRID, whatever is rounded
        return self._xp.maximum(self._xp.floor(self.values * scale + 0.5), 1.0).astype("int64")

    def on_grid(self) -> Any:
        """The weights on the grid: float64 of shape (n_rows,), zero for rows without weight.

        The trees of this package, which turn weights into integers, take these as they are.
        """
        weights = self.whole() / GRID
        return weights if self.used is None else weights * self.used

    def _normalised(self, values: Any) -> Any:
        """Values between 0 and 1 whose sum is at most about 1, divided by it; the second time
        for the sake of sums that are far smaller."""
        for _ in range(2):
            values = values / (int((values * UNIT).astype("int64").sum()) / UNIT)
        return values

    def _keep(self, values: Any) -> None:
        values = self._xp.maximum(values, LEAST)
        self.values = values if self.used is None else values * self.used
        self._units = (self.values * UNIT).astype("int64")
        self._total = int(self._units.sum())
