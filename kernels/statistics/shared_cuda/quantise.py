"""Quantisation of a share of the rows on a GPU (contract: ``kernels.statistics.quantise``): see the
module of that name in ``shared``. The sums are on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import NO_ROWS, current_share
from ...runtime.cuda.target import empty
from ...runtime.dtypes import RECORD, Scales, TreeRecords
from ..cuda.quantise import quantise_from


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales]
) -> TreeRecords:
    share = current_share()
    assert share is not None
    if rows is NO_ROWS:
        words: Any = empty((len(g), 0), RECORD)
        sums = np.zeros((len(g), 2), np.int64)
        share.collective.add(sums)
        return TreeRecords(words, sums, scales)
    records = quantise_from(share.first, g, h, rows, key, first, scales)
    return records._replace(sums=share.collective.sum_to_host(records.sums))
