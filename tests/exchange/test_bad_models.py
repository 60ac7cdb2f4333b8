"""Models that cannot be imported are refused with the name of the field."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

import gpuens
from gpuens import ImportedModelError
from gpuens.exchange.reading.ubjson import DEEPEST, parse_ubjson
from tests.exchange.mutations import FORMATS, try_all
from tests.support.small_models import (
    as_bytes,
    catboost_model,
    lightgbm_model,
    treelite_model,
    ubjson,
    xgboost_model,
)


def replaced(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy in which the value of a path is another one, or is gone."""
    document = json.loads(json.dumps(document))
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    parent: Any = document
    for key in way:
        parent = parent[key]
    if value is KeyError:
        del parent[last]
    else:
        parent[last] = value
    return document


TREE = "learner.gradient_booster.model.trees.1"
PARAMETERS = "learner.learner_model_param"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", [4, 0, 0], r"version is \[4, 0, 0\]; versions up to 3.x are known"),
        ("version", KeyError, "version is missing"),
        ("learner.objective.name", "my:objective", r"objective.name is 'my:objective'.*Known:"),
        ("learner.gradient_booster.name", "gblinear", "gradient_booster.name is 'gblinear'"),
        ("learner.feature_names", ["a"], "feature_names must have 3 entries, got 1"),
        (f"{PARAMETERS}.num_feature", str(2**31 - 1), "num_feature must be a whole number"),
        (f"{PARAMETERS}.num_class", str(2**30), "num_class must be a whole number"),
        (f"{PARAMETERS}.base_score", "x", "base_score must be a finite number, got 'x'"),
        (f"{PARAMETERS}.base_score", "[1,2]", "base_score must have 1 entries, got 2"),
        (f"{TREE}.left_children", [0, 3, -1, -1, -1],
         "left_children and right_children lead to node 0 of tree 1 twice"),
        (f"{TREE}.left_children", [1, 2, -1, -1, -1], "lead to node 2 of tree 1 twice"),
        (f"{TREE}.left_children", [1, 5, -1, -1, -1], "left_children must hold .* from -1 to 4"),
        (f"{TREE}.right_children", [-1, 4, -1, -1, -1],
         "right_children of node 0 in tree 1 is not a node of the tree"),
        (f"{TREE}.split_conditions", [float("nan"), 0, 1, 2, 3],
         "split_conditions of node 0 in tree 1 is NaN"),
        (f"{TREE}.split_conditions", [1.0, 0, float("inf"), 2, 3],
         "leaf weight of node 2 in tree 1 is not finite"),
        (f"{TREE}.split_indices", [3, 2, 0, 0, 0], "split_indices has features beyond the 3"),
        (f"{TREE}.sum_hessian", [10, 0, 4, 1, 5],
         "sum_hessian of node 1 in tree 1 is zero at a split"),
        (f"{TREE}.sum_hessian", [10, 6, 4, -1, 5], "sum_hessian of node 3 in tree 1 is not a"),
        (f"{TREE}.tree_param.num_nodes", "999999999", "left_children must have 999999999 entries"),
        (f"{TREE}.tree_param.size_leaf_vector", "3", "size_leaf_vector must be 1, got 3"),
        (f"{TREE}.categories", [1, 2**40], r"categories must hold whole numbers from 0"),
        (f"{TREE}.categories_nodes", [0], "categories_nodes does not list the splits"),
        (f"{TREE}.default_left", "1", "default_left must be a list of numbers, got text"),
        ("learner.gradient_booster.model.tree_info", [0, 1], "tree_info must hold whole numbers"),
    ],
)  # fmt: skip
def test_xgboost(path, value, message):
    with pytest.raises(ImportedModelError, match=message):
        gpuens.from_xgboost(as_bytes(replaced(xgboost_model(), path, value)))


def test_segments_of_xgboost_leave_no_category_out():
    model = replaced(xgboost_model(), f"{TREE}.categories", [1, 4, 5])
    model = replaced(model, f"{TREE}.categories_segments", [1])
    with pytest.raises(ImportedModelError, match="categories_segments does not divide"):
        gpuens.from_xgboost(as_bytes(model))


@pytest.mark.parametrize(
    ("line", "other", "message"),
    [
        ("version=v4", "version=v9", "version is 'v9'"),
        ("objective=regression", "objective=odd", "objective is 'odd'"),
        ("is_linear=0", "is_linear=1", "Tree=0, is_linear is 1: linear leaves"),
        ("left_child=1 -1", "left_child=0 -1", "left_child and right_child lead to node 0"),
        ("left_child=1 -1", "left_child=9 -1", "Tree=0, left_child must hold whole numbers"),
        ("right_child=-3 -2", "right_child=-9 -2", "Tree=0, right_child must hold"),
        ("threshold=0.5 0", "threshold=nan 0", "threshold of node 0 in tree 0 is NaN"),
        ("threshold=0.5 0", "threshold=0.5 3", "threshold names sets beyond the 1 of num_cat"),
        ("internal_count=10 6", "internal_count=10 0", "_count of node 1 in tree 0 is zero at"),
        ("num_leaves=3", "num_leaves=2147483647", "leaf_value must have 2147483647 entries"),
        ("max_feature_idx=2", "max_feature_idx=99999999", "max_feature_idx must be a whole"),
        ("feature_names=a b c", "feature_names=a b", "feature_names must have 3 entries"),
        ("end of trees", "", "'end of trees' is missing"),
        ("pandas_categorical:null", "pandas_categorical:[[1, ", "pandas_categorical is not valid"),
        ("pandas_categorical:null", 'pandas_categorical:[[1, "a"]]', "all texts or all numbers"),
        ("split_feature=0 2", "split_feature=0 x", "Tree=0, split_feature must be numbers"),
    ],
)  # fmt: skip
def test_lightgbm(line, other, message):
    with pytest.raises(ImportedModelError, match=message):
        gpuens.from_lightgbm(lightgbm_model().replace(line, other, 1))


@pytest.mark.parametrize("path, value, message", [
    ("model_info.params.loss_function.type", "Own", "loss_function.type is 'Own'"),
    ("oblivious_trees.0.splits.1.split_type", "OnlineCtr", r"\(CTR\) cannot be imported"),
    ("oblivious_trees.0.leaf_values", [1.0], "leaf_values must have 4 leaves, got 1"),
    ("oblivious_trees.0.splits.0.border", float("nan"), "border must be a finite number"),
    ("oblivious_trees.0.splits.0.float_feature_index", 5, "float_feature_index is 5"),
    ("features_info.text_features", [{}], "text_features cannot be imported"),
    ("features_info.cat_features_hash", [], "cat_features_hash lacks the category 7"),
    ("scale_and_bias", [1.0], "scale_and_bias must have 2 entries"),
])  # fmt: skip
def test_catboost(path, value, message):
    with pytest.raises(ImportedModelError, match=message):
        gpuens.from_catboost(replaced(catboost_model() | {"features_info": {
            **catboost_model()["features_info"], "text_features": []}}, path, value))  # fmt: skip


@pytest.mark.parametrize("path, value, message", [
    ("postprocessor", "odd", "postprocessor is 'odd'"),
    ("trees.0.nodes.0.comparison_op", "==", r"nodes\[0\].comparison_op is '=='"),
    ("trees.0.nodes.0.left_child", 0, "left_child and right_child lead to node 0"),
    ("trees.0.nodes.1.left_child", 7, r"nodes\[1\].left_child must be a whole number from 0"),
    ("trees.0.nodes.0.threshold", float("nan"), "threshold of node 0 in tree 0 is NaN"),
    ("trees.0.num_nodes", 10**9, "nodes must have 1000000000 entries"),
    ("class_id", [3], "class_id must hold whole numbers from -1 to 0"),
])  # fmt: skip
def test_treelite(path, value, message):
    with pytest.raises(ImportedModelError, match=message):
        gpuens.from_treelite(json.dumps(replaced(treelite_model(), path, value)))


def test_what_is_not_a_model(tmp_path):
    with pytest.raises(ImportedModelError, match=r"old binary format \('binf'\)"):
        gpuens.from_xgboost(b"binf\0\0\0\0")
    for read in (gpuens.from_xgboost, gpuens.from_lightgbm, gpuens.from_catboost):
        with pytest.raises(ImportedModelError, match="model is empty"):
            read(b"")
        with pytest.raises(TypeError, match="model must be a path"):
            read(3)
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nothing")
    with pytest.raises(TypeError, match="model must be a treelite.Model"):
        gpuens.from_treelite(3)


@pytest.mark.slow
def test_nesting():
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for read in (gpuens.from_xgboost, gpuens.from_catboost):
        with pytest.raises(ImportedModelError, match="nested too deeply"):
            read(deep)
    with pytest.raises(ImportedModelError, match="nested too deeply"):
        parse_ubjson(b"[" * (DEEPEST + 1))
    tree = {"value": 1.0, "weight": 1.0}
    split = {"border": 0.5, "float_feature_index": 0, "split_type": "FloatFeature"}
    for _ in range(5000):  # as a dict it needs no parser
        tree = {"left": tree, "right": {"value": 0.0, "weight": 1.0}, "split": split}
    document = catboost_model() | {"trees": [tree]}
    del document["oblivious_trees"]
    assert gpuens.from_catboost(document).forest_.feature.size == 10_001


@pytest.mark.parametrize("data, message", [
    (b"{L\0\0\0\0\0\0\0\1a[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "and not so many bytes"),
    (b"{L\0\0\0\0\0\0\0\1a[$Z#i\5", "takes no bytes"),
    (b"{L\xff\xff\xff\xff\xff\xff\xff\xff", "has the length -1"),
    (b"{i\1aq", "has the unknown type 'q' at byte 5"), (b"{i\1aS", "is cut short"),
    (b"{i\1a[$d", "a type and without a length"), (b"{i\2\xff\xff", "not UTF-8"),
])  # fmt: skip
def test_ubjson(data, message):
    with pytest.raises(ImportedModelError, match=message):
        gpuens.from_xgboost(data)


def test_ubjson_values():
    value = {"a": [1.5, -2.0], "b": {"c": [3, 4]}, "d": "é", "e": 7, "f": [], "g": [{"h": 0.25}]}
    found = parse_ubjson(ubjson(value))
    np.testing.assert_array_equal(found.pop("a"), value.pop("a"))
    np.testing.assert_array_equal(found["b"].pop("c"), value["b"].pop("c"))
    assert found == value
    assert parse_ubjson(b"[NTFZCai\xfeU\xfeI\1\0]") == [True, False, None, "a", -2, 254, 256]
    assert parse_ubjson(b"{$i#i\2i\1a\5i\1b\6") == {"a": 5, "b": 6}


def test_sets_that_would_fill_the_memory():
    document = xgboost_model()
    model = document["learner"]["gradient_booster"]["model"]
    for tree in model["trees"]:
        tree["categories"] = [1, 2**24 - 1]
    model["trees"] *= 40
    model["tree_info"] *= 40
    with pytest.raises(
        ImportedModelError, match="categories has 80 sets and the category 16777215"
    ):
        gpuens.from_xgboost(as_bytes(document))


@pytest.mark.parametrize("name", FORMATS)
def test_mutations(name):
    """A short slice; ``python -m tests.campaign`` tries many more."""
    outcome = try_all(name, 300, seed=1)
    assert outcome.wrong == []
    assert outcome.refused > 100 and outcome.imported > 5
    assert outcome.most_memory < 4


def test_a_count_of_leaves_that_would_fill_the_memory():
    text = lightgbm_model().replace("num_leaves=3", "num_leaves=2147483647")
    tracemalloc.start()
    with pytest.raises(ImportedModelError, match="leaf_value must have 2147483647 entries, got 3"):
        gpuens.from_lightgbm(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
