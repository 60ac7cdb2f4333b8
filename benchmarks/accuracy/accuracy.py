"""Errors on real data beside the other libraries, over several splits.

Gradient boosting is compared at LightGBM's settings and at XGBoost's, 100 trees each (``defaults``
compares what every library does with nothing set). Every estimator is compared with scikit-learn's
at the same settings. Isolation forests learn from all rows and predict which are outliers; their
runs differ by the seed alone.

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

import numpy as np

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import pivot, with_error
from ..common.peers import BOTH, OURS, THEIRS, GapError, say_skipped
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, Table, load_table
from .lines import BOOSTING, ESTIMATORS, LINES, PUBLISHED, Setup

TABLES = list(dict.fromkeys(table for line in LINES.values() for table in line.tables))
Runs = dict[str, list[float]]


def standard_error(runs: Sequence[float]) -> float | None:
    """Return that of the mean; None for a single run."""
    return float(np.std(runs, ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else None


def paired_ratio(
    ours: Sequence[float], theirs: Sequence[float]
) -> tuple[float | None, float | None]:
    """Return the ratio of two means and its standard error.

    By linearisation (Cochran 1977, 6.4): the standard error of the mean of ``ours - ratio *
    theirs``, divided by the mean of theirs.
    """
    mean = fmean(theirs)
    if mean == 0.0:
        return None, None
    ratio = fmean(ours) / mean
    error = standard_error([a - ratio * b for a, b in zip(ours, theirs, strict=True)])
    return ratio, None if error is None else error / mean


def outliers(table: Table) -> Table:
    """Return the same rows with y = 1 where they count as outliers: the smaller of two classes,
    the three smallest of more."""
    counts = np.bincount(table.y)
    smallest = np.argsort(counts, kind="stable")[: 1 if counts.size == 2 else 3]
    return Table(table.name, table.X, np.isin(table.y, smallest).astype(np.int64))


def loss_of(name: str, library: str, table: Table, seed: int, options: Options) -> float:
    """Return the metric of one fit."""
    line = LINES[name]
    setup = Setup(table.task, options.trees, options.threads, seed, table.n_classes)
    model, metric = line.make(library, setup), line.metric(table.task)[1]
    if name == "isolation forest":
        known = outliers(table)
        return metric(model.fit(table.X), known.X, known.y)
    X, X_test, y, y_test = table.split(seed)
    return metric(model.fit(X, y), X_test, y_test)


def measure(name: str, table: Table, options: Options) -> Results:
    """Measure all libraries of a line on all splits of one table."""
    losses: Runs = {}
    gaps = []
    line = LINES[name]
    for library in line.libraries if line.libraries == BOTH else peers.installed(line.libraries):
        try:
            losses[library] = [
                loss_of(name, library, table, seed, options) for seed in range(options.seeds)
            ]
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            gaps.append(say_skipped(GapError(f"{name} of {library} on {table.name}: {first}")))
    entry = {"metric": line.metric(table.task)[0], "losses": losses}
    return {**entry, "gaps": gaps} if gaps else entry


def measure_all(options: Options) -> Results:
    """Measure every line on its tables."""
    tables: dict[str, Table] = {}
    results: Results = {}
    for name in [name for name in LINES if name in options.lines]:
        for of in [of for of in LINES[name].tables if of in options.only]:
            try:
                tables.setdefault(of, load_table(options.data, of, options.rows))
            except GapError as gap:
                if str(gap) not in results.setdefault("gaps", []):
                    results["gaps"].append(say_skipped(gap))
                continue
            results.setdefault(name, {})[of] = measure(name, tables[of], options)
            print(f"  {name}: {of}", flush=True)
    return results


def show(content: Content) -> Iterator[str]:
    """Yield ratios of boosting, ratios of all estimators, and all errors."""
    results = content["results"]
    yield pivot("loss of gradient boosting ÷ that of", {
        f"{peer}, {name}": together(ratios_to(peer, results.get(name, {})), 4)
        for name, line in BOOSTING.items() if name in results
        for peer in line.libraries[1:] if ratios_to(peer, results[name])
    })  # fmt: skip
    names = [name for name in ESTIMATORS if name in results]
    yield pivot("error ÷ scikit-learn's, same settings", {
        name: together(ratios_to(THEIRS, results[name]), 3) for name in names
    })  # fmt: skip
    order = dict.fromkeys((*BOTH, "ratio", "published"), "")
    yield pivot("mean ± standard error", {
        f"{name}: {table}, {entry['metric']}": order | cells_of(name, table, entry)
        for name in names for table, entry in results[name].items()
    })  # fmt: skip


def ratios_to(
    peer: str, by_table: Results, own: str = OURS
) -> dict[str, tuple[float, float | None]]:
    """Return our mean loss relative to that of a library, by table."""
    found = {}
    for table, entry in by_table.items():
        losses = entry["losses"]
        if own in losses and peer in losses:
            ratio, error = paired_ratio(losses[own], losses[peer])
            if ratio is not None:
                found[table] = ratio, error
    return found


def geometric_mean(ratios: dict[str, tuple[float, float | None]]) -> float:
    return math.exp(fmean(math.log(ratio) for ratio, _ in ratios.values()))


def together(ratios: dict[str, tuple[float, float | None]], digits: int) -> dict[str, str]:
    """Return the cells of ratios over all tables."""
    if not ratios:
        return {"geometric mean": "not measured"}
    worst = max(ratios, key=lambda table: ratios[table][0])
    ratio, error = ratios[worst]
    spread = "" if error is None else f" ± {error:.{digits}f}"
    return {
        "geometric mean": f"{geometric_mean(ratios):.{digits}f}",
        "worst table": f"{ratio:.{digits}f}{spread} ({worst})",
        "tables": str(len(ratios)),
    }


def cells_of(name: str, table: str, entry: Results) -> dict[str, str]:
    """Return the cells of one estimator on one table."""
    losses = entry["losses"]
    cells = {
        library: with_error(fmean(losses[library]), standard_error(losses[library]))
        for library in BOTH if losses.get(library)
    }  # fmt: skip
    for ratio, error in ratios_to(THEIRS, {table: entry}).values():
        cells["ratio"] = with_error(ratio, error)
    if (name, table) in PUBLISHED:
        value, source = PUBLISHED[name, table]
        cells["published"] = f"{value:g} ({source})"
    return cells


MOST = {
    "LightGBM's settings": 1.003, "XGBoost's settings": 1.003,
    "DART, LightGBM's settings": 1.005, "linear leaves, LightGBM's settings": 1.005,
}  # fmt: skip
"""Goal of the geometric mean over the tables, relative to the best other library."""
WORST = 1.03
"""Goal of one table, at the settings of another library."""


def goals(content: Content) -> Iterator[Goal]:
    for name, limit in MOST.items():
        by_table = content["results"].get(name, {})
        found = {peer: ratios_to(peer, by_table) for peer in BOOSTING[name].libraries[1:]}
        means = {peer: geometric_mean(ratios) for peer, ratios in found.items() if ratios}
        if not means:
            continue
        best = max(means, key=lambda peer: means[peer])
        what = f"loss relative to {best}'s ({name})"
        yield Goal(f"the geometric mean of the {what}", limit, means[best])
        if name in ("LightGBM's settings", "XGBoost's settings"):
            worst = max(ratio for ratio, _ in found[best].values())
            yield Goal(f"the {what}, on the worst table,", WORST, worst)


PROGRAM = Program(
    "accuracy", __doc__, measure_all,
    {
        "data": (DATA, "folder of the tables, NAME.npz with X and y"),
        "only": (TABLES, "tables"),
        "lines": (list(LINES), "lines of the table"),
        "seeds": (5, "number of splits"),
        "trees": (100, "rounds of boosting"),
        "threads": (2, "threads"),
        "rows": (None, "use only so many rows of each table"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
