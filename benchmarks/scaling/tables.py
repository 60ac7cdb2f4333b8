"""Tables of ``scaling`` in files that all measured processes map into their memory.

A table grows with the ladder: it is made block by block, every block from a seed of its own, so
that its first rows are the same however long it is. The files lie in a folder for temporary files
(``TMPDIR`` chooses another place), and a folder that a killed run has left is removed by the next.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gpuens.datasets import make_covtype_like, make_higgs_like

from ..common.peers import Task

PREFIX = "gpuens-scaling-"
BLOCK_CELLS = 7_000_000
"""Cells of a block: 28 MB as float32."""
TEST_SEED = 1_000_000
TEST_ROWS = 50_000
COVTYPE_FEATURES = 54


def make(task: Task, n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some rows: X as float32, y as int64 classes or float64 numbers."""
    if task == "multiclass":
        return make_covtype_like(n_rows, seed)
    X, y = make_higgs_like(n_rows, n_features, seed)
    return (X, y + np.abs(X[:, 0]).astype(np.float64)) if task == "regression" else (X, y)


@dataclass(frozen=True)
class Table:
    """Where a table lies, and how many of its rows are meant."""

    folder: str
    task: Task
    n_rows: int
    n_features: int

    @property
    def files(self) -> tuple[Path, Path]:
        stem = f"{self.task}-{self.n_features}"
        return Path(self.folder, f"{stem}.X"), Path(self.folder, f"{stem}.y")

    @property
    def y_dtype(self) -> type:
        return np.float64 if self.task == "regression" else np.int64

    def open(self) -> tuple[np.ndarray, np.ndarray]:
        """X and y as ordinary arrays on the files, all of X read once.

        The mapping is private: a library may write into its input, and others do not see it.
        """
        shape = (self.n_rows, self.n_features)
        X_file, y_file = self.files
        X = np.asarray(np.memmap(X_file, np.float32, "c", shape=shape))
        y = np.asarray(np.memmap(y_file, self.y_dtype, "c", shape=(self.n_rows,)))
        for array in (X, y):
            array.reshape(-1)[::512].sum()  # one of every page
        return X, y

    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the same problem that no table holds."""
        n_rows = min(self.n_rows, TEST_ROWS)
        return make(self.task, n_rows, self.n_features, TEST_SEED)


class Tables:
    """The folder, and what is in it so far."""

    def __init__(self, task: Task) -> None:
        remove_abandoned()
        self.task = task
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._n_rows: dict[int, int] = {}

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def table(self, n_rows: int, n_features: int) -> Table:
        """Return a table of that size, made as far as it is not there yet; raises OSError if the
        disk is full."""
        table = Table(str(self.folder), self.task, n_rows, n_features)
        a_block = max(1000, BLOCK_CELLS // n_features)
        there = self._n_rows.get(n_features, 0)
        missing = 4 * n_features * max(0, n_rows - there)
        free = shutil.disk_usage(self.folder).free
        if missing > free:
            raise OSError(
                f"{self.folder} has {free / 2**30:.1f} GiB left, the table needs "
                f"{missing / 2**30:.1f} GiB more. Set TMPDIR to a folder on a larger disk"
            )
        while there < n_rows:
            X, y = make(self.task, a_block, n_features, there // a_block)
            for path, array in zip(table.files, (X, y), strict=True):
                with path.open("ab") as file:
                    file.write(np.ascontiguousarray(array))
            there += a_block
            self._n_rows[n_features] = there
        return table


def remove_abandoned() -> None:
    """Remove the folders of processes that have ended, if psutil is installed."""
    if find_spec("psutil") is None:
        return
    import psutil

    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(ValueError):
            if not psutil.pid_exists(int(folder.name.removeprefix(PREFIX).split("-")[0])):
                shutil.rmtree(folder, ignore_errors=True)
