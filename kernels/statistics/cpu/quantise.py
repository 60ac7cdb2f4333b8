"""Quantisation (contract: ``kernels.statistics.quantise``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.each import each
from ...runtime.cpu.team import atomic_add, run, threads_for
from ...runtime.dtypes import Scales, TreeRecords
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...scalars.rounding import LOW_16, S16, stochastic_round

i32, i64, u64 = np.int32, np.int64, np.uint64

_draw = vectorise(draw)


@inner
def _integers(g, h, row, key, scale_g, scale_h):
    bits = draw(key, row)
    qg = i32(stochastic_round(g * scale_g, float(i32(bits & LOW_16))))
    qh = i32(stochastic_round(h * scale_h, float(i32(bits >> S16))))
    return i64(qg), i64(qh)


@inner
def _record(g, h, row):
    return (u64(g) << u64(48)) | (u64(h) << u64(32)) | row


@kernel
def _worker(thread, n_threads, barrier, g, h, rows, first, key, scale_g, scale_h, records, sums):
    n = records.size
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    sum_g = sum_h = i64(0)
    for i in range(begin, end):
        row = u64(rows[i]) if rows.size > 0 else u64(i)
        qg, qh = _integers(float(g[row]), float(h[row]), first + row, key, scale_g, scale_h)
        records[i] = _record(qg, qh, row)
        sum_g += qg
        sum_h += qh
    atomic_add(sums, 0, sum_g)
    atomic_add(sums, 1, sum_h)


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales]
) -> TreeRecords:
    return quantise_from(0, g, h, rows, key, first, scales)


def quantise_from(
    begin: int, g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales]
) -> TreeRecords:
    """Do the same where ``begin`` is added to the numbers of rows that the rounding depends on."""
    records = np.empty((len(g), rows.size or g.shape[1]), np.uint64)
    sums = np.zeros((len(g), 2), np.int64)

    def fill(i: int) -> None:
        keys = u64(begin), u64(_draw(int(key), int(first) + i))
        own = g[i], h[i], rows, *keys, scales[i].g, scales[i].h, records[i], sums[i]
        run(_worker, threads_for(records.shape[1]), *own)

    each(fill, range(len(g)), records[0])
    return TreeRecords(records, sums, scales)
