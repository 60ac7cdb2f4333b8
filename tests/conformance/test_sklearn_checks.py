"""scikit-learn's own checks of all estimators, on the defaults and on settings far from them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from sklearn.linear_model import LinearRegression, Perceptron, Ridge, RidgeClassifier
from sklearn.linear_model import LogisticRegression as TheirRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier as TheirTree
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ConformalClassifier,
    ConformalRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GridSearchCV,
    IsolationForest,
    ObliqueRandomForestClassifier,
    ObliqueRandomForestRegressor,
    QuantileForestRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomizedSearchCV,
    StackingClassifier,
    StackingRegressor,
    StagewiseClassifier,
    StagewiseRegressor,
    ThreeLearnerBoostingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from gpuens.combining.linear import RidgeRegression
from gpuens.combining.logistic import LogisticRegression

OF_WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
DRAWS_ROWS = dict.fromkeys(
    OF_WEIGHTS,
    "Rows are drawn by their number: after repeating some, others are drawn, and a row of weight "
    "two is drawn whole, or twice as often, where two rows are drawn one by one.",
)
COUNTS_ROWS = dict.fromkeys(
    OF_WEIGHTS,
    "The setting counts rows, whatever their weights, as scikit-learn's does: min_samples_leaf of "
    "boosting, scales of oblique forests, balanced class weights.",
)
TRIALS = dict.fromkeys(
    OF_WEIGHTS,
    "feature_combinations='auto' compares out-of-bag errors of small forests, also with "
    "bootstrap=False: their rows are drawn by number, so that another value may be chosen.",
)
TIES = dict.fromkeys(
    OF_WEIGHTS,
    "Among equally good splits of few rows the stochastic rounding of gradients decides, which is "
    "drawn by row number.",
)
"""Why a row of weight two is not always the same as two rows: the only exceptions there are."""

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

FEW: dict[str, Any] = {"n_estimators": 5}
OBLIQUE = (ObliqueRandomForestClassifier, ObliqueRandomForestRegressor)
OF_FORESTS: list[tuple[tuple[type, ...], dict[str, Any], dict[str, str]]] = [
    ((QuantileForestRegressor,), FEW, DRAWS_ROWS),
    ((QuantileForestRegressor,), FEW | {"default_quantiles": "mean"}, DRAWS_ROWS),
    (
        (QuantileForestRegressor,),
        FEW | {"bootstrap": False, "warm_start": True, "max_bins": None},
        {},
    ),
    ((IsolationForest,), FEW, DRAWS_ROWS),
    (
        (IsolationForest,),
        FEW | {"bootstrap": True, "max_features": 0.7, "contamination": 0.1},
        DRAWS_ROWS,
    ),
    ((IsolationForest,), FEW | {"max_samples": 0.5, "warm_start": True}, DRAWS_ROWS),
    (OBLIQUE, FEW, DRAWS_ROWS),
    (OBLIQUE, FEW | {"feature_combinations": 2}, DRAWS_ROWS),
    (OBLIQUE, FEW | {"bootstrap": False}, TRIALS),
    (OBLIQUE, FEW | {"bootstrap": False, "feature_combinations": 3, "max_bins": None}, {}),
    (OBLIQUE, FEW | {"bootstrap": False, "feature_combinations": 1, "warm_start": True}, {}),
]
CASES += [
    (cls(**settings), reasons) for classes, settings, reasons in OF_FORESTS for cls in classes
]

EXACT = DecisionTreeRegressor(max_depth=2)
KINDS = [Ridge(), DecisionTreeRegressor(max_depth=2)]
FAST_RATE = FEW | {"learning_rate": 0.5}
VOTES = dict.fromkeys(
    ("check_classifiers_train", "check_decision_proba_consistency"),
    "Shares of votes need not be in the order of the mean decision function.",
)
CASES += [
    (StagewiseRegressor(n_estimators=10), {}),
    (StagewiseRegressor(EXACT, **FAST_RATE), {}),
    (StagewiseRegressor(LinearRegression(), **FAST_RATE), {}),
    (StagewiseRegressor(Ridge(), n_estimators=5, loss="huber", warm_start=True), {}),
    (StagewiseRegressor(Ridge(), **FAST_RATE, loss="absolute_error"), {}),
    (StagewiseRegressor(EXACT, **FAST_RATE, loss="poisson"), NEGATIVE),
    (StagewiseRegressor(KINDS, **FAST_RATE, selection="cyclic"), {}),
    (StagewiseRegressor(KINDS, **FAST_RATE, subsample=0.7), DRAWS_ROWS),
    (StagewiseRegressor(EXACT, **FAST_RATE, early_stopping=True), DRAWS_ROWS),
    (StagewiseClassifier(n_estimators=2), {}),
    (StagewiseClassifier(EXACT, **FAST_RATE), {}),
    (StagewiseClassifier(Ridge(), **FAST_RATE, loss="exponential"), {}),
    (StagewiseClassifier(KINDS, n_estimators=3, loss="focal"), {}),
    (StagewiseClassifier(EXACT, **FAST_RATE, early_stopping=True), DRAWS_ROWS),
    (AdaBoostClassifier(n_estimators=5), {}),
    (AdaBoostClassifier(n_estimators=5, max_bins=None), {}),
    (AdaBoostClassifier(DecisionTreeClassifier(max_leaf_nodes=4), n_estimators=3), {}),
    (AdaBoostClassifier(n_estimators=5, max_bins=None, learning_rate=0.5, warm_start=True), {}),
    (AdaBoostClassifier(TheirRegression(), n_estimators=5), {}),
    (AdaBoostRegressor(n_estimators=5), DRAWS_ROWS),
    (AdaBoostRegressor(Ridge(), n_estimators=5, loss="square"), DRAWS_ROWS),
    (ThreeLearnerBoostingClassifier(), {}),
    (ThreeLearnerBoostingClassifier(TheirRegression(), max_samples=0.5), {}),
    (BaggingClassifier(), DRAWS_ROWS),
    (BaggingRegressor(), DRAWS_ROWS),
    (BaggingClassifier(KNeighborsClassifier(3)), DRAWS_ROWS),
    (BaggingClassifier(Perceptron()), DRAWS_ROWS | VOTES),
    (BaggingClassifier(RidgeClassifier(), voting="hard"), DRAWS_ROWS),
    (BaggingRegressor(Ridge(), max_samples=8, bootstrap_features=True), DRAWS_ROWS),
    (
        BaggingRegressor(GradientBoostingRegressor(learning_rate=0.5, n_estimators=5)),
        DRAWS_ROWS,
    ),
    (BaggingClassifier(GradientBoostingClassifier(n_estimators=3)), DRAWS_ROWS),
]
TREE = TheirTree(random_state=0)
TREES = [("shallow", TheirTree(max_depth=2, random_state=0)), ("tree", TREE)]
TWO_TREES = [("a", DecisionTreeClassifier(max_depth=3)), ("b", TREE)]
TREE_AND_RIDGE = [("tree", DecisionTreeRegressor(max_depth=3)), ("ridge", Ridge())]
HOLDOUT = {
    "check_estimators_nan_inf": (
        "Only the meta-model refuses NaN, and sees the rows that are held out: the one with NaN is "
        "not among them."
    )
}
ON_CPU: dict[str, Any] = {"n_estimators": 5, "device": "cpu"}
CASES += [
    (VotingClassifier(TWO_TREES), {}),
    (VotingClassifier([("tree", TREE), ("linear", TheirRegression())]), {}),
    (VotingClassifier(TREES, voting="soft", weights=[1, 2]), {}),
    (VotingClassifier(TREES, voting="soft", weights="optimal"), DRAWS_ROWS),
    (VotingRegressor(TREE_AND_RIDGE), {}),
    (VotingRegressor(TREE_AND_RIDGE, weights="greedy"), DRAWS_ROWS),
    (StackingClassifier(TWO_TREES, cv=3), {}),
    (StackingClassifier(TWO_TREES, TheirRegression(), cv="holdout", passthrough=True), HOLDOUT),
    (StackingRegressor(TREE_AND_RIDGE, cv=3), {}),
    (StackingRegressor(TREE_AND_RIDGE, Ridge(), cv=0.3), {}),
    (LogisticRegression(), {}),
    (LogisticRegression(C=0.1), {}),
    (RidgeRegression(), {}),
    (RidgeRegression(0.1), {}),
    (ConformalRegressor(GradientBoostingRegressor(**ON_CPU), random_state=0), DRAWS_ROWS),
    (ConformalRegressor(RandomForestRegressor(30, random_state=0), method="bag"), DRAWS_ROWS),
    (ConformalClassifier(GradientBoostingClassifier(**ON_CPU), random_state=0), DRAWS_ROWS),
]
FIRST_OF = {type(estimator).__name__: estimator for estimator, _ in reversed(CASES)}
ONE_OF_EACH_ROOM = """AdaBoostClassifier BaggingClassifier ConformalClassifier
DecisionTreeClassifier GradientBoostingClassifier IsolationForest RandomForestClassifier
VotingClassifier""".split()
FIRST = [FIRST_OF[name] for name in ONE_OF_EACH_ROOM]
"""Those of other classes take the same way through the data and the parameters."""
OTHERS = [estimator for estimator, _ in CASES if not any(estimator is one for one in FIRST)]
REASONS = {id(estimator): reasons for estimator, reasons in CASES}

pytestmark = [
    pytest.mark.filterwarnings(text)
    for text in (
        "ignore::sklearn.exceptions.FitFailedWarning",  # of searches
        "ignore:Scoring failed",
        "ignore:invalid value encountered in cast",  # scikit-learn's, of infinite labels
        "ignore:One or more of the test scores are non-finite",
        "ignore::gpuens.NothingLearnedWarning",  # of tables of 9 to 16 rows
        "ignore:Warm-start fitting without increasing",
        "ignore:When fitting IsolationForest with sample_weight",
        "ignore:.*the model is the first learner alone:UserWarning",
    )
]


@parametrize_with_checks(FIRST, expected_failed_checks=lambda estimator: REASONS[id(estimator)])
def test_check(estimator, check):
    if "array_api" in str(check) and not os.environ.get("SCIPY_ARRAY_API"):
        pytest.skip("needs SCIPY_ARRAY_API=1 before SciPy is imported, in a process of its own")
    check(estimator)
