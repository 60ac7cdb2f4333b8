"""Arrays that begin with a cache line."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.runtime.arrays import LINE_BYTES, empty_on_line


@pytest.mark.parametrize("shape", [(1000, 32), (7, 3), (1, 1)])
def test_arrays_begin_with_a_cache_line(shape):
    array = empty_on_line(shape, np.uint8)
    assert array.ctypes.data % LINE_BYTES == 0
    assert array.shape == shape and array.flags.c_contiguous and array.flags.writeable
