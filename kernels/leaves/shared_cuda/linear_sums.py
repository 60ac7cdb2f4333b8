"""Sums of products in leaves of shared rows on a GPU (contract: ``kernels.leaves.linear_sums``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import current_share
from ...runtime.dtypes import Scales
from ..cuda import linear_sums as of_own_rows
from ..linear_sums import PathFeatures

__all__ = ["linear_sums"]


def linear_sums(
    leaf: Array, g: Array, h: Array, X: Array, features: PathFeatures, scales: Scales
) -> np.ndarray:
    share = current_share()
    assert share is not None
    sums = of_own_rows.linear_sums(leaf, g, h, X, features, scales)
    share.collective.add(sums)
    return sums
