"""The real tables that accuracy is measured on, and their splits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from ..common import peers
from ..common.counterparts import GapError

TASKS: dict[str, peers.Task] = {
    "spambase": "binary",
    "adult": "binary",
    "higgs_lightgbm": "binary",
    "covtype_first20k": "multiclass",
    "letter": "multiclass",
    "satimage": "multiclass",
    "vehicle": "multiclass",
    "image_segmentation": "multiclass",
    "glass": "multiclass",
    "california_housing": "regression",
    "bike": "regression",
    "breast_cancer_wisconsin": "binary",
    "ionosphere": "binary",
    "pima_diabetes": "binary",
}
"""Every table and what is learned from it."""


@dataclass(frozen=True)
class Table:
    """X, shape (n, features), and y, shape (n,): numbers, or classes 0, 1, ..."""

    name: str
    X: np.ndarray
    y: np.ndarray
    task: peers.Task

    @property
    def n_classes(self) -> int:
        return 0 if self.task == "regression" else int(np.unique(self.y).size)


def load(folder: Path, name: str, max_rows: int | None) -> Table:
    """One ``.npz`` file with the arrays X and y.

    Raises
    ------
    GapError
        If the file is not there.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise GapError(f"{name}.npz is not in {folder}")
    with np.load(path, allow_pickle=False) as file:
        X, y = file["X"], file["y"]
    if max_rows is not None:
        rows = np.random.default_rng(0).permutation(len(y))[:max_rows]
        X, y = X[rows], y[rows]
    if TASKS[name] == "regression":
        return Table(name, X, y.astype(np.float64), TASKS[name])
    return Table(name, X, np.unique(y, return_inverse=True)[1], TASKS[name])


def parts_of(table: Table, seed: int) -> list[np.ndarray]:
    """X to train on, X to predict, and their targets: 75/25, stratified for classes."""
    stratify = None if table.task == "regression" else table.y
    return train_test_split(table.X, table.y, test_size=0.25, random_state=seed, stratify=stratify)
