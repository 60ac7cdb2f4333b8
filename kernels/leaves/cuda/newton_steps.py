"""Newton steps (contract: ``kernels.leaves.newton_steps``).

The host only launches: the leaves' values are ready for the update of the raw predictions before
it knows them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...growth.cuda.grow import GrowingTrees
from ...runtime.cuda.fetch import Fetched
from ...runtime.cuda.target import block_size, blocks_for_rows, cuda, empty, kernel, launch
from ...runtime.dtypes import NodeValues, Scales, Totals
from ...scalars.gain import newton_value
from ...statistics.cuda.totals import on_device
from ...statistics.scaling import fixed_point_scales
from ..node_sums import steps_of_sums
from .leaf_sums import sums_on_device

f64 = np.float64
BLOCK = block_size(256)


@kernel
def take_steps(sums, scales, l2, min_sum_hessian, values):
    """One leaf a thread. Numbers of inner nodes have no rows, and values that nobody reads."""
    i = cuda.grid(1)
    while i < values.shape[0]:
        g = f64(sums[i, 0]) / scales[0]
        h = max(f64(sums[i, 1]) / scales[1], min_sum_hessian)
        values[i] = newton_value(g, h, l2)
        i += cuda.gridsize(1)


class FetchedNodeValues:
    """What ``NodeValues`` are once they are asked for; ``on_device`` holds those of the leaves."""

    def __init__(
        self, trees: GrowingTrees, i: int, sums: Any, scales: Scales, l2: float, least_h: float
    ) -> None:
        n = sums.shape[0]
        self.on_device = empty(n, np.float64)
        args = (sums, on_device(scales), l2, least_h, self.on_device)
        launch(take_steps, blocks_for_rows(n, BLOCK), BLOCK, *args)
        self._of = trees, i
        self._sums = Fetched(sums)
        self._how = scales, l2, least_h

    @cached_property
    def _values(self) -> NodeValues:
        return steps_of_sums(*self._of, self._sums.wait(), *self._how)

    @property
    def value(self) -> np.ndarray:
        return self._values.value

    @property
    def hessian(self) -> np.ndarray:
        return self._values.hessian


def newton_steps(
    trees: GrowingTrees,
    i: int,
    g: Any,
    h: Any,
    totals: Totals,
    l2: float,
    min_sum_hessian: float,
) -> FetchedNodeValues:
    scales = fixed_point_scales(totals, int(g.shape[0]))
    sums = sums_on_device(trees.leaf[i], g, h, scales, trees.most_nodes(i))
    return FetchedNodeValues(trees, i, sums, scales, float(l2), float(min_sum_hessian))
