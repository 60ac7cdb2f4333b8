"""Shapley values of models: against shap, against the definition, and bad input."""

from __future__ import annotations

import sys
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.svm import LinearSVC

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    QuantileForestRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StagewiseRegressor,
    TreeExplainer,
)
from gpuens.explanation import explainer as explainer_module
from gpuens.explanation import values as values_module
from gpuens.explanation.explainer import Explanation

D, Y = load_diabetes(return_X_y=True)
W, L = load_wine(return_X_y=True)
B, C = load_breast_cancer(return_X_y=True)
H = np.where(np.random.default_rng(0).random(D.shape) < 0.1, np.nan, D)
"""With missing values."""
CPU = {"device": "cpu"}

MODELS: dict[str, tuple[Any, Any, Any]] = {
    "boosting": (GradientBoostingRegressor(n_estimators=12, max_depth=6, **CPU), H, Y),
    "log-odds": (GradientBoostingClassifier(n_estimators=8, **CPU), B, C),
    "classes": (GradientBoostingClassifier(n_estimators=6, max_leaf_nodes=9, **CPU), W, L),
    "targets": (GradientBoostingRegressor(n_estimators=5, **CPU), H, np.stack([Y, -Y], axis=1)),
    "forest": (RandomForestRegressor(n_estimators=6, **CPU), H, Y),
    "forest of classes": (RandomForestClassifier(n_estimators=8, **CPU), W, L),
    "extra trees": (ExtraTreesRegressor(n_estimators=4, max_depth=7, **CPU), D, Y),
    "tree": (DecisionTreeRegressor(**CPU), H, Y),
    "stump": (DecisionTreeClassifier(max_depth=1, **CPU), W, L),
    "leaf": (DecisionTreeRegressor(max_depth=1, min_samples_leaf=300, **CPU), D, Y),
    "isolation": (IsolationForest(n_estimators=12, **CPU), D, None),
    "quantile forest": (QuantileForestRegressor(n_estimators=4, **CPU), D, Y),
    "bag": (BaggingRegressor(n_estimators=4, **CPU), D, Y),
    "bag of classes": (BaggingClassifier(n_estimators=4, **CPU), W, L),
}


@pytest.fixture(scope="module")
def fitted():
    made: dict[str, Any] = {}

    def model(name: str) -> tuple[Any, np.ndarray]:
        if name not in made:
            estimator, X, y = MODELS[name]
            made[name] = estimator.fit(X) if y is None else estimator.fit(X, y)
        return made[name], MODELS[name][1]

    return model


def raw_of(model: Any, X: np.ndarray) -> np.ndarray:
    """What is explained, (n_rows, n_outputs), from the model's own methods."""
    if isinstance(model, IsolationForest):
        return np.mean([t.predict(X) for t in model.estimators_], axis=0)[:, None]
    if isinstance(model, QuantileForestRegressor):
        return model.predict(X, "mean")[:, None]
    if isinstance(model, GradientBoostingClassifier):
        raw = model.decision_function(X)
    else:
        raw = (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(X)
    return raw.reshape(len(X), -1)


@pytest.mark.parametrize("name", MODELS)
def test_values_add_up(fitted, name):
    model, X = fitted(name)
    raw = raw_of(model, X)
    scale = max(1.0, np.abs(raw).max())
    for explainer in (TreeExplainer(model), TreeExplainer(model, X[::9])):
        values = explainer.shap_values(X).reshape(*X.shape, -1)
        total = values.sum(axis=1) + np.atleast_1d(explainer.expected_value)
        assert np.abs(total - raw).max() <= 1e-12 * scale
    values = TreeExplainer(model).shap_values(X[:20])
    pairs = TreeExplainer(model).shap_interaction_values(X[:20])
    assert np.abs(pairs.sum(axis=2) - values).max() <= 1e-12 * scale
    np.testing.assert_array_equal(pairs, pairs.swapaxes(1, 2))


@pytest.mark.parametrize("name", MODELS)
def test_predict_returns_the_same(fitted, name):
    model, X = fitted(name)
    X = X[:6]
    explainer = TreeExplainer(model)
    expected = np.atleast_1d(explainer.expected_value)
    values = explainer.shap_values(X).reshape(*X.shape, -1)
    found = model.predict(X, pred_contribs=True).reshape(len(X), -1, X.shape[1] + 1)
    np.testing.assert_array_equal(found[:, :, :-1], values.transpose(0, 2, 1))
    np.testing.assert_array_equal(found[:, :, -1], np.tile(expected, (len(X), 1)))
    pairs = explainer.shap_interaction_values(X).reshape(*X.shape, X.shape[1], -1)
    found = model.predict(X, pred_interactions=True)
    found = found.reshape(len(X), -1, *(X.shape[1] + 1,) * 2)
    np.testing.assert_array_equal(found[:, :, :-1, :-1], pairs.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(found[:, :, -1, -1], np.tile(expected, (len(X), 1)))
    assert not found[:, :, -1, :-1].any() and not found[:, :, :-1, -1].any()


def by_definition(model: Any, x: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Shapley values of a row with features of background rows, over all sets of features."""
    n = x.size
    sets = [s for k in range(n + 1) for s in combinations(range(n), k)]
    tables = np.repeat(background[None], len(sets), axis=0)
    for table, known in zip(tables, sets, strict=True):
        table[:, list(known)] = x[list(known)]
    raw = raw_of(model, tables.reshape(-1, n))[:, 0].reshape(len(sets), -1).mean(axis=1)
    value = dict(zip(sets, raw, strict=True))
    result = np.zeros(n)
    for known in sets:
        for f in set(range(n)) - set(known):
            weight = 1 / (n * comb(n - 1, len(known)))
            result[f] += weight * (value[tuple(sorted({*known, f}))] - value[known])
    return result


@pytest.mark.parametrize("name", ["boosting", "forest", "tree"])
def test_interventional_values_are_those_of_the_definition(fitted, name):
    model, X = fitted(name)
    values = TreeExplainer(model, X[:9], "interventional").shap_values(X[20:22])
    for x, found in zip(X[20:22], values, strict=True):
        np.testing.assert_allclose(found, by_definition(model, x, X[:9]), atol=1e-11)


def test_categories_and_missing_values():
    """Values do not depend on how categories are numbered."""
    rng = np.random.default_rng(1)
    n = 600
    color = rng.choice(["red", "green", "blue", "black", "white"], n)
    size = rng.normal(size=n)
    size[rng.random(n) < 0.1] = np.nan
    y = np.isin(color, ["red", "blue"]) * 3.0 + np.nan_to_num(size) + (color == "white") * size
    X = pd.DataFrame({"color": pd.Categorical(color), "size": size})
    model = GradientBoostingRegressor(n_estimators=30, **CPU)
    model = model.set_params(categorical_features=["color"]).fit(X, np.nan_to_num(y))
    assert (model.forest_.category_begin >= 0).any()
    odd = pd.DataFrame({"color": ["red", "purple", None], "size": [0.5, np.nan, 1.0]})
    for rows in (X, odd):
        for explainer in (TreeExplainer(model), TreeExplainer(model, X[:40])):
            values = explainer.shap_values(rows)
            total = values.sum(axis=1) + explainer.expected_value
            np.testing.assert_allclose(total, model.predict(rows), atol=1e-11)
    assert explainer.feature_names == ["color", "size"]
    with pytest.raises(ValueError, match="splits by sets of categories"):
        explainer.to_shap()


@pytest.mark.parametrize("name", MODELS)
def test_values_of_shap(fitted, name):
    """shap's own explainer on the same trees; its interventional values are computed in part in
    float32."""
    shap = pytest.importorskip("shap")
    model, X = fitted(name)
    X = X[:30]
    ours = TreeExplainer(model)
    trees = ours.to_shap()
    theirs = shap.TreeExplainer(trees, feature_perturbation="tree_path_dependent")
    scale = max(1.0, np.abs(ours.shap_values(X)).max())
    difference = ours.shap_values(X) - theirs.shap_values(X)
    assert np.abs(difference).max() <= 1e-10 * scale
    difference = ours.shap_interaction_values(X) - theirs.shap_interaction_values(X)
    assert np.abs(difference).max() <= 1e-10 * scale
    difference = ours.expected_value - np.squeeze(theirs.expected_value)
    assert np.abs(difference).max() <= 1e-10 * scale
    if name in ("forest", "tree", "bag", "quantile forest", "forest of classes"):
        return  # shap's interventional values of deep trees fail its own check of additivity
    theirs = shap.TreeExplainer(trees, X[:9], feature_perturbation="interventional")
    difference = TreeExplainer(model, X[:9]).shap_values(X) - theirs.shap_values(X)
    assert np.abs(difference).max() <= 1e-5 * scale


def test_the_call_returns_everything(fitted, monkeypatch):
    model, X = fitted("classes")
    monkeypatch.setattr(explainer_module, "find_spec", lambda name: None)
    explained = TreeExplainer(model)(X[:4])
    assert type(explained) is Explanation
    np.testing.assert_array_equal(explained.values, TreeExplainer(model).shap_values(X[:4]))
    assert explained.base_values.shape == (4, 3) and explained.data.shape == (4, X.shape[1])
    model, X = fitted("boosting")
    assert TreeExplainer(model)(X[:4]).base_values.shape == (4,)


def test_the_call_uses_shap_if_it_is_installed(fitted):
    shap = pytest.importorskip("shap")
    model, X = fitted("boosting")
    explained = TreeExplainer(model)(X[:4])
    assert isinstance(explained, shap.Explanation)
    np.testing.assert_array_equal(explained.values, TreeExplainer(model).shap_values(X[:4]))


def test_rows_are_explained_in_parts(fitted, monkeypatch):
    model, X = fitted("classes")
    explainers = TreeExplainer(model), TreeExplainer(model, X[:5])
    whole = [e.shap_values(X[:50]) for e in explainers]
    pairs = explainers[0].shap_interaction_values(X[:50])
    monkeypatch.setattr(values_module, "PART_BYTES", 1)
    for explainer, expected in zip(explainers, whole, strict=True):
        np.testing.assert_array_equal(explainer.shap_values(X[:50]), expected)
    np.testing.assert_array_equal(explainers[0].shap_interaction_values(X[:50]), pairs)
    monkeypatch.setattr(values_module, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="explanations of 50 rows take .* Pass fewer rows"):
        explainers[0].shap_interaction_values(X[:50])


def test_results_are_in_the_library_of_the_rows(fitted):
    torch = pytest.importorskip("torch")
    model, X = fitted("boosting")
    expected = TreeExplainer(model).shap_values(X)
    found = TreeExplainer(model).shap_values(torch.from_numpy(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), expected)
    found = TreeExplainer(model, torch.from_numpy(X[:9])).shap_values(X.astype(np.float32))
    assert found.shape == expected.shape


def test_threads_do_not_change_bits(fitted, monkeypatch):
    team = sys.modules["gpuens.kernels.runtime.cpu.team"]
    monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
    model, X = fitted("classes")
    results = []
    for n_jobs in (1, 3):
        model.set_params(n_jobs=n_jobs)
        explainers = TreeExplainer(model), TreeExplainer(model, X[:9])
        found = [e.shap_values(X) for e in explainers]
        results.append([*found, explainers[0].shap_interaction_values(X)])
    model.set_params(n_jobs=None)
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("n_background", [None, 9], ids=["covers", "background"])
@pytest.mark.parametrize(("X", "y", "factor"), [(W, L, 1.0), (B, C, 2.0)], ids=["wine", "cancer"])
def test_votes_of_adaboost(X, y, factor, n_background):
    model = AdaBoostClassifier(n_estimators=5).fit(X, y)
    explainer = TreeExplainer(model, None if n_background is None else X[:n_background])
    votes = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    mean_vote = votes / model.estimator_weights_.sum()
    np.testing.assert_allclose(factor * mean_vote, model.decision_function(X), atol=1e-12)


def test_bad_models():
    for model in (LinearRegression().fit(D, Y), DecisionTreeRegressor, 7):
        with pytest.raises(TypeError, match="model must be a fitted gradient boosting"):
            TreeExplainer(model)
    stagewise = StagewiseRegressor(n_estimators=2).fit(W, L)
    with pytest.raises(TypeError, match="got StagewiseRegressor"):
        TreeExplainer(stagewise)
    with pytest.raises(TypeError, match="got StagewiseRegressor"):
        stagewise.predict(W, pred_contribs=True)
    for model, message in (
        (AdaBoostRegressor(n_estimators=2), "weighted median of its learners"),
        (AdaBoostClassifier(LinearSVC(), n_estimators=2), "learners that are not trees"),
    ):
        with pytest.raises(TypeError, match=message):
            TreeExplainer(model.fit(W, L))
    for kind in (
        *(GradientBoostingRegressor, RandomForestClassifier, BaggingRegressor),
        *(IsolationForest, QuantileForestRegressor, AdaBoostClassifier, AdaBoostRegressor),
    ):
        with pytest.raises(NotFittedError):
            TreeExplainer(kind())
    for bag in (
        BaggingClassifier(voting="hard", n_estimators=2),
        BaggingClassifier(max_features=3, n_estimators=2),
    ):
        with pytest.raises(TypeError, match="whose prediction is not a sum of .* they vote"):
            TreeExplainer(bag.fit(W, L))


def test_models_without_covers(fitted):
    model, X = fitted("boosting")
    forest = type(model.forest_)(
        **{**model.forest_.__getstate__(), "cover": np.zeros(model.forest_.cover.size)}
    )
    bare = GradientBoostingRegressor(**CPU).fit(D[:50], Y[:50])
    bare.forest_ = forest
    with pytest.raises(ValueError, match="training weight .*: pass background rows"):
        TreeExplainer(bare)
    found = TreeExplainer(bare, X[:9]).shap_values(X)
    np.testing.assert_array_equal(found, TreeExplainer(model, X[:9]).shap_values(X))


@pytest.mark.parametrize("data, kind, message", [
    (None, "interventional", "takes values from background rows: pass data"),
    (D, "tree_path_dependent", "does not look at data"),
    (None, "true_to_the_data", "feature_perturbation must be 'auto', 'interventional' or"),
    (None, 3, "feature_perturbation must be 'auto'"), (D[:0], "auto", "0 sample"),
    (D[:, :3], "auto", "3 features"), (D[0], "auto", "2D|1D"),
])  # fmt: skip
def test_bad_backgrounds(fitted, data, kind, message):
    with pytest.raises(ValueError, match=message):
        TreeExplainer(fitted("boosting")[0], data, kind)


def test_bad_rows(fitted):
    model, X = fitted("boosting")
    explainer = TreeExplainer(model)
    for wrong in (X[:, :4], X[0], X[:0], [["a"] * 10]):
        with pytest.raises(ValueError, match=r"features|1D|2D|0 sample|numeric"):
            explainer.shap_values(wrong)
    with pytest.raises(ValueError, match="interaction_values needs .*Create the explainer without"):
        TreeExplainer(model, X).shap_interaction_values(X)
    with pytest.raises(ValueError, match="both set"):
        model.predict(X, pred_contribs=True, pred_interactions=True)
    with pytest.raises(ValueError, match="pred_contribs must be True or False, got 1"):
        model.predict(X, pred_contribs=1)


@pytest.mark.parametrize("kind", ["forest of classes", "boosting"])
def test_sparse_rows(fitted, kind):
    sparse = pytest.importorskip("scipy.sparse")
    model, X = fitted(kind)
    expected = TreeExplainer(model).shap_values(X[:5])
    found = TreeExplainer(model).shap_values(sparse.csr_matrix(X[:5]))
    np.testing.assert_array_equal(found, expected)


def test_paths_of_too_many_features(fitted, monkeypatch):
    model, X = fitted("boosting")
    monkeypatch.setattr(values_module, "MOST_SLOTS", 2)
    with pytest.raises(ValueError, match="different features, and explanations against background"):
        TreeExplainer(model, X[:9]).shap_values(X)
