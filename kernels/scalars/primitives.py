"""The few operations whose rounding a compiler may change, fixed for every target.

A formula in this package is branch-free and built from ``+ - /``, comparisons, and the
functions below. A product that feeds a sum goes through ``mul``: NVVM fuses ``a * b + c``
into one rounding, the CPU rounds twice, and the two would differ in the last bit.

Called from plain Python the functions take arrays of any Array API library, which is how
the reference implementations run the formulas. Compiled code gets the overloads: here those
of the CPU, in ``kernels.runtime.cuda.target`` those of CUDA.
"""

from __future__ import annotations

import functools
import types as python_types
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .lazy_jit import Function, Intrinsic, declaration, deferred

formula = deferred(error_model="numpy", no_cfunc_wrapper=True)
"""The decorator of every formula. No signature: the function can then be called from CPU
kernels, from CUDA kernels and in the simulator. Division by zero gives inf, as on a GPU;
Python's exception would keep the loops around a formula from vectorising."""

INT_IN_MANTISSA = 6755399441055744.0
"""1.5 · 2⁵²: added to a small integer it leaves that integer in the low mantissa bits."""
EXPONENT_BIAS = 1023
_TWO_52_BITS = 0x4330000000000000


def _namespace(x: Any) -> Any:
    """Return the namespace of an array, NumPy's for a number."""
    return np if isinstance(x, (int, float)) else array_namespace(x)


def mul(x: Any, y: Any) -> Any:
    """``x * y``, rounded, never fused with a sum."""
    return x * y


def select(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``."""
    if isinstance(condition, (bool, np.bool_)):
        return x if condition else y
    return array_namespace(condition).where(condition, x, y)


def floor(x: Any) -> Any:
    """Return the largest integer not above x, as a float."""
    return _namespace(x).floor(x)


def two_to(k: Any) -> Any:
    """2ᵏ exactly, for a float64 integer k in [-1022, 1023]."""
    xp = _namespace(k)
    magnitude = xp.abs(k)
    power = xp.ones_like(k)
    for bit in range(9, -1, -1):
        has_bit = magnitude >= 2.0**bit
        power = xp.where(has_bit, power * 2.0 ** min(2**bit, 1023), power)
        magnitude = xp.where(has_bit, magnitude - 2.0**bit, magnitude)
    return xp.where(k < 0, 1.0 / power, power)


def exponent(x: Any) -> Any:
    """⌊log₂ x⌋ as a float, for a normal float64 x > 0."""
    xp = _namespace(x)
    guess = xp.floor(xp.log2(x))
    mantissa = x / two_to(guess)
    guess = xp.where(mantissa >= 2.0, guess + 1.0, guess)
    return xp.where(mantissa < 1.0, guess - 1.0, guess)


@Intrinsic
def bits_of(typingctx: Any, x: Any) -> Any:
    """Return the 64 bits of a float64 as an int64."""
    from numba import types

    return _reinterpreted(types.float64, types.int64)


@Intrinsic
def float_of(typingctx: Any, bits: Any) -> Any:
    """Return the float64 with the given 64 bits."""
    from numba import types

    return _reinterpreted(types.int64, types.float64)


@Intrinsic
def bits_of_float32(typingctx: Any, x: Any) -> Any:
    """Return the 32 bits of a float32 as an int32."""
    from numba import types

    return _reinterpreted(types.float32, types.int32)


@Intrinsic
def float32_of(typingctx: Any, bits: Any) -> Any:
    """Return the float32 with the given 32 bits."""
    from numba import types

    return _reinterpreted(types.int32, types.float32)


def _reinterpreted(source: Any, target: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the signature and the instruction of a change of type that keeps the bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(target))

    return target(source), codegen


@declaration
def _for_the_cpu() -> None:
    from numba.extending import overload

    @overload(mul)
    def _mul(x, y):
        return lambda x, y: x * y

    @overload(select)
    def _select(condition, x, y):
        return lambda condition, x, y: x if condition else y

    @overload(floor)
    def _floor(x):
        return lambda x: np.floor(x)

    @overload(two_to)
    def _two_to(k):
        # The integer k + bias lands in the low mantissa bits and is shifted into the exponent:
        # no conversion to an integer, so the loop around it vectorises without AVX-512.
        return lambda k: float_of(bits_of(k + (INT_IN_MANTISSA + EXPONENT_BIAS)) << 52)

    @overload(exponent)
    def _exponent(x):
        return lambda x: float_of((bits_of(x) >> 52) | _TWO_52_BITS) - (2.0**52 + EXPONENT_BIAS)


@functools.cache
def vectorise(function: Function) -> Callable[..., Any]:
    """Return the formula as a function of arrays.

    The source of a formula is branch-free, so it means the same for arrays once the formulas
    and primitives that it calls do. This rebinds the compiled functions among its globals to
    their array versions and leaves everything else as it is.
    """
    source = function.py_func
    rebound = {
        name: _for_arrays(value)
        for name, value in source.__globals__.items()
        if name in source.__code__.co_names
    }
    return python_types.FunctionType(source.__code__, rebound, source.__name__)


def _for_arrays(value: Any) -> Any:
    if type(value) is Function:
        return vectorise(value)
    if isinstance(value, np.integer):  # strict libraries refuse NumPy scalars beside arrays
        return int(value)
    return value
