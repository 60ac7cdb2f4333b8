"""scikit-learn's own checks of forward stagewise modelling."""

from __future__ import annotations

import os

import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuens import DecisionTreeRegressor, StagewiseClassifier, StagewiseRegressor
from tests.support.row_weights import DRAWS_ROWS

NEGATIVE = {
    "check_regressor_multioutput": (
        "Its targets are negative, although the estimator's tags say that they must not be."
    ),
}
EXACT = DecisionTreeRegressor(max_depth=2)
KINDS = [Ridge(), DecisionTreeRegressor(max_depth=2)]
FEW = {"n_estimators": 5, "learning_rate": 0.5}
SETTINGS = [
    (StagewiseRegressor(n_estimators=10), {}),
    (StagewiseRegressor(EXACT, **FEW), {}),
    (StagewiseRegressor(LinearRegression(), **FEW), {}),
    (StagewiseRegressor(Ridge(), n_estimators=5, loss="huber", warm_start=True), {}),
    (StagewiseRegressor(Ridge(), **FEW, loss="absolute_error"), {}),
    (StagewiseRegressor(EXACT, **FEW, loss="poisson"), NEGATIVE),
    (StagewiseRegressor(KINDS, **FEW, selection="cyclic"), {}),
    (StagewiseRegressor(KINDS, **FEW, subsample=0.7), DRAWS_ROWS),
    (StagewiseRegressor(EXACT, **FEW, early_stopping=True), DRAWS_ROWS),
    (StagewiseClassifier(n_estimators=5), {}),
    (StagewiseClassifier(EXACT, **FEW), {}),
    (StagewiseClassifier(Ridge(), **FEW, loss="exponential"), {}),
    (StagewiseClassifier(KINDS, n_estimators=3, loss="focal"), {}),
    (StagewiseClassifier(EXACT, **FEW, early_stopping=True), DRAWS_ROWS),
]


@pytest.mark.filterwarnings("ignore::gpuens.NothingLearnedWarning")  # rows held out of 9 to 16
@parametrize_with_checks(
    [estimator for estimator, _ in SETTINGS],
    expected_failed_checks=lambda estimator: next(r for e, r in SETTINGS if e is estimator),
)
def test_check(estimator, check):
    if "array_api" in str(check) and not os.environ.get("SCIPY_ARRAY_API"):
        pytest.skip("needs SCIPY_ARRAY_API=1 before SciPy is imported, in a process of its own")
    check(estimator)
