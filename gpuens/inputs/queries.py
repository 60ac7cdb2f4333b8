"""Queries of a ranking: reading ``group`` or ``qid``, and their layout on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..kernels.ranking.queries import Queries
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers, objects_of_all


def read_queries(group: Any, qid: Any, n_rows: int, prefix: str = "") -> np.ndarray:
    """Read the sizes of the queries from one of two arguments.

    Parameters
    ----------
    group : array of int, shape (n_queries,), or None
        Rows of each query, in the order of the rows.
    qid : array, shape (n_rows,), or None
        The query of each row; the rows of a query are neighbours.
    prefix : str
        Of the arguments' names in error messages.

    Returns
    -------
    int64 ndarray, shape (n_queries,)
        Positive.

    Raises
    ------
    ValueError
        None or both are given, or their values are not possible; names the argument.
    """
    if (group is None) == (qid is None):
        both = "neither" if group is None else "both"
        raise ValueError(
            f"{prefix}group (rows of each query) or {prefix}qid (the query of each row) must be "
            f"passed, got {both}: a ranking compares the rows of a query with each other."
        )
    if group is not None:
        return _read_group(group, n_rows, f"{prefix}group")
    return _read_qid(qid, n_rows, f"{prefix}qid")


def _read_group(group: Any, n_rows: int, name: str) -> np.ndarray:
    sizes = _vector(group, name)
    is_whole = sizes.dtype.kind in "iuf" and bool((sizes == np.floor(sizes)).all())
    if not is_whole:
        raise ValueError(f"{name} must hold whole numbers, the rows of each query, got {group!r}.")
    if sizes.size == 0 or not (sizes > 0).all():
        where = f"{name}[{int((sizes <= 0).argmax())}] is {sizes.min()}" if sizes.size else "empty"
        raise ValueError(
            f"{name} must hold a positive number of rows for each query, got {where}: drop queries "
            "without rows."
        )
    if (total := int(sizes.sum())) != n_rows:
        raise ValueError(
            f"{name} must add up to the {n_rows} rows of X, got {total} rows in {sizes.size} "
            "queries: pass the number of rows of each query, in the order of the rows."
        )
    return sizes.astype(np.int64)


def _read_qid(qid: Any, n_rows: int, name: str) -> np.ndarray:
    ids = _vector(qid, name)
    if ids.size != n_rows:
        raise ValueError(
            f"{name} must have the query of each of the {n_rows} rows of X, got {ids.size} values."
        )
    if ids.size == 0:
        raise ValueError(f"{name} is empty: pass at least one row of a query.")
    if (ids != ids).any():
        raise ValueError(f"{name} has missing values: each row must belong to a query.")
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    labels, counts = np.unique(ids[starts], return_counts=True)
    if (counts > 1).any():
        label = labels[counts > 1][0]
        first, again = starts[ids[starts] == label][:2].tolist()
        raise ValueError(
            f"{name} must be sorted: query {label!r} starts in row {first} and again in row "
            f"{again}. Sort all rows by it: order = numpy.argsort(qid, kind='stable')."
        )
    return np.diff(np.append(starts, n_rows))


def _vector(values: Any, name: str) -> np.ndarray:
    array = np.asarray(to_numpy(values))
    if array.ndim != 1:
        raise ValueError(f"{name} must be a 1d array, got shape {array.shape}.")
    return array


def weight_of_rows(weight: Any, sizes: np.ndarray, n_rows: int) -> Any:
    """Return the weights of the rows where ``weight`` has one for each query, else as they are."""
    shape = getattr(weight, "shape", None)
    shape = np.shape(weight) if shape is None else tuple(shape)
    if shape != (sizes.size,) or sizes.size == n_rows:
        return weight
    return np.repeat(to_numpy(weight), sizes)


def first_query_of_worker(qid: Any, workers: Workers) -> int:
    """Return the number of this worker's first query among those of all workers.

    A query whose rows end in one worker's part may go on in the next one's.

    Raises a ValueError if a query begins again after another one.
    """
    ids = np.asarray(to_numpy(qid))
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    number = first = 0
    seen: list[np.ndarray] = []
    for rank, found in enumerate(objects_of_all(ids[starts], workers)):
        goes_on = rank > 0 and found[0] == seen[-1][-1]
        if rank == workers.collective.rank:
            first = number - goes_on
        number += len(found) - goes_on
        seen.append(found)
    labels = np.unique(np.concatenate(seen))
    if labels.size < number:
        raise ValueError(
            f"qid must be sorted over all parts: {number - labels.size} of {labels.size} queries "
            "begin again after another one. Sort all rows by qid."
        )
    return first


def layout_of(numbers: Array, device: Device) -> Queries:
    """Return the layout of queries.

    Parameters
    ----------
    numbers : float64, shape (n_rows,), on the device
        A number for each query, the same in its rows, which are neighbours.
    """
    xp = device.xp
    starts = xp.ones(numbers.shape[0], dtype=xp.bool)
    starts[1:] = numbers[1:] != numbers[:-1]
    of_row = (xp.cumulative_sum(xp.astype(starts, xp.int32)) - 1).astype(np.int32)
    end = device.asarray(np.array([numbers.shape[0]]))
    begin = xp.concat([xp.nonzero(starts)[0], end]).astype(np.int32)
    return Queries(begin, of_row, int((begin[1:] - begin[:-1]).max()))


def rows_of_queries(sizes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the rows of some queries, ascending, int64."""
    is_chosen = np.zeros(sizes.size, bool)
    is_chosen[chosen] = True
    return np.flatnonzero(np.repeat(is_chosen, sizes))
