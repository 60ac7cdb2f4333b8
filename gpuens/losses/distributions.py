"""Losses that fit a whole distribution: the negative log-likelihood of two parameters.

Each parameter has a tree in every round. Their steps are Newton's with Fisher's information in the
place of the hessian, which is the natural gradient of Duan et al. (2020, "NGBoost") because the
two parameters of each family here are orthogonal: the information has no entry off its diagonal.
Gradients of the location are divided by the information too, which is that of the row's scale
relative to the scale at the start: models do not depend on the unit of y.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import distributions
from ..devices.placement import Device, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import largest_of_all
from ..kernels.runtime.dtypes import NodeValues, Totals
from ..kernels.scalars import distributions as formulas
from ..kernels.scalars import elementary
from ..kernels.scalars.losses import Given, Logarithm, LogisticLink, LogLink, Poisson
from ..kernels.scalars.primitives import vectorise
from ..kernels.statistics.gradients import row_values
from ..numerics.minimise import minimise
from ..numerics.weighted import Later, mean_later
from .base import GradientInputs, Loss, first_row
from .leaves import LeafBatch
from .safe_steps import largest_step

Self = TypeVar("Self", bound=Loss)
log = vectorise(elementary.log)
exp = vectorise(elementary.exp)
log_gamma = vectorise(formulas.log_gamma)

LARGEST_FACTOR = 8.0
"""On the square of a scale in one round, before shrinkage, and on a size: more than a few rows
can justify."""
SMALLEST_LOG_SIZE, LARGEST_LOG_SIZE = -20.0, 14.0
"""Where the negative binomial distribution is zero almost surely, and where it is Poisson's."""
LOCATION_PACE = 2.0
"""Steps of the location for one of the scale, which overfits first: a scale that is too small costs
most. Likelihoods of fresh rows are better than with 1 at learning rates of 0.02 and 0.1; with 4,
the location overfits small tables at 0.1. Means and sizes of counts are best with 1."""
FITTING_STEPS = 50
"""Steps from the normal distribution to the best constant of Student's t distribution."""
COLLAPSED, COLLAPSING, ROUNDED = 1e-200, 0.95, 2.0**-50
"""Shares of the variance, of the squared scale before the last of these steps, and of the centre,
below which there is no best constant."""


class DistributionLoss(Loss):
    """The negative log-likelihood of a distribution with two parameters."""

    coupled: ClassVar[bool] = True
    n_outputs: int = 2

    def for_targets(self: Self, n_targets: int) -> Self:
        if n_targets > 1:
            raise ValueError(
                f"loss={self!r} fits the distribution of one target, and y has {n_targets}: fit a "
                "model for each."
            )
        return self

    def check_training(self, y: Array, weight: Array, device: Device) -> None:
        values = self._values(y)
        mean = self._mean(values, weight, device)
        variance = self._mean((values - mean) ** 2, weight, device)
        # The mean of equal numbers may differ from them by a rounding error.
        counted = values[weight > 0.0] if weight.size else values
        ends = (float(counted.max()), float(-counted.min())) if counted.size else (-math.inf,) * 2
        spread = sum(largest_of_all(end, self.workers) for end in ends)
        if not (spread > 0.0 and variance > 0.0):
            raise ValueError(
                f"loss={self.name!r} fits a distribution, but y is the same in all rows of "
                "positive weight: it has no spread. Use loss='squared_error'."
            )

    def distribution(self, raw: Array) -> Any:
        """Return the distributions (``gpuens.distributions``) of raw predictions (2, n_rows)."""
        raise NotImplementedError

    def _values(self, y: Array) -> Array:
        """Return what the location is a location of."""
        return y

    @property
    def n_terms(self) -> int:
        return 1

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        raise ValueError(
            f"init must be None or 'zero' with loss={self!r}: another estimator predicts one "
            "number a row, a distribution has two."
        )

    def gradients_of_outputs(
        self,
        outputs: range,
        y: Array,
        raw: Array,
        shared: Array,
        weight: Array,
        g: Array,
        h: Array,
        device: Device,
    ) -> Sequence[Totals]:
        return [
            self.gradients(k, self.targets(y, k, device), raw[i], shared, weight, g[i], h[i])
            for i, k in enumerate(outputs)
        ]

    def leaf_values(self, batch: LeafBatch, outputs: range) -> Sequence[NodeValues]:
        steps = super().leaf_values(batch, outputs)
        rate = batch.learning_rate
        return [
            NodeValues(self._bounded(k, own.value, rate), own.hessian)
            for k, own in zip(outputs, steps, strict=True)
        ]

    def _bounded(self, k: int, step: np.ndarray, learning_rate: float) -> np.ndarray:
        """Return the values of the nodes of output k by their Newton steps."""
        raise NotImplementedError


class LocationScaleLoss(DistributionLoss):
    """A family with the raw predictions location and logarithm of the scale."""

    log_unit: float = 0.0
    """Logarithm of the scale at the start."""
    per_unit: float = 1.0
    """1 divided by this scale."""

    @property
    def _inverse_df(self) -> float:
        """1/ν of Student's t distribution."""
        return 0.0

    @property
    def _log_constant(self) -> float:
        """The part of the negative log-likelihood that depends on no parameter."""
        return formulas.HALF_LOG_TWO_PI

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        """Fit the constant distribution, by weighted least squares that are repeated."""
        values, inverse = self._values(y), self._inverse_df
        centre = self._mean(values, weight, device)
        apart = values - centre
        square = self._mean(apart * apart, weight, device)  # a GPU rounds powers differently
        variance = before = square
        for _ in range(FITTING_STEPS if inverse > 0.0 else 0):
            if square <= COLLAPSED * variance:
                break
            before = square
            share = (1.0 + inverse) / (1.0 + inverse * (apart * apart / square))
            total = self._mean(share, weight, device)
            centre = self._mean(share * values, weight, device) / total
            apart = values - centre
            square = self._mean(share * (apart * apart), weight, device)
        # Near the rounding errors of the centre the scale shrinks no further.
        rounding = min((ROUNDED * centre) ** 2, ROUNDED * variance)
        if square < max(COLLAPSING * before, rounding):
            # Of more than ν / (ν + 1) of the rows: the smaller the scale, the likelier they are.
            raise ValueError(
                f"loss={self!r} finds no scale: y is the same, or nearly so, in too many rows (at "
                f"{centre:.3g}) for so few degrees of freedom. Use loss='normal', or StudentT with "
                "a larger df."
            )
        return np.array([centre, 0.5 * float(log(np.float64(square)))])

    def on_training_rows(
        self: Any, y: Array, weight: Array, base: np.ndarray, device: Device
    ) -> Any:
        return self._with(log_unit=float(base[1]), per_unit=float(exp(-base[1])))

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute residuals and logarithms of scales, in units of the scale at the start."""
        residual = (self._values(y) - raw[0]) * self.per_unit
        return device.xp.stack([residual, raw[1] - self.log_unit])

    def gradient_inputs(
        self, k: int, target: Array, raw: Array, shared: Array, weight: Array
    ) -> GradientInputs:
        residual, log_scale = shared
        if k == 1:
            how = formulas.LocationScale(self._inverse_df)
            return how, residual, log_scale, weight[:0], weight
        by_weight = formulas.LocationWeight(self._inverse_df)
        share = row_values(by_weight, residual, log_scale, residual[:0])
        share = share * weight if weight.size else share
        slope, one = residual * (-1.0 / self.per_unit), log_scale * 0.0 + 1.0
        return Given(), slope, one, residual[:0], share

    def _bounded(self, k: int, step: np.ndarray, learning_rate: float) -> np.ndarray:
        """Weighted least squares for the location, at most whole steps of them. The scale's square
        is multiplied by the mean of the leaf's squared residuals in its unit, which for fixed
        weights is the best factor."""
        if k == 0:
            return step * max(1.0, min(LOCATION_PACE, 1.0 / learning_rate))
        return 0.5 * log(np.clip(1.0 + step, 1.0 / LARGEST_FACTOR, LARGEST_FACTOR))

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        residual, log_scale = self.shared(y, raw, device)
        how = formulas.LocationScale(self._inverse_df)
        values = row_values(how, residual, log_scale, residual[:0]) + self._log_density_of(y)
        mean = mean_later(values, weight, device, self.workers)
        constant = self.log_unit + self._log_constant
        return lambda: mean() + constant

    def _log_density_of(self, y: Array) -> Any:
        """Return the logarithm of dy / d``_values(y)``."""
        return 0.0

    def predict(self, raw: Array, device: Device) -> Array:
        return raw[0].copy()


@dataclass(frozen=True)
class Normal(LocationScaleLoss):
    """The normal distribution: its mean, and the logarithm of its standard deviation.

    Predicts the mean; ``predict_dist`` returns ``gpuens.distributions.Normal``.
    """

    name: ClassVar[str] = "normal"

    def distribution(self, raw: Array) -> distributions.Normal:
        location, log_scale = to_numpy(raw)
        return distributions.Normal(location, np.exp(log_scale))


@dataclass(frozen=True)
class LogNormal(LocationScaleLoss):
    """The distribution of positive numbers whose logarithm is normal.

    Predicts the mean; ``predict_dist`` returns ``gpuens.distributions.LogNormal``.
    """

    name: ClassVar[str] = "log_normal"

    def check_target(self, y: Array, name: str) -> None:
        wrong = y <= 0
        if bool(wrong.any()):
            (row,) = first_row(wrong)
            raise ValueError(
                f"loss='log_normal' requires strictly positive y. {name} is {float(y[row])} in row "
                f"{row}: drop such rows, or use loss='normal'."
            )

    def distribution(self, raw: Array) -> distributions.LogNormal:
        location, log_scale = to_numpy(raw)
        return distributions.LogNormal(location, np.exp(log_scale))

    def _values(self, y: Array) -> Array:
        return row_values(Logarithm(), y, y, y[:0])

    def _log_density_of(self, y: Array) -> Any:
        return self._values(y)

    def predict(self, raw: Array, device: Device) -> Array:
        variance = row_values(LogLink(), raw[0], 2.0 * raw[1], raw[0, :0])
        return row_values(LogLink(), raw[0], raw[0] + 0.5 * variance, raw[0, :0])


@dataclass(frozen=True)
class StudentT(LocationScaleLoss):
    """Student's t distribution, for targets with outliers: its centre, and the logarithm of its
    scale.

    Predicts the centre; ``predict_dist`` returns ``gpuens.distributions.StudentT``.

    Parameters
    ----------
    df : float, default=3.0
        Degrees of freedom ν > 0, the same for all rows; the smaller, the heavier the tails. If y is
        the same in more than a share ν / (ν + 1) of the rows, there is no best scale, and it is
        refused.
    """

    df: float = 3.0
    name: ClassVar[str] = "student_t"

    def __post_init__(self) -> None:
        if not isinstance(self.df, numbers.Real) or not 0 < float(self.df) < np.inf:
            raise ValueError(f"df of StudentT must be a finite number > 0, got {self.df!r}.")

    @property
    def _inverse_df(self) -> float:
        return 1.0 / float(self.df)

    @property
    def _log_constant(self) -> float:
        half = np.array([0.5, 0.5 * self.df, 0.5 * self.df + 0.5])
        one, other, both = log_gamma(half).tolist()
        return float(one + other - both) + 0.5 * float(log(np.float64(self.df)))

    def distribution(self, raw: Array) -> distributions.StudentT:
        location, log_scale = to_numpy(raw)
        return distributions.StudentT(location, np.exp(log_scale), float(self.df))


@dataclass(frozen=True)
class NegativeBinomial(DistributionLoss):
    """The negative binomial distribution, for counts that vary more than Poisson's: the logarithms
    of the mean m and of the size r. The variance is m + m²/r.

    Predicts the mean; ``predict_dist`` returns ``gpuens.distributions.NegativeBinomial``.
    """

    name: ClassVar[str] = "negative_binomial"

    def check_target(self, y: Array, name: str) -> None:
        wrong = (y < 0) | (y != y.round())
        if bool(wrong.any()):
            (row,) = first_row(wrong)
            raise ValueError(
                "loss='negative_binomial' requires counts: whole numbers >= 0. "
                f"{name} is {float(y[row])} in row {row}."
            )

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        xp = device.xp
        mean = float(log(np.float64(self._mean(y, weight, device))))
        raw = xp.zeros((2, y.shape[0])) + mean

        def slope(log_size: float) -> tuple[float, float]:
            raw[1] = log_size
            g, h = self._of_size(y, self.shared(y, raw, device))
            return self._mean(g, weight, device), self._mean(h, weight, device)

        log_size = minimise(slope, LARGEST_LOG_SIZE)
        return np.array([mean, max(log_size, SMALLEST_LOG_SIZE)])

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute the mean m, ln r, r, the share r / (r + m), and ln(1 + m / r)."""
        f, size = raw[0], device.xp.clip(raw[1], SMALLEST_LOG_SIZE, LARGEST_LOG_SIZE)
        nothing = f[:0]
        return device.xp.stack([
            row_values(LogLink(), f, f, nothing),
            size,
            row_values(LogLink(), f, size, nothing),
            row_values(LogisticLink(), f, size, f),
            row_values(formulas.SoftplusLink(), f, f.copy(), size),
        ])  # fmt: skip

    def gradient_inputs(
        self, k: int, target: Array, raw: Array, shared: Array, weight: Array
    ) -> GradientInputs:
        if k == 1:
            return Given(), *self._of_size(target, shared), weight[:0], weight
        share = shared[3] * weight if weight.size else shared[3]
        return Poisson(), target, raw, weight[:0], share

    def _of_size(self, y: Array, shared: Array) -> tuple[Array, Array]:
        """Return the gradient and the information of ln r."""
        mean, log_size, size, share, odds = shared
        slope = row_values(formulas.SizeSlope(), y, log_size, y[:0])
        information = row_values(formulas.SizeInformation(), mean, log_size, y[:0])
        return size * odds - slope - (mean - y) * share, information

    def _bounded(self, k: int, step: np.ndarray, learning_rate: float) -> np.ndarray:
        longest = largest_step(learning_rate) if k == 0 else math.log(LARGEST_FACTOR)
        return np.clip(step, -longest, longest)

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        _, log_size, size, _, odds = self.shared(y, raw, device)
        entropy = row_values(formulas.SizeEntropy(), y, log_size, y[:0])
        values = entropy + (size + y) * odds - y * (raw[0] - log_size)
        return mean_later(values, weight, device, self.workers)

    def predict(self, raw: Array, device: Device) -> Array:
        return row_values(LogLink(), raw[0], raw[0], raw[0, :0])

    def distribution(self, raw: Array) -> distributions.NegativeBinomial:
        log_mean, log_size = to_numpy(raw)
        size = np.exp(np.clip(log_size, SMALLEST_LOG_SIZE, LARGEST_LOG_SIZE))
        return distributions.NegativeBinomial(np.exp(log_mean), size)
