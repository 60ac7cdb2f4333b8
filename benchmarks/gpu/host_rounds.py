"""The host's time for a round of boosting on a GPU, that of our own Python apart from CuPy's.

``strict_cupy`` is in CuPy's place and kernels only return: those whose results the host reads
leave numbers that look like results, and growth a whole tree. What the stand-in does is timed and
counted call by call, and taken off; what CuPy and the driver would take for so many calls comes on
top, by ``COSTS``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.datasets import make_higgs_like
from gpuens.kernels.growth.cuda.tables import IS_DONE
from gpuens.kernels.growth.frontier import N_NODES
from gpuens.kernels.runtime.cuda import launching
from tests.support import strict_cupy
from tests.support.strict_cupy import arrays, functions

COSTS = {
    "launch": 3.0, "allocation": 1.5, "zeros": 4.0, "array function": 9.0, "view": 0.6,
    "upload": 10.0, "copy to the host": 10.0, "attribute": 0.05, "stream or device": 0.3,
}  # fmt: skip
"""Microseconds of the host that CuPy or the driver is taken to need for a call, beside our own
launcher's."""
ATTRIBUTES = {"data", "device", "flags", "shape", "dtype", "ndim", "size", "nbytes", "itemsize",
              "strides", "__len__"}  # fmt: skip
VIEWS = {"view", "reshape", "T", "__getitem__", "broadcast_to", "ravel", "squeeze"}
ALLOCATIONS = {"empty", "empty_like"}
UPLOADS = {"asarray", "array", "set"}
COPIES = {"get", "asnumpy", "item", "tolist", "__bool__", "__float__", "__int__"}


def kind_of(name: str) -> str:
    """Return the entry of ``COSTS`` of a call by its name."""
    for kind, names in (
        ("attribute", ATTRIBUTES), ("view", VIEWS), ("allocation", ALLOCATIONS),
        ("zeros", {"zeros"}), ("upload", UPLOADS), ("copy to the host", COPIES),
    ):  # fmt: skip
        if name in names:
            return kind
    return "array function"


class Clock:
    """The processor's time inside the stand-in, and its calls by their kinds."""

    def __init__(self) -> None:
        self.seconds, self.calls, self.names = 0.0, Counter(), Counter()  # type: ignore[var-annotated]
        self._is_inside = False
        self.lost = self._lost_a_call()

    def timed(self, kind: str, function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
        """Return a function whose outermost calls are timed and counted."""

        @functools.wraps(function)
        def call(*args: Any, **settings: Any) -> Any:
            if self._is_inside:
                return function(*args, **settings)
            self._is_inside = True
            begin = time.thread_time()
            try:
                return function(*args, **settings)
            finally:
                self.seconds += time.thread_time() - begin
                self._is_inside = False
                self.calls[kind] += 1
                self.names[name] += 1

        return call

    def _lost_a_call(self) -> float:
        """Return the seconds that timing a call takes outside of what it times."""
        nothing, n = self.timed("nothing", lambda: None), 20_000
        begin = time.thread_time()
        for _ in range(n):
            nothing()
        lost = (time.thread_time() - begin - self.seconds) / n
        self.seconds = 0.0
        self.calls.clear()
        self.names.clear()
        return lost


def fill(function: Any, args: tuple[Any, ...]) -> None:
    """Leave what the host reads of a kernel's results."""
    name = function.py_func.__name__
    if name == "gradients_of_chunks":
        args[-1].memory[:] = 1.0
    elif name.startswith("sum_in_shared"):
        args[-2].memory[:] = 1 << 20
    elif name == "sum_lines":
        args[-1].memory[:] = 1.0
    elif name == "number_leaves":
        fill_trees(args)


def fill_trees(tables: tuple[Any, ...]) -> None:
    """Leave grown trees, as balanced as their limits of leaves allow."""
    trees, params = (own._memory.memory.view(own.dtype) for own in (tables[1], tables[12]))
    nodes, counts = tables[0]._memory.memory.view(tables[0].dtype), tables[22].memory
    n_splits = np.minimum(params["max_leaves"], 2 ** np.minimum(params["max_depth"], 5)) - 1
    counts[IS_DONE] = 1
    n_trees, most = len(trees), int(n_splits.max())
    nodes[:] = np.zeros(1, nodes.dtype)
    nodes["child"], nodes["parent"], nodes["feature"], nodes["gain"] = -1, -1, -1, -np.inf
    nodes["tree"][:n_trees], nodes["begin"][:n_trees] = np.arange(n_trees), trees["begin"]
    nodes["end"][:n_trees] = trees["end"]
    level, first, n_done = np.arange(n_trees), n_trees, 0
    own = {int(t): [int(t)] for t in level}
    for split in range(most):
        for t in range(n_trees):
            if split >= n_splits[t]:
                continue
            x = own[t][split]
            middle = (nodes["begin"][x] + nodes["end"][x]) // 2
            nodes["child"][x], nodes["gain"][x], nodes["feature"][x] = first, 1.0 / (split + 1), 1
            for side, (begin, end) in enumerate(
                ((nodes["begin"][x], middle), (middle, nodes["end"][x]))
            ):
                y = first + side
                nodes["tree"][y], nodes["parent"][y] = t, x
                nodes["begin"][y], nodes["end"][y] = begin, end
                nodes["depth"][y] = nodes["depth"][x] + 1
                own[t].append(y)
            first += 2
            n_done += 1
    tables[11].memory[N_NODES] = first


_grown: dict[tuple[Any, ...], tuple[np.ndarray, int]] = {}


@contextlib.contextmanager
def timed_stand_in() -> Iterator[Clock]:
    """Install the stand-in, whose calls are timed, and a driver that starts nothing."""
    from .host_time import stub_driver

    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        _time_arrays(patch, clock)
        for name, function in list(functions.NAMESPACE.items()):
            if callable(function) and not isinstance(function, type):
                timed = clock.timed(kind_of(name), function, name)
                patch.setitem(functions.NAMESPACE, name, timed)
        cupy = strict_cupy.install_arrays(patch, 1)
        for name in ("asarray", "array", "asnumpy"):
            patch.setattr(cupy, name, clock.timed(kind_of(name), getattr(cupy, name), name))
        for owner, names in (
            (cupy.cuda, ("get_current_stream", "Device")),
            (cupy.cuda.runtime, ("getDevice",)),
        ):
            for name in names:
                timed = clock.timed("stream or device", getattr(owner, name), name)
                patch.setattr(owner, name, timed)
        strict_cupy.state.properties[0] |= {
            "multiProcessorCount": 132, "sharedMemPerMultiprocessor": 228 * 1024
        }  # fmt: skip
        import cupyx

        patch.setattr(
            cupyx, "empty_pinned", clock.timed("allocation", cupyx.empty_pinned, "pinned")
        )
        stub_driver(patch)
        patch.setattr(launching, "allow", lambda parameters, shared: None)
        patch.setattr(launching, "start", _filling(clock, launching.start))
        yield clock


def _time_arrays(patch: pytest.MonkeyPatch, clock: Clock) -> None:
    for name, function in list(vars(arrays.ndarray).items()):
        if isinstance(function, property):
            made = clock.timed(kind_of(name), function.fget, name)  # type: ignore[arg-type]
            patch.setattr(arrays.ndarray, name, property(made))
        elif callable(function) and name not in ("__init__", "__array__", "__class__"):
            patch.setattr(arrays.ndarray, name, clock.timed(kind_of(name), function, name))


def _filling(clock: Clock, start: Callable[..., None]) -> Callable[..., None]:
    filled = clock.timed("launch", lambda function, args: _fill_once(function, args), "launch")

    def started(function: Any, *how: Any) -> None:
        start(function, *how)
        filled(function, how[4])

    return started


def _fill_once(function: Any, args: tuple[Any, ...]) -> None:
    """Trees of a shape are made once."""
    if function.py_func.__name__ != "number_leaves":
        fill(function, args)
        return
    trees, params = (own._memory.memory.view(own.dtype) for own in (args[1], args[12]))
    nodes = args[0]._memory.memory.view(args[0].dtype)
    key = trees.size, nodes.size, params.tobytes()
    if key not in _grown:
        fill_trees(args)
        n = int(args[11].memory[N_NODES])
        _grown[key] = nodes[:n].copy(), n
    found, n = _grown[key]
    nodes[:n] = found
    args[11].memory[N_NODES], args[22].memory[IS_DONE] = n, 1


def fits_of(n_models: int, n_rounds: int, rows: int, **further: Any) -> list[Callable[[], Any]]:
    """Return fits of models that meet, each with settings of its own."""
    X, _ = make_higgs_like(rows, 20)
    y = X[:, 0] + np.sin(3 * X[:, 2])
    models = [
        GradientBoostingRegressor(
            n_estimators=n_rounds, max_leaf_nodes=31, random_state=k, device="cuda",
            learning_rate=0.1 + 0.001 * k, l2_regularization=0.1 * k, **further,
        )
        for k in range(n_models)
    ]  # fmt: skip
    return [functools.partial(model.fit, X, y) for model in models]


def time_of(fit: Callable[[int], Any], clock: Clock, n_rounds: tuple[int, int]) -> SimpleNamespace:
    """Return seconds and calls of a round more, from fits of two numbers of rounds."""
    found = []
    for n in n_rounds:
        clock.seconds = 0.0
        clock.calls.clear()
        clock.names.clear()
        begin = time.process_time()
        fit(n)
        whole = time.process_time() - begin
        n_calls = clock.calls.total()
        own = whole - clock.seconds - n_calls * clock.lost
        found.append((own, Counter(clock.calls), Counter(clock.names)))
    n = n_rounds[1] - n_rounds[0]
    calls = {kind: (found[1][1][kind] - found[0][1][kind]) / n for kind in COSTS}
    names = {k: (found[1][2][k] - found[0][2][k]) / n for k in found[1][2]}
    return SimpleNamespace(
        own=(found[1][0] - found[0][0]) / n, calls=calls, begin=found[0][0], names=names
    )


def modelled(found: SimpleNamespace) -> float:
    """Return the seconds of the host for a round on a card."""
    return found.own + sum(COSTS[kind] * n for kind, n in found.calls.items()) / 1e6
