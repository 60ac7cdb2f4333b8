"""Data frames of cuDF, whose columns are in the memory of a GPU, as tables there."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.runtime.arrays import Array
from .frames import EXACT_IN_FLOAT32, require_exact


def gpu_frame_to_table(frame: Any, device: Device, name: str) -> Array:
    """Return the numbers of a data frame on the device, missing values as NaN.

    Columns are read through the array interface, or, with missing values, by ``to_cupy``.

    Parameters
    ----------
    frame : cudf.DataFrame
        With at least one row and one column of floats, integers or booleans.
    device : Device
    name : str
        Name of the frame in error messages.

    Returns
    -------
    array, shape (n_rows, n_columns)
        float32 if that holds every column exactly, else float64, as of frames of the host.

    Raises
    ------
    ValueError
        A column, which is named, holds anything but numbers.
    """
    columns = [frame[label] for label in frame.columns]
    for label, column in zip(frame.columns, columns, strict=True):
        if getattr(column.dtype, "kind", "O") not in "biuf":
            raise ValueError(
                f"{name} must hold numbers, but its column {label!r} has dtype {column.dtype}. "
                "Fit with the column named in categorical_features, encode it as numbers, or drop "
                "it."
            )
    values = [_values_of(column, device) for column in columns]
    dtype = np.result_type(*map(_float_for, columns, values))
    table = device.xp.empty(tuple(frame.shape)[::-1], dtype=dtype).T
    for position, column in enumerate(values):
        if column.dtype.kind in "iu":
            require_exact(column, f"{name}'s column {frame.columns[position]!r}")
        table[:, position] = column
    return table


def _values_of(column: Any, device: Device) -> Array:
    if column.null_count:
        return device.asarray(column.astype("float64").to_cupy(na_value=np.nan))
    return device.asarray(column)


def _float_for(column: Any, values: Array) -> type:
    """Return the float type that holds a column exactly (float64 where none does)."""
    kind, size = column.dtype.kind, column.dtype.itemsize
    if kind == "b" or size <= 2 or column.null_count == len(column):
        return np.float32
    if kind == "f":
        return np.float32 if size == 4 else np.float64
    known = values[values == values]
    fits = -EXACT_IN_FLOAT32 <= float(known.min()) and float(known.max()) <= EXACT_IN_FLOAT32
    return np.float32 if fits else np.float64
