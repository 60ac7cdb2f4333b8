"""The stand-in's array: memory of the host that behaves as memory of a GPU does in CuPy.

It refuses what CuPy's arrays refuse (NumPy arrays as operands, implicit conversion to NumPy,
unknown parameters, arrays of another device), returns arrays without axes where NumPy returns
scalars, and logs each wait of the host. It is stricter in three ways: an index out of range raises,
where CuPy wraps it around; new memory holds rubbish; floating-point sums are taken in another
order than NumPy's, and functions that are not correctly rounded differ from NumPy's in the last
place, as on a GPU.

``memory`` is the NumPy array that plays the memory of the device. ``__cuda_array_interface__`` has
its true address, so that code which executes kernels on the host can take these arrays as Numba
and the launchers do.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from . import machine
from .compiled import note, note_copy, note_fill, note_index
from .machine import begun, state, uploaded, waited
from .signatures import TABLE_OF_NAMES, bound, is_everywhere

RUBBISH = 0xA7
"""Every byte of new memory."""
IMPLICIT = (
    "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a "
    "NumPy array explicitly."
)
KINDS = "?bhilqBHILQefdFD"
INEXACT = {
    "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "sin",
    "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh",
    "arccosh", "arctanh", "power", "float_power", "cbrt", "hypot",
}  # fmt: skip
"""Functions whose last bits on a GPU are other than NumPy's."""


class ndarray:  # noqa: N801
    """CuPy's array; the parameters are those of CuPy's too."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    memory: np.ndarray
    _gpu: int

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None,
        order: str = "C",
    ) -> None:  # fmt: skip
        if memptr is not None or strides is not None:
            raise NotImplementedError("The stand-in makes no array on given memory.")
        self.memory = rubbish(shape, supported(dtype), order)
        self._gpu = state.device
        state.allocated.add(self.memory, self.memory.nbytes)

    # What NumPy and other libraries see.

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(IMPLICIT)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if method != "__call__" or any(unknown(value) for value in inputs):
            return NotImplemented
        if "out" in settings:
            (settings["out"],) = settings["out"]
        return elementwise(ufunc.__name__, *inputs, **settings)

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        from . import functions

        own = functions.NAMESPACE.get(function.__name__)
        if own is None or not all(issubclass(kind, (ndarray, np.ndarray)) for kind in types):
            return NotImplemented
        return own(*args, **settings)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        packed = self.memory.flags.c_contiguous
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "strides": None if packed else self.strides,
            "data": (self.data.ptr, False),
            "stream": state.stream.ptr or 1,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._gpu

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
        copy: Any = None,
    ) -> Any:  # fmt: skip
        if dl_device == (1, 0):
            waited("__dlpack__")
        elif dl_device not in (None, (2, self._gpu)):
            raise BufferError("unsupported device requested.")
        elif stream is None:
            raise BufferError("Unsupported device in DLTensor: NumPy cannot read a GPU's memory.")
        elif stream not in (-1, state.stream.ptr or 1):
            raise AssertionError("The reader waits for another stream than the current one.")
        return self.memory.__dlpack__(max_version=(1, 0))  # an older one is read-only

    def __reduce__(self) -> Any:
        return on_device, (self.get(),)

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, known: Any) -> ndarray:
        with self.device:
            return self.copy()

    # Attributes.

    @property
    def device(self) -> machine.Device:
        return machine.Device(self._gpu)

    @property
    def data(self) -> Any:
        pointer = self.memory.ctypes.data if self.size else 0
        return SimpleNamespace(ptr=pointer, device_id=self._gpu)

    @property
    def flags(self) -> Any:
        return Flags(self.memory.flags)

    @property
    def base(self) -> Any:
        return None if self.memory.base is None else viewed(self.memory.base, self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    @property
    def T(self) -> ndarray:  # noqa: N802
        return viewed(self.memory.T, self)

    @property
    def real(self) -> ndarray:
        return viewed(self.memory.real, self)

    @property
    def imag(self) -> ndarray:
        return viewed(self.memory.imag, self)

    def __len__(self) -> int:
        return len(self.memory)

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return repr(self.memory)

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, how: str) -> str:
        return format(self.item(), how) if not self.shape else format(str(self), how)

    # Conversions to the host, which wait.

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> np.ndarray:
        begun("get")
        if not self.memory.flags.forc:  # which CuPy copies on the device before
            note("copy", self.memory, self.memory)
        if out is None:
            waited("get")
            return np.array(self.memory, order=order)  # type: ignore[call-overload]
        if not isinstance(out, np.ndarray) or out.dtype != self.dtype:
            raise TypeError(f"{getattr(out, 'dtype', out)} cannot take a {self.dtype} array")
        if out.shape != self.shape:
            raise ValueError(f"Shape mismatch: {self.shape}, got {out.shape}")
        stream = state.stream if stream is None else stream
        values = self.memory.copy()
        out.view(np.uint8).fill(RUBBISH) if out.flags.c_contiguous and out.ndim else None
        stream.add(lambda: np.copyto(out, values))
        if blocking:
            stream.synchronize()
        return out

    def item(self) -> Any:
        waited("item")
        return self.memory.item()

    def tolist(self) -> Any:
        waited("tolist")
        return self.memory.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        waited("tobytes")
        return self.memory.tobytes(order)

    def __bool__(self) -> bool:
        waited("bool")
        return bool(self.memory)

    def __int__(self) -> int:
        waited("int")
        return int(self._only("int"))

    def __float__(self) -> float:
        waited("float")
        return float(self._only("float"))

    def __complex__(self) -> complex:
        waited("complex")
        return complex(self._only("complex"))

    def _only(self, wanted: str) -> Any:
        if self.size != 1:
            raise TypeError(f"only size-1 arrays can be converted to {wanted}")
        return self.memory.item()

    # Indices.

    def __getitem__(self, key: Any) -> ndarray:
        key, is_fancy = index_of(self, key)
        if not is_fancy:
            return viewed(self.memory[key], self)
        begun("__getitem__")
        found = self.memory[key]
        note_index("take", self.memory, key, found)
        return result(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        key, is_fancy = index_of(self, key)
        begun("__setitem__")
        require_here(self)
        if isinstance(value, ndarray):
            require_here(value)
            if is_fancy:
                note_index("scatter", value.memory, key, self.memory)
            else:
                note_copy(value.memory, self.memory[key])
            self.memory[key] = value.memory
        elif isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        elif isinstance(value, (list, tuple)) or unknown(value):
            raise ValueError(f"non-scalar {type(value).__name__} cannot be used for fill")
        else:
            if is_fancy:
                note_index("scatter", value, key, self.memory)
            else:
                note_fill(self.memory[key], value)
            self.memory[key] = value

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray) or (arr.dtype, arr.shape) != (self.dtype, self.shape):
            raise TypeError("Only numpy.ndarray of this dtype and shape can be set")
        if not (self.memory.flags.c_contiguous or self.memory.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        uploaded("set")
        np.copyto(self.memory, arr)
        if stream is not None:
            machine.fetch(arr, stream)

    def fill(self, value: Any) -> None:
        self[...] = value

    # Methods with a meaning of their own.

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None,
        copy: bool = True,
    ) -> ndarray:  # fmt: skip
        if casting is not None:
            raise TypeError("astype: casting is not supported")
        found = self.memory.astype(supported(dtype), order=order, copy=copy)  # type: ignore
        if found is self.memory:
            return self
        begun("astype")
        if found.size:
            note("copy", self.memory, found)
        return result(found)

    def copy(self, order: Any = "C") -> ndarray:
        begun("copy")
        found = np.array(self.memory, order=order)
        note_copy(self.memory, found)
        return result(found)

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return viewed(self.memory if dtype is None else self.memory.view(supported(dtype)), self)


ndarray.__module__ = "cupy"


class Flags:
    """The flags that CuPy's arrays have; ``writeable`` is not among them."""

    def __init__(self, of: Any) -> None:
        self.c_contiguous, self.f_contiguous = of.c_contiguous, of.f_contiguous
        self.owndata, self.forc, self.fnc = of.owndata, of.forc, of.fnc

    def __getitem__(self, name: str) -> bool:
        return bool(getattr(self, name.lower()))


# Making and reading arrays.


def viewed(memory: Any, of: ndarray) -> ndarray:
    """Return an array on memory of the device of another array."""
    made = object.__new__(ndarray)
    made.memory, made._gpu = np.asarray(memory), of._gpu
    return made


def result(memory: Any) -> ndarray:
    """Return an array on memory of the current device."""
    made = object.__new__(ndarray)
    made.memory, made._gpu = np.asarray(memory), state.device
    owner = machine.owner_of(made.memory)
    state.allocated.add(owner, owner.nbytes)
    return made


def on_device(values: Any, dtype: Any = None, order: Any = None) -> ndarray:
    """Return a copy of NumPy values on the current device."""
    host = np.array(values, dtype=dtype, order="K" if order is None else order)
    uploaded("array")
    return result(host.astype(supported(host.dtype), copy=False))


def rubbish(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray:
    """Return new memory, filled with bytes that nobody counts on."""
    memory = np.empty(shape, supported(dtype), order=order)
    if memory.size:
        (memory if memory.flags.c_contiguous else memory.T).reshape(-1).view(np.uint8).fill(RUBBISH)
    return memory


def supported(dtype: Any) -> np.dtype:
    """Return a dtype that a GPU has."""
    dtype = np.dtype(dtype)
    if dtype.char not in KINDS:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def unknown(value: Any) -> bool:
    """Return whether CuPy leaves an operation to this operand's own class."""
    return not isinstance(value, (ndarray, np.ndarray, np.generic, bool, int, float, complex))


def require_here(array: ndarray) -> None:
    """Raise as CuPy does for an array of another device than the current one."""
    if array._gpu != state.device:
        raise ValueError(
            f"The device where the array resides ({array._gpu}) is different from the current "
            f"device ({state.device}). Peer access is unavailable between these devices."
        )


def operand(value: Any, name: str) -> Any:
    """Return what NumPy takes in place of an operand: an array of the device, or a scalar."""
    if isinstance(value, ndarray):
        require_here(value)
        return value.memory
    if isinstance(value, (np.generic, bool, int, float, complex)):
        return value
    raise TypeError(f"cupy.{name}(): Unsupported type {type(value)}")


def index_of(array: ndarray, key: Any) -> tuple[Any, bool]:
    """Return an index for the memory, and whether it makes a copy (which needs a kernel)."""
    parts = key if isinstance(key, tuple) else (key,)
    found: list[Any] = []
    is_fancy = False
    for part in parts:
        if isinstance(part, ndarray):
            is_fancy = True
            require_here(part)
            if part.dtype.kind not in "biu":
                raise IndexError(
                    "arrays used as indices must be of integer or boolean type. (actual: "
                    f"{part.dtype.type})"
                )
            if part.dtype.kind == "b":
                waited("mask")
            part = part.memory
        elif isinstance(part, (list, np.ndarray, bool, np.bool_)):
            is_fancy = True
            uploaded("index")
            part = np.asarray(part, None if len(np.shape(part)) and np.size(part) else np.intp)
        elif not (
            part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer))
        ):  # fmt: skip
            raise IndexError(f"{part!r} is not an index")
        found.append(part)
    if is_fancy:
        require_here(array)
    return (tuple(found) if isinstance(key, tuple) else found[0]), is_fancy


def nudged(value: Any) -> Any:
    """Move a third of the floats to a neighbour: another implementation's last bit."""
    if value.dtype.kind != "f":
        return value
    value = np.asarray(value)
    bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").reshape(value.shape)
    moved = np.isfinite(value) & (value != 0) & (value != 1) & (bits % 3 == 1)
    return np.where(moved, np.nextafter(value, value.dtype.type(0)), value)


def elementwise(name: str, *operands: Any, **settings: Any) -> Any:
    """Return the result of one of CuPy's elementwise functions."""
    from . import functions

    if name not in functions.NAMESPACE:
        return NotImplemented
    bound(name, operands, settings)
    out = settings.pop("out", None)
    function = getattr(np, name)
    values = [operand(value, name) for value in operands]
    if len(values) > function.nin:
        *values, last = values
        out = operands[-1] if last is not None else None
    begun(name)
    with np.errstate(all="ignore"):
        found = function(*values, **settings)
    if name in INEXACT:
        found = nudged(found)
    results = found if isinstance(found, tuple) else (found,) if out is None else (out.memory,)
    if np.size(results[0]):
        note(name, *values, *map(np.asarray, results))
    if isinstance(found, tuple):
        return tuple(map(result, found))
    if out is None:
        return result(found)
    require_here(out)
    np.copyto(out.memory, found, casting=settings.get("casting", "same_kind"))
    return out


# Operators and methods.

OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "lshift": "left_shift",
    "rshift": "right_shift", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip


def _install_operators() -> None:
    def define(name: str, method: Any) -> None:
        method.__name__ = f"__{name}__"
        setattr(ndarray, method.__name__, method)

    def binary(function: str, swapped: bool = False) -> Any:
        def method(self: ndarray, other: Any) -> Any:
            if unknown(other):
                return NotImplemented
            return elementwise(function, *((other, self) if swapped else (self, other)))

        return method

    def in_place(function: str) -> Any:
        def method(self: ndarray, other: Any) -> Any:
            return elementwise(function, self, other, out=self)

        return method

    for name, function in OPERATORS.items():
        define(name, binary(function))
        define(f"r{name}", binary(function, swapped=True))
        define(f"i{name}", in_place(function))
    for name, function in COMPARISONS.items():
        define(name, binary(function))
    for name, function in {"neg": "negative", "abs": "absolute", "invert": "invert"}.items():
        define(name, lambda self, function=function: elementwise(function, self))
    define("matmul", lambda self, other: _matrices(self, other))
    define("rmatmul", lambda self, other: _matrices(other, self))
    for name in ("dtype", "ndim", "size", "nbytes", "itemsize", "strides"):
        setattr(ndarray, name, property(lambda self, name=name: getattr(self.memory, name)))


def _matrices(left: Any, right: Any) -> Any:
    from . import functions

    return functions.NAMESPACE["matmul"](left, right)


def _install_methods() -> None:
    """Add the methods that are functions too: CuPy's parameters, the function's meaning."""

    def define(name: str) -> None:
        def method(self: ndarray, *args: Any, **settings: Any) -> Any:
            from . import functions

            bound(f"ndarray.{name}", args, settings)
            return functions.METHODS[name](self, *args, **settings)

        method.__name__ = name
        setattr(ndarray, name, method)

    for entry in TABLE_OF_NAMES:
        place, _, name = entry.partition(".")
        if place == "ndarray" and name.isidentifier() and not name.startswith("__"):
            if name not in vars(ndarray) and is_everywhere(entry):
                define(name)


_install_operators()
_install_methods()
