"""The best round, by the metric that early stopping watches."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.custom_metrics import ArrayMetric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X[:, 0] + RNG.normal(size=200)
EVAL = {"eval_set": (X[120:], Y[120:])}


def worst(y, score):
    return float(np.abs(y - score).max())


@pytest.mark.parametrize(
    ("scoring", "best"),
    [
        ("loss", np.argmin),
        (["r2", "loss"], np.argmax),
        (ArrayMetric(worst), np.argmin),
        (ArrayMetric(worst, higher_is_better=True), np.argmax),
    ],
)
def test_it_is_the_best_of_the_first_metric(scoring, best):
    model = GradientBoostingRegressor(n_estimators=40, learning_rate=0.3, scoring=scoring)
    model.fit(X[:120], Y[:120], **EVAL)
    values = next(iter(model.evals_result_["validation_0"].values()))
    assert model.best_iteration_ == best(values) and model.n_iter_ == 40


def test_early_stopping_keeps_the_rounds_up_to_it():
    model = GradientBoostingRegressor(n_estimators=200, learning_rate=0.3, early_stopping=True)
    model.fit(X[:120], Y[:120], **EVAL)
    assert model.n_iter_ == model.best_iteration_ < 200


def test_without_evaluation_it_is_the_last():
    assert GradientBoostingRegressor(n_estimators=3).fit(X, Y).best_iteration_ == 3
