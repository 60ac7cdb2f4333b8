"""A stand-in for cuDF on the stand-in for CuPy: what its documentation says of columns and frames.

A column with missing values has no array interface, converts by ``to_cupy`` only, and neither it
nor a frame converts to NumPy implicitly. Columns of text and of categories have no numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

IMPLICIT = "Implicit conversion to a host NumPy array via __array__ is not allowed"


class Series:
    """A column: values on the GPU, and which of them are missing."""

    def __init__(self, values: Any, missing: Any = None) -> None:
        source = pd.Series(values)
        cupy = sys.modules["cupy"]
        self._missing = np.zeros(len(source), bool) if missing is None else np.asarray(missing)
        self._is_number = getattr(source.dtype, "kind", "O") in "biuf"
        self._values = cupy.asarray(source.to_numpy()) if self._is_number else source
        self.dtype = source.dtype

    @property
    def null_count(self) -> int:
        return int(self._missing.sum())

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    def __len__(self) -> int:
        return len(self._missing)

    def __array__(self, *args: Any, **settings: Any) -> Any:
        raise TypeError(IMPLICIT)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._is_number:
            raise AttributeError(f"dtype {self.dtype} has no array interface")
        if self.null_count:
            raise NotImplementedError("masks are not supported")
        return self._values.__cuda_array_interface__

    def astype(self, dtype: Any) -> Series:
        made = object.__new__(Series)
        vars(made).update(vars(self))
        made._values, made.dtype = self._values.astype(dtype), np.dtype(dtype)
        return made

    def to_cupy(self, dtype: Any = None, copy: bool = True, na_value: Any = None) -> Any:
        if not self._is_number:
            raise TypeError(f"{self.dtype} cannot be exposed as an array")
        if self.null_count and na_value is None:
            raise ValueError("Column must have no nulls.")
        if na_value is not None and na_value != na_value and self.dtype.kind != "f":
            raise TypeError(f"Cannot safely cast non-equivalent float to {self.dtype}")
        made = self._values.copy()
        if self.null_count:
            made[sys.modules["cupy"].asarray(self._missing)] = na_value
        return made if dtype is None else made.astype(dtype)

    @property
    def iloc(self) -> Any:
        return Rows(self._rows)

    def _rows(self, rows: slice) -> Series:
        return _column(self, self._values[rows], self._missing[rows])

    def to_pandas(self) -> pd.Series:
        column = pd.Series(self._values.get() if self._is_number else self._values)
        return column.mask(self._missing) if self.null_count else column


class Rows:
    """``iloc``, for slices."""

    def __init__(self, read: Callable[[slice], Any]) -> None:
        self._read = read

    def __getitem__(self, rows: slice) -> Any:
        return self._read(rows)


def _column(like: Series, values: Any, missing: np.ndarray) -> Series:
    made = object.__new__(Series)
    vars(made).update(vars(like))
    made._values, made._missing = values, missing
    return made


def concat(parts: Any, ignore_index: bool = False) -> Any:
    """The rows of columns, or of frames, one after the other."""
    first = parts[0]
    if isinstance(first, DataFrame):
        return DataFrame({name: concat([part[name] for part in parts]) for name in first.columns})
    values = sys.modules["cupy"].concatenate([part._values for part in parts])
    return _column(first, values, np.concatenate([part._missing for part in parts]))


class DataFrame:
    """Columns by name."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = {
            name: column if isinstance(column, Series) else Series(column)
            for name, column in columns.items()
        }

    @property
    def iloc(self) -> Any:
        return Rows(
            lambda rows: DataFrame({n: column.iloc[rows] for n, column in self._columns.items()})
        )

    @property
    def columns(self) -> pd.Index:
        return pd.Index(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name: str) -> Series:
        return self._columns[name]

    def __array__(self, *args: Any, **settings: Any) -> Any:
        raise TypeError(IMPLICIT)

    @property
    def dtypes(self) -> pd.Series:
        return pd.Series({name: column.dtype for name, column in self._columns.items()})

    def head(self, n: int) -> Any:
        assert n == 0, "rows stay on the GPU"
        empty = pd.DataFrame({name: [] for name in self._columns})
        return SimpleNamespace(to_pandas=lambda: empty)

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame({name: column.to_pandas() for name, column in self._columns.items()})

    def to_cupy(self, *args: Any, **settings: Any) -> Any:
        raise TypeError("the columns are of different types")


Series.__module__ = DataFrame.__module__ = "cudf.core"


def install(monkeypatch: Any) -> ModuleType:
    """Make ``import cudf`` give the stand-in; CuPy's has to be installed before."""
    cudf = ModuleType("cudf")
    cudf.concat = concat  # type: ignore[attr-defined]
    cudf.DataFrame, cudf.Series, cudf.__version__ = DataFrame, Series, "26.08.00"  # type: ignore
    monkeypatch.setitem(sys.modules, "cudf", cudf)
    return cudf
