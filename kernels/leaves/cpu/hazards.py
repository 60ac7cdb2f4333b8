"""Means of cumulative hazards (contract: ``kernels.leaves.hazards``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ..hazards import LeafSteps


@kernel
def _add_steps(thread, n_threads, barrier, leaf, offset, begin, place, increase, out):
    n, n_trees = leaf.shape
    n_times = out.shape[1]
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for t in range(n_trees):
            node = offset[t] + leaf[i, t]
            # The increases of all trees first, time by time; the sum over the times then serves all
            # trees at once.
            for k in range(begin[node], begin[node + 1]):
                if place[k] < n_times:
                    out[i, place[k]] += increase[k]
        total = 0.0
        for j in range(n_times):
            total += out[i, j]
            out[i, j] = total / n_trees


def mean_hazards(steps: LeafSteps, leaf: np.ndarray, n_times: int) -> np.ndarray:
    out = np.zeros((leaf.shape[0], n_times))
    run(_add_steps, threads_for(8 * leaf.size), leaf, *steps, out)
    return out
