"""Random numbers for the cells of tables, with the same bits from every array library.

A draw is a hash of (seed, stream, column, row), made of integers, and what becomes of it uses only
operations that every library rounds as IEEE 754 has it: ``+ - *``, and division of one array by
another (some divide by a number, or a number by an array, with a reciprocal). Square roots are
off by a last bit in some (torch on the CPU), and go through ``sqrt_float32`` or ``sqrt_float64``.
So NumPy, CuPy and torch agree, however the rows are cut into blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ..kernels.runtime.arrays import Array
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise

_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)

FEATURES, LABELS, RULE = 0x101, 0x102, 0x103
"""Streams: what is in X, what is in y beside it, and what ties the two together. Apart from the
purposes of ``rng``, so that a model with the same seed draws other numbers."""

QUANTILE_NUMERATOR = (-44.218540811, 184.42937254, -272.32294293, 173.558392, 16.968896964)
QUANTILE_DENOMINATOR = (16.732502964, -9.6513613973, -2.2622852608, 17.485452065, 1.0)


@dataclass(frozen=True)
class BlockDraws:
    """The draws of a block of rows, as arrays with a line for each column and its rows in line. The
    seed and the rows are below 2**32; device None is the default one of the namespace xp."""

    xp: ModuleType
    device: Any
    seed: int
    begin: int
    end: int

    def bits(self, n: int = 1, *, first: int = 0, stream: int = FEATURES) -> Array:
        """Draw 32 random bits for each cell of the columns ``first`` … ``first + n - 1`` of a
        stream: int64, shape (n, n_rows). All libraries calculate with int64; the products that it
        cannot hold wrap alike."""
        row = self.xp.arange(self.begin, self.end, dtype=self.xp.int64, device=self.device)
        return _draw(self._keys(n, first, stream)[:, None], row[None, :])

    def uniform(self, n: int = 1, *, first: int = 0, stream: int = FEATURES) -> Array:
        """Draw odd multiples of 2**-24 between 0 and 1 (float32), equally likely."""
        high = self.xp.astype(self.bits(n, first=first, stream=stream) >> 9, self.xp.float32)
        return high * 2.0**-23 + 2.0**-24

    def normal(self, n: int = 1, *, first: int = 0, stream: int = FEATURES) -> Array:
        """Draw standard normal deviates (float32, up to ± 5.42)."""
        return normal_quantile(self.bits(n, first=first, stream=stream), self.xp)

    def choice(
        self, n_choices: int, column: int, *, skew: int = 0, stream: int = FEATURES
    ) -> Array:
        """Draw whole numbers from 0 to ``n_choices - 1``, ``floor(n_choices * u ** (1 + skew))``
        with u uniform: the larger ``skew``, the more often the first."""
        u = self.bits(first=column, stream=stream)[0, :] >> 8
        share = u
        for _ in range(skew):
            share = share * u >> 24
        return share * n_choices >> 24

    def effect(self, codes: Array, column: int) -> Array:
        """Return a standard normal float32 for each code (int64 below 2**32, any shape), which
        depends on the seed, ``column`` and the code alone, not on the row."""
        return normal_quantile(_draw(self._keys(1, column, RULE)[0], codes), self.xp)

    def _keys(self, n: int, first: int, stream: int) -> Array:
        columns = np.arange(first, first + n, dtype=np.int64)
        keys = _subkey(np.array([self.seed], np.int64), stream, columns)
        return self.xp.asarray(keys, device=self.device)


def normal_quantile(bits: Array, xp: ModuleType) -> Array:
    """Return the quantile of ``(bits + ½) / 2**32`` as float32, of which the 24 high bits count;
    complementary bits give the opposite number.

    With q = p - ½ and t = (4 p (1 - p))^⅛ the quantile over q is smooth in t, and a quotient of two
    polynomials of degree 4 (fitted by weighted least squares to the least relative error) is within
    2e-6 of it over all 2**24 values. No logarithm is needed."""
    q = xp.astype(bits >> 8, xp.float32) * 2.0**-24 - (0.5 - 2.0**-25)  # exact
    tail = xp.abs(q)
    t = (0.5 - tail) * (tail + 0.5) * 4.0
    for _ in range(3):
        t = sqrt_float32(t, xp)
    return q * (polynomial(QUANTILE_NUMERATOR, t) / polynomial(QUANTILE_DENOMINATOR, t))


def polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Evaluate a polynomial by Horner's scheme, the highest power first."""
    total = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


def sqrt_float32(x: Array, xp: ModuleType) -> Array:
    """Return the correctly rounded square root of float32 numbers, which is never so close to the
    middle between two others that an error of the last bit in float64 could move it."""
    return xp.astype(xp.sqrt(xp.astype(x, xp.float64)), xp.float32)


def sqrt_float64(x: Array, xp: ModuleType) -> Array:
    """Return the square root of float64 numbers > 0, whatever the last bit of the library's root: a
    step of Newton's method, its residual without rounding (Dekker 1971). The root is split into
    halves of 26 bits, whose products are exact."""
    root = xp.sqrt(x)
    scaled = root * 134217729.0  # 2²⁷ + 1
    high = scaled - (scaled - root)
    low = root - high
    residual = x - high * high - high * low * 2.0 - low * low
    return root + residual / (root + root)


_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9, -1, -1))
_ARCTAN = tuple((-1.0) ** k / (2 * k + 1) for k in range(10, -1, -1))


def sin_pi(x: Array, xp: ModuleType) -> Array:
    """sin(πx) for float64 x, within 1e-15: the Taylor series between -½ and ½."""
    nearest = xp.floor(x + 0.5)
    sign = 1.0 - (nearest - xp.floor(nearest * 0.5) * 2.0) * 2.0
    angle = (x - nearest) * math.pi
    return sign * angle * polynomial(_SINE, angle * angle)


def cos_pi(x: Array, xp: ModuleType) -> Array:
    """cos(πx), as ``sin_pi``."""
    return sin_pi(x + 0.5, xp)


def arctan(x: Array, xp: ModuleType) -> Array:
    """arctan x for float64 x, within 1e-15: an eighth of the angle by its Taylor series."""
    for _ in range(3):
        x = x / (sqrt_float64(x * x + 1.0, xp) + 1.0)  # the tangent of half the angle
    return x * polynomial(_ARCTAN, x * x) * 8.0
