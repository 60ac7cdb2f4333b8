"""The figures that gpuens asks of itself, and where the results hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .figure import Figure, measured_parts, our_error
from .figures_boosting import accuracy, fit, many_fits, memory, predict, startup
from .figures_gpu import NOT_RUN, gpu
from .figures_variants import adaboost, categories, inspection, losses, scaling, stacking

__all__ = ["FIGURES", "NOT_RUN", "Figure", "forests", "gpu", "published"]

Record = dict[str, Any]

FOREST_TIMES = {"depth_14": 0.12, "to_purity": 0.30, "predict": 0.20, "single_tree": 1.0}
FOREST_WORK = {
    "depth_14": "train a forest of depth 14",
    "to_purity": "train a forest to purity",
    "predict": "predict with deep trees",
    "single_tree": "train one exact tree",
}


def forests(record: Record) -> Iterator[Figure]:
    results = record["results"]
    for part, limit in FOREST_TIMES.items():
        libraries = results.get(part, {}).get("libraries")
        if not libraries:
            continue
        trees = f", {results[part]['n_trees']} trees" if results[part]["n_trees"] > 1 else ""
        what = f"{FOREST_WORK[part]}, {results[part]['title']}{trees}"
        yield Figure(f"{what} ÷ scikit-learn", limit, libraries["scikit-learn"]["ratio"])
        a, b = (libraries[name].get("quality", {}) for name in ("gpuens", "scikit-learn"))
        if "auc" in a:
            yield Figure(f"{what}: AUC below scikit-learn's", 0.001, b["auc"] - a["auc"])
        if "accuracy" in a:
            points = 100 * (b["accuracy"] - a["accuracy"])
            yield Figure(f"{what}: accuracy below scikit-learn's", 0.3, points, "points")
        if "same" in results[part]:
            different = results[part]["same"]["different"]
            yield Figure(f"{what}: nodes unlike scikit-learn's, ties apart", 0, different)
    equal = results.get("identity", {}).get("equal")
    if equal:
        what = f"kinds of trees and forests, of {len(equal)}, that depend on the number of threads"
        yield Figure(what, 0, list(equal.values()).count(False))


def published(record: Record) -> Iterator[Figure]:
    results = {name: measured_parts(part) for name, part in record["results"].items()}
    for what, row in results.get("spambase", {}).items():
        yield Figure(f"spambase, {what}: test error", row["asked"], our_error(row), "%")
    for table, kinds in results.get("protocol", {}).items():
        worst = max(
            min(abs(our_error(row) - value) for value in row["published"]) for row in kinds.values()
        )
        yield Figure(f"{table}: error beside the published ones, difference", 2.0, worst, "points")
    for table, rows in results.get("out_of_bag", {}).items():
        gap = abs(our_error(rows["out of bag"]) - our_error(rows["test"]))
        yield Figure(f"{table}: out-of-bag error beside test error, difference", 1.0, gap, "points")


FIGURES: dict[str, Callable[[Record], Iterator[Figure]]] = {
    "fit": fit,
    "predict": predict,
    "many_fits": many_fits,
    "startup": startup,
    "memory": memory,
    "accuracy": accuracy,
    "forests": forests,
    "published": published,
    "adaboost": adaboost,
    "losses": losses,
    "categories": categories,
    "stacking": stacking,
    "inspection": inspection,
    "scaling": scaling,
}
"""By the program that measures them. Those of GPUs stand in ``figures_gpu``."""
