"""The kinds of tables that boosting is trained on, behind one interface: numbers, entries of a
sparse matrix, and bins that were made before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...devices.memory_plan import code_bytes
from ...devices.placement import Device, is_streamed, to_numpy
from ...devices.sparse_tables import SparseTable
from ...forest.forest import Forest
from ...inputs.binning import Binner
from ...inputs.category_bins import with_bins_of_categories
from ...inputs.shared_tables import dealt_rows, entries_of_all
from ...inputs.sparse_bins import columns_that_split, fit_sparse_binner
from ...inputs.sparse_codes import ENTRY_BYTES, stays_sparse
from ...kernels.growth.params import GrowthParams
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import ONE_WORKER, Workers
from ...kernels.runtime.dtypes import MAX_BINS
from ...tables.binned_table import BinnedTable
from .shared_bins import fit_shared_binner, fit_shared_sparse_binner
from .size import DataSize


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

    def columns_to_grow_on(
        self, params: GrowthParams, further: Sequence[int] | np.ndarray
    ) -> np.ndarray | None:
        """Return the columns that may split nodes, and some further ones, int32; None: all."""
        return None

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
        self, columns: np.ndarray | None, device: Device, n_outputs: int,
        evaluated: Sequence[FeatureTable] = (), weighted: bool = False,
    ) -> DataSize:  # fmt: skip
        """Return the properties that the memory of a training on the table depends on, if trees are
        grown on some columns, and ``evaluated`` are the evaluation sets."""
        n_rows, n_features = self.shape
        n_all = None if self.workers is ONE_WORKER else self.workers.n_all
        return DataSize(
            (n_rows, n_features if columns is None else columns.size),
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

    def columns_to_grow_on(
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
        self, columns: np.ndarray | None, device: Device, n_outputs: int,
        evaluated: Sequence[FeatureTable] = (), weighted: bool = False,
    ) -> DataSize:  # fmt: skip
        size = super().size(columns, device, n_outputs, evaluated, weighted)
        kept, n_features = self._kept(columns), size.shape[1]
        most_places = int((np.minimum(entries_of_all(kept, self.workers), MAX_BINS) + 2).sum())
        return replace(
            size,
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
        self, columns: np.ndarray | None, device: Device, n_outputs: int,
        evaluated: Sequence[FeatureTable] = (), weighted: bool = False,
    ) -> DataSize:  # fmt: skip
        size = super().size(columns, device, n_outputs, evaluated, weighted)
        return replace(size, **self.size_of_bins(device, size.n_all))

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
