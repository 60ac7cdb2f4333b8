"""Reference twin of ``kernels.statistics.row_draws``."""

from __future__ import annotations

from collections.abc import Sequence

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...scalars.primitives import vectorise
from ...scalars.rng import draw

_draw = vectorise(draw)


def draw_below(
    weight: Array, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[Array, ...]:
    of_samples = zip(n_rows, limits, keys, strict=True)
    return tuple(_sample(weight, *of_sample) for of_sample in of_samples)


def _sample(weight: Array, n_rows: int, limit: int, key: int) -> Array:
    xp = array_namespace(weight)
    numbers = xp.arange(n_rows, dtype=xp.uint64, device=device(weight))
    bits = _draw(xp.full(n_rows, key, dtype=xp.uint64, device=device(weight)), numbers)
    if weight.shape[0]:
        bits = xp.where(weight == 0, 2**32, bits)
    rows = xp.nonzero((bits < limit) | (bits == xp.min(bits)))[0]
    return xp.astype(rows, xp.int32)
