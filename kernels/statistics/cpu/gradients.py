"""Gradients and values of rows (contract: ``kernels.statistics.gradients``)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import CACHE_LINE, run, threads_for, wait
from ...runtime.dtypes import SUM_CHUNK, Totals, Update
from ...scalars.lazy_jit import Function
from ...scalars.losses import gradient, is_custom, value
from ...scalars.primitives import bits_of, float_of
from ..gradients import NO_CLASS, PieceTotals
from .add_leaf_values import add_leaf_values


@functools.lru_cache(maxsize=64)
def compiled_for(kernel: Any, cls: type) -> Any:
    """Return the kernel itself, or for the class of a custom loss a copy that is compiled again in
    every process: the cache on disk would not notice a change of the loss's functions."""
    return Function(kernel.py_func, kernel.options) if is_custom(cls) else kernel


@inner
def halve(values, n):
    """Add up the first n values (a power of two), upper halves onto lower halves."""
    while n > 1:
        # Always in this order, whatever the number of threads: sums of float64 depend on it.
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
        g[i], h[i] = gradient(loss, float(y[i]), f[i])


@inner
def _weigh(weight, values):
    for i in range(values.size):
        values[i] *= weight[i]


@inner
def _round(values, out):
    for i in range(out.size):
        out[i] = values[i]


@inner
def _is_of_class(y, number, out):
    of_class = float(number)
    for i in range(out.size):
        out[i] = 1.0 if y[i] == of_class else 0.0


@inner
def _chunk_gradients(loss, y, number, raw, shift, weight, g, h, scratch):
    """Fill in ``g`` and ``h`` of a chunk. The targets are ``y``, or whether a row is of the class
    ``number`` if that is not negative; ``scratch`` is (4, SUM_CHUNK)."""
    n = g.size
    # Float64 in scratch; gradients are rounded to float32 once, behind the weights.
    f, exact_g, exact_h, target = raw, scratch[1, :n], scratch[2, :n], scratch[3, :n]
    if shift.size > 0:
        f = scratch[0, :n]
        _subtract(raw, shift, f)
    # A class of several: its targets are whether rows are of it, and need not be kept for all rows.
    if number < 0:
        _gradients(loss, y, f, exact_g, exact_h)
    else:
        _is_of_class(y, number, target)
        _gradients(loss, target, f, exact_g, exact_h)
    if weight.size > 0:
        _weigh(weight, exact_g)
        _weigh(weight, exact_h)
    _round(exact_g, g)
    _round(exact_h, h)


@inner
def _magnitudes(values, magnitudes):
    # A last chunk that is short is filled up with zeros: every chunk is summed as a tree of one
    # shape.
    for i in range(values.size):
        magnitudes[i] = abs(values[i])
    for i in range(values.size, SUM_CHUNK):
        magnitudes[i] = 0.0


@inner
def _measure(values, magnitudes):
    """Return the largest magnitude of a chunk, as bits, and the sum of its magnitudes."""
    _magnitudes(values, magnitudes)
    largest = np.int64(0)
    for i in range(SUM_CHUNK):  # not negative, so the order of the bits is that of the values
        largest = max(largest, bits_of(magnitudes[i]))
    return largest, halve(magnitudes, np.int64(SUM_CHUNK))


@inner
def fill_chunks(
    thread, n_threads, loss, y, first_class, raw, shift, weight, g, h, magnitudes, scratch,
    largest, sums,
):  # fmt: skip
    """Fill in ``g`` and ``h`` of a thread's chunks, the largest magnitudes, as bits, and the sums
    of the chunks, for all outputs of a chunk before the next one.

    ``y`` has a line for all outputs or for each; ``magnitudes`` and ``scratch`` are (SUM_CHUNK,)
    and (4, SUM_CHUNK), ``largest`` is (n_threads, n_outputs, 2) or wider, ``sums`` is (n_outputs,
    2, chunks).
    """
    n_outputs, n = raw.shape
    n_chunks = (n + SUM_CHUNK - 1) // SUM_CHUNK
    # A chunk belongs to one thread, and has one sum: how chunks are shared out changes nothing.
    for chunk in range(n_chunks * thread // n_threads, n_chunks * (thread + 1) // n_threads):
        begin = chunk * SUM_CHUNK
        end = min(begin + SUM_CHUNK, n)
        own_shift, own_weight = shift[begin:end], weight[begin:end]
        # All outputs of a chunk while its targets and weights are in the cache.
        for k in range(n_outputs):
            own_y = y[min(k, y.shape[0] - 1), begin:end]
            number = first_class + k if first_class >= 0 else first_class
            own_g, own_h = g[k, begin:end], h[k, begin:end]
            _chunk_gradients(
                loss, own_y, number, raw[k, begin:end], own_shift, own_weight, own_g, own_h, scratch
            )
            for i in range(2):
                bits, sums[k, i, chunk] = _measure(own_g if i == 0 else own_h, magnitudes)
                largest[thread, k, i] = max(largest[thread, k, i], bits)


@kernel
def _gradients_worker(
    thread, n_threads, barrier, loss, y, first_class, raw, shift, weight, g, h, largest, sums,
    totals,
):  # fmt: skip
    magnitudes = np.empty(SUM_CHUNK, np.float64)
    scratch = np.empty((4, SUM_CHUNK), np.float64)
    fill_chunks(
        thread, n_threads, loss, y, first_class, raw, shift, weight, g, h, magnitudes, scratch,
        largest, sums,
    )  # fmt: skip
    # Behind the barrier all chunks have their sums; the outputs are shared out to be joined.
    wait(barrier, n_threads)
    for k in range(thread, totals.shape[0], n_threads):
        for i in range(2):
            bits = largest[0, k, i]
            for other in range(1, n_threads):
                bits = max(bits, largest[other, k, i])
            totals[k, 2 * i] = float_of(bits)
            totals[k, 2 * i + 1] = halve(sums[k, i], sums.shape[2])


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
    return gradients_of_outputs(loss, y, raw[None], shift, weight, g[None], h[None], NO_CLASS)[0]


def gradients_of_outputs(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    first_class: int,
) -> list[Totals]:
    totals = np.empty((len(raw), 4))
    _fill(loss, y, first_class, raw, shift, weight, g, h, totals)
    return [Totals(*of_output) for of_output in totals.tolist()]


def gradients_of_piece(
    loss: Any, y: Array, raw: Array, shift: Array, weight: Array, g: Array, h: Array
) -> PieceTotals:
    none, n_chunks = np.empty((0, 4)), -(-raw.size // SUM_CHUNK)
    sums, largest = _fill(loss, y, NO_CLASS, raw[None], shift, weight, g[None], h[None], none)
    return PieceTotals(largest[:, 0, :2].max(axis=0).view(np.float64), sums[0, :, :n_chunks])


def _fill(
    loss: Any,
    y: Array,
    first_class: int,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    totals: Array,
) -> tuple[np.ndarray, np.ndarray]:
    """Fill in gradients, and the totals if there is room for them; return the sums of chunks, which
    the totals change, and the largest magnitudes, as bits."""
    n_lines, n = raw.shape
    # Zeros up to a power of two do not change a sum, and make it a whole tree.
    sums = np.zeros((n_lines, 2, 1 << ((n - 1) // SUM_CHUNK).bit_length()))
    n_threads = threads_for(raw.size)
    largest = np.zeros((n_threads, n_lines, CACHE_LINE), np.int64)
    run(
        compiled_for(_gradients_worker, type(loss)), n_threads,
        loss, y.reshape(-1, n), first_class, raw, shift, weight, g, h, largest, sums, totals,
    )  # fmt: skip
    return sums, largest


@kernel
def _values_worker(thread, n_threads, barrier, loss, y, raw, shift, out):
    n = raw.size
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    for i in range(begin, end):
        f = raw[i] - shift[i] if shift.size > 0 else raw[i]
        out[i] = value(loss, float(y[i]), f)


def row_values(loss: Any, y: Array, raw: Array, shift: Array) -> Array:
    out = np.empty(raw.shape[0])
    run(compiled_for(_values_worker, type(loss)), threads_for(raw.size), loss, y, raw, shift, out)
    return out
