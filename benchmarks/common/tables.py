"""The real tables that programs learn from, and their splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from .machine import ROOT
from .peers import GapError, Task

DATA = ROOT.parent / "shared" / "data"
REGRESSION = (
    "california_housing", "california_housing_missing", "bike", "datacar", "ames", "diamonds",
)  # fmt: skip
"""The tables with numbers as targets; those of the others are classes."""
SURVIVAL = ("metabric", "gbsg2")
"""Those with times."""
SHARES = {
    "covtype_shares": ("covtype_first20k", (0.3646, 0.4876, 0.0615, 0.0047, 0.0163, 0.0299, 0.0354))
}
"""Tables whose rows are drawn from another file such that the classes have these shares: those of
all Covertype, where the file has as many rows of one class as of another."""
Losses = dict[str, list[float]]
"""By model, one for each split."""


def load(folder: Path, name: str, max_rows: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of one ``.npz`` file; raises GapError if there is none.

    ``y`` is float64 in regression and of times, and classes from 0 elsewhere. With ``max_rows``
    the rows are drawn at random, the same every time.
    """
    if name in SHARES:
        file_name, shares = SHARES[name]
        try:
            arrays = load(folder, file_name)
        except GapError as gap:
            raise GapError(f"{name}.npz is made from another file: {gap}") from None
        if np.unique(arrays["y"]).size != len(shares):
            raise GapError(f"{name} needs the {len(shares)} classes of {file_name}.npz")
        return _rows_of(arrays, _by_shares(arrays["y"], shares)[:max_rows])
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise GapError(f"{name}.npz is not in the folder of the data")
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    if name in (*REGRESSION, *SURVIVAL):
        arrays["y"] = arrays["y"].astype(np.float64)
    else:
        arrays["y"] = np.unique(arrays["y"], return_inverse=True)[1]
    if max_rows is not None:
        rows = np.random.default_rng(0).permutation(len(arrays["y"]))[:max_rows]
        arrays = _rows_of(arrays, rows)
    return arrays


def _rows_of(arrays: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    n = len(arrays["y"])
    return {key: a[rows] if a.shape[:1] == (n,) else a for key, a in arrays.items()}


def _by_shares(y: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Draw as many rows as there are, with classes of these shares, in random order."""
    rng = np.random.default_rng(0)
    n = int((np.bincount(y) / shares).min())
    rows = [rng.permutation(np.flatnonzero(y == k))[: round(n * s)] for k, s in enumerate(shares)]
    return rng.permutation(np.concatenate(rows))


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


def by_split(n_splits: int, losses_of: Callable[[int], Mapping[Any, float]]) -> Losses:
    """Return all losses; ``losses_of(seed)`` returns those of one split, by model."""
    losses: Losses = {}
    for seed in range(n_splits):
        for model, loss in losses_of(seed).items():
            losses.setdefault(model, []).append(float(loss))
    return losses


def title(y: np.ndarray, n_features: int) -> str:
    """Return a table's size in words."""
    n = len(y)
    rows = f"{n / 1e6:g}M" if n >= 1e6 else f"{n / 1e3:g}k" if n >= 1000 else str(n)
    return f"{rows} × {n_features}, {np.unique(y).size} classes"
