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

from gpuens.kernels.growth.cuda.tables import PARAMS
from gpuens.kernels.runtime.cuda import launching, target
from tests.support import strict_cupy


class OnDevice:
    """A host array that claims to be on a device, as CuPy's and Numba's arrays look."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.size, self.ndim = array.size, array.ndim
        pointer = array.__array_interface__["data"]
        self.__cuda_array_interface__ = {"data": pointer, "shape": array.shape}
        self.ptr = pointer[0]
        self._layout = SimpleNamespace(strides_in_bytes=array.strides)


class OfCuPy(OnDevice):
    """The same by the protocol that Numba asks CuPy's arrays with."""

    def __dlpack__(self, **asked: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


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


VIEWS = {
    "rows": lambda a: a,
    "columns": lambda a: a.T.copy().T,
    "some columns": lambda a: a[:, 1:4],
    "every second row": lambda a: a[::2],
    "one row": lambda a: a[:1],
    "some columns of a row": lambda a: a[:1, 1:4],
    "one column": lambda a: a[:, 2:3],
    "a column": lambda a: a[:, 2],
    "a new axis": lambda a: a[0][None],
    "a column of columns": lambda a: a.T.copy().T[:, :1],
    "turned": lambda a: a[:1].T,
    "backwards": lambda a: a[::-1],
    "no rows": lambda a: a[:0],
    "no columns": lambda a: a[:, :0],
}


@pytest.mark.parametrize("view", VIEWS)
def test_arrays_of_cupy(view):
    """As Numba reads them: by their own protocol, with nothing in place of its parts."""
    array = OfCuPy(VIEWS[view](np.arange(48, dtype=np.int32).reshape(6, 8)))
    kind = Dispatcher().typeof_pyval(array)
    words = numbas_words(kind, array)
    ours = launching.words_of(array)
    if array.size > 0:
        assert ours == plain(words)
    assert ours[2:4] == plain(words)[2:4]
    assert ours[5 : 5 + array.ndim] == list(array.shape)
    assert kind.mutable


def test_arrays_of_one_kind_have_one_type_or_are_read_the_same_way():
    """A kernel that was compiled for a packed array reads the others of its kind as well, and
    one for arrays with gaps is not taken for a packed one's."""
    table = np.arange(48, dtype=np.int32).reshape(6, 8)
    for view in VIEWS.values():
        array = OfCuPy(view(table))
        ours = launching.kind_of(array)[2]
        theirs = Dispatcher().typeof_pyval(array).layout
        flags = array.array.flags
        assert ours == ("C" if flags.c_contiguous else "F" if flags.f_contiguous else "A")
        assert ours == theirs or theirs == "A"
    row, rows = OfCuPy(table[:1, 1:4]), OfCuPy(table[:3, 1:4])
    assert row.strides == rows.strides
    assert launching.kind_of(row) != launching.kind_of(rows)


class Dispatcher:
    """What ``launching`` asks of a kernel, with Numba's own typing."""

    def __init__(self, started: list[object] | None = None) -> None:
        self.started = started
        self.overloads: dict[tuple[types.Type, ...], object] = {}
        self.device = 0

    def typeof_pyval(self, value: object) -> types.Type:
        return dispatcher.CUDADispatcher.typeof_pyval(self, value)

    def __getitem__(self, configuration: tuple[object, ...]) -> object:
        def start(*args: object) -> None:
            kinds = tuple(map(self.typeof_pyval, args))
            of_device = SimpleNamespace(
                get_cufunc=lambda: SimpleNamespace(kernel=("compiled", self.device, *kinds))
            )
            self.overloads[kinds] = SimpleNamespace(_codelibrary=of_device)
            self.started.append(("numba", self.device, configuration, args))

        return start


@pytest.fixture
def started(monkeypatch):
    """All launches, of Numba's launcher and of ``cuda.core``'s."""
    found: list[object] = []
    monkeypatch.setattr("cuda.core.launch", lambda *args: found.append(("direct", *args)))
    monkeypatch.setattr("cuda.core.LaunchConfig", lambda **grid: grid)
    monkeypatch.setattr("numba.cuda.cudadrv.driver._to_core_stream", lambda stream: stream)
    monkeypatch.setattr(launching, "_started", {})
    launching._configuration.cache_clear()
    yield found
    launching._configuration.cache_clear()


def test_the_first_launch_is_numbas_and_the_others_are_direct(started):
    kernel, array = Dispatcher(started), OfCuPy(np.arange(5))
    for value in (1, 2):
        launching.start(kernel, (4, 2), 64, 0, "stream", (array, value))
    assert started[0] == ("numba", 0, ((4, 2), 64, "stream", 0), (array, 1))
    direct, stream, grid, compiled, *words = started[1]
    kinds = types.Array(types.int64, 1, "C"), types.int64
    assert (direct, stream, compiled) == ("direct", "stream", ("compiled", 0, *kinds))
    assert grid == {"grid": (4, 2), "block": 64, "shmem_size": 0}
    assert plain(words) == [0, 0, 5, 8, array.ptr, 5, 8, 2]


def test_much_shared_memory_is_allowed_once_before_the_first_launch(started, monkeypatch):
    allowed = []
    monkeypatch.setattr(launching, "_allowed", set())
    monkeypatch.setattr(launching, "set_most_shared", lambda *asked: allowed.append(asked))
    kernel, array = Dispatcher(started), OfCuPy(np.arange(5))
    kernel.compile = lambda kinds: kernel[1, 1, "nowhere"](array)
    for n_bytes in (launching.STATIC_SHARED, 2**16, 2**16):
        launching.start(kernel, 4, 64, 0, "stream", (array,), n_bytes)
    assert allowed == [(("compiled", 0, types.Array(types.int64, 1, "C")), 0, 2**16)]
    assert started[-1][2]["shmem_size"] == 2**16


def test_each_device_has_its_own_kernel(started):
    """A compiled kernel of another device would be an address that means nothing on this one."""
    kernel, array = Dispatcher(started), OfCuPy(np.arange(5))
    for device in (0, 1, 0, 1):
        kernel.device = device
        launching.start(kernel, 4, 64, device, f"stream of {device}", (array,))
    assert [launch[:2] for launch in started[:2]] == [("numba", 0), ("numba", 1)]
    assert [(launch[1], launch[3][1]) for launch in started[2:]] == [
        ("stream of 0", 0), ("stream of 1", 1)
    ]  # fmt: skip


@pytest.mark.parametrize("pointer", [0, 2, 4711])
def test_the_device_and_the_stream_are_cupys(started, monkeypatch, pointer):
    """Kernels start on CuPy's current stream of CuPy's current device; its default stream goes
    by its unmistakable name."""
    cupy = strict_cupy.install(monkeypatch)
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=pointer)
    monkeypatch.setattr(target, "_arrays", lambda: cupy)
    monkeypatch.setattr(target, "_wrapped_stream", lambda *found: found)
    monkeypatch.setattr(launching, "is_direct", lambda: True)
    kernel, array = Dispatcher(started), OfCuPy(np.arange(5))
    for device in (1, 0, 1):
        kernel.device = device
        with cupy.cuda.Device(device):
            target.launch(kernel, 4, 64, array)
    stream = pointer or target.LEGACY_STREAM
    assert [launch[1:3] for launch in started[:2]] == [
        (device, (4, 64, (device, stream), 0)) for device in (1, 0)
    ]
    _, of, _, compiled, *_ = started[2]
    assert (of, compiled[1]) == ((1, stream), 1)
