"""Forests and AdaBoost on the card, beside cuML, XGBoost's forest and the host's cores."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from gpuens import AdaBoostClassifier, RandomForestClassifier

from ..common.peers import OURS, Settings
from ..scaling import libraries as scaling_libraries
from .bench import ON_CPU, WARM_UP_ROWS, Bench, identical
from .boosting import sizes, table_for

CUML = "cuML"


def forest(
    bench: Bench, n_rows: int, n_trees: int, depth: int, n_classes: int = 7, with_cpu: bool = False
) -> dict[str, Any]:
    """Measure a forest, accuracy on fresh rows, and the time to predict them.

    cuML has its own number of bins (128) and float32 sums; everything else is the same.
    """
    n_classes = bench.classes(n_classes)
    X, y = table_for(bench, n_rows, 54 if n_classes == 7 else 28, n_classes)
    settings = Settings(n_trees=bench.trees(n_trees), max_depth=bench.depth(depth))

    def train(device: str, rows: Any, labels: Any) -> Any:
        more = {"max_depth": settings.max_depth, "random_state": 0, "n_jobs": bench.threads}
        return RandomForestClassifier(settings.n_trees, device=device, **more).fit(rows, labels)

    actions = bench.on_both(train, X, y, with_cpu)
    if find_spec("cuml") is None:
        bench.gaps[CUML] = "cuml is not installed"
    else:
        with bench.attempt(CUML):
            labels = y.astype("int32")
            build = partial(scaling_libraries.cuml_forest, "multiclass", settings)
            build().fit(X[:WARM_UP_ROWS], labels[:WARM_UP_ROWS])
            actions[CUML] = lambda: build().fit(X, labels)
    libraries, models = bench.contest(actions)
    result = sizes(X, settings) | {
        "n_classes": n_classes, "libraries": libraries,
        "fingerprint": models[OURS].forest_.fingerprint(),
    }  # fmt: skip
    if ON_CPU in models:
        result["identical_to_cpu"] = identical({name: models[name] for name in (OURS, ON_CPU)})
    test, truth = table_for(bench, min(100_000, n_rows), X.shape[1], n_classes, seed=1)
    for name, model in models.items():
        if name == ON_CPU:
            continue
        with bench.attempt(f"prediction of {name}"):
            libraries[name]["accuracy"] = float((model.predict(test) == truth).mean())
            predicted = bench.card.seconds(partial(model.predict_proba, test))
            libraries[name]["seconds_to_predict"] = predicted
    return result


def adaboost(bench: Bench, n_rows: int, n_trees: int = 100) -> dict[str, Any]:
    """Measure AdaBoost with stumps, on the card and on the host."""
    X, y = table_for(bench, n_rows, 28, 2)
    settings = Settings(n_trees=bench.trees(n_trees), max_depth=1)

    def train(device: str, rows: Any, labels: Any) -> Any:
        parameters = {"random_state": 0, "device": device, "n_jobs": bench.threads}
        return AdaBoostClassifier(n_estimators=settings.n_trees, **parameters).fit(rows, labels)

    libraries, models = bench.contest(bench.on_both(train, X, y))
    return sizes(X, settings) | {"libraries": libraries, "identical_to_cpu": identical(models)}
