"""The forest that collects the trees of boosting."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..forest.forest import NOTHING, Forest
from ..forest.linear import LinearForest
from ..inputs.binning import Binner
from ..inputs.category_bins import CategoryBinner
from ..kernels.leaves.linear_sums import LinearFits
from ..kernels.runtime.dtypes import N_SLOTS
from .round_data import OutputTree


class _NewTree(NamedTuple):
    """A tree as it was grown: the arrays of ``GrownTrees`` by name, without the rows, and the
    values and hessians of its outputs, before they are multiplied by ``factor``."""

    nodes: dict[str, np.ndarray]
    output: int
    values: Sequence[np.ndarray]
    hessians: Sequence[np.ndarray]
    factor: float
    linear: LinearFits | None

    @property
    def n_bytes(self) -> int:
        arrays = *self.nodes.values(), *self.values, *self.hessians, *(self.linear or ())
        return sum(array.nbytes for array in arrays)


_NODES = "feature", "bin", "missing_left", "left", "right", "gain", "n_samples", "left_codes"
WAITING_BYTES = 2**23
"""New trees are decoded when about so many bytes of them wait: they take up to twice the memory of
decoded ones."""


class ForestBuilder:
    """The forest of boosting while it is trained.

    New trees wait as they were grown until the forest is needed, or they take ``WAITING_BYTES``:
    calls for one tree of a small table cost as much as a part of its growth. Another thread may
    freeze the forest while trees are added.
    """

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
        first = empty if before is None else before
        # The trees one part after the other, the first of which may have none.
        self._parts: list[Forest] = [LinearForest.of(first) if linear else first]
        self._changes_parts = threading.Lock()
        self._new: list[_NewTree] = []
        self._revised: dict[int, np.ndarray] = {}

    def append(self, outputs: Sequence[OutputTree], binner: Binner) -> None:
        """Add a tree, with the values of its outputs, which follow each other."""
        tree = outputs[0]
        grown, own = tree.trees, tree.nodes
        nodes = {name: getattr(grown, name)[own] for name in _NODES}
        values = [output.values.value for output in outputs]
        hessians = [output.values.hessian for output in outputs]
        self._binner = binner
        new = _NewTree(nodes, tree.output, values, hessians, tree.factor, tree.linear)
        self._new.append(new)
        if len(self._new) * new.n_bytes > WAITING_BYTES:
            with self._changes_parts:
                self._decode()

    def revise(self, tree: int, value: np.ndarray) -> None:
        """Give a tree's nodes other values."""
        self._revised[tree] = value

    def keep(self, n: int) -> None:
        """Drop all trees but the first n."""
        with self._changes_parts:
            parts, n_left = [], n
            for part in self._parts:
                parts.append(part if part.n_trees <= n_left else part.slice(0, n_left))
                n_left -= parts[-1].n_trees
            self._parts = parts
            del self._new[n_left:]
        self._revised = {tree: value for tree, value in self._revised.items() if tree < n}

    def freeze(self) -> Forest:
        """Return the forest of all trees so far."""
        with self._changes_parts:
            self._decode()
            parts = [part for part in self._parts if part.n_trees] or self._parts[:1]
            forest = parts[0] if len(parts) == 1 else type(parts[0]).concatenate(parts)
            if self._revised:
                value, offset = forest.value.copy(), forest.offset
                for tree, own in self._revised.items():
                    value[offset[tree] : offset[tree + 1]] = own[:, None]
                forest = replace(forest, value=value)
            self._parts, self._revised = [forest], {}
        return forest

    def _decode(self) -> None:
        """Make a part of the new trees; those that another thread adds meanwhile stay."""
        n = len(self._new)
        if n:
            parts = [*self._parts, replace(self._parts[0], **self._decoded(self._new[:n]))]
            # Without a call in between: Ctrl-C must not leave trees in both, or in none.
            self._parts = parts
            del self._new[:n]

    def _decoded(self, trees: Sequence[_NewTree]) -> dict[str, Any]:
        """Return the arrays of new trees as a forest has them: with columns and thresholds in place
        of features and bins."""
        binner = self._binner
        sizes = [tree.values[0].size for tree in trees]
        nodes = {name: np.concatenate([tree.nodes[name] for tree in trees]) for name in _NODES}
        feature, bin_, left_codes = nodes.pop("feature"), nodes.pop("bin"), nodes.pop("left_codes")
        begin, categories = np.full(feature.size, -1, np.int32), np.empty(0, np.uint32)
        if isinstance(binner, CategoryBinner):
            missing_left = nodes["missing_left"]
            categories = _category_sets(feature, bin_, left_codes, binner, missing_left, begin)
            bin_ = np.where(begin >= 0, -1, bin_)
        factor = np.repeat([tree.factor for tree in trees], sizes)
        values = _of_outputs([tree.values for tree in trees])
        hessians = _of_outputs([tree.hessians for tree in trees])
        if isinstance(self._parts[0], LinearForest):
            nodes |= _linear_arrays(trees)
        return nodes | {
            "offset": np.cumsum([0, *sizes], dtype=np.int64),
            "output": np.array([tree.output for tree in trees], np.int32),
            "feature": binner.numbers(feature),
            "threshold": np.where(bin_ >= 0, binner.cuts_at(feature, bin_), 0.0),
            "category_begin": begin,
            "categories": categories,
            "value": factor[:, None] * np.stack(values, axis=1),
            "impurity": NOTHING,
            "cover": np.sum(hessians, axis=0) / len(hessians),
        }


def _of_outputs(of_trees: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Return the numbers of each output for the nodes of all trees, from those of each tree."""
    return [np.concatenate(own) for own in zip(*of_trees, strict=True)]


def _linear_arrays(trees: Sequence[_NewTree]) -> dict[str, np.ndarray]:
    """Return the arrays of ``LinearForest`` of some trees; those without functions have constants
    alone."""
    none, no_feature = np.empty(0), np.empty(0, np.int32)

    def fits_of(tree: _NewTree) -> LinearFits:
        (value,) = tree.values
        begin = np.zeros(value.size + 1, np.int64)
        return tree.linear or LinearFits(begin, no_feature, none, value)

    fits = [fits_of(tree) for tree in trees]
    pairs = list(zip([tree.factor for tree in trees], fits, strict=True))
    sizes = np.concatenate([np.diff(own.begin) for own in fits])
    return {
        "linear_begin": np.cumsum(np.concatenate([np.zeros(1, np.int64), sizes])),
        "linear_feature": np.concatenate([own.feature for own in fits]),
        "coefficient": np.concatenate([factor * own.coefficient for factor, own in pairs]),
        "intercept": np.concatenate([factor * own.intercept for factor, own in pairs]),
    }


def _category_sets(
    feature: np.ndarray, bins: np.ndarray, left_codes: np.ndarray, binner: CategoryBinner,
    missing_left: np.ndarray, begin: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Fill in ``category_begin`` of a ``Forest`` for the nodes of some trees, correct
    ``missing_left`` where a feature is ranked, and return ``categories``."""
    sets = [np.empty(0, np.uint32)]
    by_set = (bins < 0) | binner.is_ranked[feature]
    end = 0
    for node in np.flatnonzero((feature >= 0) & by_set):
        if bins[node] < 0:
            codes = left_codes[node]
        else:
            missing_left[node] = binner.bin_of_missing(int(feature[node])) <= bins[node]
            in_left = np.arange(N_SLOTS) <= bins[node]
            codes = np.packbits(in_left, bitorder="little").view("<u4").astype(np.uint32)
        sets.append(binner.left_categories(int(feature[node]), codes))
        begin[node] = end
        end += sets[-1].size
    return np.concatenate(sets)
