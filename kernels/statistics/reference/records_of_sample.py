"""Reference twin of ``kernels.statistics.records_of_sample``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace


def records_of_sample(counts: Any) -> Any:
    """In int64, which has shifts in every library."""
    xp = array_namespace(counts)
    (rows,) = xp.nonzero(counts)
    multiplicity = xp.astype(xp.take(counts, rows), xp.int64)
    return xp.astype(multiplicity << 32 | rows, xp.uint64)
