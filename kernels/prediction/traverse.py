"""Rows down the trees: prediction on raw values, and leaves of binned rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..growth.streamed_codes import StreamedCodes
from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from ..runtime.dtypes import NO_SETS, Codes


class Trees(NamedTuple):
    """The arrays of a forest that prediction reads (see ``gpuens.forest.forest.Forest``).

    offset : int64, shape (n_trees + 1,)
        Tree t owns nodes ``offset[t]:offset[t + 1]``; its root comes first.
    feature : int32, shape (n_nodes,)
        -1 at a leaf.
    threshold : float64, shape (n_nodes,)
        ``x <= threshold`` goes left.
    missing_left : uint8, shape (n_nodes,)
        Whether a missing value goes left.
    left, right : int32, shape (n_nodes,)
        Children, counted from the root of their tree; ``right == left + 1``.
    category_begin : int32, shape (n_nodes,)
        Negative, or the split is by categories: category c goes left if bit ``c % 32`` of
        ``categories[category_begin + c // 32]`` is set.
    categories : uint32, shape (n_words,)
    n_categories : int32, shape (n_features,)
        In a split by categories a value other than 0, 1, ... ``n_categories - 1`` is missing;
        in any other split only NaN is.
    value : float64, shape (n_nodes, width)
    output : int32, shape (n_trees,)
        The first column of the prediction that the tree adds to.
    """

    offset: Array
    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    right: Array
    category_begin: Array
    categories: Array
    n_categories: Array
    value: Array
    output: Array


def traverse(trees: Trees, X: Array, raw: Array) -> None:
    """Add the values of the leaves that each row reaches, in the order of the trees:
    ``raw[output + j, row] += value[leaf, j]`` for all j below the width.

    Parameters
    ----------
    trees : Trees
        Arrays on the device of X.
    X : float32 or float64, shape (n_rows, n_features), any strides
    raw : float64 or float32, shape (n_outputs, n_rows), contiguous
        Changed in place; usually starts at the base score. float32 takes float32 X, and values
        that float32 holds: then every sum is rounded to float32, as libraries do that add so.
    """
    implementation(__name__, X).traverse(trees, X, raw)


def leaf_indices(trees: Trees, X: Array) -> Array:
    """Return the leaf that each row reaches.

    Returns
    -------
    int32, shape (n_rows, n_trees)
        Node numbers counted from the root of each tree.
    """
    return implementation(__name__, X).leaf_indices(trees, X)


def traverse_codes(
    codes: Codes | StreamedCodes,
    offset: np.ndarray,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    leaf: Array,
    left_codes: np.ndarray = NO_SETS,
) -> None:
    """Fill the entries of ``leaf`` that do not name a node with the leaf that each row reaches; on
    CUDA the trees share a launch.

    Parameters
    ----------
    codes : Codes
    offset : int64, shape (n_trees + 1,), NumPy
        Tree t owns nodes ``offset[t]:offset[t + 1]``; its root comes first. At most
        ``MOST_OUTPUTS`` trees.
    feature, bin_, left, right : int32, shape (n_nodes,), NumPy
        ``feature`` is -1 at a leaf; children are counted from the root.
    missing_left : uint8, shape (n_nodes,), NumPy
    leaf : int32 or on CUDA uint16, shape (n_trees, n_rows), contiguous
        -1 or ``NO_LEAF``; other entries are kept.
    left_codes : uint32, shape (n_nodes, CODE_WORDS) or (0, CODE_WORDS), NumPy
        The codes that go left at splits by categories, whose bin is -1.
    """
    implementation(__name__, leaf).traverse_codes(
        codes, offset, feature, bin_, missing_left, left, right, leaf, left_codes
    )
