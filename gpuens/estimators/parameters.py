"""Parameters that every estimator reads in the same way: seeds, threads, callbacks."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from sklearn.utils import check_random_state

from ..config import available_threads
from .value_checks import is_bool

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
