"""Reference twin of ``kernels.boosting.newton_trees``: one operation after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...growth.grow import GrownTrees, grow, records_for
from ...growth.params import NO_RULES, FeatureRules, GrowthParams
from ...growth.sparse_codes import SparseCodes
from ...growth.streamed_codes import StreamedCodes
from ...leaves.newton_steps import newton_steps
from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers, rows_of_all
from ...runtime.dtypes import Codes, Totals
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...statistics.add_leaf_values import add_values_of_trees
from ...statistics.quantise import scales_for
from ..newton_trees import Draws, NewtonTrees

_draw = vectorise(draw)


def add_newton_trees(
    codes: Codes | SparseCodes | StreamedCodes,
    n_bins: np.ndarray,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    raw: Array,
    draws: Draws,
    factor: float,
    largest: float,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
    records_for: Callable[..., Any] = records_for,
    grow: Callable[..., GrownTrees] = grow,
) -> NewtonTrees:
    n_rows = rows_of_all(g.shape[1], workers)
    scales = [scales_for(own, n_rows) for own in totals]
    xp = array_namespace(g)
    everything = xp.empty(0, dtype=xp.int32, device=device(g))
    records = records_for(codes, g, h, everything, draws.rounding, draws.first, scales, workers)
    keys = [_draw(int(draws.tree), int(draws.first) + i) for i in range(len(totals))]
    trees = grow(codes, n_bins, records, np.array(keys, np.uint64), params, rules, workers)
    values = newton_steps(trees, g, h, totals, params.l2, params.min_sum_hessian, largest, workers)
    add_values_of_trees(raw, trees.leaf, values, [factor] * len(values))
    return NewtonTrees(trees, values)
