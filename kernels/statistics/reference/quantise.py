"""Reference twin of ``kernels.statistics.quantise``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import Scales, TreeRecords
from ...scalars import rng, rounding
from ...scalars.primitives import vectorise

draw = rng.draw.py_func
draw_for_rows = vectorise(rng.draw)
stochastic_round = vectorise(rounding.stochastic_round)
u64 = np.uint64


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales]
) -> TreeRecords:
    """One output after another."""
    xp = array_namespace(g)
    found = [
        _records(g[i, ...], h[i, ...], rows, int(draw(u64(key), u64(first + i))), own)
        for i, own in enumerate(scales)
    ]
    words, sums = (xp.stack(arrays) for arrays in zip(*found, strict=True))
    return TreeRecords(words, sums, scales)


def _records(g: Array, h: Array, rows: Array, key: int, scales: Scales) -> tuple[Array, Array]:
    """Computed in int64, whose low 32 bits are those of uint64 and which every library has."""
    xp = array_namespace(g)
    if rows.shape[0]:
        g, h = xp.take(g, rows), xp.take(h, rows)
        row = xp.astype(rows, xp.int64)
    else:
        row = xp.arange(g.shape[0], dtype=xp.int64, device=device(g))
    bits = draw_for_rows(key, row)
    g_rounded = _round(g, scales.g, bits & 0xFFFF)
    h_rounded = _round(h, scales.h, bits >> 16)
    words = xp.astype((g_rounded << 48) | (h_rounded << 32) | row, xp.uint64)
    return words, xp.stack([xp.sum(g_rounded), xp.sum(h_rounded)])


def _round(values: Array, scale: float, bits: Array) -> Array:
    xp = array_namespace(values)
    scaled = xp.astype(values, xp.float64) * scale
    return xp.astype(stochastic_round(scaled, xp.astype(bits, xp.float64)), xp.int64)
