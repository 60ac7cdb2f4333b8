"""The names that the parameter ``loss`` may have, and reading it."""

from __future__ import annotations

from typing import Any

from ..other_names import meant_value
from .base import Loss
from .classes import Exponential, Focal, LogLoss
from .custom import ArrayLoss
from .distributions import DistributionLoss, LogNormal, NegativeBinomial, Normal, StudentT
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

OF_POSITIVE_NUMBERS: tuple[type[Loss], ...] = (Poisson, Gamma, Tweedie)
OF_LEVELS = (Quantile, Expectile)
"""Those with a level, the parameter ``quantile``."""
OF_NUMBERS = (SquaredError, AbsoluteError, Huber, *OF_LEVELS, *OF_POSITIVE_NUMBERS)
OF_DISTRIBUTIONS: tuple[type[DistributionLoss], ...] = (
    Normal, LogNormal, StudentT, NegativeBinomial,
)  # fmt: skip
OF_CLASSES: tuple[type[Loss], ...] = (LogLoss, Exponential, Focal)
OF_TIMES: tuple[type[Loss], ...] = (Cox, AFT)
OF_RANKINGS: tuple[type[Loss], ...] = (LambdaRank, CrossEntropyNDCG, PairwiseLogistic)


def loss_of(value: Any, known: tuple[type[Loss], ...], quantile: Any = None) -> Loss:
    """Read the parameter ``loss``.

    Parameters
    ----------
    value : str, Loss or function (y, score) -> (gradient, hessian)
        The parameter ``loss``.
    known : tuple of classes
        The losses that names may mean.
    quantile : float, sequence of float or None, default=None
        The parameter ``quantile``.

    Raises
    ------
    ValueError
        Names the parameter, what it got and what it wants.
    """
    if isinstance(value, Loss):
        return value
    if isinstance(value, str):
        for cls in known:
            if value == cls.name:
                return cls(quantile) if cls in OF_LEVELS else cls()
    elif callable(value) and not isinstance(value, type):
        try:
            return ArrayLoss(value)
        except TypeError as error:
            raise ValueError(
                "loss must be a name, a loss of gpuens.losses, or a function of two arrays "
                f"(y, score) -> (gradient, hessian), got {value!r}."
            ) from error
    names = " or ".join(repr(cls.name) for cls in known)
    raise ValueError(
        f"loss must be {names}, a loss of gpuens.losses or a function, got {value!r}."
        f"{meant_value('loss', value)}"
    )
