"""How the cells of a CSV file are written: separator, quotes, comments, header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from .errors import CommandError
from .numbers import ANY_NUMBER
from .types import MISSING_WORDS

SEPARATORS = ",;\t|"
SAMPLE = 2**18
"""Characters that are looked at."""
MOST_RECORDS = 1000
NAMES_OF_SEPARATORS = {"\t": "tab", " ": "blank"}
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)
"""The first line of files for Excel."""
_NUMBER = re.compile(r"\s*[+-]?[\d.,' ]*\d[\d.,' ]*([eE][+-]?\d+)?%?\s*")


@dataclass(frozen=True)
class Dialect:
    """The marks that tell cells apart. ``escape`` may precede quotes within a cell, instead of
    doubling them; or is empty."""

    separator: str
    quote: str = '"'
    escape: str = ""

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Return a reader of records, which raises csv.Error at a misplaced quote."""
        return csv.reader(
            lines, delimiter=self.separator, quotechar=self.quote, strict=True,
            escapechar=self.escape or None, doublequote=True,  # without it csv is not strict
        )  # fmt: skip


class FileLayout(NamedTuple):
    """The form of a file and the names of its columns, before cells are read."""

    dialect: Dialect
    names: list[str]
    """The cells of the header."""
    start: int
    """Bytes before the first record."""
    line: int
    """Number of its line, from 1."""
    widths: list[int]
    """Cells of the first records."""
    firsts: list[str]
    """Their first cells, with quotes."""
    notes: list[str]
    keeps_quotes: bool
    """Single quotes are around some cells, and are kept."""


class _DialectSample(NamedTuple):
    text: str
    is_cut: bool


def sniff(data: bytes, path: object, separator: str | None) -> FileLayout:
    """Find out how a table in UTF-8 is written; ``path`` names it in errors. Without a separator it
    is the one that gives all records as many cells as the header has. Raises a CommandError if
    there is no header, or several separators are possible."""
    part = data[: 4 * SAMPLE]
    text = part.decode("utf-8", "ignore")[:SAMPLE]
    skipped, comments, stated = _before_header(text)
    sample = _DialectSample(text[skipped:], len(text.encode()) < len(data))
    if not sample.text.strip():
        if comments and not sample.is_cut:  # also the header may be marked as a comment
            raise CommandError(f"{path} has comments but no header and rows. Pass a table.")
        raise CommandError(f"{path} has no header. Pass a table with a header and rows.")
    dialect = _dialect_of(sample, path, separator or stated)
    notes = []
    header, lines, width = _header_of(sample.text, dialect, path)
    if comments:
        marked = _names_in_comment(comments[-1], dialect, sample, header)
        if marked is not None:
            header, lines, width = marked, 0, 0
            comments.pop()
            notes.append("the header was taken from the line that begins with #")
        elif _may_be_names(comments[-1], dialect, header):
            notes.append("the last line that begins with # has as many cells as the header, which "
                         "was taken from the next line")  # fmt: skip
        if comments:
            notes.append(f"lines of comments before the header: {len(comments)}")
    start = len(text[: skipped + width].encode())
    line = text.count("\n", 0, skipped) + lines + 1
    records, _ = _records(_DialectSample(sample.text[width:], sample.is_cut), dialect)
    records = [record for record in records if record]
    firsts = [row.split(dialect.separator)[0] for row in sample.text[width:].splitlines() if row]
    widths = [len(record) for record in records]
    s = re.escape(dialect.separator)
    in_quotes = re.search(rf"(?:^|[{s}\r\n]) *'[^{s}\r\n]*' *(?:[{s}\r\n]|$)", sample.text)
    kept = dialect.quote != "'" and in_quotes is not None
    return FileLayout(dialect, header, start, line, widths, firsts, notes, kept)


def name_of(separator: str) -> str:
    """Return a separator as messages name it."""
    return NAMES_OF_SEPARATORS.get(separator, repr(separator))


def _before_header(text: str) -> tuple[int, list[str], str | None]:
    """Return the characters before the header, the comments among them, and the separator that
    the first line states."""
    skipped, comments, stated = 0, [], None
    for row in io.StringIO(text, newline=""):
        first = _SEPARATOR_LINE.fullmatch(row)
        if first and not text[:skipped].strip():
            stated = first[1]
        elif row.startswith("#"):
            comments.append(row.strip())
        elif row.strip():
            break
        skipped += len(row)
    return skipped, comments, stated


def _names_in_comment(
    comment: str, dialect: Dialect, sample: _DialectSample, header: list[str]
) -> list[str] | None:
    """Return the names in the last comment, if it is a header: it has as many cells as what
    follows, of which the first line holds numbers."""
    names = _cells_of_comment(comment, dialect)
    first, *_ = [*_records(_DialectSample(sample.text, True), dialect)[0], []]
    holds_numbers = any(_NUMBER.fullmatch(cell) for cell in first)
    named = not any(_NUMBER.fullmatch(name) for name in names)
    fits = _may_be_names(comment, dialect, header)
    return names if fits and holds_numbers and named else None


def _cells_of_comment(comment: str, dialect: Dialect) -> list[str]:
    if '\\"' in comment:
        dialect = replace(dialect, escape="\\")
    cells, *_ = [*_records(_DialectSample(comment.lstrip("#").strip(" "), False), dialect)[0], []]
    return cells


def _may_be_names(comment: str, dialect: Dialect, header: list[str]) -> bool:
    """Return whether a comment has as many cells as the header, but for empty ones at the end."""
    one, other = (
        len(cells) - (not any(cells[-1:]))
        for cells in (_cells_of_comment(comment, dialect), header)
    )
    return 1 < one == other


def _records(sample: _DialectSample, dialect: Dialect) -> tuple[list[list[str]], bool]:
    """Return the records of a sample, up to a misplaced quote, and whether there is none."""
    found: list[list[str]] = []
    reader = dialect.reader(iter(io.StringIO(sample.text, newline="")))
    try:
        for record in reader:
            found.append(record)
            if len(found) == MOST_RECORDS:
                return found, True
    except csv.Error as error:
        is_end = "end of data" in str(error) or "field larger" in str(error)
        return found, sample.is_cut and is_end
    return (found[:-1] if sample.is_cut and len(found) > 1 else found), True


def _header_of(text: str, dialect: Dialect, path: object) -> tuple[list[str], int, int]:
    """Return the first record, its lines and its characters."""
    rows = list(io.StringIO(text, newline=""))
    reader = dialect.reader(iter(rows))
    try:
        header = next(reader)
    except (csv.Error, StopIteration) as error:
        raise CommandError(
            f"The header of {path} has a misplaced quote ({error}). Repair it: quotes enclose "
            "whole cells, and are doubled within them."
        ) from error
    n = max(1, reader.line_num)  # type: ignore[attr-defined]
    return header, n, sum(map(len, rows[:n]))


def _dialect_of(sample: _DialectSample, path: object, separator: str | None) -> Dialect:
    """Return the dialect in which most records have as many cells as the header."""
    tried = [separator] if separator else [*SEPARATORS]
    scored = [(*_score(sample, d), d) for s in tried for d in _with_quotes(sample.text, s)]
    if separator:
        return max(scored, key=lambda item: (item[0], -scored.index(item)))[2]
    whole: dict[str, Dialect] = {}
    for share, width, dialect in scored:
        if share == 1 and width > 1:
            whole.setdefault(dialect.separator, dialect)
    if len(whole) > 1:
        if str(path).lower().split(".gz")[0].endswith(".tsv") and "\t" in whole:
            return whole["\t"]
        raise CommandError(
            f"The cells of {path} can be separated by {' or '.join(map(name_of, whole))}. Pass "
            f"the right one, such as --separator '{next(iter(whole))}'."
        )
    if whole:
        found = next(iter(whole.values()))
        _refuse_rows_of_another(sample, found, path)
        return found
    if blanks := _separated_by_blanks(sample):
        _refuse_rows_of_another(sample, blanks, path)
        return blanks
    best = max(scored, key=lambda item: (item[1] > 1 and item[0] >= 0.5, item[:2]))
    if best[1] == 1:
        _refuse_rows_of_several_cells(sample.text, path)
    return best[2]


def _refuse_rows_of_another(sample: _DialectSample, chosen: Dialect, path: object) -> None:
    """Refuse a file whose rows agree in their number of cells with another separator, too, which
    the header has as well: it may have lost a name."""
    records, _ = _records(sample, chosen)
    for separator in SEPARATORS.replace(chosen.separator, ""):
        others, _ = _records(sample, Dialect(separator, chosen.quote, chosen.escape))
        widths = [len(record) for record in others[1:] if record]
        often = max(widths, key=widths.count, default=0)
        mostly = widths.count(often) >= 0.5 * len(widths)
        least = 1 if chosen.separator == " " else len(records[0])
        if mostly and others and len(others[0]) > 1 and often > least:
            raise CommandError(
                f"{path} can be separated by {name_of(chosen.separator)}, but most of its rows "
                f"have {often} cells with {name_of(separator)}, and the header {len(others[0])}. "
                "Pass --separator, or repair the rows."
            )


def _separated_by_blanks(sample: _DialectSample) -> Dialect | None:
    for dialect in _with_quotes(sample.text, " "):
        share, width = _score(sample, dialect)
        records, _ = _records(sample, dialect)
        if share == 1 and width > 1 and all(name.strip() for name in records[0][1:]):
            return dialect
    return None


def _refuse_rows_of_several_cells(text: str, path: object) -> None:
    """Refuse a header of one name above rows nearly all of which have the same separator."""
    header, *rows = [row for row in text.splitlines() if row.strip()]
    rows = [row for row in rows if row != header]
    has_blanks = " " in header.strip() or header[:1] == " " and _begin_with_numbers(rows)
    for separator in [*SEPARATORS, *[" "] * has_blanks]:
        if rows and sum(separator in row for row in rows) > 0.8 * len(rows):
            raise CommandError(
                f"{path} has one name in its header, but {name_of(separator)} in its rows. Name "
                "every column, or pass --separator."
            )
    several = [row for row in rows if " " in row and all(map(_is_value, row.split(" ")))]
    if len(several) > 0.8 * len(rows) and not all(map(ANY_NUMBER.fullmatch, several)):
        raise CommandError(
            f"{path} has one name in its header, but several values in its rows, such as "
            f"{several[0]!r}. Name every column, or pass --separator."
        )


def _begin_with_numbers(rows: list[str]) -> bool:
    """Return whether nearly all rows begin with their number, which has no name in the header."""
    firsts = [row.split(" ")[0] for row in rows]
    numbers = [int(first) if re.fullmatch("[0-9]{1,12}", first) else -1 for first in firsts]
    return sum(b == a + 1 for a, b in pairwise(numbers) if a >= 0) > 0.8 * (len(rows) - 1) > 0


def _is_value(cell: str) -> bool:
    """Return whether a cell is a number, a truth value or a word for a missing one."""
    is_word = cell.lower() in MISSING_WORDS or cell.lower() in ("true", "false")
    return is_word or _NUMBER.fullmatch(cell) is not None


def _with_quotes(text: str, separator: str) -> list[Dialect]:
    """Return the dialects with a separator that may be, the likeliest first."""
    found = [Dialect(separator)]
    if '\\"' in text:
        found.append(Dialect(separator, escape="\\"))
    header = re.split("[\r\n]", text, maxsplit=1)[0]
    if _encloses("'", separator, text) and not _encloses('"', separator, text):
        single = [Dialect(separator, quote="'")]
        single += [replace(single[0], escape="\\")] * ("\\'" in text)
        if _encloses("'", separator, header):
            return single
        if _encloses("'", separator, text, needed=True):
            return [*single, *found]
        return [*found, *single]
    return found


def are_numbered(cells: list[str]) -> bool:
    """Return whether cells number the rows. Separated by a comma, they could be the whole part of
    decimals."""
    return cells == [str(k) for k in range(1, len(cells) + 1)]


def _encloses(quote: str, separator: str, text: str, *, needed: bool = False) -> bool:
    """Return whether quotes enclose whole cells, or cells that have a quote or separator."""
    s, doubled = re.escape(separator), rf"{quote}{quote}|\\{quote}"
    inner = rf"(?:[^{quote}\r\n]|{doubled})*"
    if needed:
        inner = rf"{inner}(?:{s}|{doubled}){inner}"
    else:
        inner = rf"(?:{inner}|(?:[^{quote}{s}]|{doubled})*)"  # also of several lines
    return bool(re.search(rf"(?:^|[{s}\r\n]){quote}{inner}{quote}(?:[{s}\r\n]|$)", text))


def _score(sample: _DialectSample, dialect: Dialect) -> tuple[float, int]:
    """Return the share of records that fit the header, less if a quote is misplaced, and the
    cells of the header."""
    records, is_whole = _records(sample, dialect)
    factor = 1.0 if is_whole else 0.9
    if len(records) < 2 and not is_whole:
        records = [row.split(dialect.separator) for row in sample.text.splitlines()]
        factor = 0.8
    records = [record for record in records if record]
    if not records:
        return 0.0, 0
    width, rest = len(records[0]), records[1:]
    rest = [r for r in rest if not (len(r) == 1 and r[0].startswith("#"))]
    if not rest:
        return factor, width
    if all(len(r) == width + 1 for r in rest):
        lines = [line for line in sample.text.splitlines() if line][1 : len(rest) + 1]
        quoted = bool(dialect.quote) and all(line[:1] == dialect.quote for line in lines)
        numbered = dialect.separator != "," and are_numbered([r[0] for r in rest])
        fits_all = quoted or numbered or not any(r[-1].strip() for r in rest)
        return factor * (1.0 if fits_all else 0.5), width + 1
    fits = [len(r) == width or (len(r) > width and not any(r[width:])) for r in rest]
    return factor * sum(fits) / len(fits), width


_BEFORE_QUOTE = re.compile(rb"(^|[,;|\t\r\n])[ ]+(?=[\"'])")
_AFTER_QUOTE = re.compile(rb"([\"'])[ ]+(?=[,;|\t\r\n]|$)")


def has_blanks_at_quotes(data: bytes) -> bool:
    """Return whether there are blanks between separators and quotes."""
    start = data[:SAMPLE]
    return bool(_BEFORE_QUOTE.search(start) or _AFTER_QUOTE.search(start))


def without_blanks_at_quotes(data: bytes) -> bytes:
    """Return the text without blanks between separators and quotes."""
    return _AFTER_QUOTE.sub(rb"\1", _BEFORE_QUOTE.sub(rb"\1", data))


def is_regular(layout: FileLayout) -> bool:
    """Return whether the records of the sample are all as long as the header."""
    width, rows = len(layout.names), set(layout.widths)
    return bool(rows) and rows <= {width} or rows == {width + 1}


def has_quotes_in_cells(data: bytes, layout: FileLayout) -> bool:
    """Return whether cells of the sample have quotes between blanks, which do not enclose cells
    then."""
    text = data[: 4 * SAMPLE].decode("utf-8", "ignore")[:SAMPLE]
    records, _ = _records(_DialectSample(text, len(data) > len(text)), layout.dialect)
    return any(_is_quoted_between_blanks(cell) for row in records for cell in row)


def _is_quoted_between_blanks(cell: str) -> bool:
    inner, quotes = cell.strip(" "), ("'", '"')
    before = cell[:1] == " " and inner[:1] in quotes
    return before or cell[-1:] == " " and inner[-1:] in quotes
