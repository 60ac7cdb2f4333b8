"""How much memory gradient boosting takes, part by part."""

from __future__ import annotations

from collections.abc import Sequence
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
from ..kernels.growth import frontier as fr
from ..kernels.growth.params import GrowthParams
from ..kernels.runtime.dtypes import CODE_WORDS, N_SLOTS
from .parameters import growth_params
from .round import batch_size

SCRATCH_NODE_BYTES = 72
"""Of a growing node, beside its record: what a round works on."""
HISTOGRAM_BYTES = 8 * N_SLOTS
"""Of one feature: two planes of int32."""


def boosting_plan(
    estimator: Any,
    shape: tuple[int, int],
    itemsize: int,
    device: Device,
    *,
    n_outputs: int = 1,
    weighted: bool = False,
    evaluated: Sequence[int] = (),
    is_there: bool = False,
    splits: bool = False,
) -> MemoryPlan:
    """What gradient boosting takes beyond the data that is on the device already.

    Parameters
    ----------
    estimator : estimator
        With the parameters of gradient boosting.
    shape : tuple of int
        Rows and features.
    itemsize : int
        Bytes of a value of the table, 4 or 8.
    device : Device
    n_outputs : int
        Trees of a round.
    weighted : bool
        Whether there are weights of the rows.
    evaluated : sequence of int
        Numbers of rows of the evaluation sets.
    is_there : bool
        Whether the table is on the device already, as numbers that need no conversion.
    splits : bool
        Whether rows are held out for early stopping, which copies the table.

    Returns
    -------
    MemoryPlan
    """
    n, n_features = shape
    params = growth_params(estimator)
    batch = batch_size(n_outputs, n, n_features, device)
    n_numbered = n_outputs + batch * device.runs_ahead  # trees of a round, and of the next
    in_sample = max(1, int(n * float(estimator.subsample)))
    n_nodes = batch * fr.node_capacity(params, in_sample)
    bins = code_bytes(n_features)
    own = 8 * n_outputs
    free, capacity = device.memory()
    parts = {
        "table": 0 if is_there else n * n_features * itemsize,
        "target and weights": 8 * n * (1 + weighted),
        "table without the rows held out": n * n_features * itemsize if splits else 0,
        "bins": n * bins,
        "raw predictions": n * own,
        "gradients": 8 * batch * n,
        "records": (2 if batch == 1 else 3) * 8 * batch * in_sample,
        "leaves of the rows": 4 * n_numbered * n,
        "histograms": _histograms(n_features, n_nodes, batch, params),
        "candidates of splits": _candidates(n_features, n_nodes, batch, estimator),
        "tables of nodes": n_nodes * (fr.NODE.itemsize + SCRATCH_NODE_BYTES + _sets(estimator)),
        "trees": on_host_only(capacity, _forest_bytes(estimator, n_outputs, params, in_sample)),
        "evaluation sets": sum(rows * (bins + own + 4) for rows in evaluated),
    }
    task = f"Gradient boosting with {n:,} x {n_features:,} values"
    return plan_of(task, device, parts, free, capacity)


def _histograms(n_features: int, n_nodes: int, n_trees: int, params: GrowthParams) -> int:
    """Growth keeps histograms in a pool of limited size and builds others again, so that any
    number of nodes fits."""
    if params.max_leaves == 1:
        return 0
    return fr.n_slots(n_features, n_nodes, n_trees) * n_features * HISTOGRAM_BYTES


def _candidates(n_features: int, n_nodes: int, n_trees: int, estimator: Any) -> int:
    """The best split of each feature, of the nodes that a round looks at: the new ones, two for
    each histogram, and those to look at again."""
    n_looked = 3 * min(fr.n_slots(n_features, n_nodes, n_trees), n_nodes)
    return n_looked * n_features * (20 + _sets(estimator))


def _sets(estimator: Any) -> int:
    """Bytes of the set of categories of a growing node."""
    return 0 if estimator.categorical_features is None else 4 * CODE_WORDS


def _forest_bytes(estimator: Any, n_outputs: int, params: GrowthParams, in_sample: int) -> int:
    leaves = max(1, in_sample // params.min_samples_leaf)
    if params.max_depth < 31:
        leaves = min(leaves, 2**params.max_depth)
    leaves = max(1, min(int(LIKELY_SHARE * leaves), params.max_leaves))
    n_trees = int(estimator.n_estimators) * n_outputs
    return 2 * n_trees * (2 * leaves - 1) * (FOREST_NODE_BYTES + 8)
