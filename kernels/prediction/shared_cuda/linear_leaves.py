"""Linear models in leaves of shared rows on a GPU (contract:
``kernels.prediction.linear_leaves``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import largest_of_each
from ..cuda import linear_leaves as of_own_rows
from ..cuda.linear_leaves import add_linear_values
from ..linear_leaves import LinearLeaves

__all__ = ["add_linear_values", "largest_linear_values"]


def largest_linear_values(leaves: LinearLeaves, X: Array, leaf: Array) -> np.ndarray:
    return largest_of_each(of_own_rows.largest_linear_values(leaves, X, leaf))
