"""From text to dates, and from dates to features."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .types import DATE, ColumnReading, ColumnType, Overrides

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_NAMED = r"(?P<b>jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?"
_TIME = (
    r"(?:(?:T|,? +)(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?"
    r" ?(?P<p>[ap]\.?m\.?)? ?(?P<z>Z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{2})?)?"
)
_Y, _SHORT, _M, _D = r"(?P<y>\d{4})", r"(?P<y>\d{2})", r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"


def _formats() -> dict[str, str]:
    found = {}
    for s in "-/.":
        e = re.escape(s)
        found[f"yyyy{s}mm{s}dd"] = rf"{_Y}{e}{_M}{e}{_D}"
        for digits, year in (("yyyy", _Y), ("yy", _SHORT)):
            found[f"dd{s}mm{s}{digits}"] = rf"{_D}{e}{_M}{e}{year}"
            found[f"mm{s}dd{s}{digits}"] = rf"{_M}{e}{_D}{e}{year}"
        found[f"yy{s}mm{s}dd"] = rf"{_SHORT}{e}(?P<m>\d\d){e}(?P<d>\d\d)"  # unlike 25/04/1
    found["yyyymmdd"] = r"(?P<y>(?:1[89]|2[01])\d{2})(?P<m>\d{2})(?P<d>\d{2})"  # few numbers
    found["yyyy-mm"] = r"(?P<y>(?:1[89]|2[01])\d{2})-(?P<m>\d{2})"  # unlike most codes
    either = r"(?P<y>\d{4}|\d{2})"
    found["dd month yyyy"] = rf"{_WEEKDAY}{_D}(?:st|nd|rd|th|\.)?[ /-]*{_NAMED}[ ,/-]*{either}"
    found["month dd yyyy"] = rf"{_WEEKDAY}{_NAMED}[ -]*{_D}(?:st|nd|rd|th)?,?[ -]+{_Y}"
    return found


FORMATS = _formats()
"""Regular expressions of dates; yy is 1969 to 2068."""
DAY_FIRST, MONTH_FIRST, YEAR_FIRST, NO_DATES = "day-first", "month-first", "year-first", "none"
ORDERS = {"dd": DAY_FIRST, "mm": MONTH_FIRST, "yy": YEAR_FIRST}
CHOICES = (*ORDERS.values(), NO_DATES)
PARTS = ("days", "year", "month", "weekday", "hour")
"""Features of a date: days since 1970 with fractions, month 1 to 12, Monday is 1."""
_SAMPLE = 200
_SECONDS = 86400.0


def order_of(name: str) -> str:
    """Return the order of a format that digits alone do not show, or an empty text."""
    if name[:4] == "yyyy" or "month" in name:
        return ""
    return ORDERS[name[:2]]


def readings(cells: Any, overrides: Overrides, formats: Any = None) -> list[ColumnReading]:
    """Return the dates that the cells of a column (trimmed text, null where missing) can mean, if
    all are dates: one reading for each different result of ``formats`` (None: all)."""
    import pyarrow.compute as pc

    if overrides.dates == NO_DATES:
        return []
    distinct = pc.unique(cells).drop_null()
    sample = distinct.slice(0, _SAMPLE).to_pylist()
    found: list[tuple[str, np.ndarray]] = []
    for name in formats or FORMATS:
        order = order_of(name)
        if overrides.dates and order and order != overrides.dates:
            continue
        expression = f"^(?i:{FORMATS[name]}{_TIME})$"
        if not all(re.fullmatch(expression, cell) for cell in sample):
            continue
        days = _days(distinct, expression)
        if days is not None and not any(np.array_equal(days, other) for _, other in found):
            found.append((name, days))
    if len(found) > 1 and "." in found[0][0]:
        found = [item for item in found if item[0].startswith("dd")] or found
    return _expanded(found, cells, distinct)


def _days(distinct: Any, expression: str) -> np.ndarray | None:
    """Return days since 1970 of texts, or None if some are not dates."""
    import pyarrow.compute as pc

    parts = pc.extract_regex(distinct, expression)
    if parts.null_count:
        return None
    fields = {field.name for field in parts.type}
    of = {name: pc.struct_field(parts, name) for name in fields}
    year = _integers(of["y"])
    short = np.asarray(pc.utf8_length(of["y"]).to_numpy(zero_copy_only=False)) == 2
    year = year + np.where(short, np.where(year < 69, 2000, 1900), 0)
    month = _months(of["b"]) if "b" in fields else _integers(of["m"])
    day = _integers(of["d"]) if "d" in fields else np.ones_like(year)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (year >= 1)
    first = np.clip(month - 1, 0, 11).astype("m8[M]") + (year - 1970).astype("M8[Y]").astype(
        "M8[M]"
    )
    date = first.astype("M8[D]") + (day - 1).astype("m8[D]")
    valid &= date.astype("M8[M]") == first
    seconds, in_range = _seconds(of)
    if not (valid & in_range).all():
        return None
    return date.astype(np.int64) + seconds / _SECONDS


def _integers(texts: Any) -> np.ndarray:
    import pyarrow
    import pyarrow.compute as pc

    filled = pc.if_else(pc.equal(texts, ""), "0", texts)
    return np.asarray(pc.cast(filled, pyarrow.int64()).to_numpy(zero_copy_only=False))


def _months(texts: Any) -> np.ndarray:
    import pyarrow
    import pyarrow.compute as pc

    short = pc.utf8_slice_codeunits(pc.utf8_lower(texts), 0, 3)
    found = pc.index_in(short, value_set=pyarrow.array(_MONTHS))
    return np.asarray(found.to_numpy(zero_copy_only=False)).astype(np.int64) + 1


def _seconds(of: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the times in UTC as seconds, and whether they can be."""
    import pyarrow.compute as pc

    hour, minute, second = (_integers(of[name]) for name in "HMS")
    half = pc.utf8_lower(of["p"]).to_numpy(zero_copy_only=False)
    has_half = half != ""
    in_range = (
        (minute < 60) & (second <= 60) & np.where(has_half, (hour > 0) & (hour <= 12), hour < 24)
    )
    afternoon = np.char.startswith(half.astype(str), "p")
    hour = np.where(has_half, hour % 12 + 12 * afternoon, hour)
    digits = pc.utf8_rpad(of["f"], 9, "0")
    fraction = _integers(digits) * 1e-9
    zone = of["z"]
    offset = pc.if_else(pc.match_substring_regex(zone, "^[+-]"), zone, "+00")
    offset = pc.utf8_rpad(pc.replace_substring(offset, ":", ""), 5, "0")
    hours, minutes = (_integers(pc.utf8_slice_codeunits(offset, *at)) for at in ((1, 3), (3, 5)))
    sign = np.where(pc.starts_with(offset, "-").to_numpy(zero_copy_only=False), -1, 1)
    total = 3600 * hour + 60 * minute + second + fraction - sign * (3600 * hours + 60 * minutes)
    return total, in_range & (minutes < 60)


def _expanded(
    found: list[tuple[str, np.ndarray]], cells: Any, distinct: Any
) -> list[ColumnReading]:  # fmt: skip
    """Return the readings of all cells from those of distinct ones."""
    import pyarrow.compute as pc

    if not found:
        return []
    values = distinct.combine_chunks() if hasattr(distinct, "combine_chunks") else distinct
    at = pc.index_in(cells, value_set=values, skip_nulls=True)
    codes = np.asarray(pc.fill_null(at, len(values)).to_numpy(), np.int64)
    example = ""
    if len(found) > 1:
        example = values[int(np.flatnonzero(found[0][1] != found[1][1])[0])].as_py()
    return [
        ColumnReading(
            ColumnType(DATE, dates=name, has_hours=bool((days % 1 != 0).any())),
            np.append(days, np.nan)[codes],
            example,
        )
        for name, days in found
    ]


def parts(days: np.ndarray, has_hours: bool) -> dict[str, np.ndarray]:
    """Return the features of dates, NaN where they are missing."""
    missing = np.isnan(days)
    whole = np.where(missing, 0, np.floor(days)).astype(np.int64)
    date = whole.astype("M8[D]")
    months = date.astype("M8[M]").astype(np.int64)
    found = {
        "year": date.astype("M8[Y]").astype(np.int64) + 1970,
        "month": months % 12 + 1,
        "weekday": (whole + 3) % 7 + 1,
    }
    made = {"days": days} | {k: np.where(missing, np.nan, v) for k, v in found.items()}
    if has_hours:
        made["hour"] = np.floor((days - np.floor(days)) * 24 + 1e-7)
    return made


def days_of(column: Any) -> np.ndarray:
    """Return the days since 1970 of an arrow column of dates or timestamps, with NaN for null."""
    import pyarrow
    import pyarrow.types as types

    kind = column.type
    if types.is_date(kind):
        column = column.cast(pyarrow.date32()).cast(pyarrow.int32())
        per_day = 1.0
    else:
        per_day = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit] * _SECONDS
        column = column.cast(pyarrow.int64())
    values = np.asarray(column.to_numpy(), np.float64)
    if column.null_count:
        values = np.where(np.asarray(column.is_null().to_numpy()), np.nan, values)
    return values / per_day
