"""Update of the raw predictions (contract: ``kernels.add_leaf_values``)."""

from __future__ import annotations

from typing import Any

from ..compilation import kernel
from ..dtypes import NodeValues
from .team import run, threads_for


@kernel
def _worker(thread, n_threads, barrier, raw, leaf, values):
    n = raw.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        raw[i] += values[leaf[i]]


def add_leaf_values(raw: Any, leaf: Any, values: NodeValues, factor: float) -> None:
    run(_worker, threads_for(raw.size), raw, leaf, factor * values.value)
