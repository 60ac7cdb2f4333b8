"""Training on the card: rows, depths, features, classes, and memory; beside the other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from gpuens import memory_plan
from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common import peers
from .bench import ON_CPU, OURS, Bench, short
from .contestants import ours, settings_of, training

TEST_ROWS = 500_000
BYTES_A_CELL, BYTES_A_ROW = 3, 40
"""What training may take beside the table."""


def table_for(bench: Bench, n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> Any:
    """A table in the card's memory."""
    n, n_features = bench.rows(n_rows), bench.features(n_features)
    if n_classes == 7 and not bench.rehearsal:
        return bench.card.table(make_covtype_like, n, seed)
    X, y = bench.card.table(make_higgs_like, n, n_features, seed)
    return (X, y) if n_classes == 2 else (X, many_classes(bench, X, y, n_classes))


def many_classes(bench: Bench, X: Any, y: Any, n_classes: int) -> Any:
    """A target of many classes, of which all occur in every short table: cells of two features,
    half of them moved by ``y``."""
    xp = bench.card.cupy
    cells = xp.floor((xp.tanh(X[:, 0]) + 1) * n_classes / 4).astype(np.int64)
    cells = 2 * cells + y + (xp.abs(X[:, 2]) > 1)
    known = xp.arange(len(y)) % (4 * n_classes)
    return xp.where(known < n_classes, known, cells % n_classes)


def fit(
    bench: Bench, n_rows: int, n_features: int = 28, n_classes: int = 2, n_trees: int = 100,
    depth: int = 6, repeats: int | None = None, others: bool = False, with_quality: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Times of one table's training, and quality on fresh rows."""
    n_classes = bench.classes(n_classes)
    X, y = table_for(bench, n_rows, n_features, n_classes)
    task: peers.Task = "binary" if n_classes == 2 else "multiclass"
    settings = settings_of(bench, n_trees, depth)
    result: dict[str, Any] = {
        "n_rows": X.shape[0], "n_features": X.shape[1], "n_classes": n_classes,
        "n_trees": settings.n_trees, "depth": settings.max_depth,
        "table_bytes": int(X.nbytes + y.nbytes),
    }  # fmt: skip
    actions = training(bench, task, X, y, settings, others)
    result["libraries"], models = bench.contest(actions, repeats)
    result["fingerprint"] = models[OURS].forest_.fingerprint()
    result["ms_a_tree"] = 1e3 * result["libraries"][OURS]["median"] / settings.n_trees
    if with_quality:
        test = table_for(bench, min(TEST_ROWS, n_rows), n_features, n_classes, seed=1)
        for name, model in models.items():
            try:
                result["libraries"][name]["quality"] = quality(bench, model, *test, n_classes)
            except Exception as error:
                bench.gaps[f"quality of {name}"] = short(error)
    return result


def quality(bench: Bench, model: Any, X: Any, y: Any, n_classes: int) -> dict[str, float]:
    """AUC of two classes, log loss of more."""
    if not hasattr(model, "predict_proba"):  # Py-Boost: its predictions are probabilities
        p = np.asarray(model.predict(X), np.float64)
        p = np.column_stack([1 - p, p]) if p.shape[-1] == 1 else p
    else:
        own = type(model).__module__.startswith("catboost")
        p = np.asarray(bench.card.get(model.predict_proba(bench.card.get(X) if own else X)))
    p = p.astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    truth = bench.card.get(y)
    if n_classes == 2:
        return {"auc": float(roc_auc_score(truth, p[:, 1]))}
    return {"log_loss": float(log_loss(truth, p, labels=np.arange(p.shape[1])))}


def memory(bench: Bench, n_rows: int, n_features: int = 28) -> dict[str, Any]:
    """The most memory that a training takes beside its table, and what the plan foresaw."""
    X, y = table_for(bench, n_rows, n_features, 2)
    settings = settings_of(bench, 3, 8)
    model = ours("binary")(settings)
    model.fit(X[:4096], y[:4096])
    plan = memory_plan(model, X, y).total
    found = bench.card.peak_bytes(lambda: model.fit(X, y))
    asked = BYTES_A_CELL * X.shape[0] * X.shape[1] + BYTES_A_ROW * X.shape[0]
    return {
        "n_rows": X.shape[0], "n_features": X.shape[1], "depth": settings.max_depth,
        "bytes": found, "planned_bytes": int(plan), "asked_bytes": asked, "ratio": found / asked,
        "bytes_a_row": found / X.shape[0],
    }  # fmt: skip


def cores(bench: Bench, n_rows: int, n_trees: int = 100) -> dict[str, Any]:
    """The same training on the card and on all cores of the host, each with the table in its own
    memory; the models must be the same."""
    X, y = table_for(bench, n_rows, 28, 2)
    host = bench.card.get(X), bench.card.get(y)
    settings = settings_of(bench, n_trees, 6)
    there, here = ours("binary"), ours("binary", "cpu")
    for build, data in ((there, (X, y)), (here, host)):
        build(settings).fit(data[0][:4096], data[1][:4096])
    actions = {
        OURS: lambda: there(settings).fit(X, y),
        ON_CPU: lambda: here(settings).fit(*host),
    }
    libraries, models = bench.contest(actions)
    marks = [model.forest_.fingerprint() for model in models.values()]
    return {
        "n_rows": X.shape[0], "n_features": X.shape[1], "n_trees": settings.n_trees, "depth": 6,
        "threads": bench.threads, "libraries": libraries,
        "identical_to_cpu": len(marks) == 2 and marks[0] == marks[1],
    }  # fmt: skip
