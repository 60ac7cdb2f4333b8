"""Grown trees of boosting: how far they go, and the forest that collects them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..forest.forest import NOTHING, Forest
from ..inputs.binning import Binner
from ..kernels.growth.grow import GrownTrees
from ..kernels.leaves.newton_steps import leaf_sums
from ..kernels.runtime.compilation import kernel
from ..kernels.runtime.dtypes import NodeValues
from ..kernels.scalars.gain import between_values, within
from ..kernels.statistics.quantise import fixed_point_scales
from ..losses import Loss
from ..numerics.minimise import minimise

LONGEST_STEP = 16.0
"""Where the loss falls for ever, as it does once all classes are told apart."""


@dataclass(frozen=True)
class OutputTree:
    """Tree ``i`` of a batch, for one output.

    values : NodeValues
        Of its nodes, without shrinkage.
    """

    trees: GrownTrees
    i: int
    output: int
    values: NodeValues


def bound_values(trees: GrownTrees, t: int, monotone: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The values of tree ``t``'s nodes, in the order that monotone constraints ask for.

    From the root down, each node's value is put between the bounds that the splits above it
    set: the middle between the values of the two children of a constrained feature is where
    the values below the one end and those below the other begin. So no leaf is on the wrong side
    of another, however its value was found.

    Parameters
    ----------
    trees : GrownTrees
    t : int
    monotone : int8, shape (n_features,)
    value : float64, shape (n_nodes,)

    Returns
    -------
    float64, shape (n_nodes,)
    """
    nodes = slice(trees.offset[t], trees.offset[t + 1])
    bounded = value.copy()
    _bound_values(trees.feature[nodes], trees.left[nodes], trees.right[nodes], monotone, bounded)
    return bounded


@kernel
def _bound_values(feature, left, right, monotone, value):
    """In place; children have higher numbers than their parents."""
    low = np.full(value.size, -np.inf)
    high = np.full(value.size, np.inf)
    for node in range(value.size):
        value[node] = within(value[node], low[node], high[node])
        if left[node] < 0:
            continue
        a, b = left[node], right[node]
        low[a] = low[b] = low[node]
        high[a] = high[b] = high[node]
        middle = between_values(
            within(value[a], low[node], high[node]), within(value[b], low[node], high[node])
        )
        direction = monotone[feature[node]]
        if direction > 0:
            high[a] = low[b] = middle
        elif direction < 0:
            low[a] = high[b] = middle


def find_steps(
    loss: Loss, y: Any, raw: Any, weight: Any, grown: list[OutputTree], device: Device
) -> list[float]:
    """The factor on each tree's values that makes the loss least.

    Over the rows of the trees' samples. The trees of outputs that depend on each other, as the
    classes of a multinomial model do, have a factor in common; others have their own. Gradients
    are summed in fixed point by leaf, which gives the slope along the trees in any order of rows.

    Parameters
    ----------
    loss : Loss
        Of the round.
    y, raw, weight
        As in ``TrainingRows``.
    grown : list of OutputTree
        In the order of the outputs.
    """
    if loss.coupled:
        return [_find_step(loss, y, raw, weight, grown, device)] * len(grown)
    return [_find_step(loss, y, raw, weight, [tree], device) for tree in grown]


def _find_step(
    loss: Loss, y: Any, raw: Any, weight: Any, grown: list[OutputTree], device: Device
) -> float:
    xp = device.xp
    g, h = (xp.empty(raw.shape[1], dtype=np.float32) for _ in range(2))
    moved = raw.copy()
    added = {}
    for tree in grown:
        leaf = tree.trees.leaf[tree.i]
        added[tree.output] = device.asarray(tree.values.value)[xp.maximum(leaf, 0)]

    def slope(step: float) -> tuple[float, float]:
        for k, direction in added.items():
            moved[k] = raw[k] + step * direction
        shared = loss.shared(y, moved, device)
        slopes, curvatures = [], []
        for tree in grown:
            k, leaf, value = tree.output, tree.trees.leaf[tree.i], tree.values.value
            target = loss.targets(y, k, device)
            totals = loss.gradients(k, target, moved[k], shared, weight, g, h)
            if not all(total < np.inf for total in totals):
                return np.inf, 0.0
            scales = fixed_point_scales(totals, raw.shape[1])
            sums = leaf_sums(leaf, g, h, scales, value.size)
            slopes += (value * (sums[:, 0] / scales.g)).tolist()
            curvatures += (value * value * (sums[:, 1] / scales.h)).tolist()
        return fsum(slopes), fsum(curvatures) if loss.has_hessian else 0.0

    return max(minimise(slope, LONGEST_STEP), 0.0) or 1.0


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


@dataclass
class GrownRound:
    """The trees of a round, of which the raw predictions know.

    The values of tree k count ``factors[k]`` times. On a GPU they may be on their way to the host.
    """

    trees: list[OutputTree]
    factors: list[float]

    def append_to(self, forest: ForestBuilder, binner: Binner) -> None:
        """Add the trees to a forest."""
        for tree, factor in zip(self.trees, self.factors, strict=True):
            value, cover = factor * tree.values.value, tree.values.hessian
            forest.append(tree.trees, tree.i, value, cover, tree.output, binner)
