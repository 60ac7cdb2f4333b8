"""From the bytes of a CSV file to columns of text."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import unicodedata
import zlib
from itertools import islice
from typing import Any

import numpy as np

from .errors import CommandError
from .types import MISSING_WORDS, Overrides

SEPARATORS = ",;\t|"
NAMES_OF_SEPARATORS = {"\t": "tab", " ": "blank"}
UNNAMED = "Unnamed: "
"""Names of columns without a name begin so, and go on with their position."""
_SAMPLE = 2**18
"""Characters in which the separator is looked for."""
_COMPRESSED = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}
_OTHERS = {
    b"PAR1": "a parquet file: name it .parquet",
    b"PK\x03\x04": "a zip archive or an Excel workbook: save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save the table as CSV",
}
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""That of UTF-32 begins like that of UTF-16."""
_BLANKS_AT_QUOTES = re.compile(r'(^|[,;|\t\r\n])[ ]+(?=")|(?<=")[ ]+(?=[,;|\t\r\n]|$)')
_NUMBER = re.compile(r"\s*[+-]?[\d.,' ]*\d[\d.,' ]*([eE][+-]?\d+)?%?\s*")


def plain_name(name: str) -> str:
    """Return a name composed, and without blanks around it."""
    return unicodedata.normalize("NFC", name).strip()


def read_text(
    data: bytes, path: object, overrides: Overrides
) -> tuple[list[str], list[Any], str, list[str]]:  # fmt: skip
    """Read a table from the bytes of a file, which may be compressed.

    Returns
    -------
    names : list of str
    columns : list of arrow arrays in chunks
        Text; empty cells are null, there are no other nulls.
    separator : str
    notes : list of str
        What was understood, and what was left out.

    Raises
    ------
    CommandError
        The file is damaged or not text; the separator is ambiguous; there are no rows; a row has
        more cells than the header; a quote is misplaced.
    """
    text, notes = _decoded(data, overrides.encoding, path)
    body, line, stated, more = _without_comments(text, path)
    if not _quotes_fit(body, SEPARATORS):
        trimmed = _BLANKS_AT_QUOTES.sub(r"\1", body)
        body = trimmed if _quotes_fit(trimmed, SEPARATORS) else body
    separator = overrides.separator or stated or _separator_of(body, path)
    if separator != ("\t" if ".tsv" in str(path).lower() else ","):
        notes.insert(0, f"separator {_name_of(separator)}")
    rows = io.StringIO(body, newline="")
    reader = csv.reader(rows, delimiter=separator, strict=True)
    try:
        names = [plain_name(name) for name in next(reader)]
    except csv.Error as error:
        raise _misplaced(path, line, error) from error
    more += [f"the name {name!r} has a quote" for name in names if '"' in name]
    more += _marks(body, separator, path)
    fits = _quotes_fit(body, separator)
    line, body = line + reader.line_num, body[rows.tell() :]
    columns = _equal_records(body, separator) if fits else None
    notes_on_rows: list[str] = []
    if columns is None or len(columns) not in (len(names), len(names) + 1):
        columns, notes_on_rows = _unequal_records(body, len(names), separator, path, line)
    names, columns, extra = _without_extra(names, columns, separator, body, path)
    columns, repeated = _without_headers(names, columns) if columns else ([], [])
    if not columns or not len(columns[0]):
        raise CommandError(f"{path} has a header but no rows. Pass a table with rows.")
    notes += more + notes_on_rows + extra + repeated + _empty_rows(columns)
    kept = [k for k, name in enumerate(names) if name or columns[k].null_count < len(columns[k])]
    return [names[k] or f"{UNNAMED}{k}" for k in kept], [columns[k] for k in kept], separator, notes


def _name_of(separator: str) -> str:
    """Return a separator as messages name it."""
    return NAMES_OF_SEPARATORS.get(separator, repr(separator))


def _misplaced(path: object, line: int, error: csv.Error) -> CommandError:
    return CommandError(
        f"{path} has a misplaced quote in line {line} or before it ({error}). Repair it: quotes "
        "enclose whole cells, and are doubled within them."
    )


def _decoded(data: bytes, encoding: str | None, path: object) -> tuple[str, list[str]]:
    """Return the text of a file, and a note on its encoding unless that is UTF-8: the one that was
    given, what the byte order mark says, UTF-8 if the bytes are, else Windows-1252."""
    data = _decompressed(data, path)
    found = encoding or next((e for mark, e in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        try:
            text = data.decode(found)
        except UnicodeDecodeError:
            if encoding or found != "utf-8":
                raise
            _refuse_damaged_utf8(data, path)
            found = "cp1252"
            text = data.decode(found)
    except (LookupError, TypeError) as error:
        raise CommandError(
            f"--encoding {encoding!r} is not an encoding of text that Python knows. Pass one such "
            "as utf-8, latin-1 or utf-16."
        ) from error
    except (UnicodeError, ValueError) as error:
        raise CommandError(
            f"{path} is not text in {found}: {error}. Pass its encoding, such as --encoding "
            "cp1250, or repair the file."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CommandError(
            f"{path} is damaged or not text: there is a NUL character in line {line}. Repair the "
            "file, or pass --encoding."
        )
    text = text.removeprefix("\ufeff").rstrip("\x1a")
    if found in ("utf-8", "utf-8-sig"):
        return text, []
    word = re.search(r"[^\W\d_]*[^\x00-\x7f\ufeff][^\W\d_]*", text)
    example = f" (as in {word[0][:30]!r})" if word and found == "cp1252" else ""
    return text, [f"encoding {'Windows-1252' if found == 'cp1252' else found}{example}"]


def _decompressed(data: bytes, path: object) -> bytes:
    for signature, module in _COMPRESSED.items():
        if data.startswith(signature):
            try:
                data = module.decompress(data)
            except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
                raise CommandError(f"{path} is damaged compressed data: {error}.") from error
    for signature, kind in _OTHERS.items():
        if data.startswith(signature):
            raise CommandError(f"{path} is {kind}.")
    return data


def _refuse_damaged_utf8(data: bytes, path: object) -> None:
    """Refuse a file in which most characters beyond ASCII are UTF-8: as Windows-1252 it would
    have two wrong ones in place of each."""
    text = data.decode("utf-8", "surrogateescape")
    damaged = re.findall("[\udc80-\udcff]", text)
    if len(re.findall("[^\x00-\x7f\udc80-\udcff]", text)) >= len(damaged):
        line = text.count("\n", 0, text.index(damaged[0])) + 1
        raise CommandError(
            f"{path} is UTF-8, but for {len(damaged)} bytes, the first in line {line}. Repair it, "
            "or pass --encoding."
        )


def _without_comments(text: str, path: object) -> tuple[str, int, str | None, list[str]]:
    """Return the text from the header on, the number of lines before it, the separator that a first
    line ``sep=;`` states, and notes."""
    found = re.match(r"\s*(?:sep=([^\r\n])[\r\n]+)?((?:#[^\r\n]*[\r\n]+|[\r\n]+)*)", text, re.I)
    assert found is not None  # it may be empty
    body, comments = text[found.end() :].lstrip("\r\n"), re.findall(r"#[^\r\n]*", found[2])
    if not body.strip():
        raise CommandError(f"{path} has no header. Pass a table with a header and rows.")
    line = len(re.findall(r"\r\n|\r|\n", text[: len(text) - len(body)]))
    if comments:
        header = re.split("[\r\n]", body, maxsplit=1)[0]
        for separator in SEPARATORS:
            last, n = comments[-1].rstrip(separator), header.rstrip(separator).count(separator)
            if n and last.count(separator) == n:
                raise CommandError(
                    f"{path} may have its header in the line {comments[-1][:60]!r}, which has as "
                    "many cells as the next line. Leave out its '#', or the line."
                )
    return (
        body,
        line,
        found[1],
        [f"lines of comments before the header: {len(comments)}"] * bool(comments),
    )


def _records(body: str, separator: str) -> list[list[str]]:
    """Return the first records; where a quote is misplaced, the lines cut at separators."""
    sample = body[:_SAMPLE]
    is_cut = len(sample) < len(body)
    rows = csv.reader(io.StringIO(sample, newline=""), delimiter=separator, strict=True)
    found: list[list[str]] = []
    try:
        for record in islice(rows, 1000):
            found.append(record)
    except csv.Error as error:
        if not is_cut or "end of data" not in str(error):
            found = [line.split(separator) for line in sample.splitlines()]
    found = found[:-1] if is_cut and len(found) > 1 else found
    return [record for record in found if len(record) > 1 or "".join(record).strip()]


def _separator_of(body: str, path: object) -> str:
    """Return the separator that gives all records as many cells as the header has, else the one
    that does for most."""
    shares, widths = {}, {}
    for s in f"{SEPARATORS} ":
        header, *rows = _records(body, s)
        widths[s], shares[s] = len(header), 0.0
        if len(header) > 1 or rows and all(len(row) == 2 for row in rows):
            extra = rows and all(len(row) == len(header) + 1 for row in rows)
            fits = [len(r) == len(header) or not any(r[len(header) :]) for r in rows]
            is_blank_name = s == " " and not all(header[1:])
            shares[s] = _share_of_longer(rows, s, body) if extra else float(np.mean(fits or [True]))
            shares[s] *= not is_blank_name
    whole = [s for s in SEPARATORS if shares[s] == 1.0]
    if len(whole) > 1 and not (".tsv" in str(path).lower() and "\t" in whole):
        raise CommandError(
            f"The cells of {path} can be separated by {' or '.join(map(_name_of, whole))}. Pass "
            f"the right one, such as --separator '{whole[0]}'."
        )
    if whole:
        return _undisputed("\t" if "\t" in whole else whole[0], body, path)
    if shares[" "] == 1.0:
        return _undisputed(" ", body, path)
    best = max(SEPARATORS, key=lambda s: (shares[s] >= 0.5, shares[s], widths[s]))
    if shares[best] < 0.5:
        _refuse_rows_of_several_cells(body, path)
        return ","
    return best


def _share_of_longer(rows: list[list[str]], separator: str, body: str) -> float:
    """Return 1 if rows which are longer than the header by a cell begin with a name, or end with a
    separator; else one half."""
    quoted = all(line[:1] == '"' for line in body[:_SAMPLE].splitlines()[1 : len(rows) + 1] if line)
    numbered = separator != "," and _are_numbered([row[0] for row in rows])
    return 1.0 if quoted or numbered or not any(row[-1].strip() for row in rows) else 0.5


def _are_numbered(cells: list[Any]) -> bool:
    """Return whether cells number the rows. Separated by a comma, they could be the whole part of
    decimals."""
    return cells == [str(k) for k in range(1, len(cells) + 1)]


def _undisputed(chosen: str, body: str, path: object) -> str:
    """Return the separator. Raises a CommandError if rows agree in a larger number of cells with
    another one that the header has, too: it may have lost a name."""
    n = 1 if chosen == " " else len(_records(body, chosen)[0])
    for other in SEPARATORS.replace(chosen, ""):
        header, *rows = _records(body, other)
        counts = [len(row) for row in rows]
        often = max(counts, key=counts.count, default=0)
        if len(header) > 1 and often > n and 2 * counts.count(often) >= len(counts):
            raise CommandError(
                f"{path} can be separated by {_name_of(chosen)}, but most of its rows have {often} "
                f"cells with {_name_of(other)}, and the header {len(header)}. Pass --separator, or "
                "repair the rows."
            )
    return chosen


def _refuse_rows_of_several_cells(body: str, path: object) -> None:
    """Refuse a header of one name above rows nearly all of which have the same separator."""
    header, *rows = [row for row in body[:_SAMPLE].splitlines() if row.strip()]
    rows = [row for row in rows if row != header]
    for separator in [*SEPARATORS, *[" "] * (" " in header.strip())]:
        if rows and sum(separator in row for row in rows) > 0.8 * len(rows):
            raise CommandError(
                f"{path} has one name in its header, but {_name_of(separator)} in its rows. Name "
                "every column, or pass --separator."
            )
    several = [row for row in rows if " " in row and all(map(_is_value, row.split(" ")))]
    if several and len(several) > 0.8 * len(rows):
        raise CommandError(
            f"{path} has one name in its header, but several values in its rows, such as "
            f"{several[0]!r}. Name every column, or pass --separator."
        )


def _is_value(cell: str) -> bool:
    """Return whether a cell is a number, a truth value or a word for a missing one."""
    is_word = cell.lower() in MISSING_WORDS or cell.lower() in ("true", "false")
    return is_word or _NUMBER.fullmatch(cell) is not None


def _quotes_fit(text: str, separators: str) -> bool:
    """Return whether quotes enclose whole cells only, and each that opens is closed."""
    if '"' not in text:
        return True
    cell, bounds = r'"[^"]*(?:""[^"]*)*"', f"[{re.escape(separators)}\r\n]"
    return '"' not in re.sub(rf"(?:^|(?<={bounds})){cell}(?={bounds}|$)", "", text)


def _marks(body: str, separator: str, path: object) -> list[str]:
    """Report marks that are kept in cells. Raises a CommandError if single quotes enclose cells
    that have a separator or several lines."""
    s = re.escape(separator)
    before, after = rf"(?:^|[{s}\r\n]) *'", rf"' *(?:[{s}\r\n]|$)"
    inner = rf"[^'\r\n]*{s}[^'\r\n]*|[^'{s}\r\n]*[\r\n]+[^'{s}\r\n]*"
    if found := re.search(rf"{before}({inner}){after}", body):
        raise CommandError(
            f"{path} encloses {found[1][:60]!r} in single quotes, which do not enclose cells here. "
            "Write double quotes."
        )
    said = {
        "quotes that enclose no cell are kept": not _quotes_fit(body, separator),
        "single quotes around cells are kept": re.search(rf"{before}[^{s}\r\n]*{after}", body),
        "backslashes are kept": "\\" in body.replace("\\N", ""),
    }
    return [what for what, is_so in said.items() if is_so]


def _empty_rows(columns: list[Any]) -> list[str]:
    """Report rows of several cells all of which are empty."""
    if len(columns) == 1 or not all(column.null_count for column in columns):
        return []
    n = np.count_nonzero(np.all([column.is_null().to_numpy() for column in columns], axis=0))
    return [f"rows in which all cells are empty: {n:,}"] if n else []


def _equal_records(body: str, separator: str) -> list[Any] | None:
    """Return the columns of records that have equally many cells; None if they do not, or if a
    single column has empty cells, which may be blank lines."""
    import pyarrow
    from pyarrow import csv as reader

    first = next(csv.reader(io.StringIO(body.lstrip("\r\n"), newline=""), delimiter=separator), [])
    keys = [str(k) for k in range(len(first))]
    try:
        columns = reader.read_csv(
            pyarrow.BufferReader(body.encode()),
            read_options=reader.ReadOptions(column_names=keys),
            parse_options=reader.ParseOptions(
                delimiter=separator, quote_char='"' if '"' in body else False,
                newlines_in_values='"' in body, ignore_empty_lines=len(keys) > 1,
            ),
            convert_options=reader.ConvertOptions(
                column_types=dict.fromkeys(keys, pyarrow.string()), null_values=[""],
                strings_can_be_null=True, check_utf8=False,
            ),
        ).columns  # fmt: skip
    except pyarrow.ArrowInvalid:
        return None
    return None if len(columns) == 1 and columns[0].null_count else list(columns)


def _unequal_records(
    body: str, n_cells: int, separator: str, path: object, line: int
) -> tuple[list[Any], list[str]]:  # fmt: skip
    """Return the columns of records of which some are shorter than the header, or longer by empty
    cells."""
    import pyarrow

    limit = csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=separator, strict=True)
    rows, n_short, n_long, n_comments = [], 0, 0, 0
    try:
        for cells in reader:
            n = len(cells)
            if n_cells > 1 and n <= 1 and (not "".join(cells).strip() or cells[0][:1] == "#"):
                n_comments += n
                continue
            if any(cells[n_cells:]):
                raise CommandError(
                    f"{path} has {n} cells in line {line + reader.line_num}, but {n_cells} in "
                    f"others (separator {_name_of(separator)}). Enclose cells that contain the "
                    "separator in quotes, or pass --separator."
                )
            n_short += 0 < n < n_cells
            n_long += n > n_cells
            rows.append(cells and [*cells, *[""] * (n_cells - n)][:n_cells])
    except csv.Error as error:
        raise _misplaced(path, line + reader.line_num, error) from error
    finally:
        csv.field_size_limit(limit)
    while rows and not rows[-1]:
        rows.pop()
    n_blank = sum(not row for row in rows)  # of one column, where they may be cells
    of_columns = zip(*(row or [""] for row in rows), strict=True)
    texts = ([cell or None for cell in column] for column in of_columns)
    columns = [pyarrow.chunked_array([pyarrow.array(t, pyarrow.string())]) for t in texts]
    said = {
        "lines of blanks or comments among the rows were left out": n_comments,
        "rows with fewer cells than the header, whose last cells count as missing": n_short,
        "rows with a further separator at their end, which was left out": n_long,
        "blank lines, which count as missing": n_blank,
    }
    return columns, [f"{what}: {n:,}" for what, n in said.items() if n]


def _without_extra(
    names: list[str], columns: list[Any], separator: str, body: str, path: object
) -> tuple[list[str], list[Any], list[str]]:  # fmt: skip
    """Resolve rows that are longer than the header by one cell: they end with a separator, or
    begin with the name of the row, as R writes them."""
    if len(columns) != len(names) + 1:
        return names, columns, []
    first = columns[0].to_pylist()
    lines = body[:_SAMPLE].splitlines()
    quoted = all(row[:1] in ('"', "") for row in lines) and len(set(first)) == len(first)
    named = quoted or separator != "," and _are_numbered(first)
    ends = columns[-1].null_count == len(columns[-1])
    if ends and (named or not names[-1]):
        raise CommandError(
            f"The rows of {path} have a cell more than its header, which may have lost a name: the "
            "first may be the name of the row, or the last one a separator too much. Name every "
            "column."
        )
    if ends:
        return names, columns[:-1], []
    if named:
        return names, columns[1:], ["the first cell of each row was taken for its name"]
    raise CommandError(
        f"{path} has {len(names)} names in its header, but {len(columns)} cells in each row "
        f"(separator {_name_of(separator)}). Name every column, or pass --separator."
    )


def _without_headers(names: list[str], columns: list[Any]) -> tuple[list[Any], list[str]]:
    """Leave out rows that repeat the header, as where files were joined."""
    import pyarrow.compute as pc

    same = None
    for name, column in zip(names, columns, strict=True) if any(names) else ():
        equal = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), name), not name)
        same = equal if same is None else pc.and_(same, equal)
        if not pc.any(same).as_py():
            return columns, []
    if same is None:
        return columns, []
    n = pc.sum(same).as_py()
    if all(name.lower() in MISSING_WORDS for name in names if name):  # they may be missing cells
        return columns, [f"rows that are like the header are kept: {n:,}"]
    return [c.filter(pc.invert(same)) for c in columns], [
        f"rows that repeat the header were left out: {n:,}"
    ]
