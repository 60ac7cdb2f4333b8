"""Pictures of results, if matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .markdown import seconds

COLOURS = {
    "gpuens": "#1b5e9e",
    "LightGBM": "#e08214",
    "LightGBM quantised": "#f6c57c",
    "XGBoost": "#5aae61",
    "HistGB": "#9970ab",
    "CatBoost": "#b2182b",
    "scikit-learn": "#9970ab",
    "Py-Boost": "#8c510a",
    "cuML": "#01665e",
    "nvForest": "#35978f",
}
OTHER = "#777777"
BAR = 0.8
"""Share of a bar's place that it fills."""


class NothingToDraw(Exception):  # noqa: N818
    """Nothing that a picture shows has been measured; the text names it."""


def draw(
    picture: Callable[[Any, dict[str, Any]], None], record: dict[str, Any], path: Path
) -> None:
    """Let ``picture(figure, record)`` fill a figure and save it, if matplotlib is there."""
    if find_spec("matplotlib") is None:
        print(f"skipped: {path.name} needs matplotlib (pip install matplotlib)")
        return
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", dpi=150)
    try:
        picture(figure, record)
    except NothingToDraw as nothing:
        print(f"no picture {path.name}: {nothing}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    print(f"wrote {path}")


def bars(axes: Any, groups: dict[str, dict[str, float]], ours: str) -> None:
    """Draw a group of bars for each title: the time of every library relative to ours."""
    place, middles, drawn = 0.0, [], set()
    for libraries in groups.values():
        first = place
        for name, median in libraries.items():
            times = median / libraries[ours]
            label = None if name in drawn else name
            drawn.add(name)
            axes.barh(place, times, BAR, color=colour(name), label=label)
            note = f" {seconds(median)}" + ("" if name == ours else f"  ({times:.3g}×)")
            axes.text(times, place, note, va="center", fontsize=8)
            place += 1
        middles.append((first + place - 1) / 2)
        place += 1
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(middles, [title.replace(", ", "\n") for title in groups])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.legend(loc="outside upper center", ncols=min(5, len(drawn)), frameon=False)


def colour(name: str) -> str:
    """Return the colour of a library, on whichever device."""
    return COLOURS.get(name.split(",")[0].removesuffix(" CUDA").removesuffix(" on the CPU"), OTHER)
