"""Leaf sums and Newton steps of shared rows (contract: ``kernels.leaves.newton_steps``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import current_share
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...statistics.quantise import fixed_point_scales
from ..cpu import newton_steps as of_own_rows
from ..newton_steps import steps_of_sums


def leaf_sums(leaf: Array, g: Array, h: Array, scales: Scales, n_nodes: int) -> np.ndarray:
    share = current_share()
    assert share is not None
    sums = of_own_rows.leaf_sums(leaf, g, h, scales, n_nodes)
    share.collective.add(sums)
    return sums


def newton_steps(
    trees: Any,
    i: int,
    g: Array,
    h: Array,
    totals: Totals,
    l2: float,
    min_sum_hessian: float,
    largest: float,
) -> NodeValues:
    scales = fixed_point_scales(totals, g.shape[0])
    n_nodes = int(trees.offset[i + 1] - trees.offset[i])
    sums = leaf_sums(trees.leaf[i], g, h, scales, n_nodes)
    return steps_of_sums(trees, i, sums, scales, l2, min_sum_hessian, largest)
