"""Clusters that are not here: the efficiency of 8 to 64 workers, from measured times and volumes.

alone
    Fits in turn with and without the collective of a single worker, which sends nothing: the time
    that the operations for shared rows take beside those for one process. Models must be identical.
model
    The real code trains on two numbers of rows with a collective that counts what a worker would
    send. Seconds without it are split into those of any fit and those of a row; the bytes of
    gathered arrays (sums of chunks of rows) into those of any fit and those of a row, too; sums of
    histograms do not depend on the rows.

The table is computed for ``--total-rows`` rows, equally many on each worker, each worker a machine
with as many threads as this measurement. Assumed are: a ring; a sum of B bytes takes 2 (p - 1)
steps and sends 2 B (p - 1) / p, up to 16 KiB p - 1 steps of all of B; an array that is gathered, B
bytes together, takes p - 1 steps and sends B (p - 1) / p; a step has a latency of 50 µs; received
bytes are added at 4 GB/s; nothing is sent while anything is computed; the network gives its full
rate; no worker is slower than the others. The efficiency is the time of one worker with all rows,
divided by p and by the time of p workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpuens import GradientBoostingClassifier
from gpuens.cluster.ring import SMALL
from gpuens.datasets import make_higgs_like
from gpuens.kernels.runtime.collective import Alone, Share, sharing

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.program import Content, Options, Program, Results
from ..common.timing import compare, interleaved

FEATURES, LEAVES = 28, 63
LATENCY = 50e-6
"""Seconds of a step round the ring."""
ADDED = 4e9
"""Bytes a second."""
GIGABITS = (10, 100)
SIZES = (8, 16, 32, 64)
PLAIN, SHARED = "without a collective", "a collective of one worker"
ROWS_ALONE = (1_000_000, 10_000)


class Counting(Alone):
    """The collective of one worker; keeps the sizes of what a worker of several would send."""

    def __init__(self) -> None:
        self.added: list[int] = []
        self.gathered: list[int] = []

    def add(self, values: np.ndarray) -> None:
        self.added.append(values.nbytes)

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        self.gathered.append(values.nbytes)
        return [values]


def seconds_of_sum(n_bytes: int, n_workers: int, rate: float) -> float:
    """Return the time of a sum over all workers; ``rate`` is in bytes a second."""
    others = n_workers - 1
    if n_bytes <= SMALL:
        return others * (LATENCY + n_bytes / rate + n_bytes / ADDED)
    share = n_bytes * others / n_workers
    return 2 * others * LATENCY + 2.0 * share / rate + share / ADDED


def seconds_of_gather(n_bytes: float, n_workers: int, rate: float) -> float:
    """Return the time to gather an array that has so many bytes together."""
    others = n_workers - 1
    return others * LATENCY + n_bytes * others / n_workers / rate


class Line(NamedTuple):
    """A quantity of a fit: that of any fit, and that of a row."""

    fixed: float
    of_row: float

    def at(self, n_rows: float) -> float:
        return self.fixed + self.of_row * n_rows

    @staticmethod
    def through(rows: list[int], values: list[float]) -> Line:
        """Return the line through two points, neither part of which is negative."""
        of_row = max(0.0, (values[1] - values[0]) / (rows[1] - rows[0]))
        return Line(max(0.0, values[0] - of_row * rows[0]), of_row)


def estimator(trees: int, threads: int) -> GradientBoostingClassifier:
    return GradientBoostingClassifier(
        n_estimators=trees, max_leaf_nodes=LEAVES, n_jobs=threads, random_state=0, device="cpu"
    )


def fit_shared(model: Any, X: np.ndarray, y: np.ndarray, collective: Alone) -> Any:
    """Fit as the only worker of a cluster."""
    with sharing(Share(collective, 0, len(y), len(y))):
        return model.fit(X, y)


def alone(options: Options) -> Results:
    """Measure the operations for shared rows beside those for one process."""
    found: dict[str, Any] = {}
    for n_rows in ROWS_ALONE:
        X, y = make_higgs_like(min(n_rows, options.most_rows), FEATURES)
        plain, shared = (estimator(options.trees, options.threads) for _ in range(2))
        actions = {
            SHARED: partial(fit_shared, shared, X, y, Alone()), PLAIN: partial(plain.fit, X, y),
        }  # fmt: skip
        for action in actions.values():
            action()
        seconds, models = interleaved(actions, options.repeats, options.threads)
        prints = {model.forest_.fingerprint() for model in models.values()}
        best = {name: min(runs) for name, runs in seconds.items()}
        found[str(n_rows)] = {
            "libraries": compare(seconds, SHARED), "ratio": best[SHARED] / best[PLAIN],
            "equal": {f"{n_rows} rows, alone": len(prints) == 1},
        }  # fmt: skip
    return found


def model(options: Options) -> Results:
    """Count and time fits of two sizes, and compute the efficiency of clusters."""
    sizes = [options.most_rows // 4, options.most_rows]
    tables = {n_rows: make_higgs_like(n_rows, FEATURES) for n_rows in sizes}
    plain = estimator(options.trees, options.threads)
    fits = {f"{n_rows:,} rows": partial(plain.fit, *table) for n_rows, table in tables.items()}
    runs, _ = interleaved(fits, options.repeats, options.threads)
    seconds, gathered = [min(own) for own in runs.values()], []
    counting = Counting()
    for table in tables.values():
        counting = Counting()
        fit_shared(estimator(options.trees, options.threads), *table, counting)
        gathered.append(float(sum(counting.gathered)))
    time, volume = Line.through(sizes, seconds), Line.through(sizes, gathered)
    total = float(options.total_rows)
    efficiency: dict[str, dict[str, float]] = {}
    for n_workers in SIZES:
        row = efficiency.setdefault(str(n_workers), {})
        for gigabits in GIGABITS:
            rate = gigabits * 1e9 / 8
            sent = sum(seconds_of_sum(n, n_workers, rate) for n in counting.added)
            n_gathers = len(counting.gathered)
            sent += seconds_of_gather(volume.at(total), n_workers, rate)
            sent += (n_gathers - 1) * (n_workers - 1) * LATENCY
            taken = time.at(total / n_workers) + sent
            row[str(gigabits)] = time.at(total) / n_workers / taken
    return {
        "rows": sizes, "seconds": seconds, "seconds_of_a_row": time.of_row,
        "sums": len(counting.added), "bytes_of_sums": sum(counting.added),
        "gathers": len(counting.gathered), "bytes_of_gathers": volume.at(total),
        "total_rows": options.total_rows, "trees": options.trees, "efficiency": efficiency,
    }  # fmt: skip


def show(content: Content) -> Iterator[str]:
    """Yield the efficiency, and the time of a single worker."""
    results = measured(content["results"])
    if "model" in results:
        found = results["model"]
        corner = f"efficiency, {found['total_rows']:,} × {FEATURES}, computed"
        yield pivot(corner, {
            f"{n_workers} workers": {
                f"{gigabits} Gb/s": f"{100 * value:.0f} %" for gigabits, value in row.items()
            }
            for n_workers, row in found["efficiency"].items()
        })  # fmt: skip
        trees = found["trees"]
        yield pivot("volume of a tree", {
            "sums": {"number": f"{found['sums'] / trees:.0f}",
                     "MB": f"{found['bytes_of_sums'] / trees / 1e6:.2f}"},
            "gathered arrays": {"number": f"{found['gathers'] / trees:.0f}",
                                "MB": f"{found['bytes_of_gathers'] / trees / 1e6:.2f}"},
        })  # fmt: skip
    yield pivot("time of the only worker ÷ that of a plain process", {
        f"{int(rows):,} rows": {"least times": f"{part['ratio']:.3f}"}
        for rows, part in results.get("alone", {}).items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    for rows, part in results.get("alone", {}).items():
        what = f"the time of the only worker of a cluster relative to a plain process, {rows} rows,"
        yield Goal(what, None, part["ratio"])  # a process alone does not use these operations


PROGRAM = Program(
    "cluster_volume", __doc__,
    {"alone": alone, "model": model},
    {
        "most_rows": (1_000_000, "rows of the larger table that is measured"),
        "total_rows": (100_000_000, "rows that the clusters share"),
        "trees": (50, "rounds of boosting"),
        "repeats": (5, "fits of each"),
        "threads": (2, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
