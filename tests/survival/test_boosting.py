"""Gradient boosting of times that may be censored."""

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
from gpuens import (
    BinnedTable,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StagewiseRegressor,
    load,
)
from gpuens.callbacks import Callback
from gpuens.custom_metrics import ArrayMetric
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.losses import AFT, Cox
from gpuens.survival_metrics import concordance

FEW: dict[str, Any] = {"n_estimators": 8, "min_samples_leaf": 5, "device": "cpu"}
KINDS: dict[str, Any] = {
    "cox": "cox",
    "breslow": Cox("breslow"),
    "aft": "aft",
    "logistic": AFT("logistic", 0.7),
    "extreme": AFT("extreme", 0.7),
}
losses = pytest.mark.parametrize("loss", KINDS.values(), ids=KINDS)


def table(seed: int = 0, n: int = 400) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Weibull times whose logarithm follows two features, a third of them censored, with ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    time = np.exp(1.0 + X[:, 0] + 0.5 * np.abs(X[:, 1])) * rng.weibull(2.0, n)
    censoring = rng.exponential(12.0, n)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, (time <= censoring, np.maximum(np.minimum(time, censoring).round(1), 0.1))


X, Y = table()
X_TEST, Y_TEST = table(1)
STRUCTURED = np.array(list(zip(*Y, strict=True)), dtype=[("event", "?"), ("time", "f8")])


def prints(model: Any) -> tuple[Any, ...]:
    curves = model.predict_survival_function(X[:5]).tobytes()
    return model.forest_.fingerprint(), model.evals_result_, curves


@losses
def test_it_orders_times_and_its_metrics_improve(loss):
    model = GradientBoostingRegressor(loss, n_estimators=50, scoring=["loss", "concordance"])
    model.fit(X, Y, eval_set=(X_TEST, Y_TEST))
    metrics = model.evals_result_["validation_0"]
    assert metrics["loss"][-1] < metrics["loss"][0] - 0.2
    assert metrics["concordance"][0] == 0.5 and metrics["concordance"][-1] > 0.7
    predicted = model.predict(X_TEST)
    risk = -predicted if isinstance(model._fitted_loss, AFT) else predicted
    assert concordance(Y_TEST, risk) == metrics["concordance"][-1] == model.score(X_TEST, Y_TEST)
    if isinstance(model._fitted_loss, AFT):
        assert (predicted > 0).all()


@losses
def test_curves(loss):
    model = GradientBoostingRegressor(loss, **FEW).fit(X, Y)
    np.testing.assert_array_equal(model.unique_times_, np.unique(Y[1][Y[0]]))
    hazard = model.predict_cumulative_hazard_function(X_TEST)
    assert hazard.shape == (400, model.unique_times_.size)
    assert (np.diff(hazard) > 0).all() and (hazard > 0).all()
    survival = model.predict_survival_function(X_TEST)
    np.testing.assert_allclose(survival, np.exp(-hazard), rtol=1e-14)
    times = [0.0, model.unique_times_[7], 1e5]
    some = model.predict_survival_function(X_TEST, times)
    assert (some[:, 0] == 1.0).all() and (some[:, 1] == survival[:, 7]).all()
    assert (some[:, 2] <= survival[:, -1]).all()
    if isinstance(model._fitted_loss, AFT) and model._fitted_loss.distribution != "extreme":
        own = [model.predict_survival_function(X_TEST[i : i + 1], [t])[0, 0]
               for i, t in enumerate(model.predict(X_TEST)[:5])]  # fmt: skip
        np.testing.assert_allclose(own, 0.5, rtol=1e-12)  # the prediction is the median


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_the_expected_events_are_those_observed(ties):
    """Martingale residuals of the training rows add up to 0 (up to Efron's share of ties)."""
    model = GradientBoostingRegressor(Cox(ties), **FEW).fit(X, Y)
    times = np.unique(Y[1])
    hazard = model.predict_cumulative_hazard_function(X, times)
    own = hazard[np.arange(400), np.searchsorted(times, Y[1])]
    assert own.sum() == pytest.approx(Y[0].sum(), rel=1e-12 if ties == "breslow" else 0.05)


@losses
def test_the_forms_of_the_target_and_the_threads_do_not_matter(loss):
    model = GradientBoostingRegressor(loss, **FEW, scoring=["loss", "concordance"], subsample=0.8)
    expected = prints(clone(model).fit(X, Y, eval_set=(X, STRUCTURED)))
    assert prints(clone(model).fit(X, STRUCTURED, eval_set=[(X, Y)])) == expected
    assert prints(clone(model).set_params(n_jobs=3).fit(X, Y, eval_set=(X, Y))) == expected
    with using(Implementation.REFERENCE):
        reference = clone(model).set_params(n_estimators=2).fit(X, Y, eval_set=(X, Y))
    assert prints(reference) == prints(model.set_params(n_estimators=2).fit(X, Y, eval_set=(X, Y)))


@losses
def test_saving_and_pickling(loss, tmp_path):
    model = GradientBoostingRegressor(loss, **FEW).fit(X, Y)
    model.save(tmp_path / "model")
    for copy in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert prints(copy) == prints(model)
        assert copy.score(X_TEST, Y_TEST) == model.score(X_TEST, Y_TEST)


def test_rows_of_which_nothing_is_known():
    """Of a row that was censored at 0."""
    none = Y[0].copy(), Y[1].copy()
    none[0][:20], none[1][:20] = False, 0.0
    for loss in ("aft", AFT("logistic"), AFT("extreme")):
        model = GradientBoostingRegressor(loss, **FEW).fit(X, none)
        rest = GradientBoostingRegressor(loss, **FEW).fit(X[20:], (Y[0][20:], Y[1][20:]))
        assert model.forest_.base == pytest.approx(rest.forest_.base, rel=1e-6)
        assert np.corrcoef(model.predict(X_TEST), rest.predict(X_TEST))[0, 1] > 0.95


def test_intervals():
    """An interval around each time tells nearly as much as the time; the metric is the loss."""
    event, time = Y
    bounds = np.stack([0.9 * time, np.where(event, 1.1 * time, np.inf)], axis=1)
    model = GradientBoostingRegressor("aft", n_estimators=50).fit(X, bounds, eval_set=(X, bounds))
    assert model.score(X_TEST, Y_TEST) > 0.7
    known = model.unique_times_
    assert (np.diff(known) > 0).all() and known[-1] < np.inf
    with pytest.raises(ValueError, match="censored on the left or to an interval: use scoring"):
        model.score(X, bounds)
    right = np.stack([time, np.where(event, time, np.inf)], axis=1)
    assert prints(model.set_params(**FEW).fit(X, right)) == prints(clone(model).fit(X, Y))


@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_rows_of_weight_zero_have_no_effect(loss):
    weight = np.ones(400)
    weight[::3] = 0.0
    other = Y[0].copy(), Y[1].copy()
    other[0][::3], other[1][::3] = True, 50.0
    model = GradientBoostingRegressor(loss, **FEW)
    first, second = (clone(model).fit(X, y, weight) for y in (Y, other))
    np.testing.assert_allclose(first.predict(X_TEST), second.predict(X_TEST), rtol=1e-9)


@losses
def test_early_stopping_holds_rows_out_and_training_goes_on(loss):
    model = GradientBoostingRegressor(
        loss, n_estimators=400, learning_rate=0.5, early_stopping=True, n_iter_no_change=3,
        scoring="concordance", device="cpu",
    )  # fmt: skip
    model.fit(X, Y)
    assert 0 < model.n_iter_ < 100
    assert max(model.evals_result_["validation"]["concordance"]) > 0.7
    more = clone(model).set_params(n_estimators=2, early_stopping=False).fit(X, Y, init=model)
    assert more.n_iter_ == model.n_iter_ + 2 and more.unique_times_.size > 0


@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_tables_in_batches(loss):
    batches = BinnedTable.from_batches(lambda: iter([(X[:150], Y[1][:150]), (X[150:], Y[1][150:])]))
    binned = GradientBoostingRegressor(loss, **FEW).fit(batches, Y)
    whole = GradientBoostingRegressor(loss, **FEW).fit(pd.DataFrame(X), Y)
    assert prints(binned) == prints(whole)


def test_metrics_of_arrays():
    def share(y, score):
        assert y.shape == (400, 2)
        return float((score > y[:, 1]).mean())

    model = GradientBoostingRegressor("cox", **FEW, scoring=ArrayMetric(share))
    assert len(model.fit(X, Y, eval_set=(X, Y)).evals_result_["validation_0"]["share"]) == 9


def test_checkpoints_have_no_baseline():
    class Keep(Callback):
        model: Any = None

        def after_iteration(self, state):
            self.model = state.model()

    keep = Keep()
    model = GradientBoostingRegressor("cox", **FEW, callbacks=[keep]).fit(X, Y)
    assert keep.model.predict(X).tolist() == model.predict(X).tolist()
    with pytest.raises(ValueError, match="its training did not end"):
        keep.model.predict_survival_function(X)


def test_other_losses_have_no_curves():
    model = GradientBoostingRegressor(**FEW).fit(X, Y[1])
    assert not hasattr(model, "predict_survival_function") and not hasattr(model, "unique_times_")
    with pytest.raises(AttributeError, match="predict_survival_function"):
        model.predict_survival_function(X)
    again = (
        GradientBoostingRegressor("cox", **FEW).fit(X, Y).set_params(loss="poisson").fit(X, Y[1])
    )
    assert not hasattr(again, "unique_times_")


@pytest.mark.parametrize("settings, y, message", [
    ({"loss": "cox"}, Y[1], "y must be a structured array"),
    ({"loss": "cox"}, np.stack(Y, axis=1), r"tuple \(event, time\), got ndarray"),
    ({"loss": "cox"}, None, "y must be a structured array.*got NoneType"),
    ({"loss": "cox"}, (~Y[0] & False, Y[1]), "y has no event, so that loss='cox'"),
    ({"loss": "cox"}, (Y[0], -Y[1]), "finite and not negative"),
    ({"loss": "cox"}, (Y[0][:9], Y[1][:9]), "inconsistent numbers of samples|9"),
    ({"loss": "aft"}, Y[1], "lower and upper bound of each time"),
    ({"loss": "aft"}, (Y[0], 0.0 * Y[1]), "must have positive times of events"),
    ({"loss": "aft"}, (Y[0], 1e37 + 0.0 * Y[1]), "must be below 1e\\+37"),
    ({"loss": "aft"}, (Y[0] & False, Y[1]), r"has a finite upper bound \(no event\)"),
    ({"loss": "aft"}, np.stack([0.0 * Y[1], Y[1]], axis=1), "has a positive lower bound"),
    ({"loss": "cox", "scoring": "r2"}, Y, "do not go together: the losses of survival"),
    ({"scoring": "concordance"}, Y[1], "do not go together"),
    ({"loss": "cox", "sampling": "balanced"}, Y, "is for classes"),
    ({"loss": "aft", "init": StagewiseRegressor()}, Y, "init must be None or 'zero' with"),
])  # fmt: skip
def test_bad_input(settings, y, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**FEW, **settings).fit(X, y)


def test_more_bad_input():
    model = GradientBoostingRegressor("cox", **FEW)
    with pytest.raises(ValueError, match=r"eval_set\[0\] y has no event"):
        model.fit(X, Y, eval_set=(X, (Y[0] & False, Y[1])))
    with pytest.raises(ValueError, match="No training row with an event has a positive weight"):
        model.fit(X, Y, 1.0 - Y[0])
    with pytest.raises(ValueError, match="No training row of positive weight has a finite upper"):
        GradientBoostingRegressor("aft", **FEW).fit(X, Y, 1.0 - Y[0])
    model.fit(X, Y)
    for times in ([[1.0]], [-1.0], [np.nan], ["a"]):
        with pytest.raises(ValueError, match="times must be a vector of finite numbers >= 0"):
            model.predict_survival_function(X, times)
    for other in (GradientBoostingClassifier, StagewiseRegressor):
        with pytest.raises(
            ValueError, match="is a loss of survival: use GradientBoostingRegressor"
        ):
            other(loss=Cox()).fit(X, Y[0])


@pytest.mark.parametrize("name, least", [("metabric", 0.61), ("gbsg2", 0.64)])
def test_real_tables(name, least):
    try:
        data = load_table(DATA, name)
    except GapError as gap:
        pytest.skip(str(gap))
    rows, time, event = data["X"], data["y"], data["event"]
    test = np.arange(time.size) % 4 == 0
    for loss in ("cox", "aft"):
        model = GradientBoostingRegressor(loss, n_estimators=60, learning_rate=0.05)
        model.fit(rows[~test], (event[~test], time[~test]))
        assert model.score(rows[test], (event[test], time[test])) > least


def test_the_baseline_is_that_of_scikit_survival():
    breslow = pytest.importorskip("sksurv.linear_model.coxph").BreslowEstimator
    model = GradientBoostingRegressor(Cox("breslow"), **FEW).fit(X, Y)
    theirs = breslow().fit(model.predict(X), *Y)
    curves = theirs.get_survival_function(model.predict(X_TEST[:5]))
    expected = [curve(model.unique_times_) for curve in curves]
    np.testing.assert_allclose(model.predict_survival_function(X_TEST[:5]), expected, rtol=1e-10)
