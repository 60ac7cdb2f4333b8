"""Imported models as estimators: names, categories, rounds, copies, pipelines and files."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuens
from gpuens import ImportedClassifier, ImportedModelError, ImportedRegressor
from tests.support.forest_problems import hard_rows
from tests.support.small_models import (
    as_bytes,
    catboost_model,
    lightgbm_model,
    treelite_model,
    ubjson,
    xgboost_model,
)

ROWS = np.array([
    [0.5, 0.0, 1.0], [np.nextafter(0.5, 0), 0.0, 1.0], [0.4999, 9.0, 4.7], [0.0, 0.0, 2.0],
    [0.0, 0.0, 77.0], [0.0, 0.0, -0.5], [0.0, 0.0, -3.0], [np.nan, 0.0, np.nan],
    [0.0, np.nan, 1e12],
])  # fmt: skip


def binary() -> ImportedClassifier:
    model = gpuens.from_xgboost(as_bytes(xgboost_model(objective={"name": "binary:logistic"})))
    assert isinstance(model, ImportedClassifier)
    return model


def test_rules_of_xgboost():
    """The first row is not below the threshold; the second is, but float32 rounds it up. Unknown
    and negative categories go left, members right, NaN where the node sends it."""
    leaf = np.array([0.25, 0.25, 2.0, -1.5, -1.5, -1.5, -1.5, 2.0, -1.5])
    for data in (as_bytes(xgboost_model()), ubjson(xgboost_model())):
        model = gpuens.from_xgboost(data)
        frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
        np.testing.assert_array_equal(model.predict(frame), 0.5 + 2 * leaf)


def test_rules_of_lightgbm():
    """Members go left, everything else right; a category between -1 and 0 is 0."""
    model = gpuens.from_lightgbm(lightgbm_model())
    leaf = np.array([-1.5, -1.5, -1.5, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    np.testing.assert_array_equal(model.predict(frame), 2 * leaf)


@pytest.mark.parametrize("version, base, share", [
    ((1, 7, 6), "5E-1", 0.5), ((3, 0, 5), "7.5E-1", 0.75), ((3, 2, 0), "[2.5E-1]", 0.25),
])  # fmt: skip
def test_base_scores_by_version(version, base, share):
    """A list from 3.1 on. It is a probability, whose log-odds are taken in float32."""
    learner = xgboost_model()["learner"]["learner_model_param"] | {"base_score": base}
    odds = np.float64(np.float32(1) / np.float32(share) - np.float32(1))
    for name, expected in (("binary:logistic", -np.log(odds)), ("binary:logitraw", share)):
        model = xgboost_model(version, objective={"name": name}, learner_model_param=learner)
        found = gpuens.from_xgboost(as_bytes(model)).forest_.base
        np.testing.assert_array_equal(found, np.float64(np.float32(expected)))


@pytest.mark.parametrize("newer", [True, False])
def test_vector_leaves_by_version(newer):
    """Up to 3.1 their values are those of all nodes, and there are no covers."""
    document = xgboost_model((3, 2, 0) if newer else (3, 1, 3))
    learner = document["learner"]
    learner["learner_model_param"] |= {"num_target": "2", "base_score": "0"}
    for tree in learner["gradient_booster"]["model"]["trees"]:
        tree["tree_param"] = tree["tree_param"] | {"size_leaf_vector": "2"}
        weights = [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        if newer:
            tree["leaf_weights"] = weights[4:]
            tree["right_children"] = [2, 4, 0, 1, 2]
        else:
            del tree["sum_hessian"], tree["loss_changes"]
        tree["base_weights"] = weights if not newer else [9.0] * 10
    model = gpuens.from_xgboost(as_bytes(document))
    found = model.predict(pd.DataFrame(ROWS[[0, 2, 3]], columns=["a", "b", "c"]))
    np.testing.assert_array_equal(found, [[2, 4], [10, 12], [6, 8]])


def test_categories_of_catboost_and_treelite():
    model = gpuens.from_catboost(catboost_model())
    frame = pd.DataFrame({"a": [0.5, 0.6, 0.5, np.nan], "b": ["x", "x", "y", "x"]})
    np.testing.assert_array_equal(model.predict(frame), [3.5, 4.5, 1.5, 3.5])
    model = gpuens.from_treelite(json.dumps(treelite_model()))
    rows = np.array([[0.5, 1.0], [0.4, 1.0], [0.4, 4.9], [0.4, -1.0], [0.4, np.nan]])
    np.testing.assert_array_equal(model.predict(rows), np.float32([0.75, 2.5, 2.5, -1.0, 2.5]))


@pytest.mark.parametrize("kind", [ImportedClassifier, ImportedRegressor])
def test_without_a_model(kind):
    with pytest.raises(NotFittedError):
        kind().predict(ROWS)
    with pytest.raises(NotFittedError):
        kind().fit(ROWS)


def test_copies_and_pipelines(tmp_path):
    model = binary()
    frame = pd.DataFrame(hard_rows(model.forest_, 200, infinite=False), columns=["a", "b", "c"])
    proba, margin = model.predict_proba(frame), model.predict(frame, output_margin=True)
    model.save(tmp_path / "model")
    copies = [clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)),
              gpuens.load(tmp_path / "model"), model.fit(frame, [0] * 200)]  # fmt: skip
    for other in copies:
        np.testing.assert_array_equal(other.predict_proba(frame), proba)
        np.testing.assert_array_equal(other.decision_function(frame), margin)
        np.testing.assert_array_equal(other.apply(frame), model.apply(frame))
        assert other.source_ == model.source_
        assert list(other.feature_names_in_) == ["a", "b", "c"]
    assert clone(model).set_params(device="cpu").device == "cpu"
    np.testing.assert_array_equal(model.predict(frame), (margin > 0).astype(int))
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    assert pipeline.fit(frame, [0] * 200).predict_proba(frame).shape == (200, 2)
    assert 0 <= model.score(frame, model.predict(frame)) <= 1


@pytest.mark.parametrize("make", [lightgbm_model, xgboost_model, catboost_model, treelite_model])
def test_saved_models_of_all_kinds(make, tmp_path):
    document = make()
    model = {
        "lightgbm_model": lambda: gpuens.from_lightgbm(document),
        "xgboost_model": lambda: gpuens.from_xgboost(as_bytes(document), missing=-999.0),
        "catboost_model": lambda: gpuens.from_catboost(document),
        "treelite_model": lambda: gpuens.from_treelite(json.dumps(document)),
    }[make.__name__]()
    model.save(tmp_path / "model")
    rows = pd.DataFrame(hard_rows(model.forest_, 300))
    if hasattr(model, "feature_names_in_"):
        rows.columns = model.feature_names_in_
    else:
        rows = rows.to_numpy()
    if make is catboost_model:
        rows["b"] = np.where(rows["b"] > 0, "x", "y")
    found = gpuens.load(tmp_path / "model").predict(rows)
    np.testing.assert_array_equal(found, model.predict(rows))


def test_columns_that_differ():
    model = binary()
    with pytest.raises(ImportedModelError, match=r"n_features_in_: X has 4 features.*expecting 3"):
        model.predict(np.zeros((2, 4)))
    with pytest.raises(ImportedModelError, match=r"feature_names_in_: column 1 of X is 'z'.*'b'"):
        model.predict(pd.DataFrame(np.zeros((2, 3)), columns=["a", "z", "c"]))


def test_rounds():
    model = binary()
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    first = gpuens.from_xgboost(
        as_bytes(xgboost_model(objective={"name": "binary:logistic"})), iteration_range=(0, 1)
    )
    np.testing.assert_array_equal(
        model.predict(frame, output_margin=True, iteration_range=(0, 1)),
        first.predict(frame, output_margin=True),
    )
    assert first.forest_.n_trees == 1
    for wrong in ((0, 3), (2, 1), (-1, 2), 3, "ab"):
        with pytest.raises(ValueError, match="iteration_range must be"):
            model.predict(frame, iteration_range=wrong)
    with pytest.raises(ValueError, match="num_iteration must be at most 2"):
        gpuens.from_lightgbm(lightgbm_model(), num_iteration=3)
    assert gpuens.from_lightgbm(lightgbm_model(), num_iteration=1).forest_.n_trees == 1


def test_a_value_that_is_missing():
    model = gpuens.from_xgboost(as_bytes(xgboost_model()), missing=-999.0)
    rows = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    filled = rows.fillna(-999.0)
    np.testing.assert_array_equal(model.predict(filled), model.predict(rows))
    assert (filled.to_numpy() == -999.0).any()


def test_covers_and_gains_are_kept():
    forest = gpuens.from_xgboost(as_bytes(xgboost_model())).forest_
    np.testing.assert_array_equal(forest.cover[:5], [10, 6, 4, 1, 5])
    np.testing.assert_array_equal(forest.gain[:5], [5, 3, 0, 0, 0])
    forest = gpuens.from_lightgbm(lightgbm_model()).forest_
    np.testing.assert_array_equal(forest.n_samples[:5], [10, 6, 4, 1, 5])
    forest = gpuens.from_catboost(catboost_model()).forest_
    np.testing.assert_array_equal(forest.cover, [8, 5, 3, 5, 0, 2, 1])


def test_nodes_that_no_split_leads_to():
    """XGBoost keeps pruned nodes in its files, also splits by categories."""
    document = xgboost_model()
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["left_children"] = [3, 3, -1, -1, -1]
    model = gpuens.from_xgboost(as_bytes(document))
    assert model.forest_.feature.size == 6 and model.forest_.categories.size == 0
    rows = pd.DataFrame(np.zeros((1, 3)), columns=["a", "b", "c"])
    np.testing.assert_array_equal(model.predict(rows), [-2.5])


def test_the_second_format_of_lightgbm():
    """It has neither linear leaves nor a line at the end of the trees."""
    text = lightgbm_model().replace("version=v4", "version=v2").replace("is_linear=0\n", "")
    head, _, _ = text.partition("\nend of trees")
    old = gpuens.from_lightgbm(head + "\nfeature importances:\na=2\n")
    assert old.forest_.fingerprint() == gpuens.from_lightgbm(lightgbm_model()).forest_.fingerprint()
