"""Pruning of grown trees: minimal cost-complexity pruning, and reduced-error pruning.

All functions take the ``Forest`` of one tree and leave it as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.utils import Bunch

from ..devices.placement import CPU, Device, to_numpy
from ..kernels.cart.pruning import merge_blocks
from ..kernels.runtime.arrays import Array
from .forest import NODE_ARRAYS, Forest
from .structure import children, impurity_decrease, levels, parents

ROUNDING = 1e-12
"""Sums of held-out losses count as equal if they differ by less, relatively: they add up the same
rows in another order."""
LEAF = {"feature": -1, "threshold": 0, "missing_left": 0, "gain": 0, "category_begin": -1}
"""The values of a leaf in the arrays that describe splits."""


def cost_complexity_path(forest: Forest) -> Bunch:
    """Return the sequence of ever smaller trees that minimal cost-complexity pruning yields.

    A tree costs its impurity plus ``ccp_alpha`` times its number of leaves, where its impurity is
    that of its leaves, each times its share of the weight. As ``ccp_alpha`` rises, the
    branch whose splits lower the impurity least, on average, is the next to be cut.

    Parameters
    ----------
    forest : Forest
        One tree, with impurities.

    Returns
    -------
    Bunch
        ``ccp_alphas``, float64, ascending from 0: where branches are cut, an entry for each
        of them. ``impurities``: of the tree that remains from there on; first, of the whole one.

    References
    ----------
    Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees", 1984, chapter 3.
    """
    alpha, block = _weakest_links(forest)
    tops, block_of = np.unique(block[forest.feature >= 0], return_inverse=True)
    decrease = impurity_decrease(forest)[forest.feature >= 0] / forest.cover[0]
    increase = np.bincount(block_of, decrease, minlength=tops.size)
    order = np.argsort(alpha[tops], kind="stable")
    leaves = forest.feature < 0
    whole = (forest.impurity * forest.cover)[leaves].sum() / forest.cover[0]
    return Bunch(
        ccp_alphas=np.concatenate([[0.0], alpha[tops][order]]),
        impurities=whole + np.concatenate([[0.0], np.cumsum(increase[order])]),
    )


def prune_by_complexity(forest: Forest, ccp_alpha: float) -> Forest:
    """Return the smallest subtree of the least cost (see ``cost_complexity_path``).

    Parameters
    ----------
    forest : Forest
        One tree, with impurities.
    ccp_alpha : float
        Price of a leaf, >= 0. Branches are cut whose entry in ``ccp_alphas`` is at most
        this; 0 cuts nothing, as in scikit-learn, not even splits that gain nothing.
    """
    if not ccp_alpha >= 0:
        raise ValueError(f"ccp_alpha must be a number >= 0, got {ccp_alpha!r}.")
    if ccp_alpha == 0:
        return forest
    return cut(forest, _weakest_links(forest)[0] <= ccp_alpha)


def reduced_error_prune(forest: Forest, loss_as_leaf: np.ndarray) -> Forest:
    """Cut from the bottom wherever a leaf is not worse than the branch, on held-out rows.

    Parameters
    ----------
    forest : Forest
        One tree.
    loss_as_leaf : float64, shape (n_nodes,)
        Loss of the rows that reach a node, if it were a leaf (see ``held_out_loss``). Branches
        that no held-out row reaches lose nothing either way, and are cut.

    References
    ----------
    Quinlan, "Simplifying decision trees", International Journal of Man-Machine Studies 27, 1987.
    """
    _require_one_tree(forest)
    if loss_as_leaf.shape != forest.feature.shape:
        raise ValueError(
            f"loss_as_leaf must have the shape {forest.feature.shape}, an entry for each node, "
            f"got {loss_as_leaf.shape}."
        )
    least = np.array(loss_as_leaf, np.float64)
    is_cut = np.zeros(least.size, bool)
    for nodes in reversed(list(levels(forest))):
        inner = nodes[forest.feature[nodes] >= 0]
        left, right = children(forest, inner)
        branch = least[left] + least[right]
        is_cut[inner] = least[inner] <= branch + ROUNDING * np.abs(branch)
        least[inner] = np.where(is_cut[inner], least[inner], branch)
    return cut(forest, is_cut)


def cut(forest: Forest, is_cut: np.ndarray) -> Forest:
    """Turn nodes of a tree into leaves.

    Parameters
    ----------
    forest : Forest
        One tree.
    is_cut : bool, shape (n_nodes,)
        Nodes to turn into leaves; what is below them is removed.

    Returns
    -------
    Forest
        The remaining nodes keep everything but their numbers, which are breadth first again.
    """
    kept = kept_nodes(forest, is_cut)
    splits = (forest.feature >= 0) & ~is_cut
    splits = splits[kept]
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    nodes_of = {name: getattr(forest, name) for name in NODE_ARRAYS}
    arrays = {name: array[kept] for name, array in nodes_of.items() if array.size}
    for name, at_leaf in LEAF.items():
        arrays[name] = np.where(splits, arrays[name], arrays[name].dtype.type(at_leaf))
    for name in ("left", "right"):
        arrays[name] = np.where(splits, number[arrays[name]], np.int32(-1))
    arrays["category_begin"], categories = _kept_words(forest, arrays)
    offset = np.array([0, splits.size], np.int64)
    return replace(forest, offset=offset, categories=categories, **arrays)


def kept_nodes(forest: Forest, is_cut: np.ndarray) -> np.ndarray:
    """Return which nodes of a tree ``cut`` keeps, bool of shape (n_nodes,)."""
    _require_one_tree(forest)
    splits = (forest.feature >= 0) & ~is_cut
    kept = np.arange(splits.size) == 0
    for nodes in levels(forest):
        for child in children(forest, nodes[kept[nodes] & splits[nodes]]):
            kept[child] = True
    return kept


def _kept_words(forest: Forest, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return where the words of each remaining split by categories begin, and the words."""
    old = arrays["category_begin"]
    n_words = np.where(old >= 0, (forest.n_categories[arrays["feature"]] + 31) // 32, 0)
    begin = np.cumsum(n_words) - n_words
    words = np.repeat(old - begin, n_words) + np.arange(n_words.sum())
    return np.where(old >= 0, begin, -1).astype(old.dtype), forest.categories[words]


LOSSES = {
    "misclassification": lambda y, value: y != value,
    "squared_error": lambda y, value: (y - value) ** 2,
    "absolute_error": lambda y, value: np.abs(y - value),
    "poisson": lambda y, value: 2.0 * (xlogy(y, y / value) - y + value),
}
"""Losses of one row and one output; the last one is the Poisson deviance."""


def held_out_loss(
    forest: Forest,
    X: Array,
    y: np.ndarray,
    sample_weight: np.ndarray | None = None,
    *,
    loss: str,
    n_classes: Any = None,
    device: Device = CPU,
) -> np.ndarray:
    """Return the loss of held-out rows at each node of a tree, if the node were a leaf.

    Parameters
    ----------
    forest : Forest
        One tree.
    X : float32 or float64, shape (n_rows, n_features)
        On ``device``.
    y : shape (n_rows,) or (n_rows, n_outputs)
        Targets, or numbers of classes.
    sample_weight : shape (n_rows,), default=None
    loss : {"misclassification", "squared_error", "absolute_error", "poisson"}
        Summed over outputs, and over rows with their weights.
    n_classes : sequence of int, one for each output, default=None
        For "misclassification": how the columns of ``value`` belong to the outputs.

    Returns
    -------
    float64, shape (n_nodes,)
    """
    _require_one_tree(forest)
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}.")
    value = forest.value
    if loss == "misclassification":
        shares = np.split(value, np.cumsum(n_classes)[:-1], axis=1)
        value = np.stack([share.argmax(axis=1) for share in shares], axis=1)
    y = np.reshape(y, (len(y), -1))
    if y.shape[1] != value.shape[1]:
        raise ValueError(f"y must have {value.shape[1]} columns, got {y.shape[1]}.")
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    parent, total = parents(forest), np.zeros(forest.feature.size)
    node, row = to_numpy(forest.apply(X, device))[:, 0], np.arange(len(y))
    while node.size:
        lost = LOSSES[loss](y[row], value[node]).sum(axis=1) * weight[row]
        total += np.bincount(node, lost, minlength=total.size)
        node = parent[node]
        below = node >= 0
        node, row = node[below], row[below]
    return total


def _weakest_links(forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """Return for each node the ``ccp_alpha`` at which it becomes a leaf or is removed, and the node
    that is cut then; inf and -1 at leaves."""
    _require_one_tree(forest)
    if forest.impurity.size == 0:
        raise ValueError(
            "Cost-complexity pruning needs the nodes' impurities, which trees of boosting do not "
            "have. Limit the growth instead: max_leaf_nodes, min_gain_to_split."
        )
    decrease = impurity_decrease(forest) / forest.cover[0]
    alpha, block = np.full(decrease.size, np.inf), np.full(decrease.size, -1)
    merge_blocks(forest.feature, parents(forest), decrease, alpha, block)
    # Rounding makes a split that gains nothing look harmful.
    return np.maximum(alpha, 0.0), block


def _require_one_tree(forest: Forest) -> None:
    if forest.n_trees != 1:
        raise ValueError(
            f"forest must have one tree, got {forest.n_trees}. Take one: forest.slice(t, t + 1)."
        )
