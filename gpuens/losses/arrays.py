"""Losses from functions of whole arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..devices.placement import Device
from ..kernels.prediction.probabilities import probabilities
from ..kernels.runtime.dtypes import Totals, Update
from ..kernels.scalars import losses as formulas
from ..kernels.statistics.gradients import gradients
from ..numerics.weighted import Later, mean_later
from .custom_functions import check_function, named
from .functions import PAIR, Function, FunctionLoss


@dataclass(frozen=True, repr=False)
class ArrayLoss(FunctionLoss):
    """A loss from functions of whole arrays, as in XGBoost and LightGBM.

    They are called with arrays of the library that the work is done in: NumPy on the CPU, CuPy
    on a GPU. ``y`` has shape (n_rows,), or (n_rows, n_targets) where there are several targets;
    classes are numbers from 0, in float64. ``score``, the raw prediction, has shape (n_rows,), or
    (n_rows, n_outputs) where there are several targets or more than two classes. The model is
    the same everywhere as far as the functions' results are.

    Parameters
    ----------
    objective : function (y, score) -> (gradient, hessian)
        Arrays of the shape of ``score``, of any library; without sample weights, which are
        multiplied in afterwards. Hessians are not negative.
    value : function (y, score) -> array of shape (n_rows,), default=None
        The loss of every row, for the metric "loss".
    inverse_link : function (score) -> predictions, default=None
        None: the scores; for classes, logistic or softmax probabilities. For two classes it
        gives the probability of the second one.
    start : float, default=None
        The raw prediction before the first tree. None: the best constant, and 0 for more than
        two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import GradientBoostingRegressor
    >>> def squared(y, score):
    ...     return score - y, np.ones_like(y)
    >>> X = np.arange(100.0)[:, None]
    >>> GradientBoostingRegressor(loss=squared).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.99
    True
    """

    objective: Function
    value: Function | None = None
    inverse_link: Function | None = None
    start: float | None = None

    coupled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_function(self.objective, PAIR, "objective")
        if self.value is not None:
            check_function(self.value, PAIR, "value")
        if self.inverse_link is not None:
            check_function(self.inverse_link, PAIR[1:], "inverse_link")
        self.check_start()

    def __repr__(self) -> str:
        return f"ArrayLoss({named(objective=self.objective, value=self.value)})"

    def formula(self, k: int) -> Any:
        return formulas.Given()

    def shared(self, y: Any, raw: Any, device: Device) -> Any:
        """Gradients and hessians of all outputs, float64 of shape (2, n_outputs, n_rows)."""
        score = rows_first(raw)
        results = self.objective(rows_first(y), score)
        if not isinstance(results, (tuple, list)) or len(results) != 2:
            raise ValueError(
                f"objective of {self!r} must return (gradient, hessian), got "
                f"{type(results).__name__}."
            )
        both = device.xp.empty((2, *raw.shape))
        for into, result, what in zip(both, results, ("gradient", "hessian"), strict=True):
            array = device.asarray(result, np.float64)
            if array.shape != score.shape:
                raise ValueError(
                    f"objective of {self!r} must return a {what} of the shape of score, "
                    f"{score.shape}, got {array.shape}."
                )
            into[...] = array.T
        return both

    def gradients(
        self,
        k: int,
        target: Any,
        raw: Any,
        shared: Any,
        weight: Any,
        g: Any,
        h: Any,
        update: Update | None = None,
    ) -> Totals:
        """``shared`` holds them already, so that an update would come too late."""
        return gradients(formulas.Given(), shared[0, k], shared[1, k], raw[:0], weight, g, h)

    def mean_later(self, y: Any, raw: Any, weight: Any, device: Device) -> Later:
        if self.value is None:
            raise ValueError(
                f"loss={self!r} has no value to compute the metric 'loss' from: pass "
                "ArrayLoss(objective, value=...), or another metric as scoring."
            )
        values = device.asarray(self.value(rows_first(y), rows_first(raw)), np.float64)
        if values.shape != raw.shape[1:]:
            raise ValueError(
                f"value of {self!r} must return one number a row, an array of shape "
                f"{raw.shape[1:]}, got {values.shape}."
            )
        return mean_later(values, weight, device)

    def predict(self, raw: Any, device: Device) -> Any:
        if self.inverse_link is None:
            return probabilities(raw) if self.of_classes else rows_first(raw)
        result = device.asarray(self.inverse_link(rows_first(raw)), np.float64)
        if self.of_classes and self.n_outputs == 1 and result.ndim == 1:
            return device.xp.stack([1.0 - result, result], axis=1)
        return result


def rows_first(array: Any) -> Any:
    """A copy of an array (n_outputs, n_rows) or (n_rows,) with rows first; one output is none."""
    if array.ndim == 2:
        array = array[0] if array.shape[0] == 1 else array.T
    return array.copy()
