"""The tables of a batch of growing trees.

Every implementation keeps them, and the control of growth works on them, which sees numbers of
nodes, never rows: it decides which nodes are expanded next, what becomes of them and their
children, and which nodes the final trees have. On the CPU that is ``control``. CUDA has loops over
nodes of its own (``cuda/control``, ``cuda/choosing``, ``cuda/order``) and shares the functions of
single nodes; its rounds may open other nodes, the finished trees are the same. ``limits`` holds
what splits must keep to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..runtime.dtypes import ALONE, CODE_WORDS, N_SLOTS, NO_LEAF, NUMERIC, ORDERED, Scales
from .params import NO_RULES, FeatureRules, GrowthParams

NO_GAIN = -np.inf
HISTOGRAM_BYTES = 2**29
"""Most memory that kept histograms may take; beyond it they are built again when needed."""

LEAST_SLOTS = 4
"""For the children of a node whose own histogram is given up."""

# Entries of ``Frontier.state``.
N_NODES, N_EXPAND, N_PAIRS, N_RECHECK, N_FREE_SLOTS = range(5)

# One table of records instead of many arrays, and one integer type: a compiled function costs
# compile time for every array that it takes and for every combination of types. Aligned, or a GPU
# would read the fields byte by byte.
_I, _F = np.int64, np.float64
NODE = np.dtype(
    [
        ("tree", _I),
        ("depth", _I),
        ("begin", _I),  # its records are begin … end - 1
        ("end", _I),
        ("g", _I),  # quantised sums
        ("h", _I),
        ("feature", _I),  # its best split
        ("bin", _I),
        ("missing_left", _I),
        ("left_g", _I),
        ("left_h", _I),
        ("gain", _F),  # of that split, in the units of the loss; NO_GAIN: there is none
        ("child", _I),  # the left one, the right one follows; -1: not expanded
        ("parent", _I),  # -1: it is a root
        ("low", _F),  # bounds of its value, in quantised units: real value * scale_g / scale_h
        ("high", _F),
        ("slot", _I),  # where its histogram is kept; -1: nowhere
        ("chosen", _I),  # 1: the simulation expands it
        ("leaf", _I),  # after ``finish``: number of the leaf that it is or is below
        ("key", np.uint64),  # for the sampling of features
    ],
    align=True,
)
TREE = np.dtype(
    [
        ("begin", _I),
        ("end", _I),
        ("g", _I),
        ("h", _I),
        ("scale_g", _F),
        ("scale_h", _F),
        ("expanded", _I),  # number of nodes
        ("key", np.uint64),
        ("first", _I),  # where its part of ``heap`` and ``need`` begins
        ("n_need", _I),  # what its simulation has found
        ("n_splits", _I),
        ("needs_last", _I),
        ("n_levels", _I),  # splits of whole levels, ``UNLIMITED`` when there are no more
        ("n_open", _I),  # nodes of the level, or that may be opened, in its part of ``heap``
    ],
    align=True,
)
EXPANSION = np.dtype(
    [
        ("node", _I),
        ("n_left", _I),  # rows that went left, filled by the partition
        ("closes", _I),  # 1: the tree is complete with this split
    ],
    align=True,
)
PAIR = np.dtype(
    [
        ("build", _I),  # the histogram of this node is added up from its rows
        ("sibling", _I),  # its histogram is the parent's, whose slot it has, minus that; -1: none
    ],
    align=True,
)
RULE = np.dtype([("monotone", _I), ("kind", _I), ("cat_smooth", _F)], align=True)
"""The rules of a feature: 1 and -1 make values rise and fall along it; kind is
``NUMERIC``, ``ORDERED`` or ``ALONE``; ``cat_smooth`` is that of ``GrowthParams`` or its own."""
MEMBER = np.dtype([("group", _I), ("feature", _I)], align=True)
"""A feature that may interact with the others of a group; those of a group are adjacent."""


class Frontier(NamedTuple):
    """The tables of a batch of growing trees and what the current round works on.

    nodes : NODE, shape (capacity,)
        All nodes, those of speculation included; node t is the root of tree t.
    trees : TREE, shape (n_trees,)
    expand : EXPANSION
        Nodes to partition.
    pairs : PAIR
        New nodes whose splits are to be found.
    recheck : int64
        Nodes whose best split broke ``min_samples_leaf``. They get the best split that keeps
        it: while the best split is of a feature whose rows are not counted yet, they are
        counted, and the feature's splits that break the limit are struck out.
    free_slots : int64
        Stack of unused histogram slots.
    heap, need : int64
        Scratch of the simulations, and on the device the order of growth; each tree has a part of
        its own.
    rules : RULE, shape (n_features,) or (0,)
        Empty where no feature is special.
    members : MEMBER
        Groups of features that may interact; empty where all may.
    left_codes : uint32, shape (capacity, CODE_WORDS) or (0, CODE_WORDS)
        The codes that go left at nodes whose best split is by categories: ``bin`` is -1.
    state : int64
        Numbers of entries, indexed by the constants above.
    """

    nodes: np.ndarray
    trees: np.ndarray
    expand: np.ndarray
    pairs: np.ndarray
    recheck: np.ndarray
    free_slots: np.ndarray
    heap: np.ndarray
    need: np.ndarray
    rules: np.ndarray
    members: np.ndarray
    left_codes: np.ndarray
    state: np.ndarray


def node_capacity(params: GrowthParams, n_rows: int) -> int:
    """Return the most nodes that one tree can have in the table, including those of speculation."""
    most_leaves = _most_leaves(params, n_rows)
    if params.max_leaves >= most_leaves:
        return 2 * most_leaves + 1
    return min(2 * most_leaves, 6 * params.max_leaves) + 1


def most_nodes(params: GrowthParams, n_rows: int) -> int:
    """Return the most nodes that one finished tree has."""
    return 2 * min(params.max_leaves, _most_leaves(params, n_rows)) - 1


def leaf_type(params: GrowthParams, n_rows: int) -> np.dtype:
    """Return the type of the leaves of rows on a GPU: two bytes where they hold the number of every
    node."""
    return np.dtype(np.uint16 if most_nodes(params, n_rows) <= NO_LEAF else np.int32)


def _most_leaves(params: GrowthParams, n_rows: int) -> int:
    """Return the most leaves that the depth and the rows allow."""
    most_leaves = max(1, n_rows // params.min_samples_leaf)
    return min(most_leaves, 2**params.max_depth) if params.max_depth < 31 else most_leaves


def allocate(
    n_records: Sequence[int],
    keys: np.ndarray,
    params: GrowthParams,
    n_bins: np.ndarray,
    feature_rules: FeatureRules = NO_RULES,
) -> Frontier:
    """Allocate tables for a batch of trees, whose records lie one segment after the other."""
    capacities = [node_capacity(params, n) for n in n_records]
    capacity = sum(capacities)
    trees = np.zeros(len(n_records), TREE)
    trees["end"] = np.cumsum(n_records)
    trees["begin"] = trees["end"] - n_records
    trees["key"] = keys
    trees["first"] = np.cumsum(capacities) - capacities
    by_categories = feature_rules.categorical.any()
    is_ruled = by_categories or feature_rules.monotone.any()
    rules = np.zeros(n_bins.size if is_ruled else 0, RULE)
    if feature_rules.monotone.any():
        rules["monotone"] = feature_rules.monotone
    if by_categories:
        kinds = np.where(n_bins <= params.max_cat_to_onehot, ALONE, ORDERED)
        rules["kind"] = np.where(feature_rules.categorical, kinds, NUMERIC)
        own = feature_rules.cat_smooth
        rules["cat_smooth"] = own if own.size else params.cat_smooth
    members = [(k, feature) for k, group in enumerate(feature_rules.groups) for feature in group]
    return Frontier(
        nodes=np.zeros(capacity, NODE),
        trees=trees,
        expand=np.zeros(capacity, EXPANSION),
        pairs=np.zeros(capacity, PAIR),
        recheck=np.zeros(capacity, np.int64),
        free_slots=np.zeros(n_slots(n_bins.size, capacity, len(n_records), params), np.int64),
        heap=np.zeros(capacity, np.int64),
        need=np.zeros(capacity, np.int64),
        rules=rules,
        members=np.array(members, MEMBER),
        left_codes=np.zeros((capacity if by_categories else 0, CODE_WORDS), np.uint32),
        state=np.zeros(8, np.int64),
    )


def set_statistics(frontier: Frontier, sums: np.ndarray, scales: Sequence[Scales]) -> None:
    """Fill in the sums and the scales of the trees' records."""
    frontier.trees["g"], frontier.trees["h"] = sums.T
    frontier.trees["scale_g"], frontier.trees["scale_h"] = zip(*scales, strict=True)


def n_slots(n_features: int, capacity: int, n_trees: int, params: GrowthParams) -> int:
    """Return how many histograms to keep, at least one for every root."""
    if params.is_symmetric:  # those of all nodes of a level
        return max(n_trees, capacity // 2, LEAST_SLOTS)
    return max(n_trees, min(capacity, most_slots(n_features)), LEAST_SLOTS)


def most_slots(n_features: int) -> int:
    """Return how many histograms may be kept if there are not more trees."""
    return max(LEAST_SLOTS, HISTOGRAM_BYTES // (n_features * N_SLOTS * 8))
