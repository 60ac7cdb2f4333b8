"""Rows held out for early stopping."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from .devices import to_numpy


def split_rows(
    n: int, target: Any, weight: Any, fraction: float | int, n_classes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to train on and to hold out, both ascending.

    Classes are held out in proportion where there are rows enough for that. Rows of weight
    zero are in neither part (``weight`` is empty where there are no weights).

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
    train, held_out = train_test_split(rows, test_size=fraction, random_state=seed, stratify=labels)
    return np.sort(train), np.sort(held_out)
