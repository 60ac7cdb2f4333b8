"""Prediction on raw values (contract: ``kernels.prediction.traverse``).

There are three ways to the leaves. A few rows walk down the trees as these stand, a block a row
(``predict_few``): one launch. More rows get a layout that is made once for a forest: perfect trees
in shared memory where they are shallow (``predict_perfect``), nodes of one load where they are
deep (``predict_deep``). Whichever it is, a row's sums are one thread's, in the order of the trees.
"""

from __future__ import annotations

from typing import Any

from ...runtime.cuda.target import multiprocessors
from . import deep as predict_deep
from . import few as predict_few
from . import perfect as predict_perfect
from .nodes import Nodes, nodes_of

FEW_ROWS = 64
"""Rows for each multiprocessor: up to here a row a thread would leave most of them idle
(estimated, not measured)."""


def traverse(trees: Any, X: Any, raw: Any) -> None:
    if trees.output.shape[0] == 0 or X.shape[0] == 0:
        return
    if _are_few(X):
        predict_few.add_trees(trees, X, raw)
    elif predict_perfect.fits(trees, X):
        predict_perfect.add_trees(trees, X, raw)
    elif (nodes := _nodes(trees, X)) is not None:
        predict_deep.add_trees(trees, nodes, X, raw)
    else:
        predict_few.add_trees(trees, X, raw)


def leaf_indices(trees: Any, X: Any) -> Any:
    if trees.output.shape[0] == 0 or _are_few(X) or (nodes := _nodes(trees, X)) is None:
        return predict_few.find_leaves(trees, X)
    return predict_deep.find_leaves(trees, nodes, X)


def _are_few(X: Any) -> bool:
    return bool(X.shape[0] <= FEW_ROWS * multiprocessors())


def _nodes(trees: Any, X: Any) -> Nodes | None:
    return nodes_of(trees, X, predict_perfect.shape_of(trees).n_largest)
