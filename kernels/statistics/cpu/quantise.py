"""Quantisation (contract: ``kernels.statistics.quantise``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import NO_ROWS
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import atomic_add, run, threads_for
from ...runtime.dtypes import Scales, TreeRecords
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...scalars.rounding import LOW_16, S16, stochastic_round

i32, i64, u64 = np.int32, np.int64, np.uint64

_draw = vectorise(draw)


@inner
def integers(g, h, row, key, scale_g, scale_h):
    # One draw rounds both: its lower and its upper half are independent.
    bits = draw(key, row)
    qg = i32(stochastic_round(g * scale_g, float(i32(bits & LOW_16))))
    qh = i32(stochastic_round(h * scale_h, float(i32(bits >> S16))))
    return i64(qg), i64(qh)


@inner
def record_of(g, h, row):
    # g, which is signed, is on top: an arithmetic shift brings it back with its sign.
    return (u64(g) << u64(48)) | (u64(h) << u64(32)) | row


@inner
def quantise_all(g, h, begin, end, first, key, scale_g, scale_h, records):
    """Round the statistics of neighbouring rows; return the sums of the integers."""
    sum_g = sum_h = i64(0)
    for i in range(u64(begin), u64(end)):
        qg, qh = integers(float(g[i]), float(h[i]), first + i, key, scale_g, scale_h)
        records[i] = record_of(qg, qh, i)
        sum_g += qg
        sum_h += qh
    return sum_g, sum_h


@inner
def _quantise_sample(g, h, rows, begin, end, first, key, scale_g, scale_h, records):
    """Round the statistics of the rows ``rows[begin:end]``; return the sums of the integers."""
    sum_g = sum_h = i64(0)
    for i in range(u64(begin), u64(end)):
        row = u64(rows[i])
        qg, qh = integers(float(g[row]), float(h[row]), first + row, key, scale_g, scale_h)
        records[i] = record_of(qg, qh, row)
        sum_g += qg
        sum_h += qh
    return sum_g, sum_h


@kernel
def _worker(thread, n_threads, barrier, g, h, rows, first, keys, scales, records, sums):
    n_trees, n = records.shape
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    for k in range(n_trees):
        scale_g, scale_h = scales[k, 0], scales[k, 1]
        if rows.size > 0:
            sum_g, sum_h = _quantise_sample(
                g[k], h[k], rows, begin, end, first, keys[k], scale_g, scale_h, records[k]
            )
        else:
            sum_g, sum_h = quantise_all(
                g[k], h[k], begin, end, first, keys[k], scale_g, scale_h, records[k]
            )
        # Sums of integers, one addition a thread: the order does not matter.
        atomic_add(sums[k], 0, sum_g)
        atomic_add(sums[k], 1, sum_h)


@kernel
def _word_worker(thread, n_threads, barrier, g, h, begin, keys, scales, words, sums):
    n_trees, n = g.shape
    first, last = n * thread // n_threads, n * (thread + 1) // n_threads
    for k in range(n_trees):
        sum_g = sum_h = i64(0)
        for i in range(u64(first), u64(last)):
            qg, qh = integers(
                float(g[k, i]), float(h[k, i]), begin + i, keys[k], scales[k, 0], scales[k, 1]
            )
            words[k, i] = np.uint32((u64(qg) << u64(16)) | u64(qh))
            sum_g += qg
            sum_h += qh
        atomic_add(sums[k], 0, sum_g)
        atomic_add(sums[k], 1, sum_h)


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales], begin: int = 0
) -> TreeRecords:
    """``begin`` is added to the numbers of rows that the rounding depends on."""
    n = 0 if _has_none(rows) else rows.size or g.shape[1]
    records = TreeRecords(np.empty((len(g), n), np.uint64), np.zeros((len(g), 2), np.int64), scales)
    if n > 0:
        fill(begin, g, h, rows, key, first, records)
    return records


def _has_none(rows: Array) -> bool:
    return rows.size == 1 and bool(rows[0] == NO_ROWS[0])


def fill(
    begin: int, g: Array, h: Array, rows: Array, key: int, first: int, records: TreeRecords
) -> None:
    """Fill in records, and add to their sums."""
    words, sums, scales = records
    run(
        _worker, threads_for(words.size),
        g, h, rows, u64(begin), _keys(key, first, len(g)), np.array(scales), words, sums,
    )  # fmt: skip


def pack(
    begin: int,
    g: Array,
    h: Array,
    key: int,
    first: int,
    scales: Sequence[Scales],
    words: Array,
) -> np.ndarray:
    sums = np.zeros((len(g), 2), np.int64)
    run(
        _word_worker, threads_for(g.size),
        g, h, u64(begin), _keys(key, first, len(g)), np.array(scales), words, sums,
    )  # fmt: skip
    return sums


def _keys(key: int, first: int, n_trees: int) -> np.ndarray:
    return np.array([_draw(int(key), int(first) + i) for i in range(n_trees)], u64)
