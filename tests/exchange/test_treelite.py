"""Models of Treelite score as its GTIL does, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

import gpuens
from tests.exchange import test_lightgbm, test_xgboost
from tests.support.forest_problems import hard_rows

treelite = pytest.importorskip("treelite")
xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")

FROM_XGBOOST = ("categories", "binary", "multiclass", "several targets, vector leaves", "dart",
                "poisson", "hinge", "parallel trees")  # fmt: skip
FROM_LIGHTGBM = ("missing values", "categories", "binary", "multiclass", "one versus all",
                 "random forest", "poisson", "cross entropy lambda")  # fmt: skip


def assert_same(model):
    ours = gpuens.from_treelite(model)
    rows = hard_rows(ours.forest_, 5000)
    for table in (rows, rows.astype(np.float32)):
        with np.errstate(over="ignore"):
            expected = table.astype(model.input_type)
        expected = treelite.gtil.predict(model, expected, pred_margin=True, nthread=1)
        found = ours.predict(table, output_margin=True)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("name", FROM_XGBOOST)
def test_from_xgboost(name):
    assert_same(treelite.frontend.from_xgboost(test_xgboost.train(name, 8)))


@pytest.mark.parametrize("name", FROM_LIGHTGBM)
def test_from_lightgbm(name):
    assert_same(treelite.frontend.from_lightgbm(test_lightgbm.train(name, 8)))


def test_from_scikit_learn():
    X, y = test_xgboost.X[:, :3], test_xgboost.CLASSES
    X = np.nan_to_num(X)
    assert_same(treelite.sklearn.import_model(RandomForestClassifier(7, random_state=0).fit(X, y)))
    y = np.stack([y, -y], 1)
    assert_same(treelite.sklearn.import_model(ExtraTreesRegressor(7, random_state=0).fit(X, y)))


@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("default_left", [True, False])
def test_comparisons(comparison, single, default_left):
    kind = "float32" if single else "float64"
    builder = treelite.model_builder.ModelBuilder(
        threshold_type=kind,
        leaf_output_type=kind,
        metadata=treelite.model_builder.Metadata(
            num_feature=1, task_type="kRegressor", average_tree_output=False, num_target=1,
            num_class=[1], leaf_vector_shape=(1, 1),
        ),
        tree_annotation=treelite.model_builder.TreeAnnotation(
            num_tree=1, target_id=[0], class_id=[0]
        ),
        postprocessor=treelite.model_builder.PostProcessorFunc(name="identity"),
        base_scores=[0.1],
    )  # fmt: skip
    builder.start_tree()
    builder.start_node(4)
    builder.numerical_test(
        feature_id=0, threshold=0.3, default_left=default_left, opname=comparison,
        left_child_key=1, right_child_key=7,
    )  # fmt: skip
    builder.end_node()
    for key, value in ((7, 1.1), (1, -2.3)):
        builder.start_node(key)
        builder.leaf(value)
        builder.end_node()
    builder.end_tree()
    assert_same(builder.commit())
