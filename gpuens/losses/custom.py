"""Losses from a user's functions, of single numbers or of whole arrays."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from ..devices.library_arrays import own_array
from ..devices.placement import Device
from ..kernels.prediction.probabilities import probabilities
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import Totals
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import formula
from ..kernels.statistics.gradients import gradients_of_outputs, row_values
from ..numerics.minimise import minimise
from ..numerics.shared_rows import of_all_rows, of_own_rows
from ..numerics.weighted import Later, mean_later, ordered_sum
from .base import GradientInputs, Loss, columns_first
from .classes import OneAgainstTheRest

LARGEST_CONSTANT = 1e30
PAIR = ("y", "score")
Function = Callable[..., Any]


class FunctionLoss(OneAgainstTheRest):
    """A loss of regression or of classes from a user's functions.

    Subclasses are dataclasses of functions and of ``start``.
    """

    name: ClassVar[str] = "custom"
    checks_rows: ClassVar[bool] = True
    reads_raw: ClassVar[bool] = True
    start: float | None
    inverse_link: Function | None
    of_classes: bool = False

    def __post_init__(self) -> None:
        for field in self._functions():
            function = getattr(self, field.name)
            if function is not None or field.default is MISSING:
                arguments = PAIR[1:] if field.name == "inverse_link" else PAIR
                check_function(function, arguments, field.name)
        is_number = isinstance(self.start, numbers.Real) and np.isfinite(float(self.start))
        if not (self.start is None or is_number):
            raise ValueError(f"start must be None or a finite number, got {self.start!r}.")

    def __repr__(self) -> str:
        """Name the functions of (y, score) that are given."""
        functions = {
            field.name: getattr(self, field.name)
            for field in self._functions()
            if field.name != "inverse_link"
        }
        given = [f"{key}={_name(value)}" for key, value in functions.items() if value is not None]
        return f"{type(self).__name__}({', '.join(given)})"

    def _functions(self) -> list[Field[Any]]:
        return [field for field in fields(self) if field.name != "start"]  # type: ignore[arg-type]

    def for_targets(self, n_targets: int) -> FunctionLoss:
        return self._with(n_outputs=n_targets)

    def for_classes(self, n_classes: int) -> Loss:
        return self._with(n_outputs=1 if n_classes == 2 else n_classes, of_classes=True)

    def target_type(self, device: Device) -> np.dtype:
        return np.dtype(np.float64)  # which is what the functions of the user get

    def targets(self, y: Array, k: int, device: Device) -> Array:
        if self.of_classes:
            return super().targets(y, k, device)
        return y if y.ndim == 1 else y[k]

    def joint_targets(self, y: Array, outputs: range) -> tuple[Array, int]:
        if self.of_classes:
            return super().joint_targets(y, outputs)
        return Loss.joint_targets(self, y, outputs)

    @property
    def n_terms(self) -> int:
        return 1 if self.of_classes else self.n_outputs

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        """Find the constants at which the gradients sum to zero, output by output.

        They are zero for more than two coupled classes, whose constants depend on each other.
        """
        base = np.full(self.n_outputs, 0.0 if self.start is None else float(self.start))
        if self.start is not None or (self.coupled_classes and self.n_outputs > 1):
            return base
        n = y.shape[-1]
        g, h = (device.xp.empty(n, dtype=device.xp.float32) for _ in range(2))
        for k in range(self.n_outputs):

            def slope(constant: float, k: int = k) -> tuple[float, float]:
                base[k] = constant
                raw = device.xp.zeros((self.n_outputs, n)) + device.asarray(base)[:, None]
                target, shared = self.targets(y, k, device), self.shared(y, raw, device)
                totals = self.gradients(k, target, raw[k], shared, weight, g, h)
                if constant == 0.0:
                    where = "the score 0, where the best constant is searched from"
                    self.check_gradients(totals, g, h, target, raw[k], where)
                total = ordered_sum(g.astype(np.float64), device, self.workers)
                return total, totals.sum_h if self.has_hessian else 0.0

            base[k] = minimise(slope, LARGEST_CONSTANT)
        return base

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        if getattr(self, "inverse_link", None) is not None:
            raise ValueError(
                f"init must be None or 'zero' with loss={self!r}: which raw predictions the "
                "predictions of another estimator belong to is known without inverse_link only."
            )
        return super().raw_of(predicted) if self.of_classes else columns_first(predicted)

    @property
    def coupled_classes(self) -> bool:
        """Return whether the gradients of a class depend on the other classes' scores."""
        return self.coupled and self.of_classes

    def check_gradients(
        self, totals: Totals, g: Array, h: Array, target: Array, raw: Array, where: object
    ) -> None:
        finite = (abs(g) < np.inf) & (h >= 0) & (h < np.inf)
        if bool(finite.all()):
            super().check_gradients(totals, g, h, target, raw, where)
            return
        row = int((~finite).argmax())
        which, value = ("gradient", float(g[row]))
        if np.isfinite(value):
            which, value = ("hessian", float(h[row]))
        raise ValueError(
            f"The {which} of loss={self!r} is {value} in row {row} of the training rows, with "
            f"y={float(target[row])} and score={float(raw[row])} (times the weight, in float32; "
            f"{where}). Gradients must be finite and hessians finite and not negative: change "
            "the function, or lower learning_rate."
        )


@dataclass(frozen=True, repr=False)
class CustomLoss(FunctionLoss):
    """A loss from functions of single numbers, compiled for the CPU and for CUDA.

    ``score`` is the raw prediction that the trees add up to, in float64. For classes, y is 0 or
    1; more than two classes are taken one against the rest.

    The model is the same on every device, bit for bit, if the functions use only ``+ - /``,
    ``sqrt``, comparisons, and ``mul``, ``exp``, ``log``, ``sigmoid`` and ``softplus`` of
    ``gpuens.losses`` (``mul`` is a product that feeds a sum, which a GPU would otherwise fuse with
    it). ``math.exp`` and the like work as well, but differ between devices in their last bits.
    Models and losses can be pickled if the functions are defined in a module.

    Parameters
    ----------
    value : function (y, score) -> number
        The loss of a row, the metric "loss".
    gradient : function (y, score) -> number
        Its derivative with respect to the score.
    hessian : function (y, score) -> number, default=None
        The second derivative, or an upper bound of it; not negative. None: 1; leaf values are
        then mean negative gradients, and ``line_search`` finds the step.
    inverse_link : function (score) -> number, default=None
        Turns scores into predictions; for classes, into the probability of class 1. None: the
        score itself, and 1/(1 + e**-score).
    start : float, default=None
        The raw prediction before the first tree. None: the best constant.

    Raises
    ------
    TypeError
        A function has other arguments. In ``fit``: Numba cannot compile it.

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

    @property
    def has_hessian(self) -> bool:  # type: ignore[override]
        return self.hessian is not None

    def formula(self, k: int) -> Any:
        return _loss_of(self.value, self.gradient, self.hessian)()

    def predict(self, raw: Array, device: Device) -> Array:
        if self.of_classes:
            return super().predict(raw, device)
        columns = [self._prediction(raw[k]) for k in range(self.n_outputs)]
        return columns[0] if self.n_outputs == 1 else device.xp.stack(columns, axis=1)

    def _two_classes(self, raw: Array, device: Device) -> Array:
        if self.inverse_link is None:
            return probabilities(raw[None])
        p = self._prediction(raw)
        return device.xp.stack([1.0 - p, p], axis=1)

    def _prediction(self, raw: Array) -> Array:
        if self.inverse_link is None:
            return raw.copy()
        return row_values(_link_of(self.inverse_link)(), raw, raw, raw[:0])


@functools.lru_cache(maxsize=64)
def _loss_of(value: Function, gradient: Function, hessian: Function | None) -> type:
    """Make the class of ``kernels.scalars.losses`` for three functions."""
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


@dataclass(frozen=True, repr=False)
class ArrayLoss(FunctionLoss):
    """A loss from functions of whole arrays, as in XGBoost and LightGBM.

    The functions get NumPy arrays on the CPU and CuPy arrays on a GPU, of all rows: on a cluster
    every worker calls them with the same arrays. ``y`` has shape (n_rows,), or
    (n_rows, n_targets) for several targets; classes are numbers from 0, in float64. ``score``,
    the raw prediction, has shape (n_rows,), or (n_rows, n_outputs) for several targets or more
    than two classes. Models are the same on all devices if the functions' results are.

    Parameters
    ----------
    objective : function (y, score) -> (gradient, hessian)
        Arrays of any library in the shape of ``score``, hessians not negative. Sample weights
        are applied afterwards.
    value : function (y, score) -> array of shape (n_rows,), default=None
        The loss of every row, for the metric "loss".
    inverse_link : function (score) -> predictions, default=None
        None: the scores; for classes, logistic or softmax probabilities. For two classes the
        function returns the probability of the second one.
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
    reads_all_rows: ClassVar[bool] = True

    @property
    def has_value(self) -> bool:  # type: ignore[override]
        return self.value is not None

    def formula(self, k: int) -> Any:
        return formulas.Given()

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute all gradients and hessians, float64 of shape (2, n_outputs, n_rows)."""
        whole = of_all_rows(raw, self.workers)
        both = self._gradients(self._targets_of_all(y), whole, device)
        return of_own_rows(both, self.workers)

    def on_training_rows(
        self, y: Array, weight: Array, base: np.ndarray, device: Device
    ) -> ArrayLoss:
        return self._with(_known={})

    def _targets_of_all(self, y: Array) -> Array:
        """Return the targets of the rows of all workers, gathered once in the rounds of a
        training."""
        known = self.__dict__.get("_known", {})
        if id(y) not in known:
            known[id(y)] = y, of_all_rows(y, self.workers)
        return known[id(y)][1]

    def _gradients(self, y: Array, raw: Array, device: Device) -> Array:
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

    def gradient_inputs(
        self, k: int, target: Array, raw: Array, shared: Array, weight: Array
    ) -> GradientInputs:
        own, second = shared[:, k]  # has them
        return self.formula(k), own, second, raw[:0], weight

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
        """Copy them from ``shared``."""
        own, second = (values[outputs.start : outputs.stop] for values in shared)
        return gradients_of_outputs(
            formulas.Given(), own, second, own[0, :0], weight, g, h, workers=self.workers
        )

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        if self.value is None:
            raise ValueError(
                f"loss={self!r} has no value to compute the metric 'loss' from: pass "
                "ArrayLoss(objective, value=...), or another metric as scoring."
            )
        whole = of_all_rows(raw, self.workers)
        values = self.value(rows_first(self._targets_of_all(y)), rows_first(whole))
        values = device.asarray(values, np.float64)
        if values.shape != whole.shape[1:]:
            raise ValueError(
                f"value of {self!r} must return one number a row, an array of shape "
                f"{whole.shape[1:]}, got {values.shape}."
            )
        return mean_later(of_own_rows(values, self.workers), weight, device, self.workers)

    def predict(self, raw: Array, device: Device) -> Array:
        if self.inverse_link is None:
            return probabilities(raw) if self.of_classes else device.asarray(rows_first(raw))
        result = device.asarray(self.inverse_link(rows_first(raw)), np.float64)
        if self.of_classes and self.n_outputs == 1 and result.ndim == 1:
            return device.xp.stack([1.0 - result, result], axis=1)
        return result


def rows_first(array: Array) -> Array:
    """Copy an array (n_outputs, n_rows) or (n_rows,) with rows first, as functions of the user take
    it; one output has no axis."""
    if array.ndim == 2:
        array = array[0] if array.shape[0] == 1 else array.T
    return own_array(array.copy())


def check_function(function: Any, arguments: tuple[str, ...], name: str) -> None:
    """Raise TypeError unless a function can be called with so many arguments."""
    wanted = f"{name}({', '.join(arguments)})"
    if not callable(function):
        raise TypeError(f"{name} must be a function {wanted}, got {function!r}.")
    try:
        signature = inspect.signature(_python(function))
    except ValueError:  # a built-in function without a signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a function {wanted}, got {_name(function)}{signature}."
        ) from error


def compiled(function: Any, arguments: tuple[str, ...], name: str) -> Any:
    """Compile a function of numbers, to be called by CPU kernels and CUDA kernels.

    Parameters
    ----------
    function : function of numbers
        A Python function, or one that Numba's ``njit`` returned.
    arguments : tuple of str
        Its arguments, float64 each.
    name : str
        Its name in errors.

    Raises
    ------
    TypeError
        It has other arguments, Numba cannot compile it, or its result is not a number.
    """
    check_function(function, arguments, name)
    if not (inspect.isfunction(function) or _is_of_numba(function)):
        raise TypeError(
            f"{name} must be a Python function, which Numba can compile, got {function!r}."
        )
    return _compiled(function, len(arguments), name)


@functools.lru_cache(maxsize=256)
def _compiled(function: Any, n_arguments: int, name: str) -> Any:
    from numba import types
    from numba.core.errors import NumbaError

    dispatcher = function if _is_of_numba(function) else formula(function)
    signature = (types.float64,) * n_arguments
    try:
        dispatcher.compile(signature)
    except NumbaError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise TypeError(
            f"{name}={_name(function)} cannot be compiled by Numba: write it as a function of "
            "single numbers, without arrays or objects, or pass an array function. Numba says: "
            f"{reason}"
        ) from error
    result = dispatcher.overloads[signature].signature.return_type
    if not isinstance(result, (types.Integer, types.Float, types.Boolean)):
        raise TypeError(f"{name}={_name(function)} must return a number, got {result}.")
    return dispatcher


def _python(function: Any) -> Callable[..., Any]:
    return function.py_func if _is_of_numba(function) else function


def _is_of_numba(function: Any) -> bool:
    """Return whether a function is what ``njit`` returns, or a formula of this package."""
    return hasattr(function, "py_func")


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))
