"""Cut points (contract: ``kernels.binning.cut_points``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.target import download
from ..reference import cut_points as reference


def cut_points(ordered: Array, weight: Array, max_bins: int) -> list[np.ndarray]:
    return reference.cut_points(ordered, weight, max_bins, download)
