"""Gradients and values of rows (contract: ``kernels.statistics.gradients``)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for, wait
from ...runtime.dtypes import SUM_CHUNK, Totals, Update
from ...scalars.deferred import Function
from ...scalars.losses import gradient, is_custom, value
from ...scalars.primitives import bits_of, float_of
from ..reference.gradients import gradients_of_outputs
from .add_leaf_values import add_leaf_values

__all__ = ["gradients", "gradients_of_outputs", "row_values"]


def compiled_for(kernel: Any, loss: Any) -> Any:
    """Return the kernel itself, or for a custom loss a copy that is compiled again in every
    process: the cache on disk would not notice a change of the loss's functions."""
    return _compiled_for_custom(kernel, type(loss)) if is_custom(type(loss)) else kernel


@functools.lru_cache(maxsize=64)
def _compiled_for_custom(kernel: Any, cls: type) -> Any:
    return Function(kernel.py_func, kernel.options)


@inner
def halve(values, n):
    """Add up the first n values (a power of two), upper halves onto lower halves."""
    while n > 1:
        n >>= 1
        for i in range(n):
            values[i] += values[n + i]
    return values[0]


# Each of the loops below has few arrays and no condition, or it would not vectorise.


@inner
def _subtract(values, others, out):
    for i in range(out.size):
        out[i] = values[i] - others[i]


@inner
def _gradients(loss, y, f, g, h):
    for i in range(g.size):
        g[i], h[i] = gradient(loss, y[i], f[i])


@inner
def _weigh(weight, values):
    for i in range(values.size):
        values[i] *= weight[i]


@inner
def _round(values, out):
    for i in range(out.size):
        out[i] = values[i]


@inner
def _chunk_gradients(loss, y, raw, shift, weight, g, h, scratch):
    """Fill in ``g`` and ``h`` of a chunk; ``scratch`` is (3, SUM_CHUNK)."""
    n = g.size
    f, exact_g, exact_h = raw, scratch[1, :n], scratch[2, :n]
    if shift.size > 0:
        f = scratch[0, :n]
        _subtract(raw, shift, f)
    _gradients(loss, y, f, exact_g, exact_h)
    if weight.size > 0:
        _weigh(weight, exact_g)
        _weigh(weight, exact_h)
    _round(exact_g, g)
    _round(exact_h, h)


@inner
def _magnitudes(values, begin, end, magnitudes):
    for i in range(begin, end):
        magnitudes[i - begin] = abs(values[i])
    for i in range(end - begin, SUM_CHUNK):
        magnitudes[i] = 0.0


@inner
def _measure(values, begin, end, magnitudes):
    """Return the largest magnitude, as bits, and the chunk's sum of magnitudes."""
    _magnitudes(values, begin, end, magnitudes)
    largest = np.int64(0)
    for i in range(SUM_CHUNK):  # not negative, so the order of the bits is that of the values
        largest = max(largest, bits_of(magnitudes[i]))
    return largest, halve(magnitudes, np.int64(SUM_CHUNK))


@inner
def fill_chunks(
    thread, n_threads, loss, y, raw, shift, weight, g, h, magnitudes, scratch, largest, sums
):
    """Fill in ``g`` and ``h`` of a thread's chunks, the largest magnitudes, as bits, and the sums
    of the chunks. ``magnitudes`` and ``scratch`` are (SUM_CHUNK,) and (3, SUM_CHUNK)."""
    n = raw.size
    n_chunks = (n + SUM_CHUNK - 1) // SUM_CHUNK
    for chunk in range(n_chunks * thread // n_threads, n_chunks * (thread + 1) // n_threads):
        begin = chunk * SUM_CHUNK
        end = min(begin + SUM_CHUNK, n)
        own_shift, own_weight = shift[begin:end], weight[begin:end]
        own_g, own_h = g[begin:end], h[begin:end]
        of_rows = y[begin:end], raw[begin:end], own_shift, own_weight, own_g, own_h
        _chunk_gradients(loss, *of_rows, scratch)
        for k in range(2):
            bits, sums[k, chunk] = _measure(g if k == 0 else h, begin, end, magnitudes)
            largest[thread, k] = max(largest[thread, k], bits)


@kernel
def _gradients_worker(
    thread, n_threads, barrier, loss, y, raw, shift, weight, g, h, largest, sums, totals
):
    magnitudes = np.empty(SUM_CHUNK, np.float64)
    scratch = np.empty((3, SUM_CHUNK), np.float64)
    of_rows = y, raw, shift, weight, g, h
    fill_chunks(thread, n_threads, loss, *of_rows, magnitudes, scratch, largest, sums)
    wait(barrier, n_threads)
    if thread == 0:
        for k in range(2):
            bits = largest[0, k]
            for other in range(1, n_threads):
                bits = max(bits, largest[other, k])
            totals[2 * k] = float_of(bits)
            totals[2 * k + 1] = halve(sums[k], sums.shape[1])


def gradients(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    update: Update | None = None,
) -> Totals:
    if update is not None:
        add_leaf_values(raw, *update)
    n_threads = threads_for(raw.size)
    n_chunks = -(-raw.size // SUM_CHUNK)
    padded = 1 << (n_chunks - 1).bit_length()
    largest = np.zeros((n_threads, 8), np.int64)
    sums = np.zeros((2, padded))
    totals = np.empty(4)
    worker = compiled_for(_gradients_worker, loss)
    run(worker, n_threads, loss, y, raw, shift, weight, g, h, largest, sums, totals)
    return Totals(*totals.tolist())


@kernel
def _values_worker(thread, n_threads, barrier, loss, y, raw, shift, out):
    n = raw.size
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    for i in range(begin, end):
        out[i] = value(loss, y[i], raw[i] - shift[i] if shift.size > 0 else raw[i])


def row_values(loss: Any, y: Array, raw: Array, shift: Array) -> Array:
    out = np.empty(raw.shape[0])
    run(compiled_for(_values_worker, loss), threads_for(raw.size), loss, y, raw, shift, out)
    return out
