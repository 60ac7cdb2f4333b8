"""Class probabilities (contract: ``kernels.prediction.probabilities``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for
from ...scalars.elementary import exp, is_far, log, sigmoid, within
from ...scalars.rounding import larger

BLOCK = 1024


@inner
def _largest(raw, top):
    for i in range(top.size):
        top[i] = larger(top[i], raw[i])


@inner
def _add_exponentials(raw, top, total):
    for i in range(top.size):
        total[i] += exp(raw[i] - top[i])


@inner
def _finish(top, total, out):
    for i in range(top.size):
        out[i] = top[i] + log(total[i])


@kernel
def _worker(thread, n_threads, barrier, raw, out):
    n = out.size
    top, total = np.empty(BLOCK), np.empty(BLOCK)
    for begin in range(n * thread // n_threads, n * (thread + 1) // n_threads, BLOCK):
        end = min(begin + BLOCK, n * (thread + 1) // n_threads)
        m, s = top[: end - begin], total[: end - begin]
        # Three passes over a block that stays in the cache: the largest, the sum below it, the
        # result. Without the largest, exponentials could overflow.
        for i in range(end - begin):
            m[i] = raw[0, begin + i]
            s[i] = 0.0
        for k in range(1, raw.shape[0]):
            _largest(raw[k, begin:end], m)
        for k in range(raw.shape[0]):
            _add_exponentials(raw[k, begin:end], m, s)
        _finish(m, s, out[begin:end])


def log_sum_exp(raw: Array) -> Array:
    if raw.ndim == 3:
        return np.stack([log_sum_exp(of_model) for of_model in raw])
    out = np.empty(raw.shape[1])
    run(_worker, threads_for(raw.size), raw, out)
    return out


@kernel
def _binomial_worker(thread, n_threads, barrier, f, out):
    n = f.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        p = sigmoid(f[i])
        out[i, 0] = 1.0 - p
        out[i, 1] = p


@inner
def _share_far_away(raw, i, out):
    n_classes = raw.shape[0]
    top = within(raw[0, i])
    for k in range(1, n_classes):
        top = larger(top, within(raw[k, i]))
    total = 0.0
    for k in range(n_classes):
        total += exp(within(raw[k, i]) - top)
    for k in range(n_classes):
        out[i, k] = exp(within(raw[k, i]) - top - log(total))


@kernel
def _multinomial_worker(thread, n_threads, barrier, raw, shift, out):
    n = shift.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for k in range(raw.shape[0]):
            out[i, k] = exp(raw[k, i] - shift[i])
        # So far away that the log-sum-exp has lost the differences between the classes.
        if is_far(shift[i]):
            _share_far_away(raw, i, out)


def probabilities(raw: Array) -> Array:
    n_outputs, n = raw.shape
    out = np.empty((n, max(2, n_outputs)))
    if n_outputs == 1:
        run(_binomial_worker, threads_for(n), raw[0], out)
    else:
        run(_multinomial_worker, threads_for(raw.size), raw, log_sum_exp(raw), out)
    return out
