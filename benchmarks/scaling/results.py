"""The results of ``scaling``: medians, ratios, exponents, tables, goals, pictures."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from ..common import pictures
from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.peers import OURS
from ..common.program import Content
from .plan import FIELDS, short

FROM_ROWS = 100_000
"""Below, what a fit costs at any size blurs the exponent."""
LEAST_POINTS = 3
POWERS = ("rows", "features", "trees")
"""Axes that time may be a power of."""
TIMED = ("fit", "predict", "bin")


def timed(runs: Sequence[float]) -> dict[str, Any]:
    """Return runs with their median and their spread, (largest - least) / median."""
    middle = median(runs)
    spread = (max(runs) - min(runs)) / middle if middle else 0.0
    return {"seconds": list(runs), "median": middle, "spread": spread}


def library_part(turns: Sequence[dict[str, Any]], input_bytes: int) -> dict[str, Any]:
    """Return all turns of one library on one rung."""
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
    """Add the ratio of our median to each other library's."""
    for name in TIMED:
        ours = libraries.get(OURS, {}).get(name)
        for library, part in libraries.items():
            if ours and library != OURS and name in part:
                part[name]["ratio"] = ours["median"] / part[name]["median"]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> dict[str, float] | None:
    """Fit log(value) = a + exponent · log(size) by least squares; None for too few points.

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
    """Return those of time against size, by library and part.

    For rows from ``FROM_ROWS`` on; none along axes that are not in ``POWERS``.
    """
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
    """Return all libraries that were measured on a rung."""
    return list(dict.fromkeys(library for rung in rungs for library in rung["libraries"]))


HEADS = {
    "fit": "seconds to train", "predict": "seconds to predict", "bin": "seconds to bin",
    "memory": "peak MB beyond the input (÷ the input as float32)",
    "device_memory": "peak MB of the GPU beyond the input (÷ the input as float32)",
}  # fmt: skip


def size_of(axis: str, rung: dict[str, Any]) -> str:
    """A rung's place on its axis, in words."""
    value = rung[FIELDS[axis]]
    return short(value) if axis == "rows" else str(value)


def cells_of(rungs: Sequence[dict[str, Any]], rung: dict[str, Any], name: str) -> dict[str, str]:
    """Return the cells of a rung in the table of one part."""
    cells = {}
    for library in names_in(rungs):
        part = rung["libraries"].get(library, {})
        missing = "–" if library in rung.get("missing", {}) else ""
        cells[library] = cell(name, part[name]) if name in part else missing
    return cells


def cell(name: str, part: dict[str, Any]) -> str:
    """Return a median with its spread, or memory relative to the input."""
    if name in TIMED:
        around = f" ± {50 * part['spread']:.0f} %" if len(part["seconds"]) > 1 else ""
        return f"{part['median']:.3g}{around}"
    return f"{part['peak'] / 1e6:.4g} ({part['relative']:.3f})"


def show(content: Content) -> Iterator[str]:
    """Yield times, memory, exponents and operations along each axis."""
    for axis, ladder in content["results"]["axes"].items():
        rungs = ladder["rungs"]
        for name, head in HEADS.items():
            if any(name in part for rung in rungs for part in rung["libraries"].values()):
                yield pivot(f"{head}, by {axis} ({ladder['title']})", {
                    size_of(axis, rung): cells_of(rungs, rung, name) for rung in rungs
                })  # fmt: skip
        yield pivot(f"exponent of time against {axis}", {
            f"{library}, {name}": {
                "exponent": f"{fit['exponent']:.3f}", "R²": f"{fit['r2']:.4f}",
                "worst point ÷ line": f"{fit['worst']:.2f}",
                axis: f"{short(int(fit['from']))} … {short(int(fit['to']))}",
            }
            for library, by_name in ladder["exponents"].items()
            for name, fit in by_name.items()
        })  # fmt: skip
        for library in names_in(rungs):
            yield pivot(f"milliseconds of the operations of {library}, at a root, by {axis}", {
                size_of(axis, rung): {
                    name: f"{1000 * part['median']:.3g}"
                    for name, part in rung["libraries"][library]["stages"].items()
                }
                for rung in rungs
                if "stages" in rung["libraries"].get(library, {})
            })  # fmt: skip


def markdown(content: Content) -> str:
    """Return everything: tables, exponents, gaps."""
    results = content["results"]
    parts = [f"# {results['title']}", *filter(None, show(content))]
    if results["gaps"]:
        parts.append("Not measured:\n\n" + "\n".join(f"- {gap}" for gap in results["gaps"]))
    parts.append("Medians ± half the range of the runs. – stands where a library has a gap.")
    return "\n\n".join(parts) + "\n"


def goals(content: Content) -> Iterator[Goal]:
    ladder = content["results"]["axes"]["rows"]
    fitted = ladder["exponents"].get(OURS, {}).get("fit")
    sizes = f"{fitted['from']:,.0f} to {fitted['to']:,.0f} rows" if fitted else "100k to 10M rows"
    slope = fitted["exponent"] if fitted else None
    yield Goal(f"the exponent of the time to train, from {sizes},", 1.02, slope)
    tops = [rung for rung in ladder["rungs"] if "memory" in rung["libraries"].get(OURS, {})]
    if tops:
        top = max(tops, key=lambda rung: rung["n_rows"])
        what = "the peak memory beyond the input, relative to the input as float32"
        relative = top["libraries"][OURS]["memory"]["relative"]
        yield Goal(f"{what}, {top['n_rows']:,} rows,", 1.0, relative)


PANELS = {"fit": "seconds to train", "predict": "seconds to predict",
          "memory": "peak memory beyond the input, MB"}  # fmt: skip
LEGEND_COLUMNS = 5
MOST_NAMED = 7


def picture(figure: Any, record: dict[str, Any]) -> None:
    """Draw a row of panels for each axis; a cross where a library climbs no further."""
    results = record["results"]
    ladders = {axis: part for axis, part in results["axes"].items() if names_in(part["rungs"])}
    gaps = [line for gap in results["gaps"] for line in textwrap.wrap(f"× {gap}", 150)]
    figure.set_size_inches(12, 4.2 * len(ladders) + 0.17 * len(gaps) + 0.4)
    panels = figure.subplots(len(ladders), len(PANELS), squeeze=False)
    drawn: dict[str, Any] = {}
    for row, (axis, ladder) in zip(panels, ladders.items(), strict=True):
        for axes, (name, label) in zip(row, PANELS.items(), strict=True):
            drawn |= _lines(axes, axis, ladder, name)
            x_label = f"{axis} ({ladder['title']})"
            axes.set(xscale="log", yscale="log", xlabel=x_label, title=label)
            _label_sizes(axes, axis, ladder)
            axes.title.set_fontsize(10)
            axes.xaxis.label.set_fontsize(9)
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
    columns = min(LEGEND_COLUMNS, len(drawn))
    figure.legend(
        drawn.values(), drawn.keys(), loc="outside upper center", ncols=columns, frameon=False
    )
    if gaps:
        figure.supxlabel("\n".join(gaps), fontsize=7, x=0.01, ha="left")


def _label_sizes(axes: Any, axis: str, ladder: dict[str, Any]) -> None:
    """Label each size, or the powers of ten among many numbers of rows."""
    sizes = [rung[FIELDS[axis]] for rung in ladder["rungs"]]
    if axis == "rows" and len(sizes) > MOST_NAMED:
        sizes = [size for size in sizes if math.log10(size).is_integer()] or sizes
    axes.set_xticks(sizes, [short(size) for size in sizes])
    axes.set_xticks([], minor=True)


def _lines(axes: Any, axis: str, ladder: dict[str, Any], name: str) -> dict[str, Any]:
    """Draw one line a library, with the range of its runs; returns them by library."""
    found = {}
    for library in names_in(ladder["rungs"]):
        points = [
            (rung[FIELDS[axis]], rung["libraries"][library][name])
            for rung in ladder["rungs"]
            if name in rung["libraries"].get(library, {})
        ]
        if not points:
            continue
        sizes = [size for size, _ in points]
        middle = [_middle(part) for _, part in points]
        colour = pictures.colour(library)
        style = "--" if library.endswith(" CUDA") else "-"
        (line,) = axes.plot(sizes, middle, style, marker="o", markersize=3, color=colour)
        if name != "memory":  # only its peak matters: later runs find memory free
            runs = [part["seconds"] for _, part in points]
            lowest, highest = [min(r) for r in runs], [max(r) for r in runs]
            axes.fill_between(sizes, lowest, highest, color=colour, alpha=0.15, lw=0)
        if any(library in rung["missing"] for rung in ladder["rungs"]):
            axes.plot(sizes[-1], middle[-1], "x", color=colour, markersize=9)
        found[library] = line
    return found


def _middle(part: dict[str, Any]) -> float:
    return max(1e-3, part["peak"] / 1e6) if "peak" in part else part["median"]
