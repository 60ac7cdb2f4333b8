"""Gradients, hessians and their measures, and values of rows (contract:
``kernels.statistics.gradients``)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    empty,
    kernel,
    launch,
    zeros,
)
from ...runtime.dtypes import RAW, SUM_CHUNK, Update
from ...scalars.losses import formulas_of
from ...scalars.primitives import mul
from ...scalars.rounding import fixed_point_bits, fixed_point_scale, quantising_scale
from .totals import (
    FIXED_POINT,
    MAX_G,
    MAX_H,
    N_VALUES,
    QUANTISING,
    SUM_G,
    SUM_H,
    DeviceTotals,
    values_on_device,
)

u32, f32, f64 = np.uint32, np.float32, np.float64
BLOCK = block_size(256)


@functools.cache
def gradients_kernel(loss: type) -> Any:
    """The kernel that is specialised on a class of ``scalars.losses``."""
    gradient = formulas_of(loss).gradient

    @kernel
    def gradients_of_chunks(y, raw, parameter, shift, weight, leaf, values, factor, g, h, measures):
        """One chunk of ``SUM_CHUNK`` rows a block; column k of ``measures`` is chunk k's.

        Where there are leaves, their values are first added to the raw predictions.
        The rows' values wait in shared memory for the order-fixed sum; the largest values,
        whose order does not matter, are gathered a thread before they take part.
        """
        sums_g = cuda.shared.array(SUM_CHUNK, np.float64)
        sums_h = cuda.shared.array(SUM_CHUNK, np.float64)
        tops_g = cuda.shared.array(BLOCK, np.float32)
        tops_h = cuda.shared.array(BLOCK, np.float32)
        t = u32(cuda.threadIdx.x)
        n = u32(raw.shape[0])
        chunk = u32(cuda.blockIdx.x)
        while chunk * u32(SUM_CHUNK) < n:
            top_g = f32(0)
            top_h = f32(0)
            k = t
            while k < u32(SUM_CHUNK):
                i = u32(chunk * u32(SUM_CHUNK) + k)
                size_g = f32(0)
                size_h = f32(0)
                if i < n:
                    f = raw[i]
                    if leaf.shape[0] > 0:
                        f += mul(factor, values[u32(leaf[i])])
                        raw[i] = f
                    if shift.shape[0] > 0:
                        f -= shift[i]
                    g_i, h_i = gradient(y[i], f, parameter)
                    if weight.shape[0] > 0:
                        g_i = mul(weight[i], g_i)
                        h_i = mul(weight[i], h_i)
                    g[i] = f32(g_i)
                    h[i] = f32(h_i)
                    size_g = abs(f32(g_i))
                    size_h = f32(h_i)
                top_g = max(top_g, size_g)
                top_h = max(top_h, size_h)
                sums_g[k] = f64(size_g)  # one store: libNVVM can misplace one over a zero
                sums_h[k] = f64(size_h)
                k = u32(k + u32(BLOCK))
            tops_g[t] = top_g
            tops_h[t] = top_h
            half = u32(SUM_CHUNK // 2)
            while half > u32(0):
                cuda.syncthreads()
                k = t
                while k < half:
                    sums_g[k] += sums_g[u32(k + half)]
                    sums_h[k] += sums_h[u32(k + half)]
                    k = u32(k + u32(BLOCK))
                if half < u32(BLOCK) and t < half:
                    tops_g[t] = max(tops_g[t], tops_g[u32(t + half)])
                    tops_h[t] = max(tops_h[t], tops_h[u32(t + half)])
                half = u32(half >> u32(1))
            if t == u32(0):
                measures[MAX_G, chunk] = f64(tops_g[0])
                measures[SUM_G, chunk] = sums_g[0]
                measures[MAX_H, chunk] = f64(tops_h[0])
                measures[SUM_H, chunk] = sums_h[0]
            cuda.syncthreads()
            chunk = u32(chunk + cuda.gridDim.x)

    return gradients_of_chunks


JOINING_BLOCK = block_size(1024)
"""One block joins all chunks, so it is as large as a block can be."""


@kernel
def join_measures(measures, n, n_bits, totals):
    """Join the chunks into column 0, upper half onto lower half, and find the scales; by the
    first block alone."""
    half = measures.shape[1] // 2 if cuda.blockIdx.x == 0 else 0
    while half > 0:
        k = cuda.threadIdx.x
        while k < half:
            measures[MAX_G, k] = max(measures[MAX_G, k], measures[MAX_G, k + half])
            measures[SUM_G, k] += measures[SUM_G, k + half]
            measures[MAX_H, k] = max(measures[MAX_H, k], measures[MAX_H, k + half])
            measures[SUM_H, k] += measures[SUM_H, k + half]
            k += JOINING_BLOCK
        cuda.syncthreads()
        half //= 2
    if cuda.grid(1) == 0:
        for k in range(4):
            totals[k] = measures[k, 0]
        totals[QUANTISING] = quantising_scale(measures[MAX_G, 0], measures[SUM_G, 0], n)
        totals[QUANTISING + 1] = quantising_scale(measures[MAX_H, 0], measures[SUM_H, 0], n)
        totals[FIXED_POINT] = fixed_point_scale(measures[MAX_G, 0], n_bits)
        totals[FIXED_POINT + 1] = fixed_point_scale(measures[MAX_H, 0], n_bits)


def gradients(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    update: Update | None = None,
) -> Any:
    n = int(raw.shape[0])
    chunks = -(-n // SUM_CHUNK)
    measures = zeros((4, 1 << (chunks - 1).bit_length()), np.float64)
    if update is None:
        adding = empty(0, np.int32), empty(0, np.float64), 0.0
    else:
        adding = update.leaf, values_on_device(update.values), float(update.factor)
    args = (y, raw, float(loss.parameter), shift, weight, *adding, g, h, measures)
    launch(gradients_kernel(type(loss)), blocks_for(chunks), BLOCK, *args)
    totals = empty(N_VALUES, np.float64)
    args = (measures, n, fixed_point_bits(n), totals)
    launch(join_measures, blocks_for(1), JOINING_BLOCK, *args)
    return DeviceTotals(totals, n)


u32 = np.uint32
BLOCK = block_size(256)


@functools.cache
def row_values_kernel(loss: type) -> Any:
    """The kernel that is specialised on a class of ``scalars.losses``."""
    value = formulas_of(loss).value

    @kernel
    def values_of_rows(y, raw, parameter, shift, out):
        """One row a thread."""
        n = u32(raw.shape[0])
        i = u32(cuda.grid(1))
        while i < n:
            f = raw[i]
            if shift.shape[0] > 0:
                f -= shift[i]
            out[i] = value(y[i], f, parameter)
            i = u32(i + cuda.gridsize(1))

    return values_of_rows


def row_values(loss: Any, y: Array, raw: Array, shift: Array) -> Array:
    out = empty(raw.shape[0], RAW)
    args = (y, raw, float(loss.parameter), shift, out)
    launch(row_values_kernel(type(loss)), blocks_for_rows(raw.shape[0], BLOCK), BLOCK, *args)
    return out
