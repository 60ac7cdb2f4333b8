"""Reference twin of ``kernels.statistics.samples``."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...scalars import rng
from ...scalars.primitives import vectorise
from ..samples import SampleRecords

draw = vectorise(rng.draw)


def count_draws(counts: Array, n_draws: int, key: int) -> None:
    """In int64, which holds every product; hits of a row are neighbours once sorted."""
    xp, n = array_namespace(counts), counts.shape[0]
    bits = draw(int(key), xp.arange(n_draws, dtype=xp.int64, device=device(counts)))
    hit = xp.sort(bits * n >> 32)
    rows = xp.arange(n, dtype=xp.int64, device=device(counts))
    hits = xp.searchsorted(hit, rows, side="right") - xp.searchsorted(hit, rows, side="left")
    counts[...] = counts + xp.astype(hits, xp.int32)


def records_of_sample(counts: Array) -> SampleRecords:
    """In int64, which has shifts in every library."""
    xp = array_namespace(counts)
    (rows,) = xp.nonzero(counts)
    multiplicity = xp.astype(xp.take(counts, rows), xp.int64)
    size = xp.asarray([rows.shape[0]], dtype=xp.int64, device=device(counts))
    return SampleRecords(xp.astype(multiplicity << 32 | rows, xp.uint64), size)
