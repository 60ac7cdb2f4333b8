"""The parameter ``learning_rate``: a number, one for each round, or a function of the round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

Schedule = Callable[[int], float]
"""The rate of a round; rounds are counted from 0."""


def _is_rate(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    return number and 0 < float(value) < np.inf


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))


def schedule_of(learning_rate: Any, n_rounds: int) -> Schedule:
    """Read the parameter.

    Parameters
    ----------
    learning_rate : float, sequence of float, or callable
    n_rounds : int
        Rounds that a sequence must have a rate for.

    Returns
    -------
    Schedule
        Raises ValueError if a callable gives anything but a finite number > 0.

    Raises
    ------
    ValueError
        Names the parameter, what it got and what it wants.
    """
    if _is_rate(learning_rate):
        return lambda index: float(learning_rate)
    if _is_sequence(learning_rate):
        return _from_sequence(learning_rate, n_rounds)
    if not callable(learning_rate) or isinstance(learning_rate, type):
        raise ValueError(
            "learning_rate must be a finite number > 0, a sequence of these, or a function "
            f"(round from 0) -> rate, got {learning_rate!r}."
        )

    def rate(index: int) -> float:
        value = learning_rate(index)
        if not _is_rate(value):
            raise ValueError(
                f"learning_rate({index}) must be a finite number > 0, got {value!r}; the function "
                "is called with the number of rounds that are done."
            )
        return float(value)

    return rate


def _from_sequence(rates: Any, n_rounds: int) -> Schedule:
    for index, value in enumerate(rates):
        if not _is_rate(value):
            raise ValueError(f"learning_rate[{index}] must be a finite number > 0, got {value!r}.")
    if len(rates) < n_rounds:
        raise ValueError(
            f"learning_rate must have a rate for each of the n_estimators={n_rounds} rounds, got "
            f"{len(rates)}. Lengthen it, or lower n_estimators."
        )
    fixed = [float(value) for value in rates]
    return lambda index: fixed[index]
