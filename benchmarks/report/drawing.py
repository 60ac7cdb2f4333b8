"""Pictures of results."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

COLOURS = {
    "gpuens": "#1b5e9e",
    "LightGBM": "#e08214",
    "LightGBM quantised": "#f6c57c",
    "XGBoost": "#5aae61",
    "HistGB": "#9970ab",
    "CatBoost": "#b2182b",
}
OTHER = "#777777"
BAR = 0.8
"""Share of a bar's place that it fills."""


def draw(
    picture: Callable[[Any, dict[str, Any]], None], record: dict[str, Any], path: Path
) -> None:
    """Let ``picture(figure, record)`` fill a figure and save it, if matplotlib is there."""
    if find_spec("matplotlib") is None:
        print(f"skipped: {path.name} needs matplotlib (pip install matplotlib)")
        return
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", dpi=150)
    picture(figure, record)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    print(f"wrote {path}")


def fit_times(figure: Any, record: dict[str, Any]) -> None:
    """One group of bars a workload: time relative to gpuens."""
    workloads = list(record["results"].values())
    n_bars = sum(len(w["libraries"]) for w in workloads)
    figure.set_size_inches(8, 1.2 + 0.26 * n_bars + 0.25 * len(workloads))
    axes = figure.subplots()
    y, middles, drawn = 0.0, [], set()
    for workload in workloads:
        libraries = workload["libraries"]
        ours = libraries["gpuens"]["median"]
        first = y
        for name, row in libraries.items():
            times = row["median"] / ours
            label = None if name in drawn else name
            drawn.add(name)
            axes.barh(y, times, BAR, color=COLOURS.get(name, OTHER), label=label)
            note = f" {seconds(row['median'])}" + ("" if name == "gpuens" else f"  ({times:.3g}×)")
            axes.text(times, y, note, va="center", fontsize=8)
            y += 1
        middles.append((first + y - 1) / 2)
        y += 1
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(middles, [two_lines(w["title"]) for w in workloads])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * axes.get_xlim()[1])
    axes.set_xlabel("time to train ÷ time of gpuens (shorter is faster)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=min(5, len(drawn)), frameon=False)


def two_lines(title: str) -> str:
    """A title broken at its comma, for a narrow margin."""
    return title.replace(", ", "\n")


def seconds(value: float) -> str:
    """A time with a sensible number of digits."""
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s" if value >= 1 else f"{value:.3f} s"


def accuracy(figure: Any, record: dict[str, Any]) -> None:
    """One panel a comparison: our loss by the peer's on every table."""
    summary = record["results"]["summary"]
    figure.set_size_inches(10, 3.6)
    panels = figure.subplots(1, len(summary), sharey=True, squeeze=False)[0]
    drawn: dict[str, Any] = {}
    for axes, (comparison, by_peer) in zip(panels, summary.items(), strict=True):
        for i, (peer, entry) in enumerate(by_peer.items()):
            shift = (i - (len(by_peer) - 1) / 2) * 0.15
            places = [n + shift for n in range(len(entry["ratios"]))]
            values = list(entry["ratios"].values())
            drawn[peer] = axes.scatter(values, places, s=28, color=COLOURS.get(peer, OTHER))
        tables = next(iter(by_peer.values()))["ratios"]
        axes.set_yticks(range(len(tables)), list(tables))
        axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(comparison, fontsize=10)
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.supxlabel("loss of gpuens ÷ loss of the other library (left of 1: gpuens is better)")
    figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=5, frameon=False)
