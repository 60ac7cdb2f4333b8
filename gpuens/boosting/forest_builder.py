"""The forest that collects the trees of boosting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..forest.forest import NODE_ARRAYS, NOTHING, Forest
from ..forest.linear import LinearForest
from ..inputs.binning import Binner
from ..inputs.category_bins import CategoryBinner
from ..kernels.growth.grow import GrownTrees
from ..kernels.leaves.linear_sums import LinearFits
from ..kernels.runtime.dtypes import N_SLOTS
from .round_data import OutputTree

_NO_SETS = np.empty(0, np.int32), np.empty(0, np.uint32)
"""``category_begin``, until it is decoded, and ``categories`` of trees without categories."""


class ForestBuilder:
    """The forest of boosting while it is trained."""

    def __init__(
        self,
        n_features: int,
        base: np.ndarray,
        before: Forest | None = None,
        n_categories: Any = None,
        linear: bool = False,
        width: int = 1,
    ) -> None:
        empty = Forest.empty(n_features, base, width, n_categories)
        self._before = empty if before is None else before
        if linear:
            self._before = LinearForest.of(self._before)
        self._is_linear = isinstance(self._before, LinearForest)
        self._trees: list[dict[str, np.ndarray]] = []
        self._coded: list[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, Binner]] = []

    def append(self, outputs: Sequence[OutputTree], binner: Binner) -> None:
        """Add a tree, with the values of its outputs, which follow each other."""
        tree = outputs[0]
        grown, nodes, factor = tree.trees, tree.nodes, tree.factor
        begin, categories = _NO_SETS
        bin_, missing_left = grown.bin[nodes], grown.missing_left[nodes]
        if isinstance(binner, CategoryBinner):
            missing_left = missing_left.copy()
            begin, categories = _category_sets(grown, nodes, binner, missing_left)
            bin_ = np.where(begin >= 0, -1, bin_)
        value = np.stack([own.factor * own.values.value for own in outputs], axis=1)
        cover = np.sum([own.values.hessian for own in outputs], axis=0) / len(outputs)
        added: dict[str, np.ndarray] = {
            "output": np.array([tree.output], np.int32),
            "missing_left": missing_left,
            "left": grown.left[nodes],
            "right": grown.right[nodes],
            "category_begin": begin,
            "categories": categories,
            "value": value,
            "gain": grown.gain[nodes],
            "impurity": NOTHING,
            "n_samples": grown.n_samples[nodes],
            "cover": cover,
        }
        if self._is_linear:
            added |= _linear_arrays(tree.linear, value[:, 0], factor)
        self._coded.append((added, grown.feature[nodes], bin_, binner))
        self._trees.append(added)  # last: Ctrl-C must not leave a tree that is never decoded

    def _decode(self) -> None:
        """Turn features and bins into columns and thresholds: many trees at once, since calls for
        one of a small table cost as much as a part of its growth. After Ctrl-C it starts again."""
        if not self._coded:
            return
        trees, features, bins, (binner, *_) = zip(*self._coded, strict=True)
        feature, bin_ = np.concatenate(features), np.concatenate(bins)
        threshold = np.where(bin_ >= 0, binner.cuts_at(feature, bin_), 0.0)
        column = binner.numbers(feature)
        no_sets = np.full(feature.size, -1, np.int32)
        end = 0
        for tree, own in zip(trees, features, strict=True):
            begin, end = end, end + own.size
            tree["feature"], tree["threshold"] = column[begin:end], threshold[begin:end]
            if tree["category_begin"] is _NO_SETS[0]:
                tree["category_begin"] = no_sets[begin:end]
        self._coded.clear()

    def open_from(self, first: int) -> None:
        """Let the values of the trees from ``first`` on be revised."""
        forest = self._before
        for t in range(first, forest.n_trees):
            tree = forest.slice(t, t + 1)
            names = (*NODE_ARRAYS, "output", "categories")
            self._trees.append({name: getattr(tree, name) for name in names})
        self._before = forest.slice(0, first)

    def revise(self, tree: int, value: np.ndarray) -> None:
        """Give a tree's nodes other values."""
        self._trees[tree - self._before.n_trees]["value"] = value[:, None]

    def keep(self, n: int) -> None:
        """Drop all trees but the first n."""
        self._decode()
        n_before = self._before.n_trees
        del self._trees[max(0, n - n_before) :]
        if n < n_before:
            self._before = self._before.slice(0, n)

    def freeze(self) -> Forest:
        """Return the forest of all trees so far."""
        self._decode()
        if not self._trees:
            return self._before
        arrays: dict[str, Any] = {
            name: np.concatenate([tree[name] for tree in self._trees]) for name in self._trees[0]
        }
        sizes = [tree["feature"].size for tree in self._trees]
        words = np.cumsum([0] + [tree["categories"].size for tree in self._trees])
        if words[-1]:
            # Each tree counts the words of its category sets from 0.
            begin = arrays["category_begin"]
            begin += np.repeat(words[:-1], sizes).astype(np.int32) * (begin >= 0)
        if self._is_linear:
            n_coefficients = np.concatenate([[0], arrays.pop("n_coefficients")])
            arrays["linear_begin"] = np.cumsum(n_coefficients)
        offset = np.cumsum([0, *sizes], dtype=np.int64)
        added = replace(self._before.slice(0, 0), offset=offset, **arrays)
        if not self._before.n_trees:
            return added
        return type(self._before).concatenate([self._before, added])


def _linear_arrays(
    linear: LinearFits | None, value: np.ndarray, factor: float
) -> dict[str, np.ndarray]:
    """Return the arrays of a tree of a ``LinearForest``, with the number of coefficients of each
    node; ``value`` are its constants."""
    if linear is None:
        none = np.empty(0)
        linear = LinearFits(np.zeros(value.size + 1, np.int64), none.astype(np.int32), none, value)
        return _linear_arrays(linear, value, 1.0)
    return {
        "n_coefficients": np.diff(linear.begin),
        "linear_feature": linear.feature,
        "coefficient": factor * linear.coefficient,
        "intercept": factor * linear.intercept,
    }


def _category_sets(
    trees: GrownTrees, nodes: slice, binner: CategoryBinner, missing_left: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Make ``category_begin`` and ``categories`` of a ``Forest`` for some nodes, and correct
    ``missing_left`` where a feature is ranked."""
    begin = np.full(nodes.stop - nodes.start, -1, np.int32)
    sets = [np.empty(0, np.uint32)]
    feature, bins = trees.feature[nodes], trees.bin[nodes]
    by_set = (bins < 0) | binner.is_ranked[feature]
    end = 0
    for node in np.flatnonzero((feature >= 0) & by_set):
        if bins[node] < 0:
            codes = trees.left_codes[nodes.start + node]
        else:
            missing_left[node] = binner.bin_of_missing(int(feature[node])) <= bins[node]
            in_left = np.arange(N_SLOTS) <= bins[node]
            codes = np.packbits(in_left, bitorder="little").view("<u4").astype(np.uint32)
        sets.append(binner.left_categories(int(feature[node]), codes))
        begin[node] = end
        end += sets[-1].size
    return begin, np.concatenate(sets)
