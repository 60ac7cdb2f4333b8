"""A generated table that resembles the airline on-time data."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np

from ..devices.placement import on_host
from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .draws import LABELS, BlockDraws, sqrt_float32
from .tables import ARGUMENTS, labels, make_table, pilot, rule

N_CARRIERS, N_AIRPORTS, N_AIRCRAFT = 22, 300, 5000
CATEGORIES = {
    "month": 12,
    "day_of_month": 31,
    "day_of_week": 7,
    "departure_time": 0,
    "carrier": N_CARRIERS,
    "origin": N_AIRPORTS,
    "destination": N_AIRPORTS,
    "aircraft": N_AIRCRAFT,
    "distance": 0,
}
"""The features, in order, and how many categories each has; 0 is a number."""
FIRST_MINUTE, LAST_MINUTE = 5 * 60, 24 * 60
DELAYED = 0.2
"""Share of class 1."""
NOISE = 1.5
MISSING_TIME, MISSING_AIRCRAFT = 0.01, 0.03

# Columns of the streams: FEATURES and LABELS have a draw for each row, RULE one for each code.
MONTH, DAY, WEEKDAY, TIME, CARRIER, ORIGIN, DESTINATION, AIRCRAFT = range(8)
OF_CARRIER_THERE, OF_EVENING, EAST, NORTH = range(8, 12)
NO_TIME, NO_AIRCRAFT, OF_LABEL = range(3)
EFFECTS = (
    ("month", MONTH, 0.3),
    ("day_of_week", WEEKDAY, 0.2),
    ("carrier", CARRIER, 0.4),
    ("origin", ORIGIN, 0.4),
    ("destination", DESTINATION, 0.3),
    ("aircraft", AIRCRAFT, 0.3),
)
"""Features with effects of single categories, and their standard deviations."""


@documented(ARGUMENTS)
def make_airline_like(
    n_rows: int, random_state: Any = 0, *, as_frame: bool = False,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make a table that resembles the airline data: will a flight be late?

    Categories without order, few (days of the week) and many (aircraft), common ones and rare
    ones, some of them missing. The labels follow single categories, carriers at airports, the
    time of day, and noise. ``airline_like_categories`` names features and categories.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    <shared>
    as_frame : bool, default=False
        Whether to return X as a pandas data frame, with the categories' names in columns of a
        categorical dtype. Not together with ``xp`` or a GPU.

    Returns
    -------
    X : float32, shape (n_rows, 9), or data frame
        month, day_of_month, day_of_week, departure_time (hours and minutes, as in 1435),
        carrier, origin, destination, aircraft, and distance (miles). Categories are whole
        numbers from 0, NaN is missing (1 % of the times, 3 % of the aircraft).
    y : int64, shape (n_rows,)
        1 for a flight that is late, about 20 % of all.

    References
    ----------
    "Airline on-time performance", Data Expo of the American Statistical Association, 2009: the
    table that this one resembles.

    Examples
    --------
    >>> from gpuens.datasets import airline_like_categories, make_airline_like
    >>> X, y = make_airline_like(1000)
    >>> X.shape, {k: len(v) for k, v in airline_like_categories().items() if len(v) > 50}
    ((1000, 9), {'origin': 300, 'destination': 300, 'aircraft': 5000})
    """
    if as_frame and (xp is not None or device not in (None, "cpu")):
        raise ValueError(
            "as_frame=True makes a pandas data frame, which is on the host: leave xp and device "
            f"out, got xp={xp!r}, device={device!r}."
        )
    n_features = len(CATEGORIES)
    X, y = make_table(_block, n_features, n_rows, random_state, rows=rows, xp=xp, device=device)
    return (airline_like_frame(X) if as_frame else X), y


def airline_like_categories() -> dict[str, list[str]]:
    """Return the features of ``make_airline_like`` in order, and the names of their categories.

    Returns
    -------
    dict
        Entry k of a list names code k. The list of a numeric feature is empty.

    Examples
    --------
    >>> from gpuens.datasets import airline_like_categories
    >>> airline_like_categories()["day_of_week"][:2]
    ['Monday', 'Tuesday']
    >>> [name for name, categories in airline_like_categories().items() if not categories]
    ['departure_time', 'distance']
    """
    names = {feature: [str(code + 1) for code in range(n)] for feature, n in CATEGORIES.items()}
    week = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    names["day_of_week"] = list(week)
    names["carrier"] = [_letters(code, 2) for code in range(N_CARRIERS)]
    names["origin"] = names["destination"] = [_letters(code, 3) for code in range(N_AIRPORTS)]
    names["aircraft"] = [f"N{code + 1:04}" for code in range(N_AIRCRAFT)]
    return names


def airline_like_frame(X: Any) -> Any:
    """Return a table of ``make_airline_like`` as a pandas data frame with categorical columns.

    Parameters
    ----------
    X : array, shape (n_rows, 9)
        Of ``make_airline_like``.

    Returns
    -------
    pandas.DataFrame
        NaN where the code is missing.

    Examples
    --------
    >>> from gpuens.datasets import airline_like_frame, make_airline_like
    >>> frame = airline_like_frame(make_airline_like(1000)[0])
    >>> frame.dtypes["carrier"].name, frame.dtypes["distance"].name
    ('category', 'float32')
    """
    import pandas as pd

    X = np.asarray(on_host(X))
    if X.ndim != 2 or X.shape[1] != len(CATEGORIES):
        raise ValueError(
            f"X must be a table of make_airline_like with {len(CATEGORIES)} columns, got shape "
            f"{X.shape}."
        )
    columns: dict[str, Any] = {}
    for k, (feature, names) in enumerate(airline_like_categories().items()):
        columns[feature] = X[:, k]
        if names:
            codes = np.where(np.isnan(X[:, k]), -1, X[:, k]).astype(np.int64)
            columns[feature] = pd.Categorical.from_codes(codes.tolist(), categories=names)
    return pd.DataFrame(columns)


def _letters(code: int, length: int) -> str:
    """Write a code as a word; 5417 has no factor in common with 26, so words differ."""
    number = code * 5417 % 26**length
    return "".join(chr(ord("A") + number // 26**k % 26) for k in range(length))


def _block(draws: BlockDraws) -> tuple[Array, Array]:
    xp = draws.xp
    flight = _flights(draws)
    X = xp.stack([xp.astype(flight[feature], xp.float32) for feature in CATEGORIES])
    y = labels(_lateness(flight, draws) > _limit(), draws)
    missing = draws.uniform(2, stream=LABELS)
    _remove(X, "departure_time", missing[NO_TIME, :] < MISSING_TIME, xp)
    _remove(X, "aircraft", missing[NO_AIRCRAFT, :] < MISSING_AIRCRAFT, xp)
    return X, y


def _flights(draws: BlockDraws) -> dict[str, Array]:
    """Return the features, int64 (distance float32), and the minute of the day."""
    origin = draws.choice(N_AIRPORTS, ORIGIN, skew=2)
    other = draws.choice(N_AIRPORTS, DESTINATION, skew=2)
    destination = draws.xp.where(other == origin, (other + 1) % N_AIRPORTS, other)
    minute = draws.choice(LAST_MINUTE - FIRST_MINUTE, TIME) + FIRST_MINUTE
    return {
        "month": draws.choice(12, MONTH),
        "day_of_month": draws.choice(31, DAY),
        "day_of_week": draws.choice(7, WEEKDAY),
        "departure_time": minute // 60 * 100 + minute % 60,
        "carrier": draws.choice(N_CARRIERS, CARRIER, skew=1),
        "origin": origin,
        "destination": destination,
        "aircraft": draws.choice(N_AIRCRAFT, AIRCRAFT, skew=1),
        "distance": _distance(origin, destination, draws),
        "minute": minute,
    }


def _distance(origin: Array, destination: Array, draws: BlockDraws) -> Array:
    """Return whole miles between places that are normally distributed around the middle."""
    of_rule = rule(draws)
    east = of_rule.effect(origin, EAST) - of_rule.effect(destination, EAST)
    north = of_rule.effect(origin, NORTH) - of_rule.effect(destination, NORTH)
    distance = sqrt_float32(east * east + north * north, draws.xp)
    return draws.xp.floor(distance * 500.0 + 100.0)


def _lateness(flight: dict[str, Array], draws: BlockDraws) -> Any:
    of_rule, xp = rule(draws), draws.xp
    day = xp.astype(flight["minute"] - FIRST_MINUTE, xp.float32) * (
        1 / (LAST_MINUTE - FIRST_MINUTE)
    )
    late = draws.normal(first=OF_LABEL, stream=LABELS)[0, :] * NOISE
    late = late + day * 1.5 + flight["distance"] * 2e-4
    for feature, column, weight in EFFECTS:
        late = late + of_rule.effect(flight[feature], column) * weight
    late = late + of_rule.effect(flight["month"], OF_EVENING) * day * 0.6
    carrier_there = flight["carrier"] * N_AIRPORTS + flight["origin"]
    return late + of_rule.effect(carrier_there, OF_CARRIER_THERE) * 0.5


def _remove(X: Array, feature: str, missing: Array, xp: ModuleType) -> None:
    line = list(CATEGORIES).index(feature)
    X[line, :] = xp.where(missing, xp.full_like(X[line, :], float("nan")), X[line, :])


@functools.cache
def _limit() -> float:
    draws = pilot()
    return float(np.quantile(_lateness(_flights(draws), draws), 1.0 - DELAYED, method="lower"))
