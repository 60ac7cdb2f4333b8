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

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier as SklearnAdaBoost
from sklearn.tree import DecisionTreeClassifier as SklearnTree

from gpuens import AdaBoostClassifier, AdaBoostRegressor, DecisionTreeClassifier
from gpuens.datasets import make_higgs_like

from ..common import counterparts
from ..common.counterparts import DATA, OURS, THEIRS, GapError, say_skipped
from ..common.records import Record, add_timing_options, options_of, positive
from ..common.timing import compare, interleaved
from .fit import title
from .published import percent_wrong

EXACT = "gpuens, exact thresholds"
MEDIAN = 9.34
"""Of the chi-squared distribution with ten degrees of freedom."""
LEAVES = 16

Part = dict[str, Any]


def ours(threads: int, estimator: Any = None, **parameters: Any) -> Any:
    return AdaBoostClassifier(estimator, n_jobs=threads, device="cpu", **parameters)


def stumps(options: argparse.Namespace) -> Part:
    """Train stumps on a large table."""
    X, y = make_higgs_like(options.rows, random_state=0)
    few = max(1, options.rounds // options.scale)
    ours(options.threads, n_estimators=2).fit(X[:300], y[:300])
    SklearnAdaBoost(n_estimators=2).fit(X[:300], y[:300])
    calls: dict[str, Callable[[], Any]] = {
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


def spambase(options: argparse.Namespace) -> Part:
    """Test errors on the official split."""
    arrays = counterparts.load(options.data, "spambase")
    X, y, test = arrays["X"], arrays["y"], arrays["is_test"]
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
    errors: dict[str, dict[str, float]] = {}
    for kind, by_library in models.items():
        errors[kind] = {
            library: percent_wrong(model.fit(X[~test], y[~test]), X[test], y[test])
            for library, model in by_library.items()
        }
        show_errors(kind, errors[kind])
    return {"errors": errors}


def chi_squared(options: argparse.Namespace) -> Part:
    """Test errors on the ten-dimensional example."""
    errors: dict[str, list[float]] = {}
    for draw in range(options.draws):
        X, y = chi_squared_table(2000, 2 * draw)
        X_test, y_test = chi_squared_table(10_000, 2 * draw + 1)
        models = {
            OURS: ours(options.threads, n_estimators=options.rounds),
            EXACT: ours(options.threads, n_estimators=options.rounds, max_bins=None),
            THEIRS: SklearnAdaBoost(n_estimators=options.rounds),
        }
        for library, model in models.items():
            errors.setdefault(library, []).append(percent_wrong(model.fit(X, y), X_test, y_test))
    means = {library: fmean(values) for library, values in errors.items()}
    show_errors("mean", means)
    return {"errors": errors, "means": means}


def chi_squared_table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the example, half of them of class 1."""
    X = np.random.default_rng(seed).normal(size=(n, 10))
    return X, ((X**2).sum(axis=1) > MEDIAN).astype(np.int64)


def show_errors(kind: str, errors: dict[str, float]) -> None:
    text = "  ".join(f"{library} {error:.2f}" for library, error in errors.items())
    print(f"  {kind:<20}{text}", flush=True)


THREADS = (1, 2, 3)


def identity(options: argparse.Namespace) -> Part:
    """Fingerprints of models trained with several numbers of threads."""
    X, y = make_higgs_like(min(options.rows, 20_000), random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    numbers = y + 3.0 * np.nan_to_num(X[:, 0])
    three = np.digitize(numbers, np.quantile(numbers, [1 / 3, 2 / 3]))
    tree = DecisionTreeClassifier(max_depth=4)
    cases = {
        "stumps": (AdaBoostClassifier(n_estimators=30), y),
        "trees, three classes": (AdaBoostClassifier(tree, n_estimators=10), three),
        "numbers": (AdaBoostRegressor(n_estimators=10, loss="exponential"), numbers),
    }
    found: dict[str, dict[str, str]] = {}
    for name, (model, target) in cases.items():
        found[name] = {
            f"{n} threads": model.set_params(n_jobs=n).fit(X, target).forest_.fingerprint()
            for n in THREADS
        }
    equal = {name: len(set(hashes.values())) == 1 for name, hashes in found.items()}
    for name, same in equal.items():
        print(f"  {name:<26}{'identical' if same else 'DIFFERENT'}", flush=True)
    return {"equal": equal, "fingerprints": found}


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "stumps": stumps,
    "spambase": spambase,
    "chi_squared": chi_squared,
    "identity": identity,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("adaboost", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_timing_options(parser, repeats=3)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real tables")
    parser.add_argument("--rows", type=positive, default=100_000, help="rows to train on")
    parser.add_argument("--rounds", type=positive, default=400, help="stumps; half as many trees")
    parser.add_argument("--scale", type=positive, default=20, help="fewer stumps of scikit-learn")
    parser.add_argument("--draws", type=positive, default=10, help="tables of chi_squared")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts")
    options = parser.parse_args(argv)
    record = Record("adaboost", options)
    results: dict[str, Part] = {}
    for name in options.only:
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        try:
            results[name] = PARTS[name](options)
        except GapError as gap:
            results[name] = {"gaps": [say_skipped(gap)]}
    for library, row in results.get("stumps", {}).get("libraries", {}).items():
        ratio = f"gpuens ÷ it {row['ratio']:.4f}" if "ratio" in row else ""
        print(f"  {library:<20}{row['median']:>10.3f} s  {ratio}")
    record.write(results)
    return int(not all(results.get("identity", {}).get("equal", {}).values()))
