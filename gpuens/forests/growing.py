"""Growing a forest: the sample of each tree, its problem, memory, and progress."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from ..callbacks import ProgressBar, TrainingState
from ..devices.memory_plan import FOREST_NODE_BYTES, LIKELY_SHARE, format_bytes
from ..devices.placement import Device, to_numpy
from ..estimators.training import group_here
from ..forest.forest import Forest
from ..forest.pruning import prune_by_complexity
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER
from ..kernels.runtime.system import available_memory
from ..kernels.statistics.samples import SampleRecords, records_of_sample
from ..numerics.sampling import SamplingPlan
from ..trees.criteria import Problem
from ..trees.growth import all_rows, cart_plan, grow_forest, rows_and_counts, tree_key, tree_keys
from ..trees.honest import Estimates, halves_of
from ..trees.parameters import cart_params
from ..trees.sharing import bring_to, grow_among_workers, leaves_of_rows
from ..trees.training_data import TrainingData

AfterBatch = Callable[[int, Forest, Any], bool]
"""A function that is called with each batch of finished trees, see ``grow_forest``."""


class Progress:
    """Counts the trees that are finished, after ``first`` of a warm start and out of ``n_trees``,
    and shows them if that is wanted."""

    def __init__(self, first: int, n_trees: int, verbose: bool | int) -> None:
        self.first, self.done = first, 0
        self.bar = ProgressBar() if verbose else None
        unused: Any = None  # the bar looks at neither trees nor model
        self.state = TrainingState(first, n_trees, first, {}, unused, unused)

    def __call__(self, first: int, forest: Forest, records: Any) -> bool:
        """Take note of a batch of trees, as ``grow_forest`` reports it."""
        self.done += forest.n_trees
        self.state.iteration = self.first + self.done
        if self.bar is not None:
            self.bar.after_iteration(self.state)
        return False

    def finish(self) -> None:
        """Close the progress bar."""
        if self.bar is not None:
            self.bar.after_training(self.state)


def warn_of_interruption(n_trees: int, stacklevel: int) -> None:
    """Warn that Ctrl-C has stopped the growth of a forest."""
    warnings.warn(
        f"Training was interrupted: the forest keeps the {n_trees} trees that were finished.",
        RuntimeWarning,
        stacklevel=stacklevel + 1,
    )


@dataclass
class ForestGrower:
    """Grows the trees of a forest, each on a sample of its own by ``plan``; ``seed`` is the key of
    the forest. Of the estimator parameters are read, and for class_weight="balanced_subsample" its
    classes."""

    estimator: Any
    data: TrainingData
    plan: SamplingPlan
    seed: int
    device: Device

    def __post_init__(self) -> None:
        estimator = self.estimator
        self._others: dict[int, np.ndarray] = {}  # the halves that honest trees are not grown on
        self._is_honest = bool(getattr(estimator, "honest", False))
        self._is_balanced = getattr(estimator, "class_weight", None) == "balanced_subsample"
        """Whether each tree has weights of its own."""
        self._node_bytes = FOREST_NODE_BYTES + 8 * self.data.problem.width

    def grow(self, first: int, n_trees: int, after_batch: AfterBatch) -> Forest:
        """Grow trees ``first, first + 1, ...``; after Ctrl-C those that are finished.
        ``after_batch`` is called after each batch, see ``grow_forest``. Workers that share the rows
        grow some of the trees each, and all get all of them. Raises a MemoryError if the forest
        would not fit, by its parameters or by the size of its first trees."""
        data, estimator = self.data, self.estimator
        self._require_memory_for_leaves(n_trees)
        if data.workers is not ONE_WORKER:
            self.device = bring_to(self.device, data, estimator, self._params())
        device = self.device
        plan = cart_plan(
            estimator, data.shape, data.itemsize, device,
            width=data.problem.width, is_there=True, held=True,
        )  # fmt: skip
        plan.require()
        trees, checked = range(first, first + n_trees), self._checked(n_trees, after_batch)
        with plan.explaining():
            if data.workers is not ONE_WORKER:
                finish = self._finish_own if self._is_honest else None
                return grow_among_workers(self._own, trees, data.workers, checked, finish)
            return self._some(trees, checked)

    def _own(self, trees: range) -> Forest:
        """Grow the trees of a worker, where it grows them."""
        with self.device.active():
            return self._some(trees)

    def _some(self, trees: range, after_batch: AfterBatch | None = None) -> Forest:
        if self._is_balanced:
            return self._grow_one_by_one(trees, after_batch)
        return grow_forest(
            self.data.table, self.data.problem, lambda i: self.records(trees[i]),
            tree_keys(self.seed, trees), self._params(), self.device,
            finish=self._finish(trees, self.data.problem), after_batch=after_batch,
        )  # fmt: skip

    def records(self, tree: int) -> Array | SampleRecords:
        """Return the records that a tree is grown on (see ``grow_forest``)."""
        if not self._is_honest:
            return self._sample(tree)
        sample = self._sample(tree)
        if isinstance(sample, SampleRecords):
            sample = sample.records[: int(sample.size[0])]
        key = tree_key(self.seed, tree)
        records, self._others[tree] = halves_of(sample, key, self.device)
        return records

    def _finish(
        self, trees: range, problem: Problem
    ) -> Callable[[int, Forest, Array], tuple[Forest, Array]]:
        """Return what makes the trees of a batch trees of the features, and gives them their
        numbers if the rows that they are grown on do not. Where workers share the rows,
        ``_finish_own`` does the latter."""
        of_features = self.estimator._of_features
        if not self._is_honest or self.data.workers is not ONE_WORKER:
            return lambda first, forest, records: (of_features(forest), records)
        values: Any = self.data.values
        estimates = Estimates(problem, self.data.table)

        def finish(first: int, forest: Forest, records: Array) -> tuple[Forest, Array]:
            done = []
            for i, tree in enumerate(trees_of(of_features(forest))):
                others = self._others.pop(trees[first + i])
                leaf = to_numpy(tree.apply(values, self.device))[:, 0]
                done.append(estimates.applied(tree, others, leaf[rows_and_counts(others)[0]]))
            applied, in_nodes = zip(*done, strict=True)
            return Forest.concatenate(applied), np.concatenate(in_nodes)

        return finish

    def _finish_own(self, numbers: range, forest: Forest) -> list[Forest]:
        """Return the honest trees that this worker has grown, with their numbers, of ``forest``,
        those of all workers as they were grown. Between two bins that hold rows of a node its
        threshold may divide others, so that the codes do not say where the rows of the other half
        go: each worker looks up those that it has."""
        workers = self.data.workers
        own = range(workers.collective.rank, len(numbers), workers.collective.size)
        records = {t: self._others.pop(numbers[t]) for t in own}
        rows = {t: rows_and_counts(of_tree)[0] for t, of_tree in records.items()}
        leaves = leaves_of_rows(forest, self.data.values, rows, workers)
        done = []
        with self.device.active():
            for t in own:
                estimates = self._estimates_of(numbers[t])
                done.append(estimates.applied(forest.slice(t, t + 1), records[t], leaves[t])[0])
        return done

    def _estimates_of(self, tree: int) -> Estimates:
        if self._is_balanced:
            return Estimates(self._balanced(tree), self.data.table)
        return self._estimates

    @cached_property
    def _estimates(self) -> Estimates:  # a GPU's target is copied to the host once
        return Estimates(self.data.problem, self.data.table)

    def _sample(self, tree: int) -> Array | SampleRecords:
        """Return the records of a tree's sample."""
        used, device = self.data.used, self.device
        if not self.plan.replace:
            records = all_rows(self.plan.n_rows, device)
            return records if used is None else records[used]
        counts = self.plan.counts(tree, device)
        if used is not None:
            counts = counts * used
            if not bool(counts.any()):  # no row of positive weight was drawn
                counts[int(used.argmax())] = 1
        return records_of_sample(counts)

    def _grow_one_by_one(self, trees: range, after_batch: AfterBatch | None) -> Forest:
        """Grow each tree with weights of its own."""
        table, params = self.data.table, self._params()
        keys = tree_keys(self.seed, trees)
        grown: list[Forest] = []
        try:
            for i, number in enumerate(trees):
                problem = self._balanced(number)
                sample = [self.records(number)].__getitem__
                tree = grow_forest(
                    table, problem, sample, keys[i : i + 1], params, self.device,
                    finish=self._finish(trees[i : i + 1], problem),
                )  # fmt: skip
                grown.append(tree)
                if after_batch is not None:
                    after_batch(i, tree, None)
        except KeyboardInterrupt:
            if not grown or group_here.get() is not None:
                raise
        return Forest.concatenate(grown)

    def _balanced(self, tree: int) -> Problem:
        """Return the problem with weights that balance the classes in a tree's sample."""
        estimator, data = self.estimator, self.data
        targets = list(data.truth.T)
        factor = compute_sample_weight("balanced", data.truth, indices=self.plan.rows(tree))
        weight = factor if data.weight is None else factor * data.weight
        weight = np.where(weight > 0, weight, 1.0)  # outside the sample, or never used
        on_device = [self.device.asarray(target) for target in targets]
        return estimator._problem(on_device, weight, 31, self.device)

    def _params(self) -> Any:
        n_rows, n_columns = self.data.shape[0], self.data.table.n_bins.size
        random = self.estimator._random_splits
        return cart_params(self.estimator, self.data.problem, n_rows, n_columns, random=random)

    def _checked(self, n_trees: int, after_batch: AfterBatch) -> AfterBatch:
        """Return ``after_batch`` with a check of memory after the first batch."""

        def checked(first: int, forest: Forest, records: Any) -> bool:
            if first == 0:
                left = n_trees - forest.n_trees
                nodes = forest.feature.size / forest.n_trees
                size = left * nodes * self._node_bytes
                _require_memory(size, left, f"about {round(nodes)} nodes each")
            return after_batch(first, forest, records)

        return checked

    def _require_memory_for_leaves(self, n_trees: int) -> None:
        """Refuse a forest that cannot fit, before a tree is grown."""
        estimator = self.estimator
        leaves = max(1, int(self.plan.n_draws * (0.632 if estimator.bootstrap else 1.0)))
        if isinstance(estimator.min_samples_leaf, Integral):
            leaves = max(1, leaves // int(estimator.min_samples_leaf))
        if estimator.max_depth is not None and estimator.max_depth < 31:
            leaves = min(leaves, 2 ** int(estimator.max_depth))
        if estimator.max_leaf_nodes is not None:
            leaves = min(leaves, int(estimator.max_leaf_nodes))
        size = LIKELY_SHARE * n_trees * (2 * leaves - 1) * self._node_bytes
        _require_memory(size, n_trees, f"up to {leaves} leaves each")


def _require_memory(size: float, n_trees: int, what: str) -> None:
    available = available_memory()
    if available is not None and size > available:
        raise MemoryError(
            f"A forest of {n_trees} trees with {what} takes about {format_bytes(size)}, "
            f"{format_bytes(available)} are free. Grow fewer trees (n_estimators), or smaller "
            "ones (max_depth, max_leaf_nodes, min_samples_leaf, max_samples)."
        )


def trees_of(forest: Forest) -> Iterator[Forest]:
    """Iterate over the trees, each as a forest."""
    return (forest.slice(t, t + 1) for t in range(forest.n_trees))


def pruned(forest: Forest, ccp_alpha: float) -> Forest:
    """Return the forest with every tree pruned by minimal cost-complexity pruning."""
    if not ccp_alpha:
        return forest
    return Forest.concatenate([prune_by_complexity(tree, ccp_alpha) for tree in trees_of(forest)])
