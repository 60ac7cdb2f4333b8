"""Tables with categorical features, whose values are numbered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..devices.placement import Device, gpu_of, on_host
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from .arrays import (
    GPU_FRAME,
    SPARSE,
    check_frame,
    dense_table,
    form_of,
    is_frame,
    is_plain,
    means_none,
    on_device,
    read_on_host,
    read_table,
    require_readable,
    require_shape,
)
from .frames import (
    Column,
    DictionaryColumn,
    NumberColumn,
    category_column,
    column_names,
    columns_of_categories,
    frame_to_numpy,
    kind_of,
    require_exact,
)
from .shared_tables import categories_of_all, require_agreement
from .sparse import read_sparse

MAX_CATEGORIES = 2**16
"""Most distinct values of a categorical feature."""


@dataclass(frozen=True, eq=False)
class Categories:
    """The categories of the features: category c of feature f is the value ``values[f][c]``.

    Parameters
    ----------
    values : tuple of ndarray or None
        The distinct training values of each categorical feature in ascending order: numbers,
        or strings as objects; empty if all are missing. None for a numeric feature.
    """

    values: tuple[np.ndarray | None, ...]

    @property
    def n_categories(self) -> np.ndarray:
        """int32, shape (n_features,); 0 for numeric features."""
        return np.array([0 if v is None else len(v) for v in self.values], np.int32)


def read_features(
    X: Any,
    device: Device,
    *,
    estimator: Any,
    reset: bool = True,
    categorical_features: Any = None,
    name: str = "X",
    workers: Workers = ONE_WORKER,
) -> Array:
    """Read features as ``read_table`` does, and number the values of categorical ones.

    A categorical feature holds numbers, or strings in a data frame or an array (or list) of
    objects. The table has its categories 0, 1, ... in ascending order of the training values,
    and NaN for missing values. Values that training did not have count as missing, too.

    Parameters
    ----------
    X : array or data frame, shape (n_rows, n_features)
    device : Device
        Where to put the values.
    estimator : object
        Gets ``n_features_in_``, ``feature_names_in_``, ``is_categorical_`` (bool, shape
        (n_features,), or None without any) and ``_categories`` (``Categories`` or None), or is
        compared with them.
    reset : bool
        True in ``fit``, False afterwards.
    categorical_features : None, "from_dtype" or array of bool, int or str
        Nothing, the columns of a data frame that have a categorical or enumeration type, a mask,
        positions, or names of columns. Only for ``reset``.
    name : str
        Name of X in error messages.

    Raises
    ------
    ValueError, TypeError
        As ``read_table`` does. ``categorical_features`` does not fit X; a categorical
        feature has more than ``MAX_CATEGORIES`` values, some that are neither numbers nor
        strings, or numbers where training had strings (or the reverse).
    """
    if not reset and is_plain(X, device, estimator) and not _has_categories(estimator):
        return X
    form = form_of(X)
    has_none = means_none(categorical_features, form)
    if form == SPARSE:
        if _stays_sparse(estimator, reset, has_none):
            return _read_sparse(X, estimator, reset, categorical_features, name)
        if getattr(estimator, "_takes_sparse", False):
            X = dense_table(X, name)
    known = None if reset else getattr(estimator, "_categories", None)
    if form == GPU_FRAME:
        if known is None and (not reset or _has_none(categorical_features, X)):
            has_none = True
        else:
            X = on_host(X)  # where dictionaries are read
    if reset and has_none:
        estimator._categories = estimator.is_categorical_ = None
    elif reset:
        return _read_training(X, device, estimator, categorical_features, name, workers)
    if known is None:
        return read_table(X, device, estimator=estimator, reset=reset, name=name)
    source = source_of(X, device, estimator, False, name)
    known_of = {f: v for f, v in enumerate(known.values) if v is not None}
    codes = {f: partial(_encode, source, f, v) for f, v in known_of.items()}
    return on_device(source.table(codes), device)


def _stays_sparse(estimator: Any, reset: bool, has_none: bool) -> bool:
    """Return whether an estimator reads a sparse matrix as it is. One that can read it with its
    zeros, too, does so where features have categories."""
    if not getattr(estimator, "_keeps_sparse", False):
        return False
    if not getattr(estimator, "_takes_sparse", False):
        return True
    return has_none if reset else getattr(estimator, "_categories", None) is None


def _read_sparse(
    X: Any, estimator: Any, reset: bool, categorical_features: Any, name: str
) -> Array:
    """Read a sparse matrix, whose columns hold numbers; the table is a ``SparseTable``."""
    if not reset and _has_categories(estimator):
        raise ValueError(
            f"{name} is sparse, but the estimator was fitted with categorical features: pass "
            f"{name}.toarray()."
        )
    if reset and not means_none(categorical_features, SPARSE):
        raise ValueError(
            f"categorical_features must be None or 'from_dtype' where {name} is sparse, got "
            f"{categorical_features!r}: pass {name}.toarray(), or one column for each category."
        )
    if reset:
        estimator._categories = estimator.is_categorical_ = None
    table: Any = read_sparse(X, estimator=estimator, reset=reset, name=name)
    return table


def _has_categories(estimator: Any) -> bool:
    return getattr(estimator, "_categories", None) is not None


def _has_none(categorical_features: Any, frame: Any) -> bool:
    """Return whether no column of a frame of cuDF has categories."""
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return all(str(dtype) != "category" for dtype in frame.dtypes)
    return categorical_features is None


def _read_training(
    X: Any, device: Device, estimator: Any, categorical_features: Any, name: str, workers: Workers
) -> Array:
    source = source_of(X, device, estimator, True, name)
    is_categorical = _resolve(categorical_features, source)
    if workers is not ONE_WORKER:
        require_agreement("categorical features", is_categorical.tolist(), workers)
    distinct: list[np.ndarray | None] = [None] * source.n_features
    chosen = np.flatnonzero(is_categorical).tolist()
    values = source.table({f: partial(_learn, source, f, distinct, workers) for f in chosen})
    estimator._categories = Categories(tuple(distinct)) if chosen else None
    estimator.is_categorical_ = is_categorical if chosen else None
    return on_device(values, device)


def _learn(
    source: TableSource, feature: int, distinct: list[np.ndarray | None], workers: Workers
) -> Array:
    """Number the values of a feature, after their distinct ones were written to the list."""
    column = source.column(feature)
    values = column.distinct()
    if workers is not ONE_WORKER:
        values = categories_of_all(values, source.label(feature), workers)
    if len(values) > MAX_CATEGORIES:
        raise ValueError(
            f"{source.label(feature)} has {len(values)} distinct values; as a categorical feature "
            f"it can have {MAX_CATEGORIES}. Leave it numeric, merge rare values (for example with "
            "sklearn.preprocessing.OrdinalEncoder(max_categories=...)), or encode it with "
            "sklearn.preprocessing.TargetEncoder."
        )
    values.flags.writeable = False
    distinct[feature] = values
    return column.encode(values)


def _encode(source: TableSource, feature: int, known: np.ndarray) -> Array:
    column = source.column(feature)
    kinds = column.kind(), kind_of(known)
    if None not in kinds and kinds[0] != kinds[1]:
        raise ValueError(
            f"{source.label(feature)} holds {kinds[0]}, but in fit it held {kinds[1]}. Pass values "
            "of the type that the estimator was fitted with."
        )
    return column.encode(known)


def _resolve(categorical_features: Any, source: TableSource) -> np.ndarray:
    """Return which features are categorical: bool, shape (n_features,)."""
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return columns_of_categories(source.X)  # other tables have no such types
    array = np.asarray(on_host(categorical_features))
    is_categorical = np.zeros(source.n_features, np.bool_)
    if array.ndim == 1 and array.size == 0:
        return is_categorical
    if array.ndim == 1 and array.dtype.kind == "b":
        if array.shape != is_categorical.shape:
            raise ValueError(
                "categorical_features set as a boolean mask must have shape (n_features,): "
                f"categorical_features is a mask of {array.size} values, but {source.name} has "
                f"{source.n_features} features. Pass one boolean for each."
            )
        return array.copy()
    if array.ndim == 1 and array.dtype.kind in "iu":
        positions = array.tolist()
    elif array.ndim == 1 and all(isinstance(value, str) for value in array.tolist()):
        positions = _positions_of(array.tolist(), source)
    else:
        raise ValueError(
            "categorical_features must be an array-like of bool, int or str, got: "
            f"{_kinds(array)}. categorical_features must be None, 'from_dtype', or a list of "
            "booleans (one for each feature), positions or names, got "
            f"{categorical_features!r}."
        )
    _require_positions(positions, array, source)
    is_categorical[positions] = True
    return is_categorical


def _kinds(array: np.ndarray) -> str:
    """Describe the content of an array in errors: the types of objects, or the data type."""
    if array.dtype.kind != "O":
        return array.dtype.name
    return ", ".join(sorted({type(value).__name__ for value in array.ravel().tolist()}))


def _positions_of(wanted: list[str], source: TableSource) -> list[int]:
    names = source.names
    if names is None:
        raise ValueError(
            "categorical_features should be passed as an array of integers or as a boolean mask "
            "when the model is fitted on data without feature names. "
            f"categorical_features names {wanted}, but {source.name} is not a data frame and has "
            "no column names. Pass positions, or a data frame."
        )
    unknown = [n for n in wanted if n not in names]
    if unknown:
        raise ValueError(
            f"categorical_features has an item value {unknown[0]!r} which is not a valid feature "
            f"name of the training data. categorical_features names columns that "
            f"{source.name} does not have: {unknown}. Its columns are "
            f"{', '.join(map(repr, names[:20]))}{', ...' if names[20:] else ''}."
        )
    return [names.index(n) for n in wanted]


def _require_positions(positions: list[int], wanted: np.ndarray, source: TableSource) -> None:
    outside = [p for p in positions if not 0 <= p < source.n_features]
    if outside:
        raise ValueError(
            "categorical_features set as integer indices must be in [0, n_features - 1]: "
            f"categorical_features must hold positions from 0 to {source.n_features - 1}, for "
            f"{source.name} has {source.n_features} features, got {outside}."
        )
    if len(set(positions)) < len(positions):
        raise ValueError(
            f"categorical_features names a feature more than once: {wanted.tolist()}. Pass each "
            "position or name once; a mask must be of booleans."
        )


_FEW = 1000
"""Rows that suffice to tell most columns from numbered categories."""

Codes = Mapping[int, Callable[[], Any]]
"""Functions that return the numbers of the categorical features, by position; each is called
once."""


class TableSource(ABC):
    """A table whose shape and features were checked, but not yet its values."""

    names: list[Any] | None = None

    def __init__(self, X: Any, n_features: int, name: str) -> None:
        self.X, self.n_features, self.name = X, n_features, name

    def label(self, feature: int) -> str:
        """Return the name of a feature in errors."""
        if self.names is None:
            return f"{self.name}'s feature {feature}"
        return f"{self.name}'s column {self.names[feature]!r}"

    @abstractmethod
    def column(self, feature: int) -> Column:
        """Return the values of a categorical feature."""

    @abstractmethod
    def table(self, codes: Codes) -> Array:
        """Return all values, as numbers."""


class _FrameSource(TableSource):
    def __init__(self, X: Any, name: str) -> None:
        self.names = column_names(X)
        super().__init__(X, len(self.names), name)

    def column(self, feature: int) -> Column:
        return category_column(self.X, feature, self.label(feature))

    def table(self, codes: Codes) -> np.ndarray:
        return frame_to_numpy(self.X, self.name, codes)


class _ObjectSource(TableSource):
    """An array of objects."""

    def __init__(self, X: np.ndarray, estimator: Any, name: str) -> None:
        super().__init__(X, X.shape[1], name)
        self.estimator = estimator

    def column(self, feature: int) -> Column:
        return DictionaryColumn.of_objects(self.X[:, feature].tolist(), self.label(feature))

    def table(self, codes: Codes) -> np.ndarray:
        rest = [f for f in range(self.n_features) if f not in codes]
        numbers = np.empty((len(self.X), 0), np.float32)
        if rest:
            numbers = read_on_host(self.X[:, rest], self.estimator, self.name)
        values = np.empty(self.X.shape, numbers.dtype, order="F")
        values[:, rest] = numbers
        for feature, code in codes.items():
            values[:, feature] = code()
        return values


class _NumberSource(TableSource):
    """Numbers of any array library, or lists; ``values`` are what ``read_table`` made of X."""

    def __init__(self, X: Any, values: Array, device: Device, name: str) -> None:
        super().__init__(X, values.shape[1], name)
        self.values, self.device = values, device
        dtype = str(getattr(X, "dtype", "")).rpartition(".")[2]  # "torch.int64" is one, too
        self.is_integer = dtype.startswith(("int", "uint", "bool")) and not np.ma.isMA(X)
        self.may_be_users = gpu_of(X) == gpu_of(values) and dtype in ("", str(values.dtype))

    def column(self, feature: int) -> Column:
        if self.is_integer:  # beyond 2**53 the table has rounded them
            return NumberColumn(self.device.asarray(self.X[:, feature], order="C"))
        return NumberColumn(self.device.asarray(self.values[:, feature], order="C"))

    def table(self, codes: Codes) -> Array:
        if self.is_integer:
            for feature in set(range(self.n_features)).difference(codes):
                column = self.device.asarray(self.X[:, feature])
                if column.dtype.kind in "iu":
                    require_exact(column, self.label(feature))
        values, may_write = self.values, not self.may_be_users
        for feature, code in codes.items():
            column, numbers = values[:, feature], code()
            if _same(numbers[:_FEW], column[:_FEW]) and _same(numbers, column):
                continue  # the user has numbered the categories already
            if not may_write:
                values, may_write = values.copy(order="K"), True
            values[:, feature] = numbers
        return values


def _same(a: Array, b: Array) -> bool:
    return bool(((a == b) | (a != a) & (b != b)).all())


def source_of(X: Any, device: Device, estimator: Any, reset: bool, name: str) -> TableSource:
    """Check the shape and the features of X; the parameters are those of ``read_features``."""
    if is_frame(X):
        check_frame(X, estimator, reset, name)
        return _FrameSource(X, name)
    require_readable(X, name)
    objects = None if device.holds(X) else _as_objects(X)
    if objects is None:
        table = read_table(X, device, estimator=estimator, reset=reset, name=name, may_round=True)
        return _NumberSource(X, table, device, name)
    require_shape(objects.shape, estimator)
    validate_data(estimator, objects, reset=reset, skip_check_array=True)
    return _ObjectSource(objects, estimator, name)


def _as_objects(X: Any) -> np.ndarray | None:
    """Return an array or a list of text or objects, as objects; None for numbers."""
    array = X if hasattr(X, "dtype") else np.asarray(X)
    if getattr(array.dtype, "kind", "") not in ("O", "U", "T"):
        return None
    objects = np.array(X, object)  # not the array, in which the numbers of a list became text
    objects[np.ma.getmask(X)] = None
    return objects
