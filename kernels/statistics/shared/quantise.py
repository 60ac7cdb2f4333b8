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
from ..cpu.quantise import quantise_from


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales]
) -> TreeRecords:
    share = current_share()
    assert share is not None
    if rows.size == 1 and rows[0] == NO_ROWS[0]:
        n = len(g)
        records = TreeRecords(np.empty((n, 0), np.uint64), np.zeros((n, 2), np.int64), scales)
    else:
        records = quantise_from(share.first, g, h, rows, key, first, scales)
    share.collective.add(records.sums)
    return records
