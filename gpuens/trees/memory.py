"""How much memory trees and forests take, part by part."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..devices.memory_plan import (
    FOREST_NODE_BYTES,
    LIKELY_SHARE,
    MemoryPlan,
    code_bytes,
    on_host_only,
    plan_of,
)
from ..devices.placement import Device
from ..kernels.cart.problem import SCRATCH_BYTES
from ..kernels.runtime.cpu.team import get_threads
from . import growth as tree_growth

EXACT_CELL_BYTES = 32
"""Of a value that is a bin of its own: two copies of its code, three of the value."""


def cart_plan(
    estimator: Any,
    shape: tuple[int, int],
    itemsize: int,
    device: Device,
    *,
    width: int = 1,
    n_outputs: int = 1,
    is_there: bool = False,
    held: bool = False,
) -> MemoryPlan:
    """What a decision tree or a forest of them takes.

    Parameters
    ----------
    estimator : estimator
        With the parameters of a tree or a forest.
    width : int
        Values of a leaf: outputs, or classes of all outputs.
    n_outputs : int
    held : bool
        Whether target and bins are on the device already; the trees are then left to the check of
        forests, which follows their growth.

    Returns
    -------
    MemoryPlan
        See ``boosting_plan`` for the other parameters.
    """
    n, n_features = shape
    n_trees = int(getattr(estimator, "n_estimators", 1))
    drawn = 0.632 if getattr(estimator, "bootstrap", False) else 1.0
    leaves = _leaves_of_tree(estimator, max(1, int(n * drawn)))
    n_nodes = 2 * leaves - 1
    statistics = 16 * (1 + width)
    of_tree = 3 * 8 * int(n * drawn) + n_nodes * (tree_growth.NODE_BYTES + statistics)
    batch = max(1, min(n_trees, max(get_threads(), tree_growth.BATCH_BYTES // of_tree)))
    one_bin_a_value = estimator.max_bins is None
    free, capacity = device.memory()
    parts = {
        "table": 0 if is_there else n * n_features * itemsize,
        "target and weights": n * (8 * n_outputs + 8 * n_outputs + 8),
        "bins": n * (EXACT_CELL_BYTES * n_features if one_bin_a_value else code_bytes(n_features)),
        "records and growing nodes": batch * of_tree,
        "histograms": 0
        if capacity is None
        else _cart_histograms(estimator, n_features, width, batch * leaves),
        "trees": on_host_only(capacity, 2 * n_trees * n_nodes * (FOREST_NODE_BYTES + 8 * width)),
    }
    if held:
        parts = {name: parts[name] for name in ("records and growing nodes", "histograms")}
    what = "A tree" if n_trees == 1 else f"A forest of {n_trees:,} trees"
    task = f"{what} on {n:,} x {n_features:,} values"
    return plan_of(task, device, parts, free, capacity)


def _cart_histograms(estimator: Any, n_features: int, width: int, n_nodes: int) -> int:
    """On a GPU, of the features of a generation of nodes, and as much to search in; as many at a
    time as there is room for. Trees with a bin for every value are grown by the host."""
    if estimator.max_bins is None:
        return 0
    of_feature = 2 * 8 * (estimator.max_bins + 1) * (1 + width)
    return max(of_feature, min(SCRATCH_BYTES, n_nodes * n_features * of_feature))


def _leaves_of_tree(estimator: Any, n_rows: int) -> int:
    """That a tree has as a rule, at most."""
    leaves = n_rows
    if isinstance(estimator.min_samples_leaf, Integral):
        leaves //= int(estimator.min_samples_leaf)
    if estimator.max_depth is not None and estimator.max_depth < 31:
        leaves = min(leaves, 2 ** int(estimator.max_depth))
    leaves = max(1, int(LIKELY_SHARE * leaves))
    return leaves if estimator.max_leaf_nodes is None else min(leaves, estimator.max_leaf_nodes)
