"""Update of the raw predictions (contract: ``kernels.statistics.add_leaf_values``)."""

from __future__ import annotations

from ...runtime.arrays import Array
from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import NodeValues
from ..reference.add_leaf_values import add_values_of_trees

__all__ = ["add_leaf_values", "add_values_of_trees"]


@kernel
def _worker(thread, n_threads, barrier, raw, leaf, values):
    n = raw.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        raw[i] += values[leaf[i]]


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    run(_worker, threads_for(raw.size), raw, leaf, factor * values.value)
