"""Find what became slower, less accurate or larger from one result file to a later one.

Times are compared by medians, and by the other libraries: a machine that is slower today is so
for all, so the change of gpuens is divided by the median change of the libraries that were
measured beside it, in the same place of both files and in the same version. A change counts if it
is larger than --tolerance and than the spread of the runs, those of the other libraries included.
Times of another machine are compared where there is such a library only. Peaks of memory count
from 5 % and 4 MiB, losses by their differences split by split: the mean must be above 0.1 % and
twice its standard error (0.5 % for a single value).

Ends with 1 if something of gpuens became worse, with 2 if the files cannot be compared.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Literal

import numpy as np

from ..common.markdown import table
from ..common.peers import OURS
from ..common.records import NOT_THE_MACHINE, RecordError, differences, read_record

Kind = Literal["time", "memory", "loss"]
TIMES = ("seconds", "microseconds")
LOSSES = ("losses", "errors")
SCORES = ("auc", "accuracy")
QUALITIES = ("log_loss", "rmse", *SCORES)
PACKAGES = {
    "LightGBM": ("lightgbm",), "XGBoost": ("xgboost", "xgboost-cpu"), "HistGB": ("scikit-learn",),
    "scikit-learn": ("scikit-learn",), "CatBoost": ("catboost",), "Py-Boost": ("py-boost",),
    "cuML": ("cuml-cu12", "cuml-cu13"), "nvForest": ("nvforest-cu12", "nvforest-cu13"),
    "floor": (),
}  # fmt: skip
"""The packages behind the names of the libraries; a longer name begins with one of these. ``floor``
is the machine itself, whose copies and additions ``kernels`` measures beside every operation."""
SIZES = ("n_rows", "n_features", "n_trees", "depth", "threads")
"""Keys that distinguish the entries of a list."""


@dataclass(frozen=True)
class Series:
    """The runs of one measurement: smaller is better."""

    path: tuple[str, ...]
    kind: Kind
    runs: tuple[float, ...]

    @property
    def library(self) -> str:
        """The library that was measured: gpuens where the path names no other."""
        return next((name for name in self.path if library_of(name) != OURS), OURS)

    @property
    def peer(self) -> str | None:
        """The other library, as in ``PACKAGES``; None for gpuens."""
        found = library_of(self.library)
        return None if found == OURS else found

    @property
    def where(self) -> tuple[str, ...]:
        """The path without the name of the library."""
        ours = (f"{OURS} ", f"{OURS},")
        return tuple(
            name for name in self.path
            if library_of(name) == OURS != name and not name.startswith(ours)
        )  # fmt: skip

    def __str__(self) -> str:
        return " · ".join(name for name in self.path if name not in DULL)


DULL = ("libraries", "axes", "rungs")
"""Parts of a path that are not shown."""


def library_of(name: str) -> str:
    """Return the library that a name begins with, gpuens if it is none of the others."""
    found = [peer for peer in PACKAGES if name == peer or name.startswith((f"{peer} ", f"{peer},"))]
    found += [peer for peer in PACKAGES if name.startswith(f"{peer}'s")]
    return found[0] if found else OURS


def series_of(results: Any) -> list[Series]:
    """Return all runs in the results of a program, found by their keys wherever they are.

    ``seconds``, ``microseconds``, ``bytes``
        A list with one entry a run, or such lists by name.
    ``runs``
        A list of one object a run, whose numbers are seconds, or bytes under that name.
    ``losses``, ``errors``
        All lists of one loss for each split, and single losses, at any depth below.
    ``floor``
        A single time, that of the machine itself.
    ``quality``
        Losses and scores of one model; a score counts as its distance from 1.
    ``splits`` or ``seeds``, beside their ``mean``
        Losses.
    """
    return list(_walk(results, ()))


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[Series]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _entry(node, key, value, path)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            if isinstance(value, Mapping):
                yield from _walk(value, (*path, _label(value, i)))


def _entry(node: Mapping[str, Any], key: str, value: Any, path: tuple[str, ...]) -> Any:
    if key in TIMES and _numbers(value):
        yield Series(path, "time", tuple(value))
    elif key in TIMES and isinstance(value, Mapping):
        for name, runs in value.items():
            if _numbers(runs):
                yield Series((*path, key, name), "time", tuple(runs))
    elif key == "bytes" and _numbers(value):
        yield Series(path, "memory", tuple(value))
    elif key == "floor" and _numbers([value]):
        yield Series((*path, key), "time", (value,))
    elif key == "runs" and isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
        yield from _transposed(value, path)
    elif key in LOSSES:
        yield from _losses(value, path)
    elif key in ("splits", "seeds") and "mean" in node and _numbers(value):
        yield Series(path, "loss", tuple(value))
    elif key == "quality" and isinstance(value, Mapping):
        for name in QUALITIES:
            if _numbers([value.get(name)]):
                loss = 1.0 - value[name] if name in SCORES else value[name]
                yield Series((*path, name), "loss", (loss,))
    elif key != "gaps":
        yield from _walk(value, (*path, key))


def _transposed(runs: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> Iterator[Series]:
    """Objects of the same form, one a run, as one series for each of their numbers."""
    for key in runs[0] if runs else ():
        values = [run.get(key) for run in runs]
        if all(isinstance(value, Mapping) for value in values):
            yield from _transposed(values, (*path, key))
        elif key == "bytes" and _numbers(values):
            yield Series(path, "memory", tuple(values))
        elif key != "input_bytes" and _numbers(values):
            yield Series((*path, key), "time", tuple(values))


def _losses(node: Any, path: tuple[str, ...]) -> Iterator[Series]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _losses(value, (*path, key))
    elif _numbers(node):
        yield Series(path, "loss", tuple(node))
    elif _numbers([node]):
        yield Series(path, "loss", (node,))


def _numbers(values: Any) -> bool:
    numbers = isinstance(values, list) and values
    return bool(numbers) and all(type(value) in (int, float) for value in values)


def _label(value: Mapping[str, Any], i: int) -> str:
    """Return the name of an entry of a list: its sizes, else its place."""
    sizes = [f"{value[name]} {name.removeprefix('n_')}" for name in SIZES if value.get(name)]
    return ", ".join(sizes) or f"{i}"


ANY_VALUE = (
    "along", "batches", "budget", "libraries", "max_rows", "memory", "min_rows", "most_repeats",
    "no_tests", "only", "points", "repeats", "resume", "run_limit", "rung_seconds",
)  # fmt: skip
"""Settings that decide how much is measured, not what."""
UNKNOWN_SPREAD = 0.1
"""The spread of a time that was measured once."""
MEMORY_SHARE, MEMORY_BYTES = 0.05, 2**22
LOSS_SHARE, SINGLE_LOSS_SHARE, STANDARD_ERRORS = 0.001, 0.005, 2.0


@dataclass(frozen=True)
class Change:
    """How a series of gpuens changed: the ratio new ÷ old, and the largest within the spread.

    ``yardstick`` is the change of the other libraries, which is taken out of ``ratio``; None
    where there is none.
    """

    series: Series
    old: float
    new: float
    ratio: float
    limit: float
    yardstick: float | None = None

    @property
    def worse(self) -> bool:
        return self.ratio > self.limit

    @property
    def better(self) -> bool:
        return self.ratio < 1.0 / self.limit


def spread(runs: Sequence[float]) -> float:
    """Return the distance of the quartiles of the runs' logarithms: about a relative range."""
    if len(runs) < 2:
        return UNKNOWN_SPREAD
    low, high = np.percentile(np.log(np.maximum(runs, 1e-12)), [25, 75])
    return float(high - low)


def log_change(old: Series, new: Series) -> float:
    """Return the logarithm of new ÷ old, of the medians."""
    return math.log(max(median(new.runs), 1e-12) / max(median(old.runs), 1e-12))


Pair = tuple[Series, Series]


def yardsticks(series: Series, peers: Sequence[Pair]) -> list[Pair]:
    """Return the series of other libraries that show how the machine's speed changed for this
    one: those of the same measurement, else the nearest in the file."""
    same = [pair for pair in peers if pair[0].where == series.where]
    if same or not peers:
        return same

    def shared(pair: Pair) -> int:
        equal = [a == b for a, b in zip(pair[0].path, series.path, strict=False)]
        return equal.index(False) if False in equal else len(equal)

    nearest = max(map(shared, peers))
    return [pair for pair in peers if shared(pair) == nearest]


def change_of_time(old: Series, new: Series, peers: Sequence[Pair], tolerance: float) -> Change:
    """Compare medians, relative to those of the other libraries."""
    variance = spread(old.runs) ** 2 + spread(new.runs) ** 2
    drift = None
    beside = yardsticks(old, peers)
    if beside:
        drifts = [log_change(*pair) for pair in beside]
        drift = median(drifts)
        own = fmean(spread(a.runs) ** 2 + spread(b.runs) ** 2 for a, b in beside) / len(beside)
        variance += max(own, ((max(drifts) - min(drifts)) / 2) ** 2)
    limit = math.exp(max(math.log1p(tolerance), math.sqrt(variance)))
    ratio = math.exp(log_change(old, new) - (drift or 0.0))
    yardstick = None if drift is None else math.exp(drift)
    return Change(new, median(old.runs), median(new.runs), ratio, limit, yardstick)


def change_of_memory(old: Series, new: Series) -> Change:
    """Compare peaks: the largest run of each."""
    before, after = max(old.runs), max(new.runs)
    limit = max(1.0 + MEMORY_SHARE, 1.0 + MEMORY_BYTES / max(before, 1))
    return Change(new, before, after, after / max(before, 1), limit)


def change_of_loss(old: Series, new: Series) -> Change:
    """Compare means; the runs of both are of the same splits, so their differences count."""
    before, after = fmean(old.runs), fmean(new.runs)
    scale = max(abs(before), 1e-12)
    limit = SINGLE_LOSS_SHARE
    if len(old.runs) > 1 and len(old.runs) == len(new.runs):
        apart = [(b - a) / scale for a, b in zip(old.runs, new.runs, strict=True)]
        limit = max(LOSS_SHARE, STANDARD_ERRORS * stdev(apart) / math.sqrt(len(apart)))
    elif len(old.runs) > 1 and len(new.runs) > 1:
        errors = [stdev(runs) / math.sqrt(len(runs)) / scale for runs in (old.runs, new.runs)]
        limit = max(LOSS_SHARE, STANDARD_ERRORS * math.hypot(*errors))
    return Change(new, before, after, 1.0 + (after - before) / scale, 1.0 + limit)


@dataclass(frozen=True)
class Comparison:
    """All changes of gpuens, what is missing in the newer file, and notes."""

    changes: list[Change]
    missing: list[str]
    not_comparable: list[str]
    notes: list[str]


def compare(old: dict[str, Any], new: dict[str, Any], tolerance: float) -> Comparison:
    """Compare two results; raises RecordError if they are of different programs or settings, or
    hold no runs."""
    settings = check(old, new)
    before, after = ({s.path: s for s in series_of(r["results"])} for r in (old, new))
    pairs = [(before[path], after[path]) for path in before if path in after]
    pairs = [(a, b) for a, b in pairs if a.kind == b.kind]
    if not pairs:
        raise RecordError(
            f"the files of {old['benchmark']!r} have no runs in common that could be compared"
        )
    machine = differences(old["machine"], new["machine"], NOT_THE_MACHINE)
    versions = differences(old["versions"], new["versions"])
    changed = {text.split(":")[0] for text in versions}
    notes = [f"another {kind}: {'; '.join(texts)}"
             for kind, texts in (("machine", machine), ("version", versions),
                                 ("setting", settings)) if texts]  # fmt: skip
    steady = [(a, b) for a, b in pairs
              if a.peer and a.kind == "time" and changed.isdisjoint(PACKAGES[a.peer])]  # fmt: skip
    changes, not_comparable = [], []
    for a, b in pairs:
        if a.peer is not None:
            continue
        if a.kind == "memory":
            changes.append(change_of_memory(a, b))
        elif a.kind == "loss":
            changes.append(change_of_loss(a, b))
        elif steady or not machine:
            changes.append(change_of_time(a, b, steady, tolerance))
        else:
            not_comparable.append(str(b))
    gone = [str(s) for path, s in before.items() if s.peer is None and path not in after]
    return Comparison(changes, gone, not_comparable, notes)


def check(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the settings that differ without harm; raises RecordError for the others."""
    if old["benchmark"] != new["benchmark"]:
        raise RecordError(
            f"the files are of different programs, {old['benchmark']!r} and {new['benchmark']!r}"
        )
    ours, theirs = old["settings"], new["settings"]
    in_one = set(ours) ^ set(theirs)  # an option that one of the versions does not have
    texts = differences(ours, theirs, {*ANY_VALUE, *in_one})
    if texts:
        raise RecordError(
            f"the files were measured with other settings ({'; '.join(texts)}). "
            "Measure again with the same"
        )
    return differences(ours, theirs)


def amount(kind: str, value: float) -> str:
    """Return a median in words."""
    return f"{value / 1e6:.4g} MB" if kind == "memory" else f"{value:.4g}"


def lines_of(changes: Sequence[Change]) -> list[list[str]]:
    """Return changes as lines of a table."""
    return [
        [
            f"{change.series} ({change.series.kind})", amount(change.series.kind, change.old),
            amount(change.series.kind, change.new),
            "" if change.yardstick is None else f"{change.yardstick:.3f}",
            f"{change.ratio:.3f}", f"{change.limit:.3f}",
        ]
        for change in changes
    ]  # fmt: skip


HEAD = ("", "old", "new", "other libraries", "new ÷ old", "from")


def show(found: Comparison, everything: bool) -> bool:
    """Print what changed; returns whether something became worse."""
    for note in found.notes:
        print(note)
    worse = [change for change in found.changes if change.worse]
    better = [change for change in found.changes if change.better]
    rest = [c for c in found.changes if not c.worse and not c.better]
    shown = [("Worse", worse), ("Better", better)] + ([("As before", rest)] if everything else [])
    for title, changes in shown:
        if changes:
            ordered = sorted(changes, key=lambda change: -change.ratio)
            print(f"\n{title}:\n\n{table(HEAD, lines_of(ordered))}")
    alone = [c for c in found.changes if c.series.kind == "time" and c.yardstick is None]
    if alone:
        print(f"\n{len(alone)} times have no other library beside them: they include the machine's "
              "own change of speed")  # fmt: skip
    if found.not_comparable:
        print(f"\nnot compared, of another machine and with no other library beside: "
              f"{'; '.join(found.not_comparable)}")  # fmt: skip
    if found.missing:
        print(f"\nno longer measured: {'; '.join(found.missing)}")
    print(f"\n{len(found.changes)} measurements of gpuens: {len(worse)} worse, {len(better)} "
          f"better, {len(rest)} within their spread")  # fmt: skip
    return bool(worse)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("old", type=Path, metavar="OLD.json", help="the earlier result")
    parser.add_argument("new", type=Path, metavar="NEW.json", help="the later result")
    parser.add_argument("--tolerance", type=float, default=0.05, help="share of a time (0.05)")
    parser.add_argument("--all", action="store_true", help="print what did not change as well")
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)  # all programs have it
    options = parser.parse_args(argv)
    try:
        old, new = read_record(options.old), read_record(options.new)
        found = compare(old, new, options.tolerance)
    except RecordError as error:
        print(f"cannot compare: {error}")
        return 2
    worse = show(found, options.all)
    lost = bool(found.missing) and not any("setting" in note for note in found.notes)
    return int(worse or lost)
