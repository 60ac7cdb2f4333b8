"""Update of the raw predictions (contract: ``kernels.statistics.add_leaf_values``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import NodeValues

u64 = np.uint64


@inner
def add_values(raw, leaf, values, begin, end):
    for i in range(u64(begin), u64(end)):
        raw[i] += values[u64(leaf[i])]


@kernel
def _worker(thread, n_threads, barrier, raw, leaf, values, offset):
    n_lines, n = raw.shape
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    for t in range(n_lines):
        own = leaf[min(t, leaf.shape[0] - 1)]
        add_values(raw[t], own, values[offset[t] : offset[t + 1]], begin, end)


def add_leaf_values(raw: Array, leaf: Array, values: NodeValues, factor: float) -> None:
    offset = np.array([0, values.value.size])
    run(_worker, threads_for(raw.size), raw[None], leaf[None], factor * values.value, offset)


def add_values_of_trees(
    raw: Array, leaf: Array, values: Sequence[NodeValues], factors: Sequence[float]
) -> None:
    added = [factor * own.value for own, factor in zip(values, factors, strict=True)]
    offset = np.array([*accumulate(map(len, added), initial=0)])
    run(_worker, threads_for(raw.size), raw, leaf, np.concatenate(added), offset)
