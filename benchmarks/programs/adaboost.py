"""AdaBoost beside scikit-learn's: time to train, test errors, and the same model on any number of
threads.

stumps
    Time to train; scikit-learn trains fewer stumps, whose time is scaled up: one takes as long as
    another. They take turns in one process, and both have trained before.
spambase
    Test error on the official split, in percent.
chi_squared
    Test error in percent on ten normal variables whose class says whether the sum of their
    squares is above its median, 2000 and 10000 rows (Hastie, Tibshirani and Friedman 2009, 10.1),
    the mean over several draws.
identity
    Fingerprints of models trained with several numbers of threads.

A table that is missing is named and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier as SklearnAdaBoost
from sklearn.tree import DecisionTreeClassifier as SklearnTree

from gpuens import AdaBoostClassifier, AdaBoostRegressor, DecisionTreeClassifier
from gpuens.datasets import make_higgs_like

from ..common.goals import Goal, measured
from ..common.identical import by_threads, identical, same_by_threads, table_with_missing
from ..common.markdown import medians, pivot
from ..common.peers import OURS, THEIRS, percent_wrong
from ..common.program import Content, Options, Program, Results, timing
from ..common.tables import DATA, by_split, load, official_split, title
from ..common.timing import compare, interleaved

EXACT = "gpuens, exact thresholds"
MEDIAN = 9.34
"""The median of the chi-squared distribution with ten degrees of freedom."""
LEAVES = 16
ERRORS = {"stumps": 6.5, f"trees of {LEAVES} leaves": 5.3}
"""Goals for the test error on spambase, in percent."""


def ours(threads: int, estimator: Any = None, **parameters: Any) -> Any:
    return AdaBoostClassifier(estimator, n_jobs=threads, device="cpu", **parameters)


def stumps(options: Options) -> Results:
    """Train stumps on a large table."""
    X, y = make_higgs_like(options.rows, random_state=0)
    few = max(1, options.rounds // options.scale)
    for model in (ours(options.threads, n_estimators=2), SklearnAdaBoost(n_estimators=2)):
        model.fit(X[:300], y[:300])
    calls = {
        OURS: lambda: ours(options.threads, n_estimators=options.rounds).fit(X, y),
        THEIRS: lambda: SklearnAdaBoost(n_estimators=few).fit(X, y),
    }
    seconds, models = interleaved(calls, options.repeats, options.threads, options.budget)
    seconds[THEIRS] = [taken * options.rounds / few for taken in seconds[THEIRS]]
    return {
        "title": title(y, X.shape[1]),
        "n_rows": len(y),
        "n_rounds": options.rounds,
        "n_rounds_of_scikit_learn": few,
        "rounds_done": {name: len(model.estimator_weights_) for name, model in models.items()},
        "libraries": compare(seconds, OURS),
    }


def spambase(options: Options) -> Results:
    """Measure test errors on the official split."""
    X, X_test, y, y_test = official_split(load(options.data, "spambase"))
    threads, n = options.threads, {"n_estimators": options.rounds}
    half = {"n_estimators": max(1, options.rounds // 2)}
    tree = {"max_leaf_nodes": LEAVES}
    models = {
        "stumps": {
            OURS: ours(threads, **n),
            EXACT: ours(threads, max_bins=None, **n),
            THEIRS: SklearnAdaBoost(**n),
        },
        f"trees of {LEAVES} leaves": {
            OURS: ours(threads, DecisionTreeClassifier(max_bins=255, **tree), **half),
            EXACT: ours(threads, DecisionTreeClassifier(**tree), **half),
            THEIRS: SklearnAdaBoost(SklearnTree(random_state=0, **tree), random_state=0, **half),
        },
    }
    errors = {
        kind: {
            library: percent_wrong(model.fit(X, y), X_test, y_test)
            for library, model in by_library.items()
        }
        for kind, by_library in models.items()
    }
    return {"errors": errors}


def chi_squared(options: Options) -> Results:
    """Measure test errors on the ten-dimensional example."""
    models = {
        OURS: ours(options.threads, n_estimators=options.rounds),
        EXACT: ours(options.threads, n_estimators=options.rounds, max_bins=None),
        THEIRS: SklearnAdaBoost(n_estimators=options.rounds),
    }

    def errors_of(draw: int) -> dict[str, float]:
        X, y = chi_squared_table(2000, 2 * draw)
        test = chi_squared_table(10_000, 2 * draw + 1)
        return {name: percent_wrong(model.fit(X, y), *test) for name, model in models.items()}

    errors = by_split(options.draws, errors_of)
    return {"errors": errors, "means": {name: fmean(found) for name, found in errors.items()}}


def chi_squared_table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the example, half of them of class 1."""
    X = np.random.default_rng(seed).normal(size=(n, 10))
    return X, ((X**2).sum(axis=1) > MEDIAN).astype(np.int64)


def identity(options: Options) -> Results:
    """Compare fingerprints of models trained with several numbers of threads."""
    X, y = table_with_missing(options.rows)
    numbers = y + 3.0 * np.nan_to_num(X[:, 0])
    three = np.digitize(numbers, np.quantile(numbers, [1 / 3, 2 / 3]))
    tree = DecisionTreeClassifier(max_depth=4)
    cases = {
        "stumps": (AdaBoostClassifier(n_estimators=30), y),
        "trees, three classes": (AdaBoostClassifier(tree, n_estimators=10), three),
        "numbers": (AdaBoostRegressor(n_estimators=10, loss="exponential"), numbers),
    }

    def fingerprint(case: str, threads: int) -> str:
        model, target = cases[case]
        return model.set_params(n_jobs=threads).fit(X, target).forest_.fingerprint()

    return identical({name: by_threads(partial(fingerprint, name)) for name in cases})


def show(content: Content) -> Iterator[str]:
    """Yield times, and test errors in percent."""
    results = measured(content["results"])
    if "stumps" in results:
        part = results["stumps"]
        corner = f"median time to train {part['n_rounds']} stumps"
        yield medians(corner, {part["title"]: part["libraries"]})
    errors = {
        f"spambase, {kind}": found
        for kind, found in results.get("spambase", {}).get("errors", {}).items()
    }
    if "chi_squared" in results:
        errors["ten-dimensional χ², stumps"] = results["chi_squared"]["means"]
    yield pivot("AdaBoost: error in %", {
        name: {library: f"{value:.2f}" for library, value in found.items()}
        for name, found in errors.items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    if "stumps" in results:
        part = results["stumps"]
        of = f"{part['n_rounds']} stumps of AdaBoost, {part['title']}"
        what = f"the time to train {of}, relative to scikit-learn"
        yield Goal(what, 0.05, part["libraries"][THEIRS]["ratio"])
    for kind, errors in results.get("spambase", {}).get("errors", {}).items():
        what = f"the test error of AdaBoost with {kind} on spambase"
        yield Goal(what, ERRORS.get(kind), errors[OURS], "%")
    if "chi_squared" in results:
        means = results["chi_squared"]["means"]
        what = "the difference of AdaBoost's and scikit-learn's error, ten-dimensional χ²"
        yield Goal(what, 0.5, abs(means[OURS] - means[THEIRS]), "points")
    yield from same_by_threads("AdaBoost", results)


PROGRAM = Program(
    "adaboost", __doc__,
    {"stumps": stumps, "spambase": spambase, "chi_squared": chi_squared, "identity": identity},
    {
        **timing(3),
        "data": (DATA, "folder of the real tables"),
        "rows": (100_000, "rows to train on"),
        "rounds": (400, "stumps; half as many trees"),
        "scale": (20, "scikit-learn trains this many times fewer stumps"),
        "draws": (10, "tables of chi_squared"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
