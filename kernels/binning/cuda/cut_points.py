"""Cut points (contract: ``kernels.binning.cut_points``): the host's, of values that the device has
sorted. They are a sample, and array operations would take CuPy some twenty kernels to compile."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import download
from ..cpu import cut_points as host
from ..reference.cut_points import sort_rows as sort_rows


def cut_points(ordered: Array, weight: Array, max_bins: int) -> list[np.ndarray]:
    return host.cut_points(download(ordered), download(weight), max_bins)
