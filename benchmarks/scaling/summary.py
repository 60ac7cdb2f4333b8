"""What the turns and the rungs of ``scaling`` come to: medians, ratios, exponents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from ..common.peers import OURS
from .plan import FIELDS

FROM_ROWS = 100_000
"""Below, what a fit costs at any size blurs the exponent."""
LEAST_POINTS = 3
POWERS = ("rows", "features", "trees")
"""Axes that time may be a power of."""
TIMED = ("fit", "predict", "bin")


def timed(runs: Sequence[float]) -> dict[str, Any]:
    """Runs with their median and their spread, (largest - least) / median."""
    middle = median(runs)
    spread = (max(runs) - min(runs)) / middle if middle else 0.0
    return {"seconds": list(runs), "median": middle, "spread": spread}


def library_part(turns: Sequence[dict[str, Any]], input_bytes: int) -> dict[str, Any]:
    """All turns of one library on one rung."""
    part: dict[str, Any] = {
        name: timed([turn[name] for turn in turns]) for name in TIMED if name in turns[0]
    }
    for name in ("memory", "device_memory"):
        if name in turns[0]:
            runs = [turn[name] for turn in turns]
            part[name] = {"bytes": runs, "peak": max(runs), "relative": max(runs) / input_bytes}
    if "memory_method" in turns[0]:
        part["memory"]["method"] = turns[0]["memory_method"]
    stages = turns[0].get("stages", {})
    if stages:
        part["stages"] = {
            name: timed([turn["stages"][name] for turn in turns if name in turn["stages"]])
            for name in stages
        }
    return part | {name: turns[0][name] for name in ("quality",) if name in turns[0]}


def add_ratios(libraries: dict[str, dict[str, Any]]) -> None:
    """Our median by each other's, beside the others' times."""
    for name in TIMED:
        ours = libraries.get(OURS, {}).get(name)
        for library, part in libraries.items():
            if ours and library != OURS and name in part:
                part[name]["ratio"] = ours["median"] / part[name]["median"]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> dict[str, float] | None:
    """Least squares of log(value) = a + exponent · log(size); None for too few points.

    ``r2`` is the share of the variance that the line explains, ``worst`` the factor by which the
    point farthest from it differs from it.
    """
    if len(sizes) < LEAST_POINTS:
        return None
    x, y = np.log(sizes), np.log(values)
    slope, start = np.polyfit(x, y, 1)
    off = y - (start + slope * x)
    total = float(((y - y.mean()) ** 2).sum())
    return {
        "exponent": float(slope),
        "r2": 1.0 - float((off**2).sum()) / total if total else 1.0,
        "worst": math.exp(float(np.abs(off).max())),
        "from": float(sizes[0]),
        "to": float(sizes[-1]),
        "points": float(len(sizes)),
    }


def exponents(axis: str, rungs: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of time against size, by library and part; for rows from ``FROM_ROWS`` on, none along
    axes that are not in ``POWERS``."""
    if axis not in POWERS:
        return {}
    field = FIELDS[axis]
    found: dict[str, dict[str, Any]] = {}
    large = [rung for rung in rungs if axis != "rows" or rung[field] >= FROM_ROWS]
    for library in names_in(rungs):
        for name in TIMED:
            points = [
                (rung[field], rung["libraries"][library][name]["median"])
                for rung in large
                if name in rung["libraries"].get(library, {})
            ]
            fitted = exponent(*zip(*points, strict=True)) if points else None
            if fitted is not None:
                found.setdefault(library, {})[name] = fitted
    return found


def names_in(rungs: Sequence[dict[str, Any]]) -> list[str]:
    """All libraries that stand on a rung."""
    return list(dict.fromkeys(library for rung in rungs for library in rung["libraries"]))
