"""Tables whose rows several workers share: what the workers must agree on, and rows that they send
each other (see ``kernels.runtime.collective``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from ..devices.placement import module_of, to_numpy
from ..devices.sparse_tables import SparseTable
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers, count_of_all, objects_of_all, sum_of_each
from ..kernels.runtime.dtypes import SUM_CHUNK
from .frames import kind_of

MESSAGE_BYTES = 2**25
"""Bytes of rows that all workers have from the others at once."""
ENTRY_BYTES = 12
"""Bytes of an entry of a sparse table: a value, and the number of its row or column."""


def require_agreement(what: str, value: Any, workers: Workers) -> None:
    """Raise ValueError, on all workers, where they have different values."""
    found = objects_of_all((what, value), workers)
    for rank, (of_worker, other) in enumerate(found):
        if (of_worker, other) != found[0]:
            raise ValueError(
                f"All parts of X must have the same {what}: worker 0 has {found[0][1]}, worker "
                f"{rank} has {other}."
                if of_worker == found[0][0]
                else f"All parts of X must be of the same type: the {found[0][0]} are known to "
                f"worker 0 alone, the {of_worker} to worker {rank}."
            )


def agreed_table(table: Any, estimator: Any, workers: Workers) -> Any:
    """Return the table in the type that holds the numbers of all workers. Raises a ValueError if
    the workers have different columns, or the tables of some are sparse."""
    is_sparse = isinstance(table, SparseTable) or issparse(table)
    require_agreement("format", "sparse" if is_sparse else "dense", workers)
    names = getattr(estimator, "feature_names_in_", None)
    columns = f"{table.shape[1]}" if names is None else ", ".join(map(repr, names))
    require_agreement("columns", columns, workers)
    return table.astype(np.result_type(*objects_of_all(table.dtype, workers)), copy=False)


def categories_of_all(values: np.ndarray, label: str, workers: Workers) -> np.ndarray:
    """Return the distinct values of a feature that any worker has, ascending. Raises a ValueError
    if some workers have numbers, others strings."""
    found = [each for each in objects_of_all(values, workers) if len(each)]
    if not found:
        return values
    kinds = sorted({str(kind_of(each)) for each in found})
    if len(kinds) > 1:
        raise ValueError(
            f"{label} holds {' and '.join(kinds)}, in different parts; categories must be strings "
            "throughout or numbers throughout. Convert them, for example with str."
        )
    if kinds == ["numbers"]:
        return np.unique(np.concatenate(found))
    texts = sorted(set().union(*(each.tolist() for each in found)))
    ordered = np.empty(len(texts), object)
    ordered[:] = texts
    return ordered


def class_totals(
    codes: np.ndarray, weight: np.ndarray | None, n: int, workers: Workers
) -> np.ndarray:
    """Return what ``bincount(codes, weight, n)`` is of the rows of all workers.

    Weights are added in the order of the rows: each worker goes on from the sums of the one before.
    """
    codes = to_numpy(codes)
    if weight is None:
        counts = np.bincount(codes, minlength=n)
        workers.collective.add(counts)
        return counts.astype(np.float64)
    totals: np.ndarray = np.zeros(n)
    for rank in range(workers.collective.size):
        if rank == workers.collective.rank:
            numbers = np.concatenate([np.arange(n), codes])
            before_and_own = np.concatenate([totals, to_numpy(weight)])
            totals = np.bincount(numbers, before_and_own, minlength=n)
        totals = workers.collective.gather(totals[None])[rank][0]
    return totals


def ranges_among(n_workers: int, n: int) -> list[tuple[int, int]]:
    """Return the rows that each worker gets of n: whole chunks, about as many. A single range, for
    all workers, where there are fewer chunks than workers."""
    n_chunks = -(-n // SUM_CHUNK)
    if n_chunks < n_workers:
        return [(0, n)]
    begins = [n_chunks * k // n_workers * SUM_CHUNK for k in range(n_workers)]
    return list(zip(begins, [*begins[1:], n], strict=True))


def dealt_rows(
    values: Any, order: np.ndarray, ranges: list[tuple[int, int]], workers: Workers
) -> Any:
    """Return the rows that this worker gets of the table of all.

    Parameters
    ----------
    values : array of shape (n_own, ...), or SparseTable
        This worker's rows; empty where no worker has any, as of weights.
    order : int64
        Numbers of rows, the same on all workers.
    ranges : list of (begin, end)
        Of ``order``, for each worker, or one for all.
    """
    if not len(values):
        return values
    mine = ranges[workers.collective.rank % len(ranges)]
    if isinstance(values, SparseTable):
        rows = csr_array(values.entries)
        parts = [
            part
            for begin, end in ranges
            for part in _sparse_rows_at(rows, order[begin:end], (begin, end) == mine, workers)
        ]
        return SparseTable.stacked(parts)
    own = to_numpy(values)
    dealt = np.concatenate([
        _rows_at(own, order[begin:end], (begin, end) == mine, workers) for begin, end in ranges
    ])  # fmt: skip
    return module_of(values).asarray(dealt)


def _rows_at(values: Array, wanted: np.ndarray, is_mine: bool, workers: Workers) -> np.ndarray:
    """Return rows of the table of all workers; a worker that does not keep them sends its own, and
    gets none."""
    begins = _first_rows(workers)
    at_once = max(1, MESSAGE_BYTES // max(1, values[:1].nbytes))
    rows = np.empty((len(wanted) if is_mine else 0, *values.shape[1:]), values.dtype)
    for begin in range(0, len(wanted), at_once):
        numbers = wanted[begin : begin + at_once]
        holder = np.searchsorted(begins, numbers, side="right") - 1
        own = numbers[holder == workers.collective.rank] - workers.first
        found = workers.collective.gather(np.ascontiguousarray(values[own]))
        for rank, of_worker in enumerate(found if is_mine else ()):
            rows[begin : begin + at_once][holder == rank] = of_worker
    return rows


def _sparse_rows_at(
    values: csr_array, wanted: np.ndarray, is_mine: bool, workers: Workers
) -> list[csr_array]:
    """Return rows as ``_rows_at`` does, in parts one after the other."""
    begins = _first_rows(workers)
    row_bytes = ENTRY_BYTES * count_of_all(values.nnz, workers) // workers.n_all
    at_once = max(1, MESSAGE_BYTES // max(1, row_bytes))
    parts = []
    for begin in range(0, len(wanted), at_once):
        numbers = wanted[begin : begin + at_once]
        holder = np.searchsorted(begins, numbers, side="right") - 1
        own = numbers[holder == workers.collective.rank] - workers.first
        found = objects_of_all(values[own], workers)
        if is_mine:  # they come one worker's after the other's
            place = np.empty(len(numbers), np.int64)
            place[np.argsort(holder, kind="stable")] = np.arange(len(numbers))
            parts.append(csr_array(vstack(found, format="csr"))[place])
    return parts


def _first_rows(workers: Workers) -> np.ndarray:
    """Return the number of each worker's first row."""
    return np.concatenate(workers.collective.gather(np.array([workers.first])))


def entries_of_all(table: SparseTable, workers: Workers) -> np.ndarray:
    """Return the number of values other than zero in each column, of the rows of all workers."""
    return sum_of_each(table.n_entries.astype(np.int64), workers)


def sparse_columns_of_all(table: SparseTable, features: slice, workers: Workers) -> SparseTable:
    """Return some columns of the rows of all workers."""
    return SparseTable.stacked(objects_of_all(table.columns(features).entries, workers))
