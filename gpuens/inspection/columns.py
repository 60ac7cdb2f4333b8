"""Tables of any library, whose columns are read, replaced, shuffled and left out one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device, gpu_of, on_host, to_numpy
from ..devices.policy import NO_WORK, Work
from ..inputs.arrays import dense_table, is_frame, require_readable, resolve_device
from ..inputs.frames import (
    Column,
    DictionaryColumn,
    NumberColumn,
    category_column,
    frame_to_numpy,
    require_unique_columns,
)
from ..kernels.runtime.arrays import Array
from ..members.fitting import TAKE_GPU_ARRAYS, prediction_work_of, training_work


class Columns(ABC):
    """A table with at least one row and one column. ``device`` is where the values are, and where
    they get to the model; ``names`` are the columns of a data frame, or None."""

    device: Device
    shape: tuple[int, ...]
    names: list[Any] | None = None

    def label(self, feature: int) -> str:
        """Return the name of a column in error messages."""
        return f"{feature}" if self.names is None else f"{self.names[feature]!r}"

    @abstractmethod
    def table(self) -> Any:
        """Return the table as the model reads it; it must not be written to."""

    @abstractmethod
    def column(self, feature: int) -> Column:
        """Return a column whose values are categories."""

    @abstractmethod
    def numbers(self, feature: int) -> Array:
        """Return a column as floats (n_rows,), on the device; NaN is missing."""

    @abstractmethod
    def values(self, feature: int) -> np.ndarray:
        """Return a column as it is, in NumPy: numbers (NaN is missing) or objects (None is
        missing)."""

    @abstractmethod
    def is_integer(self, feature: int) -> bool:
        """Return whether a column has an integer type."""

    @abstractmethod
    def is_text(self, feature: int) -> bool:
        """Return whether a column holds anything but numbers."""

    @abstractmethod
    def take(self, rows: Array) -> Columns:
        """Return some rows, given as integers on the device."""

    @abstractmethod
    def filled(self, points: Sequence[Mapping[int, Any]]) -> Any:
        """Stack a copy of the table for each point, in which the given columns hold the point's
        values in all rows."""

    @abstractmethod
    def shuffled(self, feature: int, orders: Sequence[Array]) -> Any:
        """Stack a copy of the table for each order of the rows (integers on the device), in which a
        column is permuted."""

    @abstractmethod
    def without(self, feature: int) -> Any:
        """Return the table without a column."""

    @property
    def most_copies(self) -> int:
        """Return how many copies of the table to make at once."""
        return 1


class ArrayColumns(Columns):
    """Columns of a NumPy or CuPy array."""

    COPY_BYTES = 2**25
    """Memory that copies of a table may take which are predicted together."""

    def __init__(self, values: Array, device: Device) -> None:
        self.array, self.device = values, device
        self.shape = values.shape

    def table(self) -> Any:
        return self.array

    def column(self, feature: int) -> Column:
        values = self.array[:, feature]
        if values.dtype.kind == "O":
            return DictionaryColumn.of_objects(values.tolist(), f"X's feature {feature}")
        return NumberColumn(values)

    def numbers(self, feature: int) -> Array:
        values = self.array[:, feature]
        return values if values.dtype.kind == "f" else values.astype(np.float64)

    def values(self, feature: int) -> np.ndarray:
        return to_numpy(self.array[:, feature])

    def is_integer(self, feature: int) -> bool:
        return self.array.dtype.kind in "iu"

    def is_text(self, feature: int) -> bool:
        return self.array.dtype.kind == "O" and self.column(feature).kind() == "strings"

    def take(self, rows: Array) -> Columns:
        return ArrayColumns(self.array[rows], self.device)

    def filled(self, points: Sequence[Mapping[int, Any]]) -> Any:
        kinds = [np.asarray(value).dtype for value in points[0].values()]
        copies = self._copies(len(points), kinds)
        for copy, point in zip(copies, points, strict=True):
            for feature, value in point.items():
                copy[:, feature] = value
        return copies.reshape(-1, self.shape[1])

    def shuffled(self, feature: int, orders: Sequence[Array]) -> Any:
        copies = self._copies(len(orders), [])
        for copy, order in zip(copies, orders, strict=True):
            copy[:, feature] = self.array[order, feature]
        return copies.reshape(-1, self.shape[1])

    def _copies(self, n: int, kinds: Sequence[np.dtype]) -> Array:
        """(n, n_rows, n_features), of a type that also holds values of some other types."""
        dtype = self.array.dtype
        if dtype.kind in "biu" and any(kind != dtype for kind in kinds):
            dtype = np.result_type(dtype, *kinds)
        copies = self.device.xp.empty((n, *self.shape), dtype=dtype)
        copies[...] = self.array
        return copies

    def without(self, feature: int) -> Any:
        others = self.array[:, :feature], self.array[:, feature + 1 :]
        return self.device.xp.concat(others, axis=1)

    @property
    def most_copies(self) -> int:
        return max(1, self.COPY_BYTES // max(1, self.array.nbytes))


class FrameColumns(Columns):
    """Columns of a data frame, which keep their types."""

    device = CPU

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self.frame = frame
        self.names = list(frame.columns)
        self.shape = frame.shape

    def _series(self, feature: int) -> nw.Series[Any]:
        return self.frame.get_column(self.frame.columns[feature])

    def _label(self, feature: int) -> str:
        return f"X's column {self.label(feature)}"

    def table(self) -> Any:
        return self.frame.to_native()

    def column(self, feature: int) -> Column:
        return category_column(self.table(), feature, self._label(feature))

    def numbers(self, feature: int) -> np.ndarray:
        alone = self.frame.select(self.frame.columns[feature])
        return frame_to_numpy(alone.to_native(), "X")[:, 0]

    def values(self, feature: int) -> np.ndarray:
        if not self.is_text(feature):
            return self.numbers(feature)
        listed = np.empty(self.shape[0], object)
        listed[:] = self._series(feature).to_list()
        return listed

    def is_integer(self, feature: int) -> bool:
        return self._series(feature).dtype.is_integer()

    def is_text(self, feature: int) -> bool:
        dtype = self._series(feature).dtype
        return not (dtype.is_numeric() or dtype == nw.Boolean)

    def take(self, rows: Array) -> Columns:
        return FrameColumns(self.frame[to_numpy(rows)])

    def filled(self, points: Sequence[Mapping[int, Any]]) -> Any:
        (point,) = points
        columns = [self._constant(feature, value) for feature, value in point.items()]
        return self.frame.with_columns(*columns).to_native()

    def _constant(self, feature: int, value: Any) -> nw.Series[Any]:
        series, n_rows = self._series(feature), self.shape[0]
        if not self.is_text(feature) and not self.is_integer(feature):
            dtype = np.float32 if series.dtype == nw.Float32 else np.float64
            return self._new(feature, np.full(n_rows, value, dtype))
        # A value of the column itself brings its type along, such as a list of categories.
        rows = np.flatnonzero(np.asarray([v == value for v in series.to_list()], np.bool_))
        if rows.size:
            return series[np.full(n_rows, rows[0])].alias(self.frame.columns[feature])
        return self._new(feature, [value] * n_rows)

    def _new(self, feature: int, values: Any) -> nw.Series[Any]:
        backend = self.frame.implementation
        return nw.new_series(self.frame.columns[feature], values, backend=backend)

    def shuffled(self, feature: int, orders: Sequence[Array]) -> Any:
        (order,) = orders
        column = self._series(feature)[to_numpy(order)].alias(self.frame.columns[feature])
        return self.frame.with_columns(column).to_native()

    def without(self, feature: int) -> Any:
        return self.frame.drop(self.frame.columns[feature]).to_native()


def columns_of(X: Any, model: Any, name: str = "X") -> Columns:
    """Return the columns of a table, made dense, on the device where a model reads its input: for
    those of this package, or that take arrays on a GPU, where they work or the values are, for all
    others on the host. ``name`` is what errors call X. Raises a ValueError or TypeError if X is not
    a table, is empty, or has columns of the same name."""
    if is_frame(X):
        require_unique_columns(X, name)
        frame = nw.from_native(X, eager_only=True)
        _require_table(tuple(frame.shape), name)
        return FrameColumns(frame)
    X = dense_table(X, name) if issparse(X) else X
    require_readable(X, name)
    device = home_of(model, X)
    with device.active():
        values = device.asarray(X if hasattr(X, "dtype") else _of_list(X))
        _require_table(tuple(values.shape), name)
        return ArrayColumns(values.astype(object) if values.dtype.kind in "UST" else values, device)


def _of_list(X: Any) -> np.ndarray:
    """Convert nested lists to an array of floats; integers are numbers like all others."""
    values = np.asarray(X)
    return values.astype(np.float64) if values.dtype.kind in "iu" else values


def home_of(model: Any, X: Any) -> Device:
    """Return the device on which a model reads its arrays."""
    package = type(model).__module__.partition(".")[0]
    if package not in TAKE_GPU_ARRAYS or (package != "gpuens" and gpu_of(X) is None):
        return CPU
    return resolve_device(getattr(model, "device", "auto"), X, work=_work_of(model, X))


def _work_of(model: Any, X: Any) -> Work:
    """Return the work of predictions repeated feature by feature, or of a fit."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return training_work(model, X, None) or NO_WORK
    work = prediction_work_of([model], X) or NO_WORK
    return work.times(work.features)


def _require_table(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{name} must be a table with at least one row and one column, got the shape {shape}."
        )


def require_same_features(columns: Columns, others: Columns, name: str) -> None:
    """Raise a ValueError if a second table, called ``name``, has other columns than X."""
    if others.shape[1] != columns.shape[1] or others.names != columns.names:
        seen, wanted = (
            f"{c.shape[1]} columns{'' if c.names is None else f' {c.names}'}"
            for c in (others, columns)
        )
        raise ValueError(f"{name} has {seen}, X has {wanted}: pass the same features.")


SHOWN = 20
"""Names that an error message lists."""


def feature_names_of(columns: Columns, feature_names: Any) -> list[Any] | None:
    """Return the names of the features: those given, or the columns of a data frame. Raises a
    ValueError if they are not one for each feature, or repeated."""
    if feature_names is None:
        return columns.names
    names = np.asarray(feature_names).tolist()
    if len(names) != columns.shape[1]:
        raise ValueError(
            f"feature_names has {len(names)} names, but X has {columns.shape[1]} features: pass "
            "one for each."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"feature_names should not contain duplicates, got {names}.")
    return names


def positions_of(
    features: Any, columns: Columns, names: Sequence[Any] | None, argument: str = "features"
) -> list[int]:
    """Return the positions, at least one and all different, of features that are given by position,
    name or mask; ``argument`` is what errors call them. Raises a ValueError if a feature is not
    there, or named twice, or there is none."""
    n_features = columns.shape[1]
    wanted = [features] if isinstance(features, (str, Integral)) else list(on_host(features))
    wanted = [w.item() if isinstance(w, np.generic) else w for w in wanted]
    if wanted and all(isinstance(w, bool) for w in wanted):
        if len(wanted) != n_features:
            raise ValueError(
                f"{argument} is a mask of {len(wanted)} booleans, but X has {n_features} features: "
                "pass one for each."
            )
        wanted = [f for f, chosen in enumerate(wanted) if chosen]
    if not wanted:
        raise ValueError(f"{argument} names no feature: pass at least one position or name.")
    positions = [_position(w, n_features, names, argument) for w in wanted]
    if len(set(positions)) < len(positions):
        raise ValueError(f"{argument} names a feature more than once: {wanted}.")
    return positions


def _position(feature: Any, n_features: int, names: Sequence[Any] | None, argument: str) -> int:
    if isinstance(feature, str):
        if names is None:
            raise ValueError(
                f"{argument} names {feature!r}, but X is not a data frame. Pass positions, "
                "feature_names, or a data frame."
            )
        if feature not in names:
            some = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
            raise ValueError(
                f"Some column names are not columns of the dataframe: {argument} names "
                f"{feature!r}, the columns are {some}."
            )
        return list(names).index(feature)
    if not isinstance(feature, Integral) or isinstance(feature, bool):
        raise ValueError(f"{argument} must be positions, names or a mask, got {feature!r}.")
    if not 0 <= int(feature) < n_features:
        raise ValueError(
            f"all features must be in [0, {n_features - 1}], for X has {n_features} features; "
            f"{argument} has {feature}."
        )
    return int(feature)


def categorical_positions(
    categorical_features: Any, columns: Columns, names: Sequence[Any] | None, model: Any
) -> set[int]:
    """Return the positions of the features whose grid consists of their categories; None stands for
    those that the model was fitted with as categorical, and columns of text. Raises a ValueError
    for features that are not there, or none at all."""
    n_features = columns.shape[1]
    if categorical_features is None:
        known = getattr(model, "is_categorical_", None)
        chosen = set(np.flatnonzero(known).tolist()) if known is not None else set()
        return chosen | {f for f in range(n_features) if columns.is_text(f)}
    listed = np.asarray(on_host(categorical_features))
    if listed.size == 0:
        raise ValueError(
            "Passing an empty list (`[]`) to `categorical_features` is not supported. Use `None` "
            "instead to indicate that there are no categorical features."
        )
    return set(positions_of(listed.tolist(), columns, names, "categorical_features"))
