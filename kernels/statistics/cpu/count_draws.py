"""Rows drawn with replacement (contract: ``kernels.statistics.count_draws``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run
from ...scalars.rng import draw

u64 = np.uint64


@kernel
def _worker(thread, n_threads, barrier, counts, n_draws, key):
    n = u64(counts.size)
    for i in range(n_draws):
        counts[draw(key, u64(i)) * n >> u64(32)] += 1


def count_draws(counts: Any, n_draws: int, key: int) -> None:
    run(_worker, 1, counts, n_draws, np.uint64(key))
