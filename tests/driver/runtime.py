"""CuPy's place taken in a process that works with the stub of the driver: arrays in its memory.

CuPy itself does not run there: the runtime library inside of it checks that the driver is NVIDIA's.
``strict_cupy`` has the arrays, and here are its devices, streams and memory, which the driver is
asked for as that library does: it retains the primary context of each device that is used, and
makes the one of the current device that of the thread.

No kernel runs. An operation launches its kernels up to the point where the host reads what they
would have computed; its results are then those of the CPU's implementation.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from cuda.bindings import driver

from gpuens.kernels.growth.grow import GrownTrees
from gpuens.kernels.runtime import dispatch
from gpuens.kernels.runtime.cuda import precompiled
from tests.driver import stub
from tests.support import strict_cupy
from tests.support.strict_cupy import arrays, machine, operations


class RuntimeLibraryError(RuntimeError):
    """What CuPy raises where the driver refuses something."""


RuntimeLibraryError.__name__ = "CUDARuntimeError"
NAMES = {"CUDA_ERROR_ILLEGAL_ADDRESS": "cudaErrorIllegalAddress",
         "CUDA_ERROR_LAUNCH_FAILED": "cudaErrorLaunchFailure",
         "CUDA_ERROR_UNKNOWN": "cudaErrorUnknown",
         "CUDA_ERROR_DEVICE_UNAVAILABLE": "cudaErrorDevicesUnavailable",
         "CUDA_ERROR_OUT_OF_MEMORY": "cudaErrorMemoryAllocation"}  # fmt: skip
"""The runtime library's names of the driver's errors."""


def done(answer: tuple[Any, ...]) -> Any:
    """Return what the driver has answered.

    Raises
    ------
    CUDARuntimeError
    """
    status, *values = answer
    if status:
        raise RuntimeLibraryError(f"{NAMES.get(status.name, status.name)}: stub")
    return values[0] if values else None


_contexts: dict[int, Any] = {}


def use(device: int) -> None:
    """Make a device that of the thread."""
    if device not in _contexts:
        _contexts[device] = done(driver.cuDevicePrimaryCtxRetain(device))
    done(driver.cuCtxSetCurrent(_contexts[device]))


class NotComputedError(Exception):
    """The host reads what a kernel would have computed."""


_launching = threading.local()


class Waits(list[str]):
    """The waits of a log, which end the launches of an operation."""

    def append(self, name: str) -> None:
        # What is deleted waits for its own copies, for no kernel.
        is_deleted = sys._getframe(2).f_code.co_name == "__del__"
        if getattr(_launching, "now", False) and not is_deleted:
            raise NotComputedError(name)
        super().append(name)


class Log(machine.Log):
    """A log whose waits end the launches of an operation."""

    def clear(self) -> None:
        super().clear()
        self.waits = Waits()


_module = dispatch._module


def module_for(contract: str, implementation: dispatch.Implementation) -> Any:
    """Take the place of ``dispatch._module``."""
    routed = operations.module_for(contract, implementation)
    if not isinstance(routed, SimpleNamespace):
        return routed
    on_cuda = _module(contract, implementation)
    on_cpu = _module(contract, dispatch.Implementation.CPU)
    both = {
        name: launched(getattr(on_cuda, name), vars(routed).get(name) or partial(on_host, function))
        for name, function in vars(on_cpu).items()
        if callable(function) and callable(getattr(on_cuda, name, None))
    }
    return SimpleNamespace(**both)


def on_host(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Call one of the CPU's functions with arrays of the device."""
    own = {name: operations.host(value) for name, value in settings.items()}
    return on_device(function(*map(operations.host, args), **own))


def on_device(found: Any) -> Any:
    """Return a result with the leaves of grown trees on the device."""
    if isinstance(found, GrownTrees):
        return found._replace(leaf=result(found.leaf))
    if not isinstance(found, tuple):
        return found
    parts = map(on_device, found)
    return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)


def placed_as(found: Any, value: Any) -> Any:
    """Return a result with arrays on the device where they are in another one."""
    if isinstance(found, arrays.ndarray) and isinstance(value, np.ndarray):
        return result(value)
    if isinstance(found, tuple) and isinstance(value, tuple) and len(found) == len(value):
        parts = [placed_as(*both) for both in zip(found, value, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def launched(on_cuda: Callable[..., Any], on_cpu: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation that launches the kernels of one implementation, as far as they depend
    on nothing that they compute, and has the results of the other."""

    def operation(*args: Any, **settings: Any) -> Any:
        if getattr(_launching, "now", False):
            return on_cuda(*map(_twin, args), **settings)
        found, _launching.now = None, True
        try:
            found = on_cuda(*map(_twin, args), **settings)
        except NotComputedError:
            _launching.now = False  # before what has been launched is given up
        finally:
            _launching.now = False
        made = placed_as(found, on_cpu(*args, **settings))
        if isinstance(made, GrownTrees):
            _twins.append((made, found))
        return made

    return operation


_twins: deque[tuple[Any, Any]] = deque(maxlen=16)
"""Grown trees of both implementations: those of one are not arguments of the other."""


def _twin(value: Any) -> Any:
    """Return an argument as CUDA's implementation has made it.

    Raises
    ------
    NotComputedError
        It would have had to read results of kernels.
    """
    found = next((found for result, found in _twins if result is value), value)
    if found is None and value is not None:
        raise NotComputedError("grown trees")
    return found


class State(machine.State):
    """The machine of the driver."""

    def reset(self, gpus: int) -> None:
        super().reset(gpus)
        self.log = Log()
        n = min(gpus, done(driver.cuDeviceGetCount()))
        self.properties[:n] = map(properties_of, range(n))

    @property
    def device(self) -> int:
        return getattr(self.here, "device", 0)

    @device.setter
    def device(self, index: int) -> None:
        machine.State.device.fset(self, index)  # type: ignore[attr-defined]
        use(index)


def memory_of(size: int) -> np.ndarray:
    """Return bytes of the current device.

    Raises
    ------
    OutOfMemoryError
    """
    use(machine.state.device)
    status, pointer = driver.cuMemAlloc(max(1, size))
    if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise machine.OutOfMemoryError(f"Out of memory allocating {size:,} bytes.")
    done((status,))
    buffer = (ctypes.c_uint8 * size).from_address(int(pointer))
    weakref.finalize(buffer, driver.cuMemFree, int(pointer)).atexit = False
    memory = np.frombuffer(buffer, np.uint8)
    key = id(memory)
    _owned[key] = weakref.ref(memory, lambda _: _owned.pop(key))
    return memory


_owned: dict[int, Any] = {}
"""Arrays whose memory is the driver's."""


def allocated(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray:
    """Return memory of the current device, of zeros."""
    dtype = arrays.supported(dtype)
    shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    memory = memory_of(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    return memory.view(dtype).reshape(shape, order=order)


_result = arrays.result


def result(memory: Any) -> Any:
    """Return an array on memory, which becomes the driver's if it is not yet."""
    memory = np.asarray(memory)
    if id(machine.owner_of(memory)) not in _owned:
        order = "F" if memory.flags.fnc else "C"
        own = allocated(memory.shape, memory.dtype, order)
        own[...] = memory
        memory = own
    return _result(memory)


def new_stream(
    null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
) -> machine.Stream:
    """Return one of the driver's streams on the current device."""
    if null:
        return machine.state.defaults[machine.state.device]
    use(machine.state.device)
    made = done(driver.cuStreamCreate(int(non_blocking)))
    return machine.Stream(int(made), machine.state.device)


def synchronize() -> None:
    """Wait for the current device."""
    use(machine.state.device)
    done(driver.cuCtxSynchronize())
    machine.waited("deviceSynchronize")


def properties_of(device: int) -> dict[str, Any]:
    """Return what CuPy reports of a device."""
    attributes = driver.CUdevice_attribute

    def value(name: str) -> int:
        which = getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}")
        return done(driver.cuDeviceGetAttribute(which, device))

    return {
        "name": done(driver.cuDeviceGetName(64, device)).rstrip(b"\0"),
        "totalGlobalMem": done(driver.cuDeviceTotalMem(device)),
        "major": value("COMPUTE_CAPABILITY_MAJOR"),
        "minor": value("COMPUTE_CAPABILITY_MINOR"),
        "multiProcessorCount": value("MULTIPROCESSOR_COUNT"),
        "sharedMemPerMultiprocessor": value("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        "uuid": bytes(done(driver.cuDeviceGetUuid(device)).bytes),
    }


def install() -> None:
    """Be CuPy in this process."""
    done(driver.cuInit(0))
    n = done(driver.cuDeviceGetCount())
    machine.state.__class__ = State
    machine.state.reset(n)
    module_for.cache_clear = _module.cache_clear  # type: ignore[attr-defined]
    dispatch._module = module_for  # type: ignore[assignment]
    machine.new_stream = new_stream  # type: ignore[assignment]
    operations.require_places = lambda *of_argument: None  # a table may come from the host
    own = {"rubbish": allocated, "result": result}
    for module in [
        arrays,
        operations,
        strict_cupy,
        sys.modules["tests.support.strict_cupy.functions"],
    ]:
        for name, function in own.items():
            if hasattr(module, name):
                setattr(module, name, function)
    modules = strict_cupy._modules()
    cuda = modules["cupy"].cuda
    runtime = cuda.runtime
    runtime.driverGetVersion = lambda: done(driver.cuDriverGetVersion())
    runtime.memGetInfo = memory_info
    runtime.deviceSynchronize = synchronize
    modules["cupy"].__spec__ = sys.modules["cupy"].__spec__  # by which it is found to be installed
    sys.modules.update(modules)
    code = Path(os.environ[stub.FOLDER]) / stub.CODE
    if code.is_dir():
        precompiled.FOLDER = code


def memory_info() -> tuple[int, int]:
    """Return the free and the total bytes of the current device."""
    use(machine.state.device)
    free, total = (status_and := driver.cuMemGetInfo())[1:]
    done(status_and[:1])
    return free, total
