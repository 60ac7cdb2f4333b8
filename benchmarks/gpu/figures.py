"""The figures asked of the card, computed from what ``gpu_check`` has found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..report.figure import Figure
from ..report.figures_gpu import ASKED
from .bench import ON_CPU, OURS, XGBOOST
from .plan import HUNDRED

Parts = dict[str, Any]
OF_LAUNCHES = "launches, "


def cases_of(parts: Parts, name: str) -> dict[str, Any]:
    """The results of a part, by case."""
    return parts.get(name, {}).get("cases", {})


def ratio(parts: Parts, part: str, case: str, other: str) -> float | None:
    """Our median by another's."""
    libraries = cases_of(parts, part).get(case, {}).get("libraries", {})
    return libraries.get(other, {}).get("ratio")


def auc_below(parts: Parts, case: str) -> float | None:
    """How much our AUC is below XGBoost's."""
    libraries = cases_of(parts, "fit").get(case, {}).get("libraries", {})
    found = [libraries.get(name, {}).get("quality", {}).get("auc") for name in (XGBOOST, OURS)]
    return None if None in found else found[0] - found[1]


def ladder(parts: Parts, name: str = OURS) -> list[tuple[int, float]]:
    """Rows and median seconds of the trainings with 20 trees."""
    found = [
        (row["n_rows"], row["libraries"][name]["median"])
        for case, row in cases_of(parts, "fit").items()
        if case.endswith(", 20 trees") and name in row["libraries"]
    ]
    return sorted(found)


def slope(points: list[tuple[int, float]]) -> float | None:
    """Of the logarithm of the seconds against that of the rows, by least squares."""
    if len({n for n, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def exponent(parts: Parts) -> float | None:
    """From a million rows to a hundred million; None if those were dropped."""
    return slope(ladder(parts)) if HUNDRED in cases_of(parts, "fit") else None


def ms_a_tree(parts: Parts) -> float | None:
    return cases_of(parts, "fit").get("100k × 28", {}).get("ms_a_tree")


def memory(parts: Parts) -> float | None:
    return cases_of(parts, "fit").get("memory, 11M × 28", {}).get("ratio")


def different(parts: Parts) -> float | None:
    """Models that were not the same; None if none was compared."""
    kinds = ("same_model", "identical_to_cpu")
    compared = [
        result[kind]
        for part in parts.values()
        for result in part["cases"].values()
        for kind in kinds
        if kind in result
    ]
    return float(compared.count(False)) if compared else None


def by_cores(parts: Parts) -> list[tuple[int, float]]:
    """Rows, and the card's time by that of all cores."""
    rows = cases_of(parts, "cores").values()
    return sorted(
        (row["n_rows"], row["libraries"][ON_CPU]["ratio"])
        for row in rows
        if ON_CPU in row["libraries"]
    )


def of_cores(parts: Parts) -> float | None:
    return ratio(parts, "cores", "1,000,000 × 28", ON_CPU)


def pays_from(parts: Parts) -> float | None:
    """Rows from which on the card is faster than all cores: between two tables by the
    logarithms; the smallest table if it is faster everywhere, None if nowhere at the end."""
    points = by_cores(parts)
    if not points or points[-1][1] > 1:
        return None
    for (n, r), (more, less) in zip(points[-2::-1], points[:0:-1], strict=True):
        if r > 1:
            share = math.log(r) / (math.log(r) - math.log(less))
            return math.exp(math.log(n) + share * (math.log(more) - math.log(n)))
    return float(points[0][0])


COMPUTE: dict[str, Callable[[Parts], float | None]] = {
    "fit_11m": lambda parts: ratio(parts, "fit", "11M × 28, depth 8", XGBOOST),
    "fit_11m_auc": lambda parts: auc_below(parts, "11M × 28, depth 8"),
    "fit_100k": lambda parts: ratio(parts, "fit", "100k × 28", XGBOOST),
    "fit_100k_tree": ms_a_tree,
    "fit_covtype": lambda parts: ratio(parts, "fit", "500k × 54, 7 classes", XGBOOST),
    "forest_covtype": lambda parts: ratio(
        parts, "forests", "465k × 54, 100 trees, depth 30", "cuML"
    ),
    "predict_1m_xgboost": lambda parts: ratio(parts, "predict", "1M × 28", XGBOOST),
    "predict_10m_xgboost": lambda parts: ratio(parts, "predict", "10M × 28", XGBOOST),
    "predict_1m_nvforest": lambda parts: ratio(parts, "predict", "1M × 28", "nvForest"),
    "predict_10m_nvforest": lambda parts: ratio(parts, "predict", "10M × 28", "nvForest"),
    "many_fits": lambda parts: ratio(parts, "small", "50 × 10k × 20", XGBOOST),
    "exponent": exponent,
    "memory": memory,
    "different_models": different,
    "cores_16": of_cores,
    "pays_from": pays_from,
}
"""By the keys of ``figures_gpu.ASKED``."""


def figures_of(parts: Parts) -> tuple[dict[str, float], dict[str, Any]]:
    """The figures that were measured, and what is told beside them."""
    figures = {key: compute(parts) for key, compute in COMPUTE.items()}
    told: dict[str, Any] = {
        "ladder": {name: ladder(parts, name) for name in (OURS, XGBOOST)},
        "exponent_of_what_was_measured": slope(ladder(parts)),
        "exponent_of_xgboost": slope(ladder(parts, XGBOOST)),
        "card_by_cores": by_cores(parts),
        "launches": launches(parts),
    }
    return {key: value for key, value in figures.items() if value is not None}, told


def launches(parts: Parts) -> dict[str, Any]:
    """Milliseconds a tree by variant and table, and whether all grew the same trees."""
    times: dict[str, dict[str, float]] = {}
    marks: dict[str, set[str]] = {}
    for name in parts:
        if name.startswith(OF_LAUNCHES):
            for case, row in cases_of(parts, name).items():
                times.setdefault(row["variant"], {})[case] = row["ms_a_tree"]
                marks.setdefault(case, set()).add(row["fingerprint"])
    return {"ms_a_tree": times, "same_models": {c: len(m) == 1 for c, m in marks.items()}}


def asked_and_measured(figures: dict[str, float]) -> Iterator[Figure]:
    """All figures, those of this program that nobody asks anything of included."""
    for key in COMPUTE:
        what, at_most, unit = ASKED.get(key, (key, None, ""))
        yield Figure(what, at_most, figures.get(key), unit)
