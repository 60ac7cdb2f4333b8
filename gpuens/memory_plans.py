"""The memory that a training would take, known before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import _num_samples

from .boosting.data.auto_values import settled
from .boosting.data.memory import boosting_plan
from .boosting.data.size import DataSize
from .boosting.data.tables import BinsTable, EntriesTable
from .boosting.estimator import BoostingEstimator
from .boosting.parameters import growth_params
from .boosting.steps.plain import BATCH_RECORDS_ON_GPU
from .cluster.rows import ranges_of
from .devices.memory_plan import MemoryPlan, code_bytes
from .devices.placement import Device, gpu_of, is_sparse, resolve_device, to_numpy
from .devices.sparse_tables import SparseTable
from .estimators.parameters import threads_of
from .inputs.sparse_codes import ENTRY_BYTES
from .inputs.sparse_matrices import read_sparse
from .kernels.growth.params import GrowthParams
from .tables.binned_table import BinnedTable
from .trees.cart import CartEstimator
from .trees.growth import cart_plan
from .trees.table import bytes_of_cell

UNKNOWN_CELL_BYTES = 64
MOST_TOGETHER = 128
"""Models that grow together on a GPU unless ``n_jobs`` says otherwise: each is a thread, too."""
COPIED_TOGETHER = "bins", "target and weights"
"""The parts of a plan that are copied into one array where models that grow together have rows of
their own, as folds do."""
ROWS_TO_GROW_TOGETHER = BATCH_RECORDS_ON_GPU // 2
"""Tables with more rows have no second tree in a batch."""


def memory_plan(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    n_outputs: int | None = None,
    n_workers: int | None = None,
) -> MemoryPlan:
    """Estimate the memory that ``estimator.fit(X, y, sample_weight)`` takes, part by part.

    Gradient boosting makes the same plan at the start of ``fit``: it raises MemoryError before
    training if the data does not fit, and prints the plan if ``verbose`` is 2 or more.

    Parameters
    ----------
    estimator : estimator
        Gradient boosting, a decision tree or a forest of ``gpuens``. It is not changed.
    X : array, data frame, sparse matrix, BinnedTable, or tuple (n_rows, n_features)
        Only its shape, dtype and device are read, and the places of a sparse one's entries. A tuple
        means a float32 table in host memory,
        which need not exist.
    y : array, default=None
        Read for the number of classes or targets.
    sample_weight : array, default=None
        Weights of the rows, which take room too; only whether there are any is read.
    n_outputs : int, default=None
        Number of classes or targets, instead of y.
    n_workers : int, default=None
        Workers of a cluster that share the rows of X: the plan is that of one of them, beside the
        partitions that it holds. For gradient boosting on the CPU, for forests where ``device``
        has their trees grow: on a GPU, beside what ``device="cpu"`` takes on its host.

    Returns
    -------
    MemoryPlan
        ``parts`` (bytes by name), ``total``, ``free`` (bytes that the device has left) and
        ``fits``; ``streams`` where a table is read in the order of its rows because it does not
        fit, and ``n_resident``, of these rows those that stay in the device's memory. As text it
        is one line.
        Numbers of nodes are estimates: they depend on the data.

    Raises
    ------
    TypeError
        The estimator is of another kind.
    ValueError
        X has no rows or no columns; ``n_workers`` is not a whole number from 1, or the estimator or
        X is of a kind that workers do not share.
    RuntimeError
        ``device`` requires a GPU that cannot be used.

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
            "estimator must be one of gradient boosting, trees and forests, got "
            f"{type(estimator).__name__}: memory_plan knows no others."
        )
    shape, itemsize = _shape_of(X)
    wanted, n_all = estimator.device, None
    work = estimator._training_work(np.broadcast_to(np.float32(), shape), y)
    if n_workers is not None:
        _require_workers(n_workers, estimator, X)
        n_all = shape[0]
        work = work.among(int(n_workers))
        wanted = estimator.device if isinstance(estimator, CartEstimator) else "cpu"
        shape = max(end - begin for begin, end in ranges_of([n_all], int(n_workers))), shape[1]
    device = resolve_device(wanted, X, work=work, y=y, sample_weight=sample_weight)
    is_there = _is_there(X, device)
    if n_outputs is None:
        n_outputs = _count_outputs(y, is_classifier(estimator))
    if isinstance(estimator, CartEstimator):
        return _plan_of_trees(estimator, X, shape, itemsize, n_outputs, n_all, is_there, device)
    return _plan_of_boosting(
        estimator, X, sample_weight, shape, itemsize, n_outputs, n_workers, n_all, is_there, device
    )


def _plan_of_trees(
    estimator: CartEstimator,
    X: Any,
    shape: tuple[int, int],
    itemsize: int,
    n_outputs: int,
    n_all: int | None,
    is_there: bool,
    device: Device,
) -> MemoryPlan:
    """Plan a tree or a forest on ``shape`` rows and features, a worker's part of ``n_all`` rows."""
    of_cell, is_of_classes = None, is_classifier(estimator)
    if is_sparse(X):
        table = read_sparse(X, estimator=clone(estimator), reset=True, name="X")
        of_cell = bytes_of_cell(table, estimator.max_bins)
    return cart_plan(
        estimator,
        (n_all or shape[0], shape[1]),
        itemsize,
        device,
        width=max(2, n_outputs) if is_of_classes else n_outputs,
        n_outputs=1 if is_of_classes else n_outputs,
        is_there=is_there,
        n_own=n_all and shape[0],
        cell_bytes=of_cell,
    )


def _plan_of_boosting(
    estimator: BoostingEstimator,
    X: Any,
    sample_weight: Any,
    shape: tuple[int, int],
    itemsize: int,
    n_outputs: int,
    n_workers: int | None,
    n_all: int | None,
    is_there: bool,
    device: Device,
) -> MemoryPlan:
    """Plan a training on ``shape`` rows and features, a worker's part of ``n_all`` rows."""
    is_of_classes = is_classifier(estimator)
    n_trees = (1 if n_outputs <= 2 else n_outputs) if is_of_classes else n_outputs
    loss = estimator._read_loss()
    n_trees *= loss.n_outputs  # quantiles, or parameters of a distribution
    if is_of_classes:
        loss = loss.for_classes(max(2, n_outputs))
    stops_early = estimator._stops_early(n_all or shape[0], False)
    estimator = settled(
        estimator, loss, n_all or shape[0], is_sparse(X), n_workers is not None, stops_early
    )
    params = growth_params(estimator, (n_all or shape[0], shape[1]))
    if is_sparse(X):
        table = read_sparse(X, estimator=clone(estimator), reset=True, name="X")
        size = _size_of_entries(table, params, device, n_trees, n_workers)
        size = replace(size, weighted=sample_weight is not None)
        return boosting_plan(estimator, loss, params, size, device)
    size = DataSize(
        shape,
        itemsize,
        n_outputs=n_trees,
        weighted=sample_weight is not None or getattr(X, "sample_weight", None) is not None,
        is_there=is_there,
        splits=stops_early and estimator.validation_fraction is not None,
        n_all=n_all,
    )
    if isinstance(X, BinnedTable):
        size = replace(size, **BinsTable(X).size_of_bins(device, n_all))
    return boosting_plan(estimator, loss, params, size, device)


def _require_workers(n_workers: int, estimator: Any, X: Any) -> None:
    if isinstance(n_workers, bool) or not isinstance(n_workers, Integral) or n_workers < 1:
        raise ValueError(f"n_workers must be a whole number from 1, got {n_workers!r}.")
    if not (isinstance(estimator, BoostingEstimator) or estimator._grows_among_workers):
        raise ValueError(
            f"n_workers={n_workers} is for gradient boosting and forests, whose rows workers can "
            f"share, got {type(estimator).__name__}: set n_workers=None."
        )
    if isinstance(X, BinnedTable):
        raise ValueError(
            f"n_workers={n_workers} is for arrays, data frames, sparse matrices and shapes, whose "
            "rows workers can share, got a BinnedTable: set n_workers=None."
        )


def _size_of_entries(
    table: SparseTable, params: GrowthParams, device: Device, n_trees: int, n_workers: int | None
) -> DataSize:
    """Return what a training has of a sparse table, or a worker."""
    of_entries = EntriesTable(table)
    columns = of_entries.columns_to_grow_on(params, ())
    size = of_entries.size(columns, device, n_trees)
    if n_workers is None:
        return size
    return _of_a_worker(size, table if columns is None else table.columns(columns), int(n_workers))


def _of_a_worker(size: DataSize, table: SparseTable, n_workers: int) -> DataSize:
    """Return what a worker has of a sparse table: the most rows, and the most entries, of any."""
    n_all, n_features = table.shape
    ranges = ranges_of([n_all], n_workers)
    n_own = max(end - begin for begin, end in ranges)
    bins = n_own * code_bytes(n_features)
    if size.n_places is not None:
        before = np.cumsum([0, *np.bincount(table.entries.indices, minlength=n_all)])
        bins = ENTRY_BYTES * max(int(before[end] - before[begin]) for begin, end in ranges)
    return replace(size, shape=(n_own, n_features), n_all=n_all, bins=bins)


def trainings_at_once(
    estimators: Sequence[Any], X: Any, y: Any = None, copied: Sequence[str] = ()
) -> int | None:
    """Return how many of the trainings that GPUs would do fit into free memory side by side, at
    least 1; None if there are none on a GPU, or free memory is unknown. Each takes the parts of its
    plan that are ``copied`` twice.

    Where no plan is known, or the settings are wrong, which ``fit`` reports, a training counts as
    ``UNKNOWN_CELL_BYTES`` for each value of a table that is on the GPU already.
    """
    rooms = []
    for estimator in estimators:
        try:
            plan = memory_plan(estimator, X, y)
        except (ValueError, TypeError):
            index = gpu_of(X)
            if index is not None:
                free, _ = Device("cuda", index).memory()
                rooms.append((free, UNKNOWN_CELL_BYTES * X.shape[0] * X.shape[1]))
        else:
            if plan.device.is_gpu:
                copies = sum(plan.parts.get(name, 0) for name in copied)
                rooms.append((plan.free, plan.total + copies))
    return min((max(1, free // size) for free, size in rooms if free is not None), default=None)


def fits_together(estimators: Sequence[Any], X: Any, y: Any, n_jobs: Any) -> int:
    """Return how many models to grow together on a GPU, where a round of one is as many launches as
    one of all: no more than free memory holds; 1 where some are not boosted on a GPU, or in rounds
    of their own. On the CPU, where nothing is launched, threads of their own are faster."""
    may_meet = n_jobs != 1 and all(map(_may_meet, estimators))
    if not may_meet or _num_samples(X) > ROWS_TO_GROW_TOGETHER:
        return 1
    room = trainings_at_once(estimators, X, y, COPIED_TOGETHER)
    most = MOST_TOGETHER if n_jobs is None else threads_of(n_jobs)
    return 1 if room is None else min(room, most)


def _may_meet(estimator: Any) -> bool:
    if not isinstance(estimator, BoostingEstimator):
        return False
    has_own_rounds = estimator.dropout or estimator.line_search or estimator.linear_leaves
    return not has_own_rounds and estimator.grow_policy != "symmetric"


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
