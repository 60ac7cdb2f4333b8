"""Class probabilities (contract: ``kernels.prediction.probabilities``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ...runtime.dtypes import RAW
from ...scalars.elementary import exp, is_far, log, sigmoid, within

i64, u32 = np.int64, np.uint32
BLOCK = block_size(256)


@kernel
def sum_of_exps(raw, out):
    """One row a thread, which reads a column of ``raw`` twice: neighbours read neighbours.
    ``blockIdx.y`` is the model."""
    own, own_out = raw[i64(cuda.blockIdx.y)], out[i64(cuda.blockIdx.y)]
    n_classes = own.shape[0]
    n = u32(own.shape[1])
    i = u32(cuda.grid(1))
    while i < n:
        largest = own[u32(0), i]
        for k in range(1, n_classes):
            largest = max(largest, own[u32(k), i])
        total = 0.0
        for k in range(n_classes):
            total += exp(own[u32(k), i] - largest)
        own_out[i] = largest + log(total)
        i = u32(i + cuda.gridsize(1))


def log_sum_exp(raw: Array) -> Array:
    of_models = raw if raw.ndim == 3 else raw[None]
    out = empty((of_models.shape[0], raw.shape[-1]), RAW)
    blocks = blocks_for_rows(raw.shape[-1], BLOCK), of_models.shape[0]
    launch(sum_of_exps, blocks, BLOCK, of_models, out)
    return out if raw.ndim == 3 else out[0]


@kernel
def logistic(f, out):
    """One row a thread."""
    n = u32(f.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        p = sigmoid(f[i])
        out[i, 0] = 1.0 - p
        out[i, 1] = p
        i = u32(i + cuda.gridsize(1))


@kernel
def softmax(raw, shift, out):
    """One row a thread; ``shift`` is the row's log-sum-exp, of no use for rows far away."""
    n = u32(shift.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        for k in range(raw.shape[0]):
            out[i, k] = exp(raw[k, i] - shift[i])
        # As the CPU does it: the log-sum-exp has lost the differences between classes here.
        if is_far(shift[i]):
            largest = within(raw[u32(0), i])
            for k in range(1, raw.shape[0]):
                largest = max(largest, within(raw[k, i]))
            total = 0.0
            for k in range(raw.shape[0]):
                total += exp(within(raw[k, i]) - largest)
            for k in range(raw.shape[0]):
                out[i, k] = exp(within(raw[k, i]) - largest - log(total))
        i = u32(i + cuda.gridsize(1))


def probabilities(raw: Array) -> Array:
    n_outputs, n = raw.shape
    out = empty((n, max(2, n_outputs)), RAW)
    blocks = blocks_for_rows(n, BLOCK)
    if n_outputs == 1:
        launch(logistic, blocks, BLOCK, raw[0], out)
    else:
        launch(softmax, blocks, BLOCK, raw, log_sum_exp(raw), out)
    return out
