"""Errors on real data beside the other libraries, over several splits.

gradient boosting
    Log loss and RMSE beside LightGBM, XGBoost, HistGradientBoosting and CatBoost: at LightGBM's
    settings, at XGBoost's, and with equal rounds: 100 trees, categories as numeric codes, and every
    other parameter as each library has it, which are not its defaults.
estimators
    Every estimator beside scikit-learn's at the same settings, as one table: means over the
    splits with their standard errors, and their ratio. Isolation forests learn from all rows and
    predict which of them are outliers; their runs differ by the seed alone.

Splits are 75/25, stratified for classes. A ratio divides means over the splits; below 1 gpuens is
better. Its standard error pairs the runs of a split; since splits share rows, it measures how
much the ratio depends on them, not how it would turn out on other data. Published values stem from
splits of their authors' own. A table that is missing, and a library that is missing or fails, is
named and left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from ..common.goals import Goal
from ..common.markdown import pivot, with_error
from ..common.peers import BOTH, OURS, THEIRS, GapError, say_skipped
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, Table, load_table
from . import boosting
from .estimators import ESTIMATORS, PUBLISHED, Setup

TABLES = list(dict.fromkeys(
    (*boosting.TABLES, *(table for kind in ESTIMATORS.values() for table in kind.tables))
))  # fmt: skip
COMPARISONS = "comparisons of boosting"

Runs = dict[str, list[float]]


def standard_error(runs: Sequence[float]) -> float | None:
    """Return that of the mean; None for a single run."""
    return float(np.std(runs, ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else None


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float | None]:
    """Return the ratio of two means and its standard error.

    By linearisation (Cochran 1977, 6.4): the standard error of the mean of ``ours - ratio *
    theirs``, divided by the mean of theirs.
    """
    mean = float(np.mean(theirs))
    if mean == 0.0:
        return {"ratio": None, "ratio_standard_error": None}
    ratio = float(np.mean(ours)) / mean
    error = standard_error([a - ratio * b for a, b in zip(ours, theirs, strict=True)])
    return {"ratio": ratio, "ratio_standard_error": None if error is None else error / mean}


def outliers(table: Table) -> Table:
    """Return the same rows with y = 1 where they count as outliers: the smaller of two classes,
    the three smallest of more."""
    counts = np.bincount(table.y)
    smallest = np.argsort(counts, kind="stable")[: 1 if counts.size == 2 else 3]
    return Table(table.name, table.X, np.isin(table.y, smallest).astype(np.int64))


def loss_of(name: str, library: str, table: Table, seed: int, options: Options) -> float:
    """Return the metric of one fit."""
    kind = ESTIMATORS[name]
    model = kind.make(
        library, Setup(table.task, options.trees, options.threads, seed, table.n_classes)
    )
    metric = kind.metric(table.task)[1]
    if name == "isolation forest":
        known = outliers(table)
        return metric(model.fit(table.X), known.X, known.y)
    X, X_test, y, y_test = table.split(seed)
    return metric(model.fit(X, y), X_test, y_test)


def measure(name: str, table: Table, options: Options) -> dict[str, Any]:
    """Measure both libraries on all splits of one table."""
    losses: Runs = {}
    gaps = []
    for library in BOTH:
        try:
            losses[library] = [
                loss_of(name, library, table, seed, options) for seed in range(options.seeds)
            ]
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            gaps.append(say_skipped(GapError(f"{name} of {library} on {table.name}: {first}")))
    entry: dict[str, Any] = {"metric": ESTIMATORS[name].metric(table.task)[0], "losses": losses}
    if len(losses) == len(BOTH):
        entry |= paired_ratio(losses[OURS], losses[THEIRS])
    if (name, table.name) in PUBLISHED:
        value, source = PUBLISHED[name, table.name]
        entry["published"] = {"value": value, "source": source}
    return {**entry, "gaps": gaps} if gaps else entry


def measure_estimators(options: Options) -> dict[str, Any]:
    """Measure every estimator on its tables."""
    tables: dict[str, Table] = {}
    results: dict[str, Any] = {}
    for name in [name for name in ESTIMATORS if name in options.estimators]:
        for of in [of for of in ESTIMATORS[name].tables if of in options.only]:
            try:
                tables.setdefault(of, load_table(options.data, of, options.rows))
            except GapError as gap:
                if str(gap) not in results.setdefault("gaps", []):
                    results["gaps"].append(say_skipped(gap))
                continue
            results.setdefault(name, {})[of] = measure(name, tables[of], options)
            print(f"  {name}: {of}", flush=True)
    return results


def measure_all(options: Options) -> Results:
    compared = boosting.measure_all(options) if COMPARISONS in options.estimators else {}
    return {**compared, "estimators": measure_estimators(options)}


def cells_of(entry: dict[str, Any]) -> dict[str, str]:
    """Return the cells of one estimator on one table."""
    losses, ratio, published = entry["losses"], entry.get("ratio"), entry.get("published")
    cells = {
        library: with_error(float(np.mean(losses[library])), standard_error(losses[library]))
        for library in BOTH if losses.get(library)
    }  # fmt: skip
    if ratio is not None:
        cells["ratio"] = with_error(ratio, entry["ratio_standard_error"])
    if published:
        cells["published"] = f"{published['value']:g} ({published['source']})"
    return cells


def show(content: Content) -> Iterator[str]:
    """Yield ratios of boosting, ratios of all estimators, and all errors."""
    rows = {}
    for comparison, by_peer in content["results"].get("summary", {}).items():
        for peer, entry in by_peer.items():
            how = "its settings" if comparison.endswith(peer) else comparison
            worst = max(entry["ratios"], key=lambda name, ratios=entry["ratios"]: ratios[name])
            rows[f"{peer}, {how}"] = {
                "geometric mean": f"{entry['geometric_mean']:.4f}",
                "worst table": f"{entry['worst']:.4f} ({worst})",
                "tables": str(len(entry["ratios"])),
            }
    yield pivot("loss of gradient boosting ÷ that of", rows)
    estimators = content["results"].get("estimators", {})
    by_name = {name: by_table for name, by_table in estimators.items() if name != "gaps"}
    yield pivot("error ÷ scikit-learn's, same settings", {
        name: together(by_table) for name, by_table in by_name.items()
    })  # fmt: skip
    order = dict.fromkeys((*BOTH, "ratio", "published"), "")
    yield pivot("mean ± standard error", {
        f"{name}: {table}, {entry['metric']}": order | cells_of(entry)
        for name, by_table in by_name.items()
        for table, entry in by_table.items()
    })  # fmt: skip


def together(by_table: dict[str, Any]) -> dict[str, str]:
    """Return the cells of one estimator's ratios to scikit-learn's over all tables."""
    ratios = {table: entry["ratio"] for table, entry in by_table.items() if entry.get("ratio")}
    if not ratios:
        return {"geometric mean": "not measured"}
    mean = math.exp(fmean(map(math.log, ratios.values())))
    worst = max(ratios, key=lambda table: ratios[table])
    error = by_table[worst]["ratio_standard_error"]
    spread = "" if error is None else f" ± {error:.3f}"
    return {
        "geometric mean": f"{mean:.3f}",
        "worst table": f"{ratios[worst]:.3f}{spread} ({worst})",
        "tables": str(len(ratios)),
    }


def goals(content: Content) -> Iterator[Goal]:
    summary = content["results"].get("summary", {})
    for peer in ("LightGBM", "XGBoost"):
        entry = summary.get(f"same as {peer}", {}).get(peer)
        if entry:
            what = f"loss relative to {peer}'s at its settings"
            yield Goal(f"the geometric mean of the {what}", 1.003, entry["geometric_mean"])
            yield Goal(f"the {what}, on the worst table,", 1.03, entry["worst"])
    if dart := summary.get("DART, the settings", {}).get("LightGBM"):
        what = "the geometric mean of the loss with DART relative to LightGBM's at its settings"
        yield Goal(what, 1.005, dart["geometric_mean"])
    if linear := summary.get("linear leaves, the settings", {}).get("LightGBM"):
        what = "the geometric mean of the loss with linear leaves relative to LightGBM's"
        yield Goal(f"{what} at its settings", 1.005, linear["geometric_mean"])
    own = summary.get(boosting.EQUAL_ROUNDS, {})
    if own:
        best = max(own, key=lambda peer: own[peer]["geometric_mean"])
        what = "the geometric mean of the loss at equal rounds and with numeric codes"
        yield Goal(f"{what}, relative to the best library's ({best})", 1.0,
                   own[best]["geometric_mean"])  # fmt: skip


PROGRAM = Program(
    "accuracy", __doc__, measure_all,
    {
        "data": (DATA, "folder of the tables, NAME.npz with X and y"),
        "only": (TABLES, "tables"),
        "estimators": ([COMPARISONS, *ESTIMATORS], "lines of the table"),
        "seeds": (5, "number of splits"),
        "trees": (100, "rounds of boosting"),
        "threads": (2, "threads"),
        "rows": (None, "use only so many rows of each table"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
