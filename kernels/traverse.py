"""Prediction on raw values: every row down every tree."""

from __future__ import annotations

from typing import Any, NamedTuple

from .dispatch import implementation


class Trees(NamedTuple):
    """The arrays of a forest that prediction reads (see ``gpuens.forest.Forest``).

    offset : int64, shape (n_trees + 1,)
        Tree t owns nodes ``offset[t]:offset[t + 1]``; its root comes first.
    feature : int32, shape (n_nodes,)
        -1 at a leaf.
    threshold : float64, shape (n_nodes,)
        ``x <= threshold`` goes left.
    missing_left : uint8, shape (n_nodes,)
    left, right : int32, shape (n_nodes,)
        Children, counted from the root of their tree.
    value : float64, shape (n_nodes,)
    output : int32, shape (n_trees,)
        The column of the prediction that the tree adds to.
    """

    offset: Any
    feature: Any
    threshold: Any
    missing_left: Any
    left: Any
    right: Any
    value: Any
    output: Any


def traverse(trees: Trees, X: Any, raw: Any) -> None:
    """Add each tree's value to its column of ``raw``, in the order of the trees.

    Parameters
    ----------
    trees : Trees
        Arrays on the device of X.
    X : float32 or float64, shape (n_rows, n_features), any strides
    raw : float64, shape (n_outputs, n_rows), contiguous
        Changed in place; usually starts at the base score.
    """
    implementation("traverse", X).traverse(trees, X, raw)


def leaf_indices(trees: Trees, X: Any) -> Any:
    """The node that each row ends in.

    Returns
    -------
    int32, shape (n_rows, n_trees)
        Node numbers counted from the root of each tree.
    """
    return implementation("traverse", X).leaf_indices(trees, X)
