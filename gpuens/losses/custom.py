"""Losses from functions of single numbers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.prediction.probabilities import probabilities
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import formula
from ..kernels.statistics.row_values import row_values
from .custom_functions import check_function, compiled, named
from .functions import PAIR, Function, FunctionLoss


@dataclass(frozen=True, repr=False)
class CustomLoss(FunctionLoss):
    """A loss from functions of single numbers, compiled for the CPU and for CUDA.

    ``score`` is the raw prediction that the trees add up to, in float64. Of classes, y is 0 or
    1; more than two classes are taken one against the rest.

    The model is the same on every device, bit for bit, if the functions are made of ``+ - /``,
    ``sqrt``, comparisons, and of what ``gpuens.losses`` offers for it: ``mul`` (a product that
    feeds a sum, which a GPU would fuse with it), ``exp``, ``log``, ``sigmoid``, ``softplus``.
    ``math.exp`` and the like work as well, but differ between devices in their last bits. Where
    functions stand in a module, models and losses can be pickled.

    Parameters
    ----------
    value : function (y, score) -> number
        The loss of a row, the metric "loss".
    gradient : function (y, score) -> number
        Its derivative with respect to the score.
    hessian : function (y, score) -> number, default=None
        The second derivative, or an upper bound of it; not negative. None: 1, leaf values are
        mean negative gradients, and ``line_search`` finds how far to go.
    inverse_link : function (score) -> number, default=None
        Makes predictions from scores; of classes, the probability of class 1. None: the score
        itself, and 1/(1 + e**-score).
    start : float, default=None
        The raw prediction before the first tree. None: the best constant.

    Raises
    ------
    TypeError
        A function takes other arguments; on ``fit``, Numba cannot compile it.

    Examples
    --------
    The log of the hyperbolic cosine, which is squared for small and absolute for large errors:

    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.losses import CustomLoss, mul, sigmoid, softplus
    >>> def value(y, score):
    ...     return softplus(2.0 * (score - y)) - (score - y)
    >>> def gradient(y, score):
    ...     return 2.0 * sigmoid(2.0 * (score - y)) - 1.0
    >>> def hessian(y, score):
    ...     p = sigmoid(2.0 * (score - y))
    ...     return 4.0 * mul(p, 1.0 - p)
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> log_cosh = CustomLoss(value, gradient, hessian)
    >>> model = GradientBoostingRegressor(log_cosh, n_estimators=20).fit(X, y / 100)
    >>> model.score(X, y / 100) > 0.5
    True
    """

    value: Function
    gradient: Function
    hessian: Function | None = None
    inverse_link: Function | None = None
    start: float | None = None

    def __post_init__(self) -> None:
        check_function(self.value, PAIR, "value")
        check_function(self.gradient, PAIR, "gradient")
        if self.hessian is not None:
            check_function(self.hessian, PAIR, "hessian")
        if self.inverse_link is not None:
            check_function(self.inverse_link, PAIR[1:], "inverse_link")
        self.check_start()

    def __repr__(self) -> str:
        functions = named(value=self.value, gradient=self.gradient, hessian=self.hessian)
        return f"CustomLoss({functions})"

    @property
    def has_hessian(self) -> bool:  # type: ignore[override]
        return self.hessian is not None

    def formula(self, k: int) -> Any:
        return _loss_of(self.value, self.gradient, self.hessian)()

    def predict(self, raw: Any, device: Device) -> Any:
        if self.of_classes:
            return super().predict(raw, device)
        columns = [self._prediction(f) for f in raw]
        return columns[0] if self.n_outputs == 1 else device.xp.stack(columns, axis=1)

    def _two_classes(self, raw: Any, device: Device) -> Any:
        if self.inverse_link is None:
            return probabilities(raw[None])
        p = self._prediction(raw)
        return device.xp.stack([1.0 - p, p], axis=1)

    def _prediction(self, raw: Any) -> Any:
        if self.inverse_link is None:
            return raw.copy()
        return row_values(_link_of(self.inverse_link)(), raw, raw, raw[:0])


@functools.lru_cache(maxsize=64)
def _loss_of(value: Function, gradient: Function, hessian: Function | None) -> type:
    """The class of ``kernels.scalars.losses`` for three functions."""
    value = compiled(value, PAIR, "value")
    gradient = compiled(gradient, PAIR, "gradient")

    @formula
    def value_of_row(y, f, parameter):
        return np.float64(value(y, f))

    if hessian is None:

        @formula
        def gradient_of_row(y, f, parameter):
            return np.float64(gradient(y, f)), 1.0

        return formulas.custom(value_of_row, gradient_of_row)
    second = compiled(hessian, PAIR, "hessian")

    @formula
    def gradients_of_row(y, f, parameter):
        return np.float64(gradient(y, f)), np.float64(second(y, f))

    return formulas.custom(value_of_row, gradients_of_row)


@functools.lru_cache(maxsize=64)
def _link_of(inverse_link: Function) -> type:
    function = compiled(inverse_link, PAIR[1:], "inverse_link")

    @formula
    def prediction(y, f, parameter):
        return np.float64(function(f))

    return formulas.custom(prediction, None)
