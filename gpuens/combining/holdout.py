"""A part of the rows that base models do not see."""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split


def is_share(value: Any) -> bool:
    """Whether a value is a share of the rows: a number in (0, 1) that is no integer."""
    return isinstance(value, Real) and not isinstance(value, Integral) and 0 < float(value) < 1


def holdout_rows(
    n_rows: int, share: float | int, codes: np.ndarray | None, seed: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and to hold out, both ascending: int64 ndarrays.

    Parameters
    ----------
    n_rows : int
    share : float or int
        Of the rows to hold out, or their number.
    codes : int64 ndarray, shape (n_rows,), or None
        Class numbers: classes are held out in proportion where there are rows enough.
    seed : int
    name : str
        What error messages call the share.

    Raises
    ------
    ValueError
        Nothing would be left on one side.
    """
    rows = np.arange(n_rows)
    if codes is not None:
        with suppress(ValueError):  # too few rows of a class, or fewer rows than classes
            return _split(rows, share, seed, codes)
    try:
        return _split(rows, share, seed, None)
    except ValueError as error:
        raise ValueError(
            f"{name}={share} of {n_rows} rows cannot be held out ({error}). Change it, or pass "
            "more rows."
        ) from error


def _split(
    rows: np.ndarray, share: float | int, seed: int, codes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    train, held_out = train_test_split(rows, test_size=share, random_state=seed, stratify=codes)
    return np.sort(train), np.sort(held_out)
