"""A tree's sample as records (contract: ``kernels.statistics.records_of_sample``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run

u64 = np.uint64


@kernel
def _worker(thread, n_threads, barrier, counts, records):
    """Every row is written to the end of the list; only those with a count stay there."""
    m = 0
    for row in range(counts.size):
        records[m] = u64(counts[row]) << u64(32) | u64(row)
        m += counts[row] > 0


def records_of_sample(counts: Any) -> Any:
    records = np.empty(np.count_nonzero(counts) + 1, np.uint64)
    run(_worker, 1, counts, records)
    return records[:-1]
