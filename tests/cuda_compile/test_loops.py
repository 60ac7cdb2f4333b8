"""Loops that are not unrolled and tables that are indexed with 32 bits, as libNVVM compiles
them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import config, types

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from building import cubins
from gpuens.kernels import catalogue
from gpuens.kernels.growth.cuda.tables import PLAN
from gpuens.kernels.runtime.cuda.loops import COMMENT, rolled, unknown
from gpuens.kernels.runtime.cuda.narrow import narrow
from gpuens.kernels.runtime.cuda.target import kernel
from tests.ptx import driver
from tests.support.ptx_option import Gpu

GPUS = tuple(map(Gpu, ((8, 0), (12, 0))))
i64 = np.int64
ARGUMENTS = (catalogue.array(types.int64), types.int64, catalogue.array(types.int64))


@kernel
def unrolled_sum(values, n, result):
    total = 0
    for i in range(n):
        total += values[i]
    result[0] = total


@kernel
def rolled_sum(values, n, result):
    total = 0
    for i in rolled(range(n)):
        total += values[i]
    result[0] = total


@kernel
def eight_steps(values, n, result):
    step = unknown(1)
    while step < 256:
        result[step] = values[step]
        step *= 2


def loads(function, gpu):
    """Return how often the PTX of a kernel loads a value, and the PTX."""
    with driver.installed(GPUS):
        text = driver.library_of(function, ARGUMENTS).get_asm_str(cc=gpu.architecture)
    return text.count("ld.global"), text


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_the_body_is_written_once(gpu):
    n, text = loads(rolled_sum, gpu)
    assert n == 1 and COMMENT in text
    assert loads(unrolled_sum, gpu)[0] > 1
    assert loads(eight_steps, gpu)[0] == 1


def test_an_index_is_not_asked_whether_it_is_negative():
    for function, asked in ((unrolled_sum, True), (rolled_sum, False)):
        assert ("shr.s64" in loads(function, GPUS[0])[1]) is asked


@pytest.mark.parametrize(("name", "expected"), [("count_draws", False), ("cart_roots", True)])
def test_the_assembler_is_told(name, expected):
    (entry,) = (entry for entry in catalogue.entries() if entry.name == name)
    code, _ = cubins.ptx_of(entry)
    assert (cubins.NO_UNROLLING.encode() in code.code) is expected


@kernel
def narrow_steps(table, way, n, result):
    x, places = narrow(table), narrow(way)
    at = places[0]
    for step in rolled(range(n)):
        x[at].length = step
        at = x[at].numbered
    result[0] = i64(x.shape[0] + x.size)
    narrow(result)[1] = at


def test_narrow_tables_are_indexed_by_one_multiplication():
    """Of 32 bits, without asking whether the index is negative."""
    tables = (catalogue.records(PLAN), catalogue.array(types.int64))
    with driver.installed(GPUS):
        arguments = (*tables, types.int64, ARGUMENTS[2])
        text = driver.library_of(narrow_steps, arguments).get_asm_str(cc=GPUS[0].architecture)
    assert "mul.wide.u32" in text
    assert not re.search(r"mul\.lo\.s64|shr\.s64|selp", text)
