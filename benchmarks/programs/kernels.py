"""Time of the operations of ``gpuens.kernels`` inside whole fits and predictions.

Each model is trained once before, so that all that it uses is compiled and imported; then every
operation that it calls is timed where ``dispatch`` finds it. What an operation calls counts for
itself too. The rest of the time is Python's. ``gpu`` waits for the GPU after each operation, which
makes whole fits slower than they are otherwise.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from statistics import median
from types import FunctionType
from typing import Any

import gpuens
from gpuens.datasets import make_higgs_like

from ..common.goals import measured
from ..common.markdown import pivot
from ..common.places import Host, place_of
from ..common.program import Content, Options, Program, Results, timing

MODELS: dict[str, Callable[..., Any]] = {
    "boosting": gpuens.GradientBoostingClassifier,
    "boosting, half of the rows": partial(gpuens.GradientBoostingClassifier, subsample=0.5),
    "boosting, absolute error": partial(gpuens.GradientBoostingRegressor, "absolute_error"),
    "forest": gpuens.RandomForestClassifier,
}
WARM_UP_ROWS = 2000
LEAST_SHARE = 0.005
"""Share of the time below which operations are not shown."""


def operations() -> Iterator[tuple[Any, str, str]]:
    """Yield implementations that are imported: the module, the name in it, and that with its room.

    ``room/cpu/stem.py`` implements the functions of ``room/stem.py`` under the same names.
    """
    for name, module in list(sys.modules.items()):
        room, _, stem = name.rpartition(".")
        room, _, folder = room.rpartition(".")
        contract = sys.modules.get(f"{room}.{stem}")
        if folder not in ("cpu", "cuda", "reference") or contract is None:
            continue
        for op, function in vars(contract).items():
            if isinstance(function, FunctionType) and function.__module__ == contract.__name__:
                if hasattr(module, op):
                    yield module, op, f"{room.rpartition('.')[2]}.{op}"


@contextmanager
def timed(place: Host) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Time every operation inside the block; yield seconds and calls by operation."""
    seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    def timing_of(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **more)
            place.wait()
            seconds[label] += time.perf_counter() - start
            calls[label] += 1
            return result

        return call

    before = [(module, op, getattr(module, op), label) for module, op, label in operations()]
    try:
        for module, op, function, label in before:
            setattr(module, op, timing_of(function, label))
        yield seconds, calls
    finally:
        for module, op, function, _ in before:
            setattr(module, op, function)


def measure(device: str, options: Options) -> Results:
    """Measure all models on a device."""
    place = place_of(device)
    X, y = place.table(make_higgs_like, options.rows, options.features)
    found = {}
    for name, make in MODELS.items():
        model = make(n_estimators=options.trees, n_jobs=options.threads, device=place.device)
        few = slice(WARM_UP_ROWS)
        model.fit(X[few], y[few]).predict(X[few])
        runs = [stages(model, X, y, place) for _ in range(options.repeats)]
        found[name] = {part: together([run[part] for run in runs]) for part in runs[0]}
        print(f"  {name}: {found[name]['fit']['all'][0]:.3f} s", flush=True)
    size = f"{options.rows:,} × {options.features}, {options.trees} trees"
    return {"title": size, "models": found}


def stages(model: Any, X: Any, y: Any, place: Host) -> dict[str, dict[str, tuple[float, int]]]:
    """Return seconds and calls of the operations of one fit and one prediction."""
    found = {}
    for name, action in {
        "fit": lambda: model.fit(X, y),
        "predict": lambda: model.predict(X),
    }.items():
        with timed(place) as (seconds, calls):
            start = time.perf_counter()
            action()
            place.wait()
            whole = time.perf_counter() - start
        found[name] = {"all": (whole, 1), **{op: (seconds[op], calls[op]) for op in seconds}}
    return found


def together(runs: list[dict[str, tuple[float, int]]]) -> dict[str, list[float]]:
    """Return the median seconds of each operation, and its calls."""
    return {
        op: [median(run.get(op, (0.0, 0))[0] for run in runs), calls]
        for op, (_, calls) in runs[0].items()
    }


def show(content: Content) -> Iterator[str]:
    """Yield the milliseconds of each operation, by model."""
    for device, part in measured(content["results"]).items():
        for name in ("fit", "predict"):
            rows: dict[str, dict[str, str]] = {}
            for model, parts in part["models"].items():
                whole = parts[name]["all"][0]
                for op, (seconds, calls) in sorted(parts[name].items(), key=lambda row: -row[1][0]):
                    if seconds >= LEAST_SHARE * whole:
                        each = f" ({calls:,} calls)" if calls > 1 else ""
                        rows.setdefault(op, {})[model] = f"{1e3 * seconds:.3g}{each}"
            yield pivot(f"{device.upper()}, {part['title']}: ms of a {name}", rows)


PROGRAM = Program(
    "kernels", __doc__, {"cpu": partial(measure, "cpu"), "gpu": partial(measure, "cuda")},
    {
        **timing(5),
        "rows": (100_000, "rows of the table"),
        "features": (28, "features"),
        "trees": (20, "trees"),
    },
    show,
)  # fmt: skip
main = PROGRAM.main
