"""Time of partial dependence and of measures of diversity.

Partial dependence of one feature and of two by one weighted pass down a forest's trees, beside
scikit-learn's brute force and its own recursion on a forest trained alike; the forests are trained
outside of the clock. Diversity: all pairwise measures of many models from one matrix product. The
results hold what was asked for beside what was measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor as SklearnForest
from sklearn.inspection import partial_dependence as sklearn_partial_dependence

from gpuens import RandomForestRegressor, diversity
from gpuens.datasets import make_higgs_like
from gpuens.inspection import partial_dependence

from ..common.counterparts import OURS
from ..common.records import Record, add_timing_options, options_of, positive
from ..common.timing import compare, interleaved

BRUTE, RECURSION = "scikit-learn, brute force", "scikit-learn, recursion"
MOST = {"partial_dependence": 0.05, "diversity": 2.0}
"""Asked for: at most this share of brute force's time, and at most so many seconds."""

Part = dict[str, Any]


def dependence(options: argparse.Namespace) -> Part:
    """Partial dependence of a forest, one feature and two."""
    X, y = make_higgs_like(options.rows, random_state=0)
    target = y + X[:, 0] * X[:, 1]
    settings = {"n_estimators": options.trees, "max_depth": options.depth, "max_features": 1 / 3,
                "n_jobs": options.threads, "random_state": 0}  # fmt: skip
    ours = RandomForestRegressor(**settings, device="cpu").fit(X, target)
    theirs = SklearnForest(**settings).fit(X, target)
    results: Part = {}
    for name, features, points in (
        ("one feature", [0], options.points), ("two features", [0, 1], options.points_of_two),
    ):  # fmt: skip
        grid = {"grid_resolution": points, "kind": "average"}
        ask_theirs = partial(sklearn_partial_dependence, theirs, X, features, **grid)
        actions: dict[str, Callable[[], Any]] = {
            OURS: partial(partial_dependence, ours, X, features, method="recursion", **grid),
            BRUTE: partial(ask_theirs, method="brute"),
            RECURSION: partial(ask_theirs, method="recursion"),
        }
        actions[OURS]()
        seconds, _ = interleaved(actions, options.repeats, options.threads, options.budget)
        libraries = compare(seconds, OURS)
        results[name] = {"points": points ** len(features), "libraries": libraries}
        reached = libraries[BRUTE]["ratio"] <= MOST["partial_dependence"]
        results[name] |= {"at_most": MOST["partial_dependence"], "reached": reached}
    return {"n_rows": len(X), "n_trees": options.trees, "n_nodes": int(ours.forest_.feature.size),
            **results}  # fmt: skip


def pairwise(options: argparse.Namespace) -> Part:
    """All pairwise measures of diversity between many models."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, options.rows)
    wrong = rng.random((options.rows, options.models)) < 0.3
    predictions = np.where(wrong, rng.integers(0, 10, wrong.shape), y[:, None])
    diversity.pairwise(predictions[:1000], y[:1000])
    actions = {OURS: partial(diversity.pairwise, predictions, y)}
    seconds, _ = interleaved(actions, options.repeats, options.threads, options.budget)
    taken = median(seconds[OURS])
    return {"n_rows": options.rows, "n_models": options.models, "seconds": seconds[OURS],
            "median": taken, "at_most": MOST["diversity"],
            "reached": taken <= MOST["diversity"]}  # fmt: skip


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "partial_dependence": dependence,
    "diversity": pairwise,
}


def show(part: Part) -> None:
    """Times, and whether they are what was asked for."""
    for name, result in part.items():
        for library, row in result["libraries"].items() if isinstance(result, dict) else ():
            ratio = f"gpuens ÷ it {row['ratio']:.4f}" if "ratio" in row else ""
            print(f"  {name:<14}{library:<28}{row['median']:>10.3f} s  {ratio}")
    if "median" in part:
        print(f"  {part['n_models']} models, {part['n_rows']:,} rows: {part['median']:.3f} s")


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("inspection", __doc__)
    add_timing_options(parser, repeats=3)
    parser.add_argument("--rows", type=positive, default=100_000, help="rows of the tables")
    parser.add_argument("--trees", type=positive, default=40, help="trees of the forests")
    parser.add_argument("--depth", type=positive, default=14, help="of the trees, at most")
    parser.add_argument("--points", type=positive, default=100, help="of the grid of one feature")
    parser.add_argument("--points-of-two", type=positive, default=10, help="of each of two")
    parser.add_argument("--models", type=positive, default=200, help="models to compare")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts")
    options = parser.parse_args(argv)
    record = Record("inspection", options)
    results: dict[str, Part] = {}
    for name in options.only:
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        results[name] = PARTS[name](options)
        show(results[name])
    record.write(results)
    return 0
