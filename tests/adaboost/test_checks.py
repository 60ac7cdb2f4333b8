"""scikit-learn's own checks of AdaBoost and of boosting by three learners."""

from __future__ import annotations

import os

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    ThreeLearnerBoostingClassifier,
)
from tests.support.row_weights import DRAWS_ROWS

SETTINGS = [
    (AdaBoostClassifier(n_estimators=5), {}),
    (AdaBoostClassifier(n_estimators=5, max_bins=None), {}),
    (AdaBoostClassifier(DecisionTreeClassifier(max_leaf_nodes=4), n_estimators=3), {}),
    (AdaBoostClassifier(n_estimators=5, max_bins=None, learning_rate=0.5, warm_start=True), {}),
    (AdaBoostClassifier(LogisticRegression(), n_estimators=5), {}),
    (AdaBoostRegressor(n_estimators=5), DRAWS_ROWS),
    (AdaBoostRegressor(Ridge(), n_estimators=5, loss="square"), DRAWS_ROWS),
    (ThreeLearnerBoostingClassifier(), {}),
    (ThreeLearnerBoostingClassifier(LogisticRegression(), max_samples=0.5), {}),
]


@pytest.mark.filterwarnings("ignore:.*the model is the first learner alone:UserWarning")
@parametrize_with_checks(
    [estimator for estimator, _ in SETTINGS],
    expected_failed_checks=lambda estimator: next(r for e, r in SETTINGS if e is estimator),
)
def test_check(estimator, check):
    if "array_api" in str(check) and not os.environ.get("SCIPY_ARRAY_API"):
        pytest.skip("needs SCIPY_ARRAY_API=1 before SciPy is imported, in a process of its own")
    check(estimator)
