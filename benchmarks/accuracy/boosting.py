"""Gradient boosting beside LightGBM, XGBoost, HistGradientBoosting and CatBoost on real tables.

same settings as LightGBM
    31 leaves, at least 20 rows and a hessian of 1e-3 a leaf, lambda = 0, rate 0.1, 100 trees.
same settings as XGBoost
    Leaf-wise to 31 leaves, lambda = 1, hessian of 1 a leaf, no least number of rows, rate 0.1,
    100 trees, 255 bins. With K > 2 classes XGBoost's hessian is 2 p (1 - p), that of gpuens (and
    LightGBM) K / (K - 1) p (1 - p). The least hessian, lambda and the rate of gpuens are therefore
    multiplied by K / (K - 1) / 2, which makes the two models the same in exact arithmetic.
DART, the settings
    Those of LightGBM, with a tenth of the rounds left out in every second round, all with the same
    chance and weighed as XGBoost weighs them.
linear leaves, the settings
    Those of LightGBM, with linear functions in the leaves and no penalty on their coefficients.
equal rounds, numeric codes
    100 trees without early stopping, categories as numbers, everything else as each library has it.
    These are no library's defaults: CatBoost, for one, has 1,000 rounds and reads categories.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss, root_mean_squared_error

from ..common import peers
from ..common.peers import OURS, GapError, say_skipped
from ..common.program import Options
from ..common.tables import Table, load_table

TABLES = (
    "spambase", "adult", "higgs_lightgbm", "covtype_first20k", "covtype_shares",
    "california_housing", "bike",
)  # fmt: skip
"""Categories are used as numbers."""
EQUAL_ROUNDS = "equal rounds, numeric codes"
EVERYONE = (OURS, "LightGBM", "XGBoost", "HistGB", "CatBoost")

DART = {
    OURS: {"dropout": 0.1, "skip_dropout": 0.5, "max_drop": 50},
    "LightGBM": {
        "boosting_type": "dart", "drop_rate": 0.1, "skip_drop": 0.5, "max_drop": 50,
        "uniform_drop": True, "xgboost_dart_mode": True,
    },
}  # fmt: skip
LINEAR = {OURS: {"linear_leaves": True}, "LightGBM": {"linear_tree": True}}


class Fit(NamedTuple):
    """A library, its settings, and further ones by its own names."""

    library: str
    settings: peers.Settings
    more: Mapping[str, Any] = MappingProxyType({})


Losses = dict[str, dict[str, list[float]]]


def comparisons(table: Table, n_trees: int, threads: int, seed: int) -> dict[str, dict[str, Fit]]:
    """Return which libraries are trained with which settings, for each comparison."""
    k = table.n_classes
    lgb = peers.Settings(n_trees, 31, threads=threads, seed=seed)
    xgb = replace(lgb, min_samples_leaf=1, min_sum_hessian=1.0, l2=1.0)
    half = k / (k - 1) / 2 if k > 2 else 1.0
    ours = replace(xgb, min_sum_hessian=half, l2=half, learning_rate=0.1 * half)
    own = replace(peers.untouched(threads, seed), n_trees=n_trees)
    return {
        "same as LightGBM": {OURS: Fit(OURS, lgb), "LightGBM": Fit("LightGBM", lgb)},
        "same as XGBoost": {OURS: Fit(OURS, ours), "XGBoost": Fit("XGBoost", xgb)},
        "DART, the settings": {library: Fit(library, lgb, DART[library]) for library in DART},
        "linear leaves, the settings": {
            library: Fit(library, lgb, LINEAR[library]) for library in LINEAR
        },
        EQUAL_ROUNDS: {library: Fit(library, own) for library in EVERYONE},
    }


def loss_of(table: Table, fit: Fit, seed: int) -> float:
    """Return the log loss or RMSE on the held-out quarter."""
    X, X_test, y, y_test = table.split(seed)
    model = peers.estimator(fit.library, table.task, fit.settings, **fit.more).fit(X, y)
    if table.task == "regression":
        return float(root_mean_squared_error(y_test, model.predict(X_test)))
    p = peers.probabilities(model, X_test)
    return float(log_loss(y_test, p, labels=np.arange(table.n_classes)))


def measure(table: Table, options: Options, libraries: Sequence[str]) -> dict[str, Any]:
    """Return all losses on one table: comparison, library, one value for each seed. A library that
    fails is named in ``gaps`` and left out of its comparison."""
    losses: Losses = {}
    gaps: list[str] = []
    plans = [
        comparisons(table, options.trees, options.threads, seed) for seed in range(options.seeds)
    ]
    for comparison in plans[0]:
        for name in [name for name in plans[0][comparison] if name in libraries]:
            try:
                runs = [loss_of(table, fits[comparison][name], i) for i, fits in enumerate(plans)]
                losses.setdefault(comparison, {})[name] = runs
            except Exception as error:
                gap = GapError(f"{name} on {table.name} ({comparison}): {error}")
                gaps.append(say_skipped(gap))
    return {"losses": losses, "gaps": gaps}


def measure_all(options: Options) -> dict[str, Any]:
    """Make the comparisons on every table."""
    libraries = peers.installed(EVERYONE)
    losses: dict[str, Losses] = {}
    gaps: list[str] = []
    for name in [name for name in TABLES if name in options.only]:
        try:
            table = load_table(options.data, name, options.rows)
        except GapError as gap:
            gaps.append(say_skipped(gap))
            continue
        print(f"gradient boosting: {name}", flush=True)
        found = measure(table, options, libraries)
        losses[name] = found["losses"]
        gaps += found["gaps"]
    return {"losses": losses, "summary": summary(losses), "gaps": gaps}


def summary(losses: dict[str, Losses]) -> dict[str, Any]:
    """Return our loss relative to each peer's, by comparison, by table and over all tables."""
    together: dict[str, Any] = {}
    for table, by_comparison in losses.items():
        for comparison, runs in by_comparison.items():
            for peer in [name for name in runs if name != OURS and OURS in runs]:
                ratio = float(np.mean(runs[OURS]) / np.mean(runs[peer]))
                entry = together.setdefault(comparison, {}).setdefault(peer, {"ratios": {}})
                entry["ratios"][table] = ratio
    for by_peer in together.values():
        for entry in by_peer.values():
            ratios = list(entry["ratios"].values())
            entry["geometric_mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
            entry["worst"] = max(ratios)
    return together
