"""Sums of products in leaves (contract: ``kernels.leaves.linear_sums``)."""

from __future__ import annotations

import math

import numpy as np

from ...prediction.cuda.rows import cells_of
from ...runtime.arrays import Array
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    download,
    kernel,
    launch,
    upload,
    zeros,
)
from ...runtime.dtypes import Scales
from ...scalars.primitives import mul
from ...scalars.rounding import nearest_even
from ..linear_sums import PathFeatures

i64, u32, u64, f64 = np.int64, np.uint32, np.uint64, np.float64
BLOCK = block_size(128)


@device_function
def placed(values, at, feature, center, scale, column, entry):
    """Return the feature of an entry in units of its interval; ``at`` is where the row begins."""
    x = f64(values[at + u64(feature[entry]) * u64(column)])
    return mul(x - center[entry], scale[entry])


@device_function
def is_complete(values, at, feature, center, scale, column, first, last):
    """Return whether a row has finite values in the features of its leaf."""
    complete = True
    for entry in range(first, last):
        own = placed(values, at, feature, center, scale, column, entry)
        complete = complete and abs(own) < math.inf
    return complete


@kernel
def add_products(
    leaf, g, h, values, row, column, begin, feature, center, scale, begin_of_sums, scale_g, scale_h,
    sums,
):  # fmt: skip
    """One row a thread; its features are read again for every product."""
    n, n_nodes = u32(leaf.shape[0]), u32(begin.shape[0] - 1)
    i = u32(cuda.grid(1))
    while i < n:
        node = u32(leaf[i])
        first = begin[node] if node < n_nodes else i64(0)
        last = begin[u32(node + u32(1))] if node < n_nodes else i64(0)
        at = u64(i) * u64(row)
        if first < last and is_complete(values, at, feature, center, scale, column, first, last):
            # Rows that are not complete take no part, as on the CPU.
            own_g, own_h = mul(f64(g[i]), scale_g), mul(f64(h[i]), scale_h)
            entry = begin_of_sums[node]
            for j in range(first, last + i64(1)):
                z = 1.0
                if j < last:
                    z = placed(values, at, feature, center, scale, column, j)
                weighted = mul(own_h, z)
                for k in range(first, j):
                    other = placed(values, at, feature, center, scale, column, k)
                    # Whole numbers: the order of the atomic additions does not matter.
                    cuda.atomic.add(sums, entry, i64(nearest_even(mul(weighted, other))))
                    entry += i64(1)
                cuda.atomic.add(sums, entry, i64(nearest_even(mul(weighted, z))))
                cuda.atomic.add(sums, entry + i64(1), i64(nearest_even(mul(own_g, z))))
                entry += i64(2)
            cuda.atomic.add(sums, entry, i64(1))
        i = u32(i + cuda.gridsize(1))


def linear_sums(
    leaf: Array, g: Array, h: Array, X: Array, features: PathFeatures, scales: Scales
) -> np.ndarray:
    begin = features.begin_of_sums()
    sums = zeros(int(begin[-1]), np.int64)
    if begin[-1] == 0:
        return download(sums)
    of_leaves = upload(*features, begin)
    blocks = blocks_for_rows(leaf.shape[0], BLOCK)
    launch(
        add_products, blocks, BLOCK,
        leaf, g, h, *cells_of(X), *of_leaves, float(scales.g), float(scales.h), sums,
    )  # fmt: skip
    return download(sums)
