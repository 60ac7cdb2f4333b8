"""A table as memory plans see it: its shape and where it is, not its values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from ..devices.placement import Device, gpu_of, resolve_device, to_numpy
from .binned_table import BinnedTable
from .worker_rows import ranges_of


class PlannedTable(NamedTuple):
    """The table of a training that is planned.

    ``shape`` has the rows of the worker that has most, where ``n_workers`` share the ``n_all`` rows
    of X, and the features; ``itemsize`` is the bytes of a value after reading; ``n_outputs`` counts
    classes or targets; ``weighted`` is whether rows have weights, and ``is_there`` whether ``fit``
    reads X in place.
    """

    X: Any
    shape: tuple[int, int]
    itemsize: int
    n_outputs: int
    weighted: bool
    n_workers: int | None
    n_all: int | None
    is_there: bool
    device: Device


def planned_table(
    estimator: Any, wanted: str, X: Any, y: Any, sample_weight: Any, n_outputs: int | None,
    n_workers: int | None,
) -> PlannedTable:  # fmt: skip
    """Return what is known of a table before it is read, on the device that ``wanted`` names."""
    shape, itemsize = _shape_of(X)
    n_all = None
    work = estimator._training_work(np.broadcast_to(np.float32(), shape), y)
    if n_workers is not None:
        n_all, n_workers = shape[0], int(n_workers)
        work = work.among(n_workers)
        shape = max(end - begin for begin, end in ranges_of([n_all], n_workers)), shape[1]
    device = resolve_device(wanted, X, work=work, y=y, sample_weight=sample_weight)
    weighted = sample_weight is not None or getattr(X, "sample_weight", None) is not None
    if n_outputs is None:
        n_outputs = _count_outputs(y, is_classifier(estimator))
    return PlannedTable(
        X, shape, itemsize, n_outputs, weighted, n_workers, n_all, _is_there(X, device), device
    )


def _shape_of(X: Any) -> tuple[tuple[int, int], int]:
    """Return the rows and features, and the bytes of a value after reading."""
    shape = tuple(X) if isinstance(X, tuple) else tuple(getattr(X, "shape", ()))
    if len(shape) != 2 or not all(int(size) == size and size > 0 for size in shape):
        raise ValueError(
            f"X must be a table, or its numbers of rows and features, got shape {shape}: pass an "
            "array with two dimensions, or a tuple such as (1_000_000, 28)."
        )
    dtype = str(getattr(X, "dtype", "float64"))
    narrow = isinstance(X, tuple) or any(name in dtype for name in ("float32", "float16", "bool"))
    return (int(shape[0]), int(shape[1])), 4 if narrow or dtype.endswith(("int8", "int16")) else 8


def _is_there(X: Any, device: Device) -> bool:
    """Return whether ``fit`` reads X in place."""
    if gpu_of(X) is not None:
        return device.holds(X)
    if isinstance(X, BinnedTable):
        return True
    plain = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
    return plain and device.has_numpy


def _count_outputs(y: Any, is_of_classes: bool) -> int:
    if y is None:
        return 2 if is_of_classes else 1
    values = to_numpy(y)
    if not is_of_classes:
        return values.shape[1] if values.ndim == 2 else 1
    columns = values.reshape(values.shape[0], -1).T
    return sum(len(np.unique(column)) for column in columns)
