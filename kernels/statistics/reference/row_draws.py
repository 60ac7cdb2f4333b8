"""Reference twin of ``kernels.statistics.row_draws``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...scalars.primitives import vectorise
from ...scalars.rng import draw

_draw = vectorise(draw)


def draw_below(
    weight: Array, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[Array, ...]:
    of_samples = enumerate(zip(n_rows, limits, keys, strict=True))
    return tuple(_sample(line_of(weight, k, own[0]), *own) for k, own in of_samples)


def line_of(weight: Array, k: int, n: int) -> Array:
    """Return the weights of the n rows of sample k."""
    own = weight[k, ...] if weight.ndim == 2 else weight
    return own[: min(n, own.shape[0])]


def _sample(weight: Array, n_rows: int, limit: Any, key: int) -> Array:
    xp = array_namespace(weight)
    numbers = xp.arange(n_rows, dtype=xp.uint64, device=device(weight))
    bits = _draw(xp.full(n_rows, key, dtype=xp.uint64, device=device(weight)), numbers)
    if weight.shape[0]:
        bits = xp.where(weight == 0, 2**32, bits)
    rows = xp.nonzero((bits < limit) | (bits == xp.min(bits)))[0]
    return xp.astype(rows, xp.int32)


def draw_by_chances(
    weight: Array, chances: Array, n_rows: Sequence[int], keys: Sequence[int]
) -> list[tuple[Array, Array]]:
    xp, found = array_namespace(chances), []
    for k, (n, key) in enumerate(zip(n_rows, keys, strict=True)):
        chance = chances[k, :n]
        limit = xp.astype(xp.floor(chance * 2.0**32), xp.uint64)
        rows = _sample(line_of(weight, k, n), n, limit, key)
        of_rows = xp.take(chance, rows)
        is_certain = rows.shape[0] == n and bool(xp.all(of_rows == 1.0))
        rows, of_rows = (own[:0] if is_certain else own for own in (rows, of_rows))
        found.append((rows, xp.astype(1.0 / of_rows, xp.float32)))
    return found
