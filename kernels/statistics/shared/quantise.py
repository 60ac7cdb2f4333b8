"""Quantisation of a share of the rows (contract: ``kernels.statistics.quantise``): rounded by the
row's number in the whole table, and with the sums of all rows.

Where a sample has none of this worker's rows, ``rows`` is ``NO_ROWS``: an empty array would be all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import NO_ROWS, current_share
from ...runtime.dtypes import Scales, TreeRecords
from ..cpu.quantise import fill


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales]
) -> TreeRecords:
    n = 0 if _has_none(rows) else rows.size or g.shape[1]
    return quantise_in(np.empty((len(g), n), np.uint64), g, h, rows, key, first, scales)


def quantise_in(
    words: np.ndarray,
    g: Array,
    h: Array,
    rows: Array,
    key: int,
    first: int,
    scales: Sequence[Scales],
) -> TreeRecords:
    """Quantise into memory that is there for the records."""
    share = current_share()
    assert share is not None
    records = TreeRecords(words, np.zeros((len(g), 2), np.int64), scales)
    if words.size > 0:
        fill(share.first, g, h, rows, key, first, records)
    share.collective.add(records.sums)
    return records


def _has_none(rows: Array) -> bool:
    return rows.size == 1 and bool(rows[0] == NO_ROWS[0])
