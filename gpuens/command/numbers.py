"""From text to numbers: decimal marks, thousands, percentages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .types import NUMBER, ColumnReading, ColumnType, Overrides

THOUSANDS = {".": (",", " ", "'"), ",": (".", " ", "'")}
"""The separators of thousands that each decimal mark allows."""
LARGEST = 2.0**53
"""From here on float64 merges integers."""
_SAMPLE = 200
_PLAIN = {0xA0: " ", 0x2009: " ", 0x202F: " ", 0x2212: "-", 0x2019: "'"}
"""Characters that are taken for plain ones: blanks, the minus sign, the apostrophe."""
_WORDS = r"[+-]?(?:nan|inf|infinity)"


def pattern(decimal: str, thousands: str) -> str:
    """Return a regular expression for numbers, percentages among them."""
    d, t = re.escape(decimal), re.escape(thousands)
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{t}\d{{3}})+)"
    return (
        rf"^(?:[+-]?(?:{whole}(?:{d}\d*)?|{d}\d+)(?:[eE][+-]?\d+)?[ ]?%?|(?i:{_WORDS}))$"
    )  # fmt: skip


ANY_NUMBER = re.compile("|".join(pattern(d, t) for d, all_ in THOUSANDS.items() for t in all_))


def plain_numbers(cells: Any) -> np.ndarray | None:
    """Return numbers with decimal points alone, which most columns hold, or None."""
    import pyarrow
    import pyarrow.compute as pc

    try:
        found = pc.cast(cells, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    return to_floats(found)


def to_floats(column: Any) -> np.ndarray:
    """Return an arrow column of numbers as float64, with NaN for null."""
    import pyarrow.compute as pc

    filled = pc.fill_null(column, float("nan")) if column.null_count else column
    return np.asarray(filled.to_numpy(), np.float64)


def readings(cells: Any, overrides: Overrides) -> list[ColumnReading]:
    """Return the numbers that the cells of a column (trimmed text, null where missing) can mean, if
    all are numbers: one reading for each different result."""
    found: list[ColumnReading] = []
    ways = ways_of_sample(cells, overrides)
    if ways:
        cells = _with_plain_signs(cells)
    for decimal, thousands in ways:
        if any(other.type.decimal == decimal for other in found):
            continue
        reading = _reading(cells, decimal, thousands)
        if reading is not None and not any(_same(reading, other) for other in found):
            found.append(reading)
    return _marked(found, cells) if len(found) > 1 else found


def plain(cell: str) -> str:
    """Return a cell with plain blanks, minus signs and apostrophes."""
    return cell.translate(_PLAIN).strip()


def ways_of_sample(cells: Any, overrides: Overrides) -> list[tuple[str, str]]:
    """Return the decimal marks and separators of thousands that the first cells can have."""
    sample = cells.slice(0, 10 * _SAMPLE).drop_null().slice(0, _SAMPLE).to_pylist()
    sample = [plain(cell) for cell in sample]
    return [
        (decimal, mark)
        for decimal, thousands in THOUSANDS.items()
        for mark in thousands
        if overrides.decimal in (None, decimal)
        and all(map(re.compile(pattern(decimal, mark)).match, sample))
    ]


def _with_plain_signs(cells: Any) -> Any:
    """Return the cells with plain blanks, minus signs and apostrophes."""
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(cells, r"[^\x00-\x7f]")).as_py():
        for character, plain in _PLAIN.items():
            cells = pc.replace_substring(cells, chr(character), plain)
    return cells


def _reading(cells: Any, decimal: str, thousands: str) -> ColumnReading | None:
    """Read cells, or return None if some are not numbers, or some only are percentages."""
    import pyarrow.compute as pc

    has_decimal, has_thousands, has_percent = (
        bool(pc.any(pc.match_substring(cells, mark)).as_py()) for mark in (decimal, thousands, "%")
    )
    if has_thousands or has_percent:
        if not pc.all(pc.match_substring_regex(cells, pattern(decimal, thousands))).as_py():
            return None
        cells = pc.replace_substring(cells, thousands, "")
    elif decimal == "," and pc.any(pc.match_substring(cells, ".")).as_py():
        return None
    if has_percent:
        if not pc.all(pc.ends_with(cells, "%")).as_py():
            return None
        cells = pc.utf8_rtrim(cells, "% ")
    if decimal != "." and has_decimal:
        cells = pc.replace_substring(cells, decimal, ".")
    values = plain_numbers(cells)
    if values is None:
        return None
    shown = decimal if has_decimal or has_thousands and thousands in ",." else ""
    column = ColumnType(NUMBER, shown, has_percent, thousands=thousands if has_thousands else "")
    whole = not has_percent and is_whole(values)
    return ColumnReading(column, values / 100 if has_percent else values, whole=whole)


def is_whole(values: np.ndarray) -> bool:
    """Return whether all numbers are whole, and less than 2^63."""
    for part in (values[:_SAMPLE], values):  # most columns show it at once
        present = part[~np.isnan(part)]
        if not ((np.abs(present) < 2.0**63) & (present == np.floor(present))).all():
            return False
    return True


def _same(one: ColumnReading, other: ColumnReading) -> bool:
    return np.array_equal(one.values, other.values, equal_nan=True)


def _marked(found: list[ColumnReading], cells: Any) -> list[ColumnReading]:
    """Return readings with a cell that differs between them."""
    differs = np.flatnonzero(found[0].values != found[1].values)
    both = np.isnan(found[0].values) & np.isnan(found[1].values)
    at = next(int(k) for k in differs if not both[k])
    return [reading._replace(example=cells[at].as_py()) for reading in found]


def has_exact_integers_beyond_floats(cells: Any, values: np.ndarray) -> bool:
    """Return whether integers are so large that float64 would merge some of them."""
    import pyarrow.compute as pc

    present = values[np.isfinite(values)]
    if not present.size or np.abs(present).max() < LARGEST:
        return False
    return bool(pc.all(pc.match_substring_regex(cells, r"^\s*[+-]?\d+\s*$")).as_py())


def has_leading_zeros(column: Any) -> bool:
    """Return whether text has codes such as 007."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        return False
    return bool(pc.any(pc.match_substring_regex(column, r"^\s*0\d+\s*$")).as_py())


def is_numeric(kind: Any) -> bool:
    """Return whether an arrow type holds numbers."""
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
