"""Leaf sums and Newton steps of shared rows on a GPU (contract:
``kernels.leaves.newton_steps``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import current_share
from ...runtime.dtypes import Scales
from ..cuda import newton_steps as of_own_rows
from ..reference.newton_steps import newton_steps

__all__ = ["leaf_sums", "newton_steps"]


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    share = current_share()
    assert share is not None
    sums = of_own_rows.leaf_sums(leaf, g, h, scales, n_nodes)
    share.collective.add(sums)
    return sums
