"""Models as XGBoost's JSON files: float32, which rounds thresholds, leaves and sums."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from .additive import Additive, Tree, described, refuse_rounding, told_apart, write

VERSION = [3, 0, 0]
NO_PARENT = 2147483647
CATEGORICAL = 1
OBJECTIVES = {"identity": "reg:squarederror", "exp": "count:poisson", "logistic": "binary:logistic",
              "softmax": "multi:softprob"}  # fmt: skip
BASE_SCORES = {"exp": "1E0", "logistic": "5E-1"}
"""Base scores that become a raw score of zero; "0E0" for other links."""


def to_xgboost(model: Any, path: str | os.PathLike[str], *, allow_rounding: bool = False) -> None:
    """Write a model that ``xgboost.Booster(model_file=path)`` reads: gradient boosting, a tree, a
    forest, or bagging of trees. The class probabilities of forests become a regression of several
    targets.

    XGBoost computes in float32. Thresholds are rounded so that rows of float32 reach the leaves
    that they reach here; rows of float64 are rounded by XGBoost and may change sides. Leaves and
    sums are rounded (about 1e-6 of the scores). Errors as of ``Exportable.to_xgboost``."""
    additive = described(model)
    if additive.link in ("isolation", "sorted") or additive.slope != 1.0:
        raise ValueError(
            f"XGBoost has no objective that predicts as {additive.name} does from a sum of trees. "
            "Use to_c or to_onnx."
        )
    losses = ["its sums, leaves and thresholds are float32"]
    if additive.n_averaged > 1:
        losses.append(f"leaves are divided by the {additive.n_averaged} trees before the sum")
    refuse_rounding(allow_rounding, losses, "XGBoost's JSON")
    write(path, json.dumps(_document(additive), separators=(",", ":")))


def _document(model: Additive) -> dict[str, Any]:
    rounds = model.by_rounds()
    n_outputs = model.n_outputs
    of_classes = model.link == "softmax"
    trees = [tree for round_ in rounds for tree in round_]
    objective = OBJECTIVES[model.link]
    base = BASE_SCORES.get(model.link, "0E0")
    of_category = model.forest.n_categories.tolist()
    return {
        "version": VERSION,
        "learner": {
            "attributes": {},
            "feature_names": told_apart([_name(name) for name in model.names]),
            "feature_types": ["c" if n else "float" for n in of_category],
            "learner_model_param": {
                "base_score": base,
                "boost_from_average": "0",
                "num_class": str(n_outputs if of_classes else 0),
                "num_feature": str(model.forest.n_features),
                "num_target": str(1 if of_classes else n_outputs),
            },
            "objective": {"name": objective, **_parameters(model.link, n_outputs)},
            "gradient_booster": {
                "name": "gbtree",
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                    "iteration_indptr": list(range(0, len(trees) + 1, n_outputs)),
                    "tree_info": [tree.output for tree in trees],
                    "trees": [_tree(i, tree, model) for i, tree in enumerate(trees)],
                },
            },
        },
    }


def _parameters(link: str, n_outputs: int) -> dict[str, Any]:
    if link == "softmax":
        return {"softmax_multiclass_param": {"num_class": str(n_outputs)}}
    if link == "exp":
        return {"poisson_regression_param": {"max_delta_step": "0.7"}}
    return {"reg_loss_param": {"scale_pos_weight": "1"}}


def _name(name: str) -> str:
    """Replace what XGBoost forbids in names."""
    return name.translate(str.maketrans("[]<", "___"))


def _tree(number: int, tree: Tree, model: Additive) -> dict[str, Any]:
    n_nodes = tree.feature.size
    leaf = tree.is_leaf
    value = (tree.value[:, 0] / model.n_averaged).astype(np.float32)
    condition = np.where(leaf, value, _below(tree.threshold))
    default_left = np.where(leaf, 0, tree.missing_left)
    kind = np.zeros(n_nodes, np.int64)
    # XGBoost sends the list to the right, and takes right == left + 1 for granted: where the list
    # goes left here, the children exchange their numbers and so their places in the arrays.
    place = np.arange(n_nodes)
    sets: list[tuple[int, list[int]]] = []
    for node, (members, goes_left) in tree.members.items():
        if goes_left:
            children = [tree.left[node], tree.right[node]]
            place[children] = place[children[::-1]]
        sets.append((node, members.tolist()))
        kind[node], condition[node], default_left[node] = CATEGORICAL, 0.0, 1
    inner = np.flatnonzero(~leaf)
    parents = np.full(n_nodes, NO_PARENT)
    parents[tree.left[inner]] = parents[tree.right[inner]] = place[inner]
    columns = {
        "base_weights": value,
        "default_left": default_left,
        "left_children": tree.left,
        "loss_changes": tree.gain.astype(np.float32),
        "parents": parents,
        "right_children": tree.right,
        "split_conditions": condition.astype(np.float32),
        "split_indices": np.maximum(tree.feature, 0),
        "split_type": kind,
        "sum_hessian": tree.cover.astype(np.float32),
    }
    position = np.argsort(place)
    return {name: _numbers(column[position]) for name, column in columns.items()} | {
        "id": number,
        **_categories(sorted((int(place[node]), members) for node, members in sets)),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(model.forest.n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }


def _categories(sets: list[tuple[int, list[int]]]) -> dict[str, list[int]]:
    sizes = [len(members) for _, members in sets]
    return {
        "categories": [category for _, members in sets for category in members],
        "categories_nodes": [node for node, _ in sets],
        "categories_segments": [sum(sizes[:i]) for i in range(len(sizes))],
        "categories_sizes": sizes,
    }


def _numbers(column: np.ndarray) -> list[Any]:
    """Return numbers with the fewest digits that XGBoost reads back as the same float32."""
    if column.dtype == np.float32:
        return [float(str(value)) for value in column]
    return column.tolist()


def _below(threshold: np.ndarray) -> np.ndarray:
    """Return the float32 ``t`` for which ``x < t`` is ``x <= threshold`` for every float32 x."""
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32)
    down = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return np.nextafter(down.astype(np.float32), np.float32(np.inf))
