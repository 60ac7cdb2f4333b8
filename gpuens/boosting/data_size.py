"""The properties of training data that the memory of gradient boosting depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..devices.memory_plan import code_bytes
from ..devices.placement import Device, is_streamed
from ..devices.sparse_tables import SparseTable
from ..inputs.shared_tables import entries_of_all
from ..inputs.sparse_codes import ENTRY_BYTES, stays_sparse
from ..kernels.runtime.dtypes import MAX_BINS
from ..tables.binned_table import BinnedTable


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


def data_size(
    table: Any,
    columns: np.ndarray | None,
    device: Device,
    n_outputs: int,
    evaluated: Sequence[Any] = (),
    n_all: int | None = None,
    weighted: bool = False,
) -> DataSize:
    """Return the properties of a table that was read.

    Parameters
    ----------
    table : array, SparseTable or BinnedTable
    columns : int32 array or None
        Those of a sparse table that trees are grown on; None: all.
    device : Device
    n_outputs : int
    evaluated : sequence of tables
    n_all : int or None
    weighted : bool
    """
    shape = table.shape if columns is None else (table.shape[0], columns.size)
    size = DataSize(
        shape,
        table.itemsize,
        n_outputs,
        weighted,
        evaluated=[each.shape[0] for each in evaluated],
        is_there=not is_streamed(table, device),
        is_binned=isinstance(table, BinnedTable),
        on_disk=bytes_on_disk(table, device),
        can_stream=can_stream(table, device, n_all),
        n_all=n_all,
        evaluated_binned=sum(each.shape[0] for each in evaluated if isinstance(each, BinnedTable)),
    )
    if not isinstance(table, SparseTable):
        return size
    kept = table if columns is None else table.columns(columns)
    most_places = int((np.minimum(entries_of_all(kept), MAX_BINS) + 2).sum())
    return replace(
        size,
        is_there=True,
        n_sparse=table.shape[1],
        n_places=most_places if stays_sparse(kept, device) else None,
        bins=_code_bytes(kept, shape[1], device),
        evaluated_bins=sum(
            _code_bytes(
                each if columns is None or not isinstance(each, SparseTable)
                else each.columns(columns), shape[1], device,
            )
            for each in evaluated
        ),
    )  # fmt: skip


def bytes_on_disk(table: Any, device: Device) -> int:
    """Return the bytes of the codes of a table that growth maps from a file, else 0."""
    if not isinstance(table, BinnedTable) or table.path is None or device.is_gpu:
        return 0
    return int(table.shape[0]) * code_bytes(table.shape[1])


def can_stream(table: Any, device: Device, n_all: int | None) -> bool:
    """Return whether growth may read the codes of a table in the order of its rows.

    Workers that share the rows have a growth of their own, which reads the rows node by node.
    """
    if not isinstance(table, BinnedTable) or n_all is not None:
        return False
    return device.is_gpu or table.path is not None


def _code_bytes(table: Any, n_features: int, device: Device) -> int:
    """Bytes of the codes of a table with so many columns that trees are grown on."""
    if isinstance(table, SparseTable) and stays_sparse(table, device):
        return ENTRY_BYTES * int(table.entries.nnz)
    return int(table.shape[0]) * code_bytes(n_features)
