"""What AdaBoost makes of a learner's predictions: its error, its weight, and new weights of the
rows.

Logarithms and powers are this package's own, which are the same on every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..devices.placement import Device
from ..kernels.scalars.elementary import EXP_MAX, exp, log
from ..kernels.scalars.primitives import vectorise
from .weights import RowWeights

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
