"""The leaf of every row (contract: ``kernels.growth.scatter_leaves``). ``cpu.grow`` does this
inside its parallel region; this serves the growth that is driven from the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run


@kernel
def _worker(thread, n_threads, barrier, records, begin, end, tree, leaf, out):
    for k in range(begin.size):
        for i in range(begin[k], end[k]):
            out[tree[k], records[i] & np.uint64(0xFFFFFFFF)] = leaf[k]


def scatter_leaves(
    records: Any,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Any:
    out = np.full(shape, -1, np.int32)
    run(_worker, 1, records, begin, end, tree, leaf, out)
    return out
