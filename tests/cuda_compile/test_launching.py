"""The launcher writes the words that Numba would pass, and writes down what has changed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

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
from gpuens.kernels.runtime.cuda.compiling import types_of
from tests.support import strict_cupy


class OnDevice:
    """A host array that claims to be on a device, as CuPy's arrays look."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype, self.size, self.ndim = array.dtype, array.size, array.ndim
        self.data = SimpleNamespace(ptr=array.ctypes.data)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides

    # What Numba asks of it.

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.data.ptr, False), "shape": self.shape}

    def __dlpack__(self, **asked: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class Function:
    """A kernel, as far as the launcher looks at it."""

    def __init__(self) -> None:
        self.py_func = Function


class Driver:
    """The driver's place taken: ``started`` has each launch with the words that it has read."""

    def __init__(self) -> None:
        self.kernels: list[tuple[Any, tuple[Any, ...]]] = []
        self.started: list[tuple[Any, ...]] = []
        self.allowed: list[tuple[Any, ...]] = []
        self.status: Any = 0
        attributes = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
        self.CUfunction_attribute = attributes

    CUfunction = CUkernel = staticmethod(int)

    @staticmethod
    def CUstream(pointer: int) -> str:  # noqa: N802
        return f"stream {pointer}"

    def compiled(self, function: Any, kinds: tuple[Any, ...]) -> Any:
        self.kernels.append((function, kinds))
        return SimpleNamespace(handle=len(self.kernels) - 1)

    def cuKernelSetAttribute(self, *asked: Any) -> tuple[Any]:  # noqa: N802
        self.allowed.append(asked)
        return (self.status,)

    def cuLaunchKernel(self, handle: int, *launch: Any) -> tuple[Any]:  # noqa: N802
        *sizes, shared, stream, pointers, extra = launch
        _, kinds = self.kernels[handle]
        words = read_words(pointers, kinds)
        self.started.append((handle, tuple(sizes), shared, stream, words))
        assert extra == 0
        return (self.status,)


def read_words(pointers: int, kinds: Sequence[Any]) -> list[float]:
    """Read the parameters of a kernel for arguments of these kinds, each by its own type."""
    formats: list[Any] = []
    for kind in kinds:
        if isinstance(kind, tuple):
            formats += [ctypes.c_int64] * (5 + 2 * kind[1])
        else:
            formats.append(np.ctypeslib.as_ctypes_type(kind))
    addresses = (ctypes.c_uint64 * len(formats)).from_address(pointers)
    return [
        format_.from_address(address).value
        for format_, address in zip(formats, addresses, strict=True)
    ]


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(launching, "bindings", lambda: driver)
    monkeypatch.setattr(launching, "compiled", driver.compiled)
    monkeypatch.setattr(launching, "enter", lambda device: None)
    monkeypatch.setattr(launching.precompiled, "find", lambda *kernel: None)
    monkeypatch.setattr(launching, "_kernels", {})
    monkeypatch.setattr(launching, "_of_thread", launching._OfThread())
    launching.stream_at.cache_clear()
    yield driver
    launching.stream_at.cache_clear()


def words_after(driver: Driver, function: Any, *args: Any) -> list[float]:
    """The words that a launch on the first device reads."""
    launching.start(function, 1, 32, 0, 1, args)
    return driver.started[-1][-1]


def numbas_words(kind: types.Type, value: object) -> list[object]:
    kernel = SimpleNamespace(extensions=[])
    words: list[Any] = []
    dispatcher._Kernel._prepare_args(kernel, kind, value, 0, [], words)
    return [word.value if isinstance(word, ctypes._SimpleCData) else word for word in words]


def as_numba_types_it(array: OnDevice) -> types.Type:
    return dispatcher.CUDADispatcher.typeof_pyval(None, array)


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
def test_arrays(driver, array, monkeypatch):
    monkeypatch.setattr(
        dispatcher, "wrap_arg", lambda value: SimpleNamespace(to_device=lambda *_: value)
    )
    on_device = OnDevice(array)
    on_device.ptr = array.ctypes.data
    on_device._layout = SimpleNamespace(strides_in_bytes=array.strides)
    found = words_after(driver, Function(), on_device)
    assert found == numbas_words(typeof(array), on_device)
    assert launching.kind_of(on_device) == (array.dtype, array.ndim, typeof(array).layout)
    assert types_of([launching.kind_of(on_device)]) == (typeof(array),)


@pytest.mark.parametrize(
    "value",
    [3, -(2**40), 0.5, np.int32(7), np.int32(-7), np.uint32(2**32 - 1), np.uint64(2**64 - 1),
     np.int64(-1), np.float32(0.1), np.float64(0.1)],
    ids=repr,
)  # fmt: skip
def test_numbers(driver, value):
    assert words_after(driver, Function(), value) == numbas_words(typeof(value), value)
    assert types_of([launching.kind_of(value)]) == (typeof(value),)


@pytest.mark.parametrize("value", [True, "text", None, np.bool_(True)])
def test_what_kernels_do_not_take(driver, value):
    with pytest.raises(TypeError, match="A kernel takes arrays and numbers, not"):
        launching.start(Function(), 1, 32, 0, 1, (3, value))
    assert driver.started == []


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
def test_views(driver, view):
    """As Numba reads them: by their own protocol, with nothing in place of its parts."""
    array = OnDevice(VIEWS[view](np.arange(48, dtype=np.int32).reshape(6, 8)))
    words = numbas_words(as_numba_types_it(array), array)
    ours = words_after(driver, Function(), array)
    if array.size > 0:
        assert ours == words
    assert ours[2:4] == words[2:4]
    assert ours[5 : 5 + array.ndim] == list(array.shape)


def test_arrays_of_one_kind_have_one_type_or_are_read_the_same_way():
    """A kernel that was compiled for a packed array reads the others of its kind as well, and
    one for arrays with gaps is not taken for a packed one's."""
    table = np.arange(48, dtype=np.int32).reshape(6, 8)
    for view in VIEWS.values():
        array = OnDevice(view(table))
        ours, theirs = launching.kind_of(array)[2], as_numba_types_it(array).layout
        flags = array.array.flags
        assert ours == ("C" if flags.c_contiguous else "F" if flags.f_contiguous else "A")
        assert ours == theirs or theirs == "A"
    row, rows = OnDevice(table[:1, 1:4]), OnDevice(table[:3, 1:4])
    assert row.strides == rows.strides
    assert launching.kind_of(row) != launching.kind_of(rows)


def array_words(array: np.ndarray) -> list[int]:
    head = [0, 0, array.size, array.itemsize, array.ctypes.data]
    return [*head, *array.shape, *array.strides]


def test_every_launch_has_its_own_arguments(driver):
    """Whatever the one before had: other arrays and numbers, and the same again."""
    function, hosts = Function(), [np.zeros(5), np.zeros(5), np.zeros(7), np.zeros(8)[::2]]
    arrays = list(map(OnDevice, hosts))
    rng = np.random.default_rng(0)
    for _ in range(100):
        (i, j), number = rng.integers(0, len(arrays), 2), float(rng.integers(0, 4))
        expected = [*array_words(hosts[i]), number, *array_words(hosts[j])]
        assert words_after(driver, function, arrays[i], number, arrays[j]) == expected
    assert len({kinds for _, kinds in driver.kernels}) == len(driver.kernels) == 4


def test_only_changes_are_written(driver, monkeypatch):
    """The same arguments are not looked at, nor is more than the address of an array that lies
    like the one before."""
    function, first, second = Function(), OnDevice(np.zeros((5, 2))), OnDevice(np.zeros((5, 2)))
    words_after(driver, function, first, 3, 0.5)
    written = []
    put = launching.Parameters._put
    monkeypatch.setattr(
        launching.Parameters, "_put", lambda self, i, a: written.append(i) or put(self, i, a)
    )
    monkeypatch.setattr(launching, "kind_of", None)
    for args in ((first, 3, 0.5), (second, 3, 0.5), (second, 4, 0.5), (second, 4, 0.5)):
        words_after(driver, function, *args)
    assert [driver.started[-1][-1][k] for k in (4, 9)] == [second.data.ptr, 4]
    assert written == [1]


def test_an_array_that_is_deleted_is_forgotten(driver):
    """It is not kept alive, and what is put in its place in memory is not taken for it."""
    function, known = Function(), set()
    for k in range(50):
        array = OnDevice(np.zeros(5 + k % 3))
        known.add(id(array))
        assert words_after(driver, function, array, 1) == [*array_words(array.array), 1]
        del array
    assert len(known) < 50, "no object was created in the place of another one"


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_an_array_of_another_shape_in_place(driver):
    function, array = Function(), OnDevice(np.zeros((4, 6)))
    for shape in ((4, 6), (6, 4), (3, 8), (24,)):
        array.array.shape = shape
        assert words_after(driver, function, array) == array_words(array.array)


def test_another_number_of_arguments(driver):
    function, array = Function(), OnDevice(np.zeros(3))
    assert words_after(driver, function, array, 1) == [*array_words(array.array), 1]
    assert words_after(driver, function, array) == array_words(array.array)


def test_a_failure_leaves_no_kernel_behind(driver, monkeypatch):
    """What could not be compiled is compiled at the next launch."""
    function, array = Function(), OnDevice(np.zeros(3))

    def fail(*args: object) -> None:
        raise RuntimeError("no compiler")

    words_after(driver, function, array, 1)
    monkeypatch.setattr(launching, "compiled", fail)
    with pytest.raises(RuntimeError, match="no compiler"):
        words_after(driver, function, array, 0.5)
    assert words_after(driver, function, array, 2) == [*array_words(array.array), 2]
    monkeypatch.setattr(launching, "compiled", driver.compiled)
    assert words_after(driver, function, array, 0.5) == [*array_words(array.array), 0.5]


def test_each_device_has_its_own_kernel(driver):
    """A compiled kernel of another device would be an address that means nothing on this one."""
    function, array = Function(), OnDevice(np.arange(5))
    for device in (0, 1, 0, 1):
        launching.start(function, (4, 2), 64, device, 10 + device, (array,))
    assert [(handle, sizes, stream) for handle, sizes, _, stream, _ in driver.started] == [
        (device, (4, 2, 1, 64, 1, 1), f"stream {10 + device}") for device in (0, 1, 0, 1)
    ]


def test_threads_have_blocks_of_their_own(driver):
    function, arrays = Function(), [OnDevice(np.zeros(5 + k)) for k in range(8)]

    def work(k):
        blocks = set()
        for value in range(100):
            launching.start(function, 1, 32, 0, 1, (arrays[k], value))
            (parameters,) = launching._of_thread.parameters.values()
            kinds = parameters.kinds
            blocks.add(parameters.pointers)
            words = read_words(parameters.pointers, kinds)
            assert words == [*array_words(arrays[k].array), value]
        return blocks

    with ThreadPoolExecutor(8) as pool:
        blocks = set().union(*pool.map(work, range(8)))
    assert len(driver.kernels) == 1
    assert 1 <= len(blocks) <= 8


def test_shared_memory_beyond_the_usual_is_asked_for_once(driver):
    function, other = Function(), Function()
    for size in (0, 1024, 60_000, 60_000, 50_000, 90_000):
        launching.start(function, 1, 32, 3, 1, (1,), size)
    launching.start(other, 1, 32, 3, 1, (1,), 48 * 1024)
    assert driver.allowed == [("shared", 60_000, 0, 3), ("shared", 90_000, 0, 3)]
    assert [shared for _, _, shared, *_ in driver.started] == [
        0, 1024, 60_000, 60_000, 50_000, 90_000, 48 * 1024
    ]  # fmt: skip


@pytest.mark.parametrize("shared", [0, 100_000])
def test_what_the_driver_refuses(driver, shared):
    class Refused(int):
        name = "CUDA_ERROR_INVALID_VALUE"

    driver.status = Refused(1)
    how = "100,000 bytes of shared memory a block" if shared else "3 x 70,000 blocks of 32 threads"
    message = f"does not start the kernel Function with {how}: CUDA_ERROR_INV.*show_config"
    with pytest.raises(RuntimeError, match=message):
        launching.start(Function(), (3, 70_000), 32, 0, 1, (1,), shared)


@pytest.mark.parametrize("pointer", [0, 2, 4711])
def test_the_device_and_the_stream_are_cupys(driver, monkeypatch, pointer):
    """Kernels start on CuPy's current stream of CuPy's current device; its default stream goes
    by its unmistakable name."""
    cupy = strict_cupy.install(monkeypatch)
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=pointer)
    monkeypatch.setattr(target, "_arrays", lambda: cupy)
    function, array = Function(), OnDevice(np.arange(5))
    for device in (1, 0, 1):
        with cupy.cuda.Device(device):
            target.launch(function, 4, 64, array)
    stream = f"stream {pointer or target.LEGACY_STREAM}"
    assert [launch[0] for launch in driver.started] == [0, 1, 0]
    assert {launch[3] for launch in driver.started} == {stream}


def test_the_driver_takes_what_it_is_given():
    """As far as it goes without one: the types of the bindings, and the error that names the
    missing driver."""
    bindings = launching.bindings()
    assert int(bindings.CUfunction(4711)) == int(launching.stream_at(4711)) == 4711
    assert not bindings.CUresult.CUDA_SUCCESS and bindings.CUresult.CUDA_ERROR_INVALID_VALUE
    words = np.zeros(2, np.uint64)
    launch = (1, 1, 1, 32, 1, 1, 0, launching.stream_at(1), words.ctypes.data, 0)
    try:
        (status,) = bindings.cuLaunchKernel(bindings.CUfunction(0), *launch)
    except RuntimeError as error:
        assert "driver" in str(error) or "cuLaunchKernel" in str(error)
    else:
        with pytest.raises(RuntimeError, match="does not start the kernel Function: CUDA_ERR"):
            launching.check(Function(), status)
