"""Data types of classification and regression trees: arguments and result of ``grow_cart``, and the
nodes of growing trees.

All sums over rows are sums of integers, so they do not depend on the order of the rows.

Codes
    A feature's distinct values (or ranges of values) in ascending order are its bins; a row's
    code is the number of its bin. The code ``n_bins`` stands for a missing value.

Records
    One 64-bit word for every row that takes part in a tree, ``multiplicity << 32 | row``. The
    records of a tree are in ascending order of the rows, and every partition is stable, so
    this holds within each node too.

Packed weights
    Number of rows and total weight of a set of rows in one int64: ``rows << 36 | weight``. A row
    adds ``1 << 36 | weight[row] * multiplicity``. The weights of one tree sum up to less than
    2**36, its rows to less than 2**27.

Statistics of a node: int64, shape (n_statistics,)
    Classification: the packed weight of every class; the classes of output o have entries
    ``output_begin[o]:output_begin[o + 1]``.
    Regression: the packed weight, then for each output the sum of
    ``value * weight * multiplicity``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..runtime.arrays import Array
from ..runtime.dtypes import MAX_BINS

COUNT_SHIFT = 36
"""Bits of a packed weight below the number of rows."""
WEIGHT_MASK = 2**COUNT_SHIFT - 1
MAX_TREE_WEIGHT = 2**COUNT_SHIFT - 1
MAX_TREE_ROWS = 2**27 - 1
MAX_MULTIPLICITY = 31
"""Largest number of times that a row may be in one tree's sample."""
FEW_BINS = MAX_BINS
"""Bins of a feature that a GPU has tables for in shared memory."""
MOST_SORTED = 2**16 - 2
"""Features that a GPU keeps the records of trees sorted by, a line of its grid each."""
MOST_ROWS_ON_DEVICE = 2**30
"""Rows of a table up to which a GPU numbers the cuts between them."""
SCRATCH_BYTES = 2**30
"""Most memory of a GPU that the statistics of bins may take at a time."""

MOST_LARGE = 2**14
"""Rows of a node that one block of a GPU looks at for each feature. Larger nodes are huge: they are
cut into tiles, which several blocks look at."""
TILE = 2**12
"""Rows of a tile."""
LEAST_FEATURES = 8
"""Features that a node looks at from which on the CPU passes over enough of them."""
LEAST_RANDOM = 4
"""Features that a node looks at from which on the CPU draws their cuts together: with 3 of 10 it
takes 1.05 of the time, with 5 of 28 0.85, with 28 of 28 0.55 (growth alone, AMD EPYC)."""
MOST_UNREAD = 6
"""Features of the table for each one that a node looks at, up to which it draws their cuts
together, as that reads all codes of a row: 8 of 64 features take as long as alone, 20 of 400 twice
as long."""
MOST_ON_LANES = 100
"""Features of the table up to which subtrees of few rows with random cuts are grown on lanes: each
feature that is new to a subtree is gathered for all of its rows, and the wider the table, the more
nodes look at new ones. 100,000 x 10 takes 0.81 of the time that it takes node by node, 1,000 x 200
0.97, 5,000 x 400 1.49, 500 x 500 1.61 and 300 x 2,000 1.82 (AMD EPYC)."""
SPARSE = 32
"""Rows of the table for each row of a node from which on hardly two of these share a cache line of
a feature's codes: the CPU then reads their codes row by row."""
ROW_LANES = 16
"""Codes of a row are filled up to a multiple of this where random cuts read them."""
COPY_PAYS = 2
"""Codes that the roots of the trees look at, for each code of the table, from which on a copy of
the codes row by row pays."""
MOST_COPIED = 2**28
"""Bytes of the largest copy."""
SUMMED_BYTES = 2**28
"""Most memory of a GPU that the statistics of huge nodes may take, and those of their tiles."""

GINI, ENTROPY, MISCLASSIFICATION, SQUARED_ERROR, POISSON, ABSOLUTE_ERROR = range(6)
"""Criteria. Scores of a node, with w its weight; multi-output: the scores of the outputs,
added up in float64 in their order, from zero on:

GINI, SQUARED_ERROR
    ``(sum of square(s)) / w``, with s the classes' weights, or the sum of the output.
ENTROPY
    ``(sum of x_log_x(s)) - x_log_x(w)``.
MISCLASSIFICATION
    ``max(s)``.
POISSON
    ``poisson_score(s, w)``; a child needs ``s > 0`` in every output.
ABSOLUTE_ERROR
    Minus the sum of ``weight * |value - median|``, an integer; the median is the lower weighted
    one: the smallest value with ``2 * weight(values up to it) >= w``.
"""


class CartTable(NamedTuple):
    """The features of the training rows.

    codes : uint8 or uint32, shape (n_features, n_rows)
    n_bins : int32, shape (n_features,)
        At most 255 where codes are uint8. 0 if all values are missing.
    begin : int64, shape (n_features + 1,)
        Where each feature's bins begin in ``lower`` and ``upper``.
    lower, upper : float64, shape (begin[-1],)
        Smallest and largest training value in each bin; unused for categories.
    categorical : uint8, shape (n_features,)
        1: the codes are categories, without an order.
    monotone : int8, shape (n_features,)
        1: predictions must not fall as the feature rises, -1: not rise, 0: no constraint.
        Regression with one output compares means (medians for ABSOLUTE_ERROR),
        classification the share of class 1; other problems have no constraints.

    ``codes`` lives on the device of the data, everything else is NumPy.
    """

    codes: Array
    n_bins: np.ndarray
    begin: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    categorical: np.ndarray
    monotone: np.ndarray


class CartTarget(NamedTuple):
    """The target; arrays on the device of the data except ``output_begin``.

    classes : int32, shape (n_outputs, n_rows), or (0, 0) for regression
        Entry of the statistics that the row counts in (``output_begin`` is added already).
    values : int64, shape (n_outputs, n_rows), or (0, 0) for classification
        Fixed-point targets with |value| < 2**50 and no overflow of any tree's
        sum of ``|value| * weight * multiplicity`` beyond 2**62.
    weight : int64, shape (n_rows,)
        Positive for every row of a sample.
    output_begin : int64, shape (n_outputs + 1,), NumPy
    """

    classes: Array
    values: Array
    weight: Array
    output_begin: np.ndarray

    @property
    def n_outputs(self) -> int:
        return self.output_begin.size - 1

    @property
    def n_statistics(self) -> int:
        if self.classes.shape[0]:
            return int(self.output_begin[-1])
        return 1 + self.n_outputs


class CartParams(NamedTuple):
    """Settings of growth, all numbers.

    criterion : int
    max_depth, max_leaves : int
        ``UNLIMITED`` where there is no limit. With a limit on the leaves the
        node with the largest gain is split first, the older one where gains tie.
    min_samples_split, min_samples_leaf : int
        Rows, each counted once.
    min_weight_fraction : float
        A leaf holds at least this share of the tree's weight.
    min_gain : float
        A split needs ``gain >= min_gain * weight of the tree`` if this is positive.
    max_features : int
        Features to look at for each node.
    shuffle : int
        1: features are looked at in a random order of the node's own.
    random_splits : int
        1: one random cut a feature (extremely randomised trees).
    """

    criterion: int
    max_depth: int
    max_leaves: int
    min_samples_split: int
    min_samples_leaf: int
    min_weight_fraction: float
    min_gain: float
    max_features: int
    shuffle: int
    random_splits: int


def grows_on_device(table: CartTable, params: CartParams) -> bool:
    """Return whether a GPU can grow such trees: those by the criteria whose scores follow from
    statistics, on tables with at most ``MAX_BINS`` categories a feature, and neither more rows nor
    more features than its numbers take."""
    most_categories = int(np.max(table.n_bins * (table.categorical != 0), initial=0))
    return (
        params.criterion != ABSOLUTE_ERROR
        and most_categories <= MAX_BINS
        and table.codes.shape[1] <= MOST_ROWS_ON_DEVICE
        and n_sorted_features(table, params) <= MOST_SORTED
    )


def bytes_by_row(
    shape: tuple[int, int],
    n_records: int,
    max_features: int,
    max_depth: int,
    has_random_cuts: bool,
) -> int:
    """Return the bytes of a copy of a table's codes of one byte (of ``shape``, rows first), row by
    row, as many small nodes read them on the CPU; 0 where trees have few such nodes, or the copy
    would take too long, or too much memory."""
    n_rows, n_codes = shape[0], shape[0] * shape[1]
    # Random cuts read the copy at every node.
    n_read = n_records * max_features * (max_depth if has_random_cuts else 1)
    pays = n_read >= COPY_PAYS * n_codes and max_depth >= SPARSE.bit_length()
    if has_random_cuts:
        pays = pays and LEAST_RANDOM <= max_features and shape[1] <= MOST_UNREAD * max_features
    else:
        pays = pays and max_features >= LEAST_FEATURES
    n_bytes = n_rows * row_stride(shape[1]) if has_random_cuts else n_codes
    return n_bytes if pays and n_bytes <= MOST_COPIED else 0


def row_stride(n_features: int) -> int:
    """Return the bytes between two rows whose codes random cuts read: whole vectors."""
    return -(-n_features // ROW_LANES) * ROW_LANES


def bytes_of_cuts(n_statistics: int) -> int:
    """Return the bytes that a GPU notes of a tile and feature with many bins: two lines of
    statistics, and its best cut."""
    return 8 * (2 * n_statistics + 3)


def has_many_bins(table: CartTable) -> np.ndarray:
    """Mark the numeric features with more bins than a GPU has tables for in shared memory."""
    return (table.n_bins > FEW_BINS) & (table.categorical == 0)


def n_sorted_features(table: CartTable, params: CartParams) -> int:
    """Return of how many features a GPU keeps the records of trees sorted: of those with many bins,
    unless cuts are drawn at random."""
    return 0 if params.random_splits else int(np.count_nonzero(has_many_bins(table)))


class GrownCart(NamedTuple):
    """A batch of trees in the order of their numbers, nodes breadth first (NumPy arrays).

    offset : int64, shape (n_trees + 1,)
        Tree t owns entries ``offset[t]:offset[t + 1]`` of the arrays below.
    feature : int32
        -1 at a leaf.
    threshold : float64
        ``x <= threshold`` goes left; +inf: all values do, missing ones go right. 0 at a leaf
        and at a split by categories.
    missing_left : uint8
    left, right : int32
        Children, counted from the root; -1 at a leaf. ``right == left + 1``.
    category_begin : int32
        Where the categories of a split begin in ``categories``, -1 elsewhere.
    gain : float64
        In the integer units of the criterion; 0 at a leaf.
    statistics : int64, shape (n_nodes, n_statistics)
    begin, end : int64
        The records of each node.
    categories : uint32
        ``(n_bins + 31) // 32`` words for each split by categories: category c goes left if bit
        ``c % 32`` of word ``c // 32`` is set. In the order of the nodes.
    """

    offset: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    category_begin: np.ndarray
    gain: np.ndarray
    statistics: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    categories: np.ndarray


_I, _F = np.int64, np.float64
NODE = np.dtype(
    [
        ("tree", _I),
        ("depth", _I),
        ("begin", _I),  # its records are begin … end - 1
        ("end", _I),
        ("key", np.uint64),
        ("low", _F),  # bounds of its value
        ("high", _F),
        ("feature", _I),  # its best split; -1: none
        ("last_left", _I),
        ("threshold", _F),
        ("missing_left", _I),  # -1: no values are missing here
        ("value_left", _F),
        ("value_right", _F),
        ("gain", _F),
        ("child", _I),  # the left one, the right one follows; -1: a leaf
    ],
    align=True,  # else compiled code reads fields byte by byte
)


LIKELY_NODES = 0.3
"""Share of the most nodes that trees can have for which a GPU has room at first."""


def most_nodes(sizes: np.ndarray, params: CartParams) -> int:
    """Return the most nodes that trees on samples of these sizes can have."""
    leaves = np.maximum(1, sizes // params.min_samples_leaf)
    leaves = np.minimum(leaves, params.max_leaves)
    if params.max_depth < 31:
        leaves = np.minimum(leaves, 2**params.max_depth)
    return int((2 * leaves - 1).sum())
