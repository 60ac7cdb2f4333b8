"""Class probabilities (contract: ``kernels.prediction.probabilities``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ...scalars.elementary import exp, sigmoid
from .log_sum_exp import log_sum_exp


@kernel
def _binomial_worker(thread, n_threads, barrier, f, out):
    n = f.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        p = sigmoid(f[i])
        out[i, 0] = 1.0 - p
        out[i, 1] = p


@kernel
def _multinomial_worker(thread, n_threads, barrier, raw, shift, out):
    n = shift.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for k in range(raw.shape[0]):
            out[i, k] = exp(raw[k, i] - shift[i])


def probabilities(raw: Any) -> Any:
    n_outputs, n = raw.shape
    out = np.empty((n, max(2, n_outputs)))
    if n_outputs == 1:
        run(_binomial_worker, threads_for(n), raw[0], out)
    else:
        run(_multinomial_worker, threads_for(raw.size), raw, log_sum_exp(raw), out)
    return out
