"""The results of ``scaling`` as tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..report.markdown import table
from .plan import FIELDS, short
from .summary import TIMED, names_in

HEADS = {"fit": "median seconds to train", "predict": "median seconds to predict",
         "bin": "median seconds to bin"}  # fmt: skip


def size_of(axis: str, rung: dict[str, Any]) -> str:
    """A rung's place on its axis, in words."""
    value = rung[FIELDS[axis]]
    return short(value) if axis == "rows" else str(value)


def rows_of(axis: str, rungs: Sequence[dict[str, Any]], name: str) -> Iterator[list[str]]:
    """The rungs of a table of one part."""
    libraries = names_in(rungs)
    for rung in rungs:
        cells = [size_of(axis, rung)]
        for library in libraries:
            part = rung["libraries"].get(library, {})
            if name in part:
                cells.append(cell(name, part[name]))
            else:
                cells.append("–" if library in rung["missing"] else "")
        yield cells


def cell(name: str, part: dict[str, Any]) -> str:
    """A median with its spread, or memory relative to the input."""
    if name in TIMED:
        around = f" ± {50 * part['spread']:.0f} %" if len(part["seconds"]) > 1 else ""
        return f"{part['median']:.3g}{around}"
    return f"{part['peak'] / 1e6:.4g} ({part['relative']:.3f})"


def markdown(record: dict[str, Any]) -> str:
    """All of it: tables, exponents, gaps."""
    results = record["results"]
    parts = [f"# {results['title']}"]
    for axis, ladder in results["axes"].items():
        rungs = ladder["rungs"]
        if not rungs:
            continue
        parts.append(f"## Along {axis}: {ladder['title']}")
        libraries = names_in(rungs)
        for name, head in HEADS.items():
            if any(name in part for rung in rungs for part in rung["libraries"].values()):
                rows = list(rows_of(axis, rungs, name))
                parts += [f"{head[0].upper()}{head[1:]}:", table([axis, *libraries], rows)]
        for name, place in (("memory", ""), ("device_memory", " of the GPU")):
            if any(name in part for rung in rungs for part in rung["libraries"].values()):
                parts.append(
                    f"Peak memory{place} of training beyond the input, MB (÷ the input as float32):"
                )
                parts.append(table([axis, *libraries], list(rows_of(axis, rungs, name))))
        if ladder["exponents"]:
            parts.append(exponents_table(axis, ladder["exponents"]))
        parts += stage_table(axis, rungs)
    if results["gaps"]:
        parts.append("Not measured:\n\n" + "\n".join(f"- {gap}" for gap in results["gaps"]))
    parts.append("Medians ± half the range of the runs. – stands where a library has a gap.")
    return "\n\n".join(parts) + "\n"


def exponents_table(axis: str, found: dict[str, dict[str, Any]]) -> str:
    """One line for each library and part."""
    rows = [
        [
            f"{library}, {name}", f"{fit['exponent']:.3f}", f"{fit['r2']:.4f}",
            f"{fit['worst']:.2f}", f"{short(int(fit['from']))} … {short(int(fit['to']))}",
        ]
        for library, by_name in found.items()
        for name, fit in by_name.items()
    ]  # fmt: skip
    return f"Exponents of time against {axis}:\n\n" + table(
        ["", "exponent", "R²", "worst point ÷ line", axis], rows
    )


def stage_table(axis: str, rungs: Sequence[dict[str, Any]]) -> list[str]:
    """Milliseconds of gpuens' operations."""
    parts = []
    for library in names_in(rungs):
        held = [rung for rung in rungs if "stages" in rung["libraries"].get(library, {})]
        if not held:
            continue
        names = list(held[-1]["libraries"][library]["stages"])
        rows = []
        for rung in held:
            stages = rung["libraries"][library]["stages"]
            times = [stages[name]["median"] if name in stages else math.nan for name in names]
            rows.append([size_of(axis, rung), *(f"{1000 * value:.3g}" for value in times)])
        parts += [f"Milliseconds of the operations of {library}, at the root of a tree:",
                  table([axis, *names], rows)]  # fmt: skip
    return parts
