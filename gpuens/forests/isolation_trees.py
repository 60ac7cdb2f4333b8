"""The trees of isolation forests: random cuts that isolate rows, and the scores of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..devices.memory_plan import FOREST_NODE_BYTES, MemoryPlan, plan_of
from ..devices.placement import CPU, Device
from ..forest.forest import Forest
from ..forest.structure import node_depths
from ..kernels.cart.problem import SQUARED_ERROR, CartParams, CartTable
from ..kernels.growth.params import UNLIMITED
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..kernels.runtime.dtypes import MAX_BINS
from ..kernels.scalars import isolation
from ..kernels.scalars.lazy_jit import lazy_property
from ..kernels.scalars.primitives import vectorise
from ..numerics.sampling import SamplingPlan
from ..trees.criteria import Problem, regression_problem
from ..trees.growth import EXACT_CELL_BYTES, grow_forest, tree_key
from ..trees.sharing import device_to_read_on, grow_among_workers
from ..trees.table import cart_table

NUMBER_BYTES = 9
"""Bytes of a row of the table: whether it is in a sample, and its place among those that are."""

NODES_OF_DRAWS = 4.0
"""Nodes of a tree by its rows to the power of 2/3: 158 of 256, 8,500 of 100,000 (measured on ten
normal features)."""

AfterBatch = Callable[[int, Forest, Any], bool]

average_path_length = vectorise(isolation.average_path_length)


def depth_limit(n_draws: int) -> int:
    """Return the depth of a balanced tree that separates all rows of a sample."""
    return math.ceil(math.log2(max(n_draws, 2)))


def grow_isolation_trees(
    values: Any,
    plan: SamplingPlan,
    first: int,
    n_trees: int,
    device: Device,
    after_batch: AfterBatch,
    workers: Workers,
) -> Forest:
    """Grow trees ``first, first + 1, ...`` of an ensemble; ``after_batch`` as for ``grow_forest``.
    Values (n_rows, n_features), or a CSR matrix, may have NaN for missing ones. Only rows that are
    in some sample are read; workers that share the rows send each other these, and grow some of the
    trees each.

    The forest's ``value`` is the path length: the depth of the node, and how much deeper its rows
    would lie on average if it were grown to the end. Gains are zero, impurities empty."""
    trees, home = range(first, first + n_trees), device_to_read_on(device, workers)
    if not home.is_gpu:
        memory_of_growth(plan, n_trees, values.dtype.itemsize, home).require()
    samples = {t: _rows_of(plan, t) for t in trees}
    if workers is not ONE_WORKER:
        values = DrawnRows.of_workers(values, list(samples.values()), workers)

    def grow(numbers: range, after_batch: AfterBatch) -> Forest:
        rows, seeds = [samples[t] for t in numbers], [tree_key(plan.seed, t) for t in numbers]
        if plan.sees_all_features:
            return _grow_together(values, rows, seeds, plan, device, after_batch)
        features = [plan.features(t) for t in numbers]
        return _grow_apart(values, rows, features, seeds, plan, device, after_batch)

    def grow_own(numbers: range) -> Forest:
        with device.active():
            return grow(numbers, _go_on)

    if workers is ONE_WORKER:
        grown = grow(trees, after_batch)
    else:
        grown = grow_among_workers(grow_own, trees, workers, after_batch)
    n = np.arange(1, int(grown.n_samples.max()) + 1, dtype=np.float64)
    length = node_depths(grown) + average_path_length(n)[grown.n_samples - 1]
    return replace(
        grown, value=length[:, None], gain=np.zeros_like(grown.gain), impurity=np.empty(0)
    )


def memory_of_growth(plan: SamplingPlan, n_trees: int, itemsize: int, device: Device) -> MemoryPlan:
    """Plan the memory of the growth of some trees in host memory; ``itemsize`` is that of the
    values."""
    n_together = n_trees if plan.sees_all_features else 1
    n_drawn = min(plan.n_rows, n_together * plan.n_draws)
    n_nodes = int(n_trees * min(2 * plan.n_draws, NODES_OF_DRAWS * plan.n_draws ** (2 / 3)))
    parts = {
        "numbers of rows": NUMBER_BYTES * plan.n_rows,
        "drawn rows": n_drawn * plan.n_features * (itemsize + EXACT_CELL_BYTES),
        "trees": 2 * n_nodes * (FOREST_NODE_BYTES + 8),
    }
    task = f"An isolation forest of {n_trees:,} trees on {plan.n_rows:,} rows"
    return plan_of(task, device, parts, *device.memory())


def _go_on(first: int, forest: Forest, records: Any) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """The rows of a table that are in some sample: their ascending numbers, and their values."""

    numbers: np.ndarray
    values: np.ndarray

    @classmethod
    def of_workers(cls, values: Any, samples: list[np.ndarray], workers: Workers) -> DrawnRows:
        """Gather the rows that the workers have."""
        numbers = np.unique(np.concatenate(samples))
        is_own = (numbers >= workers.first) & (numbers < workers.first + workers.n_own)
        own = _dense_rows(values, numbers[is_own] - workers.first, CPU)
        return cls(numbers, np.concatenate(workers.collective.gather(np.ascontiguousarray(own))))

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return self.values[np.searchsorted(self.numbers, rows)]


def _rows_of(plan: SamplingPlan, tree: int) -> np.ndarray:
    """Return the rows of a tree, ascending; each once, as no cut separates repetitions."""
    return np.flatnonzero(plan.counts(tree, CPU)) if plan.replace else plan.rows(tree)


def _grow_together(
    values: Any,
    samples: list[np.ndarray],
    seeds: list[int],
    plan: SamplingPlan,
    device: Device,
    after_batch: AfterBatch,
) -> Forest:
    """Grow all trees on one table of the rows in any sample."""
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
    after_batch: AfterBatch,
) -> Forest:
    """Grow every tree on a table of its own, which has its features only."""
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
    if isinstance(values, DrawnRows):
        return device.asarray(values[rows])
    return values[device.asarray(rows)]


def _table(values: Any, device: Device) -> CartTable:
    n_features = values.shape[1]
    return cart_table(
        values,
        n_categories=np.zeros(n_features, np.int32),
        monotone=np.zeros(n_features, np.int8),
        max_bins=None,  # cuts are drawn between values, not between bins
        seed=0,
        device=device,
    )


def _problem(table: CartTable, device: Device) -> Problem:
    """Return a target that no two rows share: only a node of one row is pure."""
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
    """Return records of rows of the table, ascending, each once."""
    return device.asarray(positions.astype(np.uint64) | np.uint64(2**32))


def local_features(forest: Forest, features: np.ndarray) -> Forest:
    """Return the same trees for a table that has only some features."""
    feature = np.where(forest.feature >= 0, np.searchsorted(features, forest.feature), -1)
    return replace(
        forest,
        n_features=features.size,
        feature=feature.astype(np.int32),
        n_categories=np.zeros(features.size, np.int32),
    )


DENSE_BYTES = 2**26
"""Memory of the dense rows of a sparse matrix that are scored together."""
MANY_ROWS = 1000
"""The number of rows from which on it pays to predict with the trees in parts."""
MOST_CUTS = MAX_BINS - 1
"""Most cuts of a feature that a byte can number."""
MOST_SPLITS = 255
"""Most splits of a tree whose leaves a byte can number."""

SCORED_TOGETHER = 2**16
"""Rows whose scores are computed together: each takes seven more numbers meanwhile."""

_anomaly_score = vectorise(isolation.anomaly_score)


@dataclass(eq=False)
class IsolationScores:
    """The scores of an isolation forest, whose values are path lengths: how normal rows are.
    ``n_draws`` is the number of rows in the sample of a tree."""

    forest: Forest
    n_draws: int

    def of(self, values: Any, device: Device) -> Any:
        """Return minus the anomaly score of each row, float64 on the device."""
        average = self.forest.n_trees * average_path_length(np.array([float(self.n_draws)]))
        average, scores = device.asarray(average), self._path_lengths(values, device)
        for begin in range(0, scores.size, SCORED_TOGETHER):
            rows = slice(begin, begin + SCORED_TOGETHER)
            scores[rows] = -_anomaly_score(scores[rows], average)
        return scores

    def _path_lengths(self, values: Any, device: Device) -> Any:
        """Return the sums of path lengths over the trees."""
        if not issparse(values):
            return self._path_lengths_of_block(values, device)
        step = max(1, DENSE_BYTES // (8 * values.shape[1]))
        starts = range(0, values.shape[0], step)
        blocks = (device.asarray(values[i : i + step].toarray()) for i in starts)
        return device.xp.concat([self._path_lengths_of_block(b, device) for b in blocks])

    def _path_lengths_of_block(self, values: Any, device: Device) -> Any:
        parts = self._parts if values.shape[0] >= MANY_ROWS else [self.forest]
        length = parts[0].raw_predict(values, device)
        for part in parts[1:]:  # lengths are multiples of a unit: sums are exact in any order
            part.add_to(length, values, device)
        return length[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"forest": self.forest, "n_draws": self.n_draws}

    @lazy_property
    def _parts(self) -> list[Forest]:
        return parts_of_few_cuts(self.forest)


def parts_of_few_cuts(forest: Forest) -> list[Forest]:
    """Group the trees so that a byte can number the cuts of every feature in a group: prediction of
    1000 rows and more is 2.5 to 3.4 times as fast then (100 trees, 10 features, two cores). A
    forest one of whose trees has too many cuts stays whole."""
    inner = np.flatnonzero(forest.feature >= 0)
    tree = np.searchsorted(forest.offset, inner, side="right") - 1
    shape = forest.n_trees, forest.n_features
    cell = tree * forest.n_features + forest.feature[inner]
    n_cuts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    if n_cuts.max(initial=0) > MOST_CUTS or n_cuts.sum(axis=1).max(initial=0) > MOST_SPLITS:
        return [forest]
    starts, so_far = [0], np.zeros(forest.n_features, np.int64)
    for t in range(forest.n_trees):
        so_far += n_cuts[t]
        if so_far.max() > MOST_CUTS:
            starts.append(t)
            so_far[:] = n_cuts[t]
    ends = [*starts[1:], forest.n_trees]
    return [forest.slice(first, last) for first, last in zip(starts, ends, strict=True)]
