"""Figures of GPUs, which stand in the report whether or not they have been measured.

``gpu_check`` and what else runs on a card write each under its key into ``results["figures"]`` of
a result named ``gpu``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .figure import Figure

NOT_RUN = "not run on hardware"

ASKED: dict[str, tuple[str, float | None, str]] = {
    "fit_11m": ("train 11M × 28, depth 8, 100 trees ÷ XGBoost", 0.5, ""),
    "fit_11m_auc": ("train 11M × 28, depth 8, 100 trees: AUC below XGBoost's", 0.0005, ""),
    "fit_100k": ("train 100k × 28, depth 6, 100 trees ÷ XGBoost", 0.7, ""),
    "fit_100k_tree": ("train 100k × 28, depth 6: a tree", 1.5, "ms"),
    "fit_covtype": ("train 500k × 54, 7 classes, 100 rounds ÷ XGBoost", 0.4, ""),
    "forest_covtype": ("train a forest, 465k × 54, 100 trees of depth 30 ÷ cuML", 0.8, ""),
    "predict_1m_xgboost": ("predict 1M rows, 500 trees of depth 8 ÷ XGBoost", 0.5, ""),
    "predict_10m_xgboost": ("predict 10M rows, 500 trees of depth 8 ÷ XGBoost", 0.5, ""),
    "predict_1m_nvforest": ("predict 1M rows, 500 trees of depth 8 ÷ nvForest", 1.0, ""),
    "predict_10m_nvforest": ("predict 10M rows, 500 trees of depth 8 ÷ nvForest", 1.0, ""),
    "many_fits": ("50 fits of 10k × 20, 100 trees, at once ÷ XGBoost one by one", 0.1, ""),
    "exponent": ("exponent of the time to train, 1M → 100M rows", 1.02, ""),
    "memory": ("peak memory of training ÷ (3 bytes a cell and 40 a row)", 1.0, ""),
    "different_models": ("models that differ between CPU and GPU", 0, ""),
    "cores_16": ("train 1M × 28 on the GPU ÷ on 16 CPU cores", None, ""),
    "pays_from": ("rows from which on the GPU trains faster than all CPU cores", None, "rows"),
}
"""By key: what, at most how much, and the unit."""


def gpu(record: dict[str, Any] | None) -> Iterator[Figure]:
    """All of them; without a record none has been measured."""
    results = record["results"] if record else {}
    measured = dict(results.get("figures", {}))
    same = [
        part["identical_to_cpu"] for part in results.get("fit", []) if "identical_to_cpu" in part
    ]
    if same:
        measured.setdefault("different_models", same.count(False))
    for key, (what, at_most, unit) in ASKED.items():
        yield Figure(what, at_most, measured.get(key), unit, NOT_RUN)
