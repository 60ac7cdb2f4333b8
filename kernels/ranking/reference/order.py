"""Reference twin of ``kernels.ranking.order``."""

from __future__ import annotations

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.reference.arrays import to_host
from ..queries import Queries


def order_queries(score: Array, queries: Queries) -> Array:
    """A stable sort of each query."""
    xp = array_namespace(score)
    begin = to_host(queries.begin).tolist()
    orders = [
        xp.argsort(-score[first:end], stable=True) + first
        for first, end in zip(begin[:-1], begin[1:], strict=True)
    ]
    return xp.astype(xp.concat(orders), xp.int32)
