"""A table that is larger than memory: binned batch by batch into a file, and trained from it.

A new process generates the batches (28 features, float32, two classes), bins them with
``BinnedTable.from_batches`` into a file and trains from it. With ``--parquet`` they are read from a
parquet file, which is written before. Counted is memory that is allocated; pages of the file are
the system's cache and do not count: it takes them away where memory is needed, but a machine with
more memory than the file keeps them. With ``--limited`` the process has a control group of
``--gigabytes``, in which such pages count too. Other processes, before and after, train on as many
rows as ``--rows-in-memory`` says with ``fit(X, y)``; the median counts.

Times are seconds for a million rows, without those in which batches were generated; they include
reading parquet. The peak is memory that was allocated (``RssAnon``, read every 10 ms) beyond that
before; of ``from_batches`` two batches and the target, which has a byte a row, are subtracted.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gpuens import BinnedTable, GradientBoostingClassifier, memory_plan
from gpuens.datasets import make_higgs_like

from ..common.goals import Goal
from ..common.markdown import pivot
from ..common.memory import Allocated
from ..common.peers import GapError
from ..common.processes import call
from ..common.program import Content, Options, Program, Results

FEATURES = 28
LEAVES = 63
WARM_UP_ROWS = 4096
FITS_BEFORE, FITS_AFTER = 2, 3
"""Trainings in memory: those right after the other one take up to a sixth longer than others."""
MOST_SECONDS = 1.5
"""Relative to those of training in memory."""
MOST_MEMORY = 0.3
"""GB beyond two batches and the target."""
PARQUET, TARGET = "rows.parquet", "y"
MEMBERS = "cgroup.procs"
_ROOT = Path("/sys/fs/cgroup")
GROUPS = (_ROOT, "memory.max"), (_ROOT / "memory", "memory.limit_in_bytes")
"""The folders of control groups of version 2 and 1, and the files of their limits."""


class Batches:
    """Rows that are generated again at every reading, and the seconds that this takes."""

    def __init__(self, n_rows: int, batch_rows: int) -> None:
        self.n_rows, self.batch_rows = n_rows, batch_rows
        self.seconds = 0.0

    def __call__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number, first in enumerate(range(0, self.n_rows, self.batch_rows)):
            start = time.perf_counter()
            made = make_higgs_like(min(self.batch_rows, self.n_rows - first), FEATURES, number)
            self.seconds += time.perf_counter() - start
            yield made


def write_parquet(path: Path, n_rows: int, batch_rows: int) -> Path:
    """Write the batches into a parquet file, a row group each."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{k}" for k in range(FEATURES)]
    schema = pa.schema([*((name, pa.float32()) for name in names), (TARGET, pa.int8())])
    with parquet.ParquetWriter(path, schema, compression="none") as writer:
        for X, y in Batches(n_rows, batch_rows)():
            arrays = [*(pa.array(column) for column in X.T.copy()), pa.array(y.astype(np.int8))]
            writer.write_table(pa.table(arrays, schema=schema))
    return path


@contextmanager
def group_of(n_bytes: int) -> Iterator[str]:
    """Make a control group with so much memory, the pages of files included, and remove it when
    its processes have ended; returns the file that takes their numbers.

    Raises
    ------
    GapError
        No such group can be made.
    """
    above, name = next((group for group in GROUPS if (group[0] / MEMBERS).exists()), GROUPS[0])
    group = above / f"benchmark-{os.getpid()}"
    try:
        group.mkdir()
        (group / name).write_text(str(n_bytes))
    except OSError as error:
        raise GapError(f"no control group can be made ({error.strerror})") from error
    try:
        yield str(group / MEMBERS)
    finally:
        group.rmdir()


def estimator(trees: int, threads: int) -> GradientBoostingClassifier:
    return GradientBoostingClassifier(
        n_estimators=trees, max_leaf_nodes=LEAVES, n_jobs=threads, random_state=0, device="cpu"
    )


def from_batches_here(
    n_rows: int, batch_rows: int, trees: int, threads: int, folder: str, group: str | None
) -> dict[str, Any]:
    """Measure in this process, which joins a control group; reads a parquet file if the folder has
    one."""
    few = BinnedTable.from_batches(Batches(WARM_UP_ROWS, 2048), n_jobs=threads)
    estimator(2, threads).fit(few)
    if group is not None:
        Path(group).write_text(str(os.getpid()))
    batches, path = Batches(n_rows, batch_rows), Path(folder) / "table"
    parquet = Path(folder) / PARQUET
    is_parquet = parquet.exists()
    source: Any = parquet if is_parquet else batches
    with Allocated() as binning:
        start = time.perf_counter()
        y = TARGET if is_parquet else None
        table = BinnedTable.from_batches(source, y=y, path=path, n_jobs=threads)
        bin_seconds = time.perf_counter() - start - batches.seconds
    with Allocated() as training:
        start = time.perf_counter()
        model = estimator(trees, threads).fit(table)
        fit_seconds = time.perf_counter() - start
    plan = memory_plan(estimator(trees, threads), table)
    return {
        "rows": n_rows, "parquet": is_parquet, "streams": plan.streams,
        "binning": bin_seconds, "fit": fit_seconds,
        "generating": batches.seconds, "binning_bytes": binning.most - binning.before,
        "fit_bytes": training.most - training.before,
        "most_bytes": max(binning.most, training.most),
        "file_bytes": path.stat().st_size,
        "fingerprint": model.forest_.fingerprint(),
    }  # fmt: skip


def in_memory_here(n_rows: int, batch_rows: int, trees: int, threads: int) -> dict[str, Any]:
    """Measure ``fit(X, y)`` of the same batches."""
    X, y = (np.concatenate(parts) for parts in zip(*Batches(n_rows, batch_rows)(), strict=True))
    estimator(2, threads).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    start = time.perf_counter()
    model = estimator(trees, threads).fit(X, y)
    seconds = time.perf_counter() - start
    return {"rows": n_rows, "fit": seconds, "fingerprint": model.forest_.fingerprint()}


def measure(options: Options) -> Results:
    """Measure both processes."""
    shape = options.batch_rows, options.trees, options.threads
    limited = group_of(int(1e9 * options.gigabytes)) if options.limited else nullcontext()
    in_memory = options.rows_in_memory, *shape
    fits = [call(in_memory_here, *in_memory) for _ in range(FITS_BEFORE)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, limited as group:
        if options.parquet:
            write_parquet(Path(folder) / PARQUET, options.rows, options.batch_rows)
        found = call(from_batches_here, options.rows, *shape, folder, group)
    print(f"  from batches: {found}", flush=True)
    fits += [call(in_memory_here, *in_memory) for _ in range(FITS_AFTER)]
    print(f"  in memory: {fits}", flush=True)
    memory = fits[0] | {"fit": median(fit["fit"] for fit in fits)}
    seconds = (found["binning"] + found["fit"]) / found["rows"]
    results = {
        "from batches": found, "in memory": memory,
        "ratio": seconds * memory["rows"] / memory["fit"], "limit": options.gigabytes,
        "limited": options.limited,
    }  # fmt: skip
    if options.rows == options.rows_in_memory:
        same = found["fingerprint"] == memory["fingerprint"]
        results["equal"] = {"from batches and in memory": same}
    return results


def show(content: Content) -> Iterator[str]:
    """Yield times and memory."""
    results = content["results"]
    found, memory = results["from batches"], results["in memory"]

    def per_million(seconds: float, rows: int) -> str:
        return f"{1e6 * seconds / rows:.2f}"

    yield pivot("seconds a million rows, GB", {
        f"{found['rows']:,} rows from batches": {
            "binning": per_million(found["binning"], found["rows"]),
            "training": per_million(found["fit"], found["rows"]),
            "peak of binning": f"{found['binning_bytes'] / 1e9:.2f} GB",
            "peak of training": f"{found['fit_bytes'] / 1e9:.2f} GB",
            "all that is allocated": f"{found['most_bytes'] / 1e9:.2f} GB",
            "file": f"{found['file_bytes'] / 1e9:.2f} GB",
            "limit": f"{results['limit']} GB" if results.get("limited") else "none",
        },
        f"{memory['rows']:,} rows in memory": {
            "training": per_million(memory["fit"], memory["rows"]),
        },
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = content["results"]
    rows = f"{results['from batches']['rows']:,} rows"
    what = f"the time a row to bin and train {rows} from batches, relative to training in memory,"
    yield Goal(what, MOST_SECONDS, results["ratio"])
    what = f"the peak of from_batches beyond two batches and the target, {rows},"
    batch = 4 * FEATURES * content["settings"]["batch_rows"]
    beyond = results["from batches"]["binning_bytes"] - 2 * batch - results["from batches"]["rows"]
    yield Goal(what, MOST_MEMORY, beyond / 1e9, "GB")
    what = f"the most memory that is allocated to bin and train {rows} from batches"
    yield Goal(what, results["limit"], results["from batches"]["most_bytes"] / 1e9, "GB")


PROGRAM = Program(
    "batches", __doc__, measure,
    {
        "rows": (75_000_000, "rows from batches"),
        "batch_rows": (1_000_000, "rows of a batch"),
        "gigabytes": (3.5, "GB that should be allocated at most"),
        "rows_in_memory": (4_000_000, "rows that are trained on in memory"),
        "trees": (20, "rounds of boosting"),
        "threads": (2, "threads"),
        "parquet": (False, "whether the rows are read from a parquet file"),
        "limited": (False, "whether the process gets no more memory (as root, on Linux)"),
        "folder": (Path(tempfile.gettempdir()), "where the file is written"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
