"""Tables of files, and the types of their columns: how cells are read, as fit found out and predict
needs it."""

from __future__ import annotations

import argparse
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .errors import CommandError

NUMBER, BOOLEAN, DATE, TEXT, EMPTY = "number", "boolean", "date", "text", "empty"
KINDS = (NUMBER, BOOLEAN, DATE, TEXT)

MISSING_WORDS = frozenset(
    "na n/a nan -nan null none nil #n/a #na <na> (null) \\n - -- --- ? . .. "
    "1.#ind -1.#ind 1.#qnan -1.#qnan #div/0! #value! #ref! #num! #name? #null!".split()
)
"""Words in lower case that count as missing among numbers, dates and truth values, but not in
columns of text, where they can be classes or categories."""


@dataclass(frozen=True)
class ColumnType:
    """The reading of the cells of a column: its kind, one of ``KINDS`` or "empty"; the decimal mark
    of numbers, empty if none shows it, and what separates thousands; whether they are percentages
    (40% is 0.4); the format of dates, one of ``dates.FORMATS``, empty for those of typed files, and
    whether some have a time."""

    kind: str
    decimal: str = ""
    percent: bool = False
    dates: str = ""
    has_hours: bool = False
    thousands: str = ""


class ColumnReading(NamedTuple):
    """A column that was read; several where its cells can mean several things."""

    type: ColumnType
    values: Any
    """float64 with NaN for missing cells (dates: days since 1970; booleans: 0 and 1); of text an
    arrow array with null for missing cells."""
    example: str = ""
    """A cell that can be read in several ways, or that makes a column text."""
    missing: tuple[tuple[str, int], ...] = ()
    """Words that count as missing, and in how many cells."""
    whole: bool = False
    """All numbers are whole, and less than 2^63."""


@dataclass(frozen=True)
class Overrides:
    """The options of a command about a file; None where the file decides. ``missing`` are the words
    that count as missing, in all columns, and no others."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    dates: str | None = None
    missing: tuple[str, ...] | None = None


def plain_name(name: str) -> str:
    """Return a name composed, and without blanks around it."""
    return unicodedata.normalize("NFC", name).strip()


@dataclass
class FileTable:
    """The columns of a file, arrow arrays, with names that may repeat: text with null for empty
    cells, or other types from typed files, whose separator is empty. ``notes`` say how it was
    understood."""

    path: Path
    names: list[str]
    columns: list[Any]
    separator: str = ""
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, name: str) -> Any:
        return self.columns[self.names.index(plain_name(name))]

    def require_unique(self, names: Sequence[str]) -> None:
        """Raise a CommandError unless there is one column of each name."""
        for name in names:
            at = [k + 1 for k, n in enumerate(self.names) if n == plain_name(name)]
            if len(at) > 1:
                raise CommandError(
                    f"Columns {' and '.join(map(str, at))} of {self.path} are both named {name!r}, "
                    "but differ. Rename one, or leave both out with --drop."
                )


def overrides_of(options: argparse.Namespace) -> Overrides:
    """Return what the options of a command say. Raises a CommandError if they cannot be read."""
    separator = {"tab": "\t", "\\t": "\t", "blank": " "}.get(options.separator, options.separator)
    if separator is not None and (
        len(separator) != 1 or separator in '\r\n"' or ord(separator) > 127
    ):
        raise CommandError(
            f"--separator must be one character, such as ';', or tab, got {options.separator!r}."
        )
    missing = None if options.missing is None else tuple(options.missing)
    return Overrides(separator, options.encoding, options.decimal, options.dates, missing)
