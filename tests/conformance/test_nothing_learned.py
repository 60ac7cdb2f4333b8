"""Models that are constant, and metrics that are not numbers: the reason is named."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csc_array, csr_matrix

import gpuens
from gpuens import (
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    NothingLearnedWarning,
    RandomForestRegressor,
)
from gpuens.custom_metrics import ArrayMetric
from gpuens.estimators.nothing_learned import features_vary

pytestmark = pytest.mark.filterwarnings("error:No tree has a split:UserWarning")

X = np.random.default_rng(0).normal(size=(200, 2))
Y = X[:, 0] + 0.1 * X[:, 1]
POISSON = {"loss": "poisson"}


@pytest.mark.parametrize("container", [csc_array, csr_matrix])
def test_a_sparse_table_of_explicit_zeros(container):
    """Its columns have no method to sort their entries by."""
    zeros = container((np.zeros(5), (np.arange(5), np.zeros(5, int))), shape=(200, 2))
    model = gpuens.AdaBoostClassifier(n_estimators=2)
    with pytest.warns(NothingLearnedWarning, match="each feature of X has a single value"):
        model.fit(zeros, Y > np.median(Y) + 0.5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_nan_in_a_column_of_a_frame_is_no_value(frame):
    assert not features_vary(frame({"a": [1.0, np.nan, 1.0], "b": ["x", None, "x"]}))
    assert features_vary(frame({"a": [1.0, np.nan, 2.0], "b": ["x", None, "x"]}))


@pytest.mark.parametrize("scale", [1e-10, 1e-30, 5e-324])
def test_tiny_weights_are_scaled_by_a_power_of_two(scale):
    largest = 2.0 ** np.floor(np.log2(scale))
    model = GradientBoostingRegressor(n_estimators=3)
    expected = model.fit(X, Y, np.full(Y.size, 0.5)).predict(X)
    assert np.unique(expected).size > 3
    tiny = model.fit(X, Y, np.full(Y.size, largest))
    np.testing.assert_array_equal(tiny.predict(X), expected)


@pytest.mark.parametrize("model, y, weight, advice", [
    (GradientBoostingRegressor(n_estimators=2), Y * 1e-100, None, "Multiply y"),
    (GradientBoostingRegressor(**POISSON, n_estimators=2), np.exp(Y) * 1e-30, None, "Poisson"),
    (GradientBoostingClassifier(n_estimators=2), Y > 0, 1e-6, "Multiply sample_weight"),
    (DecisionTreeRegressor(), Y * 1e-200, None, "Multiply y"),
    (RandomForestRegressor(2), Y * 1e-200, None, "Multiply y"),
], ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "")  # fmt: skip
def test_a_constant_model_is_named_with_its_reason(model, y, weight, advice):
    with pytest.warns(NothingLearnedWarning, match=advice):
        model.fit(X, y, weight)
    assert np.unique(model.predict(X)).size == 1


@pytest.mark.parametrize("y", [np.full(200, 1e-300), np.zeros(200), np.tile([0.0, 1.0], 100)])
def test_other_constant_models_are_no_reason_to_warn(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GradientBoostingRegressor(n_estimators=2).fit(X, y)
        DecisionTreeRegressor().fit(X, y)


POSITIVE, CLASSES = np.exp(Y), (Y > 0).astype(int)
TIMES = np.arange(200) % 3 > 0, np.exp(Y)
TREES: dict[str, dict[str, Any]] = {
    "DecisionTreeRegressor": {},
    "DecisionTreeClassifier": {},
    "ExtraTreeRegressor": {},
    "ExtraTreeClassifier": {},
    "RandomForestRegressor": {"n_estimators": 3},
    "RandomForestClassifier": {"n_estimators": 3},
    "ExtraTreesRegressor": {"n_estimators": 3},
    "ExtraTreesClassifier": {"n_estimators": 3},
    "QuantileForestRegressor": {"n_estimators": 3},
    "ObliqueRandomForestRegressor": {"n_estimators": 3},
    "ObliqueRandomForestClassifier": {"n_estimators": 3},
    "RandomSurvivalForest": {"n_estimators": 3},
    "ExtraSurvivalTrees": {"n_estimators": 3},
    "GradientBoostingRegressor": {"n_estimators": 3},
    "GradientBoostingClassifier": {"n_estimators": 3},
    "GradientBoostingRanker": {"n_estimators": 3},
}
OF_TREES = (
    *("AdaBoostRegressor", "AdaBoostClassifier", "BaggingRegressor", "BaggingClassifier"),
    *("StagewiseRegressor", "StagewiseClassifier", "ThreeLearnerBoostingClassifier"),
)
LOSSES = ("absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie", "normal",
          "log_normal", "student_t", "negative_binomial", "cox", "aft")  # fmt: skip


def fit(model: Any, X: np.ndarray = X) -> Any:
    """Fit a model of any kind to a target that is not constant."""
    name = type(model).__name__
    if "Surviv" in name or getattr(model, "loss", "") in ("cox", "aft"):
        return model.fit(X, TIMES)
    if name.endswith("Ranker"):
        return model.fit(X, CLASSES, group=[10] * 20)
    if name == "IsolationForest":
        return model.fit(X)
    if getattr(model, "loss", "") == "negative_binomial":
        return model.fit(X, np.round(4 * POSITIVE))
    return model.fit(X, CLASSES if name.endswith("Classifier") else POSITIVE)


def make(name: str, **settings: Any) -> Any:
    """Make an estimator, or an ensemble of trees with these settings."""
    if name not in OF_TREES:
        return getattr(gpuens, name)(**TREES.get(name, {}), **settings)
    of_classes = name.endswith("Classifier") and not name.startswith("Stagewise")
    tree = getattr(gpuens, f"DecisionTree{'Classifier' if of_classes else 'Regressor'}")
    number = {} if name.startswith("Three") else {"n_estimators": 3}
    return getattr(gpuens, name)(tree(**settings), **number)


@pytest.mark.filterwarnings("ignore:The first ")  # of three learners, one without errors
@pytest.mark.parametrize("name", [*TREES, *OF_TREES])
class TestNoTreeHasASplit:
    def test_because_of_a_parameter(self, name):
        with pytest.warns(NothingLearnedWarning, match="min_samples_leaf=150 demands 150 rows"):
            fit(make(name, min_samples_leaf=150))

    def test_because_of_a_threshold(self, name):
        with pytest.warns(NothingLearnedWarning, match="no split satisfies min_impurity_decrease="):
            fit(make(name, min_impurity_decrease=1e9))

    @pytest.mark.parametrize("value", [1.0, np.nan])
    def test_because_of_the_features(self, name, value):
        with pytest.warns(NothingLearnedWarning, match="a single value"):
            fit(make(name), np.full_like(X, value))

    def test_else_there_is_no_warning(self, name):
        with warnings.catch_warnings():
            warnings.simplefilter("error", NothingLearnedWarning)
            fit(make(name))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_names_what_forbids_splits(loss):
    quantile = {"quantile": 0.3} if loss == "quantile" else {}
    model = GradientBoostingRegressor(
        loss=loss, n_estimators=2, min_gain_to_split=1e9, min_samples_leaf=1, **quantile
    )
    with pytest.warns(NothingLearnedWarning, match="satisfies min_gain_to_split=1000000000.0"):
        fit(model)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            GradientBoostingRegressor(n_estimators=9, subsample=0.05),
            r"a tree sees 10 \(subsample=0.05\)",
        ),
        (RandomForestRegressor(3, max_samples=1), r"a tree sees one row \(max_samples=1\)"),
        (RandomForestRegressor(3, ccp_alpha=1e9), "satisfies ccp_alpha=1000000000.0"),
        (RandomForestRegressor(3, honest=True, min_samples_leaf=60), "a tree sees 100"),
        (DecisionTreeRegressor(min_samples_split=300), "min_samples_split=300 demands 300 rows"),
        (DecisionTreeRegressor(min_samples_leaf=0.9), "min_samples_leaf=0.9 demands 180 rows"),
        (gpuens.IsolationForest(n_estimators=3, max_samples=1), "a tree sees one row"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_the_reason_is_named(model, reason):
    with pytest.warns(NothingLearnedWarning, match=reason):
        fit(model)


def test_a_table_of_fifteen_rows_is_too_small_for_boosting():
    with pytest.warns(NothingLearnedWarning, match="min_samples_leaf=10 demands 10 .* sees 15"):
        GradientBoostingClassifier().fit(X[:15], CLASSES[:15])
    with pytest.warns(NothingLearnedWarning, match="a single value"):
        gpuens.IsolationForest(n_estimators=3).fit(np.ones((20, 2)))


def no_number(estimator: Any, X: Any, y: Any) -> float:
    return math.nan


class TestMetrics:
    """The first metric is NaN before the first round already where it always is."""

    @pytest.mark.parametrize("scoring", [no_number, ArrayMetric(lambda y, score: math.nan)])
    def test_that_are_never_a_number(self, scoring):
        model = GradientBoostingRegressor(n_estimators=30, early_stopping=True, scoring=scoring)
        with pytest.warns(NothingLearnedWarning, match="NaN in every round, so that early"):
            model.fit(X, Y)
        assert model.n_iter_ == 1
        model.set_params(early_stopping=False)
        with pytest.warns(NothingLearnedWarning, match="NaN in every round. Check"):
            model.fit(X, Y, eval_set=(X, Y))

    def test_that_stop_being_numbers(self):
        values = iter([0.1, 0.2, 0.3, *[math.nan] * 9])
        scoring = ArrayMetric(lambda y, score: next(values), "odd", higher_is_better=True)
        model = GradientBoostingRegressor(
            n_estimators=30, early_stopping=True, n_iter_no_change=4, scoring=scoring
        )
        with pytest.warns(NothingLearnedWarning, match="'odd' .* NaN in 4 of 7 rounds, first in 3"):
            model.fit(X, Y)
        assert model.n_iter_ == 2

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
    def test_of_one_class(self):
        one = CLASSES == 1
        model = GradientBoostingClassifier(n_estimators=5, early_stopping=True, scoring="roc_auc")
        with pytest.warns(NothingLearnedWarning) as found:
            model.fit(X, CLASSES, eval_set=(X[one], CLASSES[one]))
        texts = [str(each.message) for each in found]
        assert sum("'validation_0'" in text and "of class 1:" in text for text in texts) == 1
        assert sum("'roc_auc' of 'validation_0' is NaN in every" in text for text in texts) == 1

    def test_of_one_class_held_out(self):
        y = np.where(np.arange(200) < 199, 0, 1)
        for model in (
            GradientBoostingClassifier(n_estimators=3, early_stopping=True, validation_fraction=5),
            gpuens.StagewiseClassifier(n_estimators=3, early_stopping=True, validation_fraction=5),
        ):
            with pytest.warns(NothingLearnedWarning, match="All rows of 'validation'"):
                model.fit(X, y)
