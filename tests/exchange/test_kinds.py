"""Imported models predict what their source predicts: classes, labels, or numbers."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestClassifier

import gpuens
from gpuens import ImportedClassifier, ImportedModelError, ImportedRegressor

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
LABELS = (X[:, :3] + 0.5 * RNG.normal(size=(N, 3)) > 0.2).astype(np.int64)
BINARY = LABELS[:, 0]
CLASSES = LABELS.sum(axis=1)
FEW = {"n_estimators": 4, "max_depth": 2, "n_jobs": 1}


def xgb() -> Any:
    return pytest.importorskip("xgboost")


def check_labels(model: Any, expected: Any, proba: Any, rtol: float, tmp_path: Any) -> None:
    """The matrices of the source, also after a round trip through a file."""
    model.save(tmp_path / "model")
    for m in (model, gpuens.load(tmp_path / "model")):
        assert isinstance(m, ImportedClassifier)
        assert [of_label.tolist() for of_label in m.classes_] == [[0, 1]] * expected.shape[1]
        np.testing.assert_array_equal(m.predict(X), expected)
        np.testing.assert_allclose(m.predict_proba(X), proba, rtol=rtol)
        assert m.score(X, expected) == 1.0
    margin = model.predict(X, output_margin=True)
    np.testing.assert_array_equal(model.predict(X), margin > 0)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"multi_strategy": "multi_output_tree"}, {"objective": "binary:hinge"},
     {"objective": "reg:logistic"}, {"booster": "dart"}],
    ids=["plain", "vector leaves", "hinge", "logistic", "dart"],
)  # fmt: skip
def test_labels_of_xgboost(settings, n_labels, tmp_path):
    source = xgb().XGBClassifier(**FEW, **settings).fit(X, LABELS[:, :n_labels])
    expected, proba = source.predict(X), source.predict_proba(X)
    assert expected.shape == proba.shape == (N, n_labels)
    source.save_model(tmp_path / "model.json")
    source.save_model(tmp_path / "model.ubj")
    for model in (source, tmp_path / "model.json", tmp_path / "model.ubj"):
        check_labels(gpuens.from_xgboost(model), expected, proba, 2e-6, tmp_path)


def test_labels_of_a_booster_and_of_treelite(tmp_path):
    source = xgb().XGBClassifier(**FEW).fit(X, LABELS[:, :2])
    booster = source.get_booster()
    expected, proba = source.predict(X), source.predict_proba(X)
    check_labels(gpuens.from_xgboost(booster), expected, proba, 2e-6, tmp_path)
    treelite = pytest.importorskip("treelite")
    model = gpuens.from_treelite(treelite.frontend.from_xgboost(booster))
    check_labels(model, expected, proba, 2e-6, tmp_path)


@pytest.mark.parametrize("loss", ["MultiLogloss", "MultiCrossEntropy"])
def test_labels_of_catboost(loss, tmp_path):
    catboost = pytest.importorskip("catboost", reason="catboost (100 MB) is not installed")
    few = {"iterations": 4, "depth": 2, "verbose": 0, "allow_writing_files": False}
    source = catboost.CatBoostClassifier(loss_function=loss, thread_count=1, **few)
    source.fit(X, LABELS if loss == "MultiLogloss" else LABELS * 0.8 + 0.1)
    model = gpuens.from_catboost(source)
    check_labels(model, source.predict(X), source.predict_proba(X), 1e-12, tmp_path)


@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge",
                                       "reg:logistic", "multi:softprob", "multi:softmax",
                                       "count:poisson", "custom"])  # fmt: skip
@pytest.mark.parametrize("kind", ["XGBRegressor", "XGBClassifier"])
def test_the_kind_of_an_xgboost_estimator_decides(kind, objective, tmp_path):
    """A regressor of a logistic objective predicts probabilities, a classifier of it classes."""
    several = objective.startswith("multi")
    settings = {"num_class": 4} if several and kind == "XGBRegressor" else {}
    chosen = _squared if objective == "custom" else objective
    source = getattr(xgb(), kind)(objective=chosen, base_score=0.5, **FEW, **settings)
    if several and kind == "XGBClassifier":
        source.set_params(num_class=4)
    source.fit(X, CLASSES if several else BINARY)
    source.save_model(tmp_path / "model.json")
    if kind == "XGBClassifier" and objective in ("binary:logitraw", "count:poisson"):
        for model in (source, tmp_path / "model.json"):
            with pytest.raises(ImportedModelError, match=r"objective is .*one half"):
                gpuens.from_xgboost(model)
        assert gpuens.from_xgboost(source.get_booster()).predict(X).shape == (N,)
        return
    for model in (gpuens.from_xgboost(source), gpuens.from_xgboost(tmp_path / "model.json")):
        found, expected = model.predict(X), source.predict(X)
        assert is_classifier(model) == (kind == "XGBClassifier" or objective == "multi:softmax")
        np.testing.assert_allclose(found, expected, rtol=2e-6)
        if is_classifier(model):
            assert found.dtype.kind == "i"
            np.testing.assert_array_equal(found, expected)


def _squared(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return raw - y, np.ones_like(y)


def test_probabilities_that_round_to_one_half():
    """In float32 small positive scores have the probability one half, which is class 0."""
    xgboost = xgb()
    data = xgboost.DMatrix(np.zeros((2, 1)), [0, 1])
    booster = xgboost.train({"objective": "binary:logistic", "base_score": 0.5}, data, 0)
    largest = np.float32(1.5 * 2.0**-24)
    margins = np.array([0, largest, np.nextafter(largest, np.float32(1))], np.float32)
    table = np.zeros((3, 1))
    expected = booster.predict(xgboost.DMatrix(table, base_margin=margins)) > 0.5
    assert expected.tolist() == [False, False, True]
    raw = {"name": "binary:logitraw"}
    for margin, label in zip(margins, expected, strict=True):
        document = json.loads(bytes(booster.save_raw("json")))
        document["learner"]["objective"] = raw
        document["learner"]["learner_model_param"]["base_score"] = f"[{margin!s}]"
        model = gpuens.from_xgboost(json.dumps(document).encode())
        assert model.predict(np.zeros((1, 1)), output_margin=True)[0] == margin
        assert model.predict(np.zeros((1, 1)))[0] == label


@pytest.mark.parametrize("objective", ["binary", "cross_entropy", "multiclass", "poisson"])
@pytest.mark.parametrize("kind", ["LGBMRegressor", "LGBMClassifier"])
def test_the_kind_of_a_lightgbm_estimator_decides(kind, objective):
    lightgbm = pytest.importorskip("lightgbm")
    several = objective == "multiclass"
    settings = {"num_class": 4} if several and kind == "LGBMRegressor" else {}
    source = getattr(lightgbm, kind)(objective=objective, verbose=-1, **FEW, **settings)
    source.fit(X, CLASSES if several else BINARY)
    if kind == "LGBMClassifier" and objective == "poisson":
        with pytest.raises(ImportedModelError, match=r"objective is 'poisson'.*booster_"):
            gpuens.from_lightgbm(source)
        assert isinstance(gpuens.from_lightgbm(source.booster_), ImportedRegressor)
        return
    model = gpuens.from_lightgbm(source)
    assert is_classifier(model) == (kind == "LGBMClassifier")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that LightGBM made up
        np.testing.assert_allclose(model.predict(X), source.predict(X), rtol=1e-14)
        if is_classifier(model):
            proba = source.predict_proba(X)
            np.testing.assert_allclose(model.predict_proba(X), proba, rtol=1e-14)


def test_several_outputs_of_classes_are_refused():
    treelite = pytest.importorskip("treelite")
    for y in (LABELS[:, :2], np.stack([BINARY, CLASSES], 1)):
        forest = RandomForestClassifier(3, random_state=0).fit(X, y)
        with pytest.raises(ImportedModelError, match="n_outputs_ is 2"):
            gpuens.from_sklearn(forest)
        with pytest.raises(ImportedModelError, match="num_target is 2"):
            gpuens.from_treelite(treelite.sklearn.import_model(forest))
