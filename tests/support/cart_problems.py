"""Tables, targets and samples to grow classification and regression trees on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuens.kernels.cart.grow_cart import grow_cart
from gpuens.kernels.cart.problem import GINI, CartParams, CartTable, CartTarget, GrownCart
from gpuens.kernels.growth.params import UNLIMITED

UNIT = 2**10
"""Fixed-point targets count in units of 1 / UNIT."""
DEFAULTS = CartParams(
    criterion=GINI,
    max_depth=UNLIMITED,
    max_leaves=UNLIMITED,
    min_samples_split=2,
    min_samples_leaf=1,
    min_weight_fraction=0.0,
    min_gain=0.0,
    max_features=2**31 - 1,
    shuffle=0,
    random_splits=0,
)


@dataclass(frozen=True)
class Problem:
    """The arguments of ``grow_cart``, on the host, and the values behind the codes."""

    X: np.ndarray
    table: CartTable
    target: CartTarget
    records: np.ndarray
    tree_begin: np.ndarray
    tree_end: np.ndarray

    def grow(self, implementation: Any, **settings: Any) -> tuple[GrownCart, np.ndarray]:
        """The trees and the records as they are left behind."""
        params = DEFAULTS._replace(**settings)
        params = params._replace(max_features=min(params.max_features, self.X.shape[1]))
        array = implementation.array
        fields = ("classes", "values", "weight")
        records = array(self.records)
        grown = implementation.run(
            grow_cart,
            self.table._replace(codes=array(self.table.codes)),
            self.target._replace(**{name: array(getattr(self.target, name)) for name in fields}),
            records,
            self.tree_begin,
            self.tree_end,
            np.arange(self.tree_begin.size, dtype=np.uint64) * 7919 + 13,
            params,
        )
        return grown, implementation.host(records)

    def with_monotone(self, *monotone: int) -> Problem:
        return replace(self, table=self.table._replace(monotone=np.array(monotone, np.int8)))


def problem(
    X: Any,
    target: CartTarget,
    multiplicity: Any = None,
    categorical: Any = (),
    dtype: Any = np.uint8,
    max_bins: int = 255,
) -> Problem:
    """Trees on tables of real values; ``multiplicity`` has a row for each tree."""
    X = np.asarray(X, np.float64)
    table = table_of(X, categorical, dtype, max_bins)
    multiplicity = np.ones((1, X.shape[0]), int) if multiplicity is None else multiplicity
    tree, row = np.nonzero(multiplicity)
    records = np.uint64(2**32) * multiplicity[tree, row].astype(np.uint64) + row.astype(np.uint64)
    ends = np.cumsum(np.bincount(tree, minlength=len(multiplicity)))
    begins = np.concatenate([[0], ends[:-1]])
    return Problem(X, table, target, records, begins.astype(np.int64), ends.astype(np.int64))


def table_of(X: np.ndarray, categorical: Any, dtype: Any, max_bins: int) -> CartTable:
    """A bin for every value, or ranges of values where there would be too many."""
    n_features = X.shape[1]
    codes = np.empty(X.shape[::-1], dtype)
    lower, upper = [], []
    for f, x in enumerate(X.T):
        values = np.unique(x[~np.isnan(x)])
        if f in categorical:
            values = np.arange(values.max(initial=-1) + 1)
        n_bins = values.size if f in categorical else min(values.size, max_bins)
        bin_of_value = np.arange(values.size) * n_bins // max(values.size, 1)
        first = np.searchsorted(bin_of_value, np.arange(n_bins))
        last = np.searchsorted(bin_of_value, np.arange(n_bins), side="right") - 1
        lower.append(values[first])
        upper.append(values[last])
        place = np.searchsorted(values, x)
        codes[f] = np.where(np.isnan(x), n_bins, np.append(bin_of_value, n_bins)[place])
    n_bins = np.array([values.size for values in lower], np.int32)
    return CartTable(
        codes,
        n_bins,
        np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64),
        np.concatenate(lower).astype(np.float64),
        np.concatenate(upper).astype(np.float64),
        np.isin(np.arange(n_features), list(categorical)).astype(np.uint8),
        np.zeros(n_features, np.int8),
    )


def classes_target(labels: Any, weight: Any = None) -> CartTarget:
    """Labels 0, 1, ... of each output, shape (n_outputs, n_rows)."""
    labels = np.atleast_2d(labels)
    begin = np.concatenate([[0], np.cumsum(labels.max(axis=1) + 1)]).astype(np.int64)
    classes = (labels + begin[:-1, None]).astype(np.int32)
    return CartTarget(classes, np.zeros((0, 0), np.int64), _weight(weight, labels), begin)


def values_target(y: Any, weight: Any = None) -> CartTarget:
    """Real values of each output, shape (n_outputs, n_rows)."""
    y = np.atleast_2d(y)
    values = np.rint(np.asarray(y) * UNIT).astype(np.int64)
    begin = np.arange(y.shape[0] + 1, dtype=np.int64)
    return CartTarget(np.zeros((0, 0), np.int32), values, _weight(weight, y), begin)


def _weight(weight: Any, y: np.ndarray) -> np.ndarray:
    return np.ones(y.shape[1], np.int64) if weight is None else np.asarray(weight, np.int64)


def mixed_table(rng: np.random.Generator, n: int, n_categories: int = 40) -> np.ndarray:
    """Ranges of values, a constant, ties, categories with and without missing values, missing
    values alone, a copy. Features 3 and 4 are categorical."""
    X = np.empty((n, 7))
    X[:, 0] = np.round(rng.normal(size=n), 2)
    X[:, 1] = 3.0
    X[:, 2] = rng.integers(0, 6, n)
    X[:, 3] = rng.integers(0, n_categories, n)
    X[:, 4] = rng.integers(0, 5, n)
    X[:, 5] = np.nan
    X[rng.random(n) < 0.15, 0] = np.nan
    X[rng.random(n) < 0.2, 2] = np.nan
    X[rng.random(n) < 0.2, 4] = np.nan
    X[:, 6] = X[:, 2]
    return X


CATEGORICAL = (3, 4)


def mixed_problem(
    n: int,
    n_classes: int = 0,
    n_outputs: int = 1,
    n_trees: int = 3,
    wide: bool = False,
    features: Any = range(7),
    seed: int = 0,
    n_categories: int = 40,
) -> Problem:
    """Trees on bootstrap samples of a mixed table with weights; regression without classes.
    The last of several trees has a single row."""
    rng = np.random.default_rng(seed)
    X = mixed_table(rng, n, n_categories)
    y = 2 * np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 4], nan=3.0) + X[:, 3] % 3
    y = y + np.floor(rng.normal(0, 2, (n_outputs, n)))
    weight = rng.integers(1, 4, n)
    if n_classes:
        edges = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
        labels = np.digitize(y, edges)
        labels[:, :n_classes] = np.arange(n_classes)
        target = classes_target(labels, weight)
    else:
        target = values_target(np.maximum(y, 0.0), weight)
    multiplicity = rng.poisson(1.0, (n_trees, n))
    multiplicity[:, 0] += 1
    if n_trees > 1:
        multiplicity[-1] = 3 * (np.arange(n) == n // 2)
    used = np.array(features)
    categorical = np.flatnonzero(np.isin(used, CATEGORICAL))
    dtype, max_bins = (np.uint32, n) if wide else (np.uint8, 12 if n < 255 else 255)
    return problem(X[:, used], target, multiplicity, categorical, dtype, max(max_bins, 1))


def nodes_of(grown: GrownCart, tree: int) -> dict[str, np.ndarray]:
    """The arrays of one tree."""
    nodes = slice(grown.offset[tree], grown.offset[tree + 1])
    return {
        name: array[nodes]
        for name, array in grown._asdict().items()
        if name not in ("offset", "categories")
    }


def leaves_by_values(case: Problem, grown: GrownCart, tree: int, X: np.ndarray) -> np.ndarray:
    """The leaf of a tree that each row of values reaches."""
    nodes = nodes_of(grown, tree)
    return np.array([_walk(case.table, nodes, grown.categories, x) for x in X])


def _walk(table: CartTable, nodes: dict[str, np.ndarray], words: np.ndarray, x: Any) -> int:
    at = 0
    while (feature := nodes["feature"][at]) >= 0:
        value = x[feature]
        if np.isnan(value):
            left = nodes["missing_left"][at] != 0
        elif table.categorical[feature]:
            word = words[nodes["category_begin"][at] + int(value) // 32]
            left = (int(word) >> int(value) % 32) & 1
        else:
            left = value <= nodes["threshold"][at]
        at = nodes["left" if left else "right"][at]
    return int(at)


def rows_of(records: np.ndarray) -> np.ndarray:
    return (records & np.uint64(0xFFFFFFFF)).astype(np.int64)


def inner_nodes(nodes: dict[str, np.ndarray]) -> Iterator[int]:
    yield from np.flatnonzero(nodes["feature"] >= 0)
