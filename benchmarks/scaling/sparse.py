"""Boosting on a sparse table of words, beside LightGBM and XGBoost at the same settings.

The table is generated: Zipf's law with a flat head, as of texts, 10,000 x 50,000 and 0.2 % filled
by default; ``counts`` are whole numbers, ``tf-idf`` has a different number in nearly every entry.
Each library trains in a process of its own, by default with one thread, whose CPU seconds depend
little on what else runs. Peak memory is that beyond the resident size before the fit, which has the
input and, after a small fit, everything that is loaded and compiled (see ``memory``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, settings_for
from ..common.processes import run_python
from ..common.program import Content, Options, Program, Results
from ..programs.memory import best_meter, give_back

LIBRARIES = (OURS, "LightGBM", "XGBoost")
KINDS = ("counts", "tf-idf")
HEAD = 500
"""One in so many columns belongs to the flat head."""
WORDS = 200
"""Columns that the labels follow."""
LARGEST_RATIO = 1.0
MOST_MEMORY = 300.0
"""MB."""


def words(kind: str, n_rows: int, n_columns: int, fill: float) -> tuple[Any, np.ndarray]:
    """Return a table (CSR, float64) and labels of two classes."""
    rng = np.random.default_rng(0)
    zipf = 1.0 / (np.arange(n_columns) + 1 + n_columns / HEAD)
    counts = rng.binomial(n_rows, np.minimum(zipf * fill * n_columns / zipf.sum(), 0.5))
    rows = np.concatenate([rng.choice(n_rows, k, replace=False) for k in counts])
    values = np.minimum(rng.geometric(0.7, rows.size), 20).astype(np.float64)
    begin = np.concatenate([[0], np.cumsum(counts)])
    X = scipy.sparse.csc_matrix((values, rows, begin), (n_rows, n_columns)).tocsr()
    effect = np.zeros(n_columns)
    effect[rng.choice(min(n_columns, 15 * WORDS), WORDS)] = rng.normal(size=WORDS)
    score = (X > 0) @ effect + 0.3 * rng.normal(size=n_rows)
    y = (score > np.median(score)).astype(np.int64)
    return (TfidfTransformer().fit_transform(X) if kind == "tf-idf" else X), y


def measure_here(library: str, kind: str, shape: list[float], trees: int, threads: int) -> Any:
    """Measure one fit in this process."""
    X, y = words(kind, int(shape[0]), int(shape[1]), shape[2])
    settings = settings_for(
        library, peers.Settings(trees, 31, min_samples_leaf=10, l2=1.0, threads=threads)
    )
    few = slice(min(2000, len(y)))
    peers.estimator(library, "binary", replace(settings, n_trees=2)).fit(X[few], y[few])
    give_back()
    meter = best_meter()
    before = meter.start()
    start, worked = time.perf_counter(), time.process_time()
    model = peers.estimator(library, "binary", settings).fit(X, y)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    peak = (meter.peak() - before) / 1e6
    return {"wall": seconds, "cpu": worked, "mb": peak, "accuracy": float(model.score(X, y))}


def measure(kind: str, options: Options) -> Results:
    shape = [options.rows, options.columns, options.fill]
    runs: dict[str, list[Any]] = {name: [] for name in peers.installed(LIBRARIES)}
    for _ in range(options.repeats):
        for name, own in runs.items():
            arguments = name, kind, shape, options.trees, options.threads
            own.append(run_python(
                "import json\n"
                "from benchmarks.scaling.sparse import measure_here\n"
                f"print(json.dumps(measure_here{arguments!r}))"
            ))  # fmt: skip
            print(f"  {kind}: {name:<10}", own[-1], flush=True)
    cpu = {name: median(run["cpu"] for run in own) for name, own in runs.items()}
    return {name: {"runs": own, "ratio": cpu[OURS] / cpu[name]} for name, own in runs.items()}


def show(content: Content) -> Iterator[str]:
    """Yield times and peaks of each library."""
    for kind, libraries in measured(content["results"]).items():
        yield pivot(f"fit of a sparse table of words, {kind}", {
            name: {
                "CPU seconds": f"{median(run['cpu'] for run in row['runs']):.2f}",
                "seconds": f"{median(run['wall'] for run in row['runs']):.2f}",
                "gpuens ÷": f"{row['ratio']:.2f}",
                "peak MB": f"{median(run['mb'] for run in row['runs']):.0f}",
                "accuracy, training": f"{row['runs'][0]['accuracy']:.3f}",
            }
            for name, row in libraries.items() if name != "gaps"
        })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for kind, libraries in measured(content["results"]).items():
        table = f"a fit of a sparse table of words ({kind})"
        if "LightGBM" in libraries:
            ratio = libraries["LightGBM"]["ratio"]
            yield Goal(f"the CPU time of {table}, relative to LightGBM", LARGEST_RATIO, ratio)
        peak = max(run["mb"] for run in libraries[OURS]["runs"])
        yield Goal(f"the peak memory of {table} beyond the input", MOST_MEMORY, peak, "MB")


PROGRAM = Program(
    "sparse", __doc__,
    {kind: partial(measure, kind) for kind in KINDS},
    {
        "repeats": (3, "processes for each library"),
        "threads": (1, "threads of each library"),
        "rows": (10_000, "rows of the table"),
        "columns": (50_000, "columns"),
        "fill": (0.002, "share of the cells that are not zero"),
        "trees": (100, "rounds of boosting"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
