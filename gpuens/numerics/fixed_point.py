"""Sums of products that have the same bits in any order of addition.

A matrix product in floating point depends on the number of threads and on the device. Here
every factor is cut into slices of so few bits that all partial sums of products of slices are
integers below 2**53: any library's product of them is exact, whatever its order.

Ozaki, Ogita, Oishi and Rump, "Error-free transformations of matrix multiplication by using fast
routines of matrix multiplication and its applications", Numerical Algorithms 59, 2012.
"""

from __future__ import annotations

import functools
import math
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from threadpoolctl import ThreadpoolController

from ..devices.placement import to_numpy
from ..kernels.runtime.arrays import Array

MANTISSA = 53
"""Bits of a float64."""
SMALL = 2**16
"""Entries of a product up to which BLAS gets one thread. It shares out the entries, not the terms,
so others help little there, and on busy cores they wait for each other: 129 x 15000 x 129 took
16 ms with one thread and 280 ms with two."""
SLICES = 3
"""Slices of a factor: 48 bits relative to the largest value of its row, for 10**6 terms."""


class Slices(NamedTuple):
    """A matrix in fixed point: ``unit[:, None] * sum_i(parts[i] / 2**(bits * (i + 1)))``.

    parts : float64, shape (n_slices, n_rows, n_terms)
        Integers up to 2**bits in absolute value.
    unit : float64, shape (n_rows,)
        Powers of two.
    bits : int
    """

    parts: Array
    unit: Array
    bits: int


def slices(matrix: Array, n_slices: int = SLICES) -> Slices:
    """Cut a matrix into slices for sums over its last axis.

    Parameters
    ----------
    matrix : float64, shape (n_rows, n_terms), finite, any Array API library
    n_slices : int
        One slice holds about 16 bits where there are 10**6 terms.
    """
    xp = array_namespace(matrix)
    n_rows, n_terms = matrix.shape
    bits = (MANTISSA - math.ceil(math.log2(max(n_terms, 2)))) // 2
    largest = to_numpy(xp.max(xp.abs(matrix), axis=1)) if n_terms else np.zeros(n_rows)
    unit = xp.asarray(np.ldexp(1.0, np.frexp(largest)[1]), device=device(matrix))
    rest = matrix / unit[:, None]
    parts = xp.empty((n_slices, n_rows, n_terms), dtype=xp.float64, device=device(matrix))
    for i in range(n_slices):
        scaled = rest * 2.0**bits
        parts[i, ...] = xp.round(scaled)
        rest = scaled - parts[i, ...]
    return Slices(parts, unit, bits)


def inner(a: Array | Slices, b: Array | Slices) -> Array:
    """Return ``a @ b.T``, the same for any order of the terms.

    Parameters
    ----------
    a : float64, shape (n_a, n_terms), or its ``Slices``
    b : float64, shape (n_b, n_terms), or its ``Slices``

    Returns
    -------
    float64, shape (n_a, n_b)
        Off by about ``n_terms * max|a| * max|b| * 2**-47`` for 10**6 terms, the largest values
        being those of the rows.
    """
    a = a if isinstance(a, Slices) else slices(a)
    b = b if isinstance(b, Slices) else slices(b)
    n_used = min(a.parts.shape[0], b.parts.shape[0])
    products = _products(a.parts[:n_used, ...], b.parts[:n_used, ...])
    total: Any = 0.0
    for depth in range(n_used - 1, -1, -1):  # small terms first
        for i in range(depth, -1, -1):
            total = total + products[i, :, depth - i, :] * 2.0 ** (-a.bits * (depth + 2))
    return total * a.unit[:, None] * b.unit[None, :]


def _products(a: Array, b: Array) -> Array:
    """Multiply every slice of a by every slice of b, in one matrix product: float64, shape
    (n_slices_a, n_a, n_slices_b, n_b)."""
    xp = array_namespace(a, b)
    rows_a = xp.reshape(a, (a.shape[0] * a.shape[1], a.shape[2]))
    rows_b = xp.reshape(b, (b.shape[0] * b.shape[1], b.shape[2]))
    small = rows_a.shape[0] * rows_b.shape[0] <= SMALL
    with _blas().limit(limits=1, user_api="blas") if small else nullcontext():
        products = rows_a @ rows_b.T
    return xp.reshape(products, (*a.shape[:2], *b.shape[:2]))


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def weighted_sum(values: Array, weight: Array) -> float:
    """Return ``sum(weight * values)`` of two arrays of shape (n_terms,)."""
    return float(inner(values[None, :], weight[None, :])[0, 0])
