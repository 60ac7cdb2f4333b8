"""Trees as shap's own explainer reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..forest.sum_of_trees import SumOfTrees


def shap_trees(model: SumOfTrees) -> dict[str, Any]:
    """Return a dict of trees for ``shap.TreeExplainer``, in new arrays. Raises a ValueError if the
    trees have splits by sets of categories."""
    forest = model.forest
    if (forest.category_begin >= 0).any():
        raise ValueError(
            "The model has splits by sets of categories, which the dict of trees of shap cannot "
            "describe: use gpuens.TreeExplainer, or encode the categories as numbers."
        )
    trees = [_tree(model, t) for t in range(forest.n_trees)]
    base = model.base if forest.n_outputs > 1 else float(model.base[0])
    return {"trees": trees, "base_offset": base, "tree_output": "raw_value"}


def _tree(model: SumOfTrees, t: int) -> dict[str, np.ndarray]:
    forest = model.forest
    nodes = slice(int(forest.offset[t]), int(forest.offset[t + 1]))
    left, right, feature = forest.left[nodes], forest.right[nodes], forest.feature[nodes]
    values = np.zeros((feature.size, forest.n_outputs))
    first = int(forest.output[t])
    values[:, first : first + forest.width] = model.scale * forest.value[nodes]
    weight = np.where(feature < 0, forest.cover[nodes], 0.0)
    for node in np.flatnonzero(feature >= 0)[::-1]:  # children come after their parents
        weight[node] = weight[left[node]] + weight[right[node]]
    missing = np.where(forest.missing_left[nodes] != 0, left, right)
    return {
        "children_left": left.copy(),
        "children_right": right.copy(),
        "children_default": missing.astype(np.int32),
        "features": feature.copy(),
        "thresholds": forest.threshold[nodes].copy(),
        "values": values,
        "node_sample_weight": weight,
    }
