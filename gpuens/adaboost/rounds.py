"""The rounds of AdaBoost: a learner, its error and weight, new weights of the rows, and again.

Logarithms and powers are this package's own, which are the same on every device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from ..devices.placement import Device
from ..estimators.nothing_learned import warn_user
from ..estimators.training import FINISHED, Evaluation, Rounds, TrainingPlan, TrainingResult, train
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.elementary import EXP_MAX, exp, log
from ..kernels.scalars.primitives import vectorise
from ..members.fitting import take
from ..numerics.weighted import Later

DATA, METRIC = "training", "learner_error"
"""The names under which callbacks see the errors of the learners."""
PERFECT, WEAK, INFINITE = "perfect learner", "weak learner", "infinite weights"
"""Why boosting ends before its last round."""
CHANCE_R2 = 0.5
"""Average loss at which AdaBoost.R2 ends."""
UNIT = 2.0**60
"""Sums are sums of integers: a weight, or a part of one, counts in units of 1 / UNIT."""
LEAST = 2.0**-52
"""No weight of a row that takes part falls below this share of the whole."""
GRID = 2.0**35
"""Learners get weights that are multiples of 1 / GRID, at least one of them."""
_exp, _log = vectorise(exp), vectorise(log)


class Learners(ABC):
    """The learners of a model, one a round, and the rows that they are trained on: ``values``, an
    array, a sparse matrix or a data frame."""

    values: Any
    n_rows: int
    _estimator: Any
    _device: Device

    @property
    def _classifies(self) -> bool:
        return isinstance(self._estimator, ClassifierMixin)

    @property
    def _classes(self) -> np.ndarray:
        classes: np.ndarray = self._estimator.classes_
        return classes

    def take(self, rows: np.ndarray) -> None:
        """Keep some of the rows, before ``start``."""
        self.values = take(self.values, rows, self._device)
        self.n_rows = rows.size

    @abstractmethod
    def start(self, y: Array, rows: RowWeights) -> None:
        """Take the target: int64 class numbers, or float64 numbers."""

    @abstractmethod
    def fit(self, t: int, rows: RowWeights) -> Array:
        """Fit learner t, and return its predictions for the training rows, shape (n_rows,)."""

    @abstractmethod
    def predictions(self, t: int) -> Array:
        """Return the predictions of learner t for the training rows, shape (n_rows,)."""

    @abstractmethod
    def keep(self, n: int) -> None:
        """Drop all but the first n learners."""

    @abstractmethod
    def forest(self, weights: np.ndarray) -> Forest:
        """Return the learners of a model, with these weights, as one ``Forest``."""

    @abstractmethod
    def set_on(self, estimator: Any, weights: np.ndarray) -> None:
        """Give an ensemble its learners."""


@dataclass(frozen=True)
class AdaBoostResult:
    """The weights and errors of the learners (float64, shape (n_rounds,)), why boosting ended (a
    reason of ``estimators.training``, "perfect learner", "weak learner" or "infinite weights"), and
    the error of a callback."""

    weights: np.ndarray
    errors: np.ndarray
    stopped: str = FINISHED
    error: Exception | None = None

    def ends(self, chance: float) -> str:
        """Return why no round can follow; empty if one can."""
        if self.errors.size and self.errors[-1] == 0:
            return PERFECT
        if self.errors.size and self.errors[-1] >= chance:
            return WEAK
        return INFINITE if self.stopped == INFINITE else ""


def boost(
    learners: Learners,
    rule: Samme | R2,
    rows: RowWeights,
    n_rounds: int,
    before: AdaBoostResult,
    callbacks: Sequence[Any],
    model: Callable[[AdaBoostResult], Any],
) -> AdaBoostResult:
    """Run rounds until there are ``n_rounds``, or the rule ends them; the other parameters are
    those of ``AdaBoostRounds``. Raises a ValueError if the first learner is too weak for the rule,
    and a KeyboardInterrupt before a single round was finished."""
    rounds = AdaBoostRounds(learners, rule, rows, before, model)
    history = {DATA: {METRIC: [rule.chance, *before.errors.tolist()]}}
    errors = Evaluation(DATA, METRIC, None, rounds.last_error)
    plan = TrainingPlan(n_rounds, before.errors.size, history, [errors], None, callbacks)
    result = rounds.result(train(rounds, plan))
    if result.stopped == INFINITE:
        warn_user(
            f"Sample weights have reached infinite values in round {result.weights.size}, so "
            "boosting ends there. Try a lower learning_rate.",
            UserWarning,
        )
    return result


class AdaBoostRounds(Rounds):
    """The rounds so far. ``rows`` has the weights before the very first round, ``before`` the
    rounds of a warm start; ``model`` makes a fitted estimator from a result, for callbacks."""

    def __init__(
        self,
        learners: Learners,
        rule: Samme | R2,
        rows: RowWeights,
        before: AdaBoostResult,
        model: Callable[[AdaBoostResult], Any],
    ) -> None:
        self._learners, self._rule, self._rows, self._model = learners, rule, rows, model
        pairs = zip(before.errors.tolist(), before.weights.tolist(), strict=True)
        self._done = [Judgement(error, weight) for error, weight in pairs]
        self._error = self._done[-1].error if self._done else rule.chance
        self._predicted: Any = None  # by the last learner, for the training rows
        self._counted = 0  # learners whose mistakes the weights of the rows reflect
        self.ends = before.ends(rule.chance)

    def start(self, index: int) -> int:
        # The learners of a warm start are counted before its first round, later ones a round each.
        for t in range(self._counted, index):
            predicted, self._predicted = self._predicted, None
            if predicted is None:
                predicted = self._learners.predictions(t)
            self._rule.reweight(predicted, self._done[t].weight, self._rows)
        self._counted = index
        return index

    def finish(self, started: int) -> Judgement | None:
        predicted = self._learners.fit(started, self._rows)
        learner = self._rule.judge(predicted, self._rows)
        if learner.ends == WEAK:
            if started > 0:
                self.ends = WEAK
                return None
            alone = self._rule.weight_alone(learner.error)
            learner = Judgement(learner.error, alone, WEAK)
        self._predicted, self._error = predicted, learner.error
        return learner

    def settle(self, finished: Judgement) -> None:
        self._done.append(finished)
        self.ends = finished.ends

    def keep(self, n_rounds: int) -> None:
        del self._done[n_rounds:]
        self._learners.keep(n_rounds)

    def forest(self) -> Forest:
        return self._learners.forest(np.array([learner.weight for learner in self._done]))

    def model(self, result: TrainingResult) -> Any:
        return self._model(self.result(result))

    def result(self, result: TrainingResult) -> AdaBoostResult:
        """Return the weights and errors of the learners with the rest of a result."""
        weights = np.array([learner.weight for learner in self._done], np.float64)
        errors = np.array([learner.error for learner in self._done], np.float64)
        return AdaBoostResult(weights, errors, result.stopped, result.error)

    def last_error(self, rows: None) -> Later:
        """Return the error of the last learner; before the first one that of guessing."""
        error = self._error
        return lambda: error


@dataclass(frozen=True)
class Judgement:
    """The weighted error of a learner, its weight in the model (0 if it does not belong there), and
    why boosting ends with it (empty if it goes on)."""

    error: float
    weight: float
    ends: str = ""


class Samme:
    """AdaBoost.M1 for two classes, SAMME for more, of class numbers ``codes`` (int64, on the
    device).

    Freund and Schapire, "A decision-theoretic generalization of on-line learning and an application
    to boosting", JCSS 55, 1997. Zhu, Zou, Rosset and Hastie, "Multi-class AdaBoost", Statistics and
    Its Interface 2, 2009."""

    def __init__(self, codes: Array, n_classes: int, learning_rate: float) -> None:
        self._codes = codes
        self._n_classes = n_classes
        self._learning_rate = learning_rate
        self._unit = 0.5 if n_classes == 2 else 1.0
        self.chance = 1.0 - 1.0 / n_classes

    def judge(self, predicted: Array, rows: RowWeights) -> Judgement:
        """Return error and weight of a learner with these predictions for the training rows."""
        wrong, whole = rows.share(self._wrong(predicted))
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

    def reweight(self, predicted: Array, weight: float, rows: RowWeights) -> None:
        """Change the weights of the rows after a learner of this weight."""
        factor = float(_exp(np.float64(weight / self._unit)))
        rows.multiply_some(self._wrong(predicted), factor)

    def _wrong(self, predicted: Any) -> Array:
        return predicted != self._codes

    def weight_alone(self, error: float) -> float:
        """Raise a ValueError: no model can be made of a first learner that is too weak."""
        raise ValueError(
            f"The first learner is wrong on {error:.3g} of the weight, which is as bad as or worse "
            f"than random guessing ({self.chance:.3g}), so AdaBoost cannot start. Use a stronger "
            "base estimator (deeper trees), and check that X separates the classes of y."
        )


class R2:
    """AdaBoost.R2 (Drucker, "Improving regressors using boosting techniques", ICML 1997) with the
    loss "linear", "square" or "exponential"."""

    chance = CHANCE_R2

    def __init__(self, y: Array, loss: str, learning_rate: float, device: Device) -> None:
        self._y = y
        self._loss = loss
        self._learning_rate = learning_rate
        self._xp = device.xp

    def judge(self, predicted: Array, rows: RowWeights) -> Judgement:
        error = rows.mean(self._losses(predicted, rows))
        if error <= 0:
            return Judgement(0.0, 1.0, PERFECT)
        if error >= CHANCE_R2:
            return Judgement(error, 0.0, WEAK)
        weight = float(_log(np.float64((1.0 - error) / error))) * self._learning_rate
        return Judgement(error, weight)

    def reweight(self, predicted: Array, weight: float, rows: RowWeights) -> None:
        rows.multiply(_exp((self._losses(predicted, rows) - 1.0) * weight))

    def weight_alone(self, error: float) -> float:
        """Return the weight of a first learner that is too weak."""
        return 1.0

    def _losses(self, predicted: Array, rows: RowWeights) -> Array:
        """Return losses from 0 to 1, relative to the largest error of a row that has a weight."""
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


class RowWeights:
    """Weights that sum up to one, and sums over them that depend on no order of addition.
    ``values`` are float64 on the device; ``used`` are the rows of positive weight, which alone can
    change, or None for all."""

    def __init__(self, sample_weight: Array | None, n_rows: int, device: Device) -> None:
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
        """Number of rows with a positive weight."""
        return self.values.size if self.used is None else int(self._xp.count_nonzero(self.used))

    def share(self, rows: Array) -> tuple[int, int]:
        """Return the weight of some rows (a mask) and that of all, as integers in the same unit."""
        return int((self._units * rows).sum()), self._total

    def mean(self, losses: Array) -> float:
        """Return the weighted mean of losses between 0 and 1; those of rows without weight may be
        any finite numbers."""
        return int((self.values * losses * UNIT).astype("int64").sum()) / self._total

    def multiply_some(self, rows: Array, factor: float) -> None:
        """Multiply the weights of some rows (a mask) by a factor >= 1, divide all by the new
        sum."""
        part, whole = self.share(rows)
        total = (whole - part) / UNIT + part / UNIT * factor
        self._keep(self.values * self._xp.where(rows, factor / total, 1.0 / total))

    def multiply(self, factors: Array) -> None:
        """Multiply the weights by factors from 0 to 1, float64 of shape (n_rows,), and divide
        all by their new sum."""
        self._keep(self._normalised(self.values * factors))

    def whole(self) -> Array:
        """Return the weights on the grid, times GRID: int64 of shape (n_rows,), at least 1."""
        scale = GRID - 2.0 * self.values.size  # their sum stays below GRID, whatever is rounded
        return self._xp.maximum(self._xp.floor(self.values * scale + 0.5), 1.0).astype("int64")

    def on_grid(self) -> Array:
        """Return the weights on the grid, zero for rows without weight: the trees of this package,
        which turn weights into integers, take these as they are."""
        weights = self.whole() / GRID
        return weights if self.used is None else weights * self.used

    def _normalised(self, values: Array) -> Array:
        """Divide values between 0 and 1, whose sum is at most about 1, by it."""
        # A sum far below 1 has few digits in units of 1 / UNIT; the second pass makes up for it.
        for _ in range(2):
            values = values / (int((values * UNIT).astype("int64").sum()) / UNIT)
        return values

    def _keep(self, values: Array) -> None:
        values = self._xp.maximum(values, LEAST)
        self.values = values if self.used is None else values * self.used
        self._units = (self.values * UNIT).astype("int64")
        self._total = int(self._units.sum())
