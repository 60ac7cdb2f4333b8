"""Times within bounds (contract: ``kernels.survival.intervals``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for
from ...scalars.survival import (
    extreme_gradient,
    extreme_value,
    logistic_gradient,
    logistic_value,
    normal_gradient,
    normal_value,
)
from ..intervals import LOGISTIC, NORMAL


@inner
def _gradients(lower, upper, score, inverse, distribution, g, h):
    if distribution == NORMAL:
        # A loop for each distribution: the branch outside lets each of them be compiled straight.
        for i in range(g.size):
            g[i], h[i] = normal_gradient(lower[i], upper[i], score[i], inverse)
    elif distribution == LOGISTIC:
        for i in range(g.size):
            g[i], h[i] = logistic_gradient(lower[i], upper[i], score[i], inverse)
    else:
        for i in range(g.size):
            g[i], h[i] = extreme_gradient(lower[i], upper[i], score[i], inverse)


@inner
def _values(lower, upper, score, inverse, distribution, out):
    if distribution == NORMAL:
        for i in range(out.size):
            out[i] = normal_value(lower[i], upper[i], score[i], inverse)
    elif distribution == LOGISTIC:
        for i in range(out.size):
            out[i] = logistic_value(lower[i], upper[i], score[i], inverse)
    else:
        for i in range(out.size):
            out[i] = extreme_value(lower[i], upper[i], score[i], inverse)


@kernel
def _gradients_worker(thread, n_threads, barrier, lower, upper, score, inverse, distribution, out):
    n = score.size
    own = slice(n * thread // n_threads, n * (thread + 1) // n_threads)
    _gradients(lower[own], upper[own], score[own], inverse, distribution, out[0, own], out[1, own])


@kernel
def _values_worker(thread, n_threads, barrier, lower, upper, score, inverse, distribution, out):
    n = score.size
    own = slice(n * thread // n_threads, n * (thread + 1) // n_threads)
    _values(lower[own], upper[own], score[own], inverse, distribution, out[own])


def interval_gradients(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    out = np.empty((2, score.size))
    run(
        _gradients_worker, threads_for(score.size),
        lower, upper, score, float(inverse), distribution, out,
    )  # fmt: skip
    return out


def interval_values(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    out = np.empty(score.size)
    run(
        _values_worker, threads_for(score.size),
        lower, upper, score, float(inverse), distribution, out,
    )  # fmt: skip
    return out
