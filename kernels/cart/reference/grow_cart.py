"""Reference twin of ``kernels.cart.grow_cart``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ...runtime.reference.arrays import beside
from ...scalars import routing
from ...scalars.primitives import vectorise
from ..problem import CartParams, CartTable, CartTarget, GrownCart
from .nodes import drive
from .scores import is_classification, terms_of
from .splits import Sample, fill_best_split

is_left_category = vectorise(routing.is_left_category)


def grow_cart(
    table: CartTable,
    target: CartTarget,
    records: Any,
    tree_begin: np.ndarray,
    tree_end: np.ndarray,
    keys: np.ndarray,
    params: CartParams,
) -> GrownCart:
    """Node after node, each with whole-array operations on its rows."""
    rows = NodeByNode(table, target, records, params)
    return drive(rows, table, target, tree_begin, tree_end, keys, params)


class NodeByNode:
    """The rows of a batch of trees (see ``cart_nodes.Rows``)."""

    def __init__(
        self, table: CartTable, target: CartTarget, records: Any, params: CartParams
    ) -> None:
        self.table = table
        self.target = target
        self.records = records
        self.params = params

    def sample(self, node: np.ndarray) -> Sample:
        row, multiplicity = self.rows_of(node)
        weight = array_namespace(row).take(self.target.weight, row) * multiplicity
        return Sample(row, weight, terms_of(self.target, row, weight))

    def rows_of(self, node: np.ndarray) -> tuple[Any, Any]:
        """Rows and their multiplicities."""
        xp = array_namespace(self.records)
        word = xp.astype(self.records[_segment(node)], xp.int64)
        return word & 0xFFFFFFFF, word >> 32

    def add_up(self, nodes: np.ndarray) -> np.ndarray:
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
        for node in nodes:
            fill_best_split(node, self.sample(node), self.table, self.target, self.params)

    def partition(self, nodes: np.ndarray) -> np.ndarray:
        """A stable sort by side."""
        n_left = np.zeros(nodes.size, np.int64)
        for k, node in enumerate(nodes):
            records = self.records[_segment(node)]
            xp = array_namespace(records)
            right = xp.astype(~self.goes_left(node), xp.uint8)
            self.records[_segment(node)] = xp.take(records, xp.argsort(right, stable=True))
            n_left[k] = records.shape[0] - int(xp.sum(right, dtype=xp.int64))
        return n_left

    def goes_left(self, node: np.ndarray) -> Any:
        """Whether each row of the node does."""
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
