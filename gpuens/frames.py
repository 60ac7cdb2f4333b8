"""Data frames (pandas, polars, pyarrow) to one NumPy array."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

EXACT_IN_FLOAT32 = 2**24
"""Every integer up to this size is a float32."""


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of a library that can be read."""
    return not isinstance(X, np.ndarray) and bool(nw.dependencies.is_into_dataframe(X))


def require_unique_columns(frame: Any, name: str) -> None:
    """Raise a ValueError that lists the column names which occur more than once."""
    columns = getattr(frame, "columns", ())
    if hasattr(frame, "column_names"):  # pyarrow calls its names so, its data `columns`
        columns = frame.column_names
    counts: dict[Any, int] = {}
    for column in columns:
        counts[column] = counts.get(column, 0) + 1
    repeated = [column for column, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(
            f"{name} has columns of the same name: {repeated}. Feature names must be unique; "
            "rename or drop the duplicates."
        )


def frame_to_numpy(frame: Any, name: str) -> np.ndarray:
    """The numbers of a data frame, missing values as NaN.

    Parameters
    ----------
    frame : data frame
        Columns of floats, integers or booleans, nullable or not; a column that holds
        missing values only may have any type.
    name : str
        What error messages call the frame.

    Returns
    -------
    ndarray, shape (n_rows, n_columns)
        float32 if that holds every column exactly, else float64. A view of the frame where
        its library gives one.

    Raises
    ------
    ValueError
        A column holds anything but numbers; says which, and what to do.
    """
    table = nw.from_native(frame, eager_only=True)
    columns = list(table.iter_columns())
    for column in columns:
        _require_numbers(column, name)
    if _is_one_float_block(frame, table):
        return np.asarray(table.to_numpy())
    dtype = np.result_type(np.float32, *{_float_for(column) for column in columns})
    values = np.empty(table.shape, dtype, order="F")
    for position, column in enumerate(columns):
        _copy_column(column, values[:, position])
    return values


def _require_numbers(column: nw.Series[Any], name: str) -> None:
    dtype = column.dtype
    if dtype.is_integer() or dtype.is_float() or dtype == nw.Boolean or _all_missing(column):
        return
    if dtype in (nw.Categorical, nw.Enum):
        advice = "Categories are not supported yet: pass their codes, or one-hot encode them"
    elif dtype in (nw.String, nw.Object, nw.Binary):
        advice = "Encode it as numbers (sklearn.preprocessing.OrdinalEncoder), or drop it"
    elif dtype.is_temporal():
        advice = "Turn it into a number, such as the days since a date, or drop it"
    else:
        advice = "Cast it to float64, or drop it"
    raise ValueError(
        f"{name} must hold numbers, but its column {column.name!r} has dtype "
        f"{column.to_native().dtype if hasattr(column.to_native(), 'dtype') else dtype}. {advice}."
    )


def _all_missing(column: nw.Series[Any]) -> bool:
    return len(column) > 0 and column.null_count() == len(column)


def _is_one_float_block(frame: Any, table: nw.DataFrame[Any]) -> bool:
    """Whether the frame's own conversion gives the result, possibly without a copy."""
    dtypes = set(table.schema.values())
    if dtypes not in ({nw.Float32()}, {nw.Float64()}):
        return False
    if table.implementation.is_pandas():
        return all(isinstance(dtype, np.dtype) for dtype in table.to_native().dtypes)
    return table.implementation.is_polars()


def _float_for(column: nw.Series[Any]) -> type:
    """The float type that holds a column exactly (float64 where none does)."""
    dtype = column.dtype
    if dtype in (nw.Boolean, nw.Int8, nw.Int16, nw.UInt8, nw.UInt16) or _all_missing(column):
        return np.float32
    if dtype.is_float() and dtype != nw.Float64:
        return np.float32
    if dtype.is_integer() and len(column):
        if -EXACT_IN_FLOAT32 <= column.min() and column.max() <= EXACT_IN_FLOAT32:
            return np.float32
    return np.float64


def _copy_column(column: nw.Series[Any], out: np.ndarray) -> None:
    if _all_missing(column):
        out[:] = np.nan
        return
    if column.dtype.is_float() or not column.null_count():
        out[:] = column.to_numpy()
        return
    out[:] = column.fill_null(False if column.dtype == nw.Boolean else 0).to_numpy()
    out[column.is_null().to_numpy()] = np.nan
