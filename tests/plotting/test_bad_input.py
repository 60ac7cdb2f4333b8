"""What a user of ``gpuens.plotting`` can get wrong: errors name the argument, what it got and what
it wants."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import AdaBoostClassifier as SklearnAdaBoost
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from gpuens import (
    AdaBoostClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    plotting,
)
from tests.support.errors import raises

plt = pytest.importorskip("matplotlib.pyplot")

NAN = float("nan")
X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] + X[:, 1]
C = (Y > 0).astype(int)
THREE = np.arange(60) % 3
FOREST = RandomForestClassifier(n_estimators=3).fit(X, C)
NUMBERS = RandomForestRegressor(n_estimators=3).fit(X, Y)
BOOST = AdaBoostClassifier(n_estimators=3).fit(X, C)


OF_ESTIMATOR = [
    (plotting.BeeswarmDisplay, (X,)),
    (plotting.CalibrationDisplay, (X, C)),
    (plotting.DecisionRegionsDisplay, (X[:, :2], C)),
    (plotting.DiversityDisplay, (X, C)),
    (plotting.FeatureImportancesDisplay, ()),
    (plotting.KappaErrorDisplay, (X, C)),
    (plotting.LearningCurveDisplay, ()),
    (plotting.OOBCurveDisplay, ()),
    (plotting.PartialDependenceDisplay, (X, [0])),
    (plotting.SampleWeightsDisplay, (X, C)),
    (plotting.ShapleyDependenceDisplay, (X, 0)),
    (plotting.TreeDisplay, ()),
    (plotting.WaterfallDisplay, (X[:1],)),
]


def test_every_display_is_looked_at():
    listed = {display.__name__ for display, _ in OF_ESTIMATOR}
    assert listed == {name for name in plotting.__all__ if name.endswith("Display")}


@pytest.mark.parametrize(("display", "data"), OF_ESTIMATOR)
def test_models_that_are_none(display, data):
    with pytest.raises(NotFittedError):
        display.from_estimator(RandomForestClassifier(), *data)
    for wrong in ("forest", RandomForestClassifier, None):
        with raises(TypeError, "estimator must be a fitted estimator, got", repr(wrong)):
            display.from_estimator(wrong, *data)


def test_missing_matplotlib_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    display = plotting.OOBCurveDisplay([0.5, 0.4])
    with raises(ImportError, "gpuens.plotting needs matplotlib", "pip install 'gpuens[viz]'"):
        display.plot()


def test_axes():
    with raises(TypeError, "ax must be matplotlib axes or None, got 'left'"):
        plotting.OOBCurveDisplay([0.5]).plot("left")
    of = plotting.PartialDependenceDisplay.from_estimator
    with raises(ValueError, "ax has 3 axes for 2 panels: pass one for each"):
        of(NUMBERS, X, [0, 1], ax=plt.subplots(1, 3)[1], grid_resolution=3)
    with raises(ValueError, "ax was not made by subplots", "pass one for each panel"):
        of(NUMBERS, X, [0, 1], ax=plt.figure().add_axes((0, 0, 1, 1)), grid_resolution=3)


class TestCurves:
    def test_out_of_bag(self):
        with raises(AttributeError, "RandomForestClassifier has no oob_scores_path_", "oob_score"):
            plotting.OOBCurveDisplay.from_estimator(FOREST)
        for wrong in ([], [[1.0]]):
            with raises(ValueError, "errors must be a column of at least one value, got the shape"):
                plotting.OOBCurveDisplay(wrong)

    def test_nothing_recorded(self):
        of = plotting.LearningCurveDisplay.from_estimator
        with raises(AttributeError, "RandomForestClassifier has no evals_result_", "eval_set"):
            of(FOREST)
        boosted = GradientBoostingRegressor(n_estimators=2).fit(X, Y)
        with raises(ValueError, "evals_result_ is empty", "eval_set", "early_stopping=True"):
            of(boosted)
        boosted.fit(X, Y, eval_set=(X, Y))
        with raises(ValueError, "metric must be one that was recorded, 'loss', got 'speed'"):
            of(boosted, metric="speed")

    def test_eval_sets(self):
        of = plotting.LearningCurveDisplay.from_estimator
        with raises(ValueError, "eval_set must be (X, y)", "got ndarray for 'evaluation'"):
            of(BOOST, X)
        with raises(ValueError, "eval_set must be", "got ndarray for 'new'"):
            of(BOOST, {"new": X})
        with raises(ValueError, "eval_set is empty"):
            of(BOOST, {})
        with raises(ValueError, "metric must be a function", "got 'accuracy'"):
            of(BOOST, (X, C), metric="accuracy")
        with raises(AttributeError, "RandomForestClassifier has no staged_predict", "boosting"):
            of(FOREST, (X, C))


class TestImportances:
    def test_parameters(self):
        of = plotting.FeatureImportancesDisplay.from_estimator
        with raises(ValueError, "kind must be 'auto' or 'gain'", "got 'weight'"):
            of(FOREST, kind="weight")
        with raises(ValueError, "feature_names has 2 names, but there are 3 features"):
            of(FOREST, feature_names=["a", "b"])
        for wrong in (0, 1.5, True):
            with raises(ValueError, "max_features must be an integer >= 1, got", repr(wrong)):
                of(FOREST, max_features=wrong)

    def test_models_without_importances(self):
        model = KNeighborsClassifier().fit(X, C)
        with raises(AttributeError, "KNeighborsClassifier has no", "permutation_importance"):
            plotting.FeatureImportancesDisplay.from_estimator(model)

    def test_values(self):
        of = plotting.FeatureImportancesDisplay.from_importances
        with raises(ValueError, "importances must hold finite numbers, got nan"):
            of([0.1, NAN])
        with raises(ValueError, "importances must hold numbers, got dtype"):
            of(["much", "little"])
        for wrong in (np.zeros((2, 2, 2)), []):
            with raises(ValueError, "importances must have the shape (n_features,) or"):
                of(wrong)
        with raises(ValueError, "result must have importances, got a dict of ['r2']"):
            of({"r2": [1.0]})


class TestDependence:
    of = staticmethod(plotting.PartialDependenceDisplay.from_estimator)

    def test_features(self):
        with raises(ValueError, "all features must be in [0, 2]", "features has 3"):
            self.of(NUMBERS, X, [3])
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = RandomForestRegressor(n_estimators=2).fit(frame, Y)
        with raises(ValueError, "features names 'q', the columns are 'a', 'b', 'c'"):
            self.of(model, frame, ["a", "q"])
        with raises(ValueError, "features has (0, 1, 2), but a panel shows one feature or a pair"):
            self.of(NUMBERS, X, [(0, 1, 2)])
        with raises(ValueError, "features names no feature"):
            self.of(NUMBERS, X, [])

    def test_target(self):
        model = RandomForestClassifier(n_estimators=2).fit(X, THREE)
        for wrong in (None, 7):
            with raises(ValueError, "target must be one of the classes 0, 1, 2, got", str(wrong)):
                self.of(model, X, [0], target=wrong)
        with raises(ValueError, "target must be", "or None", "got 0"):
            self.of(FOREST, X, [0], target=0)

    def test_parameters(self):
        for name in ("subsample", "n_cols"):
            with raises(ValueError, f"{name} must be an integer >= 1, got 0"):
                self.of(NUMBERS, X, [0], **{name: 0})
        with raises(ValueError, "grid_resolution must be an integer >= 2, got 1"):
            self.of(NUMBERS, X, [0], grid_resolution=1)
        with raises(ValueError, "grid_resolution must be an integer >= 2, got 0"):
            self.of(NUMBERS, X, [0], grid_resolution=0)
        with raises(ValueError, "kind must be", "got 'ice'"):
            self.of(NUMBERS, X, [0], kind="ice")
        with raises(ValueError, "random_state must be"):
            self.of(NUMBERS, X, [0], kind="both", random_state="seed")


class TestTrees:
    def test_index(self):
        with raises(ValueError, "index must be in 0 ... 2", "got 3"):
            plotting.TreeDisplay.from_estimator(FOREST, index=3)
        with raises(ValueError, "index must be an integer >= 0, got -1"):
            plotting.TreeDisplay.from_estimator(FOREST, index=-1)

    def test_models_without_trees(self):
        with raises(TypeError, "LogisticRegression has no trees of this package"):
            plotting.TreeDisplay.from_estimator(LogisticRegression().fit(X, C))


class TestDiversity:
    def test_measure(self):
        with raises(ValueError, "measure must be 'q_statistic' or", "got 'entropy'"):
            plotting.DiversityDisplay.from_estimator(FOREST, X, C, measure="entropy")

    @pytest.mark.parametrize("of", [plotting.DiversityDisplay, plotting.KappaErrorDisplay])
    def test_models(self, of):
        with raises(TypeError, "ensemble of classifiers, got a RandomForestRegressor"):
            of.from_estimator(NUMBERS, X, Y)
        with raises(TypeError, "LogisticRegression has no list estimators_"):
            of.from_estimator(LogisticRegression().fit(X, C), X, C)
        with pytest.raises(ValueError, match="y"):
            of.from_predictions(C[:5], np.stack([C, 1 - C], axis=1))

    def test_matrix(self):
        with raises(ValueError, "matrix must be square", "(2, 3)"):
            plotting.DiversityDisplay(np.zeros((2, 3)))
        with raises(ValueError, "model_names has 1 names, but there are 2 models"):
            plotting.DiversityDisplay(np.zeros((2, 2)), model_names=["a"])


class TestRegions:
    of = staticmethod(plotting.DecisionRegionsDisplay.from_estimator)

    def test_data(self):
        with raises(ValueError, "X has 3 features", "exactly 2", "PartialDependenceDisplay"):
            self.of(FOREST, X, C)
        two = RandomForestClassifier(n_estimators=2).fit(X[:, :2], C)
        with raises(ValueError, "y has 5 values, 60 are needed"):
            self.of(two, X[:, :2], C[:5])
        with raises(ValueError, "X's feature 1 has no finite value"):
            self.of(two, np.column_stack([X[:, 0], np.full(60, NAN)]))
        frame = pd.DataFrame({"a": X[:, 0], "t": np.tile(["red", "oak"], 30)})
        model = RandomForestClassifier(n_estimators=2, categorical_features=["t"]).fit(frame, C)
        with raises(ValueError, "X's feature 't' holds text, but both features must be numbers"):
            self.of(model, frame)

    def test_models(self):
        two = X[:, :2]
        with raises(TypeError, "classifier, a regressor or an outlier detector, got a KMeans"):
            self.of(KMeans(2, n_init=1).fit(two), two)
        many = RandomForestClassifier(n_estimators=2).fit(two, np.arange(60) % 8)
        with raises(ValueError, "estimator has 8 classes, at most 7 can be told apart"):
            self.of(many, two)
        with raises(AttributeError, "LinearSVC has no predict_proba", "'predict'"):
            self.of(LinearSVC().fit(two, C), two, response_method="predict_proba")
        with raises(ValueError, "response_method must be 'predict' or 'predict_proba', got 'p'"):
            self.of(many, two, response_method="p")
        with raises(ValueError, "grid_resolution must be an integer >= 2, got 1"):
            self.of(many, two, grid_resolution=1)


class TestSampleWeights:
    of = staticmethod(plotting.SampleWeightsDisplay.from_estimator)

    def test_models(self):
        for model in (FOREST, SklearnAdaBoost(n_estimators=2).fit(X, C)):
            with raises(TypeError, "AdaBoostClassifier or AdaBoostRegressor of this package",
                        type(model).__name__):  # fmt: skip
                self.of(model, X, C)

    def test_data(self):
        with raises(ValueError, "y has the classes [0, 1, 2], but the model was fitted to [0, 1]"):
            self.of(BOOST, X, THREE)
        with pytest.raises(ValueError, match="y"):
            self.of(BOOST, X, C[:5])
        with raises(ValueError, "X has 2 features", "3"):
            self.of(BOOST, X[:, :2], C)
        with raises(ValueError, "n_rows must be an integer >= 0, got -1"):
            self.of(BOOST, X, C, n_rows=-1)

    def test_weights(self):
        with raises(ValueError, "weights must have the shape (n_rounds, n_rows), got (3,)"):
            plotting.SampleWeightsDisplay(np.ones(3))
        for wrong in ([[1.0, -1.0]], [[0.0, 0.0]]):
            with raises(ValueError, "weights must not be negative, nor zero for all rows"):
                plotting.SampleWeightsDisplay(wrong)


class TestCalibration:
    def test_models(self):
        of = plotting.CalibrationDisplay.from_estimator
        with raises(AttributeError, "RandomForestRegressor has no predict_proba"):
            of(NUMBERS, X, C)
        model = RandomForestClassifier(n_estimators=2).fit(X, THREE)
        with raises(ValueError, "pos_label must be one of the classes [0, 1, 2]", "got None"):
            of(model, X, THREE)
        with raises(ValueError, "pos_label must be one of the classes [0, 1], got 5"):
            of(FOREST, X, C, pos_label=5)

    def test_predictions(self):
        of = plotting.CalibrationDisplay.from_predictions
        with raises(ValueError, "y_prob must be probabilities from 0 to 1, got -1 to 0.5"):
            of([0, 1], [-1.0, 0.5])
        with raises(ValueError, "y_prob must hold finite numbers, got nan"):
            of([0, 1], [NAN, 0.5])
        with raises(ValueError, "y_true has 3 values, 2 are needed"):
            of([0, 1, 1], [0.1, 0.5])
        with raises(ValueError, "y_true has 3 labels", "pos_label"):
            of([0, 1, 2], [0.1, 0.5, 0.5])
        with raises(ValueError, "y_true has NaN"):
            of([0, 1, NAN], [0.1, 0.5, 0.5])
        with raises(ValueError, "n_bins must be an integer >= 1, got 0"):
            of([0, 1], [0.1, 0.5], n_bins=0)
        with raises(ValueError, "strategy must be 'uniform' or 'quantile', got 'equal'"):
            of([0, 1], [0.1, 0.5], strategy="equal")
