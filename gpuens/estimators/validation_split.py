"""Rows held out for early stopping."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from ..devices.placement import to_numpy


def split_rows(
    n: int, target: Any, weight: Any, fraction: float | int, n_classes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to train on and to hold out, in the order of ``train_test_split``.

    Classes are held out in proportion where there are rows enough for that. Rows of weight
    zero are in neither part (``weight`` is empty where there are no weights). The rows are those
    of HistGradientBoosting with ``random_state=seed``, and their order is that of a split that a
    user makes with its ``seed_of_split``: rounding draws by row number, so only then is it the
    same model.

    Raises
    ------
    ValueError
        Nothing would be left on one side.
    """
    rows = np.arange(n) if weight.size == 0 else np.flatnonzero(to_numpy(weight))
    labels = to_numpy(target)[rows] if n_classes else None
    try:
        if labels is not None:
            with suppress(ValueError):  # too few rows of a class, or fewer rows than classes
                return _split(rows, fraction, seed, labels)
        return _split(rows, fraction, seed, None)
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} of {rows.size} rows cannot be held out for early "
            f"stopping ({error}). Change it, pass eval_set, or set early_stopping=False."
        ) from error


def _split(
    rows: np.ndarray, fraction: float | int, seed: int, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    train, held_out = train_test_split(
        rows, test_size=fraction, random_state=seed_of_split(seed), stratify=labels
    )
    return train, held_out


def seed_of_split(seed: int) -> int:
    """What HistGradientBoosting seeds ``train_test_split`` with."""
    return int(check_random_state(seed).randint(np.iinfo(np.uint32).max, dtype=np.uint64))
