"""Pictures of ``scaling``: time and memory against the size, both logarithmic."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from ..report.drawing import COLOURS, OTHER
from .plan import FIELDS, short
from .summary import names_in

PANELS = {"fit": "seconds to train", "predict": "seconds to predict",
          "memory": "peak memory beyond the input, MB"}  # fmt: skip
MORE = {"scikit-learn": "#9970ab", "Py-Boost": "#8c510a", "cuML": "#01665e", "nvForest": "#35978f"}
LEGEND_COLUMNS = 5
MOST_NAMED = 7


def growth(figure: Any, record: dict[str, Any]) -> None:
    """A row of panels for each axis; a cross where a library climbs no further."""
    results = record["results"]
    ladders = {axis: part for axis, part in results["axes"].items() if names_in(part["rungs"])}
    gaps = [line for gap in results["gaps"] for line in textwrap.wrap(f"× {gap}", 150)]
    figure.set_size_inches(12, 4.2 * len(ladders) + 0.17 * len(gaps) + 0.4)
    panels = figure.subplots(len(ladders), len(PANELS), squeeze=False)
    drawn: dict[str, Any] = {}
    for row, (axis, ladder) in zip(panels, ladders.items(), strict=True):
        for axes, (name, label) in zip(row, PANELS.items(), strict=True):
            drawn |= _lines(axes, axis, ladder, name)
            axes.set(xscale="log", yscale="log", xlabel=_x_label(axis, ladder), title=label)
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


def _x_label(axis: str, ladder: dict[str, Any]) -> str:
    return f"{axis} ({ladder['title']})"


def _label_sizes(axes: Any, axis: str, ladder: dict[str, Any]) -> None:
    """Few sizes, or no numbers of rows: name each. Many: name the powers of ten."""
    sizes = [rung[FIELDS[axis]] for rung in ladder["rungs"]]
    if axis == "rows" and len(sizes) > MOST_NAMED:
        sizes = [size for size in sizes if math.log10(size).is_integer()] or sizes
    axes.set_xticks(sizes, [short(size) for size in sizes])
    axes.set_xticks([], minor=True)


def _lines(axes: Any, axis: str, ladder: dict[str, Any], name: str) -> dict[str, Any]:
    """One line a library, with the range of its runs; returns them by library."""
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
        colour = COLOURS.get(library.removesuffix(" CUDA"), MORE.get(library, OTHER))
        style = "--" if library.endswith(" CUDA") else "-"
        (line,) = axes.plot(sizes, middle, style, marker="o", markersize=3, color=colour)
        if name != "memory":  # there only the peak says something: later runs find memory free
            runs = [part["seconds"] for _, part in points]
            lowest, highest = [min(r) for r in runs], [max(r) for r in runs]
            axes.fill_between(sizes, lowest, highest, color=colour, alpha=0.15, lw=0)
        if any(library in rung["missing"] for rung in ladder["rungs"]):
            axes.plot(sizes[-1], middle[-1], "x", color=colour, markersize=9)
        found[library] = line
    return found


def _middle(part: dict[str, Any]) -> float:
    return max(1e-3, part["peak"] / 1e6) if "peak" in part else part["median"]
