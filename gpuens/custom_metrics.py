"""Metrics from a user's functions, for the parameter ``scoring`` of gradient boosting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .kernels.scalars import losses as formulas
from .kernels.scalars.primitives import formula
from .losses.custom import check_function, compiled

PAIR = ("y", "score")


@dataclass(frozen=True)
class _MetricFromFunction:
    function: Callable[..., Any]
    name: str | None = None
    higher_is_better: bool = False

    def __post_init__(self) -> None:
        check_function(self.function, PAIR, "function")
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name must be None or a string, got {self.name!r}.")

    @property
    def label(self) -> str:
        """The name of the metric in ``evals_result_``."""
        return self.name or str(getattr(self.function, "__name__", type(self).__name__))


class CustomMetric(_MetricFromFunction):
    """The weighted mean of a function of single numbers over the rows and outputs.

    It is compiled for the CPU and for CUDA, as the functions of ``gpuens.losses.CustomLoss`` are.

    Parameters
    ----------
    function : function (y, score) -> number
        ``score`` is the raw prediction; for two classes, y is 0 or 1.
    name : str, default=None
        None: the name of the function.
    higher_is_better : bool, default=False
        Whether early stopping waits for larger values.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.custom_metrics import CustomMetric
    >>> X, y = load_diabetes(return_X_y=True)
    >>> def far_off(y, score):
    ...     return abs(y - score) > 100.0
    >>> model = GradientBoostingRegressor(n_estimators=5, scoring=CustomMetric(far_off))
    >>> len(model.fit(X, y, eval_set=(X, y)).evals_result_["validation_0"]["far_off"])
    6
    """

    @property
    def formula(self) -> Any:
        """The named tuple for ``kernels.statistics.gradients.row_values``."""
        return _formula_of(self.function)()


class ArrayMetric(_MetricFromFunction):
    """A metric from a function of whole arrays, NumPy's on the CPU and CuPy's on a GPU.

    Parameters
    ----------
    function : function (y, score) -> number
        Arrays as for ``gpuens.losses.ArrayLoss``; with sample weights it must also take
        ``sample_weight``.
    name : str, default=None
        None: the name of the function.
    higher_is_better : bool, default=False
        Whether early stopping waits for larger values.
    """


@functools.lru_cache(maxsize=64)
def _formula_of(function: Callable[..., Any]) -> type:
    scalar = compiled(function, PAIR, "function")

    @formula
    def value(y, f, parameter):
        return np.float64(scalar(y, f))

    return formulas.custom(value, None)
