"""The values of linear models in leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers, largest_of_each
from ..runtime.dispatch import implementation


class LinearLeaves(NamedTuple):
    """The leaves of a forest (see ``gpuens.forest.linear.LinearForest``).

    The value of a row in node ``n`` is ``intercept[n] + sum of coefficient[c] * x[feature[c]]``
    for c from ``begin[n]`` to ``begin[n + 1] - 1``, added up in this order; where that is not
    finite, as with a missing feature, it is ``value[n]``.

    offset : int64, shape (n_trees + 1,)
        Tree t owns nodes ``offset[t]:offset[t + 1]``.
    output : int32, shape (n_trees,)
    begin : int64, shape (n_nodes + 1,)
    feature : int32, shape (n_coefficients,)
    coefficient : float64, shape (n_coefficients,)
    intercept, value : float64, shape (n_nodes,)
    """

    offset: Array
    output: Array
    begin: Array
    feature: Array
    coefficient: Array
    intercept: Array
    value: Array


def add_linear_values(leaves: LinearLeaves, X: Array, leaf: Array, raw: Array) -> None:
    """Add the values of the leaves that rows are in to ``raw[output]``, in place, in the order of
    the trees.

    Parameters
    ----------
    leaves : LinearLeaves
        Arrays on the device of X.
    X : float32 or float64, shape (n_rows, n_features), any strides
    leaf : int32, shape (n_rows, n_trees), contiguous
        Node numbers counted from the root of each tree, all of them nodes.
    raw : float64, shape (n_outputs, n_rows), contiguous
    """
    implementation(__name__, X).add_linear_values(leaves, X, leaf, raw)


def largest_linear_values(
    leaves: LinearLeaves, X: Array, leaf: Array, workers: Workers = ONE_WORKER
) -> np.ndarray:
    """Return how far linear functions are from zero, at most, in the rows of each node of a tree.

    Parameters
    ----------
    leaves : LinearLeaves
        One tree, on the device of X.
    X : float32 or float64, shape (n_rows, n_features), any strides
    leaf : int32, shape (n_rows,)
        -1: the row takes no part. Neither do rows that get the constant of their node.
    workers : Workers

    Returns
    -------
    float64, shape (n_nodes,), NumPy
        0 without rows.
    """
    own = implementation(__name__, X).largest_linear_values(leaves, X, leaf)
    return largest_of_each(own, workers)
