"""How time and memory grow with rows, features, depth, trees and threads.

Each fit has a process of its own, which makes the table, trains on a small one, trains and
predicts; the libraries take turns. A library whose process fails, is killed because memory runs
out, or takes longer than ``--limit`` is named and climbs no further. Settings are those of ``fit``.
With ``--device cuda`` gpuens and XGBoost train on a GPU, and memory is that of the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpuens.datasets import make_higgs_like
from gpuens.devices.placement import CPU
from gpuens.inputs.binning import Binner
from gpuens.kernels.runtime.cpu.team import using_threads

from ..common import peers, pictures
from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.memory import peak_of
from ..common.peers import OURS, GapError, say_skipped
from ..common.places import DEVICE, place_of
from ..common.processes import call
from ..common.program import Content, Options, Program, Results
from ..common.timing import seconds_of, summary
from . import fit

LADDERS = {
    "rows": [k * 10**n for n in range(3, 8) for k in (1, 2, 5)],
    "features": [10, 30, 100, 300, 1000],
    "depth": [2, 4, 6, 8, 10, 12],
    "trees": [1, 10, 30, 100, 300],
    "threads": [1, 2, 4, 8, 16, 32, 64],
}
"""Sizes along each axis, up to ``--max-rows`` and the threads of ``--threads``."""
LIBRARIES = ("LightGBM", "XGBoost")
WARM_UP_ROWS, WARM_UP_TREES = 2000, 3
FROM_ROWS = 100_000
"""Below, what a fit costs at any size blurs the exponent."""
PARTS = {
    "fit": "seconds to train", "predict": "seconds to predict",
    "memory": "peak MB beyond the input (÷ the input as float32)",
}  # fmt: skip


def measure_here(library: str, device: str, size: dict[str, Any]) -> dict[str, float]:
    """Train and predict once in this process; return seconds, and bytes beyond the table."""
    place, threads = place_of(device), size["threads"]
    settings = peers.Settings(size["trees"], max_depth=size["depth"], threads=threads)
    build = fit.trainer(library, place.device if library == OURS else place.others, "binary")
    X, y = place.table(make_higgs_like, size["rows"], size["features"])
    few = slice(WARM_UP_ROWS)
    small = build(replace(settings, n_trees=WARM_UP_TREES)).fit(X[few], y[few])
    small.predict_proba(X[few])
    model = build(settings)
    train = place.waiting(lambda: model.fit(X, y))
    found: dict[str, float] = {}
    if place.device == "cpu":
        found["memory"], (found["fit"], _) = peak_of(lambda: seconds_of(train, threads))
    else:
        found["fit"], _ = seconds_of(train, threads)
        found["memory"] = place.peak_bytes(train) or 0
    found["predict"], _ = seconds_of(place.waiting(lambda: model.predict_proba(X)), threads)
    return {**found, **(binning(X, settings) if (library, device) == (OURS, "cpu") else {})}


def binning(X: np.ndarray, settings: peers.Settings) -> dict[str, float]:
    """Return the seconds of cut points, and of all binning, which ``gpu_model`` reads."""
    fit_binner = partial(
        Binner.fit, X, None, settings.max_bins or 255, 0, CPU, settings.threads
    )  # fmt: skip
    with using_threads(settings.threads):
        cuts, binner = seconds_of(fit_binner, settings.threads)
        bins, _ = seconds_of(lambda: binner.transform(X, CPU), settings.threads)
    return {"cuts": cuts, "bin": cuts + bins}


def turns(
    size: dict[str, Any], libraries: list[str], options: Options
) -> tuple[dict[str, Any], list[str]]:
    """Return what is measured of each library at one size, and what failed."""
    runs: dict[str, list[dict[str, float]]] = {library: [] for library in libraries}
    gaps = []
    for i in range(options.repeats):
        for library in libraries[i % len(libraries) :] + libraries[: i % len(libraries)]:
            if library not in runs:
                continue
            try:
                runs[library].append(
                    call(measure_here, library, options.device, size, limit=options.limit)
                )
            except GapError as gap:
                at = f"{size['rows']:,} × {size['features']}, {size['trees']} trees"
                gaps.append(say_skipped(GapError(f"{library} at {at} and beyond: {gap}")))
                del runs[library]
    cells = 4 * size["rows"] * size["features"]
    return {library: part_of(own, cells) for library, own in runs.items()}, gaps


def part_of(runs: list[dict[str, float]], input_bytes: int) -> Results:
    """Return medians and ranges of times, and the largest peak of memory."""
    peak = max(run["memory"] for run in runs)
    timed = {name: summary([run[name] for run in runs]) for name in runs[0] if name != "memory"}
    return {**timed, "memory": {"peak": peak, "relative": peak / input_bytes}}


def climb(axis: str, options: Options) -> Results:
    """Measure along one axis."""
    usual = {name: getattr(options, name) for name in LADDERS}
    limits = {"rows": options.max_rows, "threads": options.threads}
    libraries = [OURS, *peers.installed(LIBRARIES)]
    fixed = {name: value for name, value in usual.items() if name != axis and value}
    results: Results = {"settings": fixed, "sizes": {}, "gaps": []}
    for value in LADDERS[axis]:
        if value > limits.get(axis, value) or not libraries:
            break
        found, gaps = turns({**usual, axis: value}, libraries, options)
        results["gaps"] += gaps
        libraries = [library for library in libraries if library in found]
        results["sizes"][str(value)] = found
        times = (f"{library} {part['fit']['median']:.3g} s" for library, part in found.items())
        print(f"  {axis} {short(value)}:", ", ".join(times), flush=True)
    return results


def short(n: int) -> str:
    """Return a number in few characters."""
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n / unit:g}{name}"
    return str(n)


def series(ladder: Results, library: str, name: str) -> tuple[list[int], list[Any]]:
    """Return the sizes at which a part of a library was measured, and what was found."""
    found = {int(n): by[library][name] for n, by in ladder["sizes"].items() if library in by}
    return list(found), list(found.values())


def libraries_of(ladder: Results) -> list[str]:
    return list(dict.fromkeys(name for by in ladder["sizes"].values() for name in by))


def exponent(sizes: list[int], values: list[float]) -> float | None:
    """Return the slope of log(value) against log(size); None of fewer than three points."""
    large = [(n, value) for n, value in zip(sizes, values, strict=True) if n >= FROM_ROWS]
    if len(large) < 3:
        return None
    x, y = np.log(np.array(large)).T
    return float(np.polyfit(x, y, 1)[0])


def cell(name: str, part: Results) -> str:
    """Return a median with half its range, or memory relative to the input."""
    if name == "memory":
        return f"{part['peak'] / 1e6:.4g} ({part['relative']:.3f})"
    low, high = part["range"]
    around = f" ± {50 * (high - low) / part['median']:.0f} %" if part["runs"] > 1 else ""
    return f"{part['median']:.3g}{around}"


def show(content: Content) -> Iterator[str]:
    """Yield times, memory and exponents along each axis."""
    for axis, ladder in content["results"].items():
        if not ladder.get("sizes"):
            continue
        fixed = ", ".join(f"{value} {name}" for name, value in ladder["settings"].items())
        for name, head in PARTS.items():
            yield pivot(f"{head}, by {axis} ({fixed})", {
                short(int(n)): {library: cell(name, part[name]) for library, part in by.items()}
                for n, by in ladder["sizes"].items()
            })  # fmt: skip
        if axis == "rows":
            yield exponents(ladder)


def exponents(ladder: Results) -> str:
    """Return the exponents of times against rows."""
    rows: dict[str, dict[str, str]] = {}
    for library in libraries_of(ladder):
        for name in ("fit", "predict"):
            if (slope := slope_of(ladder, library, name)) is not None:
                rows.setdefault(library, {})[name] = f"{slope:.3f}"
    return pivot(f"exponent of time from {short(FROM_ROWS)} rows", rows)


def slope_of(ladder: Results, library: str, name: str) -> float | None:
    """Return the exponent of a library's time."""
    sizes, parts = series(ladder, library, name)
    return exponent(sizes, [part["median"] for part in parts])


def goals(content: Content) -> Iterator[Goal]:
    ladder = content["results"].get("rows", {"sizes": {}})
    sizes, parts = series(ladder, OURS, "memory")
    of = f"from {FROM_ROWS:,} to {max([*sizes, 10**7]):,} rows"
    yield Goal(f"the exponent of the time to train, {of},", 1.02, slope_of(ladder, OURS, "fit"))
    if parts:
        what = "the peak memory beyond the input, relative to the input as float32"
        yield Goal(f"{what}, {sizes[-1]:,} rows,", 1.0, parts[-1]["relative"])


def picture(figure: Any, content: Content) -> None:
    """Draw a panel for each part, with a line and the range of its runs for each library."""
    ladder = content["results"].get("rows", {"sizes": {}})
    if not ladder["sizes"]:
        raise pictures.NothingToDraw("no number of rows was measured")
    figure.set_size_inches(12, 4.6)
    drawn: dict[str, Any] = {}
    panels = zip(figure.subplots(1, len(PARTS)), PARTS, strict=True)
    for axes, name in panels:
        for library in libraries_of(ladder):
            sizes, parts = series(ladder, library, name)
            values = [part["peak"] / 1e6 if name == "memory" else part["median"] for part in parts]
            colour = pictures.colour(library)
            (drawn[library],) = axes.plot(sizes, values, marker="o", markersize=3, color=colour)
            if name != "memory":
                low, high = zip(*(part["range"] for part in parts), strict=True)
                axes.fill_between(sizes, low, high, color=colour, alpha=0.15, lw=0)
        title = PARTS[name].partition(" (")[0]
        axes.set(xscale="log", yscale="log", xlabel="rows")
        axes.set_title(title, fontsize=10)
        ticks = [n for n in map(int, ladder["sizes"]) if math.log10(n).is_integer()]
        axes.set_xticks(ticks, [short(n) for n in ticks])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=5, frameon=False)


PROGRAM = Program(
    "scaling", __doc__, {"rows": partial(climb, "rows")},
    {
        "rows": (100_000, "rows along the other axes"),
        "max_rows": (10_000_000, "rows at most along their own axis"),
        "features": (28, "columns"),
        "depth": (None, "depth of the trees instead of 63 leaves"),
        "trees": (20, "rounds of boosting"),
        "threads": (2, "threads of each library"),
        "repeats": (3, "processes of each library for a size"),
        "limit": (300.0, "seconds of a process"),
        **DEVICE,
    },
    show, goals,
    rare={axis: partial(climb, axis) for axis in LADDERS if axis != "rows"},
)  # fmt: skip
main = PROGRAM.main
