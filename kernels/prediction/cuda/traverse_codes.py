"""Leaves of binned rows (contract: ``kernels.prediction.traverse_codes``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, kernel, launch, upload
from ...runtime.dtypes import NO_SETS, Codes
from ...scalars.routing import code_goes_left, is_left_category

u32 = np.uint32
BLOCK = block_size(256)


@kernel
def walk_codes(rows, feature, bin_, missing_left, left, right, left_codes, leaf):
    """One row a thread. It reads the row-major codes: a row's codes share few sectors, while
    the columns that neighbouring threads need soon differ."""
    n = u32(leaf.shape[0])
    i = u32(cuda.grid(1))
    while i < n:
        if leaf[i] < 0:
            node = u32(0)
            while feature[node] >= 0:
                code = rows[i, u32(feature[node])]
                if bin_[node] >= 0:
                    goes_left = code_goes_left(code, bin_[node], missing_left[node] != 0)
                else:
                    goes_left = is_left_category(left_codes[node, u32(code >> 5)], code)
                if goes_left:
                    node = u32(left[node])
                else:
                    node = u32(right[node])
            leaf[i] = node
        i = u32(i + cuda.gridsize(1))


def traverse_codes(
    codes: Codes,
    feature: Any,
    bin_: Any,
    missing_left: Any,
    left: Any,
    right: Any,
    leaf: Any,
    left_codes: Any = NO_SETS,
) -> None:
    tree = upload(feature, bin_, missing_left, left, right, left_codes)
    blocks = blocks_for_rows(leaf.shape[0], BLOCK)
    launch(walk_codes, blocks, BLOCK, codes.rows, *tree, leaf)
