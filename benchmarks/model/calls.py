"""The host's time for a prediction of rows that a GPU has, with the driver's call stubbed.

The time is taken twice. ``plain`` puts NumPy's arrays in CuPy's place, with nothing around them but
what makes them look like CuPy's: what is left is the time of this package, and what CuPy takes for
so many arrays comes on top. ``strict`` puts the stand-in of the tests there, which checks what CuPy
checks and logs what waits, and takes longer than CuPy.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import array_api_compat
import numpy as np
import pytest
from array_api_compat.common._helpers import _issubclass_fast

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.datasets import make_higgs_like
from gpuens.devices import placement
from gpuens.forest.forest import Forest
from gpuens.kernels.runtime.cuda import target
from tests.support import strict_cupy

from ..common.program import Results
from .launcher import stub_driver

MULTIPROCESSORS = 132
CALLS, REPEATS = 100, 60
SIMULATED = placement.simulated
"""Before a stand-in takes its place."""
ROWS = (1, 100, 10_000)
TREES = (1, 100, 10_000)
GROWN = 100
"""Trees that are grown at most; larger forests have them several times."""
PROPERTIES = {"multiProcessorCount": MULTIPROCESSORS, "sharedMemPerMultiprocessor": 228 * 1024,
              "major": 9, "minor": 0, "name": b"stubbed"}  # fmt: skip
CUDA_ERROR = type("OutOfMemoryError", (MemoryError,), {})


class ndarray:  # noqa: N801
    """CuPy's array, without anything that it does."""

    __slots__ = (
        "array", "shape", "dtype", "strides", "size", "ndim", "itemsize", "nbytes", "flags",
        "data", "device", "__weakref__",
    )  # fmt: skip

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape, self.dtype, self.strides = array.shape, array.dtype, array.strides
        self.size, self.ndim, self.itemsize = array.size, array.ndim, array.itemsize
        self.nbytes, self.flags = array.nbytes, array.flags
        self.data, self.device = POINTER, DEVICE

    @property
    def T(self) -> ndarray:  # noqa: N802
        return ndarray(self.array.T)

    def __getitem__(self, key: Any) -> ndarray:
        return ndarray(self.array[key.array if type(key) is ndarray else key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[key] = value.array if type(value) is ndarray else value

    def __gt__(self, other: float) -> ndarray:
        return ndarray(self.array > other)

    def view(self, dtype: Any) -> ndarray:
        return ndarray(self.array.view(dtype))

    def reshape(self, *shape: Any) -> ndarray:
        return ndarray(self.array.reshape(*shape))

    def copy(self) -> ndarray:
        return ndarray(self.array.copy())

    def astype(self, dtype: Any) -> ndarray:
        return ndarray(self.array.astype(dtype))

    def argmax(self, axis: int) -> ndarray:
        return ndarray(self.array.argmax(axis))


ndarray.__module__ = "cupy"
POINTER, DEVICE = SimpleNamespace(ptr=4711), SimpleNamespace(id=0)


def _cupy() -> ModuleType:
    """Return a module in CuPy's place whose arrays are as thin as can be."""
    cupy = ModuleType("cupy")
    stream = SimpleNamespace(ptr=7, synchronize=lambda: None)
    runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda index: PROPERTIES)
    cupy.__dict__.update(
        ndarray=ndarray,
        asnumpy=lambda array: array.array,
        empty=lambda shape, dtype=float: ndarray(np.empty(shape, dtype)),
        zeros=lambda shape, dtype=float: ndarray(np.zeros(shape, dtype)),
        asarray=lambda a, dtype=None, order=None: a if type(a) is ndarray else ndarray(a),
        **{name: getattr(np, name) for name in ("float32", "float64", "int32", "int64")},
        cuda=SimpleNamespace(
            Device=lambda index: contextlib.nullcontext(),
            get_current_stream=lambda: stream,
            runtime=runtime,
            memory=SimpleNamespace(OutOfMemoryError=CUDA_ERROR),
        ),
    )
    return cupy


@contextlib.contextmanager
def plain() -> Iterator[ModuleType]:
    """Install those arrays."""
    cupy = _cupy()
    with pytest.MonkeyPatch.context() as patch:
        strict_cupy.install_arrays(patch, 1)  # for what else is patched
        patch.setitem(sys.modules, "cupy", cupy)
        patch.setattr(array_api_compat, "cupy", cupy)  # its names are those of the standard
        patch.setattr(target, "_arrays", lambda: cupy)
        patch.setattr(target, "_multiprocessors_of", lambda device: MULTIPROCESSORS)
        patch.setattr(placement, "simulated", SIMULATED)
        _issubclass_fast.cache_clear()
        stub_driver(patch)
        yield cupy
    _issubclass_fast.cache_clear()


@contextlib.contextmanager
def strict() -> Iterator[ModuleType]:
    """Install the stand-in of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        cupy = strict_cupy.install_arrays(patch, 1)
        strict_cupy.state.properties[0].update(PROPERTIES)
        patch.setattr(target, "_multiprocessors_of", lambda device: MULTIPROCESSORS)
        stub_driver(patch)
        yield cupy


STAND_INS = {"plain": plain, "strict": strict}


def models() -> Iterator[tuple[str, Any, str]]:
    """Yield what is predicted, the model, and the name of its method."""
    X, y = make_higgs_like(2000, 10)
    classes = y.astype(np.int64) + (X[:, 0] > 0)
    settings: dict[str, Any] = {"max_leaf_nodes": 8, "early_stopping": False, "device": "cpu"}
    for n_trees in TREES:
        of_trees = {"n_estimators": min(n_trees, GROWN), **settings}
        values = GradientBoostingRegressor(**of_trees).fit(X, X[:, 0])
        two, three = (GradientBoostingClassifier(**of_trees).fit(X, c) for c in (y, classes))
        for model in (values, two, three):
            model.forest_ = repeated(model.forest_, n_trees)
            model.set_params(device="cuda")
        yield f"values, {n_trees:,} trees", values, "predict"
        yield f"labels of two classes, {n_trees:,} trees", two, "predict"
        yield f"probabilities of two, {n_trees:,} trees", two, "predict_proba"
        yield f"probabilities of three, {n_trees:,} trees", three, "predict_proba"


def repeated(forest: Forest, n_trees: int) -> Forest:
    """Return a forest with its trees several times."""
    times = -(-n_trees // forest.n_trees)
    return Forest.concatenate([forest] * times)


def microseconds(action: Callable[[], Any]) -> float:
    """Return the time of the processor for a call, the least of some runs."""
    action()
    runs = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        for _ in range(CALLS):
            action()
        runs.append(time.thread_time() - begin)
    return 1e6 * min(runs) / CALLS


def arrays_made(action: Callable[[], Any]) -> int:
    """Return how many arrays and views of ``plain`` a call makes."""
    begin, made = ndarray.__init__, []

    def init(self: ndarray, array: np.ndarray) -> None:
        made.append(1)
        begin(self, array)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ndarray, "__init__", init)
        action()
    return len(made)


def measure() -> Results:
    """Measure microseconds of the host for a call, by stand-in and rows."""
    X, _ = make_higgs_like(max(ROWS), 10)
    found: Results = {}
    for what, model, method in models():
        found[what] = {}
        for stand_in, install in STAND_INS.items():
            own = deepcopy(model)  # which keeps no arrays of another stand-in
            with install() as cupy:
                for n in ROWS:
                    call = partial(getattr(own, method), cupy.asarray(X[:n]))
                    found[what][f"{n:,} rows, {stand_in}"] = microseconds(call)
                if install is plain:
                    found[what]["arrays"] = float(arrays_made(call))
    return {"microseconds": found}


def slowest(result: Results) -> float | None:
    """Return the microseconds of this package for the slowest call with few rows."""
    of_calls = result.get("microseconds", {}).values()
    few = [f"{n:,} rows, plain" for n in ROWS[:2]]
    return max((row[key] for row in of_calls for key in few), default=None)
