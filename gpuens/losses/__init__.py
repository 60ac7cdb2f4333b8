"""Losses of gradient boosting, as objects for the parameter ``loss``.

A name such as "tweedie" means a loss with its default parameters; an object can have others, as in
``GradientBoostingRegressor(loss=Tweedie(power=1.2))``.
"""

from __future__ import annotations

from ..kernels.scalars.elementary import exp, log, sigmoid, softplus
from ..kernels.scalars.primitives import mul
from .base import Loss
from .classes import Exponential, Focal, LogLoss
from .custom import ArrayLoss, CustomLoss
from .names import loss_of
from .regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, SquaredError, Tweedie

__all__ = [
    "AbsoluteError",
    "ArrayLoss",
    "CustomLoss",
    "Exponential",
    "Focal",
    "Gamma",
    "Huber",
    "LogLoss",
    "Loss",
    "Poisson",
    "Quantile",
    "SquaredError",
    "Tweedie",
    "exp",
    "log",
    "loss_of",
    "mul",
    "sigmoid",
    "softplus",
]
