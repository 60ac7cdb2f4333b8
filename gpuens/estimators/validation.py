"""Early stopping: the rows that are held out for it, and when it ends a training."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from sklearn.utils import check_random_state

from ..devices.placement import to_numpy
from ..kernels.runtime.arrays import Array


@dataclass
class EarlyStopping:
    """Watch one metric on one data set, and report when to stop.

    Parameters
    ----------
    patience : int
        Rounds without improvement before the training stops.
    tol : float
        Least improvement that counts.
    higher_is_better : bool
    """

    patience: int
    tol: float
    higher_is_better: bool
    best: float = field(default=math.nan, init=False)
    best_iteration: int = field(default=0, init=False)
    _reference: float = field(default=math.nan, init=False)
    _reference_iteration: int = field(default=-1, init=False)

    def update(self, iteration: int, value: float) -> bool:
        """Record the value of a round (rounds ascend), and return whether to stop."""
        score = value if self.higher_is_better else -value
        first = self._reference_iteration < 0
        if first or _improves(score, self.best):
            self.best, self.best_iteration = score, iteration
        if first or _improves(score, self._reference + self.tol):
            self._reference, self._reference_iteration = score, iteration
        return iteration - self._reference_iteration >= self.patience


def _improves(score: float, best: float) -> bool:
    """Compare scores; NaN is worse than any number."""
    return score > best or (math.isnan(best) and not math.isnan(score))


def split_rows(
    n: int,
    target: Array,
    weight: Array,
    fraction: float | int,
    n_classes: int,
    seed: int,
    what: str = "rows",
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rows to train on and those to hold out, in the order of ``train_test_split``.

    Classes are held out in proportion if they have enough rows. Rows of weight zero are in neither
    part (``weight`` is empty without weights). The rows are those of HistGradientBoosting with
    ``random_state=seed``. Their order is that of ``train_test_split`` with ``seed_of_split(seed)``:
    gradients are rounded by row number, so a user's own split only gives the same model in this
    order.

    Raises a ValueError if nothing would be left on one side.
    """
    rows = np.arange(n) if weight.size == 0 else np.flatnonzero(to_numpy(weight))
    labels = to_numpy(target)[rows] if n_classes else None
    try:
        return _split(rows, fraction, seed_of_split(seed), labels)
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} of {rows.size} {what} cannot be held out for early "
            f"stopping ({error}). Change it, pass eval_set, or set early_stopping=False."
        ) from error


def seed_of_split(seed: int) -> int:
    """Return the seed that HistGradientBoosting passes to ``train_test_split``."""
    return int(check_random_state(seed).randint(np.iinfo(np.uint32).max, dtype=np.uint64))


def holdout_rows(
    n_rows: int, share: float | int, codes: np.ndarray | None, seed: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rows to train on and those to hold out, both ascending: int64 ndarrays.

    Parameters
    ----------
    share : float or int
        Of the rows to hold out, or their number.
    codes : int64 ndarray, shape (n_rows,), or None
        Class numbers: classes are held out in proportion if they have enough rows.
    name : str
        Of the share in error messages.

    Raises
    ------
    ValueError
        Nothing would be left on one side.
    """
    try:
        train, held_out = _split(np.arange(n_rows), share, seed, codes)
    except ValueError as error:
        raise ValueError(
            f"{name}={share} of {n_rows} rows cannot be held out ({error}). Change it, or pass "
            "more rows."
        ) from error
    return np.sort(train), np.sort(held_out)


def _split(
    rows: np.ndarray, share: float | int, seed: int, codes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows, in proportion to their classes if these have enough rows."""
    from sklearn.model_selection import train_test_split

    if codes is not None:
        with suppress(ValueError):
            return tuple(train_test_split(rows, test_size=share, random_state=seed, stratify=codes))
    return tuple(train_test_split(rows, test_size=share, random_state=seed))
