"""Other libraries around these estimators, as a new user would put them together."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor

import gpuens
from gpuens.callbacks import PruningCallback
from tests.support.page import BLOCK

GUIDE = Path(__file__).parents[2] / "docs/guide/tuning.md"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)


@pytest.fixture(autouse=True)
def _warnings_of_others_are_theirs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


def test_boruta_selects_features_by_our_importances():
    forest = gpuens.RandomForestClassifier(max_depth=4)
    chosen = library("boruta").BorutaPy(forest, n_estimators=10, max_iter=20, random_state=1)
    chosen.fit(X, Y)
    assert chosen.support_[0] and not chosen.support_[3]


@pytest.mark.parametrize("ensemble", ["BalancedBaggingClassifier", "EasyEnsembleClassifier"])
def test_imbalanced_learn_balances_the_samples_of_our_estimators(ensemble):
    member = {
        "BalancedBaggingClassifier": gpuens.DecisionTreeClassifier(max_depth=3),
        "EasyEnsembleClassifier": gpuens.AdaBoostClassifier(n_estimators=3),
    }[ensemble]
    rare = np.concatenate([np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:12]])
    made = getattr(library("imblearn.ensemble"), ensemble)(
        estimator=member, n_estimators=3, random_state=0
    )
    assert made.fit(X[rare], Y[rare]).score(X, Y) > 0.7


def test_imbalanced_learn_draws_rows_in_a_pipeline():
    library("imblearn")
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline

    model = make_pipeline(SMOTE(random_state=0), gpuens.RandomForestClassifier(5))
    assert model.fit(X, Y).score(X, Y) > 0.9


def test_optuna_searches_and_prunes():
    optuna = library("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        rate = trial.suggest_float("learning_rate", 0.01, 0.5)
        model = gpuens.GradientBoostingClassifier(
            n_estimators=4, learning_rate=rate, callbacks=[PruningCallback(trial)]
        )
        model.fit(X[:80], Y[:80], eval_set=(X[80:], Y[80:]))
        return model.evals_result_["validation_0"]["loss"][-1]

    pruner = optuna.pruners.ThresholdPruner(upper=-1.0, n_warmup_steps=2)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0), pruner=pruner)
    study.optimize(objective, n_trials=2)
    assert [trial.state.name for trial in study.trials] == ["PRUNED"] * 2
    assert [max(trial.intermediate_values) for trial in study.trials] == [2, 2]


def test_the_example_of_the_guide_runs_with_optuna():
    optuna = library("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (code,) = (b["code"] for b in BLOCK.finditer(GUIDE.read_text("utf-8")) if b["why"])
    given = {"X_train": X[:80], "y_train": Y[:80], "X_test": X[80:], "y_test": Y[80:]}
    names = {"GradientBoostingRegressor": gpuens.GradientBoostingRegressor, **given}
    exec(code.replace("n_trials=20", "n_trials=8"), names)
    states = [trial.state.name for trial in names["study"].trials]
    assert len(states) == 8 and set(states) <= {"COMPLETE", "PRUNED"}
    assert names["study"].best_trial.user_attrs["n_estimators"] > 0


class Trial:
    """What a trial of Optuna does, as far as the callback knows it."""

    def __init__(self) -> None:
        self.reported: list[tuple[float, int]] = []

    def report(self, value: float, step: int) -> None:
        self.reported.append((value, step))

    def should_prune(self) -> bool:
        return False


def test_a_trial_gets_the_metric_that_is_named():
    trial = Trial()
    model = gpuens.GradientBoostingClassifier(
        n_estimators=2, scoring=["loss", "accuracy"], callbacks=[PruningCallback(trial)]
    )
    given = {"eval_set": [(X, Y), (X[:9], Y[:9])]}
    model.fit(X, Y, **given)
    losses = model.evals_result_["validation_0"]["loss"]
    assert trial.reported == [(losses[1], 1), (losses[2], 2)]
    named = PruningCallback(other := Trial(), data="validation_1", metric="accuracy")
    copied = clone(model.set_params(callbacks=[named]))
    assert copied.callbacks[0].trial is other
    copied.fit(X, Y, **given)
    assert [value for value, _ in other.reported] == (
        copied.evals_result_["validation_1"]["accuracy"][1:]
    )


@pytest.mark.parametrize("which", [{}, {"data": "training"}, {"metric": "r2"}])
def test_a_metric_that_is_not_recorded_is_named(which):
    recorded = {"validation": {"loss": [0.5]}} if which else {}
    with pytest.raises(ValueError, match=r"records .*(Pass|eval_set)"):
        PruningCallback(Trial(), **which).after_iteration(
            SimpleNamespace(evals=recorded, iteration=1)
        )


@pytest.mark.parametrize("form", ["skops", "cloudpickle"])
def test_mlflow_keeps_models(form, tmp_path):
    mlflow = library("mlflow.sklearn")
    model = gpuens.GradientBoostingClassifier(n_estimators=2).fit(X, Y)
    how: dict[str, Any] = {"serialization_format": form}
    if form == "skops":  # the default; docs/guide/saving.md
        io = library("skops.io")
        how = {"skops_trusted_types": io.get_untrusted_types(data=io.dumps(model))}
    mlflow.save_model(model, tmp_path / "model", pip_requirements=["gpuens"], **how)
    np.testing.assert_array_equal(
        mlflow.load_model(str(tmp_path / "model")).predict_proba(X), model.predict_proba(X)
    )


def test_shap_explains_any_function():
    shap = library("shap")
    model = gpuens.RandomForestRegressor(3, max_depth=3).fit(X, Y)
    explainer = shap.KernelExplainer(model.predict, X[:5])
    total = explainer.shap_values(X[:2], silent=True).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(X[:2]), atol=1e-9)


def test_yellowbrick_draws_our_models():
    library("yellowbrick")
    import matplotlib

    matplotlib.use("Agg")
    from yellowbrick.classifier import ROCAUC
    from yellowbrick.model_selection import FeatureImportances

    # It knows types by an attribute that scikit-learn's estimators no longer have, either.
    curve = ROCAUC(gpuens.GradientBoostingClassifier(n_estimators=3), force_model=True)
    assert curve.fit(X, Y).score(X, Y) > 0.8
    shown = FeatureImportances(gpuens.DecisionTreeClassifier(max_depth=3)).fit(X, Y)
    assert len(shown.feature_importances_) == 4


def test_categories_of_a_frame_are_used_by_default():
    frame = pd.DataFrame({"c": pd.Categorical(np.where(Y == 1, "a", "b")), "x": X[:, 3]})
    for cls in (
        gpuens.DecisionTreeRegressor, gpuens.ExtraTreesRegressor, gpuens.QuantileForestRegressor,
        gpuens.GradientBoostingRegressor, HistGradientBoostingRegressor,
    ):  # fmt: skip
        assert cls().fit(frame, Y).is_categorical_.tolist() == [True, False]


def test_categories_that_are_numbers_are_numbers_to_models_of_numbers():
    """As scikit-learn's forests read them; its own tests permute such columns."""
    codes = np.digitize(X[:, 1], [-0.5, 0.5]).astype(np.float64)
    table = np.c_[X, codes]
    table[::7, 4] = np.nan
    model = gpuens.RandomForestRegressor(3).fit(table, Y)
    whole = pd.Series(codes).astype(int).where(~np.isnan(table[:, 4])).astype("Int64")
    for column in (table[:, 4], whole):
        frame = pd.DataFrame(X, columns=list("abcd")).assign(group=pd.Categorical(column))
        np.testing.assert_array_equal(model.predict(frame), model.predict(table))
    fitted = gpuens.RandomForestRegressor(3, categorical_features=None).fit(frame, Y)
    assert fitted.forest_.fingerprint() == model.forest_.fingerprint()
    frame["group"] = frame["group"].cat.rename_categories(str)
    with pytest.raises(ValueError, match="must hold numbers, but its column 'group'"):
        model.predict(frame)


@pytest.mark.parametrize("kind", ["DecisionTree", "RandomForest", "GradientBoosting", "AdaBoost"])
def test_features_are_selected_by_our_importances(kind):
    estimator = getattr(gpuens, f"{kind}Classifier")()
    chosen = SelectFromModel(clone(estimator), threshold=-np.inf, max_features=2).fit(X, Y)
    importances = clone(estimator).fit(X, Y).feature_importances_
    assert set(np.flatnonzero(chosen.get_support())) == set(np.argsort(importances)[-2:])
    assert RFE(clone(estimator), n_features_to_select=1).fit(X, Y).support_.tolist()[0]


def test_several_outputs_get_a_model_each_or_a_chain():
    model = gpuens.GradientBoostingRegressor(n_estimators=3)
    both = MultiOutputRegressor(model).fit(X, np.stack([X[:, 0], X[:, 1]], 1)).predict(X)
    np.testing.assert_array_equal(both[:, 0], clone(model).fit(X, X[:, 0]).predict(X))
    chain = ClassifierChain(gpuens.RandomForestClassifier(n_estimators=3))
    assert chain.fit(X, np.stack([Y, 1 - Y], 1)).predict(X).mean(axis=0).round(1).sum() == 1.0
