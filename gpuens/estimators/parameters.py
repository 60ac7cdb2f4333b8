"""Checks of parameters that estimators share, and what seeds and threads mean."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..config import available_threads


def is_bool(value: Any) -> bool:
    """Whether a value is True or False, of Python or NumPy."""
    return isinstance(value, (bool, np.bool_))


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is a whole number, not below ``least``."""
    return isinstance(value, Integral) and not is_bool(value) and int(value) >= least


def is_number(value: Any) -> bool:
    """Whether a value is a real number, not True or False."""
    return isinstance(value, Real) and not is_bool(value)


_SEEDS = 2**32


def check_callbacks(value: Any) -> None:
    """Check the parameter ``callbacks``: None, or a list of objects with ``after_iteration``."""
    if value is None:
        return
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"callbacks must be None or a list, got {value!r}.")
    for callback in value:
        if not callable(getattr(callback, "after_iteration", None)) or isinstance(callback, type):
            raise TypeError(
                f"callbacks must be objects with a method after_iteration(state), got {callback!r}."
            )


def seed_of(random_state: Any) -> int:
    """The random key of a fit; None is a fixed one, so that the same call gives the same
    model."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral) and not is_bool(random_state):
        if 0 <= int(random_state) < _SEEDS:
            return int(random_state)
    elif not isinstance(random_state, (Real, str)):
        try:
            return int(check_random_state(random_state).randint(0, 2**31 - 1))
        except ValueError:
            pass
    raise ValueError(
        "random_state must be None, an integer from 0 to 2**32 - 1 or a numpy RandomState, got "
        f"{random_state!r}."
    )


def threads_of(n_jobs: Any) -> int:
    """How many threads ``n_jobs`` stands for: None all, -1 all, -2 all but one."""
    if n_jobs is None:
        return available_threads()
    if not isinstance(n_jobs, Integral) or is_bool(n_jobs) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    if n_jobs < 0:
        return max(1, available_threads() + 1 + int(n_jobs))
    return int(n_jobs)


def monotone_constraints(
    monotonic_cst: Any, categorical: np.ndarray, n_classes: tuple[int, ...], n_outputs: int
) -> np.ndarray:
    """The constraint of each feature, int8.

    Parameters
    ----------
    monotonic_cst : array-like of int, shape (n_features,), or None
    categorical : bool, shape (n_features,)
    n_classes : tuple of int
        Empty for regression.
    n_outputs : int

    Raises
    ------
    ValueError
        Wrong length or entries, a constraint on a category, several outputs or classes.
    """
    n_features = categorical.size
    if monotonic_cst is None:
        return np.zeros(n_features, np.int8)
    constraints = np.asarray(monotonic_cst)
    if n_outputs > 1 and constraints.any():
        raise ValueError(
            "Monotonicity constraints are not supported with multiple outputs. y has "
            f"{n_outputs}: set monotonic_cst=None, or fit a model for each."
        )
    if constraints.ndim != 1:
        raise ValueError(
            "monotonic_cst must be None or a list with -1, 0 or 1 for each feature, got "
            f"{monotonic_cst!r}."
        )
    if constraints.size != n_features:
        raise ValueError(
            f"monotonic_cst has shape {constraints.size} but the input data X has {n_features} "
            "features. Pass -1, 0 or 1 for each of them."
        )
    if not bool(np.isin(constraints, (-1, 0, 1)).all()):
        raise ValueError(
            "monotonic_cst must be None or an array-like of -1, 0 or 1, but got "
            f"[{', '.join(sorted({str(c) for c in constraints.tolist()}))}]."
        )
    constraints = constraints.astype(np.int8)
    if not constraints.any():
        return constraints
    if n_classes and n_classes[0] > 2:
        raise ValueError(
            "Monotonicity constraints are not supported with multiclass classification. y has "
            f"{n_classes[0]} classes: set monotonic_cst=None."
        )
    wrong = np.flatnonzero((constraints != 0) & categorical)
    if wrong.size:
        raise ValueError(
            "Categorical features cannot have monotonic constraints: monotonic_cst constrains "
            f"feature {wrong[0]}, whose categories have no order. Set it to 0 there."
        )
    return constraints
