"""Time to train and to use trees and forests, beside scikit-learn's with the same settings.

Every other setting has its default in both libraries. Both have trained on a small table
before, and take turns in one process. Quality on fresh rows stands beside the times: the mean
over as many seeds as there are rounds. A class or a table that is missing is named and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from gpuens.datasets import make_higgs_like

from ..common import counterparts, same_tree
from ..common.counterparts import DATA, OURS, THEIRS, GapError, build, say_skipped
from ..common.records import Record, add_timing_options, options_of, positive
from ..common.timing import compare, interleaved
from .fit import title

LIBRARIES = (OURS, THEIRS)
TEST_ROWS = 200_000
FOREST, TREE = "RandomForestClassifier", "DecisionTreeClassifier"

Part = dict[str, Any]
Models = dict[str, list[Any]]


def time_fits(
    name: str, X: np.ndarray, y: np.ndarray, options: argparse.Namespace, **parameters: Any
) -> tuple[dict[str, Part], Models]:
    """Times of training by library, and the models, one seed a round."""
    for library in LIBRARIES:
        counterparts.warm_up(library, [name], options.threads)
    models: Models = {library: [] for library in LIBRARIES}

    def training(library: str) -> Callable[[], Any]:
        seeds = count()

        def train() -> None:
            model = build(library, name, options.threads, random_state=next(seeds), **parameters)
            models[library].append(model.fit(X, y))

        return train

    actions = {library: training(library) for library in LIBRARIES}
    seconds, _ = interleaved(actions, options.repeats, options.threads, options.budget)
    return compare(seconds, OURS), models


def part_of(X: np.ndarray, y: np.ndarray, libraries: dict[str, Part], **more: Any) -> Part:
    """What a part of the results holds beside its own figures."""
    return {"title": title(y, X.shape[1]), "n_rows": len(y), "libraries": libraries, **more}


def mean_auc(models: Iterable[Any], X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([roc_auc_score(y, model.predict_proba(X)[:, 1]) for model in models]))


def depth_14(options: argparse.Namespace) -> Part:
    """Train a forest of limited depth on a large table."""
    X, y = make_higgs_like(options.rows, random_state=0)
    n_trees = max(1, options.trees * 2 // 5)
    table, models = time_fits(FOREST, X, y, options, n_estimators=n_trees, max_depth=14)
    X_test, y_test = make_higgs_like(min(2 * options.rows, TEST_ROWS), random_state=1)
    for library, fitted in models.items():
        table[library]["quality"] = {"auc": mean_auc(fitted, X_test, y_test)}
    return part_of(X, y, table, n_trees=n_trees)


def to_purity(options: argparse.Namespace) -> Part:
    """Train a forest of unlimited depth on a real table."""
    arrays = counterparts.load(options.data, "covtype_first20k")
    X, y = arrays["X"][: options.rows], arrays["y"][: options.rows]
    table, _ = time_fits(FOREST, X, y, options, n_estimators=options.trees)
    for library in LIBRARIES:
        found = [held_out_accuracy(library, X, y, seed, options) for seed in range(options.splits)]
        table[library]["quality"] = {"accuracy": float(np.mean(found)), "splits": found}
    return part_of(X, y, table, n_trees=options.trees)


def held_out_accuracy(
    library: str, X: np.ndarray, y: np.ndarray, seed: int, options: argparse.Namespace
) -> float:
    """Of a forest trained on three quarters of a table."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    model = build(library, FOREST, options.threads, n_estimators=options.trees, random_state=seed)
    return float(accuracy_score(y_test, model.fit(X, y).predict(X_test)))


def predict(options: argparse.Namespace) -> Part:
    """Predict a large table with deep trees."""
    X, y = make_higgs_like(min(options.rows, options.predict_rows), random_state=0)
    settings = {"n_estimators": options.trees, "random_state": 0}
    models = {
        library: build(library, FOREST, options.threads, **settings).fit(X, y)
        for library in LIBRARIES
    }
    for model in models.values():
        model.predict_proba(X[:2000])
    X, y = make_higgs_like(options.predict_rows, random_state=1)
    calls = {
        library: (lambda model=model: model.predict_proba(X)) for library, model in models.items()
    }
    seconds, _ = interleaved(calls, options.repeats, options.threads, options.budget)
    return part_of(X, y, compare(seconds, OURS), n_trees=options.trees)


def single_tree(options: argparse.Namespace) -> Part:
    """Train one tree on every distinct value, and compare it with scikit-learn's."""
    X, y = make_higgs_like(options.rows, random_state=0)
    table, models = time_fits(TREE, X, y, options)
    ours = same_tree.nodes_of_ours(models[OURS][0])
    theirs = same_tree.nodes_of_theirs(models[THEIRS][0])
    return part_of(X, y, table, n_trees=1, same=same_tree.compare(ours, theirs, X, y))


IDENTITY = {
    "DecisionTreeClassifier": {},
    "ExtraTreeRegressor": {},
    "RandomForestClassifier": {"n_estimators": 20},
    "RandomForestRegressor": {"n_estimators": 20, "max_features": 0.5},
    "ExtraTreesClassifier": {"n_estimators": 20},
    "BaggingClassifier": {"n_estimators": 10},
    "IsolationForest": {"n_estimators": 50},
    "QuantileForestRegressor": {"n_estimators": 10},
}  # fmt: skip
THREADS = (1, 2, 3)


def identity(options: argparse.Namespace) -> Part:
    """Fingerprints of models trained with several numbers of threads."""
    X, y = make_higgs_like(min(options.rows, 20_000), random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    found: dict[str, dict[str, str]] = {}
    gaps = []
    for name, parameters in IDENTITY.items():
        target = y + 3.0 * np.nan_to_num(X[:, 0]) if name.endswith("Regressor") else y
        try:
            found[name] = {
                f"{n} threads": fingerprint(name, n, X, target, parameters) for n in THREADS
            }
        except GapError as gap:
            gaps.append(say_skipped(gap))
    equal = {name: len(set(hashes.values())) == 1 for name, hashes in found.items()}
    for name, same in equal.items():
        print(f"  {name:<26}{'identical' if same else 'DIFFERENT'}", flush=True)
    return {"equal": equal, "fingerprints": found, "gaps": gaps}


def fingerprint(
    name: str, threads: int, X: np.ndarray, y: np.ndarray, parameters: dict[str, Any]
) -> str:
    """Of all trees of a model, whether it holds them together or by member."""
    model = build(OURS, name, threads, random_state=0, **parameters).fit(X, y)
    if hasattr(model, "forest_"):
        return str(model.forest_.fingerprint())
    members = [member.forest_.fingerprint() for member in model.estimators_]
    return sha256("".join(members).encode()).hexdigest()


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "depth_14": depth_14,
    "to_purity": to_purity,
    "predict": predict,
    "single_tree": single_tree,
    "identity": identity,
}


def show(part: Part) -> None:
    """One line for each library, and the comparison of trees."""
    for library, row in part.get("libraries", {}).items():
        ratio = f"gpuens ÷ it {row['ratio']:.3f}" if "ratio" in row else ""
        values = {k: v for k, v in row.get("quality", {}).items() if isinstance(v, float)}
        text = "  ".join(f"{name} {value:.5f}" for name, value in values.items())
        print(f"  {library:<20}{row['median']:>10.3f} s  {text}  {ratio}")
    if "same" in part:
        print("  nodes:", ", ".join(f"{n} {name}" for name, n in part["same"].items()))


def measure(names: Sequence[str], options: argparse.Namespace) -> dict[str, Part]:
    """All parts that were asked for; a gap stands in the place of its part."""
    results: dict[str, Part] = {}
    for name in names:
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        try:
            results[name] = PARTS[name](options)
            show(results[name])
        except GapError as gap:
            results[name] = {"gaps": [say_skipped(gap)]}
    return results


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("forests", __doc__)
    add_timing_options(parser, repeats=3)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real tables")
    parser.add_argument("--rows", type=positive, default=100_000, help="rows to train on")
    parser.add_argument("--trees", type=positive, default=100, help="trees; 2/5 with depth 14")
    parser.add_argument("--splits", type=positive, default=5, help="splits for the accuracy")
    parser.add_argument("--predict-rows", type=positive, default=1_000_000, help="rows to predict")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts")
    options = parser.parse_args(argv)
    record = Record("forests", options)
    results = measure(options.only, options)
    record.write(results)
    return int(not all(results.get("identity", {}).get("equal", {}).values()))
