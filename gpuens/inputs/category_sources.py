"""Tables with categorical features: data frames, arrays of objects, and numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..devices.placement import Device, gpu_of
from .arrays import check_frame, read_on_host, read_table, require_readable, require_shape
from .category_encoding import Column, DictionaryColumn, NumberColumn
from .frames import category_column, column_names, frame_to_numpy, is_frame

_FEW = 1000
"""Rows that tell most columns of other values from those of numbered categories."""

Codes = Mapping[int, Callable[[], Any]]
"""What gives the numbers of the categorical features, by position; called once for each."""


class Source(ABC):
    """A table whose shape and features were checked, but not yet its values."""

    names: list[Any] | None = None

    def __init__(self, X: Any, n_features: int, name: str) -> None:
        self.X, self.n_features, self.name = X, n_features, name

    def label(self, feature: int) -> str:
        """What errors call a feature."""
        if self.names is None:
            return f"{self.name}'s feature {feature}"
        return f"{self.name}'s column {self.names[feature]!r}"

    @abstractmethod
    def column(self, feature: int) -> Column:
        """The values of a categorical feature."""

    @abstractmethod
    def table(self, codes: Codes) -> Any:
        """All values, as numbers."""


class _FrameSource(Source):
    def __init__(self, X: Any, name: str) -> None:
        self.names = column_names(X)
        super().__init__(X, len(self.names), name)

    def column(self, feature: int) -> Column:
        return category_column(self.X, feature, self.label(feature))

    def table(self, codes: Codes) -> np.ndarray:
        return frame_to_numpy(self.X, self.name, codes)


class _ObjectSource(Source):
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


class _NumberSource(Source):
    """Numbers of any array library, or lists; ``values`` are what ``read_table`` made of X."""

    def __init__(self, X: Any, values: Any, device: Device, name: str) -> None:
        super().__init__(X, values.shape[1], name)
        self.values, self.device = values, device
        dtype = str(getattr(X, "dtype", "")).rpartition(".")[2]  # "torch.int64" is one, too
        self.is_integer = dtype.startswith(("int", "uint", "bool")) and not np.ma.isMA(X)
        self.may_be_users = gpu_of(X) == gpu_of(values) and dtype in ("", str(values.dtype))

    def column(self, feature: int) -> Column:
        if self.is_integer:  # beyond 2**53 the table has rounded them
            return NumberColumn(self.device.asarray(self.X[:, feature], order="C"))
        return NumberColumn(self.device.asarray(self.values[:, feature], order="C"))

    def table(self, codes: Codes) -> Any:
        values, may_write = self.values, not self.may_be_users
        for feature, code in codes.items():
            column, numbers = values[:, feature], code()
            if _same(numbers[:_FEW], column[:_FEW]) and _same(numbers, column):
                continue  # the user has numbered the categories already
            if not may_write:
                values, may_write = values.copy(order="K"), True
            values[:, feature] = numbers
        return values


def _same(a: Any, b: Any) -> bool:
    return bool(((a == b) | (a != a) & (b != b)).all())


def source_of(X: Any, device: Device, estimator: Any, reset: bool, name: str) -> Source:
    """Check the shape and the features of X; the parameters are those of ``read_features``."""
    if is_frame(X):
        check_frame(X, estimator, reset, name)
        return _FrameSource(X, name)
    require_readable(X, name)
    objects = None if device.holds(X) else _as_objects(X)
    if objects is None:
        table = read_table(X, device, estimator=estimator, reset=reset, name=name)
        return _NumberSource(X, table.values, device, name)
    require_shape(objects.shape, estimator, objects)
    validate_data(estimator, objects, reset=reset, skip_check_array=True)
    return _ObjectSource(objects, estimator, name)


def _as_objects(X: Any) -> np.ndarray | None:
    """An array or a list of text or objects, as objects; None for numbers."""
    array = X if hasattr(X, "dtype") else np.asarray(X)
    if getattr(array.dtype, "kind", "") not in ("O", "U", "T"):
        return None
    objects = np.array(X, object)  # not the array, in which the numbers of a list became text
    objects[np.ma.getmask(X)] = None
    return objects
