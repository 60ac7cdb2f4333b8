"""Reference twin of ``kernels.leaves.hazards``."""

from __future__ import annotations

import numpy as np

from ..hazards import LeafSteps


def mean_hazards(steps: LeafSteps, leaf: np.ndarray, n_times: int) -> np.ndarray:
    """Row by row, tree by tree."""
    out = np.zeros((leaf.shape[0], n_times))
    for i, t in np.ndindex(*leaf.shape):
        node = steps.offset[t] + leaf[i, t]
        own = slice(steps.begin[node], steps.begin[node + 1])
        inside = steps.place[own] < n_times
        np.add.at(out[i], steps.place[own][inside], steps.increase[own][inside])
    return np.cumsum(out, axis=1) / leaf.shape[1]
