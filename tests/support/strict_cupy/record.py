"""Records what CuPy's functions take, on any machine where CuPy can be imported, GPU or not.

Run it with each version of CuPy that is supported, in an environment of its own::

    python tests/support/strict_cupy/record.py

It adds a column to ``signatures.json``: for each name the parameters as CuPy declares them, without
annotations, or null where that version lacks it. ``test_strict_cupy`` compares the table with the
CuPy that is installed, where one is.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("signatures.json")
CREATORS = """arange array asarray ascontiguousarray asfortranarray empty empty_like eye full
full_like identity linspace ones ones_like zeros zeros_like from_dlpack"""
REDUCERS = """all amax amin any argmax argmin count_nonzero cumprod cumsum max mean median min
nanmax nanmin nansum prod ptp quantile std sum trace var"""
MOVERS = """append array_split astype atleast_1d atleast_2d broadcast_arrays broadcast_to
column_stack concat concatenate copy copyto diag diagonal expand_dims flip hstack matrix_transpose
moveaxis permute_dims ravel repeat reshape roll rollaxis split squeeze stack swapaxes take
take_along_axis tile transpose tril triu vstack where compress delete extract put
put_along_axis"""
SEARCHERS = """argpartition argsort argwhere bincount digitize flatnonzero histogram in1d isin
lexsort nonzero partition searchsorted sort unique unique_all unique_counts unique_inverse
unique_values"""
NUMBERS = """allclose around array_equal array_equiv clip cov corrcoef cross diff dot ediff1d einsum
fix inner interp isclose isfinite iscomplexobj isrealobj isscalar kron matmul nan_to_num ndim outer
round shape size tensordot trapezoid unwrap vdot cumulative_sum cumulative_prod"""
OTHERS = """asnumpy broadcast_shapes can_cast common_type finfo iinfo isdtype
issubdtype may_share_memory min_scalar_type promote_types result_type shares_memory"""
ELEMENTWISE = """absolute abs add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and
bitwise_or bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide equal
exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod gcd greater greater_equal
hypot invert isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp
logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative
nextafter not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign
signbit sin sinh sqrt square subtract tan tanh true_divide trunc"""
FUNCTIONS = [CREATORS, REDUCERS, MOVERS, SEARCHERS, NUMBERS, OTHERS, ELEMENTWISE]
METHODS = """all any argmax argmin argpartition argsort astype clip compress conj conjugate copy
cumprod cumsum diagonal dot fill flatten get item max mean min nonzero partition prod ptp put ravel
repeat reshape round searchsorted set sort squeeze std sum swapaxes take tobytes tolist trace
transpose var view"""

FOREIGN = "__index__ __contains__ __array_interface__ ctypes resize setfield getfield".split()
"""Attributes of NumPy's arrays, some of which CuPy's lack."""


def parameters_of(function: Any) -> str | None:
    """Return the parameters as text: by introspection, else the first line of the docstring."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        first = (getattr(function, "__doc__", None) or "").strip().split("\n")[0]
        found = re.match(r"[\w.]+\((.*?)\)( ->.*)?$", first.replace("\\", ""))
        if found is None:
            return None
        typed = r"\b(int|bint|tuple|Py_ssize_t|_ndarray_base) (?=\w)"  # of Cython
        text = re.sub(r"^self(, )?", "", re.sub(typed, "", found[1]))
        return re.sub(r"\bu'", "'", text)
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    text = str(inspect.Signature(kept))[1:-1]
    return text.replace("<class 'float'>", "'float'")


def columns() -> dict[str, Any]:
    """Return what the CuPy that is installed has, by name: parameters, or null."""
    import cupy

    found = {
        name: parameters_of(getattr(cupy, name)) if hasattr(cupy, name) else None
        for names in FUNCTIONS
        for name in names.split()
    }
    for name in METHODS.split():
        found[f"ndarray.{name}"] = parameters_of(getattr(cupy.ndarray, name))
    return found | {f"ndarray.{name}": None for name in FOREIGN if not hasattr(cupy.ndarray, name)}


def main() -> None:
    """Add the column of the CuPy that is installed."""
    import cupy

    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    for name, parameters in columns().items():
        table.setdefault(name, {})[cupy.__version__] = parameters
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in table.items())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
