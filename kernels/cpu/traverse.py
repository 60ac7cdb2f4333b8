"""Prediction (contract: ``kernels.traverse``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..frontier import inner
from ..scalars.routing import value_goes_left
from .team import kernel, run, threads_for


@inner
def _leaf_of(trees, tree, X, row):
    first = trees.offset[tree]
    node = 0
    feature = trees.feature[first]
    while feature >= 0:
        at = first + node
        x = X[row, feature]
        goes_left = value_goes_left(x, trees.threshold[at], trees.missing_left[at] != 0)
        node = trees.left[at] if goes_left else trees.right[at]
        feature = trees.feature[first + node]
    return node


@kernel
def _sum_worker(thread, n_threads, barrier, trees, X, raw):
    n = X.shape[0]
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for tree in range(trees.output.size):
            node = _leaf_of(trees, tree, X, row)
            raw[trees.output[tree], row] += trees.value[trees.offset[tree] + node]


@kernel
def _leaf_worker(thread, n_threads, barrier, trees, X, leaf):
    n = X.shape[0]
    for row in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        for tree in range(trees.output.size):
            leaf[row, tree] = _leaf_of(trees, tree, X, row)


def traverse(trees: Any, X: Any, raw: Any) -> None:
    run(_sum_worker, threads_for(X.shape[0] * trees.output.size), trees, X, raw)


def leaf_indices(trees: Any, X: Any) -> Any:
    leaf = np.empty((X.shape[0], trees.output.size), np.int32)
    run(_leaf_worker, threads_for(leaf.size), trees, X, leaf)
    return leaf
