"""From the columns of a file to the features of a model, and which columns a model knows."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import dates, numbers
from .columns import evidence_of, read_as, settled
from .errors import CommandError
from .tables import FileTable, require_columns
from .types import BOOLEAN, DATE, EMPTY, KINDS, NUMBER, TEXT, ColumnReading, ColumnType, Overrides

IDENTIFIER_SHARE = 0.5
"""A text column with more distinct values than this share of the rows identifies rows."""
FEW_VALUES = 50
"""Text columns with at most this many distinct values are categories in a table of any size."""
ATTRIBUTE = "_file_columns"
"""Attribute of a model with the columns that it was trained on."""


class Known(NamedTuple):
    """The columns that a model was trained on."""

    types: dict[str, ColumnType]
    separator: str
    """The separator of the file; empty if it was typed, or is not known."""
    missing: tuple[str, ...] | None
    """Words that an option named."""


def choose(readings: Mapping[str, ColumnReading]) -> tuple[dict[str, ColumnReading], list[str]]:
    """Return the columns that can help, and a sentence on each of the others: text that differs in
    most rows, and columns without any value. Raises a CommandError if none is left."""
    kept, left_out = {}, []
    for name, reading in readings.items():
        if _is_empty(reading):
            left_out.append(f"column {name!r} was left out: it has no values")
            continue
        if reading.type.kind == TEXT:
            n, n_rows = len(reading.values.unique().drop_null()), len(reading.values)
            if n > max(FEW_VALUES, IDENTIFIER_SHARE * n_rows):
                left_out.append(
                    f"column {name!r} was left out: its text has {n:,} different values in "
                    f"{n_rows:,} rows"
                )
                continue
        kept[name] = reading
    if not kept:
        raise CommandError("No column is left to train on. Pass a table with more columns.")
    return kept, left_out


def _is_empty(reading: ColumnReading) -> bool:
    if reading.type.kind == TEXT:
        return bool(reading.values.null_count == len(reading.values))
    return reading.type.kind == EMPTY or bool(np.isnan(reading.values).all())


def features_of(readings: Mapping[str, ColumnReading]) -> Any:
    """Return columns as the features to train on: text becomes categories, dates their parts."""
    import pandas

    names = feature_names({name: reading.type for name, reading in readings.items()})
    made: dict[str, Any] = {}
    for name, reading in readings.items():
        if reading.type.kind == TEXT:
            made[name] = _categories(reading.values)
        else:
            columns = _parts(reading.type, reading.values)
            made |= dict(zip(names[name], columns, strict=True))
    return pandas.DataFrame(made)


def feature_names(types: Mapping[str, ColumnType]) -> dict[str, list[str]]:
    """Return the names of the features of each column: those of dates end with their part."""
    taken, names = set(types), {}
    for name, column in types.items():
        names[name] = [name]
        if column.kind == DATE:
            parts = dates.PARTS if column.has_hours else dates.PARTS[:-1]
            names[name] = [_free(f"{name} ({part})", taken) for part in parts]
            taken.update(names[name])
    return names


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _parts(column: ColumnType, values: np.ndarray) -> Sequence[np.ndarray]:
    if column.kind != DATE:
        return [values]
    return list(dates.parts(values, column.has_hours).values())


def _categories(cells: Any) -> Any:
    import pandas

    encoded = cells.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    return pandas.Categorical.from_codes(codes, _objects(encoded.dictionary.to_pylist()))


def _objects(texts: list[str]) -> Any:
    import pandas

    return pandas.Index(texts, dtype=object)


def remember(
    model: Any, types: Mapping[str, ColumnType], separator: str, overrides: Overrides
) -> None:
    """Write the columns into a model, which is saved with them."""
    columns = [
        [name, t.kind, t.decimal, t.percent, t.dates, t.has_hours, t.thousands]
        for name, t in types.items()
    ]
    missing = None if overrides.missing is None else list(overrides.missing)
    found = {"separator": separator, "missing": missing, "columns": columns}
    setattr(model, ATTRIBUTE, found)


def known_columns(model: Any) -> Known | None:
    """Return the columns that were written into a model; None if there are none, or the model was
    fitted on others since. Raises a CommandError if they are damaged."""
    found = getattr(model, ATTRIBUTE, None)
    if found is None:
        return None
    try:
        types = {name: ColumnType(*rest) for name, *rest in found["columns"]}
        missing = None if found["missing"] is None else tuple(found["missing"])
        separator = found["separator"]
        texts = [*types, separator, *(missing or ()), *(t.thousands for t in types.values())]
        whole = all(isinstance(text, str) for text in texts) and all(map(_is_valid, types.values()))
    except (KeyError, TypeError, ValueError, IndexError):
        whole = False
    if not whole:
        raise CommandError("The model's description of its columns is damaged. Train it again.")
    listed = [name for names in feature_names(types).values() for name in names]
    if listed != list(map(str, getattr(model, "feature_names_in_", []))):
        return None
    return Known(types, separator, missing)


def _is_valid(column: ColumnType) -> bool:
    return (
        column.kind in KINDS
        and column.decimal in ("", ".", ",")
        and isinstance(column.percent, bool)
        and column.dates in ("", *dates.FORMATS)
        and isinstance(column.has_hours, bool)
    )


def features_for(
    model: Any, table: FileTable, overrides: Overrides | None = None
) -> tuple[Any, list[str]]:
    """Return the features of a fitted model from a table, whatever other columns it has, and notes
    on how cells that the training did not have were understood. Raises a CommandError if a column
    is missing, or its cells are not of the type that the model knows."""
    import pandas

    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise CommandError(
            "The model was not trained on a table with column names. Use it from Python."
        )
    remembered = known_columns(model)
    known = remembered or Known(_types_by_features(model), "", None)
    overrides = overrides or Overrides()
    if overrides.missing is None and known.missing is not None:
        overrides = overrides.__class__(**{**vars(overrides), "missing": known.missing})
    require_columns(table, list(known.types), "The model's feature")
    table.require_unique(list(known.types))
    found = {
        name: read_as(name, table.column(name), t, overrides, dates_are_days=remembered is None)
        for name, t in known.types.items()
    }
    evidence = evidence_of(found.values())
    notes = words_for_missing(readings[0] for readings in found.values())
    same = known.separator == table.separator
    categories = _categories_of(model)
    made: dict[str, Any] = {}
    for (name, readings), listed in zip(
        found.items(), feature_names(known.types).values(), strict=True
    ):
        column = known.types[name]
        prior = column if same or column.kind == DATE else None
        reading = settled(name, readings, evidence, prior, table.separator, notes)
        if column.kind == TEXT:
            made[name] = _known_categories(name, reading.values, categories[name], notes)
        else:
            if column.dates and reading.type.dates not in ("", column.dates):
                notes.append(f"dates in {name!r} are written {reading.type.dates}, not as in "
                             f"training, {column.dates}")  # fmt: skip
            made |= dict(zip(listed, _parts(column, reading.values), strict=True))
    return pandas.DataFrame(made), notes


def _types_by_features(model: Any) -> dict[str, ColumnType]:
    """Return the types of columns that nothing was written of: numbers and categories."""
    categories = _categories_of(model)
    return {
        name: ColumnType(TEXT if _are_texts(categories.get(name)) else NUMBER)
        for name in map(str, model.feature_names_in_)
    }


def _are_texts(values: Any) -> bool:
    return values is not None and any(isinstance(value, str) for value in values.tolist())


def _categories_of(model: Any) -> dict[str, Any]:
    """Return the categories that training had, by the names of features."""
    found = getattr(model, "_categories", None)
    values = [None] * len(model.feature_names_in_) if found is None else found.values
    return dict(zip(map(str, model.feature_names_in_), values, strict=True))


def _known_categories(name: str, cells: Any, values: Any, notes: list[str]) -> Any:
    """Return text as categories that training had, and note the others, which count as
    missing."""
    import pandas

    known = [] if values is None else [str(v) for v in values.tolist()]
    by_text = {unicodedata.normalize("NFC", v.strip()): k for k, v in enumerate(known)}
    by_number = _by_number(known)
    encoded = cells.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    found = [by_text.get(text, by_number.get(_number(text), -1)) for text in distinct]
    codes = encoded.indices.fill_null(-1).to_numpy()
    unseen = [text for text, code in zip(distinct, found, strict=True) if code < 0]
    if unseen:
        n_rows = int(np.isin(codes, np.flatnonzero(np.array(found) < 0)).sum())
        notes.append(
            f"column {name!r} has values that training did not have, such as {unseen[0]!r}, in "
            f"{n_rows:,} rows; they count as missing"
        )
    at = np.append(np.array(found, np.int64), -1)[codes]
    return pandas.Categorical.from_codes(at, _objects(known))


def _by_number(known: list[str]) -> dict[float | None, int]:
    """Return the positions of texts that are numbers, if no others are the same number."""
    found: dict[float | None, list[int]] = {}
    for k, text in enumerate(known):
        found.setdefault(_number(text), []).append(k)
    return {number: at[0] for number, at in found.items() if number is not None and len(at) == 1}


def _number(text: str) -> float | None:
    plain = numbers.re.fullmatch(r"[+-]?\d+(\.\d*)?", text) and not text.startswith("0")
    return float(text) if plain else None


def words_for_missing(readings: Iterable[ColumnReading]) -> list[str]:
    """Return a text on the words that count as missing, if there are some."""
    words: dict[str, int] = {}
    for reading in readings:
        if reading.type.kind != TEXT:
            for word, count in reading.missing:
                words[word] = words.get(word, 0) + count
    shown = ", ".join(f"{word!r} ({n:,} cells)" for word, n in words.items())
    return [f"taken for missing: {shown}"] if words else []


def described(types: Mapping[str, ColumnType]) -> list[str]:
    """Return a few words on the columns that are not plain numbers or text."""
    of: dict[str, list[str]] = {}
    for name, column in types.items():
        if column.kind == DATE:
            of.setdefault(f"dates{f' {column.dates}' if column.dates else ''}", []).append(name)
        elif column.percent:
            of.setdefault("percentages (40% is 0.4)", []).append(name)
        elif column.decimal == ",":
            of.setdefault("decimal commas", []).append(name)
        elif column.kind == BOOLEAN:
            of.setdefault("truth values", []).append(name)
    return [f"{words} in {_listed(names)}" for words, names in of.items()]


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
