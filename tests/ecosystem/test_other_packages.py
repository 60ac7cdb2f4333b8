"""Packages that work with any estimator, used with ours as their documentation shows.

They are not needed for anything else, so a test is skipped by name where its package is missing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor

import gpuens
from gpuens.callbacks import PruningCallback

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the packages
X, Y = make_classification(300, 6, n_informative=3, weights=[0.85], random_state=0)
XR, YR = make_regression(200, 5, n_informative=2, random_state=0)
FEW: dict[str, Any] = {"n_estimators": 5, "device": "cpu", "random_state": 0}
CLASSIFIERS = [
    gpuens.DecisionTreeClassifier(max_depth=3, device="cpu"),
    gpuens.RandomForestClassifier(**FEW),
    gpuens.GradientBoostingClassifier(**FEW),
    gpuens.AdaBoostClassifier(**FEW),
    gpuens.BaggingClassifier(**FEW),
]
FORESTS = [gpuens.RandomForestClassifier(**FEW), gpuens.ExtraTreesClassifier(**FEW)]


def name_of(estimator: Any) -> str:
    return type(estimator).__name__


classifiers = pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)


def recall_of_rare(model: Any) -> float:
    return float((model.predict(X)[Y == 1] == 1).mean())


@classifiers
def test_imbalanced_learn(estimator):
    ensembles = pytest.importorskip("imblearn.ensemble")
    sampling = pytest.importorskip("imblearn.over_sampling")
    pipelines = pytest.importorskip("imblearn.pipeline")
    settings = {"n_estimators": 3, "random_state": 0}
    for model in (
        ensembles.BalancedBaggingClassifier(clone(estimator), **settings),
        ensembles.EasyEnsembleClassifier(estimator=clone(estimator), **settings),
        pipelines.make_pipeline(sampling.SMOTE(random_state=0), clone(estimator)),
    ):
        assert recall_of_rare(model.fit(X, Y)) > 0.6
        np.testing.assert_array_equal(clone(model).fit(X, Y).predict(X), model.predict(X))


def test_imbalanced_learn_boosts_our_trees():
    ensembles = pytest.importorskip("imblearn.ensemble")
    tree = gpuens.DecisionTreeClassifier(max_depth=3, device="cpu")
    model = ensembles.RUSBoostClassifier(tree, n_estimators=5, random_state=0).fit(X, Y)
    assert recall_of_rare(model) > 0.6


@pytest.mark.parametrize("estimator", FORESTS, ids=name_of)
def test_boruta(estimator):
    boruta = pytest.importorskip("boruta")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 5))
    forest = clone(estimator).set_params(max_depth=4)
    selection = boruta.BorutaPy(forest, n_estimators=20, max_iter=15, random_state=0)
    selection.fit(table, (table[:, 1] > 0).astype(int))
    assert selection.support_[1] and selection.support_.sum() <= 2


def test_optuna():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.ThresholdPruner(upper=0.42, n_warmup_steps=3)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=pruner)

    def objective(trial):
        rate = trial.suggest_float("learning_rate", 1e-6, 0.5, log=True)
        model = gpuens.GradientBoostingClassifier(
            **FEW | {"n_estimators": 30}, learning_rate=rate, callbacks=[PruningCallback(trial)]
        )
        model.fit(X[::2], Y[::2], eval_set=(X[1::2], Y[1::2]))
        return model.evals_result_["validation_0"]["loss"][-1]

    study.optimize(objective, n_trials=8)
    states = [trial.state for trial in study.trials]
    pruned = optuna.trial.TrialState.PRUNED
    assert 0 < states.count(pruned) < 8 and study.best_value < 0.4
    assert all(max(t.intermediate_values) == 3 for t in study.trials if t.state == pruned)


@classifiers
def test_mlflow(estimator, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow.sklearn")
    monkeypatch.chdir(tmp_path)
    model = clone(estimator).fit(X, Y)
    mlflow.save_model(model, tmp_path / "model", serialization_format="cloudpickle")
    again = mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["Permutation", "Exact", "Sampling", "Kernel"])
def test_explainers_of_any_model(kind):
    """They agree with the exact values of the trees where these are of the same kind."""
    shap = pytest.importorskip("shap")
    model = gpuens.GradientBoostingRegressor(**FEW).fit(XR, YR)
    rows = XR[:5]
    if kind in ("Permutation", "Exact"):
        found = getattr(shap.explainers, kind)(model.predict, XR[:50])(rows)
        values, base = found.values, found.base_values
    else:
        explainer = getattr(shap, f"{kind}Explainer")(model.predict, XR[:20])
        values, base = explainer.shap_values(rows, silent=True), explainer.expected_value
    np.testing.assert_allclose(values.sum(axis=1) + base, model.predict(rows), rtol=1e-6)


def test_yellowbrick():
    """Its release 1.5 knows no estimator of scikit-learn 1.8 or later unless it is forced to."""
    bricks = pytest.importorskip("yellowbrick.classifier")
    selection = pytest.importorskip("yellowbrick.model_selection")
    regression = pytest.importorskip("yellowbrick.regressor")
    model = gpuens.RandomForestClassifier(**FEW)
    for visualizer in (bricks.ClassificationReport, bricks.ROCAUC, bricks.ConfusionMatrix):
        drawn = visualizer(clone(model), classes=["often", "rare"], force_model=True).fit(X, Y)
        assert 0.5 < drawn.score(X, Y) <= 1.0
        drawn.finalize()
    curves = (
        selection.LearningCurve(clone(model), train_sizes=[0.5, 1.0], cv=2),
        selection.ValidationCurve(clone(model), param_name="max_depth", param_range=[1, 3], cv=2),
    )
    for curve in curves:
        curve.fit(X, Y).finalize()
        assert curve.test_scores_mean_.shape == (2,)
    importances = selection.FeatureImportances(clone(model)).fit(X, Y)
    np.testing.assert_allclose(importances.feature_importances_.max(), 100.0)
    residuals = regression.ResidualsPlot(gpuens.GradientBoostingRegressor(**FEW), force_model=True)
    residuals.fit(XR, YR)
    assert residuals.score(XR, YR) > 0.2


@pytest.mark.parametrize("estimator", CLASSIFIERS[:-1], ids=name_of)
def test_selection_of_features(estimator):
    """What the suites ``select_from_model`` and ``elimination`` of ``tests.conformance`` try."""
    chosen = SelectFromModel(clone(estimator), threshold=-np.inf, max_features=2).fit(X, Y)
    importances = clone(estimator).fit(X, Y).feature_importances_
    assert set(np.flatnonzero(chosen.get_support())) == set(np.argsort(importances)[-2:])
    assert RFE(clone(estimator), n_features_to_select=2).fit(X, Y).support_.sum() == 2


def test_several_outputs():
    """One model for each, and chains that predict from earlier outputs."""
    make = partial(gpuens.GradientBoostingRegressor, **FEW)
    both = np.stack([YR, -YR], axis=1)
    found = MultiOutputRegressor(make()).fit(XR, both).predict(XR)
    np.testing.assert_array_equal(found[:, 0], make().fit(XR, YR).predict(XR))
    chain = ClassifierChain(gpuens.RandomForestClassifier(**FEW)).fit(X, np.stack([Y, 1 - Y], 1))
    assert chain.predict(X).shape == (300, 2)
