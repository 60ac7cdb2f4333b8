"""Fitted estimators as a flat list of JSON values and arrays, and back.

Every object is one entry of the list, after the objects that it holds; an object that is held
twice is one entry. So there are no cycles, nothing nests, and reading takes one pass:

    0  ["array", "a0"]
    1  ["record", "Forest", {"n_features": 4, "offset": {"@": 0}, …}]
    2  ["estimator", "RandomForestClassifier", {"max_depth": 3, …}, {"forest_": {"@": 1}, …}]

A value within an entry is a JSON scalar, ``{"@": number of an entry}``, or a number that JSON
lacks, ``{"float": "nan"}``. The model is the last entry.

The decoder trusts nothing in a file: it only makes the classes of ``records`` and this package's
public estimators, checks their values first, and lets an entry name earlier ones only.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from ..devices.placement import to_numpy
from .attributes import check_learned
from .file import ModelFileError
from .records import (
    CHECKS,
    FORMAT_OF_RECORD,
    LOSSES,
    RECORDS,
    fields_of_record,
    loss_of_file,
    own_estimator,
    require,
)

UNSAVED = ("callbacks",)
"""Parameters that are saved as None: they act on training, and are code."""


class Encoder:
    """Collects the entries and arrays of one model, and the oldest format that has what they
    need."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.format = 1
        self._number_of: dict[int, int] = {}
        self._open: set[int] = set()
        self._alive: list[Any] = []  # a number of an object is its own only while it lives

    def encode(self, value: Any, where: str) -> Any:
        """Return the JSON value that represents a value, and add its entries. Raises a TypeError,
        which says where, if a file cannot hold it."""
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
        if kind in CHECKS:
            name = kind.__name__
            self.format = max(self.format, FORMAT_OF_RECORD.get(name, 1))
            fields = {f: getattr(value, f) for f in fields_of_record(kind)}
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
        for name in getattr(model, "_saved_if_possible", ()):
            params[name] = params[name] if _is_saveable(params[name]) else None
        return [
            "estimator",
            type(model).__name__,
            self._fields(params, where),
            self._fields(state, where),
        ]


def _is_saveable(value: Any) -> bool:
    try:
        Encoder().encode(value, "")
    except TypeError:
        return False
    return True


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


_SCALARS = "biufUS"
_FLOATS = {"nan", "inf", "-inf"}


class Decoder:
    """Builds the objects of a list of entries. ``arrays`` are those of the file, by the keys that
    entries have for them; ``trusted`` the full names of the classes that skops may make."""

    def __init__(self, arrays: dict[str, np.ndarray], trusted: Sequence[str]) -> None:
        self.arrays = arrays
        self.trusted = list(trusted)
        self.objects: list[Any] = []
        self._makers: dict[str, Callable[..., Any]] = {
            "array": self._array,
            "bunch": lambda pairs: Bunch(**self._pairs(pairs)),
            "dict": lambda pairs: self._pairs(pairs),
            "estimator": self._estimator,
            "foreign": self._foreign,
            "list": lambda values: self._all(values),
            "loss": lambda name, fields: loss_of_file(name, self._fields(fields)),
            "objects": lambda shape, values: self._objects(shape, values, object),
            "record": self._record,
            "scalar": self._scalar,
            "text": lambda shape, values: self._objects(shape, values, str),
            "tuple": lambda values: tuple(self._all(values)),
        }

    def decode(self, entries: Any) -> Any:
        """Return the object of the last entry. Raises a ModelFileError, which names the entry, if
        one is invalid."""
        require(isinstance(entries, list) and entries, "entries is not a list, or an empty one")
        for number, entry in enumerate(entries):
            known = isinstance(entry, list) and entry and isinstance(entry[0], str)
            require(known and entry[0] in self._makers, f"entry {number} is {entry!r:.60}")
            try:
                self.objects.append(self._makers[entry[0]](*entry[1:]))
            except UntrustedError:
                raise
            except ModelFileError as error:
                raise ModelFileError(f"entry {number}, {entry[0]!r}: {error}") from None
            except (TypeError, ValueError, OverflowError, AttributeError) as error:
                raise ModelFileError(f"entry {number}, {entry[0]!r}: {error}") from error
        return self.objects[-1]

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        require(isinstance(value, dict) and len(value) == 1, f"{value!r:.60} is not a value")
        ((kind, content),) = value.items()
        if kind == "float":
            require(content in _FLOATS, f"{content!r:.60} is not a float")
            return float(content)
        require(kind == "@" and type(content) is int, f"{value!r:.60} is not a value")
        require(0 <= content < len(self.objects), f"entry {content} does not come before this one")
        return self.objects[content]

    def _all(self, values: Any) -> list[Any]:
        require(isinstance(values, list), "its values are not a list")
        return [self._value(value) for value in values]

    def _pairs(self, pairs: Any) -> dict[Any, Any]:
        require(isinstance(pairs, list), "its items are not a list")
        require(all(isinstance(p, list) and len(p) == 2 for p in pairs), "an item is not a pair")
        return {self._value(key): self._value(value) for key, value in pairs}

    def _fields(self, fields: Any) -> dict[str, Any]:
        require(isinstance(fields, dict), "its fields are not a JSON object")
        return {name: self._value(value) for name, value in fields.items()}

    def _array(self, name: Any) -> np.ndarray:
        require(
            isinstance(name, str) and name in self.arrays, f"there is not an array {name!r:.60}"
        )
        return self.arrays[name]

    def _objects(self, shape: Any, values: Any, kind: type) -> np.ndarray:
        found = self._all(values)
        sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        require(sizes and len(shape) <= 32, f"{shape!r:.60} is not a shape")
        require(np.prod(shape, dtype=object) == len(found), "its shape does not fit its values")
        if kind is str:
            require(all(type(v) is str for v in found), "a value is not text")
            return np.array(found, dtype=str).reshape(shape)
        array = np.empty(len(found), object)
        array[:] = found
        return array.reshape(shape)

    def _scalar(self, dtype: Any, value: Any) -> Any:
        require(isinstance(dtype, str) and len(dtype) < 8, f"{dtype!r:.60} is not a dtype")
        found = np.dtype(dtype)
        require(
            found.kind in _SCALARS and found.itemsize <= 2**16, f"{dtype} is not a scalar's dtype"
        )
        return found.type(self._value(value))

    def _record(self, name: Any, fields: Any) -> Any:
        require(isinstance(name, str) and name in RECORDS, f"there is no record {name!r:.60}")
        kind, values = RECORDS[name], self._fields(fields)
        require(set(values) == set(fields_of_record(kind)), f"the fields of {name} do not match")
        try:
            CHECKS[kind](values)
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from None
        return kind(**values)

    def _estimator(self, name: Any, params: Any, state: Any) -> Any:
        kind = own_estimator(name) if isinstance(name, str) else None
        if kind is None:
            raise ModelFileError(f"gpuens has no estimator {name!r:.60}")
        values, attributes = self._fields(params), self._fields(state)
        unknown = sorted(set(values) - set(kind._get_param_names()))
        require(not unknown, f"{name} has no parameters {unknown}")
        model = kind(**values)
        for attribute, value in attributes.items():
            require(_may_be_set(kind, attribute), f"{name} has no attribute {attribute!r:.60}")
            setattr(model, attribute, value)
        try:
            check_learned(model)
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from None
        return model

    def _foreign(self, name: Any, content: Any) -> Any:
        data = self._value(content)
        require(isinstance(data, np.ndarray) and data.dtype == np.uint8, "its content is not bytes")
        try:
            from skops.io import get_untrusted_types, load
        except ImportError as error:
            raise ImportError(
                f"The model holds a {name}, which takes skops to load: pip install skops."
            ) from error
        try:
            unknown = sorted(set(get_untrusted_types(data=data.tobytes())) - set(self.trusted))
        except Exception as error:  # whatever its parser meets in damaged bytes
            raise ModelFileError(f"{name!s:.60} cannot be read by skops: {error}") from error
        if unknown:
            raise UntrustedError(
                f"The model holds objects of {', '.join(unknown)}, and loading them runs their "
                f"code. If you trust the file, pass trusted={unknown!r}."
            )
        try:
            return load(io.BytesIO(data.tobytes()), trusted=self.trusted)
        except Exception as error:
            raise ModelFileError(f"{name!s:.60} cannot be read by skops: {error}") from error


class UntrustedError(ValueError):
    """The file contains untrusted classes."""


def _may_be_set(kind: type, name: str) -> bool:
    """Return whether an attribute is data: neither part of the class nor special."""
    if not name.isidentifier() or name.startswith("__"):
        return False
    if not (name.startswith("_") or name.endswith("_")):
        return False
    of_class = getattr(kind, name, None)
    return not (callable(of_class) or isinstance(of_class, property))
