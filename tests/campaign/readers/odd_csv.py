"""Files as people have them: what the command line reads is what was written, or it says
something."""

from __future__ import annotations

import csv
import gzip
import io
import re
import unicodedata
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpuens import command
from gpuens.command import training
from gpuens.command.columns import MISSING_WORDS, learn
from gpuens.command.errors import CommandError
from gpuens.command.features import choose, features_for, features_of, remember
from gpuens.command.tables import FileTable, read
from gpuens.command.types import BOOLEAN, DATE, EMPTY, TEXT, ColumnReading, Overrides

from ..attack import Attack, unnamed, wrong
from .odd_files import DATE_STYLES, Column, Style, style, table, text_of, written

WHOLE_COMMANDS = 40
"""One in so many trials runs the commands."""
EXOTIC = DATE_STYLES[-3:-1]
"""Dates that are not understood."""
ON_ROWS = (
    "blank lines, which", "rows with fewer", "cells of the only", "rows that are like the header",
    "rows with quotes", "rows that begin with #", "the last line that begins with #",
)  # fmt: skip
"""Notes on rows that could have been read in another way."""
FURTHER_ROWS = ("blank lines, which", "rows that are like the header")
"""Notes on rows that the table did not have."""
ON_FORM = ("separator", "encoding", "lines of comments")
"""Notes that say nothing on damage."""
DAMAGES = ("lost cell", "further cell", "lost quote", "further quote", "joined rows", "cut")


class RefusedError(Exception):
    """The reader refused a file in one clear line."""


class OddCsv(Attack):
    """Writes tables of known values in odd ways, damages some of the files, and compares what is
    read with what was written."""

    weight = 2.0

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        training.find_spec = lambda name: None  # no picture of importances, which takes long
        super().__init__(seed, folder, known)
        self.counts = dict.fromkeys(("right", "refused", "noted", "damaged"), 0)

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        if number % WHOLE_COMMANDS == 0:
            self._commands(rng)
            return
        columns = table(rng, int(rng.integers(1, 40)))
        how = style(rng, columns)
        data = written(rng, text_of(rng, columns, how), columns, how)
        if rng.random() < 0.3:
            self._damaged(rng, data, columns, how)
            return
        try:
            readings, overrides, found = self._learned(rng, data, columns, how)
            if rng.random() < 0.5:
                self._applied(rng, readings, overrides, found, columns)
        except RefusedError:
            self.counts["refused"] += 1

    def _read(self, data: bytes, overrides: Overrides) -> FileTable:
        path = self.scratch / ("odd.csv.gz" if data[:2] == b"\x1f\x8b" else "odd.csv")
        path.write_bytes(data)
        return _or_refused(lambda: read(str(path), overrides))

    def _learned(
        self, rng: np.random.Generator, data: bytes, columns: list[Column], how: Style
    ) -> tuple[dict[str, ColumnReading], Overrides, FileTable]:
        overrides = Overrides()
        if rng.random() < 0.2:
            overrides = Overrides(
                separator=how.separator, decimal=how.decimal, encoding=how.encoding
            )
        found = self._read(data, overrides)
        names = [n for n in found.names if not n.startswith("Unnamed")]
        _or_refused(lambda: found.require_unique(names))
        cells = {name: found.column(name) for name in names}
        readings, notes = _or_refused(lambda: learn(cells, overrides, found.separator))
        notes += [f"{n!r}: {r.example}" for n, r in readings.items() if r.example]
        self._check(_as_written(columns, how), readings, notes, found, data)
        return readings, overrides, found

    def _check(
        self,
        columns: list[Column],
        readings: dict[str, ColumnReading],
        notes: list[str],
        found: FileTable,
        data: bytes,
    ) -> None:
        """Compare all columns with what was written."""
        if any(note.startswith(ON_ROWS) for note in found.notes):
            self.counts["noted"] += 1
            return
        names = [_composed(c.name) for c in columns]
        if not set(names) & set(readings):
            raise RefusedError  # by both commands, which need one of them
        if set(names) - set(readings):
            self._found("lost columns", columns, found, data, f"{sorted(readings)}")
        marks = _kept_marks(found.notes)
        for name, column in zip(names, columns, strict=True):
            reading = readings[name]
            if any(repr(name) in note for note in notes):
                self.counts["noted"] += 1
                continue
            problem = _difference(column, reading, marks)
            if problem:
                self._found(f"{column.kind} as {reading.type.kind}", [column], found, data, problem)
            self.counts["right"] += 1

    def _found(
        self, place: str, columns: list[Column], found: FileTable, data: bytes, text: str
    ) -> None:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        path = self.folder / "odd.csv"
        path.write_bytes(data)
        names = [c.name for c in columns]
        shown = data.replace(b"\0", b"")[:300].decode("latin-1")
        raise wrong(f"{names}: {text}; notes {found.notes}; {shown!r}", place, path)

    def _damaged(
        self, rng: np.random.Generator, data: bytes, columns: list[Column], how: Style
    ) -> None:
        """A damaged file is refused, or a note is made, or only the damaged row differs."""
        self.counts["damaged"] += 1
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode(how.encoding)
        kind = str(rng.choice(DAMAGES))
        damaged = _damage(rng, kind, text, how)
        before: list[str] = []
        with suppress(RefusedError):
            before = self._read(data, Overrides()).notes
        try:
            found = self._read(damaged.encode(how.encoding), Overrides())
            names = [n for n in found.names if not n.startswith("Unnamed")]
            _or_refused(lambda: found.require_unique(names))
            cells = {name: found.column(name) for name in names}
            readings, notes = _or_refused(lambda: learn(cells, Overrides(), found.separator))
        except RefusedError:
            return
        said = [n for n in found.notes if n not in before and not n.startswith(ON_FORM)]
        blank = any(note.startswith(FURTHER_ROWS) for note in found.notes)
        if said or blank or damaged == text or kind == "lost cell" and _is_even(damaged, how):
            return
        names = [_composed(c.name) for c in columns]
        if not set(names) & set(readings):
            return  # both commands need one of them
        marks = _kept_marks(found.notes)
        for column in _as_written(columns, how):
            name = _composed(column.name)
            if name not in readings:
                self._found(f"{kind}: lost", columns, found, damaged.encode(), f"{column.name}")
            reading = readings[name]
            of_text = column.kind in ("word", "code")
            if reading.example and not of_text or any(repr(name) in note for note in notes):
                continue
            problem = _difference(column, reading, marks)
            if problem and kind == "lost cell" and "empty rows" in how.oddities:
                plain = next(c for c in columns if c.name == column.name)
                problem = _difference(plain, reading, marks)  # its row is a blank line
            if problem and (kind in DAMAGES[2:] or len(columns) == 1):  # as if this were a cell
                problem = _difference_beyond_a_row(column, reading, kind, marks)
            if problem:
                self._found(f"{kind}: {column.kind}", [column], found, damaged.encode(), problem)

    def _applied(
        self, rng: np.random.Generator, readings: dict[str, ColumnReading], overrides: Overrides,
        found: FileTable, columns: list[Column],
    ) -> None:  # fmt: skip
        """Read another file by the types of the first, as predict does."""
        try:
            kept, _ = choose(readings)
        except CommandError:
            return
        X = features_of(kept)
        categories = [
            np.array(X[n].cat.categories, object) if str(X[n].dtype) == "category" else None
            for n in X
        ]
        model = SimpleNamespace(
            feature_names_in_=np.array(X.columns, object),
            _categories=SimpleNamespace(values=categories),
        )
        remember(model, {n: r.type for n, r in kept.items()}, found.separator, overrides)
        others = table(rng, int(rng.integers(1, 40)), columns)
        how = style(rng, others)
        data = written(rng, text_of(rng, others, how), others, how)
        other = self._read(data, Overrides())
        if any(note.startswith(ON_ROWS) for note in other.notes):
            return
        made, notes = _or_refused(lambda: features_for(model, other))
        for column in _as_written(others, how):
            name = _composed(column.name)
            if name not in kept or any(repr(name) in note for note in notes):
                continue
            reading = kept[name]
            if reading.example:
                continue  # it was noted before
            values = made[f"{name} (days)" if reading.type.kind == DATE else name]
            if reading.type.kind == TEXT:
                values = _arrow([None if v != v else v for v in values])
            again = reading._replace(
                values=values if reading.type.kind == TEXT else values.to_numpy()
            )
            problem = _difference(column, again, _kept_marks([*found.notes, *other.notes]))
            if problem:
                place = f"applied: {column.kind} as {reading.type.kind}"
                self._found(place, [column], other, data, f"{problem}, trained as {reading.type}")

    def _commands(self, rng: np.random.Generator) -> None:
        """Run fit and predict on odd files and on plain ones of the same values."""
        columns = table(rng, 60)
        y = np.random.default_rng(1).permutation(60).astype(float) + 0.25
        both = [columns, table(rng, 15, columns)]
        named = [*columns, Column("y", "real", y)]
        how = style(rng, named)
        again = style(rng, both[1])
        how.oddities = tuple(o for o in how.oddities if o not in ("duplicate", "empty rows"))
        again.oddities = tuple(o for o in again.oddities if o not in ("duplicate", "empty rows"))
        for c in columns:
            if c.kind in ("word", "code"):  # where other words would be categories
                how.missing[c.name] = again.missing[c.name] = ""
        plain = Style(missing={c.name: "" for c in named})
        plain.dates = {c.name: "%Y-%m-%d" + " %H:%M" * (c.kind == "time") for c in named}
        results = []
        for first, second in ((how, again), (plain, plain)):
            results.append(self._run(rng, named, both[1], first, second))
        odd, clean = results
        if odd is None or clean is None:
            self.counts["refused"] += 1
        elif odd[0] == clean[0]:
            self.counts["right"] += 1
        elif odd[1] != clean[1]:
            self.counts["noted"] += 1
        else:
            raise wrong(
                f"predictions differ: {odd[0][:200]!r}, {clean[0][:200]!r}, {odd[2]!r}", "commands"
            )

    def _run(
        self, rng: np.random.Generator, named: list[Column], others: list[Column], first: Style,
        second: Style,
    ) -> tuple[str, list[str], str] | None:  # fmt: skip
        data, new, out_file = (self.scratch / name for name in ("fit.csv", "new.csv", "out.csv"))
        model = self.scratch / "odd.gpuens"
        data.write_bytes(_unzipped(written(rng, text_of(rng, named, first), named, first)))
        new.write_bytes(_unzipped(written(rng, text_of(rng, others, second), others, second)))
        text = ""
        for arguments in (
            ["fit", str(data), "--target", "y", "--model", "boosting", "--test-size", "0", "--task",
             "regression", "--set", "n_estimators=3", "--set", "n_jobs=1", "--output", str(model)],
            ["predict", str(model), str(new), "--output", str(out_file)],
        ):  # fmt: skip
            out, err = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                status = command.main(arguments)
            line = err.getvalue()
            if status not in (0, 2) or status == 2 and (line.count("\n") != 1 or len(line) < 30):
                raise unnamed(ValueError(line), f"{arguments[0]}: status {status}")
            if status == 2:
                return None
            text += out.getvalue()
        said = ("blank lines", "rows with fewer")
        notes = [
            line
            for line in text.splitlines()
            if line.startswith("Note")
            and "first column" not in line
            or any(n in line for n in said)
        ]
        return out_file.read_text(), notes, text


def _unzipped(data: bytes) -> bytes:
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _or_refused(call: Any) -> Any:
    """Call a part of the reader.

    Raises
    ------
    RefusedError
        It refused its input in one clear line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except CommandError as error:
        if "\n" in str(error).strip() and "'" not in str(error) or len(str(error)) < 30:
            raise unnamed(error, "unclear") from error
        raise RefusedError from error
    except Exception as error:
        raise unnamed(error, "reader") from error


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _arrow(values: list[Any]) -> Any:
    import pyarrow

    return pyarrow.chunked_array([pyarrow.array(values, pyarrow.string())])


def _as_written(columns: list[Column], how: Style) -> list[Column]:
    """Return the columns with the rows that a style adds: one of separators, and a comment that
    is a cell where there is one column."""
    odd = set(how.oddities)
    is_narrow = len(columns) == 1 and not odd & {"copy", "duplicate", "index"}
    is_single = is_narrow and not odd & {"row names", "trailing", "trailing all"}
    added: list[str | None] = []
    if "empty rows" in odd and not is_narrow:
        added.append(None)
    if "final comment" in odd and is_single and columns[0].kind in ("word", "code"):
        added.append("# end")
    return [
        Column(c.name, c.kind, [*c.values, *added])
        if c.kind in ("word", "code")
        else Column(c.name, c.kind, np.append(c.values, [np.nan] * len(added)))
        for c in columns
    ]


def _kept_marks(notes: list[str]) -> str:
    """Return the marks that are kept in cells, as notes say."""
    said = "; ".join(notes)
    if "single quotes" in said:
        return "'\\"  # with what escapes them
    return "\\" * ("doubled backslashes" in said)


def _difference(column: Column, reading: ColumnReading, marks: str = "") -> str:
    """Return how the values of a column differ from those that were read, but for marks that are
    kept, or an empty text."""
    kind, truth, found = reading.type.kind, column.values, reading.values
    n = len(truth)
    if len(found) != n:
        return f"{n} rows became {len(found)}"
    if kind == TEXT:
        found = found.to_pylist()
        if column.kind in ("word", "code"):
            without = str.maketrans("", "", marks)
            wanted = [None if v is None or not v.strip() else _composed(v) for v in truth]
            same = [
                w == f
                or w is None
                and _is_missing(f or "", marks)
                or bool(w and f and w.translate(without) == f.translate(without))
                for w, f in zip(wanted, found, strict=True)
            ]
            return _report(same, truth, found)
        quoted = "'" in marks and any(cell and cell[0] == "'" for cell in found)
        return "" if quoted or np.isnan(truth).all() else f"became text such as {found[:3]}"
    if column.kind in ("word", "code"):
        return _is_function(truth, found)
    if kind == EMPTY:
        return "" if np.isnan(truth).all() else "became empty"
    days = column.kind in ("date", "time")
    if days != (kind == DATE) or kind == BOOLEAN and column.kind not in ("flag", "small"):
        return f"became {kind}"
    tolerance = {"time": 0.5 / 1440 + 1e-9, "date": 0.0}.get(column.kind, 1e-12 * np.abs(truth))
    both = np.isnan(truth) & np.isnan(found)
    same = both | (np.abs(truth - found) <= tolerance) | (truth == found)
    return _report(same.tolist(), truth, found)


def _difference_beyond_a_row(column: Column, reading: ColumnReading, kind: str, marks: str) -> str:
    """Return how values differ, but for one damaged row, and what a cut leaves out."""
    problem = _difference(column, reading, marks)
    n, m = len(column.values), len(reading.values)
    width = (m if kind == "cut" else min(n, m)) - 1
    if width < 2 or width < n - (n if kind == "cut" else 2):
        return problem if width >= 2 else ""  # the damaged row may be half of them
    for k in range(width + 1) if kind != "cut" else [width]:
        truth, found = (
            [*values[:k], *values[len(values) - (width - k) :]]
            for values in (column.values, _listed(reading.values))
        )
        if reading.type.kind == TEXT:
            part = reading._replace(values=_arrow(found))
        else:
            part = reading._replace(values=np.array(found, float))
        is_text = column.kind in ("word", "code")
        of_truth = truth if is_text else np.array(truth, float)
        if not _difference(Column(column.name, column.kind, of_truth), part, marks):
            return ""
    return problem


def _listed(values: Any) -> list[Any]:
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    return found


def _is_missing(text: str, marks: str) -> bool:
    return text.lower().strip(marks) in {word.strip(marks) for word in MISSING_WORDS | {"n.d.", ""}}


def _report(same: list[bool], truth: Any, found: Any) -> str:
    at = [k for k, s in enumerate(same) if not s]
    return f"row {at[0]} of {len(at)} is {found[at[0]]!r}, not {truth[at[0]]!r}" if at else ""


def _is_function(truth: Any, found: Any) -> str:
    """Check that equal texts became equal numbers."""
    seen: dict[Any, float] = {}
    for text, value in zip(truth, found.tolist(), strict=True):
        if text is not None and seen.setdefault(text, value) != value and value == value:
            return f"{text!r} became {seen[text]} and {value}"
        if text is not None and value != value and text.lower() not in MISSING_WORDS:
            return f"{text!r} became missing"
    return ""


def _is_even(text: str, how: Style) -> bool:
    """Return whether all records have equally many cells, so that nothing shows a lost one."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    escape = "\\" if how.escape else None
    try:
        records = csv.reader(
            lines, delimiter=how.separator, quotechar=how.quote, escapechar=escape, strict=True
        )
        return len({len(record) for record in records if record}) == 1
    except csv.Error:
        return False


def _damage(rng: np.random.Generator, kind: str, text: str, how: Style) -> str:
    """Return a damaged text."""
    lines = text.split(how.newline)
    at = int(rng.integers(len(lines)))
    if kind == "joined rows" and len(lines) > 2:
        at = min(at, len(lines) - 2)
        lines[at : at + 2] = [lines[at] + lines[at + 1]]
    elif kind == "cut":
        return text[: int(rng.integers(len(text) // 2, len(text)))]
    elif kind in ("lost cell", "further cell"):
        s, q = re.escape(how.separator), how.quote
        outside = rf"{s}(?=(?:[^{q}]*{q}[^{q}]*{q})*[^{q}]*$)"  # of quotes
        cells = re.split(outside, lines[at])
        k = int(rng.integers(len(cells)))
        cells[k : k + 1] = [] if kind == "lost cell" else [cells[k], cells[k]]
        lines[at] = how.separator.join(cells)
    elif kind == "lost quote":
        where = [k for k, c in enumerate(text) if c == how.quote]
        if where:
            k = int(rng.choice(where))
            return text[:k] + text[k + 1 :]
    else:
        k = int(rng.integers(len(text) + 1))
        return text[:k] + how.quote + text[k:]
    return how.newline.join(lines)
