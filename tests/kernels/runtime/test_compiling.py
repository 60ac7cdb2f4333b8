"""The compiler's work: functions without machine code of their own, one search for each operator,
and no garbage collection."""

from __future__ import annotations

import gc
import operator
import os
import threading
from collections import Counter

import numpy as np
import pytest

from gpuens.kernels.runtime import uncollected
from gpuens.kernels.runtime.compilation import CpuKernel, inner, kernel
from gpuens.kernels.scalars.deferred import Function, declaration
from gpuens.kernels.scalars.linked import LinkedLibrary
from gpuens.kernels.scalars.primitives import formula


class Uncached(CpuKernel):
    """A kernel that is compiled in every process."""

    def _make(self, numba):
        made = self._make_callable(numba)
        made.compile = uncollected.uncollected(made.compile)
        return made


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


@inner
def sums(values, out):
    out[0] = values[0] + values[1] + values[2] + values[3]
    out[1] = values[4] + values[5]


def around_sums(values, out):
    sums(values, out)


def test_one_search_for_each_operator_and_its_types(monkeypatch):
    from numba.core.types import BaseFunction, float64

    from gpuens.kernels.scalars import remembered

    searched = Counter()
    search = BaseFunction.get_call_type

    def counting(function, context, args, kws):
        searched[function.typing_key, args] += 1
        return search(function, context, args, kws)

    monkeypatch.setattr(BaseFunction, "get_call_type", counting)
    monkeypatch.setattr(remembered, "_found", {})
    out = np.zeros(2)
    Uncached(around_sums, kernel(around_sums).options)(np.arange(6.0), out)
    assert out.tolist() == [6.0, 9.0]
    assert searched[operator.add, (float64, float64)] == 1
    assert BaseFunction.get_call_type is counting


def quotient(x, y):
    return x / y


@declaration
def _quotient_of_compiled_code():
    from numba.extending import overload

    overload(quotient)(lambda x, y: lambda x, y: x / y)


as_numpy = Function(lambda x, y: quotient(x, y), {"error_model": "numpy"})
as_python = Function(lambda x, y: quotient(x, y), {"error_model": "python"})


def quotients(x, y, out):
    out[0] = as_numpy(x, y)
    out[1] = as_python(x, y)


def test_a_search_is_remembered_for_the_same_options_only():
    divide = Uncached(quotients, kernel(quotients).options)
    out = np.zeros(2)
    divide(3.0, 2.0, out)
    assert out.tolist() == [1.5, 1.5]
    with pytest.raises(ZeroDivisionError):
        divide(1.0, 0.0, out)
    assert out.tolist() == [np.inf, 1.5]


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


def test_collection_goes_on_after_the_compiler(compiled, monkeypatch):
    seen = []
    make = compiled.made._compiler.compile
    monkeypatch.setattr(
        compiled.made._compiler, "compile", lambda *a: (seen.append(gc.isenabled()), make(*a))[1]
    )
    compiled(np.arange(2.0), np.zeros(2))
    assert seen == [False] and gc.isenabled()
    with pytest.raises(Exception, match="add_fourfold|size"):
        compiled(1, 2)
    assert seen == [False, False] and gc.isenabled()


def test_collection_stays_off_where_it_was():
    gc.disable()
    try:
        uncollected.uncollected(len)("")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collection_waits_for_all_threads():
    inside, leave = threading.Event(), threading.Event()

    def work():
        inside.set()
        leave.wait(30)

    thread = threading.Thread(target=uncollected.uncollected(work))
    thread.start()
    inside.wait(30)
    uncollected.uncollected(len)("")
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_collects():
    """Only the thread that forks goes on in the new process."""
    inside, leave = threading.Event(), threading.Event()

    def work():
        inside.set()
        leave.wait(30)

    thread = threading.Thread(target=uncollected.uncollected(work))
    thread.start()
    inside.wait(30)
    child = os.fork()
    if child == 0:
        again = gc.isenabled()
        uncollected.uncollected(len)("")
        os._exit(0 if again and gc.isenabled() else 1)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
