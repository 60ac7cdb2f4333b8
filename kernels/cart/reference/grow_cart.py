"""Reference implementation of ``kernels.cart.grow_cart``, driven from the host generation by
generation, and the control that it shares with CUDA.

A generation is the children of the nodes that were split last: of all open nodes, or of each
tree's best one where the number of leaves is limited. All work on rows is in ``NodeByNode``.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from ...growth.params import UNLIMITED
from ...runtime.arrays import Array
from ...runtime.reference.arrays import beside
from ...scalars import rng, routing
from ...scalars.primitives import vectorise
from ..problem import CartParams, CartTable, CartTarget, GrownCart
from .splits import NodeRows, fill_best_split, is_classification, terms_of, weight_of

draw = vectorise(rng.draw)

_I, _F = np.int64, np.float64


def node_type(table: CartTable, target: CartTarget) -> np.dtype:
    """Return the dtype of a node while its tree grows."""
    return np.dtype(
        [
            ("number", _I),  # in the order in which the nodes of the batch were made
            ("tree", _I),
            ("parent", _I),
            ("depth", _I),
            ("begin", _I),
            ("end", _I),
            ("key", np.uint64),
            ("tree_weight", _F),
            ("least_weight", _F),  # of a child
            ("bounds", _F, (2,)),  # its value lies between them
            ("statistics", _I, (target.n_statistics,)),
            ("feature", _I),  # of its best split; -1: it stays a leaf
            ("bin", _I),  # the last code on the left
            ("threshold", _F),
            ("missing_left", _I),
            ("categories", np.uint32, (most_words(table),)),  # on the left
            ("gain", _F),
            ("values", _F, (2,)),  # of the children, where there are monotone constraints
        ]
    )


def words_for(n_bins: np.ndarray) -> np.ndarray:
    """Return the number of words of a set of categories."""
    return (n_bins + 31) // 32


def most_words(table: CartTable) -> int:
    return int(np.max(words_for(table.n_bins) * (table.categorical != 0), initial=0))


def drive(
    rows: NodeByNode,
    table: CartTable,
    target: CartTarget,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    """Grow a batch of trees."""
    young = _roots(tree_begin, tree_end, keys, node_type(table, target))
    n_leaves = np.ones(young.size, _I)
    born: list[np.ndarray] = []
    opened: list[np.ndarray] = []
    waiting = young[:0]
    while young.size:
        pure = rows.add_up(young)
        if not born:
            young["tree_weight"] = weight_of(young["statistics"].T, target)
            young["least_weight"] = params.min_weight_fraction * young["tree_weight"]
        _find_splits(rows, young, _may_split(young, target, params) & ~pure, params)
        born.append(young)
        waiting = np.concatenate([waiting, young[young["feature"] >= 0]])
        chosen = _next_to_open(waiting, n_leaves, params)
        parents, waiting = waiting[chosen], waiting[~chosen]
        opened.append(parents["number"])
        n_leaves += np.bincount(parents["tree"], minlength=n_leaves.size)
        first = int(young["number"][-1]) + 1
        young = _children(parents, rows.partition(parents), first, table.monotone)
    return _finished(np.concatenate(born), np.concatenate(opened), n_leaves.size, table)


def _roots(begin: np.ndarray, end: np.ndarray, keys: np.ndarray, node_type: np.dtype) -> np.ndarray:
    nodes = np.zeros(begin.size, node_type)
    nodes["number"] = nodes["tree"] = np.arange(nodes.size)
    nodes["parent"] = nodes["feature"] = -1
    nodes["begin"], nodes["end"], nodes["key"] = begin, end, keys
    nodes["bounds"] = -np.inf, np.inf
    return nodes


def _may_split(nodes: np.ndarray, target: CartTarget, params: CartParams) -> np.ndarray:
    """Mark the nodes that may be split."""
    n_rows = nodes["end"] - nodes["begin"]
    least_rows = max(params.min_samples_split, 2 * params.min_samples_leaf)
    return (
        (nodes["depth"] < params.max_depth)
        & (n_rows >= least_rows)
        & (weight_of(nodes["statistics"].T, target) >= 2 * nodes["least_weight"])
        & (params.max_leaves > 1)
    )


def _find_splits(
    rows: NodeByNode, nodes: np.ndarray, which: np.ndarray, params: CartParams
) -> None:
    found = nodes[which]
    rows.find_splits(found)
    if params.min_gain > 0.0:
        found["feature"][found["gain"] < params.min_gain * found["tree_weight"]] = -1
    nodes[which] = found


def _next_to_open(waiting: np.ndarray, n_leaves: np.ndarray, params: CartParams) -> np.ndarray:
    """Mark all nodes, or the best one of each tree that may have more leaves."""
    if params.max_leaves >= UNLIMITED:
        return np.ones(waiting.size, bool)
    order = np.lexsort((waiting["number"], -waiting["gain"], waiting["tree"]))
    tree = waiting["tree"][order]
    best = order[np.diff(tree, prepend=-1) > 0]
    chosen = np.zeros(waiting.size, bool)
    chosen[best] = n_leaves[waiting["tree"][best]] < params.max_leaves
    return chosen


def _children(
    parents: np.ndarray, n_left: np.ndarray, first: int, monotone: np.ndarray
) -> np.ndarray:
    """Return the next generation, numbered from ``first``; siblings are side by side."""
    young = np.repeat(parents, 2)
    young["number"] = np.arange(first, first + young.size)
    young["parent"] = np.repeat(parents["number"], 2)
    young["depth"] += 1
    young["feature"] = -1
    left, right = young[0::2], young[1::2]
    left["end"] = right["begin"] = parents["begin"] + n_left
    left["key"], right["key"] = (draw(parents["key"], np.uint64(side)) for side in (1, 2))
    direction = monotone[parents["feature"]]
    middle = parents["values"][:, 0] / 2 + parents["values"][:, 1] / 2
    for sign, lower_side, upper_side in ((1, left, right), (-1, right, left)):
        bound = direction == sign
        lower_side["bounds"][bound, 1] = middle[bound]
        upper_side["bounds"][bound, 0] = middle[bound]
    return young


def _breadth_first(nodes: np.ndarray, n_trees: int) -> np.ndarray:
    """Return the nodes' numbers tree by tree, level by level, in the order of their parents."""
    place = np.zeros(nodes.size, _I)
    place[:n_trees] = np.arange(n_trees)
    for depth in range(1, int(nodes["depth"].max(initial=0)) + 1):
        level = np.flatnonzero(nodes["depth"] == depth)
        side = (level - n_trees) % 2
        level = level[np.argsort(2 * place[nodes["parent"][level]] + side)]
        place[level] = np.arange(level.size)
    return np.lexsort((place, nodes["depth"], nodes["tree"]))


def _finished(nodes: np.ndarray, opened: np.ndarray, n_trees: int, table: CartTable) -> GrownCart:
    """Return the frozen trees."""
    child = np.full(nodes.size, -1, _I)
    child[opened] = n_trees + 2 * np.arange(opened.size)
    order = _breadth_first(nodes, n_trees)
    nodes, child = nodes[order], child[order]
    offset = np.searchsorted(nodes["tree"], np.arange(n_trees + 1))
    is_split = child >= 0
    in_tree = np.empty(nodes.size, _I)
    in_tree[order] = np.arange(nodes.size) - offset[nodes["tree"]]
    left = np.where(is_split, in_tree[child], -1).astype(np.int32)
    by_category = is_split & (table.categorical[nodes["feature"]] != 0)
    words = np.where(by_category, words_for(table.n_bins[nodes["feature"]]), 0)
    category_begin = np.where(by_category, np.cumsum(words) - words, -1)
    used = np.arange(nodes["categories"].shape[1]) < words[:, None]
    return GrownCart(
        offset=offset.astype(np.int64),
        feature=np.where(is_split, nodes["feature"], -1).astype(np.int32),
        threshold=np.where(is_split & ~by_category, nodes["threshold"], 0.0),
        missing_left=np.where(is_split, nodes["missing_left"], 0).astype(np.uint8),
        left=left,
        right=np.where(is_split, left + 1, -1).astype(np.int32),
        category_begin=category_begin.astype(np.int32),
        gain=np.where(is_split, nodes["gain"], 0.0),
        statistics=nodes["statistics"].copy(),
        begin=nodes["begin"].copy(),
        end=nodes["end"].copy(),
        categories=nodes["categories"][used],
    )


is_left_category = vectorise(routing.is_left_category)


def grow_cart(
    table: CartTable,
    target: CartTarget,
    records: Array,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    """Grow node after node, each with whole-array operations on its rows."""
    rows = NodeByNode(table, target, records, params)
    return drive(rows, table, target, tree_begin, tree_end, keys, params)


class NodeByNode:
    """The rows of a batch of trees, and all work on them."""

    def __init__(
        self, table: CartTable, target: CartTarget, records: Array, params: CartParams
    ) -> None:
        self.table = table
        self.target = target
        self.records = records
        self.params = params

    def sample(self, node: np.ndarray) -> NodeRows:
        row, multiplicity = self.rows_of(node)
        weight = array_namespace(row).take(self.target.weight, row) * multiplicity
        return NodeRows(row, weight, terms_of(self.target, row, weight))

    def rows_of(self, node: np.ndarray) -> tuple[Array, Array]:
        """Return the rows and their multiplicities."""
        xp = array_namespace(self.records)
        word = xp.astype(self.records[_segment(node)], xp.int64)
        return word & 0xFFFFFFFF, word >> 32

    def add_up(self, nodes: np.ndarray) -> np.ndarray:
        """Fill the nodes' ``statistics``, and return whether each node is pure."""
        pure = np.empty(nodes.size, bool)
        for k, node in enumerate(nodes):
            sample = self.sample(node)
            xp = array_namespace(sample.row)
            total = xp.sum(sample.terms, axis=1)
            nodes["statistics"][k] = [int(total[s]) for s in range(total.shape[0])]
            of_rows = self.target.classes if is_classification(self.target) else self.target.values
            of_rows = xp.take(of_rows, sample.row, axis=1)
            pure[k] = bool(xp.all(of_rows == of_rows[:, :1]))
        return pure

    def find_splits(self, nodes: np.ndarray) -> None:
        """Fill the columns of each node's best split, ``feature`` with -1 if there is none."""
        for node in nodes:
            fill_best_split(node, self.sample(node), self.table, self.target, self.params)

    def partition(self, nodes: np.ndarray) -> np.ndarray:
        """Sort the nodes' rows by side, stably, and return how many go left."""
        n_left = np.zeros(nodes.size, np.int64)
        for k, node in enumerate(nodes):
            records = self.records[_segment(node)]
            xp = array_namespace(records)
            right = xp.astype(~self.goes_left(node), xp.uint8)
            self.records[_segment(node)] = xp.take(records, xp.argsort(right, stable=True))
            n_left[k] = records.shape[0] - int(xp.sum(right, dtype=xp.int64))
        return n_left

    def goes_left(self, node: np.ndarray) -> Array:
        """Return whether each row of the node goes left."""
        feature = int(node["feature"])
        row, _ = self.rows_of(node)
        xp = array_namespace(row)
        code = xp.astype(xp.take(self.table.codes[feature, :], row), xp.int64)
        is_missing = code == int(self.table.n_bins[feature])
        if self.table.categorical[feature]:
            words = beside(node["categories"].astype(np.int64), row)
            code = xp.where(is_missing, 0, code)
            left = is_left_category(xp.take(words, code >> 5), code)
        else:
            left = code <= int(node["bin"])
        return xp.where(is_missing, bool(node["missing_left"]), left)


def _segment(node: np.ndarray) -> slice:
    return slice(int(node["begin"]), int(node["end"]))
