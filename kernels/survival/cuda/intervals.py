"""Times within bounds (contract: ``kernels.survival.intervals``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ...scalars.survival import (
    extreme_gradient,
    extreme_value,
    logistic_gradient,
    logistic_value,
    normal_gradient,
    normal_value,
)
from ..intervals import LOGISTIC, NORMAL

u32 = np.uint32
BLOCK = block_size(128)


@kernel
def gradients_of_intervals(lower, upper, score, inverse, distribution, out):
    """One row a thread."""
    n = u32(score.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        if distribution == NORMAL:
            g, h = normal_gradient(lower[i], upper[i], score[i], inverse)
        elif distribution == LOGISTIC:
            g, h = logistic_gradient(lower[i], upper[i], score[i], inverse)
        else:
            g, h = extreme_gradient(lower[i], upper[i], score[i], inverse)
        out[0, i] = g
        out[1, i] = h
        i = u32(i + cuda.gridsize(1))


def interval_gradients(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    n = score.shape[0]
    out = empty((2, n), np.float64)
    launch(
        gradients_of_intervals, blocks_for_rows(n, BLOCK), BLOCK,
        lower, upper, score, float(inverse), u32(distribution), out,
    )  # fmt: skip
    return out


@kernel
def values_of_intervals(lower, upper, score, inverse, distribution, out):
    """One row a thread."""
    n = u32(score.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        if distribution == NORMAL:
            out[i] = normal_value(lower[i], upper[i], score[i], inverse)
        elif distribution == LOGISTIC:
            out[i] = logistic_value(lower[i], upper[i], score[i], inverse)
        else:
            out[i] = extreme_value(lower[i], upper[i], score[i], inverse)
        i = u32(i + cuda.gridsize(1))


def interval_values(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    n = score.shape[0]
    out = empty(n, np.float64)
    launch(
        values_of_intervals, blocks_for_rows(n, BLOCK), BLOCK,
        lower, upper, score, float(inverse), u32(distribution), out,
    )  # fmt: skip
    return out
