"""Reference twin of ``kernels.partition``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ..dtypes import MISSING, Codes
from . import unpack


def partition(
    codes: Codes, records: Any, begin: Any, end: Any, feature: Any, bin_: Any, missing_left: Any
) -> Any:
    """A stable sort by side, segment after segment."""
    xp = array_namespace(records)
    n_left = np.zeros(len(begin), np.int64)
    for node in range(len(begin)):
        segment = slice(int(begin[node]), int(end[node]))
        _, _, row = unpack(records[segment])
        code = xp.take(codes.columns[int(feature[node]), :], row)
        right = xp.where(code == MISSING, not missing_left[node], code > int(bin_[node]))
        right = xp.astype(right, xp.uint8)
        records[segment] = xp.take(records[segment], xp.argsort(right, stable=True))
        n_left[node] = row.shape[0] - int(xp.sum(right, dtype=xp.int64))
    return n_left
