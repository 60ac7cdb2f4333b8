"""From text to numbers: decimal marks, thousands, percentages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .types import NUMBER, ColumnType, Overrides, Reading

THOUSANDS = {".": (",", " ", "'"), ",": (".", " ", "'")}
"""What can separate thousands, for each decimal mark."""
LARGEST = 2.0**53
"""From here on float64 merges integers."""
_SAMPLE = 200
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


def readings(cells: Any, overrides: Overrides) -> list[Reading]:
    """Return the numbers that the cells of a column can mean, if all are numbers.

    Parameters
    ----------
    cells : arrow array of trimmed text
        With null for missing cells.
    overrides : Overrides

    Returns
    -------
    list of Reading
        Their values differ from each other.
    """
    import pyarrow.compute as pc

    found: list[Reading] = []
    cells = _with_plain_signs(cells)
    sample = cells.slice(0, 10 * _SAMPLE).drop_null().slice(0, _SAMPLE).to_pylist()
    has_percent = any(cell.endswith("%") for cell in sample)
    for decimal, thousands in THOUSANDS.items():
        if overrides.decimal not in (None, decimal):
            continue
        for mark in thousands:
            expression = pattern(decimal, mark)
            if not all(re.fullmatch(expression, cell) for cell in sample):
                continue
            if not pc.all(pc.match_substring_regex(cells, expression)).as_py():
                continue
            reading = _reading(cells, decimal, mark, has_percent)
            if reading is not None and not any(_same(reading, other) for other in found):
                found.append(reading)
            break
    return _marked(found, cells) if len(found) > 1 else found


def _with_plain_signs(cells: Any) -> Any:
    """Return the cells with plain blanks, minus signs and apostrophes."""
    import pyarrow.compute as pc

    for expression, plain in (("[\u00a0\u2009\u202f]", " "), ("\u2212", "-"), ("\u2019", "'")):
        if pc.any(pc.match_substring_regex(cells, expression)).as_py():
            cells = pc.replace_substring_regex(cells, expression, plain)
    return cells


def _reading(cells: Any, decimal: str, thousands: str, has_percent: bool) -> Reading | None:
    """Read cells that match the pattern; None if some only are percentages."""
    import pyarrow.compute as pc

    if has_percent or pc.any(pc.ends_with(cells, "%")).as_py():
        if not pc.all(pc.ends_with(cells, "%")).as_py():
            return None
        has_percent = True
        cells = pc.utf8_rtrim(cells, "% ")
    has_thousands = bool(pc.any(pc.match_substring(cells, thousands)).as_py())
    has_decimal = bool(pc.any(pc.match_substring(cells, decimal)).as_py())
    if has_thousands:
        cells = pc.replace_substring(cells, thousands, "")
    if decimal != "." and has_decimal:
        cells = pc.replace_substring(cells, decimal, ".")
    values = plain_numbers(cells)
    assert values is not None
    shown = decimal if has_decimal or thousands in ",." and has_thousands else ""
    column = ColumnType(NUMBER, shown, has_percent)
    whole = not has_percent and is_whole(values)
    return Reading(column, values / 100 if has_percent else values, whole=whole)


def is_whole(values: np.ndarray) -> bool:
    """Return whether all numbers are whole, and less than 2^63."""
    present = values[~np.isnan(values)]
    return bool((np.abs(present) < 2.0**63).all() and (present == np.floor(present)).all())


def _same(one: Reading, other: Reading) -> bool:
    return np.array_equal(one.values, other.values, equal_nan=True)


def _marked(found: list[Reading], cells: Any) -> list[Reading]:
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
