"""CuPy's functions for the stand-in: NumPy's, called as CuPy takes the call.

An argument that CuPy wants to be an array must be one of the device; Python's and NumPy's scalars
pass where CuPy takes them. What is not in the recorded table of signatures does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import (
    elementwise,
    index_of,
    ndarray,
    on_device,
    require_here,
    result,
    rubbish,
    supported,
    viewed,
)
from .compiled import note_call, note_copy
from .machine import begun, state, waited
from .record import ELEMENTWISE
from .signatures import TABLE_OF_NAMES, bound, is_everywhere, signatures

ARRAYS = set(
    """a A x x1 x2 y arr ar ar1 ar2 array b bins condition element indices m out prototype sorter
    test_elements v values weights keys operands args c f xp""".split()
)
"""Parameters that are arrays."""
SEQUENCES = {"tup", "arys", "arrays", "xi"}
"""Parameters that are sequences of arrays."""
ALSO_SCALARS = {
    ("where", "x"), ("where", "y"), ("delete", "indices"), ("quantile", "q"),
    ("broadcast_arrays", "args"), ("take", "indices"), ("take_along_axis", "axis"),
    ("isscalar", "element"), ("result_type", "arrays_and_dtypes"), ("put", "values"),
}  # fmt: skip
"""Arguments that may be scalars as well."""
HANDED_ON = {
    "full": "fill_value", "full_like": "fill_value", "quantile": "q", "clip": "a_min a_max",
    "result_type": "arrays_and_dtypes",
}  # fmt: skip
"""Further arguments that may be arrays."""
WAITING = """nonzero flatnonzero argwhere unique unique_all unique_counts unique_inverse
unique_values compress extract delete bincount array_equal""".split()
"""Functions that wait for the size of their result."""
NUMBERS = {"allclose", "array_equal", "array_equiv", "count_nonzero"}
"""Functions of which NumPy returns numbers and CuPy arrays."""
ACCUMULATING = {
    "sum", "mean", "prod", "cumsum", "cumprod", "var", "std", "dot", "matmul", "einsum", "inner",
    "tensordot", "trace", "nansum", "vdot", "cov", "corrcoef", "kron", "outer",
}  # fmt: skip
"""Functions that add or multiply in an order of their own."""
ONLY_NUMBERS = {"isscalar", "ndim", "shape", "size", "result_type", "can_cast", "promote_types",
                "min_scalar_type", "issubdtype", "isdtype", "finfo", "iinfo", "broadcast_shapes",
                "common_type", "iscomplexobj", "isrealobj", "shares_memory", "may_share_memory"
                }  # fmt: skip
"""Functions that start no work."""
WIDER = {"f": np.float64, "d": np.longdouble, "e": np.float32}


def host_of(name: str, parameter: str, value: Any) -> Any:
    """Return an argument as NumPy takes it.

    Raises
    ------
    TypeError
        CuPy does not take it.
    """
    if isinstance(value, ndarray):
        if parameter not in ARRAYS and parameter not in HANDED_ON.get(name, "").split():
            raise TypeError(f"cupy.{name}(): {parameter} cannot be a cupy.ndarray")
        require_here(value)
        return value.memory
    if isinstance(value, np.ndarray):
        raise TypeError(f"cupy.{name}(): Unsupported type {type(value)} of {parameter}")
    if parameter in SEQUENCES:
        if any(not isinstance(part, ndarray) for part in value):
            raise TypeError("Only cupy arrays can be concatenated")
        return [host_of(name, "array", part) for part in value]
    needs_array = parameter in ARRAYS and name not in ONLY_NUMBERS and value is not None
    if needs_array and (name, parameter) not in ALSO_SCALARS and not isinstance(value, str):
        raise TypeError(f"cupy.{name}(): {parameter} must be a cupy.ndarray, got {type(value)}")
    if parameter == "dtype" and value is not None and name not in ONLY_NUMBERS:
        return supported(value)
    return value


def host_call(name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the arguments of a call as NumPy takes them."""
    parameters = list(signatures(name)[0].parameters.values())
    names = [parameter.name for parameter in parameters]
    if parameters and parameters[0].kind is parameters[0].VAR_POSITIONAL:
        names = [names[0]] * len(args)
    converted = [host_of(name, p, value) for p, value in zip(names, args, strict=False)]
    return converted, {p: host_of(name, p, value) for p, value in settings.items()}


def wider(value: Any) -> Any:
    """Return floats with more bits, in which sums are rounded once, unlike NumPy's."""
    if isinstance(value, np.ndarray) and value.dtype.char in WIDER:
        return value.astype(WIDER[value.dtype.char])
    return value


def narrower(found: Any, name: str, args: Any, settings: Any) -> Any:
    """Return the result of an accumulation in the type that it has without more bits."""
    inputs = [value for value in args if isinstance(value, np.ndarray)]
    chars = {value.dtype.char for value in inputs}
    if settings.get("dtype") is not None:
        return found.astype(settings["dtype"])
    if chars & set("fde") and not chars & set("FD"):
        return found.astype(np.result_type(*inputs))
    return found


def call(name: str, function: Callable[..., Any], args: Any, settings: Any) -> Any:
    """Call NumPy's function with arguments that are NumPy's, and return what CuPy returns."""
    if name in ONLY_NUMBERS:
        return function(*args, **settings)
    begun(name)
    if name in WAITING:
        waited(name)
    out = settings.pop("out", None)
    with np.errstate(all="ignore"):
        if name in ACCUMULATING:
            own = {key: value for key, value in settings.items() if key != "dtype"}
            is_float = any(getattr(v, "dtype", np.dtype(bool)).char in WIDER for v in args)
            how = own if is_float else settings
            found = narrower(function(*map(wider, args), **how), name, args, settings)
        else:
            found = function(*args, **settings)
    note_call(name, args, found)
    if out is not None:
        np.copyto(out, found, casting="same_kind")
        return out
    return found


def wrapped(name: str, found: Any) -> Any:
    """Return what NumPy returns as CuPy's arrays."""
    if isinstance(found, (np.ndarray, np.generic)) or name in NUMBERS:
        return result(found)
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*(wrapped(name, part) for part in found))
    if isinstance(found, (tuple, list)) and name not in ONLY_NUMBERS:
        return type(found)(wrapped(name, part) for part in found)
    return found


def general(name: str) -> Callable[..., Any]:
    """Return a function of CuPy that is NumPy's."""
    own = OWN.get(name) or getattr(np, name)

    def function(*args: Any, **settings: Any) -> Any:
        bound(name, args, settings)
        out = settings.get("out")
        on_host, further = host_call(name, args, settings)
        found = call(name, own, on_host, further)
        return out if out is not None else wrapped(name, found)

    function.__name__ = name
    return function


def method(name: str) -> Callable[..., Any]:
    """Return a method of CuPy's arrays that is NumPy's; its parameters were compared before."""

    def function(self: ndarray, *args: Any, **settings: Any) -> Any:
        require_here(self)
        out = settings.get("out")
        taken = ("indices", "v", "b", "condition")
        values = [
            host_of(name, "array" if name in ("take", "searchsorted", "dot", "clip") else "", v)
            if isinstance(v, (ndarray, np.ndarray))
            else v
            for v in args
        ]
        further = {
            key: host_of(name, key if key in taken else "array", v)
            if isinstance(v, (ndarray, np.ndarray))
            else v
            for key, v in settings.items()
        }
        numpys = OWN_METHODS.get(name) or (
            lambda memory, *given, **how: getattr(memory, name)(*given, **how)
        )
        found = call(name, numpys, [self.memory, *values], further)
        if out is not None:
            return out
        if isinstance(found, np.ndarray) and found.base is not None and name in VIEWS:
            return viewed(found, self)
        return None if found is None else wrapped(name, found)

    return function


VIEWS = {"reshape", "ravel", "transpose", "squeeze", "swapaxes", "diagonal"}


def _sort(memory: np.ndarray, axis: int = -1, kind: Any = None) -> None:
    memory.sort(axis=axis, kind="stable")


def _bincount(x: Any, weights: Any = None, minlength: Any = None) -> Any:
    length = 0 if minlength is None else minlength
    if weights is None:
        return np.bincount(x, minlength=length)
    sums = np.zeros(max(length, int(x.max()) + 1 if x.size else 0), np.longdouble)
    np.add.at(sums, x, weights)
    return sums.astype(np.float64)


OWN: dict[str, Callable[..., Any]] = {
    "argsort": lambda a, axis=-1, kind=None: np.argsort(a, axis=axis, kind="stable"),
    "sort": lambda a, axis=-1, kind=None: np.sort(a, axis=axis, kind="stable"),
    "bincount": _bincount,
    "empty": lambda shape, dtype=float, order="C": rubbish(shape, dtype, order),
    "empty_like": lambda prototype, dtype=None, **how: rubbish(
        prototype.shape if how.get("shape") is None else how["shape"],
        prototype.dtype if dtype is None else dtype,
        "F" if how.get("order", "K") == "K" and prototype.flags.fnc else "C",
    ),
    "in1d": lambda ar1, ar2, **how: np.isin(ar1, ar2, **how),
}
OWN_METHODS: dict[str, Callable[..., Any]] = {
    "argsort": lambda memory, axis=-1, kind=None: memory.argsort(axis=axis, kind="stable"),
    "sort": _sort,
    "ptp": np.ptp,
    "fill": lambda memory, value: memory.fill(value),
}


# Functions with a meaning of their own.


def array(
    obj: Any, dtype: Any = None, copy: Any = True, order: Any = "K", subok: bool = False,
    ndmin: int = 0, *, blocking: bool = False,
) -> ndarray:  # fmt: skip
    if subok:
        raise NotImplementedError
    if hasattr(obj, "__cuda_array_interface__") and not isinstance(obj, ndarray):
        obj = shared(obj)
    if isinstance(obj, ndarray):
        begun("array")
        wanted = obj.dtype if dtype is None else supported(dtype)
        if obj._gpu == state.device and not copy:
            found = obj.memory.astype(wanted, order=order or "K", copy=False)
            own = obj if found is obj.memory else result(found)
            note_copy(obj.memory, own.memory)
        else:
            own = result(np.array(obj.memory, dtype=wanted, order=order or "K"))
            note_copy(obj.memory, own.memory)
    elif isinstance(obj, (list, tuple)) and _holds_arrays(obj):
        begun("array")
        own = result(np.array(_on_host(obj), dtype=dtype))
        note_call("concatenate", [own.memory], own.memory)
    else:
        own = on_device(obj, dtype, order)
    if own.ndim < ndmin:
        own = result(np.array(own.memory, ndmin=ndmin))
    return own


def _holds_arrays(obj: Any) -> bool:
    return any(
        isinstance(x, ndarray) or (isinstance(x, (list, tuple)) and _holds_arrays(x)) for x in obj
    )


def _on_host(obj: Any) -> Any:
    if isinstance(obj, ndarray):
        require_here(obj)
        return obj.memory
    if not isinstance(obj, (list, tuple)):
        raise ValueError("Unsupported dtype object: a sequence of arrays and of other values")
    return [_on_host(part) for part in obj]


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False
) -> ndarray:
    made = array(a, dtype, copy=bool(copy), order=order, blocking=blocking)
    if copy is False and made is not a:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return made


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    return array(a, dtype, copy=False, order="C")


def shared(obj: Any) -> ndarray:
    """Return an array on the memory of another library's array."""
    described = dict(obj.__cuda_array_interface__)
    if not np.prod(described["shape"], dtype=int):
        return result(np.empty(described["shape"], described["typestr"]))
    holder = type("Holder", (), {})()
    holder.__array_interface__ = {
        key: described[key] for key in ("shape", "typestr", "strides", "data") if key in described
    } | {"version": 3}
    holder.owner = obj
    return result(np.asarray(holder))


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> np.ndarray:
    if isinstance(a, ndarray):
        return a.get(stream=stream, order=order, out=out, blocking=blocking)
    return np.asarray(a, order=order)  # type: ignore[call-overload]


def from_dlpack(array: Any, /, *, device: Any = None, copy: Any = None) -> ndarray:
    kind, index = array.__dlpack_device__()
    if kind != 2:
        raise TypeError(f"CuPy has no device of the kind {kind}")
    capsule = array.__dlpack__(stream=state.stream.ptr or 1)
    holder = type("Holder", (), {"__dlpack__": lambda self, **how: capsule})
    holder.__dlpack_device__ = lambda self: (1, 0)  # type: ignore[attr-defined]
    begun("from_dlpack")
    found = result(np.from_dlpack(holder()))
    found._gpu = index
    return found


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return NAMESPACE["nonzero"](condition)
    given = [host_of("where", p, v) for p, v in (("condition", condition), ("x", x), ("y", y))]
    begun("where")
    found = np.where(*given)
    note_call("where", given, found)
    return result(found)


def einsum(*operands: Any) -> ndarray:
    subscripts, *arrays = operands
    on_host = [host_of("einsum", "operands", a) for a in arrays]
    return wrapped("einsum", call("einsum", lambda *a: np.einsum(subscripts, *a), on_host, {}))


class Elementwise:
    """One of CuPy's ``ufunc``."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        own = getattr(np, name)
        self.nin, self.nout = own.nin, own.nout

    def __call__(self, *operands: Any, **settings: Any) -> Any:
        return elementwise(self.__name__, *operands, **settings)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if self.__name__ not in ("add", "subtract", "maximum", "minimum"):
            raise NotImplementedError(f"`{self.__name__}.at` is not supported yet")
        require_here(a)
        begun(self.__name__)
        value = b.memory if isinstance(b, ndarray) else b
        if isinstance(value, np.ndarray) and not isinstance(b, ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
        getattr(np, self.__name__).at(a.memory, index_of(a, indices)[0], value)


def scatter_add(a: Any, slices: Any, value: Any) -> None:
    NAMESPACE["add"].at(a, slices, value)


NAMESPACE: dict[str, Any] = {
    name: Elementwise(name) if name in ELEMENTWISE.split() else general(name)
    for name in TABLE_OF_NAMES
    if "." not in name and is_everywhere(name) and (name in OWN or hasattr(np, name))
} | {
    function.__name__: function
    for function in (
        array, asarray, ascontiguousarray, asnumpy, from_dlpack, where, einsum,
    )
}  # fmt: skip
METHODS: dict[str, Callable[..., Any]] = {
    name.removeprefix("ndarray."): method(name.removeprefix("ndarray."))
    for name in TABLE_OF_NAMES
    if name.startswith("ndarray.") and is_everywhere(name)
}
TYPES = """bool_ int8 int16 int32 int64 intp intc int_ uint8 uint16 uint32 uint64 uintp float16
float32 float64 complex64 complex128 dtype generic floating integer inexact number signedinteger
unsignedinteger newaxis inf nan pi e""".split()
NAMESPACE |= {
    name: getattr(np, name) for name in TYPES if not name.endswith("c_") or name == "intc"
}
