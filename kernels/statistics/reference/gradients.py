"""Reference twin of ``kernels.statistics.gradients``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.dtypes import SUM_CHUNK, Totals, Update
from ...runtime.each import each
from ...runtime.reference.arrays import beside, to_host
from ...scalars.losses import formulas_of, is_custom
from ...scalars.primitives import vectorise
from ..gradients import NO_CLASS
from ..gradients import gradients as gradients_of
from .add_leaf_values import add_leaf_values


def value_of_rows(loss: Any) -> Callable[..., Any]:
    """Return the value as a function of arrays (y, f, parameter)."""
    function = formulas_of(type(loss)).value
    return _row_by_row(function) if is_custom(type(loss)) else vectorise(function)


def gradient_of_rows(loss: Any) -> Callable[..., Any]:
    """Return gradient and hessian as a function of arrays (y, f, parameter)."""
    function = formulas_of(type(loss)).gradient
    return _row_by_row(function) if is_custom(type(loss)) else vectorise(function)


def _row_by_row(function: Any) -> Callable[..., Any]:
    """Apply a formula with branches, which arrays cannot take, row by row."""

    def rows(y: Array, f: Array, parameter: float) -> Any:
        pairs = zip(to_host(y).tolist(), to_host(f).tolist(), strict=True)
        results = np.array([function(a, b, parameter) for a, b in pairs], np.float64)
        if results.ndim == 1:
            return beside(results, f)
        columns = (beside(np.ascontiguousarray(column), f) for column in results.T)
        return tuple(array_namespace(f).asarray(column) for column in columns)

    return rows


def gradients(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    update: Update | None = None,
) -> Totals:
    """The formula of the loss on whole arrays, then the two measures of g and of h."""
    if update is not None:
        add_leaf_values(raw, *update)
    xp = array_namespace(raw)
    f = raw - shift if shift.shape[0] else raw
    gradient, hessian = gradient_of_rows(loss)(xp.astype(y, xp.float64), f, loss.parameter)
    if weight.shape[0]:
        gradient, hessian = weight * gradient, weight * hessian
    g[...] = xp.astype(gradient, xp.float32)
    h[...] = xp.astype(xp.ones_like(f) * hessian, xp.float32)
    return Totals(*_measure(xp.abs(g)), *_measure(h))


def gradients_of_outputs(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    first_class: int,
    workers: Workers = ONE_WORKER,
) -> Sequence[Totals]:
    """One output after another, by the operation that dispatches on the arrays."""
    xp = array_namespace(raw)

    def of(i: int) -> Totals:
        target = y if y.ndim == 1 else y[i, ...]
        if first_class != NO_CLASS:
            target = xp.astype(y == first_class + i, xp.float64)
        return gradients_of(loss, target, raw[i, ...], shift, weight, g[i, ...], h[i, ...], workers)

    return each(of, range(raw.shape[0]), raw[0, ...], workers)


def _measure(values: Array) -> tuple[float, float]:
    """Return the largest value and the sum of float32 values that are not negative."""
    xp = array_namespace(values)
    return float(xp.max(values)), ordered_sum(xp.astype(values, xp.float64))


def ordered_sum(values: Array) -> float:
    """Return the sum of float64 values in the order that the contract names."""
    xp = array_namespace(values)
    sums = _halve(xp.reshape(_fill_up(values, SUM_CHUNK), (-1, SUM_CHUNK)))
    n_sums = sums.shape[0]
    total = _halve(xp.reshape(_fill_up(sums, 1 << (n_sums - 1).bit_length()), (1, -1)))
    return float(total[0])


def _fill_up(values: Array, multiple: int) -> Any:
    """Append zeros up to the next multiple of a length."""
    xp = array_namespace(values)
    missing = -values.shape[0] % multiple
    zeros = xp.zeros(missing, dtype=values.dtype, device=device(values))
    return xp.concat([values, zeros])


def _halve(values: Array) -> Any:
    """Sum along the second axis, whose length is a power of two: upper half onto lower half."""
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        values = values[:, :half] + values[:, half:]
    return values[:, 0]


def row_values(loss: Any, y: Array, raw: Array, shift: Array) -> Array:
    """The formula on whole arrays."""
    xp = array_namespace(raw)
    f = raw - shift if shift.shape[0] else raw
    return value_of_rows(loss)(xp.astype(y, xp.float64), f, loss.parameter)
