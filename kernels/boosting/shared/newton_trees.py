"""A round of Newton boosting on a share of the rows (contract: ``kernels.boosting.newton_trees``):
the operations that it is made of meet the other workers.

Records and leaves have the same memory in all rounds. Dask has its workers return memory to the
system at once, and the first writing to new memory would take 3 of 45 ms a tree of 1M rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...growth.shared.grow import grow_in
from ...runtime.arrays import derived
from ...runtime.dtypes import Codes, TreeRecords
from ...statistics.shared.quantise import quantise_in
from ..newton_trees import NewtonTrees
from ..reference import newton_trees as reference


def add_newton_trees(codes: Any, n_bins: np.ndarray, g: np.ndarray, *others: Any) -> NewtonTrees:
    if not isinstance(codes, Codes):
        return reference.add_newton_trees(codes, n_bins, g, *others)
    kept = derived(codes.rows, "shared newton trees", dict)
    if kept.get("shape") != g.shape:
        kept.clear()
        kept["shape"] = g.shape
        kept["words"], kept["leaf"] = np.empty(g.shape, np.uint64), np.empty(g.shape, np.int32)

    def records_for(codes: Codes, *how: Any) -> TreeRecords:
        return quantise_in(kept["words"], *how)

    composed: Callable[..., NewtonTrees] = reference.add_newton_trees
    grow = partial(grow_in, kept["leaf"])
    return composed(codes, n_bins, g, *others, records_for=records_for, grow=grow)
