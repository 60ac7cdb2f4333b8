"""Growing isolation trees: random cuts until every row of a small sample is alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..devices.placement import CPU, Device
from ..forest.forest import Forest
from ..forest.structure import node_depths
from ..kernels.cart.problem import SQUARED_ERROR, CartParams, CartTable
from ..kernels.growth.params import UNLIMITED
from ..kernels.runtime.cpu.team import get_threads
from ..kernels.scalars import isolation
from ..kernels.scalars.primitives import vectorise
from ..members.samples import SamplingPlan
from ..trees.criteria import Problem, regression_problem
from ..trees.growth import grow_forest, tree_key
from ..trees.table import cart_table

average_path_length = vectorise(isolation.average_path_length)


def depth_limit(n_draws: int) -> int:
    """Depth of a balanced tree that parts all rows of a sample."""
    return math.ceil(math.log2(max(n_draws, 2)))


def grow_isolation_trees(
    values: Any,
    plan: SamplingPlan,
    first: int,
    n_trees: int,
    device: Device,
    after_batch: Callable[[int, Forest, Any], bool],
) -> Forest:
    """Grow trees ``first, first + 1, ...`` of an ensemble.

    Only rows that are in some sample are looked at.

    Parameters
    ----------
    values : float32 or float64, shape (n_rows, n_features), on the device; or a CSR matrix
        NaN is missing.
    plan : SamplingPlan
    first, n_trees : int
    device : Device
    after_batch : callable
        As for ``grow_forest``.

    Returns
    -------
    Forest
        ``value`` is the path length: the depth of the node, and how much deeper its rows would
        lie on average if it were grown to the end. Gains are zero, impurities empty.
    """
    samples = [_rows_of(plan, t) for t in range(first, first + n_trees)]
    seeds = [tree_key(plan.seed, t) for t in range(first, first + n_trees)]
    if plan.sees_all_features:
        grown = _grow_together(values, samples, seeds, plan, device, after_batch)
    else:
        features = [plan.features(t) for t in range(first, first + n_trees)]
        grown = _grow_apart(values, samples, features, seeds, plan, device, after_batch)
    n = np.arange(1, int(grown.n_samples.max()) + 1, dtype=np.float64)
    length = node_depths(grown) + average_path_length(n)[grown.n_samples - 1]
    return replace(
        grown, value=length[:, None], gain=np.zeros_like(grown.gain), impurity=np.empty(0)
    )


def _rows_of(plan: SamplingPlan, tree: int) -> np.ndarray:
    """The rows of a tree, ascending. Those drawn several times count once: no cut parts them."""
    return np.flatnonzero(plan.counts(tree, CPU)) if plan.replace else plan.rows(tree)


def _grow_together(
    values: Any,
    samples: list[np.ndarray],
    seeds: list[int],
    plan: SamplingPlan,
    device: Device,
    after_batch: Callable[[int, Forest, Any], bool],
) -> Forest:
    """All trees on one table of the rows in any sample."""
    drawn = np.zeros(plan.n_rows, np.bool_)
    for rows in samples:
        drawn[rows] = True
    position = np.cumsum(drawn, dtype=np.int64) - 1
    table = _table(_dense_rows(values, np.flatnonzero(drawn), device), device)

    def sample(tree: int) -> Any:
        return _records(position[samples[tree]], device)

    return grow_forest(
        table, _problem(table, device), sample, seeds, _params(plan), device,
        after_batch=after_batch,
    )  # fmt: skip


def _grow_apart(
    values: Any,
    samples: list[np.ndarray],
    features: list[np.ndarray],
    seeds: list[int],
    plan: SamplingPlan,
    device: Device,
    after_batch: Callable[[int, Forest, Any], bool],
) -> Forest:
    """Every tree on a table of its own, which has its features only."""
    trees = []
    for i, rows in enumerate(samples):
        columns = device.asarray(features[i])
        table = _table(_dense_rows(values, rows, device)[:, columns], device)
        sample = [_records(np.arange(rows.size), device)].__getitem__
        problem, key = _problem(table, device), seeds[i : i + 1]
        tree = grow_forest(table, problem, sample, key, _params(plan), device)
        feature = np.where(tree.feature >= 0, features[i][tree.feature], -1).astype(np.int32)
        none = np.zeros(plan.n_features, np.int32)
        trees.append(replace(tree, n_features=plan.n_features, feature=feature, n_categories=none))
        if after_batch(i, trees[-1], None):
            break
    return Forest.concatenate(trees)


def _dense_rows(values: Any, rows: np.ndarray, device: Device) -> Any:
    if issparse(values):
        return device.asarray(values[rows].toarray())
    return values[device.asarray(rows)]


def _table(values: Any, device: Device) -> CartTable:
    n_features = values.shape[1]
    return cart_table(
        values,
        n_categories=np.zeros(n_features, np.int32),
        monotone=np.zeros(n_features, np.int8),
        max_bins=None,  # a cut is drawn from the numbers between two values, not from bins
        seed=0,
        device=device,
        n_threads=get_threads(),
    )


def _problem(table: CartTable, device: Device) -> Problem:
    """A target that no two rows share: only a node of one row is pure."""
    y = np.arange(table.codes.shape[1], dtype=np.float64)
    return regression_problem(y[None, :], None, "squared_error", 1, device)


def _params(plan: SamplingPlan) -> CartParams:
    return CartParams(
        criterion=SQUARED_ERROR,
        max_depth=depth_limit(plan.n_draws),
        max_leaves=UNLIMITED,
        min_samples_split=2,
        min_samples_leaf=1,
        min_weight_fraction=0.0,
        min_gain=0.0,
        max_features=1,
        shuffle=1,
        random_splits=1,
    )


def _records(positions: np.ndarray, device: Device) -> Any:
    """Rows of the table, ascending, each once."""
    return device.asarray(positions.astype(np.uint64) | np.uint64(2**32))


def local_features(forest: Forest, features: np.ndarray) -> Forest:
    """The same trees on a table that has only some features, those that they split by."""
    feature = np.where(forest.feature >= 0, np.searchsorted(features, forest.feature), -1)
    return replace(
        forest,
        n_features=features.size,
        feature=feature.astype(np.int32),
        n_categories=np.zeros(features.size, np.int32),
    )
