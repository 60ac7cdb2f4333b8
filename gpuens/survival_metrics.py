"""Metrics and residuals of survival models."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from .devices.placement import CPU, to_numpy
from .inputs.survival import Survival, read_survival
from .numerics.prefix_counts import count_below
from .numerics.weighted import ordered_sum

__all__ = [
    "brier_scores",
    "concordance",
    "deviance_residuals",
    "integrated_brier_score",
    "martingale_residuals",
    "uno_concordance",
]

TIED = 1e-8
"""Scores at most so far apart are tied, as in scikit-survival."""


def concordance(y: Any, score: Any, *, sample_weight: Any = None, tied_tol: float = TIED) -> float:
    """Compute Harrell's concordance: the share of comparable pairs that the scores order rightly.

    A pair is comparable if the row with the earlier time had its event; of equal times, if one row
    had its event and the other is censored. It is concordant if the earlier row has the higher
    score, and counts one half if the scores are tied (Harrell et al. 1996).

    Parameters
    ----------
    y : structured array, or tuple (event, time)
        Whether each row had an event, and when it had it or was last seen.
    score : array, shape (n_rows,)
        Risks: higher is earlier. Pass the negative of predicted times.
    sample_weight : array, shape (n_rows,), default=None
        A pair counts by the product of the weights of its rows.
    tied_tol : float, default=1e-8
        Scores whose distance is at most this are tied.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        An argument is not possible, or no pair is comparable.

    Examples
    --------
    >>> from gpuens.survival_metrics import concordance
    >>> concordance(([True, True, False], [1.0, 2.0, 3.0]), [0.5, 0.9, 0.1])
    0.6666666666666666
    """
    survival, score = _read(y, score)
    weight = None if sample_weight is None else _vector(sample_weight, "sample_weight", score.size)
    if weight is not None and not (weight >= 0.0).all():
        raise ValueError("sample_weight must not be negative or NaN: drop or set such weights.")
    factor = np.ones(score.size) if weight is None else weight
    return _concordance(survival, score, factor, weight, tied_tol)


def uno_concordance(
    y_train: Any, y: Any, score: Any, *, tau: float | None = None, tied_tol: float = TIED
) -> float:
    """Compute Uno's concordance, which does not depend on the distribution of censoring.

    Each comparable pair counts by 1 / G² at its earlier time, G being the Kaplan–Meier estimate of
    not being censored (Uno et al. 2011).

    Parameters
    ----------
    y_train : structured array, or tuple (event, time)
        The rows that estimate the censoring, usually those of the training.
    y, score : arrays
        As for ``concordance``.
    tied_tol : float, default=1e-8
        Scores whose distance is at most this are tied.
    tau : float, default=None
        Only pairs whose earlier time is below this count. None: all.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        An argument is not possible; no pair is comparable; events are later than the last row of
        ``y_train``, or where every row is censored by then.

    Examples
    --------
    >>> from gpuens.survival_metrics import uno_concordance
    >>> y = [True, False, True, True], [1.0, 2.0, 3.0, 4.0]
    >>> uno_concordance(y, y, [0.9, 0.1, 0.3, 0.5])
    0.5714285714285714
    """
    survival, score = _read(y, score)
    if tau is not None and not isinstance(tau, numbers.Real):
        raise ValueError(f"tau must be a number or None, got {tau!r}.")
    counts = survival.event & (survival.time < (np.inf if tau is None else float(tau)))
    inverse = np.zeros(score.size)
    censoring = _censoring(read_survival(y_train, "y_train"))
    inverse[counts] = _inverse(censoring(survival.time[counts], "y"))
    return _concordance(survival, score, inverse * inverse, None, tied_tol)


def brier_scores(y_train: Any, y: Any, survival: Any, times: Any) -> np.ndarray:
    """Compute the Brier score at each of some times, weighted for censoring (Graf et al. 1999).

    Parameters
    ----------
    y_train : structured array, or tuple (event, time)
        The rows that estimate the censoring, usually those of the training.
    y : structured array, or tuple (event, time)
        Whether each row had an event, and when it had it or was last seen.
    survival : array, shape (n_rows, n_times)
        The predicted probability that each row has no event until each time.
    times : array, shape (n_times,)
        Ascending, below the last time of ``y``.

    Returns
    -------
    float64 ndarray, shape (n_times,)

    Raises
    ------
    ValueError
        An argument is not possible; names it.

    Examples
    --------
    >>> from gpuens.survival_metrics import brier_scores
    >>> y = [True, True, True, False], [1.0, 2.0, 3.0, 4.0]
    >>> brier_scores(y, y, [[0.2, 0.1], [0.7, 0.3], [0.9, 0.4], [0.8, 0.9]], [1.5, 2.5]).round(4)
    array([0.045 , 0.1175])
    """
    truth = read_survival(y)
    at = _read_times(times, truth)
    predicted = np.asarray(to_numpy(survival), dtype=np.float64)
    if predicted.shape != (truth.time.size, at.size) or not np.isfinite(predicted).all():
        raise ValueError(
            f"survival must hold a finite probability for each of the {truth.time.size} rows and "
            f"{at.size} times, got shape {predicted.shape}."
        )
    censoring = _censoring(read_survival(y_train, "y_train"))
    of_row = censoring(truth.time, "y")
    of_row = np.divide(1.0, of_row, out=np.zeros_like(of_row), where=of_row > 0.0)
    of_time = _inverse(censoring(at, "times"))
    is_over = (truth.time[:, None] <= at) & truth.event[:, None]
    is_left = truth.time[:, None] > at
    over = is_over * (predicted * predicted) * of_row[:, None]
    left = is_left * (1.0 - predicted) ** 2 * of_time
    return (over + left).mean(axis=0)


def integrated_brier_score(y_train: Any, y: Any, survival: Any, times: Any) -> float:
    """Integrate the Brier score over time, divided by the length of the interval.

    Parameters
    ----------
    y_train, y, survival, times : arrays
        As for ``brier_scores``; at least two times. The integral is that of the trapezoids.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        An argument is not possible; names it.

    Examples
    --------
    >>> from gpuens.survival_metrics import integrated_brier_score
    >>> y = [True, True, True, False], [1.0, 2.0, 3.0, 4.0]
    >>> survival = [[0.2, 0.1], [0.7, 0.3], [0.9, 0.4], [0.8, 0.9]]
    >>> round(integrated_brier_score(y, y, survival, [1.5, 2.5]), 5)
    0.08125
    """
    scores = brier_scores(y_train, y, survival, times)
    at = np.asarray(to_numpy(times), dtype=np.float64)
    if at.size < 2:
        raise ValueError(f"times must have at least two entries to integrate over, got {at.size}.")
    return float(((scores[1:] + scores[:-1]) / 2.0 * np.diff(at)).sum() / (at[-1] - at[0]))


def martingale_residuals(y: Any, cumulative_hazard: Any) -> np.ndarray:
    """Return the events of the rows, 0 or 1, minus those that were expected.

    Parameters
    ----------
    y : structured array, or tuple (event, time)
        Whether each row had an event, and when it had it or was last seen.
    cumulative_hazard : array, shape (n_rows,)
        The predicted cumulative hazard of each row at its own time.

    Returns
    -------
    float64 ndarray, shape (n_rows,)

    Examples
    --------
    >>> from gpuens.survival_metrics import martingale_residuals
    >>> martingale_residuals(([True, False], [3.0, 5.0]), [0.25, 0.5])
    array([ 0.75, -0.5 ])
    """
    survival, hazard = _read(y, cumulative_hazard, "cumulative_hazard")
    if (hazard < 0.0).any():
        raise ValueError(f"cumulative_hazard must not be negative, got {hazard.min()}.")
    return survival.event - hazard


def deviance_residuals(y: Any, cumulative_hazard: Any) -> np.ndarray:
    """Return the martingale residuals, transformed to be nearly symmetric (Therneau et al. 1990).

    Parameters
    ----------
    y, cumulative_hazard : arrays
        As for ``martingale_residuals``; the hazards of rows with an event must be positive.

    Returns
    -------
    float64 ndarray, shape (n_rows,)

    Examples
    --------
    >>> from gpuens.survival_metrics import deviance_residuals
    >>> deviance_residuals(([True, False], [3.0, 5.0]), [0.25, 0.5]).round(4)
    array([ 1.1281, -1.    ])
    """
    survival, hazard = _read(y, cumulative_hazard, "cumulative_hazard")
    residual = martingale_residuals(y, hazard)
    if (hazard[survival.event] == 0.0).any():
        raise ValueError("cumulative_hazard must be positive for rows with an event, got 0.")
    logs = np.log(hazard, out=np.zeros_like(hazard), where=survival.event)
    return np.sign(residual) * np.sqrt(-2.0 * (residual + logs * survival.event))


def _censoring(survival: Survival) -> Callable[[np.ndarray, str], np.ndarray]:
    """Estimate the probability of not being censored until a time, and return the function that
    gives it for times of a name; events come before censoring at the same time."""
    times, inverse = np.unique(survival.time, return_inverse=True)
    total = np.bincount(inverse, minlength=times.size)
    events = np.bincount(inverse, survival.event, times.size)
    at_risk = np.cumsum(total[::-1])[::-1] - events
    censored = total - events
    share = np.divide(censored, at_risk, out=np.zeros(times.size), where=at_risk > 0)
    probability = np.cumprod(1.0 - share)

    def at(time: np.ndarray, name: str) -> np.ndarray:
        if probability[-1] > 0.0 and time.size and time.max() > times[-1]:
            raise ValueError(
                f"{name} has times up to {time.max():g}, but censoring is only known up to "
                f"{times[-1]:g}, the last time of y_train: drop later ones, or lower tau."
            )
        place = np.searchsorted(times, time, side="right")
        return np.concatenate([[1.0], probability])[place]

    return at


def _inverse(probability: np.ndarray) -> np.ndarray:
    if (probability == 0.0).any():
        raise ValueError(
            "At some times of y all rows of y_train are censored, so that these times cannot be "
            "weighted: lower tau, or drop late times."
        )
    return 1.0 / probability


def _concordance(
    survival: Survival, score: np.ndarray, factor: np.ndarray, weight: Any, tied_tol: float
) -> float:
    """Return the share of the concordant pairs; a pair counts by the factor of its earlier row and
    the weight of the later one."""
    if not isinstance(tied_tol, numbers.Real) or not 0.0 <= tied_tol < np.inf:
        raise ValueError(f"tied_tol must be a finite number >= 0, got {tied_tol!r}.")
    event, time = survival
    latest_first = np.lexsort((event, -time))
    event, time, score = event[latest_first], time[latest_first], score[latest_first]
    factor = factor[latest_first]
    # The rows that an event is compared with come before all events of its time.
    after = np.searchsorted(-time, -time, side="left")
    after += (np.searchsorted(-time, -time, side="right") - after) - _events_of_times(event, time)
    chosen = event & (factor > 0.0)
    distinct, place = np.unique(score, return_inverse=True)
    own, until = score[chosen], after[chosen]
    low = np.searchsorted(distinct, own - tied_tol, side="left")
    high = np.searchsorted(distinct, own + tied_tol, side="right")
    later = np.ones(time.size, np.int64) if weight is None else weight[latest_first]
    below = count_below(place, later, until, low)
    not_above = count_below(place, later, until, high)
    comparable = np.concatenate([[0], np.cumsum(later)])[until]
    total = ordered_sum(factor[chosen] * comparable, CPU)
    if not total > 0.0:
        raise ValueError(
            "No pair of rows is comparable, so that concordance is not defined: y needs an event "
            "and a row with a later time."
        )
    return ordered_sum(factor[chosen] * (below + not_above), CPU) / 2.0 / total


def _events_of_times(event: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return for each row the number of events at its time."""
    _, inverse = np.unique(time, return_inverse=True)
    return np.bincount(inverse, event).astype(np.int64)[inverse]


def _read(y: Any, score: Any, name: str = "score") -> tuple[Survival, np.ndarray]:
    survival = read_survival(y)
    return survival, _vector(score, name, survival.time.size)


def _vector(values: Any, name: str, n: int) -> np.ndarray:
    array = np.asarray(to_numpy(values))
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold a number for each of the {n} rows of y, got shape {array.shape} "
            f"and dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}.")
    return array


def curve_times(times: Any) -> np.ndarray:
    """Read the times that curves of survival are wanted at. Raises a ValueError if they are not a
    vector of finite numbers >= 0."""
    at = np.asarray(to_numpy(times))
    if at.ndim != 1 or at.dtype.kind not in "iuf" or not (np.isfinite(at) & (at >= 0)).all():
        raise ValueError(f"times must be a vector of finite numbers >= 0, got {times!r}.")
    return at.astype(np.float64)


def _read_times(times: Any, truth: Survival) -> np.ndarray:
    at = np.asarray(to_numpy(times), dtype=np.float64)
    if at.ndim != 1 or at.size == 0 or not (np.diff(at) > 0.0).all() or np.isnan(at).any():
        raise ValueError(f"times must be an ascending vector of numbers, got {times!r}.")
    if not (at[0] >= 0.0 and at[-1] < truth.time.max()):
        raise ValueError(
            f"times must be from 0 to below {truth.time.max():g}, the last time of y, got "
            f"[{at[0]:g}, {at[-1]:g}]: nothing is known beyond."
        )
    return at
