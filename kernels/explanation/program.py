"""Forests laid out for explanations: the splits of each tree depth first, with what came above.

A tree is walked depth first by all rows alike, whichever way a row goes itself. The walk is a list
of steps, ``8 * split + kind``, + ``FIRST`` if it is the first of the split::

    DOWN    to the left child of a split, which is a split too
    ACROSS  to its right child, which is a split too
    UP      the children are done
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..prediction.traverse import Trees
from ..runtime.arrays import Array
from ..runtime.compilation import kernel
from .quadrature import rules_up_to

DOWN, ACROSS, UP = range(3)
KIND, FIRST, SPLIT_SHIFT = 3, 4, 3
TREES_TOGETHER = 16
"""Trees of a group: their sum is added to the result at once."""


class DepthFirstSplits(NamedTuple):
    """The splits of all trees, depth first, left before right.

    feature : int32, shape (n_splits,)
    threshold : float64
    missing_left : uint8
    category_begin : int32
        As in ``Trees``.
    share : float64
        Of the training weight in the node that goes left.
    level : int32
        Splits above.
    before : int32
        Level of the closest split by the same feature above, -1 if there is none.
    passed : float64
        Share that all splits by the same feature above let pass towards this one; 1 without any.
    left, right : int32
        Number of the child among all nodes if it is a leaf, else -1.
    side : int32
        ``2 * level`` of the split above, + 1 in its right child; -1 at a root.
    slot : int32
        Number of the split's feature among the different features of its path.
    n_above : int32
        Different features of the splits above.
    """

    feature: Array
    threshold: Array
    missing_left: Array
    category_begin: Array
    share: Array
    level: Array
    before: Array
    passed: Array
    left: Array
    right: Array
    side: Array
    slot: Array
    n_above: Array


class Program(NamedTuple):
    """A forest as explanations read it.

    splits : DepthFirstSplits
    steps : int32, shape (n_steps,)
        Walks through the trees, one after the other.
    step_begin, split_begin : int64, shape (n_trees + 1,)
        Where those of each tree begin.
    n_points : int32, shape (n_trees,)
        Points of the quadrature: half of the largest number of different features on a path,
        rounded up.
    trees : int32, shape (n_entries,)
        The trees that add to each output, in their order, output after output.
    group_begin : int64, shape (n_groups + 1,)
        Entries of ``trees`` that are summed up together.
    group_output : int32, shape (n_groups,)
    category_words : uint32
    n_categories : int32, shape (n_features,)
    value : float64, shape (n_nodes, width)
    first_output : int32, shape (n_trees,)
    points, weights : float64
        Those of the Gauss-Legendre quadrature on [0, 1] with n points begin at
        ``n * (n - 1) // 2``.
    """

    splits: DepthFirstSplits
    steps: Array
    step_begin: Array
    split_begin: Array
    n_points: Array
    trees: Array
    group_begin: Array
    group_output: Array
    category_words: Array
    n_categories: Array
    value: Array
    first_output: Array
    points: Array
    weights: Array


class Size(NamedTuple):
    """Numbers that working memory depends on.

    n_levels : int
        Splits of the longest path.
    n_points : int
        The most points of the quadrature.
    n_slots : int
        The most different features on a path.
    """

    n_levels: int
    n_points: int
    n_slots: int


def lay_out(trees: Trees, cover: np.ndarray, n_outputs: int) -> tuple[Program, Size]:
    """Return the layout of a forest.

    Parameters
    ----------
    trees : Trees
        NumPy arrays.
    cover : float64, shape (n_nodes,), NumPy
        Training weight of the nodes; that of leaves is read.
    n_outputs : int

    Raises
    ------
    ValueError
        A split has no training weight below, or a leaf has a negative one or none that is finite.
    """
    below = np.empty(cover.size)
    n_splits, n_steps = np.zeros((2, len(trees.offset) - 1), np.int64)
    _count(trees.offset, trees.feature, trees.left, trees.right, cover, below, n_splits, n_steps)
    _require_cover(trees, below)
    n = int(n_splits.sum())
    dtypes = {"threshold": np.float64, "missing_left": np.uint8, "share": np.float64}
    dtypes["passed"] = np.float64
    splits = DepthFirstSplits(
        *(np.empty(n, dtypes.get(name, np.int32)) for name in DepthFirstSplits._fields)
    )
    split_begin = np.concatenate([[0], np.cumsum(n_splits)])
    step_begin = np.concatenate([[0], np.cumsum(n_steps)])
    steps = np.empty(int(step_begin[-1]), np.int32)
    n_levels = max(_levels(trees.offset, trees.feature, trees.left, trees.right), 1)
    n_slots = np.zeros(n_splits.size, np.int32)
    _write(tuple(trees), below, splits, split_begin, steps, step_begin, n_slots, n_levels)
    n_points = (n_slots + 1) // 2
    most = int(n_points.max(initial=1))
    points, weights = rules_up_to(most)
    entries, group_begin, group_output = _groups(trees, n_outputs)
    program = Program(
        splits, steps, step_begin, split_begin, n_points, entries, group_begin, group_output,
        trees.categories, trees.n_categories, trees.value, trees.output, points, weights,
    )  # fmt: skip
    return program, Size(n_levels, most, int(n_slots.max(initial=1)))


def _require_cover(trees: Trees, below: np.ndarray) -> None:
    wrong = ~(np.isfinite(below) & (below >= 0)) | ((trees.feature >= 0) & (below == 0))
    if wrong.any():
        node = int(np.flatnonzero(wrong)[0])
        tree = int(np.count_nonzero(np.asarray(trees.offset) <= node)) - 1
        raise ValueError(
            f"Node {node - int(trees.offset[tree])} of tree {tree} has a training weight (cover) "
            f"of {below[node]}, but path-dependent explanations follow the shares of the training "
            "rows: pass background rows, TreeExplainer(model, data), which need no covers."
        )


def _groups(trees: Trees, n_outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the trees of each output, the beginnings of their groups, and the groups' outputs."""
    width = trees.value.shape[1]
    entries, begins, outputs = [], [0], []
    n = 0
    for output in range(n_outputs):
        mine = np.flatnonzero((trees.output <= output) & (output < trees.output + width))
        entries.append(mine)
        ends = [*range(n + TREES_TOGETHER, n + mine.size, TREES_TOGETHER), n + mine.size]
        if mine.size:
            begins += ends
            outputs += [output] * len(ends)
        n += mine.size
    joined = np.concatenate([np.empty(0, np.int64), *entries]).astype(np.int32)
    return joined, np.array(begins, np.int64), np.array(outputs, np.int32)


@kernel
def _count(offset, feature, left, right, cover, below, n_splits, n_steps):
    """Sum up the covers of the leaves below every node; add up the splits and steps of each tree.
    Children come after their parents."""
    for tree in range(offset.size - 1):
        root = offset[tree]
        # From the last node to the root: children come before their parents this way.
        for node in range(offset[tree + 1] - root - 1, -1, -1):
            at = root + node
            if feature[at] < 0:
                below[at] = cover[at]
                continue
            children = root + left[at], root + right[at]
            below[at] = below[children[0]] + below[children[1]]
            n_splits[tree] += 1
            n_steps[tree] += 1 + (feature[children[0]] >= 0) + (feature[children[1]] >= 0)


@kernel
def _levels(offset, feature, left, right):
    """Return the number of splits of the longest path."""
    deepest = 0
    depth = np.zeros(feature.size, np.int64)
    for tree in range(offset.size - 1):
        root = offset[tree]
        for at in range(root, offset[tree + 1]):
            if feature[at] >= 0:
                depth[root + left[at]] = depth[root + right[at]] = depth[at] + 1
                deepest = max(deepest, depth[at] + 1)
    return deepest


@kernel
def _write(trees, below, splits, split_begin, steps, step_begin, n_slots, n_levels):
    """Fill ``splits``, ``steps`` and ``n_slots``, the most different features on a path."""
    trees = Trees(*trees)
    splits = DepthFirstSplits(*splits)
    node_at = np.empty(n_levels, np.int64)  # of the path, level by level
    split_at = np.empty(n_levels, np.int64)
    done = np.empty(n_levels, np.int64)  # children of the node that the walk has seen
    for tree in range(trees.offset.size - 1):
        root, split, step = trees.offset[tree], split_begin[tree], step_begin[tree]
        # A lone leaf has no splits, and explains nothing.
        if trees.feature[root] < 0:
            continue
        level = first = 0
        node_at[0] = root
        done[0] = -1
        while level >= 0:
            at = node_at[level]
            children = root + trees.left[at], root + trees.right[at]
            # First visit: number the split, depth first.
            if done[level] < 0:
                split_at[level] = split
                _write_split(trees, below, splits, split, at, children, level, split_at, done)
                n_slots[tree] = max(n_slots[tree], splits.slot[split] + 1)
                split += 1
                done[level] = 0
                first = FIRST
            # The next step of this split: its left child, its right one, or back up.
            kind = UP if done[level] == 2 else (ACROSS if done[level] == 1 else DOWN)
            done[level] += 1
            # Leaves have no step: the split above knows their values.
            if kind < UP and trees.feature[children[kind]] < 0:
                continue
            steps[step] = (split_at[level] << SPLIT_SHIFT) + first + kind
            step += 1
            first = 0
            level += -1 if kind == UP else 1
            if kind < UP:
                # One level down, to a child that was not visited yet.
                node_at[level] = children[kind]
                done[level] = -1


@kernel
def _write_split(trees, below, splits, split, at, children, level, split_at, done):
    """Describe a split by its node and by the splits above it."""
    left, right = children
    splits.feature[split] = trees.feature[at]
    splits.threshold[split] = trees.threshold[at]
    splits.missing_left[split] = trees.missing_left[at]
    splits.category_begin[split] = trees.category_begin[at]
    splits.share[split] = below[left] / below[at]
    splits.level[split] = level
    splits.left[split] = left if trees.feature[left] < 0 else -1
    splits.right[split] = right if trees.feature[right] < 0 else -1
    # ``done`` of the split above counts the child that the walk is in.
    splits.side[split] = 2 * (level - 1) + (done[level - 1] == 2) if level > 0 else -1
    splits.before[split] = -1
    splits.passed[split] = 1.0
    n_above = 0
    # All splits above, of which the lowest one by the same feature counts in the end.
    for above in range(level):
        other = split_at[above]
        n_above = max(n_above, splits.slot[other] + 1)
        if splits.feature[other] == trees.feature[at]:
            share = splits.share[other]
            splits.before[split] = above
            splits.passed[split] = splits.passed[other] * (
                share if done[above] == 1 else 1.0 - share
            )
            splits.slot[split] = splits.slot[other]
    splits.n_above[split] = n_above
    if splits.before[split] < 0:
        splits.slot[split] = n_above
