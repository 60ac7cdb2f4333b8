"""The host's time for a round of boosting on a GPU, that of our own Python apart from CuPy's.

``strict_cupy`` is in CuPy's place, and kernels only leave numbers that look like the results which
the host reads, growth whole trees. What the stand-in does is timed and counted call by call, and
taken off; what CuPy and the driver are taken to need for so many calls comes on top.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.boosting.steps.many_models import run_together
from gpuens.datasets import make_higgs_like
from gpuens.kernels.growth.cuda.tables import IS_DONE, Tables
from gpuens.kernels.growth.frontier import N_NODES, NO_GAIN
from gpuens.kernels.runtime.cuda import launching
from tests.support import strict_cupy
from tests.support.strict_cupy import arrays, functions

LAUNCH, ARRAY_FUNCTION, PLACE = "launch", "array function", "stream or device"
COSTS = {
    LAUNCH: 3.0, "allocation": 1.5, "zeros": 4.0, ARRAY_FUNCTION: 9.0, "view": 0.6,
    "upload": 10.0, "copy to the host": 10.0, "attribute": 0.05, PLACE: 0.3,
}  # fmt: skip
"""Microseconds of the host that CuPy or the driver is taken to need for a call, beside our own
launcher. Assumed: ``gpu_unknowns`` measures some of them on a card."""
NAMES = {
    "attribute": "data device flags shape dtype ndim size nbytes itemsize strides __len__",
    "view": "view reshape T __getitem__ broadcast_to ravel squeeze",
    "allocation": "empty empty_like empty_pinned", "zeros": "zeros",
    "upload": "asarray array set",
    "copy to the host": "get asnumpy item tolist __bool__ __float__ __int__",
}  # fmt: skip
"""The calls of each kind; all others are array functions."""
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names.split()}
OF_CARD = {"multiProcessorCount": 132, "sharedMemPerMultiprocessor": 228 * 1024}
DEEPEST = 5
ROWS, FEATURES = 2000, 20


class Clock:
    """The processor's seconds inside the stand-in, and its calls by their kinds."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, Counter[str]()
        self._is_inside = False
        nothing, n, begin = self.timed("nothing", lambda: None), 10_000, time.thread_time()
        for _ in range(n):
            nothing()
        self.lost = (time.thread_time() - begin - self.seconds) / n
        """Seconds that timing a call takes outside of what it times."""

    def timed(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose outermost calls are timed and counted."""

        @functools.wraps(function)
        def call(*args: Any, **settings: Any) -> Any:
            if self._is_inside:
                return function(*args, **settings)
            self._is_inside, begin = True, time.thread_time()
            try:
                return function(*args, **settings)
            finally:
                self.seconds += time.thread_time() - begin
                self._is_inside = False
                self.calls[kind] += 1

        return call

    def own_time(self, action: Callable[[], Any]) -> tuple[float, Counter[str]]:
        """Return the seconds of an action outside of the stand-in, and its calls."""
        self.seconds, self.calls = 0.0, Counter[str]()
        begin = time.process_time()
        action()
        whole = time.process_time() - begin
        return whole - self.seconds - self.calls.total() * self.lost, self.calls


@contextlib.contextmanager
def timed_stand_in(stub_driver: Callable[[pytest.MonkeyPatch], None]) -> Iterator[Clock]:
    """Install the stand-in, whose calls are timed, and a driver that starts nothing."""
    clock = Clock()

    def time_all(owner: Any, names: Any, kind: str | None = None) -> None:
        for name in names:
            own = kind or KIND_OF.get(name, ARRAY_FUNCTION)
            patch.setattr(owner, name, clock.timed(own, getattr(owner, name)))

    with pytest.MonkeyPatch.context() as patch:
        for name, member in list(vars(arrays.ndarray).items()):
            kind = KIND_OF.get(name, ARRAY_FUNCTION)
            if isinstance(member, property):
                getter = clock.timed(kind, member.fget)  # type: ignore[arg-type]
                patch.setattr(arrays.ndarray, name, property(getter))
            elif callable(member) and name not in ("__init__", "__array__"):
                patch.setattr(arrays.ndarray, name, clock.timed(kind, member))
        for name, function in list(functions.NAMESPACE.items()):
            if callable(function) and not isinstance(function, type):
                timed = clock.timed(KIND_OF.get(name, ARRAY_FUNCTION), function)
                patch.setitem(functions.NAMESPACE, name, timed)
        cupy = strict_cupy.install_arrays(patch, 1)
        import cupyx

        time_all(cupy, ("asarray", "array", "asnumpy"))
        time_all(cupyx, ("empty_pinned",))
        time_all(cupy.cuda, ("get_current_stream", "Device"), PLACE)
        time_all(cupy.cuda.runtime, ("getDevice",), PLACE)
        strict_cupy.state.properties[0] |= OF_CARD
        stub_driver(patch)
        start, filled = launching.start, clock.timed(LAUNCH, fill)

        def started(function: Any, *how: Any) -> None:
            start(function, *how)
            filled(function.py_func.__name__, how[4])

        patch.setattr(launching, "start", started)
        patch.setattr(launching, "allow", lambda parameters, shared: None)
        yield clock


def fill(kernel: str, args: tuple[Any, ...]) -> None:
    """Leave what the host reads of the results of a kernel."""
    if kernel in ("gradients_of_chunks", "sum_lines"):
        args[-1].memory[:] = 1.0
    elif kernel == "sum_in_shared":
        args[-2].memory[:] = 1 << 20
    elif kernel == "number_leaves":
        fill_trees(Tables(*args[: len(Tables._fields)]))


def fill_trees(tables: Tables) -> None:
    """Leave grown trees, as balanced as their limits of leaves allow."""
    nodes, trees, params = (
        table._memory.memory.view(table.dtype)
        for table in (tables.nodes, tables.trees, tables.params)
    )
    first = len(trees)
    n_leaves = np.minimum(params["max_leaves"], 2 ** np.minimum(params["max_depth"], DEEPEST))
    for t, n in enumerate((n_leaves - 1).tolist()):
        place = np.concatenate([[t], first + np.arange(2 * n)])
        own = np.zeros(place.size, nodes.dtype)
        own["tree"], own["begin"], own["end"] = t, trees["begin"][t], trees["end"][t]
        own["parent"] = np.where(place == t, -1, place[(np.arange(place.size) - 1) // 2])
        own["child"], own["feature"], own["gain"] = -1, -1, NO_GAIN
        own["child"][:n], own["feature"][:n] = place[1 : 2 * n : 2], 1
        own["gain"][:n] = 1.0 / np.arange(1, n + 1)
        nodes[place] = own
        first += 2 * n
    tables.state.memory[N_NODES], tables.counts.memory[IS_DONE] = first, 1


def fit(n_models: int, n_rounds: int, **settings: Any) -> None:
    """Fit one model, or several that meet, each with settings of its own."""
    X, _ = make_higgs_like(ROWS, FEATURES)
    y = X[:, 0] + np.sin(3 * X[:, 2])
    models = [
        GradientBoostingRegressor(
            n_estimators=n_rounds, max_leaf_nodes=31, random_state=k, device="cuda",
            learning_rate=0.1 + 0.001 * k, l2_regularization=0.1 * k, **settings,
        )
        for k in range(n_models)
    ]  # fmt: skip
    fits = [functools.partial(model.fit, X, y) for model in models]
    run_together(fits, n_models) if n_models > 1 else fits[0]()


def time_of_a_round(
    clock: Clock, n_models: int, rounds: int, repeats: int, **settings: Any
) -> dict[str, float]:
    """Return milliseconds of our own Python in a round, those of the host in all, and the launches
    of kernels and the calls of array functions."""
    few, many = (functools.partial(fit, n_models, n, **settings) for n in (2, 2 + rounds))
    few()  # compiles and loads
    pairs = [(clock.own_time(few), clock.own_time(many)) for _ in range(repeats)]
    # The least times of each, as other programs only take time.
    own = (min(pair[1][0] for pair in pairs) - min(pair[0][0] for pair in pairs)) / rounds
    (_, first), (_, last) = pairs[0]
    calls = {kind: (last[kind] - first[kind]) / rounds for kind in COSTS}
    theirs = sum(COSTS[kind] * n for kind, n in calls.items()) / 1e6
    return {
        "own": 1e3 * own, "modelled": 1e3 * (own + theirs), "launches": calls[LAUNCH],
        "array functions": calls[ARRAY_FUNCTION],
    }  # fmt: skip
