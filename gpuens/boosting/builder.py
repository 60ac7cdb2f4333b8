"""Collecting the trees of boosting while they are grown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..forest.forest import NOTHING, Forest
from ..inputs.binning import Binner
from ..kernels.growth.grow import GrownTrees


class ForestBuilder:
    """Collects the trees of boosting while they are grown."""

    def __init__(
        self,
        n_features: int,
        base: np.ndarray,
        before: Forest | None = None,
        n_categories: Any = None,
    ) -> None:
        empty = Forest.empty(n_features, base, n_categories=n_categories)
        self._before = empty if before is None else before
        self._trees: list[dict[str, np.ndarray]] = []

    def __len__(self) -> int:
        return self._before.n_trees + len(self._trees)

    def append(
        self,
        trees: GrownTrees,
        t: int,
        value: np.ndarray,
        cover: np.ndarray,
        output: int,
        binner: Binner,
    ) -> None:
        """Add tree ``t`` of a batch.

        Parameters
        ----------
        trees : GrownTrees
        t : int
        value, cover : float64, shape (n_nodes,)
            Of the tree's nodes.
        output : int
            The column that it adds to.
        binner : Binner
        """
        nodes = slice(trees.offset[t], trees.offset[t + 1])
        feature, bin_ = trees.feature[nodes], trees.bin[nodes]
        begin, categories = _category_sets(trees, nodes, binner)
        self._trees.append(
            {
                "output": np.array([output], np.int32),
                "feature": feature,
                "threshold": np.where(bin_ >= 0, binner.table[feature, bin_], 0.0),
                "missing_left": trees.missing_left[nodes],
                "left": trees.left[nodes],
                "right": trees.right[nodes],
                "category_begin": begin,
                "categories": categories,
                "value": value[:, None],
                "gain": trees.gain[nodes],
                "impurity": NOTHING,
                "n_samples": trees.n_samples[nodes],
                "cover": cover,
            }
        )

    def keep(self, n: int) -> None:
        """Forget all but the first n trees."""
        n_before = self._before.n_trees
        del self._trees[max(0, n - n_before) :]
        if n < n_before:
            self._before = self._before.slice(0, n)

    def freeze(self) -> Forest:
        """The forest of all trees so far."""
        if not self._trees:
            return Forest.concatenate([self._before])
        arrays: dict[str, Any] = {
            name: np.concatenate([tree[name] for tree in self._trees]) for name in self._trees[0]
        }
        sizes = [tree["feature"].size for tree in self._trees]
        words = np.cumsum([0] + [tree["categories"].size for tree in self._trees])
        if words[-1]:
            begin = arrays["category_begin"]
            begin += np.repeat(words[:-1], sizes).astype(np.int32) * (begin >= 0)
        offset = np.cumsum([0, *sizes], dtype=np.int64)
        added = replace(self._before.slice(0, 0), offset=offset, **arrays)
        return Forest.concatenate([self._before, added])


def _category_sets(
    trees: GrownTrees, nodes: slice, binner: Binner
) -> tuple[np.ndarray, np.ndarray]:
    """``category_begin`` and ``categories`` of a tree of boosting."""
    begin = np.full(nodes.stop - nodes.start, -1, np.int32)
    sets = [np.empty(0, np.uint32)]
    if trees.left_codes.size == 0:
        return begin, sets[0]
    feature = trees.feature[nodes]
    end = 0
    for node in np.flatnonzero((feature >= 0) & (trees.bin[nodes] < 0)):
        codes = trees.left_codes[nodes.start + node]
        sets.append(binner.left_categories(int(feature[node]), codes))
        begin[node] = end
        end += sets[-1].size
    return begin, np.concatenate(sets)
