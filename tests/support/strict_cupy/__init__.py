"""A stand-in for CuPy that is as strict as CuPy, on machines without a GPU.

Its arrays (``arrays``) refuse what CuPy's refuse, its functions (``functions``) take the
parameters that CuPy's take (``signatures.json``, recorded by ``record``), its devices and streams
(``machine``) belong to threads and log what waits; its memory and pinned memory are counted. The
operations of ``kernels`` run on the CPU, behind their dispatch (``operations``), so that whole
models train at the CPU's speed while everything outside of ``kernels`` sees arrays of a GPU.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat.common import _helpers

from gpuens.devices import placement
from gpuens.kernels.runtime import dispatch
from gpuens.kernels.runtime.cuda import target

from . import functions, machine, operations
from .arrays import ndarray, result, viewed
from .machine import state

__all__ = ["install", "install_arrays", "log", "ndarray", "on_gpu", "sharing", "state", "unwrapped"]


def _module(name: str, content: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(content)
    return module


def _modules() -> dict[str, ModuleType]:
    own = functions.NAMESPACE | {
        "abs": functions.NAMESPACE["absolute"],
        "ndarray": ndarray,
        "get_default_memory_pool": lambda: state.pool,
        "__version__": "14.2.0",
    }
    lacking = {
        name: _lacking(f"linalg.{name}")
        for name in ("lstsq eigh qr slogdet svd cholesky matrix_rank pinv solve inv norm").split()
    }
    pinned = {
        "empty_pinned": machine.empty_pinned,
        "zeros_pinned": lambda shape, dtype=float, order="C": np.zeros(shape, dtype, order),
        "scatter_add": functions.scatter_add,
    }
    cupy = _module("cupy", own)
    cupy.cuda = _module("cupy.cuda", vars(machine.module()))  # type: ignore[attr-defined]
    tricks = _module("cupy.lib.stride_tricks", {"as_strided": as_strided})
    cupy.lib = _module("cupy.lib", {"stride_tricks": tricks})  # type: ignore[attr-defined]
    cupy.linalg, cupy.fft = _module("cupy.linalg", lacking), _module("cupy.fft", {})  # type: ignore
    return {
        "cupy": cupy,
        "cupy.cuda": cupy.cuda,
        "cupy.cuda.device": _module("cupy.cuda.device", {"Device": machine.Device}),
        "cupy.linalg": cupy.linalg,
        "cupy.fft": cupy.fft,
        "cupyx": _module("cupyx", pinned),
    }


def as_strided(x: ndarray, shape: Any = None, strides: Any = None) -> ndarray:
    """CuPy's, which makes views."""
    return viewed(np.lib.stride_tricks.as_strided(x.memory, shape, strides), x)


def _lacking(name: str) -> Any:
    def function(*args: Any, **settings: Any) -> Any:
        raise NotImplementedError(f"The stand-in does not compute cupy.{name}.")

    return function


def install_arrays(monkeypatch: Any, gpus: int = 2) -> ModuleType:
    """Make ``import cupy`` give the stand-in; operations are dispatched as for CuPy's arrays."""
    modules = _modules()
    state.reset(gpus)
    _helpers._issubclass_fast.cache_clear()
    for name in [n for n in list(sys.modules) if n.split(".")[0] in ("cupy", "cupyx")]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    _replace_namespace(monkeypatch)
    monkeypatch.setattr(target, "_arrays", lambda: modules["cupy"])
    placement.card_problem.cache_clear()
    monkeypatch.setattr(placement, "gpu_problem", lambda: None)
    monkeypatch.setattr(placement, "simulated", lambda: False)
    return modules["cupy"]


def _replace_namespace(monkeypatch: Any) -> None:
    """Let ``array_api_compat`` wrap the stand-in, and forget that afterwards."""
    import array_api_compat

    start = "array_api_compat.cupy"
    before = {n: m for n, m in sys.modules.items() if n == start or n.startswith(f"{start}.")}
    for name in before:
        del sys.modules[name]
    importlib.import_module(start)
    made = {n: m for n, m in sys.modules.items() if n == start or n.startswith(f"{start}.")}
    for name in made:
        del sys.modules[name]
    sys.modules.update(before)
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(array_api_compat, "cupy", made[start], raising=False)


def install(monkeypatch: Any, gpus: int = 2) -> ModuleType:
    """Make ``import cupy`` give the stand-in, with a number of GPUs, and run the operations of
    ``kernels`` on the CPU; returns the module."""
    cupy = install_arrays(monkeypatch, gpus)
    monkeypatch.setattr(dispatch, "_module", operations.module_for)
    return cupy


def on_gpu(cupy: ModuleType, values: Any, index: int = 0) -> ndarray:
    """Return a copy of values on a certain GPU of the stand-in."""
    with cupy.cuda.Device(index):
        return cupy.array(values)


def sharing(memory: np.ndarray) -> ndarray:
    """Return an array on this very memory, as if it were the current GPU's."""
    return result(memory)


def unwrapped(array: Any) -> Any:
    """Return the memory behind an array of the stand-in, without a wait; anything else as it is."""
    return array.memory if isinstance(array, ndarray) else array


def log() -> machine.Log:
    """Return the log of the machine that was installed last."""
    return state.log
