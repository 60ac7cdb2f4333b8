"""Quantiles in leaves of shared rows on a GPU (contract: ``kernels.leaves.quantiles``): the workers
add up the sums that the selection is made by."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import current_share
from ...runtime.cuda.target import on_device
from ..cuda.quantiles import quantile_of_leaves, quantiles_of_sums

__all__ = ["leaf_quantiles", "quantile_of_leaves"]


def leaf_quantiles(
    leaf: Array, values: Array, weight: Array, quantile: float, n_nodes: int
) -> np.ndarray:
    share = current_share()
    assert share is not None
    collective = share.collective

    def join(sums: Array) -> None:
        sums[...] = on_device(collective.sum_to_host(sums))

    return quantiles_of_sums(leaf, values, weight, quantile, n_nodes, join)
