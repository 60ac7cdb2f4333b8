"""Sources that a table is read from in batches, again and again."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .prefetch import read_ahead

BATCH_BYTES = 32 * 2**20
"""Bytes of the values of a batch where the source does not divide its rows itself."""
FEWEST_ROWS = 1024
VALUE_BYTES = 8


class RowBatch(NamedTuple):
    """Some rows: features (an array or a data frame), and the target and weights that belong to
    them, or None."""

    X: Any
    y: Any = None
    weight: Any = None


@dataclass(frozen=True)
class BatchSource:
    """Batches that can be read several times: ``read`` returns an iterator over the rows from the
    start, ``n_rows`` is None where it is not known before; ``version`` returns something that
    differs once the rows have been changed (None: only the rows tell)."""

    read: Callable[[], Iterator[RowBatch]]
    n_rows: int | None = None
    version: Callable[[], Any] = lambda: None


def source_of(batches: Any, y: Any, sample_weight: Any) -> BatchSource:
    """Return what reads ``batches``; the parameters, and the errors for batches that cannot be read
    again, files or columns that are missing, and arrays of other lengths, are those of
    ``BinnedTable.from_batches``."""
    if isinstance(batches, (str, os.PathLike)):
        return _of_parquet(Path(batches), y, sample_weight)
    module = type(batches).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(batches, "to_batches") and hasattr(batches, "count_rows"):
        return _of_dataset(batches, y, sample_weight)
    if type(batches).__name__ == "LazyFrame":
        return _of_plan(batches, y, sample_weight)
    if isinstance(batches, np.ndarray):
        return _of_array(batches, y, sample_weight)
    if callable(batches):
        return _of_calls(batches, y, sample_weight)
    advice = (
        "An iterator can be read once only; pass the function that makes it, as in "
        "from_batches(lambda: read())"
        if hasattr(batches, "__next__")
        else "Tables in memory go into fit"
    )
    raise TypeError(
        "batches must be the path of a parquet file or of a folder of them, a pyarrow.dataset, a "
        "polars LazyFrame, a NumPy array or memory map, or a function that returns an iterator of "
        f"(X, y) or (X, y, weight), got {type(batches).__name__}. {advice}."
    )


def _require(y: Any, sample_weight: Any, columns: list[str], where: str) -> None:
    """Check the names of the columns that hold the target and the weights."""
    for argument, column in (("y", y), ("sample_weight", sample_weight)):
        if column is not None and not isinstance(column, str):
            raise TypeError(
                f"{argument} must be the name of a column of the files, got "
                f"{type(column).__name__}."
            )
        if column is not None and column not in columns:
            shown = ", ".join(map(repr, columns[:20])) + (", ..." if columns[20:] else "")
            raise ValueError(
                f"{argument}={column!r} is not a column of {where}, whose columns are {shown}."
            )


def _divided(part: Any, y: Any, sample_weight: Any) -> RowBatch:
    """Divide a pyarrow batch into features, target and weights."""
    table = pyarrow().Table.from_batches([part])
    of_rows = (None if c is None else _column(table, c) for c in (y, sample_weight))
    others = [column for column in (y, sample_weight) if column is not None]
    return RowBatch(table.drop_columns(others) if others else table, *of_rows)


def _column(table: Any, name: str) -> np.ndarray:
    column = table.column(name)
    if column.null_count:
        raise ValueError(
            f"The column {name!r} has {column.null_count} missing values, which a target or a "
            "weight cannot have. Drop those rows."
        )
    values = column.to_numpy()
    return values.astype(np.str_) if values.dtype.kind == "O" else values


def _of_parquet(path: Path, y: Any, sample_weight: Any) -> BatchSource:
    """A parquet file, or all in a folder and in its folders, in the order of their names."""
    if not path.exists():
        raise FileNotFoundError(f"batches={str(path)!r} does not exist.")
    paths = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise ValueError(f"batches={str(path)!r} is a folder without a file *.parquet.")
    n_rows, columns = 0, list[str]()
    for each in paths:
        with _opened(each) as file:
            names, n_of_file = file.schema_arrow.names, int(file.metadata.num_rows)
        _require(y, sample_weight, names, str(each))
        n_rows, columns = n_rows + n_of_file, columns or names
        if names != columns:
            differing = sorted(set(names) ^ set(columns)) or "the same in another order"
            raise ValueError(
                f"{each} has other columns than {paths[0]}: {differing}. All files of a table "
                "must have the same columns in the same order."
            )

    def batches() -> Generator[RowBatch, None, None]:
        for path in paths:
            with _opened(path) as file:
                for part in file.iter_batches(rows_of_a_batch(len(columns))):
                    yield _divided(part, y, sample_weight)

    def version() -> Any:
        return [(each.st_size, each.st_mtime_ns) for each in map(os.stat, paths)]

    return BatchSource(lambda: read_ahead(batches()), n_rows, version)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a parquet file. Raises a ValueError if it is damaged; also while it is read."""
    arrow, parquet = pyarrow(), import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (arrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is not a parquet file, or is damaged: {error}") from error


def _of_dataset(dataset: Any, y: Any, sample_weight: Any) -> BatchSource:
    """A ``pyarrow.dataset``."""
    names = dataset.schema.names
    _require(y, sample_weight, names, "the dataset")

    def batches() -> Iterator[RowBatch]:
        size = rows_of_a_batch(len(names))
        parts = dataset.to_batches(batch_size=size, batch_readahead=1, fragment_readahead=1)
        return (_divided(part, y, sample_weight) for part in parts if part.num_rows)

    return BatchSource(batches, dataset.count_rows())


def _of_plan(frame: Any, y: Any, sample_weight: Any) -> BatchSource:
    """A polars ``LazyFrame``, computed in batches each time that it is read."""
    names = frame.collect_schema().names()
    _require(y, sample_weight, names, "the LazyFrame")
    others = [column for column in (y, sample_weight) if column is not None]

    def batches() -> Iterator[RowBatch]:
        size = rows_of_a_batch(len(names))
        for part in frame.collect_batches(chunk_size=size, maintain_order=True):
            if part.height:
                of_rows = (
                    None if column is None else part.get_column(column).to_numpy()
                    for column in (y, sample_weight)
                )  # fmt: skip
                yield RowBatch(part.drop(others), *of_rows)

    return BatchSource(batches)


def _of_array(table: np.ndarray, y: Any, sample_weight: Any) -> BatchSource:
    """A NumPy array, which is a memory map where it is larger than memory."""
    if table.ndim != 2:
        raise ValueError(f"batches must be a table with two dimensions, got {table.ndim}.")
    target = _beside(y, "y", len(table))
    weight = _beside(sample_weight, "sample_weight", len(table))

    def batches() -> Generator[RowBatch, None, None]:
        size = rows_of_a_batch(table.shape[1])
        for first in range(0, len(table), size):
            rows = slice(first, first + size)
            yield RowBatch(
                np.array(table[rows]),  # a view of a memory map would stay in memory
                None if target is None else target[rows],
                None if weight is None else weight[rows],
            )

    return BatchSource(lambda: read_ahead(batches()), len(table))


def _beside(values: Any, name: str, n_rows: int) -> np.ndarray | None:
    """Return the target or the weights that belong to an array."""
    if values is None:
        return None
    if isinstance(values, str):
        raise TypeError(
            f"{name}={values!r} names a column, but the columns of a NumPy array have no names: "
            f"pass an array of {n_rows} values."
        )
    values = np.asarray(values)
    if values.ndim == 0 or len(values) != n_rows:
        raise ValueError(
            f"{name} must have a value for each of the {n_rows} rows of batches, got shape "
            f"{values.shape}."
        )
    return values


def _of_calls(function: Callable[[], Any], y: Any, sample_weight: Any) -> BatchSource:
    """A function that returns an iterator of batches."""
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None:
            raise TypeError(
                f"{name} must be None where batches is a function, which returns (X, y) or "
                f"(X, y, weight) itself, got {type(given).__name__}."
            )

    def batches() -> Iterator[RowBatch]:
        found = function()
        if not hasattr(found, "__iter__"):
            raise TypeError(
                "batches() must return an iterator of (X, y) or (X, y, weight), got "
                f"{type(found).__name__}."
            )
        for number, batch in enumerate(found):
            if not isinstance(batch, (tuple, list)) or not 1 <= len(batch) <= 3:
                size = f" of length {len(batch)}" if isinstance(batch, (tuple, list)) else ""
                raise TypeError(
                    f"Batch {number} must be a tuple (X, y) or (X, y, weight), got "
                    f"{type(batch).__name__}{size}."
                )
            yield RowBatch(*batch)

    return BatchSource(batches)


def rows_of_a_batch(n_columns: int) -> int:
    """Return how many rows to read at once."""
    return max(FEWEST_ROWS, BATCH_BYTES // (VALUE_BYTES * max(1, n_columns)))


def pyarrow() -> Any:
    """Return the package pyarrow. Raises an ImportError if it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow. Run: pip install 'gpuens[tables]'"
        ) from error
