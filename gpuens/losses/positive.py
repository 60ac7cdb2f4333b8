"""Losses of positive targets: Poisson, gamma, Tweedie. Predictions are exponentials."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..devices.placement import Device
from ..kernels.scalars import elementary
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import vectorise
from ..kernels.statistics.row_values import row_values
from ..numerics.weighted import weighted_mean
from .base import RegressionLoss, first_row

exp, log = vectorise(elementary.exp), vectorise(elementary.log)


class _PositiveLoss(RegressionLoss):
    """With the prediction eᶠ, the best constant predicts the mean."""

    zero_allowed: ClassVar[bool] = True

    def check_target(self, y: Any, name: str) -> None:
        wrong = y < 0 if self.zero_allowed else y <= 0
        if not bool(wrong.any()):
            return
        place = first_row(wrong)
        wants = "non-negative y and sum(y) > 0" if self.zero_allowed else "strictly positive y"
        raise ValueError(
            f"loss={self.name!r} requires {wants}. {name} is {float(y[place[::-1]])} in row "
            f"{place[0]}: drop such rows, or use another loss, 'squared_error' for example."
        )

    def check_training(self, y: Any, weight: Any, device: Device) -> None:
        for k in range(self.n_outputs):
            if not weighted_mean(self.targets(y, k, device), weight, device) > 0:
                raise ValueError(
                    f"loss={self.name!r} requires non-negative y and sum(y) > 0. y is zero in "
                    "every row of positive weight: there is nothing to learn."
                )

    def _constant(self, k: int, target: Any, weight: Any, device: Device) -> float:
        return float(log(np.float64(weighted_mean(target, weight, device))))

    def predict(self, raw: Any, device: Device) -> Any:
        means = device.xp.stack([row_values(formulas.LogLink(), f, f, f[:0]) for f in raw])
        return super().predict(means, device)


@dataclass(frozen=True)
class Poisson(_PositiveLoss):
    """eᶠ - y f: half the Poisson deviance, but for terms without f. For counts, and for rates
    with the exposure as ``sample_weight``.

    Parameters
    ----------
    max_delta_step : float, default=0.0
        >= 0. The hessian is taken where the raw prediction is larger by this, which makes steps
        shorter, like a lower learning rate. LightGBM and XGBoost have 0.7 unless told otherwise.
    """

    max_delta_step: float = 0.0
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        step = self.max_delta_step
        if not isinstance(step, numbers.Real) or not 0 <= float(step) < np.inf:
            raise ValueError(
                f"max_delta_step of Poisson must be a finite number >= 0, got {step!r}."
            )

    def formula(self, k: int) -> Any:
        return formulas.Poisson(float(exp(np.float64(self.max_delta_step))))


@dataclass(frozen=True)
class Gamma(_PositiveLoss):
    """f + y e⁻ᶠ: half the gamma deviance, but for terms without f. For positive amounts."""

    name: ClassVar[str] = "gamma"
    zero_allowed: ClassVar[bool] = False

    def formula(self, k: int) -> Any:
        return formulas.Gamma()


@dataclass(frozen=True)
class Tweedie(_PositiveLoss):
    """Half the Tweedie deviance, but for terms without f. For amounts of which many are zero.

    Parameters
    ----------
    power : float, default=1.5
        In (1, 2): the power of the mean that the variance grows with. The ends are
        ``Poisson`` (1) and ``Gamma`` (2).
    """

    power: float = 1.5
    name: ClassVar[str] = "tweedie"

    def __post_init__(self) -> None:
        if not isinstance(self.power, numbers.Real) or not 1 < float(self.power) < 2:
            raise ValueError(
                f"power of Tweedie must be a number in (1, 2), got {self.power!r}. Use "
                "loss='poisson' for 1 and loss='gamma' for 2."
            )

    def formula(self, k: int) -> Any:
        return formulas.Tweedie(float(self.power))
