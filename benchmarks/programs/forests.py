"""Time to train and to use trees and forests, beside scikit-learn's with the same settings.

Every other setting has its default in both libraries. Both have trained on a small table
before, and take turns in one process. Quality on fresh rows is measured too: the mean
over as many seeds as there are rounds. A class or a table that is missing is named and left out.

``gpu`` trains a forest on a GPU, beside the same on the CPU and cuML's, if it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common import peers, same_tree
from ..common.goals import Goal, measured
from ..common.identical import by_threads, identical, same_by_threads, table_with_missing
from ..common.markdown import gaps_of, medians
from ..common.peers import (
    BOTH,
    ON_CPU,
    OURS,
    THEIRS,
    GapError,
    Settings,
    build,
    measure_each,
    say_skipped,
)
from ..common.places import place_of
from ..common.program import Content, Options, Program, Results, timing
from ..common.tables import DATA, by_split, load, title
from ..common.timing import take_turns
from ..scaling.libraries import cuml_forest

TEST_ROWS = 200_000
FOREST, TREE = "RandomForestClassifier", "DecisionTreeClassifier"

Models = dict[str, list[Any]]


def time_fits(
    name: str, X: np.ndarray, y: np.ndarray, options: Options, **parameters: Any
) -> tuple[dict[str, Results], Models]:
    """Return times of training by library, and the models, one seed a round."""
    for library in BOTH:
        peers.warm_up(library, name, options.threads)
    models: Models = {library: [] for library in BOTH}

    def train(library: str) -> None:
        seed = len(models[library])
        model = build(library, name, options.threads, random_state=seed, **parameters)
        models[library].append(model.fit(X, y))

    libraries, _ = take_turns({library: partial(train, library) for library in BOTH}, options)
    return libraries, models


def part_of(X: np.ndarray, y: np.ndarray, libraries: dict[str, Results], **more: Any) -> Results:
    """Return a part of the results."""
    return {"title": title(y, X.shape[1]), "n_rows": len(y), "libraries": libraries, **more}


def depth_14(options: Options) -> Results:
    """Train a forest of limited depth on a large table."""
    X, y = make_higgs_like(options.rows, random_state=0)
    n_trees = max(1, options.trees * 2 // 5)
    table, models = time_fits(FOREST, X, y, options, n_estimators=n_trees, max_depth=14)
    X_test, y_test = make_higgs_like(min(2 * options.rows, TEST_ROWS), random_state=1)
    for library, fitted in models.items():
        found = [roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]) for model in fitted]
        table[library]["quality"] = {"auc": float(np.mean(found))}
    return part_of(X, y, table, n_trees=n_trees)


def to_purity(options: Options) -> Results:
    """Train a forest of unlimited depth on a real table."""
    arrays = load(options.data, "covtype_first20k")
    X, y = arrays["X"][: options.rows], arrays["y"][: options.rows]
    table, _ = time_fits(FOREST, X, y, options, n_estimators=options.trees)

    def accuracies(seed: int) -> dict[str, float]:
        rows, test, labels, truth = train_test_split(X, y, test_size=0.25, random_state=seed)
        settings = {"n_estimators": options.trees, "random_state": seed}
        forests = {name: build(name, FOREST, options.threads, **settings) for name in BOTH}
        return {name: model.fit(rows, labels).score(test, truth) for name, model in forests.items()}

    for library, found in by_split(options.splits, accuracies).items():
        table[library]["quality"] = {"accuracy": float(np.mean(found)), "splits": found}
    return part_of(X, y, table, n_trees=options.trees)


def predict(options: Options) -> Results:
    """Predict a large table with deep trees."""
    X, y = make_higgs_like(min(options.rows, options.predict_rows), random_state=0)
    settings = {"n_estimators": options.trees, "random_state": 0}
    models = {
        library: build(library, FOREST, options.threads, **settings).fit(X, y) for library in BOTH
    }
    for model in models.values():
        model.predict_proba(X[:2000])
    X, y = make_higgs_like(options.predict_rows, random_state=1)
    calls = {library: partial(model.predict_proba, X) for library, model in models.items()}
    libraries, _ = take_turns(calls, options)
    return part_of(X, y, libraries, n_trees=options.trees)


def single_tree(options: Options) -> Results:
    """Train one tree on every distinct value, and compare it with scikit-learn's."""
    X, y = make_higgs_like(options.rows, random_state=0)
    table, models = time_fits(TREE, X, y, options)
    ours = same_tree.nodes_of_ours(models[OURS][0])
    theirs = same_tree.nodes_of_theirs(models[THEIRS][0])
    return part_of(X, y, table, n_trees=1, same=same_tree.compare(ours, theirs, X, y))


def wide_table(options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Return few rows of very many features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, options.wide)).astype(np.float32)
    return X, (X[:, 0] + rng.normal(size=50) > 0).astype(np.int64)


def wide_tree(options: Options) -> Results:
    """Train one tree on a wide table."""
    X, y = wide_table(options)
    return part_of(X, y, time_fits(TREE, X, y, options)[0], n_trees=1)


def wide_forest(options: Options) -> Results:
    """Train a forest that looks at all features of a wide table."""
    X, y = wide_table(options)
    settings: dict[str, Any] = {"n_estimators": 3, "max_features": None}
    return part_of(X, y, time_fits(FOREST, X, y, options, **settings)[0], n_trees=3)


CUML = "cuML"
WARM_UP_ROWS = 4096


def gpu(options: Options) -> Results:
    """Train a deep forest on a GPU; cuML has its own number of bins (128) and float32 sums."""
    place = place_of("cuda")
    X, y = place.table(make_covtype_like, options.gpu_rows, 0)
    settings = Settings(options.trees, max_depth=options.depth, threads=options.threads)
    given = {"n_estimators": options.trees, "max_depth": options.depth, "random_state": 0}

    def ours(device: str) -> Any:
        return build(OURS, FOREST, options.threads, **given).set_params(device=device)

    data = {OURS: (X, y), ON_CPU: (place.get(X), place.get(y))}
    make = {OURS: partial(ours, place.device), ON_CPU: partial(ours, "cpu")}
    gaps = []
    if find_spec("cuml") is None:
        gaps.append(say_skipped(GapError("cuML is not installed (pip install cuml-cu13)")))
    else:
        data[CUML] = X, y.astype(np.int32)
        make[CUML] = partial(cuml_forest, "multiclass", settings)
    for name, builder in make.items():
        rows, labels = data[name]
        builder().fit(rows[:WARM_UP_ROWS], labels[:WARM_UP_ROWS])
    fits = {name: place.waiting(lambda name=name: make[name]().fit(*data[name])) for name in make}
    libraries, models = take_turns(fits, options)
    X, truth = place.table(make_covtype_like, min(TEST_ROWS, options.gpu_rows), 1)
    for name in set(models) - {ON_CPU}:
        found = float((models[name].predict(X) == truth).mean())
        libraries[name]["quality"] = {"accuracy": found}
    marks = {name: models[name].forest_.fingerprint() for name in (OURS, ON_CPU)}
    equal = {"CPU and GPU": marks[OURS] == marks[ON_CPU]}
    return part_of(
        X, place.get(y), libraries, n_trees=options.trees, fingerprints=marks, equal=equal,
        gaps=gaps,
    )  # fmt: skip


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


def identity(options: Options) -> Results:
    """Compare fingerprints of models trained with several numbers of threads."""
    X, y = table_with_missing(options.rows)
    found = measure_each(IDENTITY, lambda name: by_threads(partial(fingerprint, name, X, y)))
    return {**identical(measured(found)), "gaps": list(gaps_of(found))}


def fingerprint(name: str, X: np.ndarray, y: np.ndarray, threads: int) -> str:
    """Return the fingerprint of all trees, whether the model holds them together or by member."""
    target = y + 3.0 * np.nan_to_num(X[:, 0]) if name.endswith("Regressor") else y
    model = build(OURS, name, threads, random_state=0, **IDENTITY[name]).fit(X, target)
    if hasattr(model, "forest_"):
        return str(model.forest_.fingerprint())
    members = [member.forest_.fingerprint() for member in model.estimators_]
    return sha256("".join(members).encode()).hexdigest()


AT_MOST = {
    "depth_14": 0.12, "to_purity": 0.30, "predict": 0.20, "single_tree": 1.0,
    "wide_tree": 1.0, "wide_forest": 1.0,
}  # fmt: skip
WORK = {
    "depth_14": "train a forest of depth 14",
    "to_purity": "train a forest to purity",
    "predict": "predict with deep trees",
    "single_tree": "train one exact tree",
    "wide_tree": "train one exact tree",
    "wide_forest": "train a forest on all features",
}


def show(content: Content) -> Iterator[str]:
    """Yield times."""
    parts = measured(content["results"])
    yield medians("median time to", {
        f"{WORK[name]}, {parts[name]['title']}": parts[name]["libraries"]
        for name in WORK if name in parts
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    for part, limit in AT_MOST.items():
        libraries = results.get(part, {}).get("libraries")
        if not libraries:
            continue
        trees = f", {results[part]['n_trees']} trees" if results[part]["n_trees"] > 1 else ""
        work = f"{WORK[part]}, {results[part]['title']}{trees}"
        yield Goal(
            f"the time to {work}, relative to scikit-learn", limit, libraries[THEIRS]["ratio"]
        )
        a, b = (libraries[name].get("quality", {}) for name in BOTH)
        if "auc" in a:
            what = f"the AUC lost to scikit-learn ({work})"
            yield Goal(what, 0.001, b["auc"] - a["auc"])
        if "accuracy" in a:
            points = 100 * (b["accuracy"] - a["accuracy"])
            yield Goal(f"the accuracy lost to scikit-learn ({work})", 0.3, points, "points")
        if "same" in results[part]:
            what = f"the number of nodes unlike scikit-learn's, ties apart ({work})"
            yield Goal(what, 0, results[part]["same"]["different"])
    yield from same_by_threads("trees and forests", results)


PROGRAM = Program(
    "forests", __doc__,
    {
        "depth_14": depth_14, "to_purity": to_purity, "predict": predict,
        "single_tree": single_tree, "wide_tree": wide_tree, "wide_forest": wide_forest,
        "identity": identity,
    },
    {
        **timing(3),
        "data": (DATA, "folder of the real tables"),
        "rows": (100_000, "rows to train on"),
        "trees": (100, "trees; 2/5 with depth 14"),
        "splits": (5, "splits for the accuracy"),
        "predict_rows": (1_000_000, "rows to predict"),
        "wide": (100_000, "features of the wide tables of 50 rows"),
        "gpu_rows": (465_000, "rows to train on in `gpu`"),
        "depth": (30, "depth of the trees of `gpu`"),
    },
    show, goals, rare={"gpu": gpu},
)  # fmt: skip
main = PROGRAM.main
