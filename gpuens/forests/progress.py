"""What happens after each batch of a forest's trees."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..callbacks import ProgressBar, TrainingState
from ..devices.memory import available_memory, format_bytes
from ..devices.memory_plan import FOREST_NODE_BYTES, LIKELY_SHARE
from ..devices.placement import Device
from ..forest.forest import Forest
from ..forest.pruning import prune_by_complexity
from ..trees.cart import TrainingData
from ..trees.criteria import Problem
from .out_of_bag import OutOfBagErrors, trees_of


class ForestProgress:
    """Out-of-bag errors, the progress bar, and a look at memory.

    Parameters
    ----------
    estimator : ForestOfTrees
    data : TrainingData
    before : Forest or None
        The trees that a warm start goes on from.
    device : Device

    Attributes
    ----------
    done : int
        Trees that were grown since.
    out_of_bag : OutOfBagErrors or None
        None without ``oob_score``.
    """

    def __init__(
        self, estimator: Any, data: TrainingData, before: Forest | None, device: Device
    ) -> None:
        self.estimator = estimator
        self.first = 0 if before is None else before.n_trees
        self.done = 0
        self.checked = False
        self.bar = ProgressBar() if estimator.verbose else None
        self.state = TrainingState(
            self.first, estimator.n_estimators, self.first, {}, self._nothing, self._nothing
        )
        self.out_of_bag = OutOfBagErrors(estimator, data, device) if estimator.oob_score else None
        if before is not None and self.out_of_bag is not None:
            for t, tree in enumerate(trees_of(before)):
                self.out_of_bag.add(t, tree)

    @staticmethod
    def _nothing() -> Any:
        """A forest that is half grown is nobody's business; the progress bar does not ask."""

    def require_memory(self, problem: Problem, n_trees: int) -> None:
        """Refuse a forest that cannot fit, before a tree is grown."""
        leaves = self._most_leaves()
        node = FOREST_NODE_BYTES + 8 * problem.width
        size = LIKELY_SHARE * n_trees * (2 * leaves - 1) * node
        self._require(size, n_trees, f"up to {leaves} leaves each")
        self.node = node

    def _most_leaves(self) -> int:
        estimator = self.estimator
        leaves = max(1, int(estimator._n_draws * (0.632 if estimator.bootstrap else 1.0)))
        if isinstance(estimator.min_samples_leaf, Integral):
            leaves = max(1, leaves // int(estimator.min_samples_leaf))
        if estimator.max_depth is not None and estimator.max_depth < 31:
            leaves = min(leaves, 2 ** int(estimator.max_depth))
        if estimator.max_leaf_nodes is not None:
            leaves = min(leaves, int(estimator.max_leaf_nodes))
        return leaves

    def _require(self, size: float, n_trees: int, what: str) -> None:
        available = available_memory()
        if available is not None and size > available:
            raise MemoryError(
                f"A forest of {n_trees} trees with {what} takes about {format_bytes(size)}, "
                f"{format_bytes(available)} are free. Grow fewer trees (n_estimators), or smaller "
                "ones (max_depth, max_leaf_nodes, min_samples_leaf, max_samples)."
            )

    def __call__(self, first: int, forest: Forest, records: Any) -> bool:
        estimator = self.estimator
        if not self.checked:
            self.checked = True
            left = estimator.n_estimators - self.first - forest.n_trees
            nodes = forest.feature.size / forest.n_trees
            self._require(left * nodes * self.node, left, f"about {round(nodes)} nodes each")
        if self.out_of_bag is not None:
            for i, tree in enumerate(trees_of(forest)):
                pruned = prune_by_complexity(tree, estimator.ccp_alpha)
                self.out_of_bag.add(self.first + first + i, pruned)
        self.done += forest.n_trees
        self.state.iteration = self.first + self.done
        if self.bar is not None:
            self.bar.after_iteration(self.state)
        return False

    def finish(self) -> None:
        """Set the estimator's out-of-bag attributes."""
        if self.bar is not None:
            self.bar.after_training(self.state)
        if self.out_of_bag is not None:
            self.estimator.oob_scores_path_ = np.array(self.out_of_bag.path)
            self.estimator._set_oob_prediction(self.out_of_bag.mean(), self.out_of_bag.truth)
