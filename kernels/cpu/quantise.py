"""Quantisation (contract: ``kernels.quantise``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compilation import inner, kernel
from ..dtypes import Scales
from ..scalars.rng import draw
from ..scalars.rounding import LOW_16, S16, stochastic_round
from .team import run, threads_for

i32, i64, u64 = np.int32, np.int64, np.uint64


@inner
def _record(g, h, row, key, scale_g, scale_h):
    bits = draw(key, row)
    qg = i32(stochastic_round(g * scale_g, float(i32(bits & LOW_16))))
    qh = i32(stochastic_round(h * scale_h, float(i32(bits >> S16))))
    return (u64(i64(qg)) << u64(48)) | (u64(qh) << u64(32)) | row


@kernel
def _worker(thread, n_threads, barrier, g, h, rows, key, scale_g, scale_h, records):
    n = records.size
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    if rows.size == 0:
        for i in range(begin, end):
            records[i] = _record(float(g[i]), float(h[i]), u64(i), key, scale_g, scale_h)
    else:
        for i in range(begin, end):
            row = rows[i]
            records[i] = _record(float(g[row]), float(h[row]), u64(row), key, scale_g, scale_h)


def quantise(g: Any, h: Any, rows: Any, key: int, scales: Scales) -> Any:
    records = np.empty(rows.size or g.size, np.uint64)
    n_threads = threads_for(records.size)
    run(_worker, n_threads, g, h, rows, np.uint64(key), scales.g, scales.h, records)
    return records
