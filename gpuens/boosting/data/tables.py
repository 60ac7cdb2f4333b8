"""The kinds of tables that boosting is trained on, behind one interface: numbers, entries of a
sparse matrix, and bins that were made before; what the memory of a training depends on; and the
bins of a table whose rows several workers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from ...devices.memory_plan import code_bytes
from ...devices.placement import CPU, Device, is_streamed, module_of, to_numpy
from ...devices.sparse_tables import SparseTable
from ...forest.forest import Forest
from ...inputs.binning import FEATURES_AT_ONCE, Binner, sample_rows
from ...inputs.category_bins import count_categories, with_bins_of_categories, with_counts
from ...inputs.shared_tables import dealt_rows, entries_of_all, sparse_columns_of_all
from ...inputs.sparse import ENTRY_BYTES, stays_sparse
from ...inputs.sparse_bins import (
    ENTRIES_AT_ONCE,
    columns_that_split,
    fit_sparse_binner,
    parts_of_columns,
)
from ...kernels.growth.params import GrowthParams
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import ONE_WORKER, Workers, objects_of_all
from ...kernels.runtime.dtypes import MAX_BINS
from ...tables.binned_table import BinnedTable


@dataclass(frozen=True)
class DataSize:
    """The properties of the training data that its memory depends on.

    Parameters
    ----------
    shape : tuple of int
        Rows and features.
    itemsize : int
        Bytes of a value of the table, 4 or 8.
    n_outputs : int
        Trees of a round.
    weighted : bool
        Whether rows have weights.
    evaluated : sequence of int
        Rows of each evaluation set.
    is_there : bool
        Whether the table is on the device already and needs no conversion. Otherwise it comes to a
        GPU in pieces, and the rows held out are set apart on the host.
    splits : bool
        Whether rows are held out for early stopping, which copies the table.
    is_binned : bool
        Whether the table has been binned before, in memory or in a mapped file.
    on_disk : int
        Bytes of the codes in a mapped file.
    can_stream : bool
        Whether growth may read the codes in the order of the rows, so that records stay in place:
        from a mapped file, and for a GPU from any memory of the host.
    streams : bool
        Whether it does.
    n_resident : int
        Rows whose codes then stay in the device's memory.
    n_sparse : int or None
        Of a sparse table its columns; ``shape`` has those that trees are grown on.
    n_all : int or None
        Rows of all workers where these share the table, of which ``shape`` has one worker's.
    n_places : int or None
        Entries of a histogram where codes leave out the zeros.
    bins, evaluated_bins : int or None
        Bytes of the codes of sparse tables, of all rows and of all evaluation sets.
    evaluated_binned : int
        Rows of the evaluation sets that have been binned before.
    """

    shape: tuple[int, int]
    itemsize: int
    n_outputs: int = 1
    weighted: bool = False
    evaluated: Sequence[int] = ()
    is_there: bool = False
    splits: bool = False
    is_binned: bool = False
    on_disk: int = 0
    can_stream: bool = False
    streams: bool = False
    n_resident: int = 0
    n_sparse: int | None = None
    n_all: int | None = None
    n_places: int | None = None
    bins: int | None = None
    evaluated_bins: int | None = None
    evaluated_binned: int = 0


class FeatureTable:
    """The features of some rows, as numbers in an array.

    Parameters
    ----------
    values : float32 or float64, shape (n_rows, n_features)
        In host memory or on the device.
    workers : Workers
        Those that share the rows.
    """

    is_binned: ClassVar[bool] = False
    is_sparse: ClassVar[bool] = False
    without_values: ClassVar[tuple[str, str, str] | None] = None
    """For errors: the table, the reason why it has no numbers, and a table to pass instead."""

    def __init__(self, values: Any, workers: Workers = ONE_WORKER) -> None:
        self.values, self.workers = values, workers
        n_rows, n_features = values.shape
        self.shape = int(n_rows), int(n_features)
        self.n_all = self.shape[0] if workers is ONE_WORKER else workers.n_all

    def rows(self, at: np.ndarray, device: Device) -> FeatureTable:
        """Return some rows, by their numbers on the host."""
        return type(self)(
            self.values[at if is_streamed(self.values, device) else device.asarray(at)]
        )

    def dealt(
        self, order: np.ndarray, ranges: list[tuple[int, int]], workers: Workers
    ) -> FeatureTable:
        """Return the rows that this worker gets of the table of all (see ``dealt_rows``), which
        ``workers`` share."""
        return type(self)(dealt_rows(self.values, order, ranges, self.workers), workers)

    def fit_binner(self, model: Any, weight: Array, device: Device) -> Binner:
        """Return the bins of the features, of all workers' rows where they share the table."""
        if self.workers is not ONE_WORKER:
            return fit_shared_binner(model, self.values, weight, self.workers, device)
        given = weight if weight.size else None
        most, seed = int(model.max_bins), model._seed
        binner = Binner.fit(self.values, given, most, seed, device)
        n_categories = model._n_categories()
        if not n_categories.any():
            return binner
        n_groups = int(model.cat_hash_groups)
        return with_bins_of_categories(
            binner, self.values, given, n_categories, most, seed, device, n_groups
        )

    def codes(self, binner: Binner, device: Device, name: str, streams: bool) -> Any:
        """Return the bins of the rows on a device; in errors the table is called ``name``."""
        return binner.codes_of(self.values, device, self.workers)

    def raw_predict(self, trees: Forest, device: Device) -> Array:
        """Return the raw predictions of trees, float64 of shape (n_outputs, n_rows), on the
        device."""
        return trees.raw_predict(self.values, device)

    def on_host(self) -> Any:
        """Return the numbers in host memory, as estimators of other libraries take them."""
        return to_numpy(self.values)

    def size(
        self, params: GrowthParams, further: Sequence[int] | np.ndarray, device: Device,
        n_outputs: int, evaluated: Sequence[FeatureTable] = (), weighted: bool = False,
    ) -> tuple[np.ndarray | None, DataSize]:  # fmt: skip
        """Return the columns that trees are grown on, int32, and what the memory of that depends
        on.

        They are those that may split nodes and some ``further`` ones; None: all. ``evaluated`` are
        the tables of the evaluation sets.
        """
        n_all = None if self.workers is ONE_WORKER else self.n_all
        return None, DataSize(
            self.shape,
            self.values.itemsize,
            n_outputs,
            weighted,
            evaluated=[each.shape[0] for each in evaluated],
            is_there=not is_streamed(self.values, device),
            n_all=n_all,
            evaluated_binned=sum(each.shape[0] for each in evaluated if each.is_binned),
        )

    def bytes_of_bins(self, columns: np.ndarray | None, n_features: int, device: Device) -> int:
        """Return the bytes of the bins of some columns, ``n_features`` of them."""
        return self.shape[0] * code_bytes(n_features)


class EntriesTable(FeatureTable):
    """The features as the entries of a sparse matrix, ``values`` is a ``SparseTable``."""

    is_sparse = True
    without_values = "a sparse X", "whose values are not at hand", "X.toarray()"

    def _columns_to_grow_on(
        self, params: GrowthParams, further: Sequence[int] | np.ndarray
    ) -> np.ndarray | None:
        if params.colsample_bytree * params.colsample_bylevel * params.colsample_bynode != 1.0:
            return None
        # The splits of levels are compared by hessians alone: few entries may weigh enough.
        fewest = 1 if params.is_symmetric else params.min_samples_leaf
        found = columns_that_split(self.values, fewest, self.workers)
        return np.union1d(found, further).astype(np.int32)

    def fit_binner(self, model: Any, weight: Array, device: Device) -> Binner:
        if self.workers is not ONE_WORKER:
            return fit_shared_sparse_binner(model, self.values, weight, self.workers, device)
        host = to_numpy(weight) if weight.size else None
        return fit_sparse_binner(self.values, host, int(model.max_bins), model._seed)

    def on_host(self) -> Any:
        return self.values.entries.tocsr()

    def size(
        self, params: GrowthParams, further: Sequence[int] | np.ndarray, device: Device,
        n_outputs: int, evaluated: Sequence[FeatureTable] = (), weighted: bool = False,
    ) -> tuple[np.ndarray | None, DataSize]:  # fmt: skip
        _, size = super().size(params, further, device, n_outputs, evaluated, weighted)
        columns = self._columns_to_grow_on(params, further)
        kept, n_features = self._kept(columns), self.shape[1] if columns is None else columns.size
        most_places = int((np.minimum(entries_of_all(kept, self.workers), MAX_BINS) + 2).sum())
        return columns, replace(
            size,
            shape=(self.shape[0], n_features),
            is_there=True,
            n_sparse=self.shape[1],
            n_places=most_places if stays_sparse(kept, device, self.workers) else None,
            bins=self.bytes_of_bins(columns, n_features, device),
            evaluated_bins=sum(
                each.bytes_of_bins(columns, n_features, device) for each in evaluated
            ),
        )

    def bytes_of_bins(self, columns: np.ndarray | None, n_features: int, device: Device) -> int:
        kept = self._kept(columns)
        if stays_sparse(kept, device, self.workers):
            return ENTRY_BYTES * int(kept.entries.nnz)
        return super().bytes_of_bins(columns, n_features, device)

    def _kept(self, columns: np.ndarray | None) -> SparseTable:
        kept: SparseTable = self.values if columns is None else self.values.columns(columns)
        return kept


class BinsTable(FeatureTable):
    """The features as bins, in memory or in a mapped file: ``values`` is a ``BinnedTable``."""

    is_binned = True
    without_values = "a BinnedTable", "which has no values", "the rows as an array"

    def fit_binner(self, model: Any, weight: Array, device: Device) -> Binner:
        if self.workers is not ONE_WORKER:
            raise TypeError("X must be an array or a data frame where workers share the rows.")
        binner: Binner = self.values.binner_for(int(model.max_bins), int(model.cat_hash_groups))
        return binner

    def codes(self, binner: Binner, device: Device, name: str, streams: bool) -> Any:
        return self.values.codes_for(binner, device, name, streams)

    def raw_predict(self, trees: Forest, device: Device) -> Array:
        return self.values.raw_predict(trees, device)

    def on_host(self) -> Any:
        raise ValueError(
            "init must be None or 'zero' for a BinnedTable, whose bins another estimator does not "
            "know. Pass the rows as an array."
        )

    def size(
        self, params: GrowthParams, further: Sequence[int] | np.ndarray, device: Device,
        n_outputs: int, evaluated: Sequence[FeatureTable] = (), weighted: bool = False,
    ) -> tuple[np.ndarray | None, DataSize]:  # fmt: skip
        columns, size = super().size(params, further, device, n_outputs, evaluated, weighted)
        return columns, replace(size, **self.size_of_bins(device, size.n_all))

    def size_of_bins(self, device: Device, n_all: int | None) -> dict[str, Any]:
        """Return the fields of ``DataSize`` about bins that have been made before."""
        n_rows, n_features = self.shape
        is_mapped = self.values.path is not None
        return {
            "is_binned": True,
            "on_disk": n_rows * code_bytes(n_features) if is_mapped and not device.is_gpu else 0,
            # Workers that share the rows have a growth of their own, which reads node by node.
            "can_stream": n_all is None and (device.is_gpu or is_mapped),
        }


def table_of(values: Any, workers: Workers = ONE_WORKER) -> FeatureTable:
    """Return the table of an array, a ``SparseTable`` or a ``BinnedTable``."""
    if isinstance(values, SparseTable):
        return EntriesTable(values, workers)
    return (BinsTable if isinstance(values, BinnedTable) else FeatureTable)(values, workers)


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
