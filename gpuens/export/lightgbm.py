"""Models as LightGBM's text files, version 4: float64, raw scores bit for bit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from .additive import Additive, Tree, described, told_apart, write

CATEGORICAL, DEFAULT_LEFT, NAN_IS_MISSING = 1, 2, 2 << 2
"""The bits of LightGBM's ``decision_type``."""
UNSAFE = re.compile(r"[^\w]+")


def to_lightgbm(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model that ``lightgbm.Booster(model_file=path)`` reads: gradient boosting, a tree, a
    forest, bagging of trees, or AdaBoost of two classes.

    Raw scores, and class probabilities of forests, are those of this package to the last bit.
    Errors as of ``Exportable.to_lightgbm``."""
    additive = described(model)
    rounds = additive.by_rounds()
    trees = [_tree(number, tree) for number, tree in enumerate(t for r in rounds for t in r)]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    header = [*_header(additive), f"tree_sizes={sizes}", "", ""]
    end = "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\n"
    write(path, "\n".join(header) + "".join(trees) + end + "pandas_categorical:null\n")


def _header(model: Additive) -> list[str]:
    n_outputs = model.n_outputs
    objective = _objective(model)
    names = told_apart([UNSAFE.sub("_", name) or "_" for name in model.names])
    of_category = model.forest.n_categories.tolist()
    infos = [":".join(map(str, range(n))) if n else "[-inf:inf]" for n in of_category]
    return [
        "tree",
        "version=v4",
        f"num_class={n_outputs}",
        f"num_tree_per_iteration={n_outputs}",
        "label_index=0",
        f"max_feature_idx={model.forest.n_features - 1}",
        *([f"objective={objective}"] if objective else []),
        *(["average_output"] if model.n_averaged > 1 else []),
        "feature_names=" + " ".join(names),
        "feature_infos=" + " ".join(infos),
    ]


def _objective(model: Additive) -> str:
    """Return what makes predictions of the sums; nothing where they are the predictions."""
    if model.link == "identity":
        return "" if model.n_outputs > 1 or model.classes is not None else "regression"
    if model.link == "exp":
        return "poisson"
    if model.link == "logistic":
        return f"binary sigmoid:{model.slope!r}"
    if model.link == "softmax" and model.slope == 1.0:
        return f"multiclass num_class:{model.n_outputs}"
    raise ValueError(
        f"LightGBM has no objective that predicts as {model.name} does from a sum of trees. Use "
        "to_c or to_onnx."
    )


def _tree(number: int, tree: Tree) -> str:
    """Return the section of a tree; inner nodes and leaves are numbered apart."""
    leaf = tree.is_leaf
    inner = ~leaf
    order = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(inner) - 1)
    left, right = tree.left.copy(), tree.right.copy()
    threshold, decision = (
        tree.threshold.tolist(),
        NAN_IS_MISSING + DEFAULT_LEFT * (tree.missing_left != 0),
    )
    bounds, words = [0], []
    for split, (node, (members, goes_left)) in enumerate(tree.members.items()):
        if not goes_left:  # LightGBM sends the list to the left
            left[node], right[node] = right[node], left[node]
        set_words = _bits(members)
        words += set_words.tolist()
        bounds.append(len(words))
        threshold[node], decision[node] = float(split), CATEGORICAL + NAN_IS_MISSING
    chosen = np.flatnonzero(inner)
    fields: list[tuple[str, Iterable[Any]]] = [
        ("num_leaves", [int(leaf.sum())]),
        ("num_cat", [len(tree.members)]),
        ("split_feature", tree.feature[inner].tolist()),
        ("split_gain", tree.gain[inner].tolist()),
        ("threshold", [threshold[node] for node in chosen.tolist()]),
        ("decision_type", decision[inner].tolist()),
        ("left_child", order[left[inner]].tolist()),
        ("right_child", order[right[inner]].tolist()),
        ("leaf_value", tree.value[leaf, 0].tolist()),
        ("leaf_weight", tree.cover[leaf].tolist()),
        ("leaf_count", tree.n_samples[leaf].tolist()),
        ("internal_value", tree.value[inner, 0].tolist()),
        ("internal_weight", tree.cover[inner].tolist()),
        ("internal_count", tree.n_samples[inner].tolist()),
    ]
    if tree.members:
        fields += [("cat_boundaries", bounds), ("cat_threshold", words)]
    fields += [("is_linear", [0]), ("shrinkage", [1])]
    lines = [f"{name}={' '.join(map(_text, values))}" for name, values in fields]
    return "\n".join([f"Tree={number}", *lines]) + "\n\n\n"


def _text(value: Any) -> str:
    return json.dumps(value) if value != float("inf") else "inf"


def _bits(members: np.ndarray) -> np.ndarray:
    """Return a set of categories as words of 32 bits."""
    words = np.zeros(int(members.max(initial=0)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, members // 32, np.uint32(1) << (members % 32).astype(np.uint32))
    return words
