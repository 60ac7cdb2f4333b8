"""scikit-learn's own checks of an estimator, on the defaults and on settings far from them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor

EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
COUNTS_ROWS = {
    EQUIVALENCE: (
        "min_samples_leaf counts rows, as in HistGradientBoosting, and not their weights. With "
        "min_samples_leaf=1 the check passes."
    ),
}
DRAWS_ROWS = {
    EQUIVALENCE: (
        "Rows are drawn by their number: repeating a row gives the table other numbers, and "
        "draws the repetitions one by one, where a row of weight 2 is drawn whole."
    ),
}
TIES = {
    EQUIVALENCE: (
        "Among equally good splits of 15 rows, of which classes have many, the stochastic "
        "rounding decides. It is drawn by row number, and the check gives rows other numbers."
    ),
}

SMALL: dict[str, Any] = {"n_estimators": 20, "min_samples_leaf": 1}
BOTH = (GradientBoostingRegressor, GradientBoostingClassifier)
SETTINGS: list[tuple[tuple[type, ...], dict[str, Any], dict[str, str]]] = [
    (BOTH, {"n_estimators": 5}, COUNTS_ROWS),
    (BOTH, SMALL, {}),
    (BOTH, SMALL | {"max_leaf_nodes": None, "max_depth": 3, "max_bins": 7}, {}),
    (BOTH, SMALL | {"warm_start": True}, {}),
    (BOTH, SMALL | {"subsample": 0.7}, DRAWS_ROWS),
    (BOTH, SMALL | {"early_stopping": True}, DRAWS_ROWS),
    (BOTH[:1], SMALL | {"colsample_bytree": 0.9, "colsample_bynode": 0.9}, {}),
    (BOTH[1:], SMALL | {"colsample_bytree": 0.9, "colsample_bynode": 0.9}, TIES),
    (BOTH[1:], SMALL | {"class_weight": "balanced"}, TIES),
]
CASES = [(cls(**settings), reasons) for classes, settings, reasons in SETTINGS for cls in classes]


@parametrize_with_checks(
    [estimator for estimator, _ in CASES],
    expected_failed_checks=lambda estimator: next(r for e, r in CASES if e is estimator),
)
def test_check(estimator, check):
    if "array_api" in str(check) and not os.environ.get("SCIPY_ARRAY_API"):
        pytest.skip("needs SCIPY_ARRAY_API=1 before SciPy is imported, in a process of its own")
    check(estimator)
