"""Pictures of ``gpu_check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..report.drawing import COLOURS, OTHER
from .bench import ON_CPU, OURS

EXTRA = {"cuML": "#7b3294", "nvForest": "#008080", "Py-Boost": "#a6761d"}


class NothingToDraw(Exception):  # noqa: N818
    """What a picture shows has not been measured; the text says what."""


def colour(name: str) -> str:
    """Of a library, on whichever device."""
    return (COLOURS | EXTRA).get(name.split(",")[0].removesuffix(" on the CPU"), OTHER)


def cases_of(record: dict[str, Any], part: str) -> dict[str, Any]:
    return record["results"]["parts"].get(part, {}).get("cases", {})


def libraries(figure: Any, record: dict[str, Any]) -> None:
    """Time of every library by ours, a group of bars a case."""
    groups = {
        f"{part}: {case}": row["libraries"]
        for part in ("fit", "forests", "predict", "small")
        for case, row in cases_of(record, part).items()
        if len(row.get("libraries", {})) > 1 and OURS in row["libraries"]
    }
    if not groups:
        raise NothingToDraw("no case has two libraries")
    bars = sum(len(group) - 1 for group in groups.values())
    figure.set_size_inches(9, 1.3 + 0.26 * (bars + len(groups)))
    axes = figure.subplots()
    place, ticks, drawn = 0.0, [], set()
    for title, group in groups.items():
        first = place
        for name, row in group.items():
            if name == OURS:
                continue
            times = row["median"] / group[OURS]["median"]
            label = None if name in drawn else name
            drawn.add(name)
            axes.barh(place, times, 0.8, color=colour(name), label=label)
            axes.text(times, place, f" {times:.3g}×  ({row['median']:.3g} s)", va="center",
                      fontsize=7)  # fmt: skip
            place += 1
        ticks.append(((first + place - 1) / 2, f"{title}\ngpuens {group[OURS]['median']:.3g} s"))
        place += 1
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(*zip(*ticks, strict=True), fontsize=7)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="time ÷ time of gpuens on the card (longer bars are slower)")
    axes.set_xlim(right=axes.get_xlim()[1] * 3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=8)


def rows(figure: Any, record: dict[str, Any]) -> None:
    """Seconds to train by rows: the ladder of 20 trees beside XGBoost, and card and cores."""
    ladder = {
        name: points for name, points in record["results"]["others"]["ladder"].items() if points
    }
    cores: dict[str, list[tuple[int, float]]] = {}
    for row in cases_of(record, "cores").values():
        for name, timed in row["libraries"].items():
            cores.setdefault(name, []).append((row["n_rows"], timed["median"]))
    panels = [("20 trees of depth 6", ladder), ("100 trees of depth 6", cores)]
    panels = [(title, curves) for title, curves in panels if curves]
    if not panels:
        raise NothingToDraw("neither the ladder nor the host's cores were measured")
    figure.set_size_inches(5 * len(panels), 3.8)
    for axes, (title, curves) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for name, points in curves.items():
            style = "--" if name == ON_CPU else "-"
            axes.plot(*zip(*sorted(points), strict=True), style, marker="o", color=colour(name),
                      label=name)  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="time to train in s")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)


def launches(figure: Any, record: dict[str, Any]) -> None:
    """Milliseconds a tree by the way kernels are started."""
    by_variant = record["results"]["others"]["launches"]["ms_a_tree"]
    if not by_variant:
        raise NothingToDraw("no way to start kernels was measured")
    sizes = sorted({size for row in by_variant.values() for size in row})
    figure.set_size_inches(6, 1 + 0.5 * len(by_variant))
    axes = figure.subplots()
    for k, size in enumerate(sizes):
        places = [i + (k - (len(sizes) - 1) / 2) * 0.36 for i in range(len(by_variant))]
        values = [row.get(size, 0.0) for row in by_variant.values()]
        shade = COLOURS[OURS] if k else OTHER
        axes.barh(places, values, 0.34, color=shade, label=f"{size} rows")
    axes.set_yticks(range(len(by_variant)), list(by_variant))
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a tree of depth 6, 28 features")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


PICTURES: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "": libraries, "-rows": rows, "-launches": launches
}  # fmt: skip
"""What is appended to the result's name, and what is drawn."""
