"""Reading and writing tables."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .dialect import name_of
from .encodings import WESTERN, decode
from .errors import CommandError
from .rows import read_records
from .types import FileTable, Overrides, plain_name

EXTENSIONS = (".csv", ".tsv", ".parquet")
COMPRESSED = ".gz"
"""May follow the extension of a text file."""


def read(name: str, overrides: Overrides | None = None) -> FileTable:
    """Read a table. Raises a CommandError if the file is missing, empty, damaged or of another
    type, cannot be understood, or pyarrow is not installed."""
    path = Path(name)
    kind = extension(path)
    if not path.is_file():
        raise CommandError(f"{path} does not exist. Pass the path of a {kind} file.")
    if path.stat().st_size == 0:
        raise CommandError(f"{path} is empty. Pass a table with a header and rows.")
    _pandas()
    try:
        import pyarrow.compute  # noqa: F401
    except ImportError as error:
        raise CommandError(
            f"Reading {path} needs pyarrow. Run: pip install 'gpuens[tables]'"
        ) from error
    read_file = _read_parquet if kind == ".parquet" else _read_text
    return _without_copies(read_file(path, overrides or Overrides()))


def _read_text(path: Path, overrides: Overrides) -> FileTable:
    text, encoding, example = decode(path.read_bytes(), overrides.encoding, path)
    table = read_records(text, path, overrides.separator)
    understood = []
    if table.separator != ("\t" if extension(path) == ".tsv" else ","):
        understood.append(f"separator {name_of(table.separator)}")
    if encoding == WESTERN:
        understood.append(f"encoding Windows-1252{f' (as in {example!r})' if example else ''}")
    elif encoding != "utf-8":
        understood.append(f"encoding {encoding}")
    table.notes[:0] = understood
    return table


def _read_parquet(path: Path, overrides: Overrides) -> FileTable:
    pandas = _pandas()
    try:
        frame = pandas.read_parquet(path)
        columns = [_arrow(column) for _, column in frame.items()]
    except Exception as error:  # each reader has errors of its own, for damaged files OSErrors too
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CommandError(f"{path} is not a readable .parquet file: {error}") from error
    if not len(frame) or not columns:
        raise CommandError(f"{path} has a header but no rows. Pass a table with rows.")
    return FileTable(path, [plain_name(str(name)) for name in frame.columns], columns)


def _arrow(column: Any) -> Any:
    """Return a pandas column as an arrow column; objects of several types become text. Raises an
    Exception if it holds text that is not UTF-8."""
    import pyarrow
    import pyarrow.types as types

    column = column.array if hasattr(column.array, "__arrow_array__") else column
    try:
        made = pyarrow.array(column, from_pandas=True)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, TypeError):
        texts = [None if _is_missing(v) else str(v) for v in column]
        made = pyarrow.array(texts, pyarrow.string())
    if not isinstance(made, pyarrow.ChunkedArray):
        made = pyarrow.chunked_array([made])
    if types.is_dictionary(made.type):
        made = made.cast(made.type.value_type)
    if types.is_float16(made.type):
        made = made.cast(pyarrow.float32())
    if types.is_string(made.type) or types.is_large_string(made.type) or "view" in str(made.type):
        made = made.cast(pyarrow.binary()).cast(pyarrow.string())  # raises where it is not UTF-8
    return made


def _is_missing(value: Any) -> bool:
    return bool(value is None or value != value)


def _without_copies(table: FileTable) -> FileTable:
    """Leave out columns that have the name and the cells of an earlier one."""
    kept: list[int] = []
    for k, name in enumerate(table.names):
        earlier = [j for j in kept if table.names[j] == name]
        if any(table.columns[j].equals(table.columns[k]) for j in earlier):
            table.notes.append(f"column {k + 1} is a copy of another one named {name!r}")
        else:
            kept.append(k)
    table.names = [table.names[k] for k in kept]
    table.columns = [table.columns[k] for k in kept]
    return table


def write(frame: Any, name: str | Path) -> None:
    """Write a table to a .csv, .tsv or .parquet file."""
    path = Path(name)
    kind = extension(path)
    if kind == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")


def extension(path: Path) -> str:
    """Return the extension of a table's file in lower case, without that of a compressed file.
    Raises a CommandError if it is not one of ``EXTENSIONS``."""
    suffix = path.suffix.lower()
    found = Path(path.stem).suffix.lower() if suffix == COMPRESSED else suffix
    if found not in EXTENSIONS or suffix == COMPRESSED and found == ".parquet":
        raise CommandError(
            f"{path} must end in {', '.join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}, got "
            f"{suffix or 'no extension'}. Convert or rename the file."
        )
    return found


def bare(path: Path) -> Path:
    """Return a path without the extensions of a table."""
    return (
        path.with_suffix("").with_suffix("")
        if path.suffix.lower() == COMPRESSED
        else (path.with_suffix(""))
    )


def require_columns(table: FileTable, wanted: Sequence[str], what: str) -> None:
    """Check that a table has one column of each of the given names. Raises a CommandError that
    names the first missing column, and the most similar ones that exist."""
    for name in wanted:
        if plain_name(name) not in table.names:
            similar = get_close_matches(name, table.names, n=3, cutoff=0.5) or table.names[:8]
            shown = ", ".join(map(repr, similar))
            raise CommandError(
                f"{what} {name!r} is not a column of the table, which has {len(table.names)} "
                f"columns, among them {shown}. Check the name."
            )


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise CommandError(
            "Reading tables needs pandas, which is not installed. Run: pip install 'gpuens[tables]'"
        ) from error
    return pandas
