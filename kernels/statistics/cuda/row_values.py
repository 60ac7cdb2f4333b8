"""Values of a formula (contract: ``kernels.statistics.row_values``)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ...runtime.dtypes import RAW
from ...scalars.losses import formulas_of

u32 = np.uint32
BLOCK = block_size(256)


@functools.cache
def row_values_kernel(loss: type) -> Any:
    """The kernel that is specialised on a class of ``scalars.losses``."""
    value = formulas_of(loss).value

    @kernel
    def values_of_rows(y, raw, parameter, shift, out):
        """One row a thread."""
        n = u32(raw.shape[0])
        i = u32(cuda.grid(1))
        while i < n:
            f = raw[i]
            if shift.shape[0] > 0:
                f -= shift[i]
            out[i] = value(y[i], f, parameter)
            i = u32(i + cuda.gridsize(1))

    return values_of_rows


def row_values(loss: Any, y: Any, raw: Any, shift: Any) -> Any:
    out = empty(raw.shape[0], RAW)
    args = (y, raw, float(loss.parameter), shift, out)
    launch(row_values_kernel(type(loss)), blocks_for_rows(raw.shape[0], BLOCK), BLOCK, *args)
    return out
