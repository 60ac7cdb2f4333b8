"""From cells to the values of columns, by types that are found or known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import dates, numbers
from .errors import CommandError
from .types import (
    BOOLEAN,
    DATE,
    EMPTY,
    MISSING_WORDS,
    NUMBER,
    TEXT,
    ColumnReading,
    ColumnType,
    Overrides,
)

NEARLY_NUMBER = re.compile(
    r"\(\s*[$€£¥₹]?\s*[\d.,' ]+\)|[+-]?\s*(?:[$€£¥₹]|[A-Z]{3} )\s*[+-]?[\d.,' ]+|"
    r"[+-]?[\d.,' ]+\s*(?:[$€£¥₹]| [A-Z]{3}|[kKmM])|[\d.,' ]+-"
)
NEARLY_DATE = re.compile(
    r"(?:19|20)\d\d[ -]?[QW]\d{1,2}(?:-\d)?|[QW]\d{1,2}[ /-](?:19|20)\d\d|\d{1,2}:\d\d(?::\d\d)?|"
    r"(?:[^\W\d_]+\.?,? )?\d{1,2}\.?[ -][^\W\d_]{3,9}\.?[ -](?:19|20)?\d\d(?: .*)?"
)
"""Cells that are neither numbers nor dates here, but look like them: money, weeks, times, dates in
other languages."""
TRUTH = {"true": 1.0, "false": 0.0}
_SAMPLE = 200


def readings_of(column: Any, overrides: Overrides, *, exact: bool = True) -> list[ColumnReading]:
    """Return what the cells of a column, text with null for empty ones or of a typed file, can
    mean: several numbers or dates, all of one kind. ``exact`` takes integers that float64 would
    merge for text."""
    if column.null_count == len(column):
        return [ColumnReading(ColumnType(EMPTY), np.full(len(column), np.nan))]
    if not is_text(column):
        return [_typed(column, exact)]
    plain = _plain(column, overrides)
    if plain and not (exact and numbers.has_exact_integers_beyond_floats(column, plain[0].values)):
        return plain
    cells = text_of(column, overrides)
    known, words = _without_words(cells, overrides)
    if known.null_count == len(known):
        empty = ColumnReading(ColumnType(EMPTY), np.full(len(known), np.nan), missing=words)
        return [empty if words else empty._replace(missing=())]
    found = numbers.readings(known, overrides)
    if exact and found and numbers.has_exact_integers_beyond_floats(known, found[0].values):
        return [ColumnReading(ColumnType(TEXT), cells)]
    if found and _may_be_dates(found[0].values):
        found = dates.readings(known, overrides, ["yyyymmdd"]) or found
    if len(found) == 1:
        found = [found[0]._replace(example=_exception_to_dates(found[0].values))]
    found = found or _truth(known) or dates.readings(known, overrides)
    if found:
        return [_without_values(r, overrides)._replace(missing=words) for r in found]
    return [ColumnReading(ColumnType(TEXT), cells, _exception(known, overrides), words)]


def is_text(column: Any) -> bool:
    """Return whether an arrow column holds text."""
    import pyarrow.types as types

    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def text_of(column: Any, overrides: Overrides) -> Any:
    """Return the cells as composed text without blanks around it; null where it is empty or one
    of the words that an option names."""
    import pyarrow
    import pyarrow.compute as pc

    if not is_text(column):
        return _as_text(column)
    cells = pc.utf8_normalize(pc.utf8_trim_whitespace(column), "NFC")
    absent = pc.equal(cells, "")
    if overrides.missing:
        words = pyarrow.array([word.strip() for word in overrides.missing], cells.type)
        absent = pc.or_(absent, pc.is_in(cells, value_set=words))
    return pc.if_else(absent, pyarrow.scalar(None, cells.type), cells)


def _plain(column: Any, overrides: Overrides) -> list[ColumnReading]:
    """Return the readings of a column of plain numbers, which needs no other look at its text."""
    import pyarrow.compute as pc

    if overrides.missing is not None or overrides.decimal == ",":
        return []
    values = numbers.plain_numbers(column)
    if values is None or np.isnan(values).all() or _may_be_dates(values):
        return []
    has_points = pc.any(pc.match_substring(column, ".")).as_py()
    if has_points and len(numbers.ways_of_sample(column, overrides)) > len(numbers.THOUSANDS["."]):
        found = numbers.readings(column, overrides)
        if found:
            return found
    decimal = "." if has_points else ""
    reading = ColumnReading(ColumnType(NUMBER, decimal), values, whole=numbers.is_whole(values))
    return [reading._replace(example=_exception_to_dates(values))]


def _may_be_dates(values: np.ndarray) -> bool:
    """Return whether all numbers may be dates such as 20250131."""
    return bool((_like_dates(values) | np.isnan(values)).all())


def _like_dates(values: np.ndarray) -> np.ndarray:
    found = (values >= 18000101) & (values <= 21991231)
    inside = values[found]  # few: remainders of all numbers would take as long as reading them
    found[found] = (inside % 100 <= 31) & (inside // 100 % 100 <= 12)
    return np.asarray(found)


def _exception_to_dates(values: np.ndarray) -> str:
    """Return a number that is not a date such as 20250131 where most are, or an empty text."""
    like, present = _like_dates(values), ~np.isnan(values)
    if 2 * np.count_nonzero(like) <= np.count_nonzero(present):
        return ""
    others = values[present & ~like]
    return f"{others[0]:.15g}" if others.size else ""


def _without_words(cells: Any, overrides: Overrides) -> tuple[Any, tuple[tuple[str, int], ...]]:
    """Return the cells without words that mean a missing value, and how often each occurs."""
    import pyarrow
    import pyarrow.compute as pc

    if overrides.missing is not None:
        return cells, ()
    known = pyarrow.array(sorted(MISSING_WORDS), cells.type)
    absent = pc.is_in(pc.utf8_lower(cells), value_set=known, skip_nulls=True)
    counts = pc.value_counts(cells.filter(absent)).to_pylist()
    words = tuple((item["values"], item["counts"]) for item in counts)
    return (pc.if_else(absent, pyarrow.scalar(None, cells.type), cells) if words else cells), words


def _without_values(reading: ColumnReading, overrides: Overrides) -> ColumnReading:
    """Make numbers missing that an option names, however they are written."""
    named = [w for w in overrides.missing or () if re.fullmatch(numbers.pattern(".", ","), w)]
    if not named or reading.type.kind != NUMBER or reading.type.percent:
        return reading
    absent = np.isin(reading.values, [float(word.replace(",", "").rstrip("%")) for word in named])
    return reading._replace(values=np.where(absent, np.nan, reading.values))


def _truth(cells: Any) -> list[ColumnReading]:
    import pyarrow
    import pyarrow.compute as pc

    lower = pc.utf8_lower(cells)
    words = pyarrow.array(list(TRUTH), cells.type)
    if not pc.all(pc.is_in(lower.drop_null(), value_set=words)).as_py():
        return []
    codes = pc.index_in(lower, value_set=words, skip_nulls=True)
    values = np.append([*TRUTH.values()], np.nan)[_filled(codes, len(TRUTH))]
    return [ColumnReading(ColumnType(BOOLEAN), values)]


def _filled(codes: Any, missing: int) -> np.ndarray:
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(codes, missing).to_numpy(), np.int64)


def _exception(cells: Any, overrides: Overrides) -> str:
    """Return a cell that makes a column text whose others are numbers or dates, or an empty
    text."""
    import pyarrow.compute as pc

    distinct = pc.unique(cells).drop_null()
    sample = distinct.slice(0, _SAMPLE).to_pylist()
    are_numbers = [bool(numbers.ANY_NUMBER.fullmatch(numbers.plain(cell))) for cell in sample]
    for nearly in (NEARLY_NUMBER, NEARLY_DATE):
        looks = [cell for cell in sample if nearly.fullmatch(numbers.plain(cell))]
        if looks and 2 * len(looks) >= len(sample):
            return str(looks[0])
    if any(are_numbers) and 2 * sum(are_numbers) >= len(sample):
        matches = pc.match_substring_regex(distinct, numbers.ANY_NUMBER.pattern)
        others = distinct.filter(pc.invert(matches)).slice(0, 1).to_pylist()
        plain = re.compile(numbers.pattern(".", ","))
        return str((others or [c for c in sample if not plain.fullmatch(c)] or sample)[0])
    are_true = [cell.lower() in TRUTH for cell in sample]
    if any(are_true) and 2 * sum(are_true) >= len(sample):
        return next(str(cell) for cell in sample if cell.lower() not in TRUTH)
    are_dates = [bool(dates.readings(_array([cell]), Overrides())) for cell in sample[:50]]
    often = any(are_dates) and 2 * sum(are_dates) >= len(are_dates)
    if often and overrides.dates != dates.NO_DATES:
        others = [c for c, is_date in zip(sample, are_dates, strict=False) if not is_date]
        return str((others or sample)[0])
    return ""


def _array(values: list[str]) -> Any:
    import pyarrow

    return pyarrow.array(values, pyarrow.string())


def _typed(column: Any, exact: bool) -> ColumnReading:
    """Read a column of a typed file."""
    import pyarrow
    import pyarrow.types as types

    kind = column.type
    if types.is_boolean(kind):
        return ColumnReading(ColumnType(BOOLEAN), numbers.to_floats(column.cast(pyarrow.int8())))
    if types.is_timestamp(kind) or types.is_date(kind):
        days = dates.days_of(column)
        return ColumnReading(
            ColumnType(DATE, has_hours=bool((days[~np.isnan(days)] % 1 != 0).any())), days
        )
    if numbers.is_numeric(kind):
        values = numbers.to_floats(column.cast(pyarrow.float64(), safe=False))
        large = types.is_integer(kind) and np.nanmax(np.abs(values)) >= numbers.LARGEST
        if not (exact and large):
            return ColumnReading(ColumnType(NUMBER), values, whole=numbers.is_whole(values))
    return ColumnReading(ColumnType(TEXT), _as_text(column))


def _as_text(column: Any) -> Any:
    """Return a column of a typed file as text: whole numbers without a point, truth values as
    Python writes them."""
    import pyarrow
    import pyarrow.types as types

    kind = column.type
    if types.is_boolean(kind) or types.is_floating(kind) or not _can_be_cast(kind):
        listed = [None if v is None else _written(v) for v in column.to_pylist()]
        return pyarrow.chunked_array([pyarrow.array(listed, pyarrow.string())])
    return column.cast(pyarrow.string())


def _can_be_cast(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _written(value: Any) -> str | None:
    if isinstance(value, float):
        return None if value != value else f"{value:.0f}" if value.is_integer() else repr(value)
    return str(value)


def learn(
    columns: dict[str, Any], overrides: Overrides, separator: str
) -> tuple[dict[str, ColumnReading], list[str]]:
    """Find out the types of columns, and note how what could be read in several ways was resolved.
    ``separator`` is that of the file, empty for typed files. Raises a CommandError if nothing says
    which of several ways is right."""
    found = {name: readings_of(column, overrides) for name, column in columns.items()}
    evidence, notes = evidence_of(found.values()), list[str]()
    chosen = {n: settled(n, r, evidence, None, separator, notes) for n, r in found.items()}
    return chosen, notes


def evidence_of(found: Iterable[list[ColumnReading]]) -> dict[str, set[str]]:
    """Return the decimal marks and the orders of dates, by kind of column, of the columns that can
    be read in one way only."""
    certain = [readings[0].type for readings in found if len(readings) == 1]
    orders = {dates.order_of(t.dates) for t in certain if t.dates[2:3] not in ("", ".")}
    return {NUMBER: {t.decimal for t in certain} - {""}, DATE: orders - {""}}


def settled(
    name: str, readings: Sequence[ColumnReading], evidence: dict[str, set[str]],
    known: ColumnType | None, separator: str, notes: list[str],
) -> ColumnReading:  # fmt: skip
    """Return the reading that the other columns, the model or a rule decides for. Raises a
    CommandError if nothing decides."""
    if len(readings) == 1:
        return readings[0]
    is_date, example = readings[0].type.kind == DATE, readings[0].example
    of = {_way(r.type): r._replace(example="") for r in readings}
    said = evidence[DATE if is_date else NUMBER] & set(of)
    if known is not None and _way(known) in of and (is_date or not said):
        found = of[_way(known)]
        if found.type.thousands in ("", known.thousands):  # training shows the role of each mark
            way = _words(_way(known))
            notes.append(f"{example!r} in column {name!r} is read as in training: {way}")
            return found
    if len(said) == 1:
        (way,) = said
        notes.append(f"{example!r} in column {name!r} is read like other columns: {_words(way)}")
        return of[way]
    if not is_date and separator == "," and "." in example and "." in of:
        notes.append(
            f"{example!r} in column {name!r} is read with a decimal point (--decimal , if points "
            "separate thousands)"
        )
        return of["."]
    option, ways = ("--dates", sorted(of)) if is_date else ("--decimal", sorted(of))
    meanings = " or ".join(map(_words, ways))
    raise CommandError(
        f"Column {name!r} holds {example!r}, which can be read with {meanings}. Pass "
        f"{' or '.join(f'{option} {way}' for way in ways)}."
    )


def _way(column: ColumnType) -> str:
    """Return what distinguishes readings: the decimal mark, or the order of dates."""
    return dates.order_of(column.dates) if column.kind == DATE else column.decimal


def _words(way: str) -> str:
    marks = {".": "a decimal point", ",": "a decimal comma"}
    return marks.get(way) or f"the {way.split('-')[0]} first"


def read_as(
    name: str, column: Any, known: ColumnType, overrides: Overrides, *, dates_are_days: bool = False
) -> list[ColumnReading]:
    """Read a column by the type that a model knows, as ``readings_of`` does. With
    ``dates_are_days`` numbers may be dates, too: their days since 1970. Raises a CommandError if
    the cells are not of the type."""
    if known.kind == TEXT:
        return [ColumnReading(known, text_of(column, overrides))]
    if known.kind == DATE and known.dates and is_text(column):
        cells, words = _without_words(text_of(column, overrides), overrides)
        found = dates.readings(cells, overrides, [known.dates])
        if found:
            others = dates.readings(cells, overrides) if dates.order_of(known.dates) else []
            if any(_way(r.type) == _way(known) for r in others):
                found = [found[0]._replace(example=others[0].example)]
                found += [r for r in others if _way(r.type) != _way(known)]
            return [r._replace(missing=words) for r in found]
    found = readings_of(column, overrides, exact=False)
    kind, values = found[0].type.kind, found[0].values
    if kind == EMPTY:
        return found
    fits = kind == known.kind or {kind, known.kind} == {NUMBER, BOOLEAN}
    if kind == NUMBER and known.kind == BOOLEAN:
        fits = len(found) == 1 and bool(np.isin(values[~np.isnan(values)], (0, 1)).all())
    if not fits and not (dates_are_days and kind == DATE and known.kind == NUMBER):
        _refuse(name, found[0], known)
    if kind == NUMBER == known.kind and found[0].type.percent != known.percent:
        signs = ("without", "with") if known.percent else ("with", "without")
        raise CommandError(
            f"Column {name!r} holds numbers {signs[0]} a percent sign, but the model was trained "
            f"on some {signs[1]} it. Write them like those of the training."
        )
    return found


def _refuse(name: str, found: ColumnReading, known: ColumnType) -> None:
    plural = {NUMBER: "numbers", BOOLEAN: "truth values", DATE: "dates", TEXT: "text"}
    kinds = plural[found.type.kind], plural[known.kind]
    example = found.example
    if found.type.kind == TEXT and not example:
        example = next(v for v in found.values.to_pylist() if v is not None)
    shown = f" such as {example!r}" if example else ""
    written = f" written {known.dates}" if known.dates else ""
    raise CommandError(
        f"Column {name!r} holds {kinds[0]}{shown}, but the model was trained on {kinds[1]}"
        f"{written}. Check the column, or pass --missing for words that mean a missing value."
    )
