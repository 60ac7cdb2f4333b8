"""Figures of AdaBoost, losses, categories, stacks, inspection, and growth with the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .figure import Figure, measured_parts

Record = dict[str, Any]

ADABOOST_ERRORS = {"stumps": 6.5, "trees of 16 leaves": 5.3}
LOSSES = {"huber": 0.313, "spambase": 4.9, "exposure": 1.005}
CATEGORIES = 1.01


def adaboost(record: Record) -> Iterator[Figure]:
    results = measured_parts(record["results"])
    if "stumps" in results:
        part = results["stumps"]
        what = f"train {part['n_rounds']} stumps of AdaBoost, {part['title']} ÷ scikit-learn"
        yield Figure(what, 0.05, part["libraries"]["scikit-learn"]["ratio"])
    for kind, errors in results.get("spambase", {}).get("errors", {}).items():
        what = f"spambase, AdaBoost with {kind}: test error"
        yield Figure(what, ADABOOST_ERRORS.get(kind), errors["gpuens"], "%")
    if "chi_squared" in results:
        means = results["chi_squared"]["means"]
        what = "ten-dimensional χ², AdaBoost: error beside scikit-learn's, difference"
        yield Figure(what, 0.5, abs(means["gpuens"] - means["scikit-learn"]), "points")
    equal = results.get("identity", {}).get("equal")
    if equal:
        what = f"kinds of AdaBoost, of {len(equal)}, that depend on the number of threads"
        yield Figure(what, 0, list(equal.values()).count(False))


def losses(record: Record) -> Iterator[Figure]:
    results = measured_parts(record["results"])
    if "huber" in results:
        what = "California housing, Huber loss: mean absolute error"
        yield Figure(what, LOSSES["huber"], results["huber"]["mean"])
    if "spambase" in results:
        what = "spambase, gradient boosting: test error"
        yield Figure(what, LOSSES["spambase"], results["spambase"]["mean"], "%")
    for name, ratio in results.get("exposure", {}).get("ratios", {}).items():
        what = f"claims per exposure, Poisson deviance ÷ LightGBM, {name}"
        yield Figure(what, LOSSES["exposure"], ratio)


def categories(record: Record) -> Iterator[Figure]:
    for table, ratios in record["results"]["ratios"].items():
        if "LightGBM" in ratios:
            what = f"{table}, categories as such: log loss ÷ LightGBM"
            yield Figure(what, CATEGORIES, ratios["LightGBM"])


def stacking(record: Record) -> Iterator[Figure]:
    for table, part in measured_parts(record["results"]).items():
        what = f"{table}: log loss of a stack ÷ its best member ({part['best']})"
        yield Figure(what, 1.0, part["ratios"]["stack"], below=True)


def inspection(record: Record) -> Iterator[Figure]:
    results = measured_parts(record["results"])
    part = results.get("partial_dependence", {})
    for name in ("one feature", "two features"):
        if name in part:
            what = (
                f"partial dependence, {name}, {part['n_trees']} trees ÷ scikit-learn's brute force"
            )
            ratio = part[name]["libraries"]["scikit-learn, brute force"]["ratio"]
            yield Figure(what, 0.05, ratio)
    if "diversity" in results:
        part = results["diversity"]
        what = f"all pairwise diversities of {part['n_models']} models, {part['n_rows']:,} rows"
        yield Figure(what, 2.0, part["median"], "s")


def scaling(record: Record) -> Iterator[Figure]:
    ladder = record["results"]["axes"]["rows"]
    fitted = ladder["exponents"].get("gpuens", {}).get("fit")
    sizes = f"{fitted['from']:,.0f} → {fitted['to']:,.0f} rows" if fitted else "100k → 10M rows"
    slope = fitted["exponent"] if fitted else None
    yield Figure(f"exponent of the time to train, {sizes}", 1.02, slope)
    tops = [rung for rung in ladder["rungs"] if "memory" in rung["libraries"].get("gpuens", {})]
    if tops:
        top = max(tops, key=lambda rung: rung["n_rows"])
        what = f"peak memory beyond the input ÷ the input as float32, {top['n_rows']:,} rows"
        yield Figure(what, 1.0, top["libraries"]["gpuens"]["memory"]["relative"])
