"""Projections (contract: ``kernels.binning.project``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    empty,
    kernel,
    launch,
    on_device,
)
from ...scalars.primitives import mul

i64, u32, f64 = np.int64, np.uint32, np.float64
BLOCK = block_size(128)
MOST_SHARES = 64
"""Blocks at most that share the projections of the same rows."""


@kernel
def add_features(X, begin, feature, weight, projected):
    """One row a thread; ``blockIdx.x`` begins with the projection of its number and strides over
    the others.

    All threads of a warp read the same entry, which is a broadcast, and write neighbours.
    """
    n, n_projections = u32(X.shape[0]), u32(projected.shape[0])
    i = u32(cuda.blockIdx.y * u32(BLOCK) + cuda.threadIdx.x)
    while i < n:
        j = u32(cuda.blockIdx.x)
        while j < n_projections:
            first, last = begin[j], begin[u32(j + u32(1))]
            # The first product starts the sum, as everywhere; ``mul`` keeps the compiler from
            # fusing it with the addition, which would round otherwise.
            total = mul(weight[first], f64(X[i, feature[first]]))
            for k in range(first + i64(1), last):
                total = total + mul(weight[k], f64(X[i, feature[k]]))
            projected[j, i] = total
            j = u32(j + cuda.gridDim.x)
        i = u32(i + cuda.gridDim.y * u32(BLOCK))


def project(X: Array, begin: Array, feature: Array, weight: Array) -> Array:
    n_projections, n_rows = begin.size - 1, X.shape[0]
    projected = empty((n_projections, n_rows), np.float64)
    blocks = (min(n_projections, MOST_SHARES), blocks_for_rows(n_rows, BLOCK))
    launch(
        add_features, blocks, BLOCK,
        X, on_device(begin), on_device(feature), on_device(weight), projected,
    )  # fmt: skip
    return projected
