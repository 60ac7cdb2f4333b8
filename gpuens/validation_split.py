"""Rows held out for early stopping."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from .devices import to_numpy


def split_rows(
    n: int, target: Any, fraction: float | int, n_classes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to train on and to hold out, both ascending.

    Classes are held out in proportion where each has at least two rows.

    Raises
    ------
    ValueError
        Nothing would be left on one side.
    """
    stratify = None
    if n_classes:
        labels = to_numpy(target)
        counts = np.bincount(labels.astype(np.int64), minlength=n_classes)
        stratify = labels if counts.min() >= 2 else None
    try:
        train, held_out = train_test_split(
            np.arange(n), test_size=fraction, random_state=seed, stratify=stratify
        )
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} of {n} rows cannot be held out for early stopping "
            f"({error}). Change it, pass eval_set, or set early_stopping=False."
        ) from error
    return np.sort(train), np.sort(held_out)
