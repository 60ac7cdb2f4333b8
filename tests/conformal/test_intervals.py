"""Prediction intervals: their coverage, their definition by hand, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.ensemble import RandomForestClassifier as OtherForest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor as OtherTree

from gpuens import (
    BaggingRegressor,
    ConformalRegressor,
    DecisionTreeRegressor,
    GradientBoostingRegressor,
    ObliqueRandomForestRegressor,
    QuantileForestRegressor,
    RandomForestRegressor,
    load,
    save,
)
from tests.support.lanes import few

BOOSTING = GradientBoostingRegressor(n_estimators=5, device="cpu")
FOREST = RandomForestRegressor(n_estimators=30, device="cpu", random_state=0)
MODELS = {
    "split": ConformalRegressor(BOOSTING, random_state=0),
    "cv+": ConformalRegressor(BOOSTING, method="cv+", random_state=0),
    "bag": ConformalRegressor(FOREST, method="bag"),
    "quantile": ConformalRegressor(BOOSTING, method="quantile", random_state=0),
}


def rows(n, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    return X, X[:, 0] + random.normal(size=n) * (0.3 + abs(X[:, 1]))


def covered(model, X, y, coverage):
    low, high = model.predict_interval(X, coverage).T
    return ((low <= y) & (y <= high)).mean()


class TestCoverage:
    """Over many training sets: the standard error of these means is below 0.004."""

    def mean(self, model, n, coverage=0.9, sets=200):
        shares = []
        for seed in range(sets):
            X, y = rows(n + 200, seed)
            shares.append(covered(model.fit(X[:n], y[:n]), X[n:], y[n:], coverage))
        return np.mean(shares)

    @pytest.mark.parametrize("coverage", few([0.5, 0.9], 1))
    def test_split(self, coverage):
        model = ConformalRegressor(LinearRegression(), random_state=0, calibration_size=99)
        assert abs(self.mean(model, 150, coverage) - coverage) < 0.01

    @pytest.mark.slow
    def test_folds(self):
        model = ConformalRegressor(LinearRegression(), method="cv+", random_state=0)
        assert abs(self.mean(model, 150, sets=80) - 0.9) < 0.01

    @pytest.mark.slow
    def test_bags(self):
        tree = DecisionTreeRegressor(min_samples_leaf=20, max_bins=50, device="cpu", n_jobs=1)
        bag = BaggingRegressor(tree, n_estimators=20, random_state=0, device="cpu", n_jobs=1)
        assert abs(self.mean(ConformalRegressor(bag, method="bag"), 400, sets=25) - 0.9) < 0.01

    @pytest.mark.parametrize(
        ("few", "many"),
        few([(ConformalRegressor(OtherTree(max_depth=4, random_state=0), method="cv+", cv=2,
                             random_state=0), {"cv": 20}),
         (ConformalRegressor(RandomForestRegressor(15, device="cpu", n_jobs=1, random_state=0),
                             method="bag"), {"estimator__n_estimators": 150})], 0),
        ids=["folds", "members"],
    )  # fmt: skip
    def test_models_that_differ_cover_more(self, few, many):
        """Intervals of models that agree are narrower, and closer to the coverage."""
        shares, widths = [], []
        for model in (few, clone(few).set_params(**many)):
            inside, width = [], []
            for seed in range(12):
                X, y = rows(300, seed + 100)
                low, high = model.fit(*rows(150, seed)).predict_interval(X, 0.9).T
                inside.append((low <= y) & (y <= high))
                width.append(high - low)
            shares.append(np.mean(inside))
            widths.append(np.mean(width))
        assert widths[1] < 0.95 * widths[0]
        assert 0.89 < shares[1] < shares[0] - 0.01

    def test_quantiles(self):
        boosting = GradientBoostingRegressor(n_estimators=5, device="cpu", n_jobs=1)
        model = ConformalRegressor(boosting, method="quantile", random_state=0)
        assert abs(self.mean(model, 396, sets=40) - 0.9) < 0.01


class TestDefinitions:
    def test_folds(self):
        """The ends of CV+ are order statistics of all predictions with their errors."""
        X, y = rows(57, 1)
        new = rows(23, 2)[0]
        model = ConformalRegressor(LinearRegression(), method="cv+", cv=KFold(4)).fit(X, y)
        low, high = np.empty((23, 57)), np.empty((23, 57))
        for train, held_out in KFold(4).split(X):
            of_fold = LinearRegression().fit(X[train], y[train])
            error = abs(y[held_out] - of_fold.predict(X[held_out]))
            low[:, held_out] = of_fold.predict(new)[:, None] - error
            high[:, held_out] = of_fold.predict(new)[:, None] + error
        for coverage in (0.1, 0.5, 0.9, 0.98):
            rank = int(np.ceil(58 * coverage))
            expected = np.sort(low)[:, 57 - rank], np.sort(high)[:, rank - 1]
            found = model.predict_interval(new, coverage)
            np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-12)

    @pytest.mark.parametrize(
        "bag",
        [FOREST, ObliqueRandomForestRegressor(20, feature_combinations=2, device="cpu"),
         BaggingRegressor(DecisionTreeRegressor(device="cpu"), 12, random_state=0,
                          max_features=0.5, device="cpu")],
        ids=["forest", "oblique forest", "bagging"],
    )  # fmt: skip
    def test_bags(self, bag):
        X, y = rows(120, 1)
        new = rows(9, 2)[0]
        model = ConformalRegressor(bag, method="bag").fit(X, y)
        bag = model.estimator_
        columns = getattr(bag, "estimators_features_", [[0, 1]] * len(bag.estimators_))
        pairs = list(zip(bag.estimators_, columns, strict=True))
        inside = [set(rows.tolist()) for rows in bag.estimators_samples_]
        low, high = [], []
        for i in range(120):
            outside = [(m, c) for (m, c), seen in zip(pairs, inside, strict=True) if i not in seen]
            own = np.mean([m.predict(X[i : i + 1][:, c]) for m, c in outside])
            centre = np.mean([m.predict(new[:, c]) for m, c in outside], axis=0)
            low.append(centre - abs(y[i] - own))
            high.append(centre + abs(y[i] - own))
        rank = int(np.ceil(121 * 0.8))
        expected = np.sort(low, axis=0)[120 - rank], np.sort(high, axis=0)[rank - 1]
        found = model.predict_interval(new, 0.8)
        np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-10)

    def test_quantiles_that_cross(self):
        """Predicted quantiles that contain far too much are narrowed to their middle at most."""
        X, y = rows(400, 1)
        model = MODELS["quantile"].fit(X, y)
        low, high = model.predict_interval(X, 0.01).T
        assert (low <= high).all()
        assert (model.predict(X) == model.estimator_.predict(X)[:, 1]).all()

    def test_a_forest_of_quantiles(self):
        X, y = rows(900, 1)
        forest = QuantileForestRegressor(30, min_samples_leaf=5, device="cpu", random_state=0)
        model = ConformalRegressor(forest, method="quantile", random_state=0).fit(X, y)
        assert covered(model, *rows(2000, 3), 0.9) > 0.85
        assert model.predict(X).shape == (900,)

    def test_the_number_of_errors(self):
        """The nine errors of nine rows give a coverage of 0.9, and no more."""
        X, y = rows(40, 1)
        model = ConformalRegressor(LinearRegression(), calibration_size=9, random_state=0)
        width = np.diff(model.fit(X, y).predict_interval(X, 0.9))
        np.testing.assert_allclose(width, 2 * model.scores_[0][-1])
        with pytest.raises(ValueError, match="coverage=0.95 takes the errors of at least 19 rows"):
            model.predict_interval(X, 0.95)


@pytest.mark.parametrize("method", MODELS)
class TestEstimator:
    def test_frames_weights_and_files(self, method, tmp_path):
        X, y = rows(300, 1)
        frame = pd.DataFrame(X, columns=["a", "b"])
        weight = np.arange(300) % 3 + 1.0
        model = MODELS[method].fit(frame, y, weight)
        assert model.feature_names_in_.tolist() == ["a", "b"] and model.n_features_in_ == 2
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_interval(frame), model.predict_interval(frame))
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        assert model.score(frame, y) == again.score(frame, y)

    def test_the_rows_held_out_follow_the_seed(self, method):
        X, y = rows(300, 1)
        first, second = (MODELS[method].fit(X, y).predict_interval(X) for _ in range(2))
        np.testing.assert_array_equal(first, second)


class TestBadInput:
    @pytest.mark.parametrize(
        ("params", "kind", "match"),
        [
            ({"method": "jackknife"}, ValueError, "method must be one of"),
            ({"method": "bag", "estimator": BOOSTING}, TypeError, "method='bag' needs a Random"),
            ({"method": "bag", "estimator": RandomForestRegressor(bootstrap=False)}, TypeError,
             "with bootstrap=True"),
            ({"method": "bag", "estimator": RandomForestRegressor(2, device="cpu")}, ValueError,
             "are in the samples of all 2 members"),
            ({"method": "quantile", "estimator": FOREST}, TypeError, "method='quantile' needs"),
            ({"method": "quantile", "quantiles": (0.6, 0.9)}, ValueError, "one below and one"),
            ({"method": "cv+", "cv": 1}, ValueError, "cv must be from 2 to the 60 rows"),
            ({"method": "cv+", "cv": [([0, 1], [2, 3])]}, ValueError, "exactly one fold"),
            ({"calibration_size": 60}, ValueError, "calibration_size=60 of 60 rows"),
            ({"estimator": OtherForest(2)}, TypeError, "estimator must be a regressor, got Random"),
            ({"estimator": IsolationForest()}, TypeError, "must be a regressor, got Isolation"),
        ],
    )  # fmt: skip
    def test_parameters(self, params, kind, match):
        X, y = rows(60, 1)
        with pytest.raises(kind, match=match):
            ConformalRegressor(**{"estimator": BOOSTING} | params).fit(X, y)

    @pytest.mark.parametrize("coverage", [0, 1, 1.5, "90 %", None, np.nan])
    def test_coverage(self, coverage):
        X, y = rows(60, 1)
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
            MODELS["split"].fit(X, y).predict_interval(X, coverage)

    def test_a_failed_fit_leaves_the_model(self):
        X, y = rows(60, 1)
        model = ConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
        expected = model.predict_interval(X)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X, np.where(y > 0, np.nan, y))
        np.testing.assert_array_equal(model.predict_interval(X), expected)
