"""The host's time for launches, predictions and rounds on a GPU, with the driver's call stubbed.

It needs no GPU. In launches, arrays are objects with the attributes that CuPy's have; in
predictions NumPy's arrays are in CuPy's place, with nothing around them but what makes them look
like CuPy's. What the driver and CuPy take for so many launches and arrays comes on top:
``gpu_unknowns`` measures all of it on a card.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import array_api_compat
import numpy as np
import pytest
from array_api_compat.common._helpers import _issubclass_fast
from numba import types
from numba.np.numpy_support import as_dtype

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.datasets import make_higgs_like
from gpuens.devices import placement
from gpuens.forest.forest import Forest
from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import launching, target

from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.program import Content, Options, Program, Results
from . import host_rounds

GROWTH = ("grow_", "histogram_", "partition_move", "scatter_")
"""Beginnings of the names of their entries in the catalogue."""
CHANGED = {"the same": 0, "two others": 2, "all others": None}
"""Numbers of arrays that differ from those of the launch before."""
LAUNCHED_ROWS = 8
ROWS = (1, 100, 10_000)
"""Rows that are predicted at once."""
TREES = (1, 100, 10_000)
GROWN = 100
"""Trees that are grown at most; larger forests have them several times."""
PROPERTIES = {"multiProcessorCount": 132, "sharedMemPerMultiprocessor": 228 * 1024,
              "major": 9, "minor": 0, "name": b"stubbed"}  # fmt: skip
CUDA_ERROR = type("OutOfMemoryError", (MemoryError,), {})


dtype_of = functools.cache(as_dtype)
"""Arrays of a type have one object for it, as the tables of growth do."""


class LaunchedArray:
    """An array of a device, as the launcher sees it."""

    def __init__(self, kind: types.Array) -> None:
        self.dtype = dtype_of(kind.dtype)
        self.shape = (LAUNCHED_ROWS,) * kind.ndim
        steps = [LAUNCHED_ROWS**k * self.dtype.itemsize for k in range(kind.ndim)]
        self.strides = tuple(steps if kind.layout == "F" else reversed(steps))
        self.size = LAUNCHED_ROWS**kind.ndim
        self.data = SimpleNamespace(ptr=id(self))


def argument_of(kind: types.Type) -> Any:
    """Return an argument of a type."""
    if isinstance(kind, types.Array):
        return LaunchedArray(kind)
    return {types.int64: 3, types.float64: 0.5}.get(kind) or as_dtype(kind).type(3)


def stub_driver(patch: pytest.MonkeyPatch) -> None:
    """Let a launch end where the driver would be called."""
    done = (0,)
    driver = SimpleNamespace(CUfunction=int, CUstream=int, cuLaunchKernel=lambda *launch: done)
    patch.setattr(launching, "bindings", lambda: driver)
    patch.setattr(launching, "stream_at", int)
    patch.setattr(launching, "enter", lambda device: None)
    patch.setattr(launching.precompiled, "find", lambda *kernel: None)
    patch.setattr(launching, "compiled", lambda *kernel: SimpleNamespace(handle=1))
    patch.setattr(launching, "_kernels", {})
    patch.setattr(launching, "_of_thread", launching._OfThread())


def turns_of(kinds: Sequence[types.Type], changed: int | None) -> list[tuple[Any, ...]]:
    """Return two lists of arguments that differ in so many arrays."""
    first = tuple(map(argument_of, kinds))
    arrays = [i for i, kind in enumerate(kinds) if isinstance(kind, types.Array)][:changed]
    second = tuple(argument_of(kinds[i]) if i in arrays else a for i, a in enumerate(first))
    return [first, second]


def microseconds(action: Callable[[], Any], calls: int, repeats: int) -> float:
    """Return the time of the processor for a call, the least of some runs."""
    action()
    runs = []
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(calls):
            action()
        runs.append(time.thread_time() - begin)
    return 1e6 * min(runs) / calls


def launches(options: Options) -> Results:
    """Measure microseconds of a launch of each kernel of growth."""
    found: Results = {}
    stream = SimpleNamespace(ptr=7)
    runtime = SimpleNamespace(getDevice=lambda: 0)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "_arrays", lambda: cupy)
        stub_driver(patch)
        for entry in catalogue.entries():
            if not entry.name.startswith(GROWTH):
                continue
            found[entry.name] = {"arguments": len(entry.arguments)}
            for name, changed in CHANGED.items():
                one, other = turns_of(entry.arguments, changed)

                def two(kernel: Any = entry.kernel, one: Any = one, other: Any = other) -> None:
                    target.launch(kernel, 64, 32, *one)
                    target.launch(kernel, 64, 32, *other)

                found[entry.name][name] = microseconds(two, options.calls, options.repeats) / 2
    mean = {name: float(np.mean([row[name] for row in found.values()])) for name in CHANGED}
    return {"microseconds": found, "mean": mean}


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
def numpy_as_cupy() -> Iterator[ModuleType]:
    """Install those arrays."""
    cupy = _cupy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cupy)
        patch.setattr(array_api_compat, "cupy", cupy, raising=False)
        patch.setattr(target, "_arrays", lambda: cupy)
        patch.setattr(target, "_multiprocessors_of", lambda device: 132)
        patch.setattr(placement, "gpu_problem", lambda: None)
        _issubclass_fast.cache_clear()
        stub_driver(patch)
        yield cupy
    _issubclass_fast.cache_clear()


def models(options: Options) -> Iterator[tuple[str, Any, str]]:
    """Yield what is predicted, the model, and the name of its method."""
    X, y = make_higgs_like(2000, 10)
    classes = y.astype(np.int64) + (X[:, 0] > 0)
    settings: dict[str, Any] = {"max_leaf_nodes": 8, "early_stopping": False, "device": "cpu"}
    for n_trees in options.trees:
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


def predictions(options: Options) -> Results:
    """Measure microseconds of a prediction, by rows."""
    X, _ = make_higgs_like(max(ROWS), 10)
    found: Results = {}
    with numpy_as_cupy() as cupy:
        for what, model, method in models(options):
            predict = getattr(model, method)
            found[what] = {
                f"{n:,} rows": microseconds(
                    functools.partial(predict, cupy.asarray(X[:n])), options.calls, options.repeats
                )
                for n in ROWS
            }
    few = [row[f"{n:,} rows"] for row in found.values() for n in ROWS[:2]]
    return {"microseconds": found, "slowest": max(few)}


def rounds(options: Options) -> Results:
    """Measure a round of boosting of one model, and of several that grow together."""
    with host_rounds.timed_stand_in(stub_driver) as clock:
        early: dict[str, Any] = {"early_stopping": True, "n_iter_no_change": 10**6}
        cases = {"one model": (1, {}), f"{options.models} models": (options.models, {})}
        cases[f"{options.models} models, early stopping"] = options.models, early
        return {
            what: host_rounds.time_of_a_round(
                clock, n, options.rounds, options.round_repeats, **settings
            )
            for what, (n, settings) in cases.items()
        }


def show(content: Content) -> Iterator[str]:
    """Yield the times by kernel, by kind of prediction, and of rounds."""
    results = content["results"]
    yield pivot("µs of a launch, by arguments that are not those of the launch before", {
        name: {what: str(value) if what == "arguments" else f"{value:.1f}"
               for what, value in row.items()}
        for name, row in results.get("launches", {}).get("microseconds", {}).items()
    })  # fmt: skip
    yield pivot("µs of the host for a prediction, NumPy's arrays in CuPy's place", {
        what: {key: f"{value:.0f}" for key, value in row.items()}
        for what, row in results.get("predictions", {}).get("microseconds", {}).items()
    })  # fmt: skip
    yield pivot("ms of the host for a round, a stand-in in CuPy's place", {
        what: {"our own Python": f"{row['own']:.2f}", "with what CuPy and the driver are taken to "
               "need": f"{row['modelled']:.2f}", "launches": f"{row['launches']:.0f}",
               "array functions": f"{row['array functions']:.0f}"}
        for what, row in results.get("rounds", {}).items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = content["results"]
    found = results.get("launches", {}).get("mean", {}).get("two others")
    what = "the host's time for a launch of growth, two arrays changed, the driver stubbed,"
    yield Goal(what, 5.0, found, "µs")
    found = results.get("predictions", {}).get("slowest")
    what = "the host's time for a prediction of up to 100 rows of a GPU, CuPy and driver stubbed,"
    yield Goal(what, 60.0, found, "µs")
    what = (
        "our own Python in a round of 50 models that grow together on a GPU, CuPy's time taken off,"
    )
    yield Goal(what, 5.0, results.get("rounds", {}).get("50 models", {}).get("own"), "ms")


PROGRAM = Program(
    "host_time", __doc__,
    {"launches": launches, "predictions": predictions, "rounds": rounds},
    {"calls": (100, "calls in a row"), "repeats": (60, "such runs, of which the least counts"),
     "trees": (list(TREES), "trees of the models that predict"),
     "models": (50, "models that grow together"), "rounds": (20, "rounds of boosting"),
     "round_repeats": (3, "runs of a training, of which the least counts")},
    show, goals,
)  # fmt: skip
main = PROGRAM.main
