"""Oblique forests beside plain ones: errors on their known cases and on real tables, and CPU time.

generated
    Sparse parity (20 features, three of them relevant) and Trunk's two normal classes, the cases of
    Tomita et al. 2020. Every forest has the same number of trees, and its library's defaults
    otherwise. Errors are of as many fresh rows as there are to test; the mean over seeds counts.
    The least error that any rule can have is beside them: a ratio cannot fall below it.
tables
    Errors on held-out quarters of real tables, whose features have the units that they were
    measured in.

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
from sklearn.ensemble import RandomForestClassifier as TheirForest
from sklearn.model_selection import train_test_split

from gpuens import ObliqueRandomForestClassifier, RandomForestClassifier
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
LARGEST_RATIO = 0.7


def least_error(name: str) -> float:
    """Return the error of the best rule."""
    make, _, n_features = CASES[name]
    if make is make_sparse_parity:
        return 0.0
    distance = math.sqrt(sum(1.0 / j for j in range(1, n_features + 1)))
    return 0.5 * math.erfc(distance / math.sqrt(2.0))


def forests(options: Options, seed: int) -> dict[str, Any]:
    """Return the forests that are compared."""
    settings: dict[str, Any] = {
        "n_estimators": options.trees, "random_state": seed, "n_jobs": options.threads,
    }  # fmt: skip
    return {
        OURS: ObliqueRandomForestClassifier(**settings, device="cpu"),
        PLAIN: RandomForestClassifier(**settings, device="cpu"),
        THEIRS: TheirForest(**settings),
    }


def compared(options: Options, split: Callable[[int], list[np.ndarray]]) -> dict[str, Any]:
    """Return errors and times of each forest, of ``split(seed)`` for every seed."""
    found: dict[str, Any] = {}
    for seed in range(options.seeds):
        X, X_test, y, y_test = split(seed)
        for library, forest in forests(options, seed).items():
            own = found.setdefault(library, {"errors": [], "seconds": []})
            own["seconds"].append(cpu_seconds(partial(forest.fit, X, y)))
            own["errors"].append(float(np.mean(forest.predict(X_test) != y_test)))
            if library == OURS:
                own.setdefault("combinations", []).append(forest.feature_combinations_)
    return found


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

    warm = make_sparse_parity(200, 5)
    for forest in forests(options, 0).values():
        forest.fit(*warm).predict(warm[0])
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

    return measure_each(TABLES, of_table)


def show(content: Content) -> Iterator[str]:
    """Yield errors, and how long the fits took."""
    results = measured(content["results"])
    for section, what in (("generated", "errors of forests"), ("tables", "errors on real tables")):
        yield pivot(what, {
            name: {k: f"{fmean(own['errors']):.4f}" for k, own in found["forests"].items()}
            | ({"the best rule": f"{found['least']:.4f}"} if "least" in found else {})
            | {f"CPU seconds, {k}": f"{median(own['seconds']):.2f}"
               for k, own in found["forests"].items()}
            | {"features a sum": _words(found["forests"][OURS]["combinations"])}
            for name, found in measured(results.get(section, {})).items()
        })  # fmt: skip


def _words(numbers: list[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def goals(content: Content) -> Iterator[Goal]:
    for name, found in measured(measured(content["results"]).get("generated", {})).items():
        ours, theirs = (fmean(found["forests"][k]["errors"]) for k in (OURS, THEIRS))
        if theirs:
            what = f"the error of an oblique forest on {name}, relative to scikit-learn's forest"
            yield Goal(what, LARGEST_RATIO, ours / theirs)


PROGRAM = Program(
    "oblique", __doc__,
    {"generated": generated, "tables": tables},
    {
        "data": (DATA, "folder of the real tables"),
        "trees": (100, "trees of each forest"),
        "seeds": (3, "tables, or splits, of each case"),
        "test": (5000, "rows to count errors on"),
        "share": (1.0, "of the rows to train on"),
        "threads": (1, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
