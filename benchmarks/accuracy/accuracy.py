"""Errors on real data beside the other libraries, over several splits.

gradient boosting
    Log loss and RMSE beside LightGBM, XGBoost, HistGradientBoosting and CatBoost: at LightGBM's
    settings, at XGBoost's, and with every library's own defaults.
estimators
    Every estimator beside scikit-learn's at the same settings, as one table: means over the
    splits with their standard errors, and their ratio. Isolation forests learn from all rows and
    are asked which of them are outliers; their runs differ by the seed alone.

Splits are 75/25, stratified for classes. A ratio divides means over the splits; below 1 gpuens is
better. Its standard error pairs the runs of a split; since splits share rows, it tells how much
the ratio depends on them, not how it would turn out on other data. Published values stem from
splits of their authors' own. A table that is missing, and a library that is missing or fails, is
named and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..common import peers
from ..common.counterparts import DATA, OURS, THEIRS, GapError, say_skipped
from ..common.records import Record, options_of, positive
from ..report import drawing
from ..report.markdown import table as markdown_table
from ..report.markdown import with_error
from . import boosting as accuracy_boosting
from .estimators import ESTIMATORS, PUBLISHED, Setup
from .tables import TASKS, Table, load, parts_of

LIBRARIES = (OURS, THEIRS)
COMPARISONS = "comparisons of boosting"

Runs = dict[str, list[float]]


def standard_error(runs: Sequence[float]) -> float | None:
    """Of the mean; None of a single run."""
    return float(np.std(runs, ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else None


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float | None]:
    """The ratio of two means and its standard error by linearisation (Cochran 1977, 6.4): that of
    the mean of ``ours - ratio * theirs``, divided by the mean of theirs."""
    mean = float(np.mean(theirs))
    if mean == 0.0:
        return {"ratio": None, "ratio_standard_error": None}
    ratio = float(np.mean(ours)) / mean
    error = standard_error([a - ratio * b for a, b in zip(ours, theirs, strict=True)])
    return {"ratio": ratio, "ratio_standard_error": None if error is None else error / mean}


def outliers(table: Table) -> Table:
    """The same rows with y = 1 where they count as outliers: the smaller of two classes, the three
    smallest of more."""
    counts = np.bincount(table.y)
    smallest = np.argsort(counts, kind="stable")[: 1 if counts.size == 2 else 3]
    return Table(table.name, table.X, np.isin(table.y, smallest).astype(np.int64), "binary")


def loss_of(name: str, library: str, table: Table, seed: int, options: argparse.Namespace) -> float:
    """The metric of one fit."""
    kind = ESTIMATORS[name]
    model = kind.make(
        library, Setup(table.task, options.trees, options.threads, seed, table.n_classes)
    )
    metric = kind.metric(table.task)[1]
    if name == "isolation forest":
        known = outliers(table)
        return metric(model.fit(table.X), known.X, known.y)
    X, X_test, y, y_test = parts_of(table, seed)
    return metric(model.fit(X, y), X_test, y_test)


def measure(name: str, table: Table, options: argparse.Namespace) -> dict[str, Any]:
    """Both libraries on all splits of one table."""
    losses: Runs = {}
    gaps = []
    for library in LIBRARIES:
        try:
            losses[library] = [
                loss_of(name, library, table, seed, options) for seed in range(options.seeds)
            ]
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            gaps.append(say_skipped(GapError(f"{name} of {library} on {table.name}: {first}")))
    entry: dict[str, Any] = {"metric": ESTIMATORS[name].metric(table.task)[0], "losses": losses}
    if len(losses) == len(LIBRARIES):
        entry |= paired_ratio(losses[OURS], losses[THEIRS])
    if (name, table.name) in PUBLISHED:
        value, source = PUBLISHED[name, table.name]
        entry["published"] = {"value": value, "source": source}
    return {**entry, "gaps": gaps} if gaps else entry


def measure_estimators(options: argparse.Namespace) -> dict[str, Any]:
    """Every estimator on every table of its own."""
    tables: dict[str, Table] = {}
    results: dict[str, Any] = {}
    for name in [name for name in ESTIMATORS if name in options.estimators]:
        for of in [of for of in ESTIMATORS[name].tables if of in options.only]:
            try:
                tables.setdefault(of, load(options.data, of, options.rows))
            except GapError as gap:
                if str(gap) not in results.setdefault("gaps", []):
                    results["gaps"].append(say_skipped(gap))
                continue
            results.setdefault(name, {})[of] = entry = measure(name, tables[of], options)
            print(f"  {name:<18}{' '.join(row_of(of, entry)[:-1])}", flush=True)
    return results


def row_of(table: str, entry: dict[str, Any]) -> list[str]:
    """Cells of one line: table and metric, ours, theirs, ratio, published."""
    cells = [f"{table}, {entry['metric']}"]
    for library in LIBRARIES:
        runs = entry["losses"].get(library)
        cells.append(with_error(float(np.mean(runs)), standard_error(runs)) if runs else "")
    ratio = entry.get("ratio")
    cells.append("" if ratio is None else with_error(ratio, entry["ratio_standard_error"]))
    published = entry.get("published")
    return [*cells, f"{published['value']:g} ({published['source']})" if published else ""]


def estimators_table(results: dict[str, Any]) -> str:
    """All estimators as Markdown."""
    rows = []
    for name, by_table in results.items():
        for table, entry in by_table.items() if name != "gaps" else ():
            first, *cells = row_of(table, entry)
            rows.append([f"{name}: {first}", *cells])
    return markdown_table(["mean ± standard error", *LIBRARIES, "ratio", "published"], rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("accuracy", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data", default=DATA, type=type(DATA),
        help="folder of the tables, NAME.npz with X and y (default: ../shared/data)",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), help="tables")
    parser.add_argument("--estimators", nargs="+", choices=[COMPARISONS, *ESTIMATORS],
                        default=[COMPARISONS, *ESTIMATORS], help="lines of the table")  # fmt: skip
    parser.add_argument("--seeds", type=positive, default=5, help="number of splits (5)")
    parser.add_argument("--trees", type=positive, default=100, help="rounds of boosting (100)")
    parser.add_argument("--threads", type=positive, default=2, help="threads (2)")
    parser.add_argument("--rows", type=positive, help="use only so many rows of each table")
    options = parser.parse_args(argv)
    there = [name for name in options.only if (options.data / f"{name}.npz").is_file()]
    if not there:
        for name in options.only:
            print(f"skipped: {name}.npz is not in {options.data}")
        return 0
    peers.silence()
    record = Record("accuracy", options)
    results: dict[str, Any] = {}
    with threadpool_limits(options.threads):
        if COMPARISONS in options.estimators:
            results = accuracy_boosting.measure_all(options)
            accuracy_boosting.show(results)
        results["estimators"] = measure_estimators(options)
    print(estimators_table(results["estimators"]))
    content = record.write(results)
    if results.get("summary"):
        drawing.draw(drawing.accuracy, content, record.path.with_suffix(".png"))
    return 0
