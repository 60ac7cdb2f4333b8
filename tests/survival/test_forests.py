"""Survival forests: hazards in leaves, out-of-bag concordance, and what all forests share."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from benchmarks.common.peers import GapError
from benchmarks.common.tables import DATA
from benchmarks.common.tables import load as load_table
from gpuens import ExtraSurvivalTrees, RandomForestRegressor, RandomSurvivalForest, load
from gpuens.forests.hazards import Timeline
from gpuens.inputs.survival import Survival
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.survival_metrics import concordance

FEW: dict[str, Any] = {"n_estimators": 12, "device": "cpu"}
both = pytest.mark.parametrize("cls", [RandomSurvivalForest, ExtraSurvivalTrees])


def table(seed: int = 0, n: int = 300) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Times with ties that follow two features; a third of them is censored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    time = np.exp(1.0 + X[:, 0] + 0.5 * np.abs(X[:, 1])) * rng.weibull(2.0, n)
    censoring = rng.exponential(12.0, n)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, (time <= censoring, np.minimum(time, censoring).round(1))


X, Y = table()
X_TEST, Y_TEST = table(1)


def nelson_aalen(event, time, weight, at):
    """The estimate by its definition, at ascending times."""
    increases = np.zeros(at.size)
    for j, now in enumerate(at):
        at_risk = weight[time >= now].sum()
        increases[j] = weight[(time == now) & event].sum() / at_risk if at_risk else 0.0
    return np.cumsum(increases)


def by_definition(model, y, weight, rows):
    """The mean over the trees of the estimates in the leaves that some rows reach."""
    event, time = y
    leaves, total = model.apply(X), np.zeros((rows.size, model.unique_times_.size))
    for t, sample in enumerate(model.estimators_samples_):
        for k, row in enumerate(rows):
            own = sample[leaves[sample, t] == leaves[row, t]]
            total[k] += nelson_aalen(event[own], time[own], weight[own], model.unique_times_)
    return total / model.n_estimators


@both
@pytest.mark.parametrize("weighted", [False, True])
def test_the_hazards_are_those_of_the_rows_in_the_leaves(cls, weighted):
    weight = np.random.default_rng(2).integers(0, 3, 300) / 2.0 if weighted else np.ones(300)
    model = cls(**FEW, bootstrap=True).fit(X, Y, weight if weighted else None)
    event, time = Y
    counted = event & (weight > 0)
    np.testing.assert_array_equal(model.unique_times_, np.unique(time[counted]))
    rows = np.arange(0, 300, 60)
    expected = by_definition(model, (counted, time), weight, rows)
    hazard = model.predict_cumulative_hazard_function(X[rows])
    np.testing.assert_allclose(hazard, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(model.predict(X[rows]), expected.sum(axis=1), rtol=1e-12)
    survival = model.predict_survival_function(X[rows])
    np.testing.assert_allclose(survival, np.exp(-expected), rtol=1e-12)
    times = [model.unique_times_[9] + 0.01, 0.0, 1e9]
    some = model.predict_cumulative_hazard_function(X[rows], times)
    np.testing.assert_allclose(some, np.stack([hazard[:, 9], 0.0 * hazard[:, 0], hazard[:, -1]], 1))


def test_both_implementations_of_the_means():
    model = RandomSurvivalForest(**FEW).fit(X, Y)
    leaf, times = model.apply(X_TEST).astype(np.int32), model.unique_times_[::3]
    with using(Implementation.REFERENCE):
        expected = model._hazards.mean(leaf, times)
    np.testing.assert_array_equal(model._hazards.mean(leaf, times), expected)


def test_the_scores_are_residuals_of_all_rows():
    event, time = Y
    timeline = Timeline.of(Survival(event, time), None)
    at = timeline.times
    hazard = nelson_aalen(event, time, np.ones(300), at)
    expected = event - np.concatenate([[0.0], hazard])[np.searchsorted(at, time, side="right")]
    np.testing.assert_allclose(timeline.scores(), expected, rtol=1e-12)
    assert abs(timeline.scores().sum()) < 1e-10


@both
def test_concordance_of_rows_outside_and_of_others(cls):
    model = cls(n_estimators=50, device="cpu", bootstrap=True, oob_score=True).fit(X, Y)
    assert model.score(X_TEST, Y_TEST) > 0.72
    assert model.score(X_TEST, Y_TEST) == concordance(Y_TEST, model.predict(X_TEST))
    assert 0.7 < model.oob_score_ < model.score(X, Y)
    assert model.oob_score_ == concordance(Y, model.oob_prediction_)
    outside = [t for t, rows in enumerate(model.estimators_samples_) if 7 not in rows]
    means = [model.estimators_[t].predict(X[7:8])[0] for t in outside]
    assert model.oob_prediction_[7] == pytest.approx(np.mean(means), rel=1e-12)


def prints(model: Any) -> tuple[Any, ...]:
    curves = model.predict_survival_function(X_TEST[:9]).tobytes()
    return model.forest_.fingerprint(), curves, getattr(model, "oob_score_", None)


@both
def test_the_same_model_everywhere(cls, tmp_path):
    model = cls(n_estimators=30, device="cpu", bootstrap=True, oob_score=True)
    expected = prints(clone(model).fit(X, Y))
    structured = np.array(list(zip(*Y, strict=True)), dtype=[("event", "?"), ("time", "f8")])
    assert prints(clone(model).set_params(n_jobs=3).fit(pd.DataFrame(X), structured)) == expected
    fitted = clone(model).set_params(n_estimators=5, oob_score=False).fit(X, Y)
    fitted.set_params(n_estimators=30, oob_score=True, warm_start=True).fit(X, Y)
    assert prints(fitted) == expected
    fitted.save(tmp_path / "forest")
    for copy in (load(tmp_path / "forest"), pickle.loads(pickle.dumps(fitted))):
        assert prints(copy) == expected


def test_splits_are_those_of_a_regression_on_the_scores():
    model = RandomSurvivalForest(**FEW).fit(X, Y)
    scores = Timeline.of(Survival(*Y), None).scores()
    other = RandomForestRegressor(**FEW, max_features="sqrt", min_samples_leaf=8).fit(X, scores)
    np.testing.assert_array_equal(model.forest_.threshold, other.forest_.threshold)
    np.testing.assert_array_equal(model.forest_.feature, other.forest_.feature)


def test_contributions_add_up():
    model = RandomSurvivalForest(**FEW, max_depth=4).fit(X, Y)
    contributions = model.predict(X_TEST[:20], pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=1), model.predict(X_TEST[:20]), rtol=1e-9)


@pytest.mark.parametrize("settings, y, message", [
    ({}, Y[1], "y must be a structured array"),
    ({}, (Y[0] & False, Y[1]), "y has no event of positive weight"),
    ({}, (Y[0], Y[1] - 1.0), "finite and not negative"), ({}, (Y[0][:9], Y[1][:9]), "9"),
    ({"criterion": "squared_error"}, Y, "criterion"),
    ({"oob_score": True, "bootstrap": False}, Y, "bootstrap=True"),
])  # fmt: skip
def test_bad_input(settings, y, message):
    with pytest.raises(ValueError, match=message):
        RandomSurvivalForest(**FEW, **settings).fit(X, y)


def test_more_bad_input():
    model = RandomSurvivalForest(**FEW).fit(X, Y)
    with pytest.raises(ValueError, match="times must be a vector of finite numbers >= 0"):
        model.predict_survival_function(X, [-1.0])
    with pytest.raises(NotImplementedError, match="no out-of-bag importances"):
        model.oob_permutation_importance(X, Y)


@pytest.mark.parametrize("name, least", [("metabric", 0.62), ("gbsg2", 0.66)])
def test_real_tables(name, least):
    try:
        data = load_table(DATA, name)
    except GapError as gap:
        pytest.skip(str(gap))
    forest = RandomSurvivalForest(oob_score=True)
    assert forest.fit(data["X"], (data["event"], data["y"])).oob_score_ > least


@both
@pytest.mark.parametrize("bootstrap", [False, True])
def test_monotone_constraints_bound_risks(cls, bootstrap):
    """Also where leaves of few rows contradict them."""
    rng = np.random.default_rng(3)
    rows, times = rng.normal(size=(200, 3)), rng.exponential(size=200).round(2)
    settings = {"min_samples_leaf": 2, "bootstrap": bootstrap, "monotonic_cst": [1, -1, 0]}
    model = cls(**FEW | settings).fit(rows, (rng.random(200) < 0.7, times))
    model.set_params(n_estimators=16, warm_start=True).fit(rows, (rng.random(200) < 0.7, times))
    for feature, sign in ((0, 1), (1, -1)):
        along = np.repeat(rows[:20], 80, axis=0)
        along[:, feature] = np.tile(np.linspace(-3, 3, 80), 20)
        risks = model.predict(along).reshape(20, 80)
        assert (sign * np.diff(risks, axis=1) >= -1e-12 * risks.max()).all()
        assert len(np.unique(risks)) > 1
