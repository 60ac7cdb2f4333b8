"""Small work on the card, where the host's launches are what takes the time."""

from __future__ import annotations

import os
from statistics import median
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import KFold

from gpuens import fit_many

from .bench import OURS, Bench, short
from .contestants import builders, ours, settings_of
from .fits import table_for

FOLDS = 5
RATES = (0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3)
ONE_BY_ONE = "gpuens, one by one"

VARIANTS: dict[str, dict[str, str]] = {
    "stock": {},
    "direct": {"GPUENS_CUDA_LAUNCHER": "direct"},
    "graphs": {"GPUENS_CUDA_GRAPHS": "1"},
    "direct and graphs": {"GPUENS_CUDA_LAUNCHER": "direct", "GPUENS_CUDA_GRAPHS": "1"},
}
"""Ways to start kernels, by what the environment says."""


def many_fits(bench: Bench, n_rows: int = 10_000, n_trees: int = 100) -> dict[str, Any]:
    """Ten rates on five folds at once, beside one fit after another.

    The tables lie in the host's memory, as small ones do. A fold leaves ``n_rows`` to train on.
    """
    X, y = (bench.card.get(a) for a in table_for(bench, n_rows * FOLDS // (FOLDS - 1), 20, 2))
    rates = RATES[:2] if bench.rehearsal else RATES
    folds = list(KFold(FOLDS, shuffle=True, random_state=0).split(X))
    folds = folds[:2] if bench.rehearsal else folds
    settings = settings_of(bench, n_trees, 6)

    def models_of(build: Any) -> list[Any]:
        return [build(settings).set_params(learning_rate=rate) for rate in rates]

    def at_once() -> Any:
        threads = 1 if bench.rehearsal else bench.threads  # the simulator runs one kernel at a time
        return fit_many(models_of(ours("binary")), X, y, folds=folds, n_jobs=threads)

    def one_by_one(build: Any) -> Any:
        return [
            [clone(model).fit(X[train], y[train]) for train, _ in folds]
            for model in models_of(build)
        ]

    actions: dict[str, Any] = {}
    for name, (build, _) in builders(bench, "binary").items():
        try:
            build(settings_of(bench, 2, 6)).fit(X, y)
        except Exception as error:
            if name == OURS:
                raise
            bench.gaps[name] = short(error)
            continue
        key = ONE_BY_ONE if name == OURS else name
        actions[key] = lambda build=build: one_by_one(build)
    actions = {OURS: at_once, **actions}
    libraries, models = bench.contest(actions, repeats=1 if bench.rehearsal else 2, share=0.4)
    result = {
        "n_rows": len(folds[0][0]), "n_features": 20, "n_trees": settings.n_trees, "depth": 6,
        "n_fits": len(rates) * len(folds), "libraries": libraries,
    }  # fmt: skip
    if ONE_BY_ONE in models:
        train = folds[-1][0]
        alone = ours("binary")(settings).set_params(learning_rate=rates[-1]).fit(X[train], y[train])
        batch = models[OURS][-1][-1].forest_.fingerprint()
        result["same_as_alone"] = batch == alone.forest_.fingerprint()
    return result


def launches(bench: Bench, variant: str, n_rows: int) -> dict[str, Any]:
    """Time a tree of depth 6 with one way to start kernels: a long training less a short one, so
    that neither binning nor the first launches count.

    The environment must say so before the process starts: see ``VARIANTS``.
    """
    for name, value in VARIANTS[variant].items():
        if os.environ.get(name) != value:
            raise RuntimeError(f"{variant} needs {name}={value} in the environment")
    X, y = table_for(bench, n_rows, 28, 2)
    build = ours("binary")
    counts = {"short": bench.trees(20), "long": bench.trees(20) + bench.trees(100)}
    settings = settings_of(bench, 100, 6)
    models = {name: build(settings).set_params(n_estimators=n) for name, n in counts.items()}
    models["short"].fit(X, y)
    seconds: dict[str, list[float]] = {name: [] for name in counts}
    for _ in range(1 if bench.rehearsal else max(3, bench.repeats)):
        for name, model in models.items():
            seconds[name].append(bench.card.seconds(lambda model=model: model.fit(X, y)))
    difference = median(seconds["long"]) - median(seconds["short"])
    return {
        "variant": variant, "n_rows": X.shape[0], "n_features": X.shape[1], "depth": 6,
        "seconds": seconds, "ms_a_tree": 1e3 * difference / (counts["long"] - counts["short"]),
        "fingerprint": models["long"].forest_.fingerprint(),
    }  # fmt: skip
