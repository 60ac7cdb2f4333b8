"""Arrays of any library of the Array API standard, as the core works on them.

The standard leaves open what the core relies on: which type mixed operands give, whether an array
can be written to and whether a part of one is a view, how unsigned integers compute, how integer
arrays select. Here all libraries do what NumPy does: each function ends in functions of the library
on its own arrays, where they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def name_of_type(dtype: Any) -> str:
    """Return the name of a type of any library: "float64"."""
    text = str(getattr(dtype, "name", dtype))
    return text.rpartition(".")[2]


class LibraryArray:
    """An array of a library, with the methods that the core uses; what is selected in another way
    than NumPy would raises a TypeError.

    A part of one that slices and numbers select is a view: it reads from the whole and writes to
    it, also where the library's own arrays cannot be written to. What ``reshape``, ``transpose``
    and ``astype`` return may be one or a copy, and is not written to.
    """

    __slots__ = ("__weakref__", "_held", "_key", "_whole", "space")
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class

    def __init__(self, space: Any, held: Any, whole: Any = None, key: Any = None) -> None:
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

    def __array_namespace__(self, api_version: str | None = None) -> Any:
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
        return np.dtype(name_of_type(self.own.dtype))

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
            if len(keys) == self.ndim and all(isinstance(k, int) for k in keys):
                return LibraryArray(self.space, self.own[tuple(keys)]).copy()
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
            return self._taken(
                [places if i == chosen[0] else k for i, k in enumerate(keys)], chosen[0]
            )
        raise TypeError(f"{len(chosen)} arrays among {len(keys)} keys select nothing here")

    def _keys(self, key: Any) -> list[Any]:
        """Return what selects, by axis, as Python's numbers and slices and ``LibraryArray``."""
        keys = [_plain_key(k) for k in (key if isinstance(key, tuple) else (key,))]
        keys = [self.space.asarray(k) if isinstance(k, (np.ndarray, list)) else k for k in keys]
        keys = self._within(keys)
        while len(keys) > 1 and isinstance(keys[-1], slice) and keys[-1] == slice(None):
            keys.pop()
        return keys

    def _within(self, keys: list[Any]) -> list[Any]:
        """Return the keys with a slice for each axis of an ellipsis, and with slices that end
        inside of the array, as the standard wants them."""
        if any(k is Ellipsis for k in keys):
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            n_named = sum(_axes_of(k) for k in keys)
            keys = [*keys[:at], *[slice(None)] * (self.ndim - n_named), *keys[at + 1 :]]
        axis, found = 0, []
        for k in keys:
            n = self.shape[axis] if k is not None else 0
            if isinstance(k, int) and not -n <= k < n:
                raise IndexError(f"{k} is out of bounds for an axis of {n}")
            if isinstance(k, slice) and (k.step or 1) > 0 and k != slice(None):
                k = slice(*k.indices(n))
            axis += _axes_of(k)
            found.append(k)
        return found

    def _taken(self, keys: list[Any], at: int) -> LibraryArray:
        """Select by one array of integers, among slices and numbers before and behind it."""
        sides = keys[:at][::-1], keys[at + 1 :]
        for side in sides:  # NumPy has the numbers beside the array only if nothing is between
            are_numbers = [isinstance(k, int) for k in side]
            if are_numbers != sorted(are_numbers, reverse=True):
                raise TypeError("a number, a slice and an array select nothing here")
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
        place: Any = 0
        for key, n in zip(keys, self.shape, strict=False):
            if key.dtype == np.bool_:
                raise TypeError("several masks select nothing here")
            own = key.astype(np.int64)
            place = place * n + self.space.where(own < 0, own + n, own)
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
        elif self.ndim == len(keys) == 2 and keys[0] == slice(None):
            value = self.space.asarray(value)
            turned = self.transpose().copy()
            turned[keys[1]] = value.T if value.ndim != 1 else value[:, None]
            self._replace(turned.transpose())
        elif isinstance(keys[0], int):
            part = self[keys[0]]
            part[tuple(keys[1:])] = value
        else:
            raise TypeError(f"{keys} cannot be written to here")

    def _store(self, key: tuple[Any, ...], value: Any) -> None:
        """Write to what slices and numbers select."""
        if any(isinstance(k, slice) and (k.step or 1) < 0 for k in key):
            raise TypeError("slices that go backwards are not written to")
        if isinstance(value, np.ndarray):
            value = self.space.asarray(value)
        if isinstance(value, LibraryArray):
            value = value.astype(self.dtype, copy=value._whole is not None)  # it may overlap
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
            n_places = int(xp.sum(xp.astype(mask, xp.int64)))
            if not n_places:
                return self
            value = xp.broadcast_to(value, (n_places, *self.shape[mask.ndim :]))
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
        """Return the values with others at numbered places; of equal numbers the last counts."""
        xp = self.space
        index = index.reshape(-1).astype(np.int64)
        n = self.shape[0]
        index = xp.where(index < 0, index + n, index)  # type: ignore[operator]
        if not index.shape[0]:
            return self
        order = xp.argsort(index, stable=True)
        ordered = xp.take(index, order)
        each = xp.arange(n, dtype=xp.int64, device=self.device)
        at = xp.maximum(xp.searchsorted(ordered, each, side="right") - 1, 0)
        mask = xp.take(ordered, at) == each
        value = value if not isinstance(value, np.ndarray) else xp.asarray(value)
        if isinstance(value, LibraryArray) and value.ndim:
            value = xp.broadcast_to(value, (index.shape[0], *self.shape[1:]))[xp.take(order, at)]
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
    return tuple(keys) if n_named >= n_axes else (*keys, Ellipsis)


def _axes_of(key: Any) -> int:
    """Return the number of axes that a key selects from."""
    if key is None or key is Ellipsis:
        return 0
    is_mask = isinstance(key, LibraryArray) and key.dtype == np.bool_
    return key.ndim if is_mask else 1


def own_array(values: Any) -> Any:
    """Return the library's own array, anything else as it is: for functions of the user."""
    return values.own if isinstance(values, LibraryArray) else values


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
            self = self.astype(np.int64)
        if self.dtype.kind in "iu" and name == "mean":
            self = self.astype(np.float64)
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
        if divides and not isinstance(both[1], LibraryArray):
            # By or of a number, torch and JAX would multiply by a reciprocal, which rounds twice.
            both = (both[0], self.space.full_like(both[0], both[1]))
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
