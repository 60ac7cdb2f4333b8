"""Workers that share rows whose times may be censored learn the model and the curves of ``fit``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.losses import AFT, Cox
from tests.cluster.test_shared_rows import CUTS, WEIGHT, N, X, Y, fit_shared, in_turns

TIME = np.round(np.exp(Y / 3.0), 1) + 0.1
EVENT = (np.random.default_rng(2).random(N) < 0.6) & (np.arange(N) >= 1024)  # not in the first part
RIGHT = np.zeros(N, [("event", bool), ("time", float)])
RIGHT["event"], RIGHT["time"] = EVENT, TIME
BOUNDS = np.column_stack([TIME, np.where(EVENT, TIME, 2.0 * TIME)])
BOUNDS[::7, 1] = np.inf

CASES: list[tuple[Any, np.ndarray, bool, dict[str, Any]]] = [
    ("cox", RIGHT, False, {}),
    ("cox", RIGHT, True, {"subsample": 0.5, "line_search": True}),
    (Cox("breslow"), RIGHT, True, {"dropout": 0.5}),
    ("aft", RIGHT, True, {}),
    (AFT("logistic", 0.7), BOUNDS, False, {"linear_leaves": True}),
    (AFT("extreme"), BOUNDS, True, {"sampling": "goss", "learning_rate": 0.5}),
]


@pytest.mark.parametrize(("loss", "y", "weighted", "params", "ends"), in_turns(CASES))
def test_the_model_and_its_curves_are_those_of_fit(loss, y, weighted, params, ends):
    settings = {"n_estimators": 5, "random_state": 3, "device": "cpu", **params}
    model = GradientBoostingRegressor(loss, **settings)
    weight = WEIGHT if weighted else None
    plain = GradientBoostingRegressor(**model.get_params()).fit(X, y, weight)
    for shared in fit_shared(model, (X, y, weight), ends):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        for method in ("predict_survival_function", "predict_cumulative_hazard_function"):
            own, expected = (getattr(m, method)(X[:50]) for m in (shared, plain))
            assert np.array_equal(own, expected), method


@pytest.mark.parametrize("holds_out", [False, True])
@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_metrics(loss, holds_out):
    """The loss of the training rows, and metrics of rows held out."""
    how: dict[str, Any] = {"validation_fraction": None}
    if holds_out:
        how = {"scoring": ["concordance", "loss"], "validation_fraction": 0.2}
    model = GradientBoostingRegressor(
        loss, n_estimators=20, random_state=3, device="cpu", early_stopping=True,
        n_iter_no_change=2, learning_rate=1.0, **how,
    )  # fmt: skip
    plain = GradientBoostingRegressor(**model.get_params()).fit(X, RIGHT, WEIGHT)
    for shared in fit_shared(model, (X, RIGHT, WEIGHT), CUTS[3]):
        assert shared.evals_result_ == plain.evals_result_
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert np.array_equal(shared.unique_times_, plain.unique_times_)


def test_no_event_in_all_rows():
    y = RIGHT.copy()
    y["event"] = False
    model = GradientBoostingRegressor("cox", n_estimators=2, device="cpu")
    with pytest.raises(ValueError, match="y has no event, so that loss='cox' is not defined"):
        fit_shared(model, (X, y), CUTS[2])
    y["event"][1024:] = True
    weight = np.ones(N)
    weight[1024:] = 0.0
    with pytest.raises(ValueError, match="No training row with an event has a positive weight"):
        fit_shared(model, (X, y, weight), CUTS[2])
