"""Small models in the formats of other libraries, written by hand."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np


def xgboost_tree(n_features: int = 3) -> dict[str, Any]:
    """A tree of five nodes: ``x0 < 0.5``, then the categories 1 and 4 of feature 2 to the right."""
    return {
        "base_weights": [0.0, 0.0, 0.25, -1.5, 2.0],
        "categories": [1, 4],
        "categories_nodes": [1],
        "categories_segments": [0],
        "categories_sizes": [2],
        "default_left": [1, 0, 0, 0, 0],
        "id": 0,
        "left_children": [1, 3, -1, -1, -1],
        "loss_changes": [5.0, 3.0, 0.0, 0.0, 0.0],
        "parents": [2147483647, 0, 0, 1, 1],
        "right_children": [2, 4, -1, -1, -1],
        "split_conditions": [0.5, 1e-45, 0.25, -1.5, 2.0],
        "split_indices": [0, 2, 0, 0, 0],
        "split_type": [0, 1, 0, 0, 0],
        "sum_hessian": [10.0, 6.0, 4.0, 1.0, 5.0],
        "tree_param": {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": "5",
                       "size_leaf_vector": "1"},
    }  # fmt: skip


def xgboost_model(version: tuple[int, int, int] = (3, 0, 5), **of_learner: Any) -> dict[str, Any]:
    """A model of XGBoost with two of these trees; fields of the learner may be replaced."""
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "2"},
        "tree_info": [0, 0],
        "trees": [xgboost_tree(), xgboost_tree() | {"id": 1}],
    }
    learner = {
        "attributes": {},
        "feature_names": ["a", "b", "c"],
        "feature_types": ["float", "float", "c"],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {"base_score": "5E-1", "boost_from_average": "1", "num_class": "0",
                                "num_feature": "3", "num_target": "1"},
        "objective": {"name": "reg:squarederror"},
    }  # fmt: skip
    return {"learner": learner | of_learner, "version": list(version)}


def as_bytes(model: dict[str, Any]) -> bytes:
    return json.dumps(model).encode()


def ubjson(value: Any) -> bytes:
    """Write a value as UBJSON, lists of numbers of one type as typed arrays."""
    if isinstance(value, dict):
        pairs = b"".join(_text(name) + ubjson(item) for name, item in value.items())
        return b"{" + pairs + b"}"
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"d" + struct.pack(">f", value)
    if value and all(isinstance(item, float) for item in value):
        return b"[$d#L" + struct.pack(">q", len(value)) + np.array(value, ">f4").tobytes()
    if value and all(isinstance(item, int) for item in value):
        return b"[$l#L" + struct.pack(">q", len(value)) + np.array(value, ">i4").tobytes()
    return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(ubjson, value))


def _text(text: str) -> bytes:
    return b"L" + struct.pack(">q", len(text.encode())) + text.encode()


LIGHTGBM_TREE = """Tree={number}
num_leaves=3
num_cat=1
split_feature=0 2
split_gain=10 5
threshold=0.5 0
decision_type=10 1
left_child=1 -1
right_child=-3 -2
leaf_value=-1.5 2 0.25
leaf_weight=1 5 4
leaf_count=1 5 4
internal_value=0 0
internal_weight=10 6
internal_count=10 6
cat_boundaries=0 1
cat_threshold=18
is_linear=0
shrinkage=1
"""


def lightgbm_model(objective: str = "regression") -> str:
    """A model of LightGBM with the same two trees, but with their categories on the left."""
    head = f"""tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=2
objective={objective}
feature_names=a b c
feature_infos=[-1:1] [-1:1] 1:4:2
tree_sizes=300 300
"""
    trees = "\n".join(LIGHTGBM_TREE.format(number=k) for k in range(2))
    return (
        f"{head}\n{trees}\nend of trees\n\nfeature_importances:\na=2\n\npandas_categorical:null\n"
    )


def catboost_model() -> dict[str, Any]:
    """A model of CatBoost: an oblivious tree of depth 2, one of its splits by a category."""
    return {
        "features_info": {
            "cat_features_hash": [{"hash": 7, "value": "x"}],
            "categorical_features": [
                {"feature_index": 0, "flat_feature_index": 1, "feature_name": "b"}
            ],
            "float_features": [
                {"borders": [0.5], "feature_index": 0, "flat_feature_index": 0,
                 "feature_name": "a", "nan_value_treatment": "AsIs"}
            ],
        },
        "model_info": {"params": {"loss_function": {"type": "RMSE"}}},
        "oblivious_trees": [
            {
                "leaf_values": [1.0, 2.0, 3.0, 4.0],
                "leaf_weights": [5.0, 0.0, 2.0, 1.0],
                "splits": [
                    {"border": 0.5, "float_feature_index": 0, "split_type": "FloatFeature"},
                    {"cat_feature_index": 0, "split_type": "OneHotFeature", "value": 7},
                ],
            }
        ],
        "scale_and_bias": [1.0, [0.5]],
    }  # fmt: skip


def treelite_model() -> dict[str, Any]:
    """A dump of Treelite with a tree of two splits."""
    return {
        "threshold_type": "float32", "leaf_output_type": "float32", "num_feature": 2,
        "task_type": "kRegressor", "average_tree_output": False, "num_target": 1,
        "num_class": [1], "leaf_vector_shape": [1, 1], "target_id": [0], "class_id": [0],
        "postprocessor": "identity", "sigmoid_alpha": 1.0, "ratio_c": 1.0, "base_scores": [0.5],
        "attributes": "{}",
        "trees": [{"num_nodes": 5, "has_categorical_split": True, "nodes": [
            {"node_id": 0, "split_feature_id": 0, "default_left": True,
             "node_type": "numerical_test_node", "comparison_op": "<", "threshold": 0.5,
             "left_child": 1, "right_child": 2, "sum_hess": 9.0, "gain": 2.0},
            {"node_id": 1, "split_feature_id": 1, "default_left": False,
             "node_type": "categorical_test_node", "category_list_right_child": True,
             "category_list": [1, 4], "left_child": 3, "right_child": 4, "sum_hess": 6.0},
            {"node_id": 2, "leaf_value": 0.25, "sum_hess": 3.0},
            {"node_id": 3, "leaf_value": -1.5, "sum_hess": 2.0},
            {"node_id": 4, "leaf_value": 2.0, "sum_hess": 4.0},
        ]}],
    }  # fmt: skip
