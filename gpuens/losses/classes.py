"""Losses of classes: log loss, exponential, focal. Targets are class numbers from 0."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..devices.array_functions import indicator
from ..devices.placement import Device
from ..forest.sum_of_trees import Link
from ..inputs.few_values import MOST_VALUES
from ..kernels.prediction.probabilities import log_sum_exp, probabilities
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import elementary
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import vectorise
from ..kernels.statistics.gradients import NO_CLASS
from ..numerics.minimise import minimise
from ..numerics.weighted import Later, mean_later
from .base import Loss
from .joint_rows import JointRows
from .safe_steps import largest_rate, largest_step

SMALLEST_SHARE = 1e-15
"""Least share of a class; rarer classes start from it."""
LARGEST_CONSTANT = 50.0
SMALLEST_CHANCE = float(np.finfo(np.float32).eps)
"""Least chance of a class in predictions that training starts from, as in scikit-learn."""

log = vectorise(elementary.log)
focal_gradient = vectorise(formulas.LOSSES[formulas.Focal].gradient)


def log_odds(share: float) -> float:
    """Return ln(p / (1 - p)) of a class's share."""
    p = min(max(float(share), SMALLEST_SHARE), 1.0 - SMALLEST_SHARE)
    of_class, of_others = log(np.array([p, 1.0 - p]))
    return float(of_class - of_others)


class ClassLoss(Loss):
    """A loss of classification."""

    def target_type(self, device: Device) -> np.dtype:
        is_narrow = device.kind == "cpu" and self.n_outputs <= MOST_VALUES
        return np.dtype(np.uint8 if is_narrow else np.float64)

    def targets(self, y: Array, k: int, device: Device) -> Array:
        if self.n_outputs == 1:
            return y
        return indicator(y, k)

    def joint_targets(self, y: Array, outputs: range) -> tuple[Array, int]:
        return y, NO_CLASS if self.n_outputs == 1 else outputs.start

    @property
    def n_terms(self) -> int:
        return 1

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        """Turn the chances of the classes, (n_rows, n_classes), into raw predictions."""
        columns = predicted.T if self.n_outputs > 1 else predicted.T[1:]
        p = np.clip(columns, SMALLEST_CHANCE, 1.0 - SMALLEST_CHANCE)
        return log(p) if self.n_outputs > 1 and self.coupled else log(p) - log(1.0 - p)


@dataclass(frozen=True)
class LogLoss(ClassLoss):
    """-ln P(y): binomial for two classes, multinomial for more (Friedman 2001, 4.5 and 4.6)."""

    name: ClassVar[str] = "log_loss"

    @property
    def link(self) -> Link:
        return Link("logistic" if self.n_outputs == 1 else "softmax")

    def for_classes(self, n_classes: int) -> Loss:
        return BinomialLogLoss() if n_classes == 2 else MultinomialLogLoss(n_classes)

    def predict(self, raw: Array, device: Device) -> Array:
        return probabilities(raw)


@dataclass(frozen=True)
class BinomialLogLoss(LogLoss):
    """Log loss of two classes, 0 and 1; raw predictions are log-odds."""

    def formula(self, k: int) -> Any:
        return formulas.BinomialLogLoss()

    def largest_step(self, learning_rate: float) -> float:
        return largest_step(learning_rate)

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        return np.array([log_odds(self._mean(y, weight, device))])


class MultinomialLogLoss(LogLoss):
    """Log loss of K classes; one raw prediction for each."""

    coupled: ClassVar[bool] = True

    def __init__(self, n_classes: int) -> None:
        self.__dict__["n_outputs"] = n_classes

    def formula(self, k: int) -> Any:
        return formulas.MultinomialLogLoss(self._factor)

    @property
    def _factor(self) -> float:
        return self.n_outputs / (self.n_outputs - 1.0)

    def safe_rate(self, learning_rate: float) -> float:
        return min(learning_rate, largest_rate(self._factor))

    def largest_step(self, learning_rate: float) -> float:
        return largest_step(learning_rate, factor=self._factor, outputs_together=True)

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        shares = [
            self._mean(self.targets(y, k, device), weight, device) for k in range(self.n_outputs)
        ]
        return np.array([log(np.float64(max(p, SMALLEST_SHARE))) for p in shares])

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        return log_sum_exp(raw)

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        # Only the output of a row's own class adds to its loss: the others need not be read.
        xp, n = device.xp, raw.shape[1]
        own = xp.take(xp.reshape(raw, (-1,)), xp.astype(y, xp.int64) * n + xp.arange(n))
        return mean_later(self.shared(y, raw, device) - own, weight, device, self.workers)

    @staticmethod
    def values_of_models(losses: Sequence[Any], rows: JointRows) -> Array:
        raw, xp = rows.raw_of_models, rows.device.xp
        n_models, n_outputs, n = raw.shape
        first = xp.arange(n_models, dtype=xp.int64)[:, None] * n_outputs
        place = (xp.astype(rows.target, xp.int64) + first) * n + xp.arange(n)
        own = xp.take(xp.reshape(raw, (-1,)), xp.reshape(place, (-1,)))
        return losses[0].shared(rows.target, raw, rows.device) - xp.reshape(own, (n_models, n))

    @property
    def has_plain_mean(self) -> bool:
        return True

    def predict(self, raw: Array, device: Device) -> Array:
        return probabilities(raw)


class OneAgainstTheRest(ClassLoss):
    """A loss of two classes; more classes are taken one against the rest.

    The raw predictions of the classes are then independent; their probabilities are divided by
    their sum.
    """

    def for_classes(self, n_classes: int) -> Loss:
        return self._with(n_outputs=1 if n_classes == 2 else n_classes)

    def predict(self, raw: Array, device: Device) -> Array:
        if self.n_outputs == 1:
            return self._two_classes(raw[0], device)
        columns = [self._two_classes(raw[k], device)[:, 1] for k in range(self.n_outputs)]
        total = columns[0]
        for column in columns[1:]:
            total = total + column
        return device.xp.stack([column / total for column in columns], axis=1)

    def _two_classes(self, raw: Array, device: Device) -> Array:
        """Turn one raw prediction a row into probabilities of shape (n_rows, 2)."""
        return probabilities(raw[None])


@dataclass(frozen=True)
class Exponential(ClassLoss):
    """e⁻ᶠ or eᶠ for two classes: AdaBoost's loss. P(1) = 1/(1 + e⁻²ᶠ)."""

    name: ClassVar[str] = "exponential"

    @property
    def link(self) -> Link:
        return Link("logistic", 2.0)

    def for_classes(self, n_classes: int) -> Loss:
        if n_classes != 2:
            raise ValueError(
                "Only binary classification is supported. loss='exponential' is only suitable for "
                f"two classes, y has {n_classes} classes: use loss='log_loss' or 'focal'."
            )
        return self

    def formula(self, k: int) -> Any:
        return formulas.Exponential()

    def largest_step(self, learning_rate: float) -> float:
        return largest_step(learning_rate)

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        return np.array([0.5 * log_odds(self._mean(y, weight, device))])

    def predict(self, raw: Array, device: Device) -> Array:
        return probabilities(2.0 * raw)

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        return 0.5 * super().raw_of(predicted)


@dataclass(frozen=True)
class Focal(OneAgainstTheRest):
    """-(1 - p)ᵞ ln p of the true class (Lin et al. 2017): rows that are already right count
    little. More than two classes are taken one against the rest, as in that paper.

    Its second derivative can be negative; the hessian omits the negative term, which makes steps
    shorter.

    Parameters
    ----------
    gamma : float, default=2.0
        >= 0; 0 is the log loss.
    """

    gamma: float = 2.0
    name: ClassVar[str] = "focal"

    @property
    def link(self) -> Link | None:
        return Link("logistic") if self.n_outputs == 1 else None

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, numbers.Real) or not 0 <= float(self.gamma) < np.inf:
            raise ValueError(f"gamma of Focal must be a finite number >= 0, got {self.gamma!r}.")

    def formula(self, k: int) -> Any:
        return formulas.Focal(float(self.gamma))

    def largest_step(self, learning_rate: float) -> float:
        return largest_step(learning_rate, growth=1.0 + float(self.gamma))

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        """Find where the slopes of both classes, times their shares, sum to zero."""
        constants = []
        for k in range(self.n_outputs):
            p = self._mean(self.targets(y, k, device), weight, device)
            p = min(max(p, SMALLEST_SHARE), 1.0 - SMALLEST_SHARE)

            def both(f: float, p: float = p) -> tuple[float, float]:
                g, h = focal_gradient(np.array([1.0, 0.0]), np.full(2, f), float(self.gamma))
                slope, curvature = (p * a[0] + (1.0 - p) * a[1] for a in (g, h))
                return float(slope), float(curvature)

            constants.append(minimise(both, LARGEST_CONSTANT))
        return np.array(constants)
