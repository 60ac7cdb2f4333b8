"""Trees of a file, with nodes in any order, as a ``Forest``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...forest.forest import Forest
from .files import ImportedModelError

MOST_FEATURES = 2**24
MOST_OUTPUTS = 2**20
MOST_CATEGORIES = 2**24
"""Above these a count is damage: arrays of that many entries are made of it."""
NUMBERS_OF_NODES: dict[str, Any] = {
    "feature": np.int64,
    "threshold": np.float64,
    "missing_left": bool,
    "left": np.int64,
    "right": np.int64,
    "gain": np.float64,
    "cover": np.float64,
    "n_samples": np.int64,
}
"""The columns of ``SourceTrees`` with a number for each node, and their types."""
PER_NODE = (*NUMBERS_OF_NODES, "value")
MOST_WORDS = 2**25
"""Words of all sets of categories, 128 MB: sets take as many as the largest category needs."""


@dataclass
class CategorySets:
    """Splits by categories: members of a set go to one side, everything else but NaN to the other.
    Set k is at ``node[k]``, counted over all trees and ascending, and owns
    ``members[begin[k]:begin[k + 1]]``, which go left if ``members_left[k]``."""

    node: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    begin: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    members: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    members_left: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    @classmethod
    def of(
        cls, node: np.ndarray, members: list[np.ndarray], members_left: np.ndarray
    ) -> CategorySets:
        """Return the sets of some nodes, of which each has an array of members."""
        begin = np.concatenate([[0], np.cumsum([m.size for m in members], dtype=np.int64)])
        return cls(node, begin, joined(members, np.int64), members_left)


@dataclass(kw_only=True)
class SourceTree:
    """The nodes of a tree: one entry of each array a node, as in ``Forest``. Children are counted
    from the root; nodes that none leads to are left out."""

    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    cover: np.ndarray
    n_samples: np.ndarray
    sets: CategorySets


@dataclass(kw_only=True)
class SourceTrees(SourceTree):
    """All trees of a file, one after the other; the first node of a tree is its root. ``offset``
    and ``output`` as in ``Forest``."""

    n_features: int
    base: np.ndarray
    offset: np.ndarray
    output: np.ndarray
    names: dict[str, str]
    """Names of the fields in the file, for errors."""
    may_be_empty: bool = False
    """Whether splits that no training row reached are usual, as in trees of one split a level."""


def assemble(trees: SourceTrees) -> Forest:
    """Return the trees with nodes breadth first and siblings side by side. The last category of a
    feature that has any stands for all values that no set of the file can hold: it takes the side
    of those that a set leaves out. Raises an ImportedModelError if children are out of range or
    shared, or lead back; a threshold is NaN; or a cover is negative or that of a split zero."""
    if not 1 <= trees.n_features <= MOST_FEATURES:
        raise ImportedModelError(
            f"The model has {trees.n_features} features; it must have 1 to {MOST_FEATURES}."
        )
    _check_nodes(trees)
    order, offset = _breadth_first(trees)
    inner = trees.feature[order] >= 0
    number = np.full(trees.feature.size, -1, np.int64)
    number[order] = np.arange(order.size) - np.repeat(offset[:-1], np.diff(offset))
    root = np.repeat(trees.offset[:-1], np.diff(offset))

    def child(side: np.ndarray) -> np.ndarray:
        found = np.full(order.size, -1, np.int32)
        found[inner] = number[root[inner] + side[order][inner]]
        return found

    counts, begin, words = _bit_sets(trees, order)
    return Forest(
        n_features=trees.n_features,
        base=np.array(trees.base, np.float64),
        offset=offset,
        output=trees.output.astype(np.int32),
        feature=np.where(inner, trees.feature[order], -1).astype(np.int32),
        threshold=np.where(inner & (begin < 0), trees.threshold[order], 0.0),
        missing_left=(trees.missing_left[order] & inner).astype(np.uint8),
        left=child(trees.left),
        right=child(trees.right),
        category_begin=begin,
        value=np.ascontiguousarray(trees.value[order], np.float64),
        gain=np.where(inner, trees.gain[order], 0.0),
        impurity=np.empty(0),
        n_samples=trees.n_samples[order].astype(np.int32),
        cover=np.array(trees.cover[order], np.float64),
        categories=words,
        n_categories=counts,
    )


def _check_nodes(trees: SourceTrees) -> None:
    for name in PER_NODE:
        _require_length(trees, name)
    inner = trees.feature >= 0
    size = np.repeat(np.diff(trees.offset), np.diff(trees.offset))
    for side in ("left", "right"):
        child = getattr(trees, side)
        _refuse(trees, inner & ((child < 0) | (child >= size)), side, "is not a node of the tree")
    _refuse(trees, trees.feature >= trees.n_features, "feature", "is beyond those of the model")
    _refuse(trees, inner & np.isnan(trees.threshold), "threshold", "is NaN")
    _refuse(trees, ~np.isfinite(trees.value).all(axis=1) & ~inner, "value", "is not finite")
    _refuse(trees, ~(trees.cover >= 0) | (trees.cover == np.inf), "cover", "is not a weight")
    if trees.cover.any() and not trees.may_be_empty:
        empty = inner & (trees.cover <= 0)
        _refuse(trees, empty, "cover", "is zero at a split, so that no training row reached it")


def _require_length(trees: SourceTrees, name: str) -> None:
    n_nodes, found = int(trees.offset[-1]), np.shape(getattr(trees, name))
    if len(found) != (2 if name == "value" else 1) or found[0] != n_nodes:
        raise ImportedModelError(
            f"{trees.names.get(name, name)} must have an entry for each of the {n_nodes} nodes, "
            f"got shape {found}."
        )


def _refuse(trees: SourceTrees, wrong: np.ndarray, name: str, text: str) -> None:
    if wrong.any():
        node = int(np.argmax(wrong))
        tree = int(np.searchsorted(trees.offset, node, side="right")) - 1
        raise ImportedModelError(
            f"{trees.names.get(name, name)} of node {node - trees.offset[tree]} in tree {tree} "
            f"{text}, got {getattr(trees, name)[node]}."
        )


def _breadth_first(trees: SourceTrees) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes in their new order, and where trees begin in it."""
    tree_of = np.repeat(np.arange(trees.output.size), np.diff(trees.offset))
    seen = np.zeros(trees.feature.size, bool)
    level = trees.offset[:-1]
    levels = [level]
    while level.size:
        seen[level] = True
        parents = level[trees.feature[level] >= 0]
        root = trees.offset[tree_of[parents]]
        level = np.stack([root + trees.left[parents], root + trees.right[parents]], 1).ravel()
        again = seen[level]
        ascending = np.sort(level)
        if again.any() or (ascending[1:] == ascending[:-1]).any():
            twice = level[again] if again.any() else ascending[1:][np.diff(ascending) == 0]
            tree = tree_of[twice[0]]
            raise ImportedModelError(
                f"{trees.names.get('left', 'left')} and {trees.names.get('right', 'right')} lead "
                f"to node {twice[0] - trees.offset[tree]} of tree {tree} twice: it is not a tree."
            )
        levels.append(level)
    nodes = np.concatenate(levels)
    order = nodes[np.argsort(tree_of[nodes], kind="stable")]
    counts = np.bincount(tree_of[order], minlength=trees.output.size)
    return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _bit_sets(trees: SourceTrees, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``n_categories``, ``category_begin`` and ``categories`` of the forest."""
    sets = _reached(trees.sets, order)
    counts = np.zeros(trees.n_features, np.int64)
    size = np.diff(sets.begin)
    feature = trees.feature[sets.node]
    np.maximum.at(counts, np.repeat(feature, size), sets.members + 1)
    counts[np.unique(feature)] += 1
    set_of = np.full(trees.feature.size, -1, np.int64)
    set_of[sets.node] = np.arange(sets.node.size)
    mine = set_of[order]
    by_set = mine >= 0
    n_words = np.where(by_set, (counts[np.maximum(trees.feature[order], 0)] + 31) // 32, 0)
    if n_words.sum() > MOST_WORDS:
        raise ImportedModelError(
            f"{trees.names.get('sets', 'categories')} has {sets.node.size} sets and the category "
            f"{sets.members.max()}, which take {n_words.sum()} words; at most {MOST_WORDS} can "
            "be held. Number the categories from 0 on."
        )
    begin = np.where(by_set, np.cumsum(n_words) - n_words, -1)
    words = np.repeat(
        np.where(sets.members_left, 0, 0xFFFFFFFF).astype(np.uint32)[mine[by_set]], n_words[by_set]
    )
    begin_of = np.empty(sets.node.size, np.int64)
    begin_of[mine[by_set]] = begin[by_set]
    place = np.repeat(begin_of, size) + (sets.members >> 5)
    bit = np.left_shift(np.uint32(1), (sets.members & 31).astype(np.uint32))
    left = np.repeat(sets.members_left, size)
    np.bitwise_or.at(words, place[left], bit[left])
    np.bitwise_and.at(words, place[~left], ~bit[~left])
    return counts.astype(np.int32), begin.astype(np.int32), words


def _reached(sets: CategorySets, order: np.ndarray) -> CategorySets:
    """Return the sets of nodes that their trees lead to."""
    kept = np.isin(sets.node, order)
    size = np.diff(sets.begin)
    return CategorySets(
        sets.node[kept],
        np.concatenate([[0], np.cumsum(size[kept])]),
        sets.members[np.repeat(kept, size)],
        sets.members_left[kept],
    )


def joined_trees(
    trees: Sequence[SourceTree], n_features: int, base: np.ndarray, output: np.ndarray, width: int,
    names: dict[str, str],
) -> SourceTrees:  # fmt: skip
    """Return trees with leaves of ``width`` values one after the other."""
    sizes = [tree.feature.size for tree in trees]
    offset = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    sets = CategorySets(
        joined(
            [tree.sets.node + at for tree, at in zip(trees, offset[:-1], strict=True)], np.int64
        ),
        np.cumsum([0, *(n for tree in trees for n in np.diff(tree.sets.begin))], dtype=np.int64),
        joined([tree.sets.members for tree in trees], np.int64),
        joined([tree.sets.members_left for tree in trees], bool),
    )
    columns: dict[str, Any] = {
        name: joined([getattr(tree, name) for tree in trees], dtype)
        for name, dtype in NUMBERS_OF_NODES.items()
    }
    value = np.concatenate([np.empty((0, width)), *(tree.value for tree in trees)])
    return SourceTrees(n_features=n_features, base=base, offset=offset, output=output,
                       value=value, sets=sets, names=names, **columns)  # fmt: skip


def joined(parts: list[Any], dtype: Any) -> np.ndarray:
    """Return arrays one after the other, also where there are none."""
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)
