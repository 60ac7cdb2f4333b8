"""Time to grow forests to purity on five kinds of tables, with and without out-of-bag scores.

Every setting has its default here and in scikit-learn; the libraries take turns in one process.
Wall time and the time of the processor, which other programs on the machine disturb less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.peers import BOTH, OURS, THEIRS, build
from ..common.program import Content, Options, Program, Results

Table = tuple[np.ndarray, np.ndarray]
CLASSIFIER, REGRESSOR = "RandomForestClassifier", "RandomForestRegressor"


def smooth(n_rows: int, n_features: int) -> Table:
    """Return a target that depends on a few features, with an interaction and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    noise = rng.normal(size=n_rows)
    return X, 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + noise


def linear(n_rows: int, n_features: int, noise: float) -> Table:
    """Return a sum of a tenth of the features, or of twenty of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    return X, X[:, : min(20, n_features // 10)].sum(axis=1) + noise * rng.normal(size=n_rows)


def two_classes(n_rows: int, n_features: int) -> Table:
    X, y = linear(n_rows, n_features, 3.0)
    return X, (y > 0).astype(np.int64)


TABLES: dict[str, tuple[str, Callable[[], Table]]] = {
    "8k × 10": (REGRESSOR, lambda: smooth(8000, 10)),
    "3k × 100": (REGRESSOR, lambda: linear(3000, 100, 1.0)),
    "20k × 28, 2 classes": (CLASSIFIER, lambda: make_higgs_like(20_000, random_state=0)),
    "20k × 54, 7 classes": (CLASSIFIER, lambda: make_covtype_like(20_000, 0)),
    "2k × 500, 2 classes": (CLASSIFIER, lambda: two_classes(2000, 500)),
}
AT_MOST = {"grown": 0.20, "grown with out-of-bag scores": 0.22}
SCORED = {"grown": False, "grown with out-of-bag scores": True}


def measure_table(
    name: str, X: np.ndarray, y: np.ndarray, scored: bool, options: Options
) -> Results:
    """Return the seconds of both libraries, and the ratios of their medians."""
    wall: dict[str, list[float]] = {library: [] for library in BOTH}
    busy: dict[str, list[float]] = {library: [] for library in BOTH}
    for seed in range(options.repeats + 1):  # the first round warms up
        for library in BOTH:
            settings = {"n_estimators": options.trees, "random_state": seed, "oob_score": scored}
            model = build(library, name, options.threads, **settings)
            start, start_busy = time.perf_counter(), time.process_time()
            model.fit(X, y)
            if seed > 0:
                wall[library].append(time.perf_counter() - start)
                busy[library].append(time.process_time() - start_busy)
    return {
        "seconds": wall,
        "busy_seconds": busy,
        "ratio": median(wall[OURS]) / median(wall[THEIRS]),
        "ratio of CPU time": median(busy[OURS]) / median(busy[THEIRS]),
    }


def measure(options: Options) -> Results:
    results: Results = {part: {} for part in SCORED}
    for title, (name, make) in TABLES.items():
        X, y = make()
        for part, scored in SCORED.items():
            results[part][title] = measure_table(name, X, y, scored, options)
        print(f"  {title} done", flush=True)
    return results


def show(content: Content) -> Iterator[str]:
    """Yield the ratios by table."""
    for part in SCORED:
        yield pivot(f"forests {part}: time relative to scikit-learn", {
            title: {key: f"{found[key]:.3f}" for key in ("ratio", "ratio of CPU time")}
            for title, found in content["results"][part].items()
        })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for part, limit in AT_MOST.items():
        ratio = median(found["ratio"] for found in content["results"][part].values())
        what = f"the median over five tables of the time of forests {part}, relative to"
        yield Goal(f"{what} scikit-learn", limit, ratio)


PROGRAM = Program(
    "purity", __doc__, measure,
    {
        "repeats": (3, "runs of each library"),
        "threads": (2, "threads of each library"),
        "trees": (50, "trees"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
