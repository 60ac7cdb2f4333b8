"""Functions that the Array API standard lacks, for arrays of any library; NumPy's or CuPy's own is
called where there is one."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array

from ..kernels.runtime.arrays import Array


def _own_module(array: Array) -> ModuleType | None:
    """NumPy or CuPy itself, whichever the array is of; None for any other library."""
    if isinstance(array, np.ndarray):
        return np
    if is_cupy_array(array):
        import cupy

        return cupy
    return None


def contiguous(array: Array) -> Array:
    """Return the values one behind the other in memory; other libraries do not say where values
    are."""
    own = _own_module(array)
    return array if own is None else own.ascontiguousarray(array)


def indicator(values: Array, value: int) -> Array:
    """Return 1 where values are equal to a number, else 0: float64, made in one pass."""
    own = _own_module(values)
    if own is not None:
        return own.equal(values, value, out=own.empty(values.shape))
    xp = array_namespace(values)
    return xp.astype(values == value, xp.float64)


def occurrences(numbers: Array, n: int = 0) -> Array:
    """Return how often each of 0, 1, ... occurs: int64, of at least n entries; shape (n_rows,)."""
    own = _own_module(numbers)
    if own is not None:
        return own.bincount(numbers, minlength=n)
    xp = array_namespace(numbers)
    n = max(n, int(xp.max(numbers)) + 1 if numbers.shape[0] else 0)
    numbers = xp.astype(numbers, xp.int64)
    each = xp.arange(n, dtype=xp.int64, device=device(numbers))
    ordered = xp.sort(numbers, stable=False)
    up_to = xp.searchsorted(ordered, each, side="right")
    return xp.astype(up_to - xp.searchsorted(ordered, each, side="left"), xp.int64)


def smallest(values: Array, k: int) -> Array:
    """Return the k-th of the values in ascending order, k from 0 on: shape ()."""
    own = _own_module(values)
    if own is not None:
        return own.partition(values, k)[k]
    return array_namespace(values).sort(values, stable=False)[k]


def distinct(values: Array) -> Array:
    """Return the different values, ascending, NaN once."""
    own = _own_module(values)
    return _sorted_once(values)[0] if own is None else own.unique(values)


def distinct_and_codes(values: Array) -> tuple[Array, Array]:
    """Return the different values, ascending, and the position of each value among them."""
    own = _own_module(values)
    if own is not None:
        return own.unique(values, return_inverse=True)
    xp = array_namespace(values)
    found, of_sorted, order = _sorted_once(values)
    return found, xp.take(of_sorted, xp.argsort(order))


def _sorted_once(values: Array) -> tuple[Array, Array, Array]:
    """Return the different values, the number of each sorted value among them, and the order."""
    xp = array_namespace(values)
    order = xp.argsort(values)
    ordered = xp.take(values, order)
    differs = ordered[1:] != ordered[:-1]
    if xp.isdtype(values.dtype, "real floating"):
        differs = differs & ~(xp.isnan(ordered[1:]) & xp.isnan(ordered[:-1]))
    first = xp.ones(ordered.shape, dtype=xp.bool, device=device(values))
    first[1:] = differs
    return ordered[first], xp.cumulative_sum(xp.astype(first, xp.int64)) - 1, order


def first_positions(numbers: Array, n: int, none: int) -> Array:
    """Return where each of 0, ..., n - 1 occurs first: uint32, ``none`` if it does not.

    numbers : integers, shape (n_numbers,), below n
    """
    own = _own_module(numbers)
    if own is not None:
        first = own.full(n, none, dtype=own.uint32)
        at = own.arange(numbers.size, dtype=own.uint32)
        own.minimum.at(first, numbers.astype(own.int64), at)
        return first
    xp = array_namespace(numbers)
    each = xp.arange(n, dtype=numbers.dtype, device=device(numbers))
    order = xp.argsort(numbers)  # stable: of equal ones the first comes first
    ordered = xp.take(numbers, order)
    at = xp.clip(xp.searchsorted(ordered, each), 0, ordered.shape[0] - 1)
    first = xp.astype(xp.take(order, at), xp.int64)
    return xp.astype(xp.where(xp.take(ordered, at) == each, first, none), xp.uint32)
