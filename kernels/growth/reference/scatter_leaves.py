"""The leaf of every row (contract: ``kernels.growth.scatter_leaves``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device


def scatter_leaves(
    records: Any,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Any:
    xp = array_namespace(records)
    where = device(records)
    n_trees, n_rows = shape
    all_rows = xp.arange(n_rows, dtype=xp.int64, device=where)
    lines = []
    for t in range(n_trees):
        mine = tree == t
        first, last = int(begin[mine].min()), int(end[mine].max())
        leaves = np.repeat(leaf[mine], (end - begin)[mine])
        rows = xp.astype(records[first:last] & 0xFFFFFFFF, xp.int64)
        order = xp.argsort(rows)
        rows = xp.take(rows, order)
        leaves = xp.take(xp.asarray(leaves, device=where), order)
        at = xp.searchsorted(rows, all_rows)
        at = xp.where(at < last - first, at, last - first - 1)
        hit = xp.take(rows, at) == all_rows
        lines.append(xp.where(hit, xp.take(leaves, at), -1))
    return xp.stack(lines)
