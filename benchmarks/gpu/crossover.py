"""The sizes from which a GPU pays: gpuens on both devices, with tables of the host.

For every number of rows the same model is trained on the CPU and on the GPU, the copy of the table
included, and predicts the table on both; so does a forest. The first use of the GPU in the process,
which takes about a second, is not on the clock. Between two sizes the times are taken to be powers
of the rows. The estimates and the sizes that ``device="auto"`` goes by are printed beside, and the
seconds of a tree without rows and of a cell are fitted to the times, for its constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier, RandomForestClassifier
from gpuens.datasets import make_higgs_like
from gpuens.devices import policy

from ..common.goals import Goal, measured
from ..common.markdown import number, pivot, seconds
from ..common.peers import ON_CPU, OURS
from ..common.places import Host, place_of
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import take_turns

N_FEATURES = 28
WARM_UP_ROWS = 2000
Points = list[tuple[int, float]]
"""Rows, and the GPU's time relative to the CPU's."""


def sizes(options: Options) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    return {n: make_higgs_like(n, N_FEATURES) for n in sorted(options.rows)}


def both(
    place: Host, make: Any, work_of: Callable[[tuple[int, int]], policy.Work], options: Options
) -> Results:
    """Return the times of fits and of predictions on both devices, by rows, and the estimates."""
    devices = {OURS: place.device, ON_CPU: "cpu"}
    found: Results = {"fit": {}, "predict": {}, "equal": {}, "n_features": N_FEATURES}
    for n, (X, y) in sizes(options).items():
        for device in devices.values():
            make(device).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS]).predict(X[:WARM_UP_ROWS])

        def train(device: str, X: Any = X, y: Any = y) -> Any:
            return make(device).fit(X, y)

        fits = {name: place.waiting(lambda d=d: train(d)) for name, d in devices.items()}
        found["fit"][str(n)], models = take_turns(fits, options)
        marks = {model.forest_.fingerprint() for model in models.values()}
        found["equal"][f"{n:,} rows"] = len(marks) == 1
        for model in models.values():
            model.predict(X)  # layouts are made at the first call
        calls = {name: place.waiting(lambda m=m, X=X: m.predict(X)) for name, m in models.items()}
        found["predict"][str(n)], _ = take_turns(calls, options)
        size = n, N_FEATURES
        works = {"fit": work_of(size), "predict": policy.prediction_work(size, options.trees)}
        for what, work in works.items():
            estimated = {OURS: work.on_gpu, ON_CPU: work.cpu}
            for name, row in found[what][str(n)].items():
                row["estimated"] = estimated[name]
    for what in ("fit", "predict"):
        found[f"{what} pays from"] = pays_from(points_of(found[what]))
    return found


def boosting(options: Options) -> Results:
    """Gradient boosting with the default number of leaves."""
    place = place_of("cuda")

    def make(device: str) -> Any:
        return GradientBoostingClassifier(
            n_estimators=options.trees, random_state=0, device=device, n_jobs=options.threads
        )

    found = both(place, make, lambda size: policy.boosting_work(size, options.trees), options)
    found["n_trees"] = options.trees
    return found | {"constants": constants(found["fit"], options.trees)}


def forest(options: Options) -> Results:
    """A forest of depth 14."""
    place = place_of("cuda")

    def make(device: str) -> Any:
        return RandomForestClassifier(
            options.trees, max_depth=14, random_state=0, device=device, n_jobs=options.threads
        )

    def work_of(size: tuple[int, int]) -> policy.Work:
        looked_at = max(1, int(math.sqrt(size[1])))
        more = {"looked_at": looked_at, "max_depth": 14}
        return policy.cart_work(size, options.trees, **more)

    return both(place, make, work_of, options) | {"n_trees": options.trees}


def points_of(by_rows: Results) -> Points:
    """Return rows and relative times, ascending."""
    return sorted((int(n), row[ON_CPU]["ratio"]) for n, row in by_rows.items())


def pays_from(points: Points) -> float | None:
    """Return the rows from which on the GPU is faster: between two sizes by the logarithms; the
    smallest if it is faster everywhere, None if it is not at the largest."""
    if not points or points[-1][1] > 1:
        return None
    for (n, r), (more, less) in zip(points[-2::-1], points[:0:-1], strict=True):
        if r > 1:
            share = math.log(r) / (math.log(r) - math.log(less))
            return math.exp(math.log(n) + share * (math.log(more) - math.log(n)))
    return float(points[0][0])


def constants(by_rows: Results, n_trees: int) -> dict[str, dict[str, float]]:
    """Return seconds of a tree without rows, and seconds of a cell, by device: the line through
    the smallest and the largest table."""
    first, last = min(by_rows, key=int), max(by_rows, key=int)
    cells = [int(n) * N_FEATURES for n in (first, last)]
    found = {}
    for name in (OURS, ON_CPU):
        times = [by_rows[n][name]["median"] / n_trees for n in (first, last)]
        slope = (times[1] - times[0]) / max(1, cells[1] - cells[0])
        found[name] = {"seconds of a cell": slope, "seconds of a tree": times[0] - slope * cells[0]}
    return found


def show(content: Content) -> Iterator[str]:
    """Yield times by rows on both devices, and the constants."""
    for name, part in measured(content["results"]).items():
        for what in ("fit", "predict"):
            yield pivot(f"{name}: {what}, {part['n_trees']} trees", {
                f"{int(n):,} × {part['n_features']}": {
                    "GPU": seconds(row[OURS]["median"]), "CPU": seconds(row[ON_CPU]["median"]),
                    "GPU ÷ CPU": number(row[ON_CPU]["ratio"]),
                    "GPU, estimated": seconds(row[OURS]["estimated"]),
                    "CPU, estimated": seconds(row[ON_CPU]["estimated"]),
                }
                for n, row in part[what].items()
            })  # fmt: skip
        yield pivot(f"{name}: fitted to these times", {
            device: {what: f"{value:.3g}" for what, value in row.items()}
            for device, row in part.get("constants", {}).items()
        })  # fmt: skip
    yield pivot('`device="auto"` takes a GPU', {
        task: {"": text} for task, text in policy.thresholds().items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for name, part in measured(content["results"]).items():
        for what in ("fit", "predict"):
            if f"{what} pays from" in part:
                text = f"the number of rows ({name}, {part['n_trees']} trees) from which a GPU pays"
                yield Goal(f"{text} to {what}", None, part[f"{what} pays from"], "rows")


PROGRAM = Program(
    "crossover", __doc__, {"boosting": boosting, "forest": forest},
    {
        **timing(3),
        "rows": ([1000, 10_000, 100_000, 1_000_000], "rows of the tables"),
        "trees": (100, "trees"),
    },
    show, goals, on_gpu=True,
)  # fmt: skip
main = PROGRAM.main
