"""The records of a CSV file as columns of text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .dialect import (
    SEPARATORS,
    Dialect,
    FileLayout,
    are_numbered,
    has_blanks_at_quotes,
    has_quotes_in_cells,
    is_regular,
    name_of,
    sniff,
    without_blanks_at_quotes,
)
from .errors import CommandError
from .types import MISSING_WORDS, FileTable, plain_name

LONGEST_CELL = 2**31 - 1
_BLANK_LINE = [""]
"""In a table of one column this may be a missing cell, unless only blank lines follow."""
MARKED = (b"\n#", b"\r#")
"""Beginning of a line that is a comment."""
UNNAMED = "Unnamed: "
"""Names of columns without a name begin so, and go on with their position."""


def read_records(data: bytes, path: Path, separator: str | None) -> FileTable:
    """Read a table in UTF-8, whose empty cells are null. Raises a CommandError if the separator is
    ambiguous, there are no rows, a row has more cells than the header, or a quote is misplaced."""
    data, layout = _laid_out(data, path, separator)
    if layout.dialect.escape:  # \\N is a missing cell where backslashes escape
        s = re.escape(layout.dialect.separator.encode())
        missing = rb"(^|" + s + rb"|[\r\n])\\N(?=" + s + rb"|[\r\n]|$)"
        data = data[: layout.start] + re.sub(missing, rb"\1", data[layout.start :])
    names, notes = [plain_name(name) for name in layout.names], list(layout.notes)
    extra = len(layout.widths) > 0 and set(layout.widths) == {len(names) + 1}
    n_cells = len(names) + extra
    columns = _fast(data, layout, n_cells)
    if columns is None:
        columns, more = _slow(data, layout, n_cells, path)
        notes += more
    if columns and extra:
        names, columns, note = _with_extra(names, columns, layout, path)
        notes += note
    columns, more = _without_headers(names, columns)
    notes += more
    if not columns or not len(columns[0]):
        raise CommandError(f"{path} has a header but no rows. Pass a table with rows.")
    notes += _doubts(data, layout, columns)
    names, columns = _named(names, columns)
    return FileTable(path, names, columns, layout.dialect.separator, notes)


def _doubts(data: bytes, layout: FileLayout, columns: list[Any]) -> list[str]:
    """Report what could have been read in another way, too."""
    notes = _marks_in_names(data[: layout.start], layout)
    if data.find(layout.dialect.quote.encode(), layout.start) >= 0:
        notes += _suspicious(columns, layout.dialect)
    if layout.dialect.quote == "'":
        notes.append("single quotes enclose cells")
    if layout.keeps_quotes:
        notes.append("single quotes around cells are kept")
    notes += _backslashes(data, layout.dialect)
    if len(columns) > 1 and (n := _count_blank_lines(data, layout.start)):
        notes.append(f"blank lines among the rows were left out: {n:,}")
    notes += _marked_rows(data, layout.start, columns[0])
    notes += _empty_rows(columns)
    return notes + (_separators_in_cells(columns[0]) if len(columns) == 1 else [])


def _count_blank_lines(data: bytes, start: int) -> int:
    """Return how many blank lines there are before the last row."""
    end = len(data)
    while data[end - 1 : end].isspace():
        end -= 1
    ends = (b"\n\n", b"\n\r\n", b"\r\r") if b"\r" in data else (b"\n\n",)
    if not any(data.find(two, start, end) >= 0 for two in ends):
        return 0
    return sum(1 for _ in re.compile(rb"(?<=\n)\r?\n|(?<=\r)\r").finditer(data, start, end))


def _backslashes(data: bytes, dialect: Dialect) -> list[str]:
    """Report backslashes that may or may not escape what follows them."""
    if b"\\" not in data:
        return []
    if dialect.escape:
        marks = {b"\\", b"N", dialect.quote.encode(), dialect.separator.encode()}
        n = sum(mark not in marks for mark in re.findall(rb"\\(.)", data))
        return [f"backslashes that escape no mark were left out: {n:,}"] if n else []
    runs = re.findall(rb"\\+(?!N)", data)  # the others may be missing cells
    doubled = runs and all(len(run) % 2 == 0 for run in runs)
    return ["doubled backslashes are kept"] if doubled else []


def _marked_rows(data: bytes, start: int, column: Any) -> list[str]:
    """Report rows that begin with # without a quote before it, as comments do."""
    import pyarrow.compute as pc

    if data[start : start + 1] != b"#" and not any(data.find(m, start) >= 0 for m in MARKED):
        return []
    n = pc.sum(pc.starts_with(column, "#")).as_py()
    return [f"rows that begin with # are kept: {n:,}"] if n else []


def _empty_rows(columns: list[Any]) -> list[str]:
    """Report rows of several cells all of which are empty."""
    if len(columns) == 1 or not all(column.null_count for column in columns):
        return []
    empty = np.logical_and.reduce([column.is_null().to_numpy() for column in columns])
    n = np.count_nonzero(empty)
    return [f"rows in which all cells are empty: {n:,}"] if n else []


def _separators_in_cells(column: Any) -> list[str]:
    """Report cells of a file of one column that may be several cells."""
    import pyarrow.compute as pc

    has = pc.fill_null(pc.match_substring_regex(column, f"[{re.escape(SEPARATORS)}]"), False)
    n = pc.sum(has).as_py()
    if not n:
        return []
    example = column.filter(has)[0].as_py()[:30]
    return [f"cells of the only column with a separator: {n:,}, such as {example!r}"]


def _laid_out(data: bytes, path: object, separator: str | None) -> tuple[bytes, FileLayout]:
    """Return the text, without blanks between separators and quotes, and its layout."""
    if not has_blanks_at_quotes(data):
        return data, sniff(data, path, separator)
    try:
        layout = sniff(data, path, separator)
    except CommandError:
        layout = None
    by_blanks = layout is not None and layout.dialect.separator == " "
    if layout is None or by_blanks or not is_regular(layout) or has_quotes_in_cells(data, layout):
        trimmed = without_blanks_at_quotes(data)
        other = sniff(trimmed, path, separator)
        fits = is_regular(other) or not has_quotes_in_cells(trimmed, other)
        if fits and other.dialect.separator != " ":
            return trimmed, other
    return data, layout or sniff(data, path, separator)


def _fast(data: bytes, layout: FileLayout, n_cells: int) -> list[Any] | None:
    """Read well-formed records; None where some are not."""
    import pyarrow
    from pyarrow import csv as reader

    dialect = layout.dialect
    has_quotes = data.find(dialect.quote.encode(), layout.start) >= 0
    if not data[layout.start :].strip() if len(data) - layout.start < 4096 else False:
        return []
    if has_quotes and not quotes_fit(data, layout.start, dialect):
        return None
    misfits: list[Any] = []

    def misfit(row: Any) -> str:
        misfits.append(row)
        return "error"

    keys = [str(k) for k in range(n_cells)]
    try:
        table = reader.read_csv(
            pyarrow.BufferReader(pyarrow.py_buffer(data).slice(layout.start)),
            read_options=reader.ReadOptions(column_names=keys),
            parse_options=reader.ParseOptions(
                delimiter=dialect.separator, quote_char=dialect.quote if has_quotes else False,
                escape_char=dialect.escape or False, double_quote=True,
                newlines_in_values=has_quotes, ignore_empty_lines=n_cells > 1,
                invalid_row_handler=misfit,
            ),
            convert_options=reader.ConvertOptions(
                column_types=dict.fromkeys(keys, pyarrow.string()), null_values=[""],
                strings_can_be_null=True, check_utf8=False,
            ),
        )  # fmt: skip
    except pyarrow.ArrowInvalid:
        return None  # the other reader says what is wrong
    if n_cells == 1:
        return None if table.column(0).null_count else table.columns
    return table.columns


def quotes_fit(data: bytes, start: int, dialect: Dialect) -> bool:
    """Return whether quotes enclose whole cells only, and each that opens is closed."""
    text = np.frombuffer(data, np.uint8)[start:]
    at = np.flatnonzero(text == ord(dialect.quote))
    if dialect.escape:
        at = at[(at == 0) | (text[at - 1] != ord(dialect.escape))]
    if at.size % 2:
        return False
    opening, closing = at[::2], at[1::2]
    bounds = np.array([ord(dialect.separator), 10, 13], np.uint8)
    begins = (opening == 0) | np.isin(text[opening - 1], bounds)
    ends = np.isin(text[np.minimum(closing + 1, len(text) - 1)], bounds)
    ends |= closing == len(text) - 1
    doubled = opening[1:] == closing[:-1] + 1  # closes and opens
    begins[1:] |= doubled
    ends[:-1] |= doubled
    return bool(begins.all() and ends.all())


def _slow(
    data: bytes, layout: FileLayout, n_cells: int, path: object
) -> tuple[list[Any], list[str]]:  # fmt: skip
    """Read records of which some are shorter or longer than the header."""
    import pyarrow

    lines = io.StringIO(data[layout.start :].decode(), newline="")
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        reader = _RecordReader(layout, n_cells, path)
        rows = list(reader.rows(lines))
    finally:
        csv.field_size_limit(limit)
    if n_cells == 1:
        while rows and rows[-1] is _BLANK_LINE:
            rows.pop()
        reader.n_blank = sum(row is _BLANK_LINE for row in rows)
    cells = zip(*rows, strict=True) if rows else iter([])
    made = [
        pyarrow.chunked_array([pyarrow.array([c or None for c in column], pyarrow.string())])
        for column in cells
    ]
    return made, reader.notes()


class _RecordReader:
    """Makes records as long as the header, and counts those that were not."""

    def __init__(self, layout: FileLayout, n_cells: int, path: object) -> None:
        self.layout, self.n_cells, self.path = layout, n_cells, path
        self.n_named = max((k + 1 for k, name in enumerate(layout.names) if name), default=0)
        self.shortest = self.n_cells
        self.n_rows = self.n_long = self.first_long = 0
        self.n_comments = self.n_short = self.first_short = self.n_blank = 0
        self.n_quotes = self.first_quote = self.n_spaces = 0
        self.raw: list[str] = []

    def _kept(self, lines: Iterator[str]) -> Iterator[str]:
        """Iterate over lines, and keep those of the record that is read."""
        for line in lines:
            self.raw.append(line)
            yield line

    def rows(self, lines: Any) -> Iterator[list[str]]:
        reader = self.layout.dialect.reader(self._kept(lines))
        before = self.layout.line - 1
        while True:
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                line = before + reader.line_num  # type: ignore[attr-defined]
                raise CommandError(
                    f"{self.path} has a misplaced quote in line {line} or before it ({error}). "
                    "Repair it: quotes enclose whole cells, and are doubled within them."
                ) from error
            line = before + reader.line_num  # type: ignore[attr-defined]
            row = self._row(record, line)
            if _stray_quote(self.raw, record, self.layout.dialect):
                self.first_quote = self.first_quote or line
                self.n_quotes += 1
            self.raw.clear()
            if row is not None:
                self.n_rows += 1
                yield row

    def _row(self, cells: list[str], line: int) -> list[str] | None:
        n = len(cells)
        if n == self.n_cells:
            return cells
        if n == 0 or n == 1 and cells[0].isspace():  # not a pair of quotes
            if self.n_cells == 1:
                return _BLANK_LINE  # counted once the end is known
            self.n_spaces += n
            return None
        if n == 1 and self.raw[0].lstrip().startswith("#"):  # not in quotes
            self.n_comments += 1
            return None
        if n > self.n_cells:
            if any(cell.strip() for cell in cells[self.n_cells :]):
                self._refuse(n, line)
            self.first_long = self.first_long or line
            self.n_long += 1
            return cells[: self.n_cells]
        self.first_short = self.first_short or line
        self.n_short += 1
        self.shortest = min(self.shortest, n)
        return cells + [""] * (self.n_cells - n)

    def _refuse(self, n: int, line: int) -> None:
        raise CommandError(
            f"{self.path} has {n} cells in line {line}, but {self.n_cells} in others (separator "
            f"{name_of(self.layout.dialect.separator)}). Enclose cells that contain the separator "
            "in quotes, or pass --separator."
        )

    def notes(self) -> list[str]:
        found = []
        if self.n_comments:
            found.append(f"lines of comments among the rows: {self.n_comments:,}")
        if self.n_quotes:
            found.append(
                f"rows with quotes that enclose no cell: {self.n_quotes:,}, the first in line "
                f"{self.first_quote}"
            )
        if self.n_spaces:
            found.append(f"lines of blanks were left out: {self.n_spaces:,}")
        if self.n_blank:
            found.append(f"blank lines, which count as missing: {self.n_blank:,}")
        if self.n_long:
            found.append(
                f"rows with a further separator at their end, which was left out: {self.n_long:,}, "
                f"the first in line {self.first_long}"
            )
        if self.n_short and (self.shortest < self.n_named or self.n_short < self.n_rows):
            found.append(
                f"rows with fewer cells than the header: {self.n_short:,}, the first in line "
                f"{self.first_short}; their last cells count as missing"
            )
        return found


def _stray_quote(lines: list[str], cells: list[str], dialect: Dialect) -> str | None:
    """Return a cell that is written with quotes, but not between quotes."""
    s, quote = re.escape(dialect.separator), dialect.quote
    for cell in cells:
        if quote in cell:
            text = "".join(lines)
            written = rf"(?:^#?|[{s}\r\n]) *{re.escape(cell.strip())} *(?:[{s}\r\n]|$)"
            if any(re.search(written, t) for t in (text, text.replace(f"\\{quote}", quote))):
                return cell
    return None


def _marks_in_names(before: bytes, layout: FileLayout) -> list[str]:
    """Report names with a quote that encloses nothing, or with what escapes one."""
    stray = _stray_quote([before.decode()], layout.names, layout.dialect)
    names = [name for name in layout.names if name == stray or name.count("'") % 2]
    found = [f"the name {name!r} has a quote that does not enclose it" for name in names]
    found += [f"the name {name!r} has a backslash" for name in layout.names if "\\" in name]
    return found[:3]


def _with_extra(
    names: list[str], columns: list[Any], layout: FileLayout, path: object
) -> tuple[list[str], list[Any], list[str]]:
    """Resolve rows that are longer than the header by one cell: they end with a separator, or
    begin with the name of the row, as R writes them."""
    first, quote = columns[0].to_pylist(), layout.dialect.quote
    quoted = all(cell.startswith(quote) for cell in layout.firsts) and len(set(first)) == len(first)
    named = quoted or layout.dialect.separator != "," and are_numbered(first)
    if columns[-1].null_count == len(columns[-1]):
        if not names[-1]:
            raise CommandError(
                f"The header of {path} ends with a separator, and its rows with a further one: a "
                "name may be missing. Repair the header."
            )
        if named:
            raise CommandError(
                f"The rows of {path} have a cell more than its header: the first may be the name "
                "of the row, or the last one a separator too much. Name every column."
            )
        return names, columns[:-1], []
    if named:
        return names, columns[1:], ["the first cell of each row was taken for its name"]
    raise CommandError(
        f"{path} has {len(names)} names in its header, but {len(columns)} cells in each row "
        f"(separator {name_of(layout.dialect.separator)}). Name every column, or pass --separator."
    )


def _without_headers(names: list[str], columns: list[Any]) -> tuple[list[Any], list[str]]:
    """Leave out rows that repeat the header, as where files were joined."""
    import pyarrow.compute as pc

    named = [k for k, name in enumerate(names) if name]
    if not named or not columns or not len(columns[0]):
        return columns, []
    same = None
    for k in named:
        equal = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(columns[k]), names[k]), False)
        same = equal if same is None else pc.and_(same, equal)
        if not pc.any(same).as_py():
            return columns, []
    n = pc.sum(same).as_py()
    if all(names[k].lower() in MISSING_WORDS for k in named):  # they may be missing cells
        return columns, [f"rows that are like the header are kept: {n:,}"]
    keep = pc.invert(same)
    return [c.filter(keep) for c in columns], [f"rows that repeat the header were left out: {n:,}"]


def _suspicious(columns: list[Any], dialect: Dialect) -> list[str]:
    """Report cells of several lines each of which looks like a row: quotes may be missing."""
    import pyarrow.compute as pc

    for k, column in enumerate(columns):
        spans = pc.fill_null(pc.match_substring(column, "\n"), False)
        if not pc.any(spans).as_py():
            continue
        for row in np.flatnonzero(spans.to_numpy())[:1000].tolist():
            cells = [c[row].as_py() or "" for c in columns]
            whole = dialect.separator.join(cells).split("\n")
            if all(line.count(dialect.separator) == len(columns) - 1 for line in whole):
                return [f"a cell of column {k + 1} in row {row + 1} spans lines that look like "
                        "rows: check its quotes"]  # fmt: skip
    return []


def _named(names: list[str], columns: list[Any]) -> tuple[list[str], list[Any]]:
    """Name columns that have no name, and leave them out where they are empty, too."""
    kept = [
        (name or f"{UNNAMED}{k}", column)
        for k, (name, column) in enumerate(zip(names, columns, strict=True))
        if name or column.null_count < len(column)
    ]
    return [name for name, _ in kept], [column for _, column in kept]
