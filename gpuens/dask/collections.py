"""Tables in parts: dask arrays, dask data frames and lists of delayed parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.delayed import Delayed
from scipy.sparse import issparse, vstack

from ..devices.placement import gpu_of, is_gpu_frame, module_of


class Part(NamedTuple):
    """The rows of a part, by the names of the arguments of ``fit``; None where none are given."""

    X: Any
    y: Any
    sample_weight: Any
    qid: Any = None
    position: Any = None


def is_collection(X: Any) -> bool:
    """Return whether X is in parts."""
    return bool(dask.is_dask_collection(X)) or _is_list_of_parts(X)


def parts_of(X: Any, y: Any, weight: Any, qid: Any = None, position: Any = None) -> list[Delayed]:
    """Return the parts of a table, as ``Part``. Raises a TypeError or a ValueError if an argument
    is not in parts, or they are cut differently."""
    given = dict(zip(Part._fields, (X, y, weight, qid, position), strict=True))
    chunks = getattr(X, "chunks", None)
    lists = {
        name: _delayed(array, name, chunks) for name, array in given.items() if array is not None
    }
    counts = {name: len(parts) for name, parts in lists.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"{_listed(lists)} must be cut at the same rows, got "
            + ", ".join(f"{name} in {n} parts" for name, n in counts.items())
            + ": repartition them, or call compute_chunk_sizes() on dask arrays."
        )
    nothing: list[Any] = [None] * counts["X"]
    part = dask.delayed(Part, pure=False)
    columns = (lists.get(name, nothing) for name in given)
    return [part(*each) for each in zip(*columns, strict=True)]


def length_of(part: Part, number: int) -> int:
    """Return the rows of a part. Raises a ValueError if its arrays differ in length."""
    rows = {
        name: int(array.shape[0]) for name, array in part._asdict().items() if array is not None
    }
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{name} has {n} rows" for name, n in rows.items())
        raise ValueError(
            f"{_listed(rows)} must be cut at the same rows, but in part {number} {found}."
        )
    return rows["X"]


def rows_of(part: Part, begin: int, end: int) -> Part:
    """Return some rows of a part."""
    return Part(*(None if array is None else _some(array, begin, end) for array in part))


def joined(parts: Sequence[Part]) -> Part:
    """Return the rows of all parts together."""
    return Part(*(None if each[0] is None else _join(each) for each in zip(*parts, strict=True)))


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"


def _some(array: Any, begin: int, end: int) -> Any:
    if hasattr(array, "iloc"):
        return array.iloc[begin:end]
    return (array.tocsr() if issparse(array) else array)[begin:end]


def _join(arrays: Sequence[Any]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    if len({gpu_of(array) for array in arrays}) > 1:
        raise TypeError(
            "All parts of an argument that a worker has must be on its GPU, or all in the memory "
            "of the host: copy them to the same place."
        )
    if hasattr(arrays[0], "iloc"):
        frames = import_module("cudf" if is_gpu_frame(arrays[0]) else "pandas")
        return frames.concat(arrays, ignore_index=True)
    if any(map(issparse, arrays)):
        return vstack(arrays, format="csr")
    return module_of(arrays[0]).concat(arrays)


def _is_list_of_parts(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(p, Delayed) for p in X)


def _delayed(array: Any, name: str, chunks: Any) -> list[Delayed]:
    """Return the parts of one argument. A dask array is cut at the rows of X, ``chunks``."""
    if _is_list_of_parts(array):
        return list(array)
    if not dask.is_dask_collection(array) or not hasattr(array, "to_delayed"):
        raise TypeError(
            f"{name} must be a dask array, a dask data frame or a list of delayed parts, got "
            f"{type(array).__name__}. For data in memory use the estimator of gpuens."
        )
    if hasattr(array, "chunks"):
        if array.ndim > 1 and len(array.chunks[1]) > 1:
            array = array.rechunk({1: -1})
        known = chunks is not None and not any(np.isnan(n) for n in (*chunks[0], *array.chunks[0]))
        if known and array.chunks[0] != chunks[0] and array.shape[0] == sum(chunks[0]):
            array = array.rechunk({0: chunks[0]})
    return list(np.ravel(array.to_delayed()))
