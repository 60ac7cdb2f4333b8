"""From fitted estimators to a flat list of JSON values and arrays.

Every object is one entry of the list, after the objects that it holds; an object that is held
twice is one entry. So there are no cycles, nothing nests, and reading takes one pass:

    0  ["array", "a0"]
    1  ["record", "Forest", {"n_features": 4, "offset": {"@": 0}, …}]
    2  ["estimator", "RandomForestClassifier", {"max_depth": 3, …}, {"forest_": {"@": 1}, …}]

A value within an entry is a JSON scalar, ``{"@": number of an entry}``, or a number that JSON
lacks, ``{"float": "nan"}``. The model is the last entry.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from ..devices.placement import to_numpy
from .records import LOSSES, NAME_OF_RECORD, RECORDS, own_estimator

UNSAVED = ("callbacks",)
"""Parameters that are saved as None: they act on training, and are code."""


class Encoder:
    """Collects the entries and arrays of one model.

    Attributes
    ----------
    entries : list
    arrays : dict of ndarray
    """

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._number_of: dict[int, int] = {}
        self._open: set[int] = set()
        self._alive: list[Any] = []  # a number of an object is its own only while it lives

    def encode(self, value: Any, where: str) -> Any:
        """The JSON value that stands for a value, whose entries are added.

        Raises
        ------
        TypeError
            A value that a file cannot hold; says where it is.
        """
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        known = self._number_of.get(id(value))
        if known is None:
            if id(value) in self._open:
                raise TypeError(f"{where} holds itself, which a file cannot.")
            self._open.add(id(value))
            entry = self._entry(value, where)
            self._open.discard(id(value))
            known = len(self.entries)
            self.entries.append(entry)
            self._number_of[id(value)] = known
            self._alive.append(value)
        return {"@": known}

    def _entry(self, value: Any, where: str) -> list[Any]:
        kind = type(value)
        if isinstance(value, np.generic):
            return ["scalar", value.dtype.str, self.encode(value.item(), where)]
        if kind in (list, tuple):
            return [kind.__name__, self._all(value, where)]
        if kind in (dict, Bunch):
            pairs = [
                [self._key(key, where), self.encode(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
            return ["bunch" if kind is Bunch else "dict", pairs]
        if kind in NAME_OF_RECORD:
            name = NAME_OF_RECORD[kind]
            fields = {f: getattr(value, f) for f in RECORDS[name].fields}
            return ["record", name, self._fields(fields, where)]
        if LOSSES.get(kind.__name__) is kind:
            return ["loss", kind.__name__, self._fields(vars(value), where)]
        if isinstance(value, BaseEstimator):
            return self._estimator(value, where)
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return self._array(to_numpy(value), where)
        raise TypeError(
            f"{where} is of type {kind.__module__}.{kind.__qualname__}, which a model file "
            "cannot hold. Replace it before saving, or use pickle and trust the file."
        )

    def _all(self, values: Iterable[Any], where: str) -> list[Any]:
        return [self.encode(value, f"{where}[{i}]") for i, value in enumerate(values)]

    def _fields(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.encode(value, f"{where}.{name}") for name, value in values.items()}

    def _key(self, key: Any, where: str) -> Any:
        if isinstance(key, np.generic):
            key = key.item()
        if key is None or isinstance(key, (bool, int, float, str)):
            return self.encode(key, where)
        raise TypeError(f"{where} has the key {key!r}; a file holds numbers and strings as keys.")

    def _array(self, array: np.ndarray, where: str) -> list[Any]:
        if array.dtype.kind in "OU":
            return [
                "objects" if array.dtype.kind == "O" else "text",
                list(array.shape),
                self._all(array.ravel().tolist(), where),
            ]
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise TypeError(f"{where} has dtype {array.dtype}, which a model file cannot hold.")
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return ["array", name]

    def _estimator(self, model: BaseEstimator, where: str) -> list[Any]:
        if own_estimator(type(model).__name__) is not type(model):
            return ["foreign", _full_name(type(model)), self.encode(_by_skops(model, where), where)]
        params = model.get_params(deep=False)
        state = {
            name: value
            for name, value in model.__getstate__().items()
            if name not in params and name != "_sklearn_version"
        }
        params = {name: None if name in UNSAVED else value for name, value in params.items()}
        return [
            "estimator",
            type(model).__name__,
            self._fields(params, where),
            self._fields(state, where),
        ]


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _by_skops(model: BaseEstimator, where: str) -> np.ndarray:
    name = _full_name(type(model))
    try:
        from skops.io import dump
    except ImportError as error:
        raise TypeError(
            f"{where} is a {name}, which is not of gpuens: saving it takes skops "
            "(pip install skops), or pickle."
        ) from error
    file = io.BytesIO()
    dump(model, file)
    return np.frombuffer(file.getvalue(), np.uint8)
