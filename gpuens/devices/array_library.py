"""The namespace of ``LibraryArray``: the functions of a library, by the rules of NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, to_device

from .library_arrays import LibraryArray, name_of_type

HELD_AS = {
    **{name: name for name in ("bool", "uint8", "int8", "int16", "int32", "int64")},
    **{name: name for name in ("float32", "float64")},
    **{"uint16": "int32", "uint32": "int64", "uint64": "int64"},
    **{"float16": "float32", "bfloat16": "float32"},
}
"""Types by name: wide unsigned integers, with which libraries do not compute, are held in signed
ones. What the core counts stays below 2**63, and 64 bits wrap alike."""

VERSION = "2024.12"
"""The version of the standard that is needed: older ones lack functions."""
NEEDED = (
    *("argsort", "count_nonzero", "cumulative_sum", "repeat", "searchsorted", "take"),
    *("take_along_axis", "unique_inverse", "unique_values", "where"),
)
"""Functions that libraries have left out which say that they follow the standard."""

SPLITTER = 2.0**27 + 1.0
"""Splits a number into two of half its digits (Veltkamp 1968)."""

_MADE_REAL = {"empty", "eye", "linspace", "ones", "zeros"}
"""Functions that make float64 where no type is named; others are given their numbers' type."""
_MADE = {*_MADE_REAL, "arange", "full"}

_PROMOTING = {
    *("add", "subtract", "multiply", "matmul", "maximum", "minimum", "clip", "searchsorted"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_xor", "where", "concat", "stack"),
}
"""Functions whose arrays become of one type before they are called."""


def held_as(dtype: Any) -> np.dtype:
    """Return the type in which numbers of a type are held."""
    return np.dtype(HELD_AS[np.dtype(dtype).name])


def _require_held(values: Any) -> None:
    """Raise a ValueError for numbers of uint64 that int64 does not hold: NumPy's as they are,
    others as they are held."""
    if isinstance(values, LibraryArray):
        is_wide = bool(values.space.any(values.space.less(values, 0)))
    else:
        is_wide = values.dtype == np.uint64 and bool((values >= 2**63).any())
    if is_wide:
        raise ValueError(
            "device='array' holds integers with 63 bits, and an array of uint64 has larger ones: "
            "pass float64, or use device='auto'."
        )


class ArrayLibrary:
    """A library and a place where it keeps arrays: the namespace of ``LibraryArray``.

    Types are NumPy's. Every other name is the library's own function, which takes and returns
    ``LibraryArray``.
    """

    def __init__(self, own: ModuleType, place: Any) -> None:
        self.own = own
        self.place = place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayLibrary) and (self.own, self.place) == (
            other.own,
            other.place,
        )

    def __hash__(self) -> int:
        return hash((self.own, str(self.place)))

    def __reduce__(self) -> Any:
        raise TypeError(f"{self} is not saved: models keep their trees in NumPy's arrays.")

    @property
    def name(self) -> str:
        """The name of the library as it is imported."""
        return str(self.own.__name__).removeprefix("array_api_compat.").removesuffix(".numpy")

    def __repr__(self) -> str:
        return f"<arrays of {self.name} on {self.place}>"

    def __getattr__(self, name: str) -> Any:
        if name in HELD_AS:
            made: Any = held_as(name)
        else:
            own = getattr(self.own, name)
            made = self._function(name, own) if callable(own) else own
        self.__dict__[name] = made
        return made

    def _function(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **options: Any) -> Any:
            if name in _PROMOTING:
                args = self.promoted(args)
            elif name in _MADE:
                default = np.float64 if name in _MADE_REAL else np.asarray(args[-1]).dtype
                options = {"device": self.place, "dtype": default, **options}
            taken = [self.taken(value) for value in args]
            return self.given(own(*taken, **{k: self.taken(v) for k, v in options.items()}))

        return function

    def promoted(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arguments with all arrays, those in a list too, of the type that NumPy gives them;
        the condition of ``where`` stays, and of numbers alone the first becomes an array."""
        if len(args) == 3 and getattr(args[0], "dtype", None) == np.bool_:
            return (args[0], *self.promoted(args[1:]))
        if args and isinstance(args[0], (list, tuple)):
            return (list(self.promoted(tuple(args[0]))), *args[1:])
        if not any(isinstance(a, LibraryArray) for a in args):
            return (self.asarray(args[0]), *args[1:])
        typed = [a for a in args if isinstance(a, (LibraryArray, np.generic))]
        types = {held_as(a.dtype) for a in typed}
        if types == {np.dtype(bool)} and any(type(a) is int for a in args):
            types.add(np.dtype(np.int64))
        is_real = any(isinstance(a, (float, np.floating)) for a in args)
        is_real = is_real and all(dtype.kind in "biu" for dtype in types)
        if len(types) == 1 and not is_real:
            return args
        dtype = np.result_type(*types, *[np.float64] * is_real)
        return tuple(a.astype(dtype) if isinstance(a, LibraryArray) else a for a in args)

    def taken(self, value: Any) -> Any:
        """Return an argument as the library takes it."""
        if isinstance(value, LibraryArray):
            return value.own
        if isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        ):
            return getattr(self.own, held_as(value).name)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (list, tuple)):
            return type(value)(self.taken(v) for v in value)
        return value

    def given(self, value: Any) -> Any:
        """Return a result of the library as the core works on it."""
        if isinstance(value, (list, tuple)):
            parts = [self.given(v) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else parts
        return LibraryArray(self, value) if is_array_api_obj(value) else value

    def asarray(self, values: Any, dtype: Any = None, copy: bool | None = None, **_: Any) -> Any:
        """Return anything as an array of the library, in its place."""
        if isinstance(values, LibraryArray):
            made = values if dtype is None else values.astype(dtype)
            return LibraryArray(self, self.own.asarray(made.own, copy=True)) if copy else made
        if not is_array_api_obj(values) or isinstance(values, (np.ndarray, np.generic)):
            host = np.asarray(values, dtype=dtype)
            host = np.ascontiguousarray(host).reshape(host.shape)
            _require_held(host)
            values = host.astype(held_as(host.dtype)) if host.dtype.name in HELD_AS else host
            values = self.own.asarray(values.copy(), device=self.place)
            return LibraryArray(self, values)
        values = values.detach() if hasattr(values, "detach") else values
        own = LibraryArray(self, to_device(values, self.place))
        name = name_of_type(values.dtype)
        kept = own if HELD_AS.get(name, name) == name else own.astype(HELD_AS[name])
        if name == "uint64" and kept.size:
            _require_held(kept)
        return kept if dtype is None else kept.astype(dtype)

    def astype(self, array: Any, dtype: Any, copy: bool = True) -> Any:
        """As ``astype`` of the standard."""
        return array.astype(dtype, copy=copy)

    def result_type(self, *values: Any) -> np.dtype:
        """NumPy's rules."""
        return np.result_type(*[getattr(value, "dtype", value) for value in values])

    def sqrt(self, x: Any) -> Any:
        """Return the roots as they round: torch's of the CPU are off by a bit here and there.

        One step of Newton's method from the library's root r, with the exact rest x - r², whose
        r² is the sum of two numbers (Dekker 1971).
        """
        wide = x.astype(np.float64)
        root: Any = LibraryArray(self, self.own.sqrt(wide.own))
        high = root * SPLITTER - (root * SPLITTER - root)
        low = root - high
        square = root * root
        rest = (wide - square) - (((high * high - square) + high * low * 2.0) + low * low)
        nearer = root + rest / (root * 2.0)
        nearer = self.where(self.isfinite(nearer), nearer, root)
        return nearer.astype(x.dtype if x.dtype.kind == "f" else np.float64)

    def problem(self) -> str | None:
        """Return what the library or its place lacks, None if nothing."""
        version = getattr(self.own, "__array_api_version__", VERSION)
        if version < VERSION:
            return f"{self.name} follows the standard of {version}, and {VERSION} is needed"
        missing = [name for name in NEEDED if not hasattr(self.own, name)]
        if missing:
            return f"{self.name} has no function {' and no '.join(missing)}"
        for name in ("float64", "int64"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # JAX says that it makes float32 instead
                    made = self.own.ones(1, dtype=getattr(self.own, name), device=self.place)
            except Exception as error:  # each library has its own
                return f"{self.name} has no {name} on {self.place} ({error})"
            if name_of_type(made.dtype) != name:
                return f"{self.name} has no {name} on {self.place}"
        return None


def library_of(array: Any) -> ArrayLibrary:
    """Return the library of an array and where it is."""
    return ArrayLibrary(array_namespace(array), device(array))


_REMEDY = {"jax": "Call jax.config.update('jax_enable_x64', True) before it is made. "}


def is_foreign(array: Any) -> bool:
    """Return whether an array is of another library than NumPy."""
    known = isinstance(array, (np.ndarray, np.generic, LibraryArray))
    return not known and is_array_api_obj(array)


def library_of_all(arrays: dict[str, Any]) -> tuple[ArrayLibrary | None, str]:
    """Return the library of arrays, by argument name, and what decides that; None if all are
    NumPy's or of no library. Raises a ValueError if the arrays are of several libraries or in
    several places, or the library or the place lacks what is needed."""
    found = {name: library_of(array) for name, array in arrays.items() if is_foreign(array)}
    if not found:
        return None, "device='array'"
    if len(set(found.values())) > 1:
        places = ", ".join(f"{name} of {at.name} on {at.place}" for name, at in found.items())
        raise ValueError(
            "With device='array' all arrays must be of one library and in one place, got "
            f"{places}. Convert them, or pass NumPy arrays beside one library."
        )
    name, library = next(iter(found.items()))
    if (problem := library.problem()) is not None:
        raise ValueError(
            f"device='array' cannot work where {name} is: {problem}. "
            f"{_REMEDY.get(library.name, '')}Or pass device='auto', which converts it."
        )
    return library, f"{name} is there and device='array'"
