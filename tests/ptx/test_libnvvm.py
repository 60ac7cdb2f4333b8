"""A miscompilation by libNVVM that only its PTX shows, as small as it gets.

numba-cuda 0.30.4 with libNVVM 13.5.37, on every architecture; libNVVM 12.9 to 13.5 do the same for
sm_100 and sm_120. A loop of constant range stores to some rows of a table after a row before them
has been stored, and a branch then stores to that row again: the last store goes to the last row of
the loop. Numba's IR is right, and so is the PTX without optimisation. Kernels therefore store each
result once (see ``kernels.growth.cuda.search``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config, types

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from numba import cuda
from numba.cuda import compile_ptx, dispatcher

from tests.ptx import machine

ARCHITECTURES = ((7, 5), (8, 0), (9, 0), (12, 0))
WRONG = ("13.5.37",)
"""The versions of libNVVM that are known to fail on all of these."""
N = 32


def store_defaults_first(chosen, out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        is_chosen = chosen[i] != 0
        out[2, i] = -1.0
        for row in range(3, 6):
            out[row, i] = 0.0
        if is_chosen:
            out[2, i] = 7.0


def store_once(chosen, out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        out[2, i] = 7.0 if chosen[i] != 0 else -1.0
        for row in range(3, 6):
            out[row, i] = 0.0


@pytest.fixture(autouse=True, scope="module")
def no_device() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        device = SimpleNamespace(compute_capability=ARCHITECTURES[0], id=0)
        patch.setattr(dispatcher, "get_current_device", lambda: device)
        yield


def run(function, cc, opt=True):
    """Return the table that the compiled function makes, and the version of libNVVM."""
    arguments = types.Array(types.int32, 1, "C"), types.Array(types.float64, 2, "C")
    ptx, _ = compile_ptx(function, types.void(*arguments), cc=cc, opt=opt)
    chosen, out = np.arange(N, dtype=np.int32) % 2, np.full((6, N), 5.0)
    words = [
        word
        for array in (chosen, out)
        for word in (0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape,
                     *array.strides)
    ]  # fmt: skip
    machine.load(ptx).launch((1, 1, 1), (N, 1, 1), np.array(words, np.int64).tobytes())
    (version,) = re.findall(r"V(\d+\.\d+\.\d+)", ptx)
    return out, version


def wanted():
    out = np.full((6, N), 5.0)
    out[3:] = 0.0
    out[2] = np.where(np.arange(N) % 2, 7.0, -1.0)
    return out


@pytest.mark.parametrize("cc", ARCHITECTURES, ids="sm_{0[0]}{0[1]}".format)
def test_a_store_goes_to_the_wrong_row(cc):
    out, version = run(store_defaults_first, cc)
    if version not in WRONG:
        pytest.skip(f"libNVVM {version} is not one of those that are known to fail: {WRONG}")
    wrong = wanted()
    wrong[5], wrong[2] = np.where(wrong[2] == 7, 7.0, 0.0), -1.0
    np.testing.assert_array_equal(out, wrong)


@pytest.mark.parametrize("cc", ARCHITECTURES, ids="sm_{0[0]}{0[1]}".format)
def test_it_is_right_without_optimisation_and_where_each_row_is_stored_once(cc):
    np.testing.assert_array_equal(run(store_defaults_first, cc, opt=False)[0], wanted())
    np.testing.assert_array_equal(run(store_once, cc)[0], wanted())
