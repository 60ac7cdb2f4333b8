"""Numbers of all rows of a shared table (see ``kernels.runtime.collective``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.runtime.collective import NO_ROWS, Share, halved
from ..kernels.runtime.dtypes import SUM_CHUNK

OFFSETS_AT_ONCE = 64
"""Rows of each chunk that are gathered together: a 16th of the table's column."""


def sum_of_all(values: Any, share: Share) -> float:
    """Return ``ordered_sum`` of all rows.

    It halves the column, so that row i of a chunk meets only the rows i of other chunks until one
    chunk is left: these are gathered and added up in blocks of ``OFFSETS_AT_ONCE``.
    """
    chunks = np.zeros((-(-values.size // SUM_CHUNK), SUM_CHUNK))
    chunks.reshape(-1)[: values.size] = values
    last = np.empty(SUM_CHUNK)
    for begin in range(0, SUM_CHUNK, OFFSETS_AT_ONCE):
        block = slice(begin, begin + OFFSETS_AT_ONCE)
        own = np.ascontiguousarray(chunks[:, block])
        last[block] = halved(np.concatenate(share.collective.gather(own)))
    return float(halved(last))


def rows_of_worker(keep: np.ndarray | None, share: Share) -> np.ndarray:
    """Return the rows of a sample that this worker has, as ``draw_rows`` does: an empty array is
    for all rows of all workers, ``NO_ROWS`` for none of this one."""
    n_out = np.zeros(1, np.int64) if keep is None else np.array([np.count_nonzero(~keep)])
    share.collective.add(n_out)
    if n_out[0] == 0:
        return np.empty(0, np.int32)
    if keep is None:
        return np.arange(share.n_own, dtype=np.int32)
    return np.flatnonzero(keep).astype(np.int32) if keep.any() else NO_ROWS
