"""Prediction on the card: a boosted model and a forest, beside XGBoost and nvForest.

gpuens and XGBoost predict with models that each has trained on the same table, nvForest with
XGBoost's. The table and the predictions are in the card's memory.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..common.peers import Settings
from .bench import OURS, XGBOOST, Action, Bench, short
from .contestants import builders, settings_of
from .fits import table_for

NVFOREST = "nvForest"
TRAINING_ROWS = 200_000


LEAF_ROWS = 1_000_000
"""Rows whose leaves are asked for at most: their numbers take 4 bytes a tree."""


def predict(bench: Bench, n_rows: int, n_trees: int = 500, depth: int = 8) -> dict[str, Any]:
    """Times of class probabilities of one table, of one row, and of the rows' leaves."""
    settings = settings_of(bench, n_trees, depth)
    models = trained(bench, settings)
    rows, _ = table_for(bench, n_rows, 28, 2, seed=1)
    actions: dict[str, Action] = {
        name: lambda model=model: model.predict_proba(rows) for name, model in models.items()
    }
    if XGBOOST in models:
        try:
            actions[NVFOREST] = by_nvforest(models[XGBOOST], rows)
        except Exception as error:
            bench.gaps[NVFOREST] = short(error)
    else:
        bench.gaps[NVFOREST] = "needs XGBoost's model"
    for name in list(actions):
        try:
            bench.waiting(actions[name])()  # layouts are made at the first call
        except Exception as error:
            if name == OURS:
                raise
            bench.gaps[name] = short(error)
            del actions[name]
    libraries, _ = bench.contest(actions)
    some = rows[:LEAF_ROWS]
    leaves: Action = lambda: models[OURS].apply(some)  # noqa: E731
    single: Action = lambda: models[OURS].predict_proba(rows[:1])  # noqa: E731
    return {
        "n_rows": rows.shape[0], "n_features": rows.shape[1], "n_trees": settings.n_trees,
        "depth": settings.max_depth, "libraries": libraries,
        "seconds_of_one_row": min(bench.card.seconds(single) for _ in range(5)),
        "leaf_rows": some.shape[0],
        "seconds_of_leaves": min(bench.card.seconds(leaves) for _ in range(2)),
    }  # fmt: skip


def trained(bench: Bench, settings: Settings) -> dict[str, Any]:
    """The models by contestant, trained once for all cases of a process."""
    kept = bench.card.kept
    if settings not in kept:
        X, y = table_for(bench, TRAINING_ROWS, 28, 2)
        models: dict[str, Any] = {}
        for name, (build, _) in builders(bench, "binary").items():
            try:
                models[name] = build(settings).fit(X, y)
            except Exception as error:
                if name == OURS:
                    raise
                bench.gaps[name] = short(error)
        kept[settings] = models, dict(bench.gaps)
    models, gaps = kept[settings]
    bench.gaps.update(gaps)
    return models


def by_nvforest(model: Any, rows: Any) -> Action:
    """nvForest's predictions with a model of XGBoost."""
    if find_spec("nvforest") is None:
        raise ImportError("nvforest is not installed")
    import nvforest

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        model.get_booster().save_model(path)
        loaded = nvforest.load_model(path, model_type="xgboost_ubj", device="gpu")
    return lambda: loaded.predict_proba(rows)
