"""The kernels that CuPy compiles at the first use of a function: each takes a tenth of a second or
more on a machine that has none of them yet.

As CuPy 14 does (``cupy/_core``): a function of elements, a copy that changes types or gaps, a fill
with anything but zeros, a reduction, a scan and an index of arrays are kernels of their own for
each combination of types, and of layouts: contiguous arrays count as one axis. Sorting comes
compiled; the driver copies between contiguous arrays of a type, and sets contiguous ones to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .machine import state

NONE = set(
    """empty empty_like zeros zeros_like sort argsort lexsort shape ndim size broadcast_to
    broadcast_arrays expand_dims squeeze swapaxes moveaxis transpose diagonal atleast_1d atleast_2d
    array_split split hsplit vsplit flip""".split()
)
"""Functions that compile nothing: they return views, or come compiled."""
VIEWS_OR_COPIES = {"reshape", "ravel"}
SCANNED = {
    "nonzero", "flatnonzero", "argwhere", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "compress", "extract", "delete",
}  # fmt: skip
"""Functions that count before they write: a scan, with another kernel for its last part."""
FILLS = {"ones": "fill", "ones_like": "fill", "full": "fill", "full_like": "fill"}


def note(name: str, *operands: Any) -> None:
    """Note a kernel for operands, the last of which are its results."""
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    is_flat = all(array.flags.c_contiguous and array.size == arrays[-1].size for array in arrays)
    axes = 1 if is_flat else max(array.ndim for array in arrays)
    kinds = [
        operand.dtype.name if isinstance(operand, np.ndarray) else f"one {np.result_type(operand)}"
        for operand in operands
        if isinstance(operand, (np.ndarray, np.generic, bool, int, float, complex))
    ]
    state.log.compiled.add(f"{name}({', '.join(kinds)}; {axes} axes)")


def note_call(name: str, operands: Any, found: Any) -> None:
    """Note what a function compiles."""
    if name in NONE or isinstance(found, np.ndarray) and not found.size:
        return
    if name in VIEWS_OR_COPIES:
        if not np.may_share_memory(found, operands[0]):
            note("copy", operands[0], found)
        return
    if name in SCANNED:
        state.log.compiled.update(f"{part} of {name}" for part in ("scan", "end of scan"))
    flat = [part for operand in operands for part in _parts(operand)]
    results = found if isinstance(found, (tuple, list)) else [found]
    note(FILLS.get(name, name), *(results if name in FILLS else [*flat, *results]))


def _parts(operand: Any) -> list[Any]:
    """Return the types of a sequence of arrays once each: such kernels read pointers."""
    if isinstance(operand, (tuple, list)):
        arrays = [part for part in operand if isinstance(part, np.ndarray)]
        return list({part.dtype: part for part in arrays}.values())
    return [operand] if isinstance(operand, np.ndarray) else []


def note_index(name: str, source: Any, key: Any, target: np.ndarray) -> None:
    """Note what an index of arrays compiles; a mask is turned into numbers first."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, np.ndarray) and part.dtype == bool for part in parts):
        note_call("nonzero", (), np.ones(1, np.int64))
    note(name, source, *(part for part in parts if isinstance(part, np.ndarray)), target)


def note_copy(source: np.ndarray, target: np.ndarray) -> None:
    """Note a copy, unless the driver does it."""
    alike = source.dtype == target.dtype and source.shape == target.shape
    if target.size and not (
        alike and source.strides == target.strides and target.flags.c_contiguous
    ):
        note("copy", source, target)


def note_fill(target: np.ndarray, value: Any) -> None:
    """Note a fill, unless the driver does it."""
    if target.size and not (value == 0 and target.flags.c_contiguous):
        note("fill", target)
