"""Formulas of losses on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ...runtime.reference.arrays import beside, to_host
from ...scalars.losses import formulas_of, is_custom
from ...scalars.primitives import vectorise


def value_of_rows(loss: Any) -> Callable[..., Any]:
    """The value as a function of arrays (y, f, parameter)."""
    function = formulas_of(type(loss)).value
    return _row_by_row(function) if is_custom(type(loss)) else vectorise(function)


def gradient_of_rows(loss: Any) -> Callable[..., Any]:
    """Gradient and hessian as a function of arrays (y, f, parameter)."""
    function = formulas_of(type(loss)).gradient
    return _row_by_row(function) if is_custom(type(loss)) else vectorise(function)


def _row_by_row(function: Any) -> Callable[..., Any]:
    """A formula with branches means nothing for arrays."""

    def rows(y: Any, f: Any, parameter: float) -> Any:
        pairs = zip(to_host(y).tolist(), to_host(f).tolist(), strict=True)
        results = np.array([function(a, b, parameter) for a, b in pairs], np.float64)
        if results.ndim == 1:
            return beside(results, f)
        columns = (beside(np.ascontiguousarray(column), f) for column in results.T)
        return tuple(array_namespace(f).asarray(column) for column in columns)

    return rows
