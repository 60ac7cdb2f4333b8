"""Losses of survival analysis: proportional hazards, and accelerated failure times.

The target has two rows: event (0 or 1) and time, or the bounds of times.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..devices.placement import Device
from ..forest.sum_of_trees import IDENTITY, Link
from ..inputs.survival import Survival, read_intervals, read_survival
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import largest_of_all
from ..kernels.scalars import elementary
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.survival import UNBOUNDED
from ..kernels.statistics.gradients import row_values
from ..kernels.survival.intervals import (
    EXTREME,
    LOGISTIC,
    NORMAL,
    interval_gradients,
    interval_values,
)
from ..numerics.shared_rows import of_all_rows, of_own_rows
from ..numerics.weighted import Later, mean_later, sum_later
from .base import GradientInputs, Loss
from .risk_sets import RiskSets, gradients_of, risk_sets, risks_of
from .safe_steps import largest_step

EVENT, TIME = range(2)
"""Rows of the target of proportional hazards."""
LOWER, UPPER = range(2)
"""Rows of the target of accelerated failure times."""
SMALLEST_TIME = 2.3e-308
STEPS_TO_CONSTANT = 50
"""Most Newton steps to the best constant."""
LEAST_CURVATURE = 1e-12
DISTRIBUTIONS = {"normal": NORMAL, "logistic": LOGISTIC, "extreme": EXTREME}
TIES = ("efron", "breslow")

log = vectorise(elementary.log)


class SurvivalLoss(Loss):
    """A loss of times that may be censored."""

    reads_raw: ClassVar[bool] = True
    row_bytes: ClassVar[int] = 8 * 16
    """Target; order, layout and weights; risks, their sums and both gradients."""

    def for_targets(self, n_targets: int) -> Any:
        raise ValueError(f"loss={self!r} is a loss of survival: use GradientBoostingRegressor.")

    def for_classes(self, n_classes: int) -> Any:
        raise ValueError(f"loss={self!r} is a loss of survival: use GradientBoostingRegressor.")

    def read_times(self, y: Any, name: str) -> np.ndarray:
        """Read a target as the user passed it, into float64 of shape (n_rows, 2)."""
        raise NotImplementedError

    def right_censored(self, y: np.ndarray) -> Survival:
        """Return events and times, or increasing functions of these, of targets (2, n_rows)."""
        raise NotImplementedError

    def risk(self, predicted: Array) -> Array:
        """Turn predictions, or raw ones, into risks: higher is earlier."""
        raise NotImplementedError

    def cumulative_hazards(self, raw: Array, at: np.ndarray, device: Device) -> Array:
        """Return the cumulative hazards of raw predictions (n_rows,), float64 of shape
        (n_rows, n_times); ``at`` has times, or the cumulative hazards of the baseline."""
        raise NotImplementedError

    def formula(self, k: int) -> Any:
        return formulas.Given()

    def targets(self, y: Array, k: int, device: Device) -> Array:
        return y[0]

    def gradient_inputs(
        self, k: int, target: Array, raw: Array, shared: Array, weight: Array
    ) -> GradientInputs:
        own, second = shared  # has them
        return self.formula(k), own, second, raw[:0], weight


@dataclass(frozen=True)
class Cox(SurvivalLoss):
    """The negative log partial likelihood of proportional hazards (Cox 1972), for events and
    right-censored times. Its mean is over the events.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default="efron"
        How events at the same time count: as the mean over their orders, approximately (Efron
        1977), or as if none of them had left the risk set before the others (Breslow 1974).
    """

    ties: str = "efron"
    name: ClassVar[str] = "cox"
    reads_all_rows: ClassVar[bool] = True
    _known: ClassVar[dict[int, tuple[Array, Array, RiskSets]]]
    _weight: ClassVar[Array]
    """The weights of the training rows."""

    @property
    def link(self) -> Link:
        return IDENTITY

    def __post_init__(self) -> None:
        if self.ties not in TIES:
            raise ValueError(f"ties must be 'efron' or 'breslow', got {self.ties!r}.")

    def read_times(self, y: Any, name: str) -> np.ndarray:
        event, time = read_survival(y, name)
        if not largest_of_all(float(event.any()), self.workers):
            raise ValueError(
                f"{name} has no event, so that loss='cox' is not defined: pass rows whose event "
                "was observed too."
            )
        return np.stack([event.astype(np.float64), time], axis=1)

    def right_censored(self, y: np.ndarray) -> Survival:
        return Survival(y[EVENT] > 0.5, y[TIME])

    def risk(self, predicted: Array) -> Array:
        return predicted

    def check_training(self, y: Array, weight: Array, device: Device) -> None:
        counts = y[EVENT] * weight if weight.size else y[EVENT]
        if not largest_of_all(float((counts > 0.0).any()), self.workers):
            raise ValueError(
                "No training row with an event has a positive weight: there is nothing to learn. "
                "Change y, sample_weight, or validation_fraction, which holds out rows."
            )

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        return np.zeros(1)

    def on_training_rows(self, y: Array, weight: Array, base: np.ndarray, device: Device) -> Cox:
        return self._with(_weight=weight, _known={})

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute all gradients and hessians, float64 of shape (2, n_rows)."""
        event, sets = self._sets(y, self._weight, device)
        risks = risks_of(of_all_rows(raw[0], self.workers), sets, device)
        return of_own_rows(gradients_of(sets, risks, event, device), self.workers)

    def _sets(self, y: Array, weight: Array, device: Device) -> tuple[Array, RiskSets]:
        """Return the events of rows and their layout, made once in a training: of the rows of all
        workers where they share a table."""
        if id(y) not in self._known:
            whole, weights = (of_all_rows(each, self.workers) for each in (y, weight))
            self._known[id(y)] = y, whole[EVENT], self._layout(whole, weights, device)
        return self._known[id(y)][1:]

    def _layout(self, y: Array, weight: Array, device: Device) -> RiskSets:
        return risk_sets(y[EVENT], y[TIME], weight, self.ties == "efron", device)

    def largest_step(self, learning_rate: float) -> float:
        return largest_step(learning_rate, growth=2.0)

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        _, sets = self._sets(y, weight, device)
        if sets.times.size == 0:
            return lambda: math.nan
        score = of_all_rows(raw[0], self.workers)
        risks = risks_of(score, sets, device)
        logs = row_values(formulas.Logarithm(), risks.left, risks.left, score[:0]) + risks.top
        own = score[sets.events]
        factor = sets.weight[sets.events] if sets.weight.size else device.xp.ones(own.shape[0])
        at_risk, of_events = (
            sum_later(sets.event_weight * logs, device),
            sum_later(own * factor, device),
        )
        total = sum_later(factor, device)
        return lambda: (at_risk() - of_events()) / total()

    def predict(self, raw: Array, device: Device) -> Array:
        return raw[0].copy()

    def cumulative_hazards(self, raw: Array, at: np.ndarray, device: Device) -> Array:
        return _exp(raw)[:, None] * device.asarray(at)[None, :]

    def baseline(
        self, y: np.ndarray, raw: np.ndarray, weight: np.ndarray, device: Device
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the times of events and the cumulative hazard at them for a score of 0, Breslow's
        (1974) or Efron's estimate; arrays of the host."""
        y, raw, weight = (of_all_rows(each, self.workers) for each in (y, raw, weight))
        sets = self._layout(y, weight, device)
        risks = risks_of(raw, sets, device)
        return sets.times, risks.hazard * _exp(-risks.top)


@dataclass(frozen=True)
class AFT(SurvivalLoss):
    """The negative log likelihood of accelerated failure times, for times that are observed or
    censored on the right, on the left, or to an interval.

    The logarithm of a time is f + scale · Z; the prediction is eᶠ. Values are those of the
    logarithms' density.

    Parameters
    ----------
    distribution : {"normal", "logistic", "extreme"}, default="normal"
        Of Z. "extreme" is that of the smallest value, which makes times Weibull's.
    scale : float, default=1.0
        In [1e-6, 1e6].
    """

    distribution: str = "normal"
    scale: float = 1.0
    name: ClassVar[str] = "aft"
    _known: ClassVar[dict[int, tuple[Array, Array]]]

    @property
    def link(self) -> Link:
        return Link("exp")

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise ValueError(
                f"distribution must be 'normal', 'logistic' or 'extreme', got "
                f"{self.distribution!r}."
            )
        if not isinstance(self.scale, numbers.Real) or not 1e-6 <= float(self.scale) <= 1e6:
            raise ValueError(f"scale must be a number in [1e-6, 1e6], got {self.scale!r}.")

    def read_times(self, y: Any, name: str) -> np.ndarray:
        lower, upper = read_intervals(y, name)
        if lower.max() >= UNBOUNDED:
            raise ValueError(
                f"The times of {name} must be below {UNBOUNDED:g}, got {lower.max():g}: measure "
                "them in a larger unit."
            )
        return np.stack([lower, np.minimum(upper, UNBOUNDED)], axis=1)

    def right_censored(self, y: np.ndarray) -> Survival:
        event = y[LOWER] == y[UPPER]
        wrong = ~event & (y[UPPER] < UNBOUNDED)
        if wrong.any():
            raise ValueError(
                f"Concordance is defined for events and right-censored times, but row "
                f"{int(wrong.argmax())} of y is censored on the left or to an interval: use "
                "scoring='loss'."
            )
        return Survival(event, y[LOWER])

    def observed(self, y: np.ndarray) -> np.ndarray:
        """Return the distinct times of events in targets (n_rows, 2), ascending; the finite bounds
        where there are none."""
        bounds = of_all_rows(y.T, self.workers)
        event = bounds[LOWER] == bounds[UPPER]
        times = np.unique(bounds[:, event] if event.any() else bounds)
        return times[(times > 0.0) & (times < UNBOUNDED)]

    def risk(self, predicted: Array) -> Array:
        return -predicted

    def check_training(self, y: Array, weight: Array, device: Device) -> None:
        """Check that the most likely time is finite and not 0."""
        counts = weight > 0.0 if weight.size else y[LOWER] >= 0.0
        ends = (
            (y[UPPER] < UNBOUNDED, "finite upper bound (no event)", "later than all times"),
            (y[LOWER] > 0.0, "positive lower bound", "0"),
        )
        for bounded, what, limit in ends:
            if not largest_of_all(float((bounded & counts).any()), self.workers):
                raise ValueError(
                    f"No training row of positive weight has a {what}, so that the most likely "
                    f"time is {limit}: there is nothing to learn. Pass rows whose event was "
                    "observed too, or change sample_weight or validation_fraction."
                )

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        """Take Newton steps from the mean of the bounds."""
        xp = device.xp
        bounds = _logarithms(y, device)
        finite = xp.where(abs(bounds) < UNBOUNDED, bounds, 0.0)
        middle = xp.where(bounds[LOWER] > -UNBOUNDED, finite[LOWER], finite[UPPER])
        constant = self._mean(middle, weight, device)
        limit = self.largest_step(1.0)
        for _ in range(STEPS_TO_CONSTANT):
            both = self._gradients(bounds, xp.full(middle.shape[0], constant))
            slope, curvature = (self._mean(values, weight, device) for values in both)
            step = max(-limit, min(limit, slope / max(curvature, LEAST_CURVATURE)))
            constant -= step
            if abs(step) < 1e-9 * float(self.scale):
                break
        return np.array([constant])

    def on_training_rows(self, y: Array, weight: Array, base: np.ndarray, device: Device) -> AFT:
        return self._with(_known={})

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute all gradients and hessians, float64 of shape (2, n_rows)."""
        return self._gradients(self._bounds(y, device), raw[0])

    def _bounds(self, y: Array, device: Device) -> Array:
        """Return the logarithms of the bounds, computed once in a training."""
        if id(y) not in self._known:
            self._known[id(y)] = y, _logarithms(y, device)
        return self._known[id(y)][1]

    def _gradients(self, bounds: Array, score: Array) -> Array:
        return interval_gradients(bounds[LOWER], bounds[UPPER], score, *self._settings())

    def _settings(self) -> tuple[float, int]:
        return 1.0 / float(self.scale), DISTRIBUTIONS[self.distribution]

    def largest_step(self, learning_rate: float) -> float:
        """Return the largest safe step: any for the normal distribution, of bounded curvature."""
        if self.distribution == "normal":
            return math.inf
        return largest_step(learning_rate, growth=1.0 / float(self.scale))

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        bounds = self._bounds(y, device)
        values = interval_values(bounds[LOWER], bounds[UPPER], raw[0], *self._settings())
        return mean_later(values, weight, device, self.workers)

    def predict(self, raw: Array, device: Device) -> Array:
        return _exp(raw[0])

    def cumulative_hazards(self, raw: Array, at: np.ndarray, device: Device) -> Array:
        xp, n = device.xp, raw.shape[0]
        out, never = xp.zeros((n, at.size)), xp.full(n, UNBOUNDED)
        logs = log(np.maximum(at, SMALLEST_TIME))
        for k in np.flatnonzero(at > 0.0):
            lower = xp.full(n, float(logs[k]))
            out[:, k] = interval_values(lower, never, raw, *self._settings())
        return out


def _exp(values: Array) -> Array:
    return row_values(formulas.LogLink(), values, values, values[:0])


def _logarithms(y: Array, device: Device) -> Array:
    """Return the logarithms of bounds, ±``UNBOUNDED`` where there are none."""
    positive = device.xp.maximum(y.reshape(-1), SMALLEST_TIME)
    logs = row_values(formulas.Logarithm(), positive, positive, positive[:0]).reshape(y.shape)
    logs[LOWER][y[LOWER] == 0.0] = -UNBOUNDED
    logs[UPPER][y[UPPER] >= UNBOUNDED] = UNBOUNDED
    return logs
