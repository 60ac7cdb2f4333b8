"""The real tables that programs learn from, and their splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from .machine import ROOT
from .peers import OURS, GapError, Task

DATA = ROOT.parent / "shared" / "data"
REGRESSION = ("california_housing", "bike", "datacar")
"""The tables with numbers as targets; those of the others are classes."""
Losses = dict[str, list[float]]
"""By model, one for each split."""


def load(folder: Path, name: str, max_rows: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of one ``.npz`` file; raises GapError if there is none.

    ``y`` is float64 in regression and classes from 0 elsewhere. With ``max_rows`` the rows are
    drawn at random, the same every time.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise GapError(f"{name}.npz is not in {folder}")
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    if name in REGRESSION:
        arrays["y"] = arrays["y"].astype(np.float64)
    else:
        arrays["y"] = np.unique(arrays["y"], return_inverse=True)[1]
    if max_rows is not None:
        n = len(arrays["y"])
        rows = np.random.default_rng(0).permutation(n)[:max_rows]
        arrays = {key: a[rows] if a.shape[:1] == (n,) else a for key, a in arrays.items()}
    return arrays


@dataclass(frozen=True)
class Table:
    """X, shape (n, features), and y, shape (n,): numbers, or classes 0, 1, ..."""

    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 in regression."""
        return 0 if self.name in REGRESSION else int(np.unique(self.y).size)

    @property
    def task(self) -> Task:
        if self.name in REGRESSION:
            return "regression"
        return "multiclass" if self.n_classes > 2 else "binary"

    def split(self, seed: int) -> list[np.ndarray]:
        """Return X to train on, X to predict, and their targets: 75/25, stratified by class."""
        stratify = None if self.task == "regression" else self.y
        return train_test_split(
            self.X, self.y, test_size=0.25, random_state=seed, stratify=stratify
        )


def load_table(folder: Path, name: str, max_rows: int | None = None) -> Table:
    """Return X and y of a file; see ``load``."""
    arrays = load(folder, name, max_rows)
    return Table(name, arrays["X"], arrays["y"])


def official_split(arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return X to train on, X to predict, and their targets, as the table's authors split it."""
    X, y, test = arrays["X"], arrays["y"], arrays["is_test"].astype(bool)
    return [X[~test], X[test], y[~test], y[test]]


def by_split(n_splits: int, losses_of: Callable[[int], Mapping[Any, float]]) -> Losses:
    """Return all losses; ``losses_of(seed)`` returns those of one split, by model."""
    losses: Losses = {}
    for seed in range(n_splits):
        for model, loss in losses_of(seed).items():
            losses.setdefault(model, []).append(float(loss))
    return losses


def ratios_of(losses: Losses) -> dict[str, float]:
    """Return our mean loss relative to every other model's."""
    ours = float(np.mean(losses[OURS]))
    return {name: ours / float(np.mean(runs)) for name, runs in losses.items() if name != OURS}


def title(y: np.ndarray, n_features: int) -> str:
    """Return a table's size in words."""
    n = len(y)
    rows = f"{n / 1e6:g}M" if n >= 1e6 else f"{n / 1e3:g}k" if n >= 1000 else str(n)
    return f"{rows} × {n_features}, {np.unique(y).size} classes"
