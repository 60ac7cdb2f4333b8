"""Oblique forests beside plain ones: errors on their known cases and on real tables, and CPU time.

generated
    Sparse parity (20 features, three of them relevant) and Trunk's two normal classes, the cases of
    Tomita et al. 2020. Every forest has the same number of trees, and its library's defaults
    otherwise. Errors are of as many fresh rows as there are to test; the mean over seeds counts.
    The least error that any rule can have is beside them: a ratio cannot fall below it.
tables
    Errors on held-out quarters of real tables, whose features have the units that they were
    measured in.
numbers
    Root mean squared errors on held-out quarters of real tables with numbers as targets, codes of
    categories read as numbers by all. No goal: real tables gain what they gain.

The CPU seconds of the fits, with one thread and the libraries in turns, include the trials of the
oblique forest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean, median
from typing import Any

import numpy as np
import sklearn.ensemble as theirs
from sklearn.model_selection import train_test_split

import gpuens
from gpuens.datasets import make_sparse_parity, make_trunk

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, measure_each
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load
from ..programs.ranking import cpu_seconds

PLAIN, THEIRS = "gpuens, plain", "scikit-learn"
CASES: dict[str, tuple[Callable[..., Any], int, int]] = {
    "parity, 1,000 rows": (make_sparse_parity, 1000, 20),
    "parity, 5,000 rows": (make_sparse_parity, 5000, 20),
    "parity, 10,000 rows": (make_sparse_parity, 10_000, 20),
    "trunk, 100 x 10": (make_trunk, 100, 10),
    "trunk, 1,000 x 10": (make_trunk, 1000, 10),
    "trunk, 100 x 100": (make_trunk, 100, 100),
    "trunk, 1,000 x 100": (make_trunk, 1000, 100),
}
"""Name, and how a table is made: with which function, of how many rows and features."""
TABLES = ("sonar", "ionosphere", "vehicle", "pima_diabetes")
NUMBERS = ("california_housing", "bike", "ames")
LARGEST_RATIO = 0.7


def least_error(name: str) -> float:
    """Return the error of the best rule."""
    make, _, n_features = CASES[name]
    if make is make_sparse_parity:
        return 0.0
    distance = math.sqrt(sum(1.0 / j for j in range(1, n_features + 1)))
    return 0.5 * math.erfc(distance / math.sqrt(2.0))


def forests(options: Options, seed: int, kind: str) -> dict[str, Any]:
    """Return the forests that are compared; ``kind`` is "Classifier" or "Regressor"."""
    settings: dict[str, Any] = {
        "n_estimators": options.trees, "random_state": seed, "n_jobs": options.threads,
    }  # fmt: skip
    return {
        OURS: getattr(gpuens, f"ObliqueRandomForest{kind}")(**settings, device="cpu"),
        PLAIN: getattr(gpuens, f"RandomForest{kind}")(**settings, device="cpu"),
        THEIRS: getattr(theirs, f"RandomForest{kind}")(**settings),
    }


def error_of(forest: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of wrong classes, or the root mean squared error."""
    predicted = forest.predict(X)
    if hasattr(forest, "classes_"):
        return float(np.mean(predicted != y))
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def compared(
    options: Options, split: Callable[[int], list[np.ndarray]], kind: str = "Classifier"
) -> dict[str, Any]:
    """Return errors and times of each forest, of ``split(seed)`` for every seed."""
    found: dict[str, Any] = {}
    for seed in range(options.seeds):
        X, X_test, y, y_test = split(seed)
        for library, forest in forests(options, seed, kind).items():
            own = found.setdefault(library, {"errors": [], "seconds": []})
            own["seconds"].append(cpu_seconds(partial(forest.fit, X, y)))
            own["errors"].append(error_of(forest, X_test, y_test))
            if library == OURS:
                own.setdefault("combinations", []).append(forest.feature_combinations_)
                own.setdefault("looked_at", []).append(forest.max_features_)
    return found


def warm_up(options: Options, kind: str) -> None:
    """Use every forest once, before anything is measured."""
    X, y = make_sparse_parity(200, 5)
    for forest in forests(options, 0, kind).values():
        forest.fit(X, y).predict(X)


def generated(options: Options) -> Results:
    """Measure errors on fresh rows of generated tables."""

    def of_case(name: str) -> dict[str, Any]:
        make, n_rows, n_features = CASES[name]
        n_rows = max(20, int(n_rows * options.share))

        def split(seed: int) -> list[np.ndarray]:
            X, y = make(n_rows + options.test, n_features, random_state=seed)
            return [X[:n_rows], X[n_rows:], y[:n_rows], y[n_rows:]]

        found = compared(options, split)
        print(f"  {name}:", {k: fmean(v["errors"]) for k, v in found.items()}, flush=True)
        return {"least": least_error(name), "forests": found}

    warm_up(options, "Classifier")
    return measure_each(CASES, of_case)


def tables(options: Options) -> Results:
    """Measure errors on held-out quarters of real tables."""

    def of_table(name: str) -> dict[str, Any]:
        arrays = load(options.data, name)
        X, y = np.nan_to_num(arrays["X"], nan=-1.0), arrays["y"].astype(int)

        def split(seed: int) -> list[np.ndarray]:
            parts: list[np.ndarray] = train_test_split(
                X, y, test_size=0.25, random_state=seed, stratify=y
            )
            return parts

        found = compared(options, split)
        print(f"  {name}:", {k: fmean(v["errors"]) for k, v in found.items()}, flush=True)
        return {"forests": found}

    warm_up(options, "Classifier")
    return measure_each(TABLES, of_table)


def numbers(options: Options) -> Results:
    """Measure root mean squared errors on held-out quarters of real tables."""

    def of_table(name: str) -> dict[str, Any]:
        arrays = load(options.data, name, options.rows)
        X, y = np.nan_to_num(arrays["X"], nan=-1.0), arrays["y"]

        def split(seed: int) -> list[np.ndarray]:
            parts: list[np.ndarray] = train_test_split(X, y, test_size=0.25, random_state=seed)
            return parts

        found = compared(options, split, "Regressor")
        print(f"  {name}:", {k: fmean(v["errors"]) for k, v in found.items()}, flush=True)
        return {"forests": found}

    warm_up(options, "Regressor")
    return measure_each(NUMBERS, of_table)


SHOWN = {
    "generated": "errors of forests",
    "tables": "errors on real tables",
    "numbers": "root mean squared errors on real tables",
}
"""The titles of the report's tables, by section."""


def show(content: Content) -> Iterator[str]:
    """Yield errors, and how long the fits took."""
    results = measured(content["results"])
    for section, what in SHOWN.items():
        yield pivot(what, {
            name: {k: f"{fmean(own['errors']):.4g}" for k, own in found["forests"].items()}
            | ({"the best rule": f"{found['least']:.4f}"} if "least" in found else {})
            | {f"CPU seconds, {k}": f"{median(own['seconds']):.2f}"
               for k, own in found["forests"].items()}
            | {"features a sum": _words(found["forests"][OURS]["combinations"])}
            | {"sums a node": _words(found["forests"][OURS].get("looked_at", []))}
            for name, found in measured(results.get(section, {})).items()
        })  # fmt: skip


def _words(numbers: list[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def goals(content: Content) -> Iterator[Goal]:
    for name, found in measured(measured(content["results"]).get("generated", {})).items():
        ours, theirs = (fmean(found["forests"][k]["errors"]) for k in (OURS, THEIRS))
        if theirs:
            what = f"the error of an oblique forest on {name}, relative to scikit-learn's forest"
            if found["least"]:
                what += f" (that of the best rule: {found['least'] / theirs:.2f})"
            yield Goal(what, LARGEST_RATIO, ours / theirs)


PROGRAM = Program(
    "oblique", __doc__,
    {"generated": generated, "tables": tables, "numbers": numbers},
    {
        "data": (DATA, "folder of the real tables"),
        "trees": (100, "trees of each forest"),
        "seeds": (3, "tables, or splits, of each case"),
        "test": (5000, "rows to count errors on"),
        "rows": (8000, "rows at most of a table with numbers as targets"),
        "share": (1.0, "of the rows to train on"),
        "threads": (1, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
