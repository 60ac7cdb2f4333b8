"""Data frames (pandas, polars, pyarrow) as one NumPy array, and columns of categories.

The values of a column of categories are numbered in ascending order.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from ..devices.array_functions import distinct, occurrences
from ..devices.placement import module_of, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.lazy_jit import lazy_property

EXACT_IN_FLOAT32 = 2**24
"""Every integer up to this size is a float32."""
EXACT_IN_FLOAT64 = 2**53
"""Every integer up to this size is a float64."""

_WITH_NAN = numbers.Number, np.datetime64, np.timedelta64

_NO_CODES: Mapping[int, Callable[[], np.ndarray]] = MappingProxyType({})


def is_pandas(frame: Any) -> bool:
    """Return whether a data frame is of pandas, or of modin, which imitates it."""
    library = nw.from_native(frame, eager_only=True).implementation
    return library.is_pandas() or library.is_modin()


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


def column_names(frame: Any) -> list[Any]:
    """Return the names of a data frame's columns, whatever they are."""
    return list(nw.from_native(frame, eager_only=True).columns)


def with_names(frame: Any, names: list[str]) -> Any:
    """Return a data frame whose columns have other names, without copying them."""
    table = nw.from_native(frame, eager_only=True)
    if not table.implementation.is_pandas_like():
        return table.rename(dict(zip(table.columns, names, strict=True))).to_native()
    renamed = frame.copy(deep=False)  # names that are not text cannot be keys of narwhals
    renamed.columns = names
    return renamed


def frame_to_numpy(
    frame: Any, name: str, codes: Mapping[int, Callable[[], np.ndarray]] = _NO_CODES
) -> np.ndarray:
    """Return the numbers of a data frame, missing values as NaN.

    Parameters
    ----------
    frame : data frame
        Columns of floats, integers or booleans, nullable or not, or of categories that are
        numbers; a column that holds missing values only may have any type.
    name : str
        Name of the frame in error messages.
    codes : mapping of positions to functions
        Columns of any type, and functions that return the numbers (float32) of their values.

    Returns
    -------
    ndarray, shape (n_rows, n_columns)
        float32 if that holds every column exactly, else float64. A view of the frame where
        its library gives one.

    Raises
    ------
    ValueError
        A column, which is named, holds anything but numbers.
    """
    table = nw.from_native(frame, eager_only=True)
    columns = {i: column for i, column in enumerate(table.iter_columns()) if i not in codes}
    columns = {i: _without_dictionary(column, name) for i, column in columns.items()}
    for column in columns.values():
        _require_numbers(column, name)
    if not codes and _is_one_float_block(table):
        return np.asarray(table.to_numpy())
    dtype = np.result_type(np.float32, *{_float_for(column) for column in columns.values()})
    values = np.empty(table.shape, dtype, order="F")
    for position, column in columns.items():
        _copy_column(column, values[:, position], f"{name}'s column {column.name!r}")
    for position, code in codes.items():
        values[:, position] = code()
    return values


def _without_dictionary(column: nw.Series[Any], name: str) -> nw.Series[Any]:
    """Return a column of categories that are numbers as these numbers, others as they are."""
    if column.dtype not in (nw.Categorical, nw.Enum) or column.implementation.is_polars():
        return column  # whose categories are text
    codes, listed = _dictionary(column)
    categories = np.array(listed)
    if categories.dtype.kind not in "iuf" or not len(listed):
        return column
    if categories.dtype.kind != "f" and (codes < 0).any():
        require_exact(categories, f"{name}'s column {column.name!r}")
        categories = categories.astype(np.float64)
    values = categories[codes]
    if (codes < 0).any():
        values[codes < 0] = np.nan
    return nw.new_series(column.name, values, backend=column.implementation)


def columns_of_categories(frame: Any) -> np.ndarray:
    """Return which columns have a categorical or enumeration type: bool, shape (n_columns,)."""
    schema = nw.from_native(frame, eager_only=True).schema
    return np.array([dtype in (nw.Categorical, nw.Enum) for dtype in schema.values()], np.bool_)


def category_column(frame: Any, position: int, label: str) -> Column:
    """Read a column whose values are categories.

    Parameters
    ----------
    frame : data frame
    position : int
        Of the column: categorical, text, numbers, or objects that are either.
    label : str
        Name of the column in error messages.

    Raises
    ------
    ValueError
        The column holds something else.
    """
    table = nw.from_native(frame, eager_only=True)
    column = table.get_column(table.columns[position])
    dtype = column.dtype
    if _all_missing(column):
        return DictionaryColumn(np.full(len(column), -1), [], label)
    if dtype.is_integer() or dtype.is_float() or dtype == nw.Boolean:
        return _number_column(column)
    if dtype == nw.Object:
        return DictionaryColumn.of_objects(column.to_numpy().tolist(), label)
    if dtype in (nw.Categorical, nw.Enum, nw.String):
        return DictionaryColumn(*_dictionary(column), label)
    raise ValueError(
        f"{label} has dtype {_dtype_name(column)}, whose values cannot be categories. Cast it to "
        "strings."
    )


def _require_numbers(column: nw.Series[Any], name: str) -> None:
    dtype = column.dtype
    if dtype.is_integer() or dtype.is_float() or dtype == nw.Boolean or _all_missing(column):
        return
    if dtype in (nw.Categorical, nw.Enum):
        advice = (
            "Its values are categories: fit with categorical_features='from_dtype' or with the "
            "column named there, or pass their codes"
        )
    elif dtype in (nw.String, nw.Object):
        advice = (
            "Cast it to float64 if its values are numbers. Fit with the column named in "
            "categorical_features, encode it as numbers (sklearn.preprocessing.OrdinalEncoder), "
            "or drop it"
        )
    elif dtype.is_temporal():
        advice = "Turn it into a number, such as the days since a date, or drop it"
    else:
        advice = "Cast it to float64, or drop it"
    raise ValueError(
        f"{name} must hold numbers, but its column {column.name!r} has dtype "
        f"{_dtype_name(column)}. {advice}."
    )


def _dtype_name(column: nw.Series[Any]) -> str:
    return str(getattr(column.to_native(), "dtype", column.dtype))


def _all_missing(column: nw.Series[Any]) -> bool:
    return len(column) > 0 and column.null_count() == len(column)


def _is_one_float_block(table: nw.DataFrame[Any]) -> bool:
    """Return whether the frame's own conversion gives the result, possibly without a copy."""
    dtypes = set(table.schema.values())
    if dtypes not in ({nw.Float32()}, {nw.Float64()}):
        return False
    if table.implementation.is_pandas():
        return all(isinstance(dtype, np.dtype) for dtype in table.to_native().dtypes)
    return table.implementation.is_polars()


def _float_for(column: nw.Series[Any]) -> type:
    """Return the float type that holds a column exactly (float64 where none does)."""
    dtype = column.dtype
    if dtype in (nw.Boolean, nw.Int8, nw.Int16, nw.UInt8, nw.UInt16) or _all_missing(column):
        return np.float32
    if dtype.is_float() and dtype != nw.Float64:
        return np.float32
    if dtype.is_integer() and len(column):
        if -EXACT_IN_FLOAT32 <= column.min() and column.max() <= EXACT_IN_FLOAT32:
            return np.float32
    return np.float64


def require_exact(integers: Array, name: str) -> None:
    """Raise a ValueError for integers that float64 does not hold.

    Parameters
    ----------
    integers : integers, any shape
        On any device.
    name : str
        Of the table, for the message.
    """
    if not -EXACT_IN_FLOAT64 <= int(integers.min()) or not int(integers.max()) <= EXACT_IN_FLOAT64:
        with np.errstate(invalid="ignore"):
            rounded = integers.astype(np.float64)
            exact = rounded.astype(integers.dtype) == integers
        exact &= rounded < float(np.iinfo(integers.dtype).max)  # casts of what is above vary
        if not bool(exact.all()):
            raise rounded_integer(int(integers[~exact][0]), name)


def rounded_integer(value: int, name: str) -> ValueError:
    """Return the error for an integer that float64 does not hold."""
    return ValueError(
        f"{name} holds integers that float64 does not hold, such as {value}: beyond 2**53 "
        "different values would become equal. Subtract a constant, name the column in "
        "categorical_features, or pass floats to accept the rounding."
    )


def _copy_column(column: nw.Series[Any], out: np.ndarray, what: str) -> None:
    if _all_missing(column):
        out[:] = np.nan
        return
    numbers = _number_column(column)
    if column.dtype.is_integer():
        require_exact(numbers.values, what)
    out[:] = numbers.values
    if numbers.missing is not None:
        out[to_numpy(numbers.missing)] = np.nan


def _number_column(column: nw.Series[Any]) -> NumberColumn:
    if column.dtype.is_float() or not column.null_count():
        return NumberColumn(column.to_numpy())
    filled = column.fill_null(False if column.dtype == nw.Boolean else 0)
    return NumberColumn(filled.to_numpy(), column.is_null().to_numpy())


def _dictionary(column: nw.Series[Any]) -> tuple[np.ndarray, Any]:
    """Return the codes (-1 is missing) and the categories of a column of categories or of text."""
    native = column.to_native()
    if column.implementation.is_polars():
        return _polars_dictionary(column)
    if column.implementation.is_pandas_like() and column.dtype == nw.String:
        codes, categories = native.factorize()
        return np.asarray(codes), list(categories)
    if hasattr(native, "cat"):
        return native.cat.codes.to_numpy(), list(native.cat.categories)
    arrow = column.to_arrow()
    arrow = arrow.dictionary_encode() if column.dtype == nw.String else arrow
    codes = arrow.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, arrow.dictionary.to_pylist()


def _polars_dictionary(column: nw.Series[Any]) -> tuple[np.ndarray, Any]:
    if column.dtype == nw.String:
        column = column.cast(nw.Categorical)
    series = column.to_native()
    codes, used = _physical(series), series.unique().drop_nulls()
    # Categories can be shared with other columns, and a few of very many occur here.
    places = np.full(codes.max() + 2, -1)
    places[_physical(used)] = np.arange(len(used))
    return places[codes], nw.from_native(used, series_only=True).cast(nw.String).to_list()


def _physical(series: Any) -> np.ndarray:
    codes = nw.from_native(series.to_physical(), series_only=True)
    return codes.cast(nw.Int64).fill_null(-1).to_numpy()


_WIDEST_TABLE = 2**16
"""Range of whole numbers below which counting them is cheaper than sorting, for few rows too."""


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers.

    values : integers, booleans or floats, shape (n_rows,), NumPy or CuPy
        NaN is missing.
    missing : bool, shape (n_rows,), or None
        Which other values are missing.
    """

    values: Array
    missing: Array | None = None

    def distinct(self) -> np.ndarray:
        """Return the values that occur, ascending, without the missing ones."""
        values = self.values if self.missing is None else self.values[~self.missing]
        if values.dtype.kind == "f":
            values = values[values == values]
        return to_numpy(_distinct(values))

    def kind(self) -> str | None:
        """Return ``kind_of`` the distinct values; numbers also where all are missing."""
        return "numbers"

    def encode(self, known: np.ndarray) -> Array:
        """Return each value's position in ``known`` (ascending) as float32, NaN if it has none."""
        xp = module_of(self.values)
        if kind_of(known) != "numbers":
            return xp.full(self.values.shape, np.nan, dtype=xp.float32)
        common = np.result_type(known.dtype, self.values.dtype)
        common = np.result_type(np.int8) if common.kind == "b" else common
        values, known = self.values.astype(common, copy=False), known.astype(common, copy=False)
        position = _positions(values, known)
        found = xp.asarray(known)[position] == values
        if self.missing is not None:
            found &= ~self.missing
        return xp.where(found, position.astype(np.float32), np.float32(np.nan))


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """A column that holds the positions of its values in a list of categories.

    codes : integers, shape (n_rows,), NumPy
        -1 is missing.
    categories : ndarray or list
        In any order; some may be missing values, or occur in no row.
    label : str
        Name of the column in error messages.
    """

    codes: np.ndarray
    categories: Any
    label: str

    @classmethod
    def of_objects(cls, values: list[Any], label: str) -> DictionaryColumn:
        """Hash every value.

        Raises
        ------
        ValueError
            A value cannot be hashed.
        """
        try:
            position = {value: code for code, value in enumerate(set(values))}
        except TypeError as error:
            raise ValueError(
                f"{label} holds values that cannot be categories ({error}). Use strings or numbers."
            ) from error
        codes = np.fromiter(map(position.__getitem__, values), np.int64, len(values))
        return cls(codes, list(position), label)

    def distinct(self) -> np.ndarray:
        """Return the values that occur, ascending, without the missing ones: numbers, or strings as
        objects.

        Raises
        ------
        ValueError
            They are neither numbers throughout nor strings throughout.
        """
        used = self._used
        if self.kind() == "strings":
            texts = sorted(set(map(str.__str__, used)))
            ordered = np.empty(len(texts), object)
            ordered[:] = texts
            return ordered
        values = np.asarray(used)
        values = values if values.dtype.kind in "biuf" else values.astype(np.float64)
        for given, held in zip(used, values.tolist(), strict=True):
            if isinstance(given, numbers.Integral) and int(given) != held:
                raise ValueError(
                    f"{self.label} holds categories of which no type of NumPy holds all, such as "
                    f"{given}: different ones would become equal. Convert them with str."
                )
        return _distinct(values)

    def kind(self) -> str | None:
        """Return ``kind_of`` the distinct values."""
        types = set(map(type, self._used))
        if not types:
            return None
        if all(issubclass(t, str) for t in types):
            return "strings"
        if all(issubclass(t, (numbers.Real, np.bool_)) for t in types):
            return "numbers"
        raise ValueError(
            f"{self.label} holds categories of the types {sorted(t.__name__ for t in types)}, "
            "which must be strings throughout or numbers throughout. Convert them, for example "
            "with str."
        )

    def encode(self, known: np.ndarray) -> np.ndarray:
        """Return the position of each value in ``known`` as float32, NaN if it has none."""
        position = {value: float(code) for code, value in enumerate(known.tolist())}
        numbers_of = [position.get(value, np.nan) for value in self._listed]
        return np.array([*numbers_of, np.nan], np.float32)[self.codes]  # the last: missing

    @property
    def missing(self) -> np.ndarray:
        """Return whether each value is missing: bool, shape (n_rows,)."""
        return np.array([*(value is None for value in self._listed), True])[self.codes]

    @lazy_property
    def _listed(self) -> list[Any]:
        """The categories as Python objects, None for missing ones."""
        listed = list(self.categories)
        if isinstance(self.categories, np.ndarray) and self.categories.dtype.kind not in "mM":
            listed = self.categories.tolist()  # which turns dates into numbers
        return [None if is_missing(value) else value for value in listed]

    @lazy_property
    def _used(self) -> list[Any]:
        """The categories that occur and are not missing."""
        occurs = np.zeros(len(self._listed) + 1, np.bool_)
        occurs[self.codes] = True
        pairs = zip(self._listed, occurs[:-1].tolist(), strict=True)
        return [value for value, is_used in pairs if is_used and value is not None]


Column = NumberColumn | DictionaryColumn


def kind_of(distinct: np.ndarray) -> str | None:
    """Return the kind of a column's distinct values: "strings", "numbers", or None without any."""
    if len(distinct) == 0:
        return None
    return "strings" if distinct.dtype.kind == "O" else "numbers"


def _distinct(values: Array) -> Any:
    """Return distinct numbers, ascending; no value is NaN."""
    xp = module_of(values)
    whole = values.dtype.kind != "f" or bool((xp.floor(values) == values).all())
    if not whole or len(values) == 0:
        return distinct(values)
    low, high = values.min().item(), values.max().item()
    if max(abs(low), abs(high)) > EXACT_IN_FLOAT64 or high - low >= max(len(values), _WIDEST_TABLE):
        return distinct(values)
    occurs = occurrences(values.astype(np.int64) - int(low)) > 0
    return (xp.nonzero(occurs)[0] + int(low)).astype(values.dtype)


def _positions(values: Array, known: np.ndarray) -> Array:
    """Return the only positions in ``known`` (ascending) where the values can be found."""
    xp = module_of(values)
    low, high = known[0].item(), known[-1].item()
    whole = max(abs(low), abs(high)) <= EXACT_IN_FLOAT64 and bool((np.floor(known) == known).all())
    if not whole or high - low >= len(values):
        return xp.minimum(xp.searchsorted(xp.asarray(known), values), len(known) - 1)
    # A fraction finds the entry of a whole number: the caller compares.
    table = np.zeros(int(high) - int(low) + 1, np.int64)
    table[known.astype(np.int64) - int(low)] = np.arange(len(known))
    inside = xp.where((values >= low) & (values <= high), values, known[0])
    return xp.asarray(table)[inside.astype(np.int64) - int(low)]


def is_missing(value: Any) -> bool:
    """Return whether an object stands for a missing value: None, pandas' NA and NaT, or a NaN of
    any type."""
    if type(value) is str:
        return False
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, _WITH_NAN) and bool(value != value)
    )  # fmt: skip
