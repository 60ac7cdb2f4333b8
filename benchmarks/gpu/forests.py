"""Forests and AdaBoost on the card, beside cuML, XGBoost's forest and the host's cores."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from gpuens import AdaBoostClassifier, RandomForestClassifier

from ..common.peers import OURS, Settings
from ..scaling import libraries as scaling_libraries
from .bench import ON_CPU, Action, Bench, short
from .boosting import WARM_UP_ROWS, table_for

CUML = "cuML"


def forest(
    bench: Bench, n_rows: int, n_trees: int, depth: int, n_classes: int = 7, with_cpu: bool = False
) -> dict[str, Any]:
    """Measure a forest, accuracy on fresh rows, and the time to predict them.

    cuML has its own number of bins (128) and float32 sums; the depth, the number of trees and the
    features tried at a node (the square root) are the same.
    """
    n_classes = bench.classes(n_classes)
    X, y = table_for(bench, n_rows, 54 if n_classes == 7 else 28, n_classes)
    n_trees, depth = bench.trees(n_trees), bench.depth(depth)

    def ours(device: str) -> Any:
        return RandomForestClassifier(
            n_trees, max_depth=depth, random_state=0, device=device, n_jobs=bench.threads
        )

    settings = Settings(n_trees=n_trees, max_depth=depth)
    few = slice(WARM_UP_ROWS)
    RandomForestClassifier(2, max_depth=depth, device="cuda").fit(X[few], y[few])
    actions: dict[str, Action] = {OURS: lambda: ours("cuda").fit(X, y)}
    if find_spec("cuml") is None:
        bench.gaps[CUML] = "cuml is not installed"
    else:
        try:
            labels = y.astype("int32")
            scaling_libraries.cuml_forest("multiclass", settings).fit(X[few], labels[few])
            actions[CUML] = lambda: scaling_libraries.cuml_forest("multiclass", settings).fit(
                X, labels
            )
        except Exception as error:
            bench.gaps[CUML] = short(error)
    if with_cpu:
        host = bench.card.get(X), bench.card.get(y)
        RandomForestClassifier(2, max_depth=depth, device="cpu").fit(host[0][few], host[1][few])
        actions[ON_CPU] = lambda: ours("cpu").fit(*host)
    libraries, models = bench.contest(actions)
    result: dict[str, Any] = {
        "n_rows": X.shape[0], "n_features": X.shape[1], "n_classes": n_classes,
        "n_trees": n_trees, "depth": depth, "libraries": libraries,
        "fingerprint": models[OURS].forest_.fingerprint(),
    }  # fmt: skip
    if ON_CPU in models:
        result["identical_to_cpu"] = models[ON_CPU].forest_.fingerprint() == result["fingerprint"]
    test, truth = table_for(bench, min(100_000, n_rows), X.shape[1], n_classes, seed=1)
    for name, model in models.items():
        if name == ON_CPU:
            continue
        try:
            libraries[name]["accuracy"] = float((model.predict(test) == truth).mean())
            predicted = bench.card.seconds(lambda model=model: model.predict_proba(test))
            libraries[name]["seconds_to_predict"] = predicted
        except Exception as error:
            bench.gaps[f"prediction of {name}"] = short(error)
    return result


def adaboost(bench: Bench, n_rows: int, n_trees: int = 100) -> dict[str, Any]:
    """Measure AdaBoost with stumps, on the card and on the host."""
    X, y = table_for(bench, n_rows, 28, 2)
    host = bench.card.get(X), bench.card.get(y)
    n_trees = bench.trees(n_trees)

    def model(device: str) -> Any:
        jobs = {"n_jobs": bench.threads} if "n_jobs" in AdaBoostClassifier().get_params() else {}
        return AdaBoostClassifier(n_estimators=n_trees, random_state=0, device=device, **jobs)

    data = {OURS: (X, y), ON_CPU: host}
    devices = {OURS: "cuda", ON_CPU: "cpu"}
    for name, (table, labels) in data.items():
        model(devices[name]).fit(table[:WARM_UP_ROWS], labels[:WARM_UP_ROWS])
    actions = {name: lambda name=name: model(devices[name]).fit(*data[name]) for name in data}
    libraries, models = bench.contest(actions)
    marks = [fitted.forest_.fingerprint() for fitted in models.values()]
    return {
        "n_rows": X.shape[0], "n_features": X.shape[1], "n_trees": n_trees, "depth": 1,
        "libraries": libraries, "identical_to_cpu": len(marks) == 2 and marks[0] == marks[1],
    }  # fmt: skip
