"""The words of a kernel's arguments are those that Numba would pass."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config, types

if config.ENABLE_CUDASIM:
    pytest.skip("needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from numba import typeof
from numba.cuda import dispatcher

from gpuens.kernels.cuda import launching
from gpuens.kernels.cuda.growth_tables import PARAMS


class OnDevice:
    """A host array that claims to be on a device, as CuPy's and Numba's arrays look."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.size, self.ndim = array.size, array.ndim
        pointer = array.__array_interface__["data"]
        self.__cuda_array_interface__ = {"data": pointer, "shape": array.shape}
        self.ptr = pointer[0]
        self._layout = SimpleNamespace(strides_in_bytes=array.strides)


def numbas_words(kind: types.Type, value: object) -> list[object]:
    kernel = SimpleNamespace(extensions=[])
    words: list[object] = []
    dispatcher._Kernel._prepare_args(kernel, kind, value, 0, [], words)
    return words


def plain(words: list[object]) -> list[object]:
    return [word.value if isinstance(word, ctypes._SimpleCData) else word for word in words]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float64),
        np.zeros((3, 5), np.int32),
        np.zeros((3, 5), np.float32, order="F"),
        np.zeros((6, 10), np.uint8)[::2, 1:7:3],
        np.zeros((2, 3, 4, 5), np.int32),
        np.zeros(0, np.uint64),
        np.zeros(4, PARAMS),
    ],
    ids=lambda a: f"{a.dtype.name}-{a.shape}-{'C' if a.flags.c_contiguous else 'other'}",
)
def test_arrays(array, monkeypatch):
    on_device = OnDevice(array)
    monkeypatch.setattr(
        dispatcher, "wrap_arg", lambda value: SimpleNamespace(to_device=lambda *_: value)
    )
    assert launching.words_of(on_device) == plain(numbas_words(typeof(array), on_device))
    assert launching.kind_of(on_device) == (array.dtype, array.ndim, typeof(array).layout)


@pytest.mark.parametrize(
    "value",
    [3, -(2**40), 0.5, np.int32(7), np.uint32(2**32 - 1), np.uint64(2**64 - 1), np.int64(-1)],
    ids=repr,
)
def test_numbers(value):
    ours, theirs = launching.words_of(value), numbas_words(typeof(value), value)
    assert plain(ours) == plain(theirs)
    assert [type(word) for word in ours] == [type(word) for word in theirs]


def test_the_first_launch_is_numbas_and_the_others_are_direct(monkeypatch):
    started = []

    class Kernel:
        overloads = {}

        def __getitem__(self, configuration):
            return lambda *args: started.append(("numba", configuration, args))

    kernel = Kernel()
    monkeypatch.setattr(launching, "_compiled", lambda function, args: "the kernel")
    monkeypatch.setattr(
        "cuda.core.launch", lambda *args: started.append(("direct", *args)), raising=True
    )
    monkeypatch.setattr("cuda.core.LaunchConfig", lambda **grid: grid)
    monkeypatch.setattr("numba.cuda.cudadrv.driver._to_core_stream", lambda stream: stream)
    launching._configuration.cache_clear()
    array = OnDevice(np.arange(5))
    for value in (1, 2):
        launching.start(kernel, (4, 2), 64, "stream", (array, value))
    assert started[0] == ("numba", ((4, 2), 64, "stream"), (array, 1))
    direct, stream, grid, compiled, *words = started[1]
    assert (direct, stream, compiled) == ("direct", "stream", "the kernel")
    assert grid == {"grid": (4, 2), "block": 64}
    assert plain(words) == [0, 0, 5, 8, array.ptr, 5, 8, 2]
    launching._configuration.cache_clear()
