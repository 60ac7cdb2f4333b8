"""What forward stagewise modelling takes, from whom, and what it says about the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes, load_wine
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuens import DecisionTreeRegressor, StagewiseClassifier, StagewiseRegressor
from gpuens.losses import ArrayLoss, CustomLoss
from tests.support.errors import raises
from tests.support.lanes import few

NAN, INF = float("nan"), float("inf")
X, C = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
XR, Y = load_diabetes(return_X_y=True)
TREE = DecisionTreeRegressor(max_depth=2)
BOTH = [(StagewiseClassifier, X, C), (StagewiseRegressor, XR, Y)]
both = pytest.mark.parametrize("cls, X, y", BOTH, ids=["classifier", "regressor"])
bases = pytest.mark.parametrize("base", [TREE, Ridge(), [TREE, Ridge()]], ids=str)


class TestInputs:
    def test_missing_values(self):
        holes = np.where(np.random.default_rng(0).random(XR.shape) < 0.1, NAN, XR)
        model = StagewiseRegressor(n_estimators=60).fit(holes, Y)
        assert model.score(holes, Y) > 0.5
        with raises(ValueError, "Input X contains NaN"):
            StagewiseRegressor(Ridge()).fit(holes, Y)
        only_trees = StagewiseRegressor([TREE, Ridge(1e9)], n_estimators=1).fit(XR, Y)
        with raises(ValueError, "Input X contains NaN"):
            only_trees.predict(holes)

    @pytest.mark.parametrize("base", few([
        KernelRidge(alpha=0.1), make_pipeline(StandardScaler(), Ridge()), KNeighborsRegressor(9),
        GaussianProcessRegressor(RBF(0.1), alpha=10.0, optimizer=None),
    ], 1, 2), ids=lambda base: type(base).__name__)  # fmt: skip
    def test_any_regressor(self, base):
        model = StagewiseRegressor(base, n_estimators=5).fit(XR, Y)
        assert (np.diff(model.train_score_) < 0).all()

    def test_pipelines_pass_weights_on(self):
        weight = np.random.default_rng(0).exponential(size=len(Y))
        piped = StagewiseRegressor(make_pipeline(StandardScaler(), Ridge()), n_estimators=3)
        piped.fit(XR, Y, weight)
        plain = StagewiseRegressor(Ridge(), n_estimators=3)
        scaled = StandardScaler().fit_transform(XR)
        np.testing.assert_allclose(piped.predict(XR), plain.fit(scaled, Y, weight).predict(scaled))

    @pytest.mark.slow
    def test_inside_of_a_search(self):
        grid = {"n_estimators": [2, 20], "estimator__max_depth": [1, 2]}
        search = GridSearchCV(StagewiseClassifier(TREE), grid, cv=3).fit(X, C)
        assert search.best_score_ > 0.85


COUNT = [0, -1, 1.5, "3", NAN, True, None]
PARAMETERS: dict[str, tuple[str, list[Any]]] = {
    "learning_rate": ("a finite number > 0", [0, -1.0, NAN, INF, "1", None, True]),
    "line_search": ("True or False", [1, None, "no"]),
    "selection": ("'best' or 'cyclic'", ["worst", None, 1]),
    "subsample": ("a number in (0, 1]", [0, 1.5, NAN, "1", None, True]),
    "early_stopping": ("True or False", [1, None, "auto"]),
    "validation_fraction": ("None, a number in (0, 1) or a number of rows", [0, 1.0, -2, "0.1"]),
    "n_iter_no_change": ("an integer >= 1", COUNT),
    "tol": ("a finite number >= 0", [-1, NAN, INF, "0", None, True]),
}


class TestBadInput:
    @both
    @pytest.mark.parametrize(
        "name, wants, value",
        [(name, wants, value) for name, (wants, vs) in PARAMETERS.items() for value in vs],
    )
    def test_parameters(self, cls, X, y, name, wants, value):
        with raises(ValueError, name if name != "random_state" else "", wants, repr(value)):
            cls(**{name: value}).fit(X, y)

    def test_schedules(self):
        with raises(
            ValueError, "learning_rate must have a rate for each", "n_estimators=3", "got 2"
        ):
            StagewiseRegressor(n_estimators=3, learning_rate=[0.1, 0.1]).fit(XR, Y)
        with raises(ValueError, "learning_rate(1) must be a finite number > 0, got -0.1"):
            StagewiseRegressor(Ridge(), learning_rate=lambda t: 0.1 - 0.2 * t).fit(XR, Y)

    @both
    @pytest.mark.parametrize("value", ["hinge", None, 1])
    def test_losses(self, cls, X, y, value):
        with raises(ValueError, "loss must be", repr(value)):
            cls(loss=value).fit(X, y)

    def test_losses_that_do_not_fit(self):
        with raises(ValueError, "only suitable for two classes, y has 3 classes"):
            StagewiseClassifier(loss="exponential").fit(X, C)
        with raises(ValueError, "'poisson' requires non-negative y", "y is -1.0 in row 4"):
            StagewiseRegressor(loss="poisson").fit(XR, np.where(np.arange(len(Y)) == 4, -1, Y))
        with raises(ValueError, "quantile must be a number in (0, 1)", "got 1.5"):
            StagewiseRegressor(loss="quantile", quantile=1.5).fit(XR, Y)
        with raises(ValueError, "has no value, by which rounds are compared", "ArrayLoss("):
            StagewiseRegressor(loss=lambda y, score: (score - y, 1 + 0 * y)).fit(XR, Y)

    def test_gradients_that_are_not_finite(self):
        nan = ArrayLoss(lambda y, score: (score + NAN, 1 + 0 * y), lambda y, score: y, start=0.0)
        with raises(ValueError, "The gradient of loss=", "is nan in row 0", "round 1"):
            StagewiseRegressor(Ridge(), loss=nan).fit(XR, Y)
        custom = CustomLoss(lambda y, f: f, lambda y, f: f, lambda y, f: -1.0, start=0.0)
        with raises(ValueError, "The hessian of loss=", "is -1.0 in row 0", "round 1"):
            StagewiseRegressor(Ridge(), loss=custom).fit(XR, Y)

    @both
    @pytest.mark.parametrize("value", [3, [3], [int], "log"])
    def test_callbacks(self, cls, X, y, value):
        with raises(TypeError, "callbacks must be"):
            cls(callbacks=value).fit(X, y)

    @both
    @pytest.mark.parametrize("base", [3, "tree", Ridge, StandardScaler(), [Ridge(), 3]], ids=str)
    def test_no_estimator(self, cls, X, y, base):
        with raises(TypeError, "estimator must be None, a list of regressors", "fit, predict"):
            cls(base).fit(X, y)

    @both
    def test_the_wrong_kind_of_estimator(self, cls, X, y):
        with raises(TypeError, "must be a regressor", "GaussianNB()", "negative gradients"):
            cls(GaussianNB()).fit(X, y)
        with raises(ValueError, "estimator is an empty list"):
            cls([]).fit(X, y)

    @pytest.mark.parametrize("base", [
        KNeighborsRegressor(), [Ridge(), KNeighborsRegressor()],
        make_pipeline(StandardScaler(), KNeighborsRegressor()),
    ], ids=str)  # fmt: skip
    def test_weights_for_learners_that_take_none(self, base):
        with raises(ValueError, "sample_weight was given", "KNeighborsRegressor()", "takes none"):
            StagewiseRegressor(base).fit(XR, Y, np.ones(len(Y)))

    @both
    def test_infinite_values(self, cls, X, y):
        with raises(ValueError, "Input X contains infinity"):
            cls(Ridge()).fit(np.where(np.arange(X.shape[1]) == 1, INF, X), y)

    @both
    def test_columns_of_objects_in_rows_without_weight(self, cls, X, y):
        table = X.astype(object)
        table[1, 0] = "a"
        weight = np.zeros(len(y))
        weight[[0, -1]] = 1.0
        with raises(ValueError, "X has dtype object and holds values that are not numbers"):
            cls(n_estimators=2).fit(table, y, weight)
        table = np.zeros(X.shape, np.int64)
        table[1, 0] = 2**62 + 1
        with raises(ValueError, "X holds integers that float64 does not hold"):
            cls(n_estimators=2).fit(table, y, weight)

    @both
    def test_rows_to_hold_out(self, cls, X, y):
        wants = f"validation_fraction={len(X)} of {len(X)} rows cannot be held out"
        with raises(ValueError, wants):
            cls(early_stopping=True, validation_fraction=len(X)).fit(X, y)

    def test_warm_starts(self):
        model = StagewiseClassifier(TREE, n_estimators=3, warm_start=True).fit(X, C)
        with raises(ValueError, "n_estimators=2 must be larger or equal to the 3 rounds"):
            model.set_params(n_estimators=2).fit(X, C)
        with raises(ValueError, "goes on from a model of the classes [0, 1, 2]", "holds [0, 1]"):
            model.set_params(n_estimators=4).fit(X, C // 2)
        several = StagewiseRegressor(TREE, n_estimators=1, warm_start=True).fit(XR, Y)
        with raises(ValueError, "has 1 base learners a round", "ask for 2", "warm_start=False"):
            several.set_params(loss="quantile", quantile=[0.1, 0.9]).fit(XR, Y)

    @pytest.mark.parametrize("value, part", [
        (lambda n: np.full(n, NAN), "predicts NaN or infinity"),
        (lambda n: np.ones(n - 1), "must predict one number for each of the 442 rows"),
        (lambda n: np.ones((n, 2)), "got an array of shape (442, 2)"),
    ])  # fmt: skip
    def test_predictions_that_are_no_numbers(self, value, part):
        class Broken(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                return self

            def predict(self, X):
                return value(len(X))

        with raises(ValueError, "The base learner Broken()", part):
            StagewiseRegressor(Broken()).fit(XR, Y)
