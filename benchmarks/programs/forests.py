"""Time to train and to use trees and forests, beside scikit-learn's with the same settings.

Every other setting has its default in both libraries. Both have trained on a small table
before, and take turns in one process. Quality on fresh rows is measured too: the mean
over as many seeds as there are rounds. A class or a table that is missing is named and left out.

``gpu`` trains a forest on a GPU, beside the same on the CPU and cuML's, if it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import medians
from ..common.peers import BOTH, ON_CPU, OURS, THEIRS, GapError, build, say_skipped
from ..common.places import place_of
from ..common.program import Content, Options, Program, Results, timing
from ..common.tables import DATA, by_split, load, title
from ..common.timing import compare, interleaved, take_turns

TEST_ROWS = 200_000
FOREST, TREE, BOOST = "RandomForestClassifier", "DecisionTreeClassifier", "AdaBoostClassifier"
SCALE = 20
"""scikit-learn trains this many times fewer stumps: one takes as long as another."""

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
    """Train one tree on every distinct value."""
    X, y = make_higgs_like(options.rows, random_state=0)
    return part_of(X, y, time_fits(TREE, X, y, options)[0], n_trees=1)


def stumps(options: Options) -> Results:
    """Train stumps by AdaBoost; scikit-learn trains fewer, whose time is scaled up."""
    X, y = make_higgs_like(options.rows, random_state=0)
    few = max(1, options.stumps // SCALE)
    rounds = {OURS: options.stumps, THEIRS: few}
    for library in BOTH:
        build(library, BOOST, options.threads, n_estimators=2).fit(X[:300], y[:300])

    def train(library: str) -> None:
        build(library, BOOST, options.threads, n_estimators=rounds[library]).fit(X, y)

    fits = {library: partial(train, library) for library in BOTH}
    seconds, _ = interleaved(fits, options.repeats, options.threads, options.budget)
    seconds[THEIRS] = [taken * options.stumps / few for taken in seconds[THEIRS]]
    return part_of(X, y, compare(seconds, OURS), n_trees=options.stumps)


CUML = "cuML"
WARM_UP_ROWS = 4096


def gpu(options: Options) -> Results:
    """Train a deep forest on a GPU; cuML has its own number of bins (128) and float32 sums."""
    place = place_of("cuda")
    X, y = place.table(make_covtype_like, options.gpu_rows, 0)
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
        make[CUML] = partial(cuml_forest, options.trees, options.depth)
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


def cuml_forest(n_trees: int, depth: int) -> Any:
    from cuml.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=n_trees, max_depth=depth, random_state=0)


AT_MOST = {"depth_14": 0.12, "to_purity": 0.30, "predict": 0.20, "single_tree": 1.0, "stumps": 0.05}
WORK = {
    "depth_14": "train a forest of depth 14",
    "to_purity": "train a forest to purity",
    "predict": "predict with deep trees",
    "single_tree": "train one exact tree",
    "stumps": "train AdaBoost with 400 stumps",
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


PROGRAM = Program(
    "forests", __doc__,
    {
        "depth_14": depth_14, "to_purity": to_purity, "predict": predict,
        "single_tree": single_tree, "stumps": stumps,
    },
    {
        **timing(3),
        "data": (DATA, "folder of the real tables"),
        "rows": (100_000, "rows to train on"),
        "trees": (100, "trees; 2/5 with depth 14"),
        "splits": (5, "splits for the accuracy"),
        "predict_rows": (1_000_000, "rows to predict"),
        "stumps": (400, "stumps of AdaBoost"),
        "gpu_rows": (465_000, "rows to train on in `gpu`"),
        "depth": (30, "depth of the trees of `gpu`"),
    },
    show, goals, rare={"gpu": gpu},
)  # fmt: skip
main = PROGRAM.main
