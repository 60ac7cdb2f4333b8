"""The figures that gpuens asks of itself, and where the results hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One line of the table: what, at most how much, and what was measured."""

    what: str
    at_most: float
    measured: float
    unit: str = ""

    @property
    def reached(self) -> bool:
        return self.measured <= self.at_most


FIT = {
    "1m": {"LightGBM": 0.50, "LightGBM quantised": 0.75, "XGBoost": 0.60, "HistGB": 0.50},
    "covtype": {"LightGBM": 0.80},
}
FIT_AGAINST_BEST = {"100k": 0.60, "10k": 0.60}
BEST_OF = ("LightGBM", "XGBoost", "HistGB")


def fit(record: Record) -> Iterator[Figure]:
    for key, workload in record["results"].items():
        libraries = workload["libraries"]
        for peer, limit in FIT.get(key, {}).items():
            if peer in libraries:
                what = f"train {workload['title']} ÷ {peer}"
                yield Figure(what, limit, libraries[peer]["ratio"])
        if key in FIT_AGAINST_BEST:
            ratios = {name: libraries[name]["ratio"] for name in BEST_OF if name in libraries}
            best = max(ratios, key=lambda name: ratios[name])
            what = f"train {workload['title']} ÷ the fastest ({best})"
            yield Figure(what, FIT_AGAINST_BEST[key], ratios[best])


def predict(record: Record) -> Iterator[Figure]:
    calls = {
        "XGBoost": "XGBoost",
        "XGBoost inplace_predict": "XGBoost's `inplace_predict`",
    }
    for part, limit in (("table", 0.20), ("row", 1.0)):
        shape = record["results"][part]
        rows = "one row" if part == "row" else f"{shape['n_rows']:,} rows"
        for call, text in calls.items():
            if call in shape["libraries"]:
                what = f"predict {rows}, {shape['n_trees']} trees ÷ {text}"
                yield Figure(what, limit, shape["libraries"][call]["ratio"])


def accuracy(record: Record) -> Iterator[Figure]:
    summary = record["results"]["summary"]
    for peer in ("LightGBM", "XGBoost"):
        entry = summary.get(f"same as {peer}", {}).get(peer)
        if entry:
            what = f"loss ÷ {peer}, same settings"
            yield Figure(f"{what}: geometric mean", 1.003, entry["geometric_mean"])
            yield Figure(f"{what}: worst table", 1.03, entry["worst"])
    own = summary.get("defaults", {})
    if own:
        best = max(own, key=lambda peer: own[peer]["geometric_mean"])
        what = f"loss ÷ the best library ({best}), every library's defaults: geometric mean"
        yield Figure(what, 1.0, own[best]["geometric_mean"])


def startup(record: Record) -> Iterator[Figure]:
    medians = record["results"]["medians"]
    settings = record["settings"]
    task = f"first fit, {settings['rows']:,} × 20, {settings['trees']} trees"
    warm, cold = medians.get("gpuens, warm cache"), medians.get("gpuens, cold cache")
    if warm:
        what = f"new process, kernels cached: import + {task}"
        yield Figure(what, 1.5, warm["import + first fit"], "s")
    if cold:
        yield Figure(f"new process, nothing cached: {task}", 12.0, cold["first fit"], "s")


def memory(record: Record) -> Iterator[Figure]:
    rows = record["settings"]["rows"]
    what = f"peak memory beyond the input ÷ the input as float32, {rows:,} × 28"
    yield Figure(what, 1.0, record["results"]["gpuens"]["relative"])


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


def measured_parts(part: dict[str, Any]) -> dict[str, Any]:
    """Without what was missing."""
    return {name: row for name, row in part.items() if name != "gaps" and "gaps" not in row}


def our_error(row: dict[str, Any]) -> float:
    """Our mean error."""
    return fmean(row["errors"]["gpuens"])


FIGURES = {
    "fit": fit,
    "predict": predict,
    "accuracy": accuracy,
    "startup": startup,
    "memory": memory,
    "forests": forests,
    "published": published,
}
