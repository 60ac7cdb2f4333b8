"""LambdaMART beside LightGBM and XGBoost at the same settings."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from gpuens.ranking_metrics import NDCG

from ..common.peers import OURS
from ..common.program import Options, Results
from ..common.tables import load
from .values import Values, add, cpu_seconds, present

RANKS = (1, 3, 5, 10)
DOCUMENTS = 100
"""Size of a query that is generated."""
SHARE, LEAVES, TRUNCATION = 0.8, 31, 30


def rankers(options: Options, share: float, seed: int) -> dict[str, Any]:
    """Return a LambdaMART of each installed library, not fitted."""
    shared = {
        "n_estimators": options.rounds, "learning_rate": 0.1, "subsample": share,
        "colsample_bytree": share, "n_jobs": options.threads, "random_state": seed,
    }  # fmt: skip
    own: dict[str, tuple[str, dict[str, Any]]] = present({
        OURS: ("gpuens.GradientBoostingRanker", {
            "max_leaf_nodes": LEAVES, "min_samples_leaf": 20, "device": "cpu",
        }),
        "LightGBM": ("lightgbm.LGBMRanker", {
            "num_leaves": LEAVES, "min_child_samples": 20, "reg_lambda": 1.0, "subsample_freq": 1,
            "lambdarank_truncation_level": TRUNCATION, "verbose": -1,
        }),
        "XGBoost": ("xgboost.XGBRanker", {
            "objective": "rank:ndcg", "max_leaves": LEAVES, "max_depth": 0, "reg_lambda": 1.0,
            "grow_policy": "lossguide", "tree_method": "hist", "min_child_weight": 1e-3,
            "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": TRUNCATION,
        }),
    })  # fmt: skip
    found = {}
    for library, (path, more) in own.items():
        module, _, name = path.partition(".")
        found[library] = getattr(import_module(module), name)(**shared, **more)
    return found


def ranking(options: Options) -> Results:
    """Measure NDCG on LightGBM's example, and fits of generated documents."""
    table = load(options.data, "lambdarank_lightgbm")
    sizes, X, y = table["group_sizes"], table["X"], table["y"]
    query = np.repeat(np.arange(sizes.size), sizes)
    official = table["is_test"].astype(bool)[np.cumsum(sizes) - 1]
    found: dict[str, Values] = {"official split": {}, "five folds": {}}

    def ndcg(is_test: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """Return NDCG by test query and rank, of models that are fitted to the other queries."""
        test = is_test[query]
        parts = {}
        for library, model in rankers(options, SHARE, seed).items():
            model.fit(X[~test], y[~test], group=sizes[~is_test])
            ends = np.cumsum(sizes[is_test])[:-1]
            pairs = zip(
                np.split(y[test], ends), np.split(model.predict(X[test]), ends), strict=True
            )
            parts[library] = np.array([[NDCG(k)(a, b, group=[a.size]) for k in RANKS]
                                       for a, b in pairs])  # fmt: skip
        return parts

    def keep(name: str, runs: list[dict[str, np.ndarray]]) -> None:
        """Add the means of NDCG over all queries that were tested in some runs."""
        for library in runs[0]:
            means = np.concatenate([run[library] for run in runs]).mean(axis=0)
            ranks = {f"NDCG@{k}": mean for k, mean in zip(RANKS, means, strict=True)}
            add(found[name], library, **ranks, **{"mean NDCG": means.mean()})

    for seed in range(options.seeds):
        keep("official split", [ndcg(official, seed)])
    for repeat in range(options.folds):
        folds = KFold(5, shuffle=True, random_state=repeat).split(sizes)
        chosen = [np.isin(np.arange(sizes.size), part) for _, part in folds]
        keep("five folds", [ndcg(part, 5 * repeat + k) for k, part in enumerate(chosen)])
    return {**found, "generated documents": speed_of_rankings(options)}


def speed_of_rankings(options: Options) -> Values:
    """Return CPU seconds of fits of generated documents with relevances from 0 to 4."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(options.queries * DOCUMENTS, 20)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.sin(3.0 * X[:, 3]) + rng.normal(size=len(X))
    y = np.digitize(score, np.quantile(score, [0.5, 0.75, 0.9, 0.97]))
    sizes = np.full(options.queries, DOCUMENTS)
    values: Values = {}
    for library, model in rankers(options, 1.0, 0).items():
        model.fit(X[:DOCUMENTS], y[:DOCUMENTS], group=sizes[:1])
        for _ in range(options.repeats):
            taken, _ = cpu_seconds(partial(model.fit, X, y, group=sizes))
            add(values, library, cpu=taken)
    return values
