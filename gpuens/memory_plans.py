"""The memory that a training would take, before it is started."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .boosting.estimator import BoostingEstimator
from .boosting.memory import boosting_plan
from .devices.memory_plan import MemoryPlan
from .devices.placement import Device, gpu_of, resolve_device, to_numpy
from .trees.cart import CartEstimator
from .trees.growth import cart_plan


def memory_plan(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    n_outputs: int | None = None,
) -> MemoryPlan:
    """How much memory ``estimator.fit(X, y, sample_weight)`` takes, by what takes it.

    Gradient boosting makes the same plan at the start of ``fit``: it refuses what does not fit
    before it trains, and prints the plan if ``verbose`` is set.

    Parameters
    ----------
    estimator : estimator
        Gradient boosting, a decision tree or a forest of ``gpuens``. It is not changed.
    X : array, data frame, or tuple (n_rows, n_features)
        Only its shape, its type and its place are looked at. A tuple stands for a table of
        float32 in the memory of the host, which need not exist.
    y : array, default=None
        Says how many classes or targets there are.
    sample_weight : array, default=None
    n_outputs : int, default=None
        Classes, or targets, instead of y.

    Returns
    -------
    MemoryPlan
        ``parts`` (bytes by name), ``total``, ``free`` (bytes that the device has left) and
        ``fits``; as text it is one line. Numbers of nodes are estimates: they depend on the data.

    Raises
    ------
    TypeError
        The estimator is another one.
    ValueError
        X has no rows and columns.
    RuntimeError
        ``device`` asks for a GPU that cannot be used.

    Examples
    --------
    >>> from gpuens import GradientBoostingRegressor, memory_plan
    >>> plan = memory_plan(GradientBoostingRegressor(device="cpu"), (1_000_000, 28))
    >>> plan.parts["bins"]
    60000000
    >>> print(plan)  # doctest: +ELLIPSIS
    Gradient boosting with 1,000,000 x 28 values on cpu takes about ...
    """
    if not isinstance(estimator, (BoostingEstimator, CartEstimator)):
        raise TypeError(
            "memory_plan knows the estimators of gradient boosting, trees and forests, got "
            f"{type(estimator).__name__}: pass one of those."
        )
    shape, itemsize = _shape_of(X)
    device = resolve_device(estimator.device, X, y=y, sample_weight=sample_weight)
    is_there = _is_there(X, device)
    is_of_classes = is_classifier(estimator)
    if n_outputs is None:
        n_outputs = _count_outputs(y, is_of_classes)
    if isinstance(estimator, CartEstimator):
        return cart_plan(
            estimator,
            shape,
            itemsize,
            device,
            width=max(2, n_outputs) if is_of_classes else n_outputs,
            n_outputs=1 if is_of_classes else n_outputs,
            is_there=is_there,
        )
    n_trees = (1 if n_outputs <= 2 else n_outputs) if is_of_classes else n_outputs
    n_trees *= np.size(getattr(estimator, "quantile", None) or 1)
    holds_out = estimator.validation_fraction is not None
    return boosting_plan(
        estimator,
        shape,
        itemsize,
        device,
        n_outputs=n_trees,
        weighted=sample_weight is not None,
        is_there=is_there,
        splits=holds_out and estimator._stops_early(shape[0], False),
    )


def _shape_of(X: Any) -> tuple[tuple[int, int], int]:
    """Rows and features, and bytes of a value once it is read."""
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
    """Whether ``fit`` reads X where it is."""
    if gpu_of(X) is not None:
        return device.holds(X)
    plain = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
    return plain and device.xp is np


def _count_outputs(y: Any, is_of_classes: bool) -> int:
    if y is None:
        return 2 if is_of_classes else 1
    values = to_numpy(y)
    if not is_of_classes:
        return values.shape[1] if values.ndim == 2 else 1
    columns = values.reshape(values.shape[0], -1).T
    return sum(len(np.unique(column)) for column in columns)
