"""Rows to validate on: passed to ``fit`` or held out, and when they stop the training."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..devices.placement import to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers


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


class EvalSet(NamedTuple):
    """Further rows, as the user passed them.

    ``data`` is their key in ``evals_result_``; ``names`` are the arrays' in error messages.
    ``of_queries`` holds what a ranking has besides; ``workers`` share the training rows.
    """

    X: Any
    y: Any
    weight: Any
    data: str
    names: tuple[str, str, str]
    of_queries: Any = None
    workers: Workers = ONE_WORKER


def eval_sets(
    eval_set: Any,
    weights: Any,
    validation: tuple[Any, Any, Any] = (None, None, None),
    early_stopping: bool | str = False,
) -> list[EvalSet]:
    """Read the arguments that hold further rows.

    Parameters
    ----------
    eval_set : (X, y), list of these, or None
    weights : array for a single pair, list of arrays and None for a list, or None
    validation : tuple
        scikit-learn's names for one set: ``X_val``, ``y_val`` and ``sample_weight_val``.
    early_stopping : bool or "auto"
        Of the estimator.

    Raises
    ------
    ValueError, TypeError
        Names the argument, what it got and what it wants.
    """
    if any(part is not None for part in validation):
        return [_validation_set(*validation, eval_set, early_stopping)]
    if eval_set is None:
        eval_set = []
    elif isinstance(eval_set, tuple):
        eval_set, weights = [eval_set], None if weights is None else [weights]
    if not isinstance(eval_set, list):
        raise TypeError(
            f"eval_set must be a pair (X, y) or a list of these, got {type(eval_set).__name__}."
        )
    for i, pair in enumerate(eval_set):
        if not isinstance(pair, tuple) or len(pair) != 2:
            size = f" of length {len(pair)}" if isinstance(pair, tuple) else ""
            raise ValueError(
                f"eval_set[{i}] must be a pair (X, y), got {type(pair).__name__}{size}."
            )
    if weights is None:
        weights = [None] * len(eval_set)
    if not isinstance(weights, (list, tuple)) or len(weights) != len(eval_set):
        size = f" of length {len(weights)}" if hasattr(weights, "__len__") else ""
        raise ValueError(
            f"eval_sample_weight must be a list with an array (or None) for each of the "
            f"{len(eval_set)} evaluation sets, got {type(weights).__name__}{size}."
        )
    return [
        EvalSet(X, y, weight, f"validation_{i}", _names(f"eval_set[{i}] "))
        for i, ((X, y), weight) in enumerate(zip(eval_set, weights, strict=True))
    ]


def _names(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}X", f"{prefix}y", f"{prefix}sample_weight"


def _validation_set(
    X_val: Any, y_val: Any, weight: Any, eval_set: Any, early_stopping: bool | str
) -> EvalSet:
    """Read scikit-learn's names, of which one is not None. Raises a ValueError if the others are
    not there, early stopping is off, or ``eval_set`` is given too."""
    if X_val is None and y_val is None:
        raise ValueError(
            "sample_weight_val is provided, but X_val and y_val were not provided: pass the "
            "rows that the weights belong to."
        )
    for given, missing, array in (("X_val", "y_val", y_val), ("y_val", "X_val", X_val)):
        if array is None:
            raise ValueError(f"{given} is provided, but {missing} was not provided: pass both.")
    if eval_set is not None:
        raise ValueError(
            "X_val and eval_set are two names for rows to validate on: pass all of them in "
            "eval_set, as [(X_val, y_val), ...], or X_val and y_val alone."
        )
    if not early_stopping:
        raise ValueError(
            "X_val and y_val are passed to fit while at the same time early_stopping is False: "
            "set early_stopping to True or 'auto', or pass eval_set=[(X_val, y_val)] to record "
            "the metrics alone."
        )
    return EvalSet(X_val, y_val, weight, "validation", ("X_val", "y_val", "sample_weight_val"))


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
