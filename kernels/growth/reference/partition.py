"""Reference twin of ``kernels.growth.partition``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ...runtime.dtypes import MISSING, N_SLOTS, NO_SETS, Codes
from ...runtime.reference.arrays import beside, unpack


def partition(
    codes: Codes,
    records: Any,
    begin: Any,
    end: Any,
    feature: Any,
    bin_: Any,
    missing_left: Any,
    left_codes: Any = NO_SETS,
) -> Any:
    """A stable sort by side, segment after segment."""
    xp = array_namespace(records)
    n_left = np.zeros(len(begin), np.int64)
    for node in range(len(begin)):
        segment = slice(int(begin[node]), int(end[node]))
        _, _, row = unpack(records[segment])
        code = xp.take(codes.columns[int(feature[node]), :], row)
        if bin_[node] >= 0:
            right = xp.where(code == MISSING, not missing_left[node], code > int(bin_[node]))
        else:
            in_left = beside(members_of(left_codes[node]), records)
            right = xp.take(in_left, xp.astype(code, xp.int64)) == 0
        right = xp.astype(right, xp.uint8)
        records[segment] = xp.take(records[segment], xp.argsort(right, stable=True))
        n_left[node] = row.shape[0] - int(xp.sum(right, dtype=xp.int64))
    return n_left


def members_of(words: np.ndarray) -> np.ndarray:
    """A set of codes as an array of zeros and ones: int32, (256,)."""
    code = np.arange(N_SLOTS)
    return (words[code // 32] >> (code % 32).astype(np.uint32) & 1).astype(np.int32)
