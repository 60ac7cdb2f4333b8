"""Bins of a table whose rows several workers share."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ...devices.placement import CPU, Device, module_of, to_numpy
from ...devices.sparse_tables import SparseTable
from ...inputs.binning import FEATURES_AT_ONCE, Binner, sample_rows
from ...inputs.category_bins import count_categories, with_counts
from ...inputs.shared_tables import entries_of_all, sparse_columns_of_all
from ...inputs.sparse_bins import ENTRIES_AT_ONCE, fit_sparse_binner, parts_of_columns
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import Workers, objects_of_all


def refuse(name: str, value: Any, instead: str) -> NoReturn:
    """Raise NotImplementedError for a parameter, with what to do instead."""
    raise NotImplementedError(
        f"{name}={value!r} is not supported where several workers share the rows: {instead}, or "
        "train on one machine."
    )


def _rows_on_host(values: Array, at: np.ndarray) -> np.ndarray:
    """Return some rows of an array as a contiguous one on the host."""
    return np.ascontiguousarray(to_numpy(values[module_of(values).asarray(at)]))


def _sampled(model: Any, weight: Array, workers: Workers) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the numbers of this worker's rows that ``Binner.fit`` samples of all rows, and the
    weights of all of these."""
    collective = workers.collective
    at, first, n_used = np.arange(workers.n_own), workers.first, workers.n_all
    if weight.size:
        at = np.flatnonzero(to_numpy(weight) > 0)
        of_workers = objects_of_all(at.size, workers)
        first, n_used = sum(of_workers[: collective.rank]), sum(of_workers)
    sampled = sample_rows(n_used, model._seed)
    if sampled is not None:
        inside = (sampled >= first) & (sampled < first + at.size)
        at = at[sampled[inside] - first]
    of_sample = None
    if weight.size:
        of_sample = np.concatenate(collective.gather(_rows_on_host(weight, at)))
    return at, of_sample


def fit_shared_binner(
    model: Any, values: Array, weight: Array, workers: Workers, device: Device
) -> Binner:
    """Return the bins that ``Binner.fit`` chooses for all rows.

    The rows that it samples are gathered, some columns at a time, and each worker cuts its own
    columns.
    """
    collective = workers.collective
    at, of_sample = _sampled(model, weight, workers)
    n_features = values.shape[1]
    cuts: list[np.ndarray] = []
    for begin in range(0, n_features, FEATURES_AT_ONCE * collective.size):
        end = min(begin + FEATURES_AT_ONCE * collective.size, n_features)
        own = _rows_on_host(values[:, begin:end], at)
        sample = np.concatenate(collective.gather(own))
        bounds = np.linspace(0, end - begin, collective.size + 1).astype(int)
        mine = sample[:, bounds[collective.rank] : bounds[collective.rank + 1]]
        of_mine = Binner.fit(mine, of_sample, int(model.max_bins), model._seed, CPU)
        for each in objects_of_all(of_mine.thresholds, workers):
            cuts += each
    binner = Binner(tuple(cuts))
    n_categories = model._n_categories()
    if not n_categories.any():
        return binner
    of_rows = weight if weight.size else None
    counts = count_categories(values, of_rows, n_categories, device)
    for of_feature in counts:
        if of_feature is not None:
            collective.add(of_feature)
    return with_counts(binner, counts, int(model.max_bins), int(model.cat_hash_groups), model._seed)


def fit_shared_sparse_binner(
    model: Any, values: SparseTable, weight: Array, workers: Workers, device: Device
) -> Binner:
    """Return the same bins of the columns of a sparse table."""
    if device.is_gpu:
        refuse("device", model.device, "set device='cpu' for a sparse X")
    collective = workers.collective
    at, of_sample = _sampled(model, weight, workers)
    sample = values if at.size == workers.n_own else values[at]
    indptr = np.cumsum(np.append(0, entries_of_all(sample, workers)))
    cuts: list[np.ndarray] = []
    for features in parts_of_columns(indptr, ENTRIES_AT_ONCE):
        table = sparse_columns_of_all(sample, slice(features.start, features.stop), workers)
        bounds = np.linspace(0, len(features), collective.size + 1).astype(int)
        mine = table.columns(slice(*bounds[collective.rank : collective.rank + 2]))
        of_mine = fit_sparse_binner(mine, of_sample, int(model.max_bins), model._seed)
        for each in objects_of_all(of_mine.thresholds, workers):
            cuts += each
    return Binner(tuple(cuts))
