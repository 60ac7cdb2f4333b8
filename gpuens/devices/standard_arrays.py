"""Arrays of any library of the Array API standard, as the core works on them.

The standard leaves open what the core relies on: which type mixed operands give, whether an array
can be written to and whether a part of one is a view, how unsigned integers compute, how integer
arrays select. Here all libraries do what NumPy does: each function ends in functions of the library
on its own arrays, where they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, to_device

HELD_AS = {
    **{name: name for name in ("bool", "uint8", "int8", "int16", "int32", "int64")},
    **{name: name for name in ("float32", "float64")},
    **{"uint16": "int32", "uint32": "int64", "uint64": "int64"},
    **{"float16": "float32", "bfloat16": "float32"},
}
"""Types by name: wide unsigned integers, with which libraries do not compute, are held in signed
ones. What the core counts stays below 2**63, and 64 bits wrap alike."""

NEEDED = ("argsort", "cumulative_sum", "searchsorted", "take", "unique_values", "where")
"""Functions that libraries have left out which say that they follow the standard."""

SPLITTER = 2.0**27 + 1.0
"""Splits a number into two of half its digits (Veltkamp 1968)."""

_MADE_REAL = ("empty", "eye", "linspace", "ones", "zeros")
"""Functions that make float64 where no type is named; others are given their numbers' type."""
_MADE = (*_MADE_REAL, "arange", "full")

_PROMOTING = ("maximum", "minimum", "where", "concat", "stack", "searchsorted", "clip", "matmul")
_PROMOTING += ("equal", "less", "greater", "less_equal", "greater_equal", "not_equal")
_PROMOTING += ("add", "subtract", "multiply", "logical_and", "logical_or", "logical_xor")


def held_as(dtype: Any) -> np.dtype:
    """Return the type in which numbers of a type are held."""
    return np.dtype(HELD_AS[np.dtype(dtype).name])


class Library:
    """A library and a place where it keeps arrays: the namespace of ``LibraryArray``.

    Types are NumPy's. Every other name is the library's own function, which takes and returns
    ``LibraryArray``.
    """

    def __init__(self, own: ModuleType, place: Any) -> None:
        self.own = own
        self.place = place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Library) and (self.own, self.place) == (other.own, other.place)

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
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
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
            return parts if type(value) in (list, tuple) else type("", (tuple,), {})(parts)
        return LibraryArray(self, value) if is_array_api_obj(value) else value

    def asarray(self, values: Any, dtype: Any = None, copy: bool | None = None, **_: Any) -> Any:
        """Return anything as an array of the library, in its place."""
        if isinstance(values, LibraryArray):
            made = values if dtype is None else values.astype(dtype)
            return LibraryArray(self, self.own.asarray(made.own, copy=True)) if copy else made
        if not is_array_api_obj(values) or isinstance(values, (np.ndarray, np.generic)):
            host = np.asarray(values, dtype=dtype)
            host = np.ascontiguousarray(host).reshape(host.shape)
            values = host.astype(held_as(host.dtype)) if host.dtype.name in HELD_AS else host
            values = self.own.asarray(values.copy(), device=self.place)
            return LibraryArray(self, values)
        own = LibraryArray(self, to_device(values, self.place))
        name = _name_of(values.dtype)
        kept = own if HELD_AS.get(name, name) == name else own.astype(HELD_AS[name])
        return kept if dtype is None else kept.astype(dtype)

    def astype(self, array: Any, dtype: Any, copy: bool = True) -> Any:
        """As ``astype`` of the standard."""
        return array.astype(dtype, copy=copy)

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        """As ``isdtype`` of the standard."""
        return bool(self.own.isdtype(self.taken(dtype), self.taken(kind)))

    def result_type(self, *values: Any) -> np.dtype:
        """NumPy's rules."""
        return np.result_type(*[getattr(value, "dtype", value) for value in values])

    def sqrt(self, x: Any) -> Any:
        """Return the roots as they round: torch's of the CPU are off by a bit here and there.

        One step of Newton's method from the library's root r, with the exact rest x - r², whose
        r² is the sum of two numbers (Dekker 1971).
        """
        wide = x.astype(np.float64)
        root = LibraryArray(self, self.own.sqrt(wide.own))
        high = root * SPLITTER - (root * SPLITTER - root)
        low = root - high
        square = root * root
        rest = (wide - square) - (((high * high - square) + high * low * 2.0) + low * low)
        nearer = root + rest / (root * 2.0)
        return self.where(self.isfinite(nearer), nearer, root).astype(x.dtype)

    def broadcast_arrays(self, *arrays: Any) -> list[Any]:
        """As ``broadcast_arrays`` of the standard."""
        return [self.given(a) for a in self.own.broadcast_arrays(*map(self.taken, arrays))]

    def problem(self) -> str | None:
        """Return what the library or its place lacks, None if nothing."""
        missing = [name for name in NEEDED if not hasattr(self.own, name)]
        if missing:
            return f"{self.name} has no function {' and no '.join(missing)}"
        for name in ("float64", "int64"):
            try:
                made = self.own.ones(1, dtype=getattr(self.own, name), device=self.place)
            except Exception as error:  # each library has its own
                return f"{self.name} has no {name} on {self.place} ({error})"
            if _name_of(made.dtype) != name:
                return f"{self.name} has no {name} on {self.place}"
        return None


def library_of(array: Any) -> Library:
    """Return the library of an array and where it is."""
    return Library(array_namespace(array), device(array))


def _name_of(dtype: Any) -> str:
    """Return the name of a type of any library: "float64"."""
    text = str(getattr(dtype, "name", dtype))
    return text.rpartition(".")[2]


class LibraryArray:
    """An array of a library, with the methods that the core uses.

    A part of one that slices and numbers select is a view: it reads from the whole and writes to
    it, also where the library's own arrays cannot be written to.
    """

    __slots__ = ("__weakref__", "_held", "_key", "_whole", "space")
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class

    def __init__(self, space: Library, held: Any, whole: Any = None, key: Any = None) -> None:
        self.space = space
        self._held = held
        self._whole = whole
        self._key = key

    @property
    def own(self) -> Any:
        """The library's array."""
        if self._whole is None:
            return self._held
        return self._whole.own[self._key]

    def __array_namespace__(self, api_version: str | None = None) -> Library:
        return self.space

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("an array of a device is not converted in silence: use to_numpy")

    def to_numpy(self) -> np.ndarray:
        """Return the values in host memory."""
        own = self.own
        try:
            return np.array(np.from_dlpack(own))
        except (AttributeError, BufferError, RuntimeError, TypeError):
            own = own.cpu() if hasattr(own, "cpu") else own
            return np.array(own)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(_name_of(self.own.dtype))

    @property
    def device(self) -> Any:
        return self.space.place

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.own.shape)

    @property
    def ndim(self) -> int:
        return len(self.own.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def T(self) -> LibraryArray:  # noqa: N802
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.own)

    def __int__(self) -> int:
        return int(self.own)

    def __float__(self) -> float:
        return float(self.own)

    def __index__(self) -> int:
        return operator.index(int(self.own))

    def __repr__(self) -> str:
        return f"LibraryArray({self.own!r})"

    def item(self) -> Any:
        return self.to_numpy().item()

    def tolist(self) -> Any:
        return self.to_numpy().tolist()

    def __getitem__(self, key: Any) -> Any:
        keys = self._keys(key)
        chosen = [i for i, k in enumerate(keys) if isinstance(k, LibraryArray)]
        if not chosen:
            if any(isinstance(k, slice) and (k.step or 1) < 0 for k in keys):
                return self._backwards(keys)
            return LibraryArray(self.space, None, self, _filled(keys, self.ndim))
        if len(chosen) == 1 and keys[chosen[0]].dtype.kind != "b":
            return self._taken(keys, chosen[0])
        if len(chosen) == 1 and len(keys) == 1:
            return LibraryArray(self.space, self.own[keys[0].own])
        if len(chosen) == len(keys):
            at, flat = self._places(keys)
            return flat[at]
        if len(chosen) == 1:  # a mask beside slices and numbers
            places = self.space.nonzero(keys[chosen[0]])[0]
            return self._taken([places if i == chosen[0] else k for i, k in enumerate(keys)], chosen[0])
        raise TypeError(f"{len(chosen)} arrays among {len(keys)} keys select nothing here")

    def _keys(self, key: Any) -> list[Any]:
        """Return what selects, by axis, as Python's numbers and slices and ``LibraryArray``."""
        keys = [_plain_key(k) for k in (key if isinstance(key, tuple) else (key,))]
        keys = [self.space.asarray(k) if isinstance(k, (np.ndarray, list)) else k for k in keys]
        keys = self._within(keys)
        whole = slice(None)
        while len(keys) > 1 and isinstance(keys[-1], slice) and keys[-1] == whole:
            keys.pop()
        if len(keys) > 1 and keys[-1] is Ellipsis:
            keys.pop()
        return keys

    def _within(self, keys: list[Any]) -> list[Any]:
        """Return the keys with slices that end inside of the array, as the standard wants them."""
        n_named = sum(k is not None and k is not Ellipsis for k in keys)
        axis, found = 0, []
        for k in keys:
            if isinstance(k, slice) and (k.step or 1) > 0 and k != slice(None):
                k = slice(*k.indices(self.shape[axis]))
            axis += self.ndim - n_named if k is Ellipsis else k is not None
            found.append(k)
        return found

    def _taken(self, keys: list[Any], at: int) -> LibraryArray:
        """Select by one array of integers, among slices and numbers before and behind it."""
        behind = [*keys[:at], slice(None), *keys[at + 1 :]]
        part = self[tuple(behind)] if len(behind) > 1 else self
        axis = sum(not isinstance(k, int) for k in keys[:at])
        index = keys[at]
        n = part.shape[axis]
        flat = index.reshape(-1).astype(np.int64)
        flat = self.space.where(flat < 0, flat + n, flat)
        made = self.space.own.take(part.own, flat.own, axis=axis)
        shape = part.shape
        made = self.space.own.reshape(made, (*shape[:axis], *index.shape, *shape[axis + 1 :]))
        return LibraryArray(self.space, made)

    def _backwards(self, keys: list[Any]) -> LibraryArray:
        """Select by slices that go backwards."""
        if any(isinstance(k, slice) and (k.step or 1) < -1 for k in keys):
            raise TypeError("steps below -1 are not taken")
        axes = [i for i, k in enumerate(keys) if isinstance(k, slice) and k.step == -1]
        turned = self.space.own.flip(self.own, axis=tuple(axes) if len(axes) > 1 else axes[0])
        plain = tuple(slice(None) if i in axes else k for i, k in enumerate(keys))
        return LibraryArray(self.space, turned)[plain]

    def _places(self, keys: list[Any]) -> tuple[LibraryArray, LibraryArray]:
        """Return where arrays of integers, one an axis, select in the flat array, and that."""
        place = keys[0].astype(np.int64)
        for key, n in zip(keys[1:], self.shape[1:], strict=False):
            place = place * n + key.astype(np.int64)
        rest = self.shape[len(keys) :]
        return place, self.reshape((int(np.prod(self.shape[: len(keys)])), *rest))

    def __setitem__(self, key: Any, value: Any) -> None:
        keys = self._keys(key)
        if not any(isinstance(k, LibraryArray) for k in keys):
            self._store(_filled(keys, self.ndim), value)
        elif len(keys) == 1 and keys[0].dtype.kind == "b":
            self._replace(self._masked(keys[0], value))
        elif len(keys) == 1:
            self._replace(self._scattered(keys[0], value))
        elif all(isinstance(k, LibraryArray) for k in keys):
            place, flat = self._places(keys)
            flat[place] = value
            self._replace(flat.reshape(self.shape))
        elif isinstance(keys[-1], LibraryArray) and all(
            isinstance(k, slice) and k == slice(None) for k in keys[:-1]
        ):
            turned = self.transpose().copy()
            turned[keys[-1]] = value.T if isinstance(value, LibraryArray) else value
            self._replace(turned.transpose())
        elif isinstance(keys[0], int):
            part = self[keys[0]]
            part[tuple(keys[1:])] = value
        else:
            raise TypeError(f"{keys} cannot be written to here")

    def _store(self, key: tuple[Any, ...], value: Any) -> None:
        """Write to what slices and numbers select."""
        if isinstance(value, np.ndarray):
            value = self.space.asarray(value)
        if isinstance(value, LibraryArray):
            value = value.astype(self.dtype, copy=False)
        if None in key:
            key = tuple(k for k in key if k is not None)
            if isinstance(value, LibraryArray):
                value = value.reshape(self[key].shape)
        value, own = self.space.taken(value), self.own
        if _is_fixed(own):
            own = own.at[key].set(value)
        else:
            if self._whole is not None:
                own = self.space.own.asarray(own, copy=True)
            own[key] = value
        self._keep(own)

    def _keep(self, own: Any) -> None:
        """Make an array of the library the values of this one, and of what it is a part of."""
        if self._whole is None:
            self._held = own
        else:
            self._whole._store(self._key, LibraryArray(self.space, own))

    def _replace(self, values: LibraryArray) -> None:
        self._keep(values.astype(self.dtype, copy=False).own)

    def _masked(self, mask: LibraryArray, value: Any) -> LibraryArray:
        """Return the values with others where a mask holds: one, or one for each place."""
        xp = self.space
        value = value if not isinstance(value, np.ndarray) else xp.asarray(value)
        if isinstance(value, LibraryArray) and value.ndim:
            if not value.shape[0]:
                return self
            count = xp.cumulative_sum(xp.astype(mask.reshape(-1), xp.int64)) - 1
            value = value[xp.maximum(count, 0)]
            value = value.reshape((*mask.shape, *value.shape[1:]))
        wide = mask.reshape((*mask.shape, *(1,) * (self.ndim - mask.ndim)))
        return xp.where(wide, self._typed(value), self)

    def _typed(self, value: Any) -> Any:
        """Return a value of this array's type, so that ``where`` keeps it."""
        if isinstance(value, LibraryArray):
            return value.astype(self.dtype, copy=False)
        return self.space.asarray(np.asarray(value, dtype=self.dtype))

    def _scattered(self, index: LibraryArray, value: Any) -> LibraryArray:
        """Return the values with others at numbered places; of equal numbers the last one counts."""
        xp = self.space
        index = index.reshape(-1).astype(np.int64)
        n = self.shape[0]
        index = xp.where(index < 0, index + n, index)
        if not index.shape[0]:
            return self
        order = xp.argsort(index, stable=True)
        ordered = xp.take(index, order)
        each = xp.arange(n, dtype=xp.int64, device=self.device)
        at = xp.maximum(xp.searchsorted(ordered, each, side="right") - 1, 0)
        mask = xp.take(ordered, at) == each
        value = value if not isinstance(value, np.ndarray) else xp.asarray(value)
        if isinstance(value, LibraryArray) and value.ndim:
            value = value.reshape((index.shape[0], *self.shape[1:]))[xp.take(order, at)]
        wide = mask.reshape((n, *(1,) * (self.ndim - 1)))
        return xp.where(wide, self._typed(value), self)

    def astype(self, dtype: Any, /, *, copy: bool = True) -> LibraryArray:
        wanted = self.space.taken(np.dtype(dtype))
        return LibraryArray(self.space, self.space.own.astype(self.own, wanted, copy=copy))

    def copy(self, *, order: Any = None) -> LibraryArray:
        return LibraryArray(self.space, self.space.own.asarray(self.own, copy=True))

    def reshape(self, *shape: Any) -> LibraryArray:
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        wanted = tuple(int(n) for n in ((wanted,) if isinstance(wanted, int) else wanted))
        return LibraryArray(self.space, self.space.own.reshape(self.own, wanted))

    def ravel(self) -> LibraryArray:
        return self.reshape(-1)

    def transpose(self, *axes: int) -> LibraryArray:
        order = axes or tuple(range(self.ndim))[::-1]
        return LibraryArray(self.space, self.space.own.permute_dims(self.own, order))

    def round(self) -> LibraryArray:
        return self.space.round(self)

    def __neg__(self) -> Any:
        return LibraryArray(self.space, -self.own)

    def __invert__(self) -> Any:
        return LibraryArray(self.space, ~self.own)

    def __abs__(self) -> Any:
        return self.space.abs(self)


def _is_fixed(own: Any) -> bool:
    """Return whether a library's array cannot be written to."""
    return type(own).__module__.partition(".")[0] in ("jax", "jaxlib")


def _filled(keys: list[Any], n_axes: int) -> tuple[Any, ...]:
    """Return a key that says that it takes all of the axes behind."""
    n_named = sum(k is not None for k in keys)
    return tuple(keys) if n_named >= n_axes or Ellipsis in keys else (*keys, Ellipsis)


def _plain_key(key: Any) -> Any:
    if isinstance(key, (bool, np.bool_)) or key is None or key is Ellipsis:
        return key
    if isinstance(key, LibraryArray) and not key.ndim:
        return int(key)
    if isinstance(key, slice):
        return slice(*(None if n is None else int(n) for n in (key.start, key.stop, key.step)))
    return int(key) if isinstance(key, (int, np.integer)) else key


def _by_method(name: str) -> Callable[..., Any]:
    def method(self: LibraryArray, axis: Any = None, **options: Any) -> Any:
        if self.dtype == np.bool_ and name not in ("any", "all"):
            self = self.astype(np.int64)  # noqa: PLW0642
        if self.dtype.kind in "iu" and name == "mean":
            self = self.astype(np.float64)  # noqa: PLW0642
        return getattr(self.space, name)(self, axis=axis, **options)

    return method


def _by_operator(apply: Callable[[Any, Any], Any], turned: bool) -> Callable[[Any, Any], Any]:
    divides = apply is operator.truediv

    def method(self: LibraryArray, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim:
            raise TypeError("an array of a device meets one of NumPy")
        other = other[()] if isinstance(other, np.ndarray) else other
        both = self.space.promoted((self, other))
        if divides and both[0].dtype.kind in "biu":
            both = tuple(v.astype(np.float64) if isinstance(v, LibraryArray) else v for v in both)
        if divides and turned:  # torch would multiply by the reciprocal, which rounds twice
            both = (both[0], self.space.asarray(np.asarray(both[1], dtype=both[0].dtype)))
        x, y = (self.space.taken(v) for v in both)
        return LibraryArray(self.space, apply(y, x) if turned else apply(x, y))

    return method


def _in_place(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: LibraryArray, other: Any) -> Any:
        self._replace(apply(self, other))
        return self

    return method


for _name in ("sum", "mean", "max", "min", "any", "all", "argmax", "argmin", "prod"):
    setattr(LibraryArray, _name, _by_method(_name))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _apply = getattr(operator, _name)
    setattr(LibraryArray, f"__{_name}__", _by_operator(_apply, turned=False))
    setattr(LibraryArray, f"__r{_name}__", _by_operator(_apply, turned=True))
    setattr(LibraryArray, f"__i{_name}__", _in_place(_apply))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _apply = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(LibraryArray, f"__{_name}__", _by_operator(_apply, turned=False))
    setattr(LibraryArray, f"__r{_name}__", _by_operator(_apply, turned=True))
    setattr(LibraryArray, f"__i{_name}__", _in_place(_apply))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(LibraryArray, f"__{_name}__", _by_operator(getattr(operator, _name), turned=False))
LibraryArray.__hash__ = object.__hash__  # type: ignore[method-assign]
