"""Integer records (contract: ``kernels.quantise``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import RECORD, Scales
from ..scalars.primitives import mul
from ..scalars.rng import draw
from ..scalars.rounding import LOW_16, S16, stochastic_round
from .target import block_size, blocks_for_rows, cuda, empty, kernel, launch

u32, u64, i64, f64 = np.uint32, np.uint64, np.int64, np.float64
BLOCK = block_size(256)


@kernel
def make_records(g, h, rows, key, scale_g, scale_h, records):
    """One record a thread: ``g << 48 | h << 32 | row``."""
    n = u32(records.shape[0])
    sampled = rows.shape[0] > 0
    i = u32(cuda.grid(1))
    while i < n:
        row = i64(i)
        if sampled:
            row = i64(rows[i])
        bits = draw(key, u64(row))
        rounded_g = stochastic_round(mul(f64(g[u32(row)]), scale_g), f64(bits & LOW_16))
        rounded_h = stochastic_round(mul(f64(h[u32(row)]), scale_h), f64(bits >> S16))
        records[i] = u64((i64(rounded_g) << i64(48)) | (i64(rounded_h) << i64(32)) | row)
        i = u32(i + cuda.gridsize(1))


def quantise(g: Any, h: Any, rows: Any, key: int, scales: Scales) -> Any:
    n = rows.shape[0] or g.shape[0]
    records = empty(n, RECORD)
    args = (g, h, rows, u64(key), scales.g, scales.h, records)
    launch(make_records, blocks_for_rows(n, BLOCK), BLOCK, *args)
    return records
