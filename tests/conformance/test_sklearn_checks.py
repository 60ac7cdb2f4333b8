"""scikit-learn's own checks of an estimator, on the defaults and on settings far from them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GridSearchCV,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomizedSearchCV,
)
from tests.support.row_weights import COUNTS_ROWS, DRAWS_ROWS, TIES

NEGATIVE = {
    "check_regressor_multioutput": (
        "Its targets are negative, although the estimator's tags say that they must not be."
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
SETTINGS += [
    (BOTH[:1], SMALL | {"loss": "absolute_error", "line_search": True}, {}),
    (BOTH[:1], SMALL | {"loss": "huber", "max_leaf_nodes": 6}, {}),
    (BOTH[:1], SMALL | {"loss": "quantile", "quantile": 0.3}, {}),
    (BOTH[:1], SMALL | {"loss": "poisson", "line_search": True, "n_estimators": 5}, NEGATIVE),
    (BOTH[:1], SMALL | {"loss": "gamma"}, NEGATIVE),
    (BOTH[1:], SMALL | {"loss": "exponential"}, {}),
    (BOTH[1:], SMALL | {"loss": "focal"}, {}),
]
SINGLE = (DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor)
BAGGED = (RandomForestClassifier, RandomForestRegressor)
FORESTS = (*BAGGED, ExtraTreesClassifier, ExtraTreesRegressor)
SETTINGS += [
    (SINGLE, {}, {}),
    (SINGLE[:2], {"max_leaf_nodes": 9, "max_features": 0.9, "min_samples_split": 3}, {}),
    (SINGLE[:2], {"max_bins": 5}, {}),
    (SINGLE[:1], {"criterion": "misclassification", "class_weight": "balanced"}, COUNTS_ROWS),
    (SINGLE[1:2], {"criterion": "absolute_error", "ccp_alpha": 0.01}, {}),
    (FORESTS, {"n_estimators": 5, "bootstrap": False}, {}),
    (BAGGED, {"n_estimators": 5, "max_bins": None}, DRAWS_ROWS),
    (FORESTS, {"n_estimators": 40, "bootstrap": True, "oob_score": True}, DRAWS_ROWS),
    (BAGGED[:1], {"n_estimators": 5, "class_weight": "balanced_subsample"}, DRAWS_ROWS),
]
FAST: dict[str, Any] = {"cv": 2}
DEPTHS = {"max_depth": [4]}
SEARCHES = [
    (GridSearchCV(DecisionTreeClassifier(), DEPTHS, **FAST), DRAWS_ROWS),
    (RandomizedSearchCV(DecisionTreeRegressor(), DEPTHS, n_iter=1, **FAST), DRAWS_ROWS),
]
CASES = [(cls(**settings), reasons) for classes, settings, reasons in SETTINGS for cls in classes]
CASES += SEARCHES


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.FitFailedWarning",  # of searches
    "ignore:Scoring failed",
    "ignore:invalid value encountered in cast",  # scikit-learn's, of infinite labels
    "ignore:One or more of the test scores are non-finite",
    "ignore::gpuens.NothingLearnedWarning",  # of tables of 9 to 16 rows
)
@parametrize_with_checks(
    [estimator for estimator, _ in CASES],
    expected_failed_checks=lambda estimator: next(r for e, r in CASES if e is estimator),
)
def test_check(estimator, check):
    if "array_api" in str(check) and not os.environ.get("SCIPY_ARRAY_API"):
        pytest.skip("needs SCIPY_ARRAY_API=1 before SciPy is imported, in a process of its own")
    check(estimator)
