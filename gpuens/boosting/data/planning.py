"""The memory that the training of an estimator takes, planned before its table is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from ...devices.memory_plan import MemoryPlan, code_bytes
from ...devices.placement import is_sparse
from ...devices.sparse_tables import SparseTable
from ...inputs.sparse_codes import ENTRY_BYTES
from ...inputs.sparse_matrices import read_sparse
from ...kernels.growth.params import GrowthParams
from ...tables.binned_table import BinnedTable
from ...tables.planned import PlannedTable
from ...tables.worker_rows import ranges_of
from ..parameters import growth_params
from .auto_values import settled
from .memory import boosting_plan
from .size import DataSize
from .tables import BinsTable, EntriesTable


def plan_of_training(estimator: Any, table: PlannedTable) -> MemoryPlan:
    """Return the plan of gradient boosting on a table."""
    n_outputs, shape, n_all = table.n_outputs, table.shape, table.n_all
    is_of_classes = is_classifier(estimator)
    n_trees = (1 if n_outputs <= 2 else n_outputs) if is_of_classes else n_outputs
    loss = estimator._read_loss()
    n_trees *= loss.n_outputs  # quantiles, or parameters of a distribution
    if is_of_classes:
        loss = loss.for_classes(max(2, n_outputs))
    stops_early = estimator._stops_early(n_all or shape[0], False)
    estimator = settled(
        estimator, loss, n_all or shape[0], is_sparse(table.X), n_all is not None, stops_early
    )
    params = growth_params(estimator, (n_all or shape[0], shape[1]))
    if is_sparse(table.X):
        size = _size_of_entries(estimator, params, table, n_trees)
        return boosting_plan(estimator, loss, params, size, table.device)
    size = DataSize(
        shape,
        table.itemsize,
        n_outputs=n_trees,
        weighted=table.weighted,
        is_there=table.is_there,
        splits=stops_early and estimator.validation_fraction is not None,
        n_all=n_all,
    )
    if isinstance(table.X, BinnedTable):
        size = replace(size, **BinsTable(table.X).size_of_bins(table.device, n_all))
    return boosting_plan(estimator, loss, params, size, table.device)


def _size_of_entries(
    estimator: Any, params: GrowthParams, table: PlannedTable, n_trees: int
) -> DataSize:
    """Return what a training has of a sparse table, or a worker."""
    entries = read_sparse(table.X, estimator=clone(estimator), reset=True, name="X")
    of_entries = EntriesTable(entries)
    columns = of_entries.columns_to_grow_on(params, ())
    size = replace(of_entries.size(columns, table.device, n_trees), weighted=table.weighted)
    if table.n_workers is None:
        return size
    own = entries if columns is None else entries.columns(columns)
    return _of_a_worker(size, own, table.n_workers)


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
