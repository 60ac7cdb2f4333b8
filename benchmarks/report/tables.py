"""Tables of the report, one function for each kind of result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from ..common.counterparts import OURS, THEIRS
from . import drawing
from .figure import measured_parts
from .markdown import number, table

LIBRARIES = (OURS, THEIRS)
Record = dict[str, Any]


def fit_table(record: Record) -> str:
    """Seconds to train, by workload and library."""
    workloads = record["results"].values()
    libraries = list(dict.fromkeys(name for w in workloads for name in w["libraries"]))
    rows = []
    for workload in workloads:
        times = workload["libraries"]
        cells = [drawing.seconds(times[n]["median"]) if n in times else "" for n in libraries]
        rows.append([workload["title"], *cells])
    return table(["median time to train", *libraries], rows)


def predict_table(record: Record) -> str:
    """Time of a table in seconds and of one row in microseconds."""
    parts = [record["results"][name] for name in ("table", "row")]
    libraries = list(dict.fromkeys(name for part in parts for name in part["libraries"]))
    rows = []
    for part in parts:
        unit = "µs" if part["n_rows"] == 1 else "s"
        cells = [
            number(part["libraries"][n]["median"], unit) if n in part["libraries"] else ""
            for n in libraries
        ]
        size = "one row" if part["n_rows"] == 1 else f"{part['n_rows']:,} rows"
        rows.append([f"{size}, {part['n_trees']} trees", *cells])
    return table(["median time to predict", *libraries], rows)


def startup_table(record: Record) -> str:
    """Seconds of new processes that train, and of those that load a forest."""
    results = record["results"]
    rows = [
        [
            process, *(f"{seconds[part]:.2f}" for part in ("import", "first fit", "first predict")),
        ]
        for process, seconds in results["medians"].items()
    ]  # fmt: skip
    text = table(["a new process trains: seconds", "import", "first fit", "first predict"], rows)
    loaded = results.get("loaded", {}).get("medians", {})
    if not loaded:
        return text
    parts = ("import", "load", "first predict", "import to first predict")
    rows = [
        [process, *(f"{seconds[part]:.2f}" for part in parts)]
        for process, seconds in loaded.items()
    ]
    head = ["a new process loads a forest: seconds", *parts]
    return f"{text}\n\n{table(head, rows)}"


def memory_table(record: Record) -> str:
    rows = [[name, f"{row['relative']:.3f}"] for name, row in record["results"].items()]
    return table(["peak memory beyond the input ÷ the input as float32", ""], rows)


def comparisons_table(record: Record) -> str:
    """Boosting's losses beside each library's; empty if only estimators were measured."""
    rows = []
    for comparison, by_peer in record["results"].get("summary", {}).items():
        for peer, entry in by_peer.items():
            tables = entry["ratios"]
            worst = max(tables, key=lambda name: tables[name])
            mean = f"{entry['geometric_mean']:.4f}"
            how = "its settings" if comparison.endswith(peer) else f"{comparison} of both"
            rows.append([f"{peer}, {how}", mean, f"{entry['worst']:.4f} ({worst})",
                         str(len(tables))])  # fmt: skip
    head = ["loss of gradient boosting ÷ that of", "geometric mean", "worst table", "tables"]
    return table(head, rows) if rows else ""


def estimators_summary(record: Record) -> str:
    """One line for each estimator: its ratios to scikit-learn's taken together."""
    rows = []
    for name, by_table in record["results"]["estimators"].items():
        if name == "gaps":
            continue
        ratios = {t: e["ratio"] for t, e in by_table.items() if e.get("ratio")}
        if not ratios:
            rows.append([name, "not measured", "", ""])
            continue
        mean = math.exp(fmean(map(math.log, ratios.values())))
        worst = max(ratios, key=lambda t: ratios[t])
        error = by_table[worst]["ratio_standard_error"]
        spread = "" if error is None else f" ± {error:.3f}"
        rows.append([name, f"{mean:.3f}", f"{ratios[worst]:.3f}{spread} ({worst})",
                     str(len(ratios))])  # fmt: skip
    head = ["error ÷ scikit-learn's, same settings", "geometric mean", "worst table", "tables"]
    return table(head, rows)


def published_table(record: Record) -> str:
    """Error rates beside published ones."""
    rows = []
    for part in map(measured_parts, record["results"].values()):
        for name, entry in part.items():
            for kind, row in {"": entry}.items() if "errors" in entry else entry.items():
                values = row.get("published", ())
                values = values if isinstance(values, list | tuple) else [values]
                errors = row["errors"]
                means = [f"{fmean(errors[n]):.2f}" if n in errors else "" for n in LIBRARIES]
                text = ", ".join(filter(None, (name, kind)))
                rows.append([text, " / ".join(f"{value:g}" for value in values), *means])
    return table(["error in %", "published / re-run", *LIBRARIES], rows)


def adaboost_table(record: Record) -> str:
    """Test errors in percent."""
    results = measured_parts(record["results"])
    parts = {
        f"spambase, {kind}": errors
        for kind, errors in results.get("spambase", {}).get("errors", {}).items()
    }
    if "chi_squared" in results:
        parts["ten-dimensional χ², stumps"] = results["chi_squared"]["means"]
    libraries = list(dict.fromkeys(name for errors in parts.values() for name in errors))
    rows = [
        [name, *(f"{errors[n]:.2f}" if n in errors else "" for n in libraries)]
        for name, errors in parts.items()
    ]
    return table(["AdaBoost: error in %", *libraries], rows)


def losses_table(record: Record) -> str:
    """Every loss at the same settings."""
    part = measured_parts(record["results"]).get("same_settings", {})
    peers = list(dict.fromkeys(peer for row in part.values() for peer in row["ratios"]))
    rows = [
        [name, f"{fmean(row['losses'][OURS]):.4g}",
         *(f"{row['ratios'][p]:.4f}" if p in row["ratios"] else "" for p in peers)]
        for name, row in part.items()
    ]  # fmt: skip
    return table(["California housing: loss", OURS, *(f"÷ {peer}" for peer in peers)], rows)


def categories_table(record: Record) -> str:
    results = record["results"]
    models = list(dict.fromkeys(m for ratios in results["ratios"].values() for m in ratios))
    rows = []
    for name, ratios in results["ratios"].items():
        cells = [f"{ratios[m]:.4f}" if m in ratios else "" for m in models]
        rows.append([name, f"{fmean(results['losses'][name][OURS]):.4f}", *cells])
    return table(["log loss with categories", OURS, *(f"÷ {m}" for m in models)], rows)


def stacking_table(record: Record) -> str:
    """Log losses of members and of what combines them."""
    parts = measured_parts(record["results"])
    names = list(dict.fromkeys(what for part in parts.values() for what in part["losses"]))
    rows = []
    for what in names:
        losses = [part["losses"].get(what) for part in parts.values()]
        rows.append([what, *(f"{fmean(runs):.4f}" if runs else "" for runs in losses)])
    return table(["log loss", *(part["title"] for part in parts.values())], rows)


def inspection_table(record: Record) -> str:
    part = measured_parts(record["results"])["partial_dependence"]
    shown = {name: part[name]["libraries"] for name in ("one feature", "two features")}
    libraries = list(next(iter(shown.values())))
    rows = [
        [name, *(drawing.seconds(row[n]["median"]) for n in libraries)]
        for name, row in shown.items()
    ]
    return table([f"partial dependence, {part['n_trees']} trees", *libraries], rows)


def scaling_tables(record: Record) -> Iterator[str]:
    """Times, memory and exponents along each axis."""
    results = record["results"]
    for axis, ladder in results["axes"].items():
        rungs = ladder["rungs"]
        field = f"n_{axis}" if axis not in ("depth", "threads") else axis
        libraries = list(dict.fromkeys(name for rung in rungs for name in rung["libraries"]))
        for name, what in (("fit", "seconds to train"), ("memory", "memory ÷ input")):
            rows = []
            for rung in rungs:
                parts = [rung["libraries"].get(library, {}).get(name) for library in libraries]
                value = "median" if name == "fit" else "relative"
                rows.append([f"{rung[field]:,}", *(f"{p[value]:.3g}" if p else "" for p in parts)])
            if any(cell for row in rows for cell in row[1:]):
                yield table([f"{what}, by {axis} ({ladder['title']})", *libraries], rows)
        rows = [
            [f"{library}, {part}", f"{fitted['exponent']:.3f}", f"{fitted['r2']:.4f}"]
            for library, by_part in ladder["exponents"].items()
            for part, fitted in by_part.items()
        ]
        if rows:
            yield table([f"exponent of the time against {axis}", "", "R²"], rows)


def gpu_tables(record: Record) -> Iterator[str]:
    """Times on a GPU."""
    parts = record["results"]["fit"]
    libraries = list(dict.fromkeys(name for part in parts for name in part["libraries"]))
    rows = []
    for part in parts:
        times = part["libraries"]
        cells = [drawing.seconds(times[n]["median"]) if n in times else "" for n in libraries]
        shape = f"{part['n_rows']:,} × {part['n_features']}, {part['n_trees']} trees"
        rows.append([shape, *cells])
    yield table(["median time to train on the GPU", *libraries], rows)
