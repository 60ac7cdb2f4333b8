"""Figures of gradient boosting on the CPU: speed, memory, a new process, accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .figure import Figure

Record = dict[str, Any]

FIT = {
    "1m": {"LightGBM": 0.50, "LightGBM quantised": 0.75, "XGBoost": 0.60, "HistGB": 0.50},
    "covtype": {"LightGBM": 0.80},
}
FIT_AGAINST_BEST = {"100k": 0.60, "10k": 0.60, "letter": 0.60}
BEST_OF = ("LightGBM", "XGBoost", "HistGB")
LETTER = "letter, 26 classes, 100 rounds"
LETTER_LOSS = 1.01


def fit(record: Record) -> Iterator[Figure]:
    for key, workload in record["results"].items():
        libraries = workload["libraries"]
        for peer, limit in FIT.get(key, {}).items():
            if peer in libraries:
                what = f"train {workload['title']} ÷ {peer}"
                yield Figure(what, limit, libraries[peer]["ratio"])
        ratios = {name: libraries[name]["ratio"] for name in BEST_OF if name in libraries}
        if key in FIT_AGAINST_BEST and ratios:
            best = max(ratios, key=lambda name: ratios[name])
            what = f"train {workload['title']} ÷ the fastest ({best})"
            yield Figure(what, FIT_AGAINST_BEST[key], ratios[best])
        if key == "letter" and "LightGBM" in libraries:
            a, b = (libraries[name]["quality"]["log_loss"] for name in ("gpuens", "LightGBM"))
            yield Figure(f"log loss, {workload['title']} ÷ LightGBM", LETTER_LOSS, a / b)
    if "letter" not in record["results"]:
        limit = FIT_AGAINST_BEST["letter"]
        yield Figure(f"train {LETTER} ÷ the faster of LightGBM and XGBoost", limit, None)
        yield Figure(f"log loss, {LETTER} ÷ LightGBM", LETTER_LOSS, None)


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


def many_fits(record: Record) -> Iterator[Figure]:
    results = record["results"]
    libraries = results["libraries"]
    what = f"{results['n_fits']} fits of {results['title']} at once ÷ "
    if "LightGBM" in libraries:
        yield Figure(f"{what}LightGBM one by one", 0.30, libraries["LightGBM"]["ratio"])


def accuracy(record: Record) -> Iterator[Figure]:
    summary = record["results"].get("summary", {})
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
