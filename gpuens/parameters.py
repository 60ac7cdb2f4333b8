"""What values the parameters may have, and the errors for the others."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .config import available_threads
from .kernels.dtypes import MAX_BINS
from .kernels.frontier import UNLIMITED, GrowthParams

_SEEDS = 2**32


class _Range:
    """A range of numbers, written as the error message shows it."""

    def __init__(self, text: str, kind: type, test: Callable[[Any], bool], none: bool = False):
        self.text, self.kind, self.test, self.none = text, kind, test, none

    def check(self, name: str, value: Any) -> None:
        if value is None and self.none:
            return
        if (
            isinstance(value, self.kind)
            and not isinstance(value, (bool, np.bool_))
            and self.test(value)
        ):
            return
        raise ValueError(f"{name} must be {self.text}, got {value!r}.")


_POSITIVE_INT = _Range("an integer >= 1", Integral, lambda v: v >= 1)
_SHARE = _Range("a number in (0, 1]", Real, lambda v: 0 < v <= 1)
_NOT_NEGATIVE = _Range("a finite number >= 0", Real, lambda v: 0 <= v < np.inf)
_RANGES = {
    "n_estimators": _POSITIVE_INT,
    "learning_rate": _Range("a finite number > 0", Real, lambda v: 0 < v < np.inf),
    "max_depth": _Range("None or an integer >= 1", Integral, lambda v: v >= 1, none=True),
    "max_leaf_nodes": _Range("None or an integer >= 2", Integral, lambda v: v >= 2, none=True),
    "min_samples_leaf": _POSITIVE_INT,
    "min_sum_hessian": _NOT_NEGATIVE,
    "l2_regularization": _NOT_NEGATIVE,
    "min_gain_to_split": _NOT_NEGATIVE,
    "max_bins": _Range(f"an integer from 2 to {MAX_BINS}", Integral, lambda v: 2 <= v <= MAX_BINS),
    "subsample": _SHARE,
    "colsample_bytree": _SHARE,
    "colsample_bylevel": _SHARE,
    "colsample_bynode": _SHARE,
    "n_iter_no_change": _POSITIVE_INT,
    "tol": _NOT_NEGATIVE,
    "verbose": _Range("a bool or an integer >= 0", Integral, lambda v: v >= 0),
}


def check_parameters(estimator: Any) -> None:
    """Check the numbers among an estimator's parameters.

    Raises
    ------
    ValueError
        Names the parameter, what it got and what it wants.
    """
    for name, allowed in _RANGES.items():
        value = getattr(estimator, name)
        if name == "verbose" and isinstance(value, bool):
            continue
        allowed.check(name, value)
    if not (isinstance(estimator.early_stopping, bool) or estimator.early_stopping == "auto"):
        raise ValueError(
            f"early_stopping must be True, False or 'auto', got {estimator.early_stopping!r}."
        )
    fraction = estimator.validation_fraction
    if isinstance(fraction, Integral) and not isinstance(fraction, bool):
        _POSITIVE_INT.check("validation_fraction", fraction)
    elif not (isinstance(fraction, Real) and 0 < fraction < 1):
        raise ValueError(
            "validation_fraction must be a number in (0, 1) or a number of rows >= 1, got "
            f"{fraction!r}."
        )


def growth_params(estimator: Any) -> GrowthParams:
    """The settings of growth, as plain numbers."""

    def limit(value: int | None) -> int:
        return UNLIMITED if value is None else int(value)

    return GrowthParams(
        max_leaves=limit(estimator.max_leaf_nodes),
        max_depth=limit(estimator.max_depth),
        min_samples_leaf=int(estimator.min_samples_leaf),
        min_sum_hessian=float(estimator.min_sum_hessian),
        l2=float(estimator.l2_regularization),
        min_gain=float(estimator.min_gain_to_split),
        colsample_bytree=float(estimator.colsample_bytree),
        colsample_bylevel=float(estimator.colsample_bylevel),
        colsample_bynode=float(estimator.colsample_bynode),
    )


def seed_of(random_state: Any) -> int:
    """The random key of a fit; None is a fixed one, so that the same call gives the same
    model."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral) and not isinstance(random_state, (bool, np.bool_)):
        if not 0 <= random_state < _SEEDS:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, got {random_state}.")
        return int(random_state)
    return int(check_random_state(random_state).randint(0, 2**31 - 1))


def threads_of(n_jobs: Any) -> int:
    """How many threads ``n_jobs`` stands for: None all, -1 all, -2 all but one."""
    if n_jobs is None:
        return available_threads()
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    if n_jobs < 0:
        return max(1, available_threads() + 1 + int(n_jobs))
    return int(n_jobs)
