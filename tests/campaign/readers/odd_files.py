"""Tables with known values, and the ways in which people write them into files."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

WORDS = (
    "Rome", "Oslo", "Köln", "São Paulo", "Łódź", "NA", "None", "null", "New York, NY", "5\" pipe",
    "a;b", "x|y", "tab\there", "it's", "two\nlines", "# 1", "-", "1", "2", "S", "007", "1.0", "N/A",
    "yes", "no", "true", "3,5", "'quoted'", "ends\\", "日本", "50 %", "1e5", "May", "A/B", "=1+1",
)  # fmt: skip
LATIN = {word for word in WORDS if all(ord(c) < 256 for c in word)}
EPOCH = date(1970, 1, 1)
DATE_STYLES = (
    "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y",
    "%d %b %Y", "%b %d, %Y", "%d-%b-%y", "%B %d, %Y", "%m/%d/%y", "%d/%m/%y", "%Y%m%d", "%Y.%m.%d",
    "%a, %d %b %Y", "%d. März %Y", "%Y-W%V", "bare",
)  # fmt: skip
TIME_STYLES = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%H:%M:%S.%f")
MISSING = (
    "",
    "",
    "",
    "NA",
    "N/A",
    "?",
    "null",
    "NULL",
    "None",
    "nan",
    "-",
    ".",
    "#N/A",
    "\\N",
    "n.d.",
)
NUMBER_KINDS = ("whole", "small", "real", "large", "share", "three", "money", "exponent", "zeros")
KINDS = (*NUMBER_KINDS, "flag", "date", "time", "code", "word", "word")


@dataclass
class Column:
    """Values of a column: float64 with NaN (dates as days since 1970), or text with None."""

    name: str
    kind: str
    values: Any


@dataclass
class Style:
    """How a table is written."""

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    newline: str = "\n"
    quoting: str = "needed"
    quote: str = '"'
    escape: bool = False
    padding: str = ""
    oddities: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    dates: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)


def table(
    rng: np.random.Generator, n_rows: int, columns: list[Column] | None = None
) -> list[Column]:
    """Return a random table, or other rows of one with the same columns."""
    if columns is None:
        kinds = [str(rng.choice(KINDS)) for _ in range(rng.integers(1, 6))]
        names = ["x", "price, net", "größe", "a b", "Date", "1st", "NA", 'e"f', "x_2", "long " * 8]
        chosen = rng.choice(len(names), len(kinds), replace=False)
        columns = [Column(names[i].strip(), k, None) for i, k in zip(chosen, kinds, strict=True)]
    return [Column(c.name, c.kind, _values(rng, c, n_rows)) for c in columns]


def _values(rng: np.random.Generator, column: Column, n: int) -> Any:
    kind = column.kind
    if kind in ("word", "code"):
        if column.values is not None:
            known = sorted({v for v in column.values if v is not None}) or ["1"]
        elif kind == "code":
            known = ["1", "2", "3", "S"]
        else:
            known = [str(w) for w in rng.choice(WORDS, rng.integers(2, 6), replace=False)]
        if kind == "code" and rng.random() < 0.4:
            known = [k for k in known if k != "S"] or known
        found: list[Any] = [known[i] for i in rng.integers(0, len(known), n)]
        return [None if rng.random() < 0.1 else v for v in found]
    values = {
        "whole": lambda: rng.integers(-50, 50, n), "small": lambda: rng.integers(0, 2, n),
        "real": lambda: rng.normal(0, 3, n).round(rng.integers(1, 7)),
        "large": lambda: rng.integers(1000, 3_000_000, n),
        "share": lambda: rng.integers(0, 101, n) / 100,
        "three": lambda: rng.integers(1000, 999_999, n) / 1000,
        "money": lambda: rng.integers(100, 10_000_000, n) / 100,
        "exponent": lambda: rng.normal(0, 1, n) * 10.0 ** rng.integers(-30, 30, n),
        "zeros": lambda: rng.integers(0, 100, n), "flag": lambda: rng.integers(0, 2, n),
        "date": lambda: rng.integers(*(0, 20_000) if rng.random() < 0.8 else (18000, 18012), n),
        "time": lambda: rng.integers(0, 20_000 * 1440, n) / 1440,
    }[kind]().astype(float)  # fmt: skip
    if rng.random() < 0.4:
        values[rng.random(n) < 0.15] = np.nan
    return values


def style(rng: np.random.Generator, columns: list[Column]) -> Style:
    """Return a random way to write a table."""
    european = rng.random() < 0.4
    made = Style(decimal="," if european else ".")
    made.separator = str(
        rng.choice([";", "\t", ";", "|", ","] if european else [",", ",", ";", "\t", "|", " "])
    )
    if rng.random() < 0.3:
        made.thousands = str(
            rng.choice([".", " ", "\u00a0", "'", "\u202f"] if european else [",", " ", "'"])
        )
    texts = [c.name for c in columns] + [
        v for c in columns if c.kind in ("word", "code") for v in c.values if v
    ]
    choices = ["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
    if all(ord(ch) < 256 for text in texts for ch in text):
        choices += ["latin-1", "cp1252", "latin-1"]
    made.encoding = str(rng.choice(choices))
    made.newline = str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    made.quoting = str(rng.choice(["needed", "needed", "all", "text"]))
    if rng.random() < 0.1 and len(columns) > 1:
        made.quote = "'"
    made.escape = rng.random() < 0.1
    if rng.random() < 0.1:
        made.padding = str(rng.choice(["after", "before", "both"]))
    odd = [
        "comments", "trailing", "row names", "index", "blank lines", "repeated header", "sep line",
        "trailing all", "blank end", "copy", "gzip", "ragged", "final comment", "no end",
        "commented header", "duplicate", "empty rows", "blank start",
    ]  # fmt: skip
    made.oddities = tuple(
        str(o) for o in rng.choice(odd, int(rng.choice([0, 0, 1, 1, 2])), replace=False)
    )
    for c in columns:
        word = str(rng.choice(MISSING))
        made.missing[c.name] = word if c.kind not in ("word", "code") or rng.random() < 0.2 else ""
        chosen = str(rng.choice(DATE_STYLES))
        made.dates[c.name] = chosen
        if c.kind == "time":
            plain = chosen if chosen not in ("bare", "%Y-W%V") else "%Y-%m-%d"
            between = str(rng.choice([" ", "T"])) if plain == "%Y-%m-%d" else " "
            made.dates[c.name] = plain + between + str(rng.choice(TIME_STYLES))
    return made


def cell(rng: np.random.Generator, column: Column, row: int, how: Style) -> str:
    """Return the text of a value."""
    value, kind = column.values[row], column.kind
    if value is None or not isinstance(value, str) and np.isnan(value):
        return how.missing[column.name]
    if not isinstance(value, str):
        value = float(value)
    if kind in ("word", "code"):
        return str(value)
    if kind == "flag":
        return str(bool(value)).upper() if how.decimal == "," else str(bool(value))
    if kind in ("date", "time"):
        moment = datetime(1970, 1, 1) + timedelta(minutes=round(value * 1440))
        form = how.dates[column.name]
        if form == "bare":
            return f"{moment.day}/{moment.month}/{moment.year}"
        return moment.strftime(form)
    if kind == "share":
        text = f"{round(value * 100)}" if how.decimal == "," else f"{value * 100:.1f}"
        return f"{text}{' ' if how.thousands == ' ' else ''}%"
    if kind == "exponent":
        return repr(value).replace(".", how.decimal)
    if kind == "zeros":
        return f"{int(value):03d}"
    if kind == "three":
        text = f"{value:.3f}"
    elif kind == "money":
        text = f"{value:.2f}"
    else:
        text = (
            repr(value).removesuffix(".0") if kind != "real" or rng.random() < 0.5 else repr(value)
        )
    whole, _, rest = text.partition(".")
    if how.thousands and "e" not in text:
        whole = f"{int(whole):,}".replace(",", how.thousands) if whole != "-0" else whole
    return whole + (how.decimal + rest if rest else "")


def text_of(rng: np.random.Generator, columns: list[Column], how: Style) -> list[list[str]]:
    """Return the cells of a table, its header first."""
    n = len(columns[0].values)
    rows = [[c.name for c in columns]]
    rows += [[cell(rng, c, k, how) for c in columns] for k in range(n)]
    if "copy" in how.oddities:
        rows = [[*row, row[0]] for row in rows]
    if "duplicate" in how.oddities:
        rows = [[*row, row[0] if k == 0 else f"{k}"] for k, row in enumerate(rows)]
    if "index" in how.oddities:
        rows = [["" if k == 0 else str(k - 1), *row] for k, row in enumerate(rows)]
    if "row names" in how.oddities and "index" not in how.oddities:
        rows = [row if k == 0 else [f"row {k}", *row] for k, row in enumerate(rows)]
    return rows


def quoted(text: str, how: Style, is_number: bool) -> str:
    """Return a cell as the style writes it."""
    if text == "\\N":
        return text
    special = (how.separator, how.quote, "\n", "\r")
    needs = (
        any(s in text for s in special)
        or how.escape
        and "\\" in text
        or text != text.strip()
        or text.startswith("#")
    )
    if not (needs or how.quoting == "all" or how.quoting == "text" and not is_number):
        return text
    inner = text.replace("\\", "\\\\") if how.escape else text
    inner = inner.replace(how.quote, ("\\" if how.escape else how.quote) + how.quote)
    return f"{how.quote}{inner}{how.quote}"


def written(
    rng: np.random.Generator, rows: list[list[str]], columns: list[Column], how: Style
) -> bytes:
    """Return the file."""
    odd = how.oddities
    numeric = [False] * ("index" in odd or "row names" in odd)
    numeric += [c.kind not in ("word", "code", "date", "time") for c in columns]
    lines = []
    for k, row in enumerate(rows):
        flags = numeric[1:] if len(row) < len(numeric) else [*numeric, *[False] * 2]
        names_row = "row names" in odd and k > 0 and "index" not in odd
        cells = [quoted(t, how, f and k > 0) for t, f in zip(row, flags, strict=False)]
        if cells == [""]:
            cells = [2 * how.quote]  # as all programs write it
        if names_row:
            cells[0] = f"{how.quote}{row[0]}{how.quote}"
        before, after = (
            " " * (how.padding in ("before", "both")),
            " " * (how.padding in ("after", "both")),
        )
        if how.separator != " ":
            cells = [cells[0] + before, *(after + c + before for c in cells[1:])]
        line = how.separator.join(cells)
        if k and "trailing" in odd or "trailing all" in odd:
            line += how.separator
        if k == 1 and "ragged" in odd:
            line += how.separator
        lines.append(line)
    if "commented header" in odd:
        lines[0] = "# " + lines[0]
    if "comments" in odd:
        lines[:0] = ["# written by a tool; version 1,2", "#"]
    if "sep line" in odd and "comments" not in odd:
        lines.insert(0, f"sep={how.separator}")
    if "repeated header" in odd:
        lines.insert(len(lines) // 2 + 1, lines[-len(rows)])
    if "blank lines" in odd:
        lines.insert(len(lines) // 2 + 1, "")
    if "blank start" in odd:
        lines.insert(0, "")
    if "empty rows" in odd and len(rows[0]) > 1:
        lines.append(how.separator * (len(rows[0]) - 1))
    if "final comment" in odd:
        lines.append("# end")
    text = how.newline.join(lines) + ("" if "no end" in odd else how.newline)
    if "blank end" in odd:
        text += how.newline * 2
    try:
        data = text.encode(how.encoding)
    except UnicodeEncodeError:  # the thousands' blank
        how.encoding = "utf-8"
        data = text.encode()
    return gzip.compress(data) if "gzip" in odd else data
