"""The compiler's work: functions without machine code of their own."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.runtime.compilation import CpuKernel, inner, kernel
from gpuens.kernels.scalars.bitcode import LinkedLibrary
from gpuens.kernels.scalars.lazy_jit import Function
from gpuens.kernels.scalars.primitives import formula


class Uncached(CpuKernel):
    """A kernel that is compiled in every process."""

    def _make(self, numba):
        return self._make_callable(numba)


@formula
def twice(x):
    return x + x


@inner
def add_twice(values, out):
    for i in range(values.size):
        out[i] += twice(values[i])


def add_fourfold(values, out):
    if values.size == 0:
        raise ValueError("no values")
    add_twice(values, out)
    add_twice(values, out)


@pytest.fixture
def compiled():
    return Uncached(add_fourfold, kernel(add_fourfold).options)


def test_functions_are_part_of_their_callers(compiled):
    values, out = np.arange(5.0), np.ones(5)
    compiled(values, out)
    assert out.tolist() == [1.0, 5.0, 9.0, 13.0, 17.0]
    for function in (twice, add_twice):
        (made,) = function.made.overloads.values()
        assert isinstance(made.library, LinkedLibrary)
        assert made.library.get_pointer_to_function(made.fndesc.llvm_func_name) == 0
    (made,) = compiled.made.overloads.values()
    assert not isinstance(made.library, LinkedLibrary)
    with pytest.raises(ValueError, match="no values"):
        compiled(values[:0], out[:0])


def test_python_calls_a_formula():
    fresh = Function(twice.py_func, twice.options)
    assert fresh(3) == 6 and fresh(0.25) == 0.5
    assert not fresh.made.overloads


def test_other_types_are_linked_too(compiled):
    for dtype in (np.float32, np.int64):
        out = np.zeros(3, dtype)
        compiled(np.arange(3, dtype=dtype), out)
        assert out.tolist() == [0, 4, 8]


def twofold_and_one(values, out):
    def one_more(x):
        return x + 1.0

    for i in range(values.size):
        out[i] = one_more(twice(values[i]))


with_closure = inner(twofold_and_one)


def around(values, out):
    with_closure(values, out)


def test_a_part_of_a_kernel_may_hold_a_closure():
    out = np.zeros(3)
    Uncached(around, kernel(around).options)(np.arange(3.0), out)
    assert out.tolist() == [1.0, 3.0, 5.0]
