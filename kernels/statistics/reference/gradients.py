"""Reference twin of ``kernels.statistics.gradients``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.dtypes import SUM_CHUNK, Totals, Update
from .add_leaf_values import add_leaf_values
from .rows import gradient_of_rows


def gradients(
    loss: Any,
    y: Any,
    raw: Any,
    shift: Any,
    weight: Any,
    g: Any,
    h: Any,
    update: Update | None = None,
) -> Totals:
    """The formula of the loss on whole arrays, then the two measures of g and of h."""
    if update is not None:
        add_leaf_values(raw, *update)
    xp = array_namespace(raw)
    f = raw - shift if shift.shape[0] else raw
    gradient, hessian = gradient_of_rows(loss)(y, f, loss.parameter)
    if weight.shape[0]:
        gradient, hessian = weight * gradient, weight * hessian
    g[...] = xp.astype(gradient, xp.float32)
    h[...] = xp.astype(xp.ones_like(f) * hessian, xp.float32)
    return Totals(*_measure(xp.abs(g)), *_measure(h))


def _measure(values: Any) -> tuple[float, float]:
    """Largest value and sum of float32 values that are not negative."""
    xp = array_namespace(values)
    chunks = _fill_up(xp.astype(values, xp.float64), SUM_CHUNK)
    sums = _halve(xp.reshape(chunks, (-1, SUM_CHUNK)))
    n_sums = sums.shape[0]
    total = _halve(xp.reshape(_fill_up(sums, 1 << (n_sums - 1).bit_length()), (1, -1)))
    return float(xp.max(values)), float(total[0])


def _fill_up(values: Any, multiple: int) -> Any:
    """Zeros behind the values, up to the next multiple of a length."""
    xp = array_namespace(values)
    missing = -values.shape[0] % multiple
    zeros = xp.zeros(missing, dtype=values.dtype, device=device(values))
    return xp.concat([values, zeros])


def _halve(values: Any) -> Any:
    """Sum along the second axis, whose length is a power of two: upper half onto lower half."""
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        values = values[:, :half] + values[:, half:]
    return values[:, 0]
