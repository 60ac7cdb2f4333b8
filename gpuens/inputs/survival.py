"""Targets of survival analysis: events and times, or the bounds of times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..devices.lazy_tables import require_in_memory
from ..devices.placement import to_numpy

ACCEPTED = (
    "a structured array with a boolean field (whether the event was observed) and a field of "
    "times, as of scikit-survival, or a tuple (event, time)"
)


class Survival(NamedTuple):
    """Right-censored times.

    event : bool ndarray, shape (n_rows,)
        Whether the event was observed at the time; False: it had not happened until then.
    time : float64 ndarray, shape (n_rows,)
        Finite, not negative.
    """

    event: np.ndarray
    time: np.ndarray


class Intervals(NamedTuple):
    """Bounds of times: equal for observed events, (time, inf) for right-censored ones.

    lower, upper : float64 ndarray, shape (n_rows,)
        0 <= lower <= upper, lower < inf, upper > 0. [0, inf] says nothing.
    """

    lower: np.ndarray
    upper: np.ndarray


def read_survival(y: Any, name: str = "y") -> Survival:
    """Read events and times.

    Parameters
    ----------
    y : structured array, or tuple (event, time)
        Events are boolean, or 0 and 1.
    name : str
        In error messages.

    Raises
    ------
    ValueError
        Names the argument, what it got and what it wants.
    """
    event, time = _two_arrays(y, name)
    if event.ndim != 1 or time.ndim != 1 or event.shape != time.shape:
        raise ValueError(
            f"{name} must have an event and a time for each row, got arrays of shapes "
            f"{event.shape} and {time.shape}."
        )
    if event.dtype != bool:
        if event.dtype.kind not in "iuf" or not np.isin(event, (0, 1)).all():
            raise ValueError(
                f"The events of {name} must be boolean, or 0 and 1, got dtype {event.dtype} with "
                f"{_first(event)!r}: pass (event, time) in this order."
            )
        event = event.astype(bool)
    return Survival(event, _times(time, name, "times"))


def read_intervals(y: Any, name: str = "y") -> Intervals:
    """Read times that are observed or censored.

    Parameters
    ----------
    y : structured array, tuple (event, time), or float array of shape (n_rows, 2)
        The array has the bounds of each time: equal ones for an observed event, (time, inf) for a
        right-censored row, (0, time) for a left-censored one.
    name : str
        In error messages.

    Raises
    ------
    ValueError
        Names the argument, what it got and what it wants.
    """
    if isinstance(y, tuple) or getattr(getattr(y, "dtype", None), "names", None):
        event, time = read_survival(y, name)
        lower, upper = time, np.where(event, time, np.inf)
    else:
        bounds = np.asarray(to_numpy(y))
        if bounds.ndim != 2 or bounds.shape[1] != 2 or bounds.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} must be {ACCEPTED}, or a float array of shape (n_rows, 2) with the lower "
                f"and upper bound of each time, got {_described(y)}."
            )
        bounds = bounds.astype(np.float64)
        lower, upper = _times(bounds[:, 0], name, "lower bounds"), bounds[:, 1].copy()
    wrong = ~(upper >= lower)  # also of NaN
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"The upper bounds of {name} must not be below the lower ones, got "
            f"[{lower[row]}, {upper[row]}] in row {row}."
        )
    if (upper == 0.0).any():
        row = int((upper == 0.0).argmax())
        raise ValueError(
            f"{name} must have positive times of events, got 0 in row {row}: drop the row, or "
            "measure times from an earlier origin."
        )
    return Intervals(lower, upper)


def _two_arrays(y: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays of events and times that ``y`` consists of."""
    if isinstance(y, tuple) and len(y) == 2:
        for column in y:
            require_in_memory(column, name)
        event, time = (np.asarray(to_numpy(column)) for column in y)
        return event, time
    require_in_memory(y, name)
    array: Any = np.asarray(y) if hasattr(y, "dtype") else np.empty(0)
    fields = array.dtype.names or ()
    flags = [field for field in fields if array[field].dtype == bool]
    if len(fields) != 2 or len(flags) != 1:
        raise ValueError(f"{name} must be {ACCEPTED}, got {_described(y)}.")
    (other,) = set(fields) - set(flags)
    return array[flags[0]], array[other]


def _times(time: np.ndarray, name: str, what: str) -> np.ndarray:
    if time.dtype.kind not in "iuf":
        raise ValueError(f"The {what} of {name} must be numbers, got dtype {time.dtype}.")
    if time.size == 0:
        raise ValueError(f"{name} is empty: pass the times of at least one row.")
    time = time.astype(np.float64)
    wrong = ~(np.isfinite(time) & (time >= 0.0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"The {what} of {name} must be finite and not negative, got {time[row]} in row {row}: "
            "drop such rows, or measure times from an earlier origin."
        )
    return time


def _first(values: np.ndarray) -> Any:
    """Return the first value that is neither 0 nor 1."""
    wrong = values[~np.isin(values, (0, 1))]
    return wrong[0].item() if wrong.size else None


def _described(y: Any) -> str:
    if isinstance(y, tuple):
        return f"a tuple of length {len(y)}"
    dtype, shape = getattr(y, "dtype", None), getattr(y, "shape", None)
    return type(y).__name__ + (f" of dtype {dtype} and shape {shape}" if dtype is not None else "")
