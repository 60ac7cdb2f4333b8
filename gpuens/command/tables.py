"""Reading and writing tables, and turning their columns into features."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

EXTENSIONS = (".csv", ".tsv", ".parquet")
IDENTIFIER_SHARE = 0.5
"""A text column with more distinct values than this share of the rows identifies rows."""
FEW_VALUES = 50
"""Text columns with at most this many distinct values are categories in a table of any size."""


class CommandError(Exception):
    """The input of a command is wrong; the text says what to do, in one line."""


def read(name: str) -> Any:
    """Read a table into a pandas data frame.

    Raises
    ------
    CommandError
        The file is missing, empty, damaged or of another type, or pandas is not installed.
    """
    path = Path(name)
    kind = extension(path)
    if not path.is_file():
        raise CommandError(f"{path} does not exist. Pass the path of a {kind} file.")
    if path.stat().st_size == 0:
        raise CommandError(f"{path} is empty. Pass a table with a header and rows.")
    pandas = _pandas()
    try:
        if kind == ".parquet":
            frame = pandas.read_parquet(path)
            for _, column in frame.items():
                if _is_text(column):
                    column.to_numpy(object)  # raises where text is not UTF-8
        else:
            frame = pandas.read_csv(path, sep="\t" if kind == ".tsv" else ",")
    except ImportError as error:
        raise CommandError(
            f"Reading {path} needs pyarrow. Run: pip install 'gpuens[tables]'"
        ) from error
    except Exception as error:  # each reader has errors of its own, for damaged files OSErrors too
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CommandError(f"{path} is not a readable {kind} file: {error}") from error
    if not len(frame):
        raise CommandError(f"{path} has a header but no rows. Pass a table with rows.")
    return frame.rename(columns=str)


def write(frame: Any, name: str | Path) -> None:
    """Write a table to a .csv, .tsv or .parquet file."""
    path = Path(name)
    kind = extension(path)
    if kind == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")


def extension(path: Path) -> str:
    """Return the extension of a table's file in lower case.

    Raises
    ------
    CommandError
        It is not one of ``EXTENSIONS``.
    """
    found = path.suffix.lower()
    if found not in EXTENSIONS:
        raise CommandError(
            f"{path} must end in {', '.join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}, got "
            f"{found or 'no extension'}. Convert or rename the file."
        )
    return found


def require_columns(frame: Any, wanted: Sequence[str], what: str) -> None:
    """Check that a table has columns of the given names.

    Raises
    ------
    CommandError
        Names the first missing column, and the most similar ones that exist.
    """
    for name in wanted:
        if name not in frame.columns:
            columns = list(frame.columns)
            similar = get_close_matches(name, columns, n=3, cutoff=0.5) or columns[:8]
            shown = ", ".join(map(repr, similar))
            raise CommandError(
                f"{what} {name!r} is not a column of the table, which has {len(columns)} columns, "
                f"among them {shown}. Check the name."
            )


def features_of(frame: Any) -> tuple[Any, list[str]]:
    """Turn the columns of a table into features to train on.

    Text becomes categories, dates become days since 1970 (also where they are ISO 8601 text, as
    in CSV files). Columns that cannot help are left out:
    text that differs in most rows, and columns without any value.

    Returns
    -------
    features : pandas.DataFrame
    left_out : list of str
        A sentence for each column that was left out.
    """
    pandas = _pandas()
    columns, left_out = {}, []
    for name in frame.columns:
        column = frame[name]
        if not column.notna().any():
            left_out.append(f"column {name!r} was left out: it has no values")
            continue
        column = _dates_of_text(column)
        if _is_text(column):
            n = column.nunique()
            if n > max(FEW_VALUES, IDENTIFIER_SHARE * len(column)):
                left_out.append(
                    f"column {name!r} was left out: its text has {n:,} different values in "
                    f"{len(column):,} rows"
                )
                continue
            column = _as_categories(column)
        columns[name] = _as_numbers(column)
    if not columns:
        raise CommandError("No column is left to train on. Pass a table with more columns.")
    return pandas.DataFrame(columns), left_out


def features_for(model: Any, frame: Any) -> Any:
    """Return the features of a fitted model from a table, whatever other columns it has."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise CommandError(
            "The model was not trained on a table with column names. Use it from Python."
        )
    require_columns(frame, list(names), "The model's feature")
    categorical = getattr(model, "is_categorical_", None)
    chosen = frame[list(names)].copy()
    for i, name in enumerate(names):
        is_category = categorical is not None and categorical[i]
        if not is_category:
            chosen[name] = _dates_of_text(chosen[name])
        if not is_category and _is_text(chosen[name]):
            raise CommandError(
                f"Column {name!r} holds text, but the model was trained on numbers. Check the "
                "column for entries that are not numbers."
            )
        chosen[name] = _as_categories(chosen[name]) if is_category else _as_numbers(chosen[name])
    return chosen


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise CommandError(
            "Reading tables needs pandas, which is not installed. Run: pip install 'gpuens[tables]'"
        ) from error
    return pandas


def _is_text(column: Any) -> bool:
    types = _pandas().api.types
    return types.is_string_dtype(column) or types.is_object_dtype(column)


def _dates_of_text(column: Any) -> Any:
    """The column as dates, if it is text and every entry is an ISO 8601 date."""
    if not _is_text(column):
        return column
    found = _pandas().to_datetime(column, format="ISO8601", errors="coerce", utc=True)
    return found if found.notna().sum() == column.notna().sum() else column


def _as_categories(column: Any) -> Any:
    types = _pandas().api.types
    if isinstance(column.dtype, _pandas().CategoricalDtype) or types.is_numeric_dtype(column):
        return column
    return column.astype(object).where(column.isna(), column.astype(str)).astype("category")


def _as_numbers(column: Any) -> Any:
    pandas = _pandas()
    if pandas.api.types.is_datetime64_any_dtype(column):
        start = pandas.Timestamp(0, tz=getattr(column.dtype, "tz", None))
        return (column - start) / pandas.Timedelta(days=1)
    return column
