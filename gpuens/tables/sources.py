"""Sources that a table is read from in batches, again and again."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
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


class BatchSource(ABC):
    """Batches that can be read several times."""

    n_rows: int | None = None
    """Known before the rows are read, or None."""

    @property
    def version(self) -> Any:
        """Something that differs once the rows have been changed; None: only the rows tell."""
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[RowBatch]:
        """Read the rows from the start."""


def source_of(batches: Any, y: Any, sample_weight: Any) -> BatchSource:
    """Return what reads ``batches``; the parameters are those of ``BinnedTable.from_batches``.

    Raises
    ------
    TypeError
        ``batches`` is of none of the kinds that can be read again.
    ValueError
        Files or columns are missing, or arrays have other lengths than the table.
    FileNotFoundError
        There is no such file or folder.
    """
    if isinstance(batches, (str, os.PathLike)):
        return ParquetFiles(Path(batches), y, sample_weight)
    module = type(batches).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(batches, "to_batches") and hasattr(batches, "count_rows"):
        return ArrowDataset(batches, y, sample_weight)
    if type(batches).__name__ == "LazyFrame":
        return PolarsPlan(batches, y, sample_weight)
    if isinstance(batches, np.ndarray):
        return RowsOfArray(batches, y, sample_weight)
    if callable(batches):
        return Calls(batches, y, sample_weight)
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


class _Files(BatchSource):
    """Tables with named columns, of which some hold the target and the weights."""

    def __init__(self, y: Any, sample_weight: Any) -> None:
        for name, column in (("y", y), ("sample_weight", sample_weight)):
            if column is not None and not isinstance(column, str):
                raise TypeError(
                    f"{name} must be the name of a column of the files, got "
                    f"{type(column).__name__}."
                )
        self.y, self.weight = y, sample_weight

    def _require(self, columns: list[str], where: str) -> None:
        for argument, column in (("y", self.y), ("sample_weight", self.weight)):
            if column is not None and column not in columns:
                shown = ", ".join(map(repr, columns[:20])) + (", ..." if columns[20:] else "")
                raise ValueError(
                    f"{argument}={column!r} is not a column of {where}, whose columns are {shown}."
                )

    def _batch(self, table: Any) -> RowBatch:
        """Divide a pyarrow table into features, target and weights."""
        others = [column for column in (self.y, self.weight) if column is not None]
        y, weight = (
            None if column is None else _column(table, column) for column in (self.y, self.weight)
        )
        return RowBatch(table.drop_columns(others) if others else table, y, weight)


def _column(table: Any, name: str) -> np.ndarray:
    column = table.column(name)
    if column.null_count:
        raise ValueError(
            f"The column {name!r} has {column.null_count} missing values, which a target or a "
            "weight cannot have. Drop those rows."
        )
    values = column.to_numpy()
    return values.astype(np.str_) if values.dtype.kind == "O" else values


class ParquetFiles(_Files):
    """A parquet file, or all in a folder and in its folders, in the order of their names."""

    def __init__(self, path: Path, y: Any, sample_weight: Any) -> None:
        super().__init__(y, sample_weight)
        if not path.exists():
            raise FileNotFoundError(f"batches={str(path)!r} does not exist.")
        self.paths = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not self.paths:
            raise ValueError(f"batches={str(path)!r} is a folder without a file *.parquet.")
        self.columns: list[str] = []
        self.n_rows = sum(map(self._survey, self.paths))

    def _survey(self, path: Path) -> int:
        """Check the columns of a file, and return its number of rows."""
        with _opened(path) as file:
            names, n_rows = file.schema_arrow.names, file.metadata.num_rows
        self._require(names, str(path))
        self.columns = self.columns or names
        if names != self.columns:
            differing = sorted(set(names) ^ set(self.columns)) or "the same in another order"
            raise ValueError(
                f"{path} has other columns than {self.paths[0]}: {differing}. All files of a table "
                "must have the same columns in the same order."
            )
        return int(n_rows)

    @property
    def version(self) -> Any:
        found = map(os.stat, self.paths)
        return [(each.st_size, each.st_mtime_ns) for each in found]

    def __iter__(self) -> Iterator[RowBatch]:
        return read_ahead(self._batches())

    def _batches(self) -> Generator[RowBatch, None, None]:
        table_of = pyarrow().Table.from_batches
        for path in self.paths:
            with _opened(path) as file:
                for part in file.iter_batches(rows_of_a_batch(len(self.columns))):
                    yield self._batch(table_of([part]))


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


class ArrowDataset(_Files):
    """A ``pyarrow.dataset``."""

    def __init__(self, dataset: Any, y: Any, sample_weight: Any) -> None:
        super().__init__(y, sample_weight)
        self.dataset = dataset
        self._require(dataset.schema.names, "the dataset")
        self.n_rows = dataset.count_rows()

    def __iter__(self) -> Iterator[RowBatch]:
        table_of = pyarrow().Table.from_batches
        size = rows_of_a_batch(len(self.dataset.schema.names))
        parts = self.dataset.to_batches(batch_size=size, batch_readahead=1, fragment_readahead=1)
        for part in parts:
            if part.num_rows:
                yield self._batch(table_of([part]))


class PolarsPlan(_Files):
    """A polars ``LazyFrame``, computed in batches each time that it is read."""

    def __init__(self, frame: Any, y: Any, sample_weight: Any) -> None:
        super().__init__(y, sample_weight)
        self.frame = frame
        self.columns = frame.collect_schema().names()
        self._require(self.columns, "the LazyFrame")

    def __iter__(self) -> Iterator[RowBatch]:
        size = rows_of_a_batch(len(self.columns))
        for part in self.frame.collect_batches(chunk_size=size, maintain_order=True):
            if not part.height:
                continue
            y, weight = (
                None if column is None else part.get_column(column).to_numpy()
                for column in (self.y, self.weight)
            )
            others = [column for column in (self.y, self.weight) if column is not None]
            yield RowBatch(part.drop(others), y, weight)


class RowsOfArray(BatchSource):
    """A NumPy array, which is a memory map where it is larger than memory."""

    def __init__(self, table: np.ndarray, y: Any, sample_weight: Any) -> None:
        if table.ndim != 2:
            raise ValueError(f"batches must be a table with two dimensions, got {table.ndim}.")
        self.table, self.n_rows = table, len(table)
        self.y = _beside(y, "y", len(table))
        self.weight = _beside(sample_weight, "sample_weight", len(table))

    def __iter__(self) -> Iterator[RowBatch]:
        return read_ahead(self._batches())

    def _batches(self) -> Generator[RowBatch, None, None]:
        size = rows_of_a_batch(self.table.shape[1])
        for first in range(0, len(self.table), size):
            rows = slice(first, first + size)
            yield RowBatch(
                np.array(self.table[rows]),  # a view of a memory map would stay in memory
                None if self.y is None else self.y[rows],
                None if self.weight is None else self.weight[rows],
            )


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


class Calls(BatchSource):
    """A function that returns an iterator of batches."""

    def __init__(self, function: Callable[[], Any], y: Any, sample_weight: Any) -> None:
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if given is not None:
                raise TypeError(
                    f"{name} must be None where batches is a function, which returns (X, y) or "
                    f"(X, y, weight) itself, got {type(given).__name__}."
                )
        self.function = function

    def __iter__(self) -> Iterator[RowBatch]:
        found = self.function()
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
