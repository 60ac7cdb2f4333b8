"""The properties of training data that the memory of gradient boosting depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
