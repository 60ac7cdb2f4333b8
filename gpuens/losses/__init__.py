"""Losses of gradient boosting, as objects for the parameter ``loss``.

A name such as "tweedie" means a loss with its default parameters; an object can have others, as in
``GradientBoostingRegressor(loss=Tweedie(power=1.2))``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..kernels.scalars.elementary import exp, log, sigmoid, softplus
from ..kernels.scalars.lazy_jit import load_numba
from .base import Loss
from .classes import Exponential, Focal, LogLoss
from .custom import ArrayLoss, CustomLoss
from .distributions import LogNormal, NegativeBinomial, Normal, StudentT
from .names import loss_of
from .ranking import CrossEntropyNDCG, LambdaRank, PairwiseLogistic
from .regression import (
    AbsoluteError,
    Expectile,
    Gamma,
    Huber,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from .survival import AFT, Cox

if TYPE_CHECKING:
    from ..kernels.scalars.primitives import mul

__all__ = [
    "AFT",
    "AbsoluteError",
    "ArrayLoss",
    "Cox",
    "CrossEntropyNDCG",
    "CustomLoss",
    "Expectile",
    "Exponential",
    "Focal",
    "Gamma",
    "Huber",
    "LambdaRank",
    "LogLoss",
    "LogNormal",
    "Loss",
    "NegativeBinomial",
    "Normal",
    "PairwiseLogistic",
    "Poisson",
    "Quantile",
    "SquaredError",
    "StudentT",
    "Tweedie",
    "exp",
    "log",
    "loss_of",
    "mul",
    "sigmoid",
    "softplus",
]

if sys.modules.get("numba") is not None:
    load_numba()  # so that functions of the user that call ``mul`` compile


def __getattr__(name: str) -> Any:
    if name != "mul":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    load_numba()
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()  # a function that refers to it may be half compiled
    from ..kernels.scalars.primitives import mul

    globals()[name] = mul
    return mul
