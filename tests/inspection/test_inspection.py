"""Importances and interaction strength, each computed again by hand."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.ensemble import RandomForestRegressor as SklearnForest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, get_scorer, log_loss, r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gpuens import (
    BaggingRegressor,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.devices.placement import CPU, on_host
from gpuens.inspection import columns as inspection_columns
from gpuens.inspection import (
    drop_column_importance,
    feature_importances,
    h_statistic,
    partial_dependence,
    permutation_importance,
)
from gpuens.inspection.permutation import random_order
from tests.support import strict_cupy

X, Y = make_friedman1(400, n_features=6, noise=0.5, random_state=0)
XI, CI = load_iris(return_X_y=True)
TRAIN, TEST = slice(0, 250), slice(250, 400)


class TestFeatureImportances:
    @pytest.mark.parametrize("model", [
        DecisionTreeRegressor(max_depth=5), RandomForestRegressor(n_estimators=4),
        GradientBoostingRegressor(n_estimators=6),
        BaggingRegressor(DecisionTreeRegressor(max_depth=4), n_estimators=3),
    ], ids=lambda m: type(m).__name__)  # fmt: skip
    def test_node_by_node(self, model):
        model.fit(X, Y)
        members = model if isinstance(model, BaggingRegressor) else [model]
        gain, cover, number = np.zeros((3, 6))
        for forest in (member.forest_ for member in members):
            for t in range(forest.n_trees):
                for node in range(forest.offset[t], forest.offset[t + 1]):
                    f = forest.feature[node]
                    if f >= 0:
                        gain[f] += forest.gain[node]
                        cover[f] += forest.cover[node]
                        number[f] += 1
        for kind, expected in (("gain", gain), ("cover", cover), ("frequency", number)):
            raw = feature_importances(model, kind, normalize=False)
            np.testing.assert_allclose(raw, expected, rtol=1e-6)
            percent = feature_importances(model, kind)
            np.testing.assert_allclose(percent, 100 * expected / expected.max(), rtol=1e-6)
            assert percent.max() == 100

    def test_of_one_tree_as_its_own_attribute(self):
        tree = DecisionTreeRegressor(max_depth=5).fit(X, Y)
        gain = feature_importances(tree, normalize=False)
        np.testing.assert_allclose(gain / gain.sum(), tree.feature_importances_)
        np.testing.assert_array_equal(feature_importances(tree.forest_, normalize=False), gain)

    def test_without_a_split(self):
        stump = DecisionTreeRegressor().fit(X, np.ones(len(X)))
        for kind in ("gain", "cover", "frequency"):
            np.testing.assert_array_equal(feature_importances(stump, kind), np.zeros(6))

    def test_isolation_forests_have_splits_too(self):
        forest = IsolationForest(n_estimators=5).fit(X)
        frequency = feature_importances(forest, "frequency", normalize=False)
        assert frequency.sum() == (forest.forest_.feature >= 0).sum()


def shuffled(table: np.ndarray, feature: int, order: Any) -> np.ndarray:
    table = table.copy()
    table[:, feature] = table[order, feature]
    return table


class TestPermutationImportance:
    def test_by_hand(self):
        """The orders are found from what the model sees."""
        seen = []

        class Spy(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                self.n_features_in_ = X.shape[1]
                return self

            def predict(self, X):
                seen.append(X.copy())
                return X[:, 0] + 2 * X[:, 1]

        table, y = np.arange(60.0).reshape(20, 3), np.arange(20.0)
        found = permutation_importance(Spy().fit(table, y), table, y, n_repeats=4)
        assert len(seen) == 1 + 3 * 4
        np.testing.assert_array_equal(seen[0], table)
        base = r2_score(y, table[:, 0] + 2 * table[:, 1])
        orders = set()
        for n, other in enumerate(seen[1:]):
            feature, repeat = divmod(n, 4)
            rest = [f for f in range(3) if f != feature]
            np.testing.assert_array_equal(other[:, rest], table[:, rest])
            order = ((other[:, feature] - feature) / 3).astype(int)
            assert sorted(order) == list(range(20))
            orders.add(tuple(order))
            score = r2_score(y, other[:, 0] + 2 * other[:, 1])
            assert found.importances[feature, repeat] == pytest.approx(base - score, abs=1e-12)
        assert len(orders) == 12
        np.testing.assert_array_equal(found.importances_mean, found.importances.mean(axis=1))
        np.testing.assert_array_equal(found.importances_std, found.importances.std(axis=1))
        np.testing.assert_array_equal(found.importances[2], 0)

    @pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error", get_scorer("r2"), [
        "r2", "neg_max_error"]], ids=str)  # fmt: skip
    @pytest.mark.parametrize("weighted", [False, True])
    def test_ours_as_others(self, scoring, weighted):
        """Tables that are predicted together give what each gives alone."""
        model = RandomForestRegressor(n_estimators=5).fit(X[TRAIN], Y[TRAIN])

        class Wrapped(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                return self

            def predict(self, X):
                return model.predict(X)

            def __sklearn_is_fitted__(self):
                return True

        weight = np.random.default_rng(0).random(150) if weighted else None
        if weighted and isinstance(scoring, list):
            scoring = scoring[:1]
        settings = {"scoring": scoring, "sample_weight": weight, "random_state": 7}
        ours = permutation_importance(model, X[TEST], Y[TEST], **settings)
        other = permutation_importance(Wrapped(), X[TEST], Y[TEST], **settings)
        pairs = [(ours, other)]
        if isinstance(scoring, list):
            assert list(ours) == list(other) == scoring
            pairs = [(ours[name], other[name]) for name in scoring]
        for a, b in pairs:
            np.testing.assert_allclose(a.importances, b.importances, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("scoring", [None, "neg_log_loss", "roc_auc_ovr", "accuracy"])
    def test_classes(self, scoring):
        model = RandomForestClassifier(n_estimators=5, max_depth=3).fit(XI[::2], CI[::2])
        table, y = XI[1::2], CI[1::2]
        found = permutation_importance(model, table, y, scoring=scoring, n_repeats=2)
        assert found.importances.shape == (4, 2) and found.importances_mean[3] > 0
        if scoring in (None, "accuracy"):
            base = accuracy_score(y, model.predict(table))
        elif scoring == "neg_log_loss":
            base = -log_loss(y, model.predict_proba(table))
        else:
            return
        scorer = get_scorer("accuracy" if scoring is None else scoring)
        assert scorer(model, table, y) == pytest.approx(base)
        lowest = min(scorer(model, shuffled(table, 3, o), y) for o in permutations_of(len(y), 200))
        assert found.importances[3].max() < base - lowest + 0.1

    def test_copies_predicted_together_change_nothing(self, monkeypatch):
        model = GradientBoostingClassifier(n_estimators=5).fit(XI, CI)
        together = permutation_importance(model, XI, CI, scoring="neg_log_loss")
        monkeypatch.setattr(inspection_columns.ArrayColumns, "COPY_BYTES", 0)
        alone = permutation_importance(model, XI, CI, scoring="neg_log_loss")
        np.testing.assert_array_equal(together.importances, alone.importances)

    def test_expectation_of_a_linear_model(self):
        """Shuffling adds twice the variance of the feature times the coefficient squared."""
        rng = np.random.default_rng(0)
        table = rng.normal(size=(5000, 3))
        y = table @ [1.0, -2.0, 0.0]
        model = LinearRegression().fit(table, y)
        found = permutation_importance(model, table, y, scoring="neg_mean_squared_error")
        np.testing.assert_allclose(found.importances_mean, [2, 8, 0], rtol=0.1, atol=1e-9)

    def test_seeds(self):
        model = LinearRegression().fit(X, Y)

        def of(seed):
            return permutation_importance(model, X, Y, random_state=seed).importances

        np.testing.assert_array_equal(of(None), of(None))
        np.testing.assert_array_equal(of(None), of(0))
        assert not np.array_equal(of(0), of(1))

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_frames(self, frame):
        rng = np.random.default_rng(0)
        data = {"x": rng.normal(size=90), "t": rng.choice(["a", "b", "c"], 90)}
        y = data["x"] + (data["t"] == "b")
        table = frame(data)
        if frame is pd.DataFrame:
            table.index = rng.permutation(90)
        ours = DecisionTreeRegressor(max_depth=4, categorical_features=["t"]).fit(table, y)
        found = permutation_importance(ours, table, y, n_repeats=3)
        codes = np.stack([data["x"], np.unique(data["t"], return_inverse=True)[1]], axis=1)
        again = DecisionTreeRegressor(max_depth=4, categorical_features=[1]).fit(codes, y)
        expected = permutation_importance(again, codes, y, n_repeats=3)
        np.testing.assert_allclose(found.importances, expected.importances)
        assert isinstance(found.importances, np.ndarray)

    def test_frames_of_other_models(self):
        rng = np.random.default_rng(0)
        data = pd.DataFrame({"t": rng.choice(["a", "b"], 60), "u": rng.choice(["c", "d"], 60)})
        y = (data["t"] == "b") * 2.0
        model = make_pipeline(OneHotEncoder(), LinearRegression()).fit(data, y)
        found = permutation_importance(model, data, y)
        assert found.importances_mean[0] > 1
        np.testing.assert_allclose(found.importances[1], 0, atol=1e-12)
        assert data.columns.tolist() == ["t", "u"]

    def test_some_of_the_rows(self):
        model = LinearRegression().fit(X[TRAIN], Y[TRAIN])
        whole = permutation_importance(model, X, Y)
        for all_rows in (1.0, 400):
            same = permutation_importance(model, X, Y, max_samples=all_rows)
            np.testing.assert_array_equal(same.importances, whole.importances)
        for some in (0.5, 200):
            part = permutation_importance(model, X, Y, max_samples=some)
            assert part.importances.shape == (6, 5)
            np.testing.assert_allclose(part.importances_mean, whole.importances_mean, atol=0.15)
        # Rows without an effect of the feature have none, whichever are drawn.
        model.coef_[2] = 0
        np.testing.assert_array_equal(
            permutation_importance(model, X, Y, max_samples=50).importances[2], 0
        )

    def test_no_target(self):
        def mean(estimator, X, y=None):
            return float(estimator.score_samples(X).mean())

        forest = IsolationForest(n_estimators=10).fit(X)
        found = permutation_importance(forest, X, None, scoring=mean, n_repeats=2)
        assert found.importances.shape == (6, 2) and np.isfinite(found.importances).all()

    def test_jobs(self):
        model = SklearnForest(5, random_state=0).fit(X, Y)
        one, two = (
            permutation_importance(model, X, Y, n_jobs=n, n_repeats=2).importances for n in (1, 2)
        )
        np.testing.assert_array_equal(one, two)

    def test_gpu(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)
        table, y = strict_cupy.on_gpu(cupy, X, 1), strict_cupy.on_gpu(cupy, Y, 1)
        found = permutation_importance(OnGPU().fit(X, Y), table, y)
        assert isinstance(found.importances, cupy.ndarray) and found.importances.device.id == 1
        monkeypatch.undo()
        monkeypatch.setattr(OnGPU, "check", False)
        expected = permutation_importance(OnGPU().fit(X, Y), X, Y)
        np.testing.assert_allclose(found.importances.get(), expected.importances)


class OnGPU(RegressorMixin, BaseEstimator):
    """A regressor of a package whose estimators take arrays on a GPU, and give them back."""

    check = True

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        assert not self.check or X.device.id == 1
        return 3 * X[:, 0] + X[:, 1]

    def score(self, X, y):
        return r2_score(on_host(y), on_host(self.predict(X)))


OnGPU.__module__ = "cuml.made_up"


def permutations_of(n: int, number: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.permutation(n) for _ in range(number)]


def test_random_orders():
    orders = np.array([random_order(5, key, CPU) for key in range(4000)])
    assert (np.sort(orders, axis=1) == np.arange(5)).all()
    for place in range(5):
        counts = np.bincount(orders[:, place], minlength=5)
        assert abs(counts - 800).max() < 5 * np.sqrt(800 * 0.8)


class TestDropColumnImportance:
    @pytest.mark.parametrize("model, table, y", [
        (DecisionTreeRegressor(max_depth=4), X, Y), (LinearRegression(), X, Y),
        (RandomForestClassifier(n_estimators=5), XI, CI),
        (make_pipeline(StandardScaler(), GaussianNB()), XI, CI),
    ], ids=lambda v: type(v).__name__)  # fmt: skip
    def test_by_hand(self, model, table, y):
        found = drop_column_importance(model, table, y, cv=3)
        folds = StratifiedKFold(3) if table is XI else KFold(3)
        expected = np.zeros((table.shape[1], 3))
        for k, (train, test) in enumerate(folds.split(table, y)):
            whole = clone(model).fit(table[train], y[train]).score(table[test], y[test])
            for f in range(table.shape[1]):
                rest = np.delete(table, f, axis=1)
                part = clone(model).fit(rest[train], y[train]).score(rest[test], y[test])
                expected[f, k] = whole - part
        np.testing.assert_allclose(found.importances, expected, atol=1e-12)
        np.testing.assert_allclose(found.importances_mean, expected.mean(axis=1), atol=1e-12)
        np.testing.assert_allclose(found.importances_std, expected.std(axis=1), atol=1e-12)

    def test_validation_rows_weights_and_metrics(self):
        model = DecisionTreeRegressor(max_depth=4)
        weight = np.random.default_rng(0).random(250)
        found = drop_column_importance(
            model, X[TRAIN], Y[TRAIN], X_val=X[TEST], y_val=Y[TEST], sample_weight=weight,
            scoring=["r2", "neg_mean_absolute_error"],
        )  # fmt: skip
        assert list(found) == ["r2", "neg_mean_absolute_error"]
        for name, bunch in found.items():
            assert bunch.importances.shape == (6, 1)
            scorer = get_scorer(name)
            whole = scorer(clone(model).fit(X[TRAIN], Y[TRAIN], weight), X[TEST], Y[TEST])
            rest = np.delete(X, 3, axis=1)
            part = scorer(clone(model).fit(rest[TRAIN], Y[TRAIN], weight), rest[TEST], Y[TEST])
            assert bunch.importances[3, 0] == pytest.approx(whole - part, abs=1e-12)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_parameters_follow_the_columns(self, frame):
        rng = np.random.default_rng(0)
        codes = np.stack([rng.normal(size=120), rng.integers(0, 4, 120), rng.normal(size=120)], 1)
        y = codes[:, 0] + (codes[:, 1] == 2) - codes[:, 2]
        table = frame({name: codes[:, f] for f, name in enumerate("abc")})
        cases = [
            (table, {"categorical_features": ["b"]}),
            (codes, {"categorical_features": [1]}),
            (codes, {"categorical_features": [False, True, False]}),
            (codes, {"categorical_features": np.array([1]), "monotonic_cst": [1, 0, -1]}),
        ]
        found = []
        for data, settings in cases:
            tree = DecisionTreeRegressor(max_depth=5, **settings)
            found.append(drop_column_importance(tree, data, y, cv=3).importances)
            assert tree.get_params()["categorical_features"] is settings["categorical_features"]
        for other in found[1:3]:
            np.testing.assert_array_equal(other, found[0])
        free = drop_column_importance(
            DecisionTreeRegressor(max_depth=5, monotonic_cst=[1, -1]), codes[:, [0, 2]], y, cv=3
        )
        assert free.importances.shape == (2, 3)


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


class TestHStatistic:
    @pytest.mark.parametrize("method", ["recursion", "brute"])
    @pytest.mark.parametrize("cls", [RandomForestRegressor, GradientBoostingRegressor])
    def test_by_hand(self, cls, method):
        model = cls(n_estimators=5, max_depth=4).fit(X, Y)
        table = X[:30]
        found = h_statistic(model, table, [0, 1, 3], method=method)
        assert found.pairs == [(0, 1), (0, 3), (1, 3)]
        assert found.h.shape == found.h_squared.shape == found.joint_variance.shape == (3, 1)

        def effect(features, row):
            return partial_dependence(
                model, table, list(features), method=method,
                custom_values={f: [table[row, f]] for f in features},
            ).average.item()  # fmt: skip

        for n, (j, k) in enumerate(found.pairs):
            own_j, own_k, both = (
                centred(np.array([effect(fs, row) for row in range(30)]))
                for fs in ((j,), (k,), (j, k))
            )
            joint = np.mean(both**2)
            squared = np.mean((both - own_j - own_k) ** 2) / joint
            assert found.joint_variance[n, 0] == pytest.approx(joint, rel=1e-9)
            assert found.h_squared[n, 0] == pytest.approx(squared, rel=1e-8)
            assert found.h[n, 0] == pytest.approx(squared**0.5, rel=1e-8)

    def test_known_interactions(self):
        """A linear model has none; a product of centred features is nothing else."""

        class Product(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                return self

            def predict(self, X):
                return X[:, 0] * X[:, 1]

            def __sklearn_is_fitted__(self):
                return True

        rng = np.random.default_rng(0)
        half = rng.normal(size=(50, 3))
        table = np.concatenate([half, -half])  # of mean zero
        linear = LinearRegression().fit(table, table @ [1.0, 2.0, 3.0])
        np.testing.assert_allclose(h_statistic(linear, table).h, 0, atol=1e-7)
        found = h_statistic(Product(), table)
        np.testing.assert_allclose(found.h[:, 0], [1, 0, 0], atol=1e-7)
        np.testing.assert_array_equal(found.h[2], 0)

    def test_no_effect_at_all(self):
        model = DecisionTreeRegressor().fit(X, np.full(len(X), 1e6))
        found = h_statistic(model, X)
        np.testing.assert_array_equal(found.h, 0)
        np.testing.assert_allclose(found.joint_variance, 0, atol=1e-12)

    def test_several_outputs(self):
        model = GradientBoostingClassifier(n_estimators=3).fit(XI, CI)
        found = h_statistic(model, XI, max_samples=40)
        assert found.h.shape == (6, 3)
        assert found.pairs == list(combinations(range(4), 2))

    def test_rows(self):
        model = GradientBoostingRegressor(n_estimators=5).fit(X, Y)
        some, again, other = (
            h_statistic(model, X, [0, 1], max_samples=50, random_state=s).h for s in (0, None, 1)
        )
        np.testing.assert_array_equal(some, again)
        assert not np.array_equal(some, other)
        every = h_statistic(model, X, [0, 1], max_samples=400).h
        np.testing.assert_array_equal(every, h_statistic(model, X, [0, 1], max_samples=999).h)

    def test_models_of_scikit_learn(self):
        model = SklearnForest(5, max_depth=4, random_state=0).fit(X, Y)
        for method in ("recursion", "brute"):
            found = h_statistic(model, X, [0, 1], method=method, max_samples=25)
            assert 0 < found.h[0, 0] < 1
        auto = h_statistic(model, X, [0, 1], max_samples=25).h
        recursion = h_statistic(model, X, [0, 1], max_samples=25, method="recursion").h
        np.testing.assert_array_equal(auto, recursion)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_frames_with_categories(self, frame):
        rng = np.random.default_rng(0)
        names = rng.choice(["a", "b", "c"], 150)
        x = rng.normal(size=150)
        y = x * (names == "b")
        table = frame({"x": x, "t": names, "z": rng.normal(size=150)})
        model = DecisionTreeRegressor(categorical_features=["t"], max_depth=6).fit(table, y)
        found = h_statistic(model, table, ["x", "t"])
        codes = np.stack([x, np.unique(names, return_inverse=True)[1], table_column(table)], 1)
        again = DecisionTreeRegressor(categorical_features=[1], max_depth=6).fit(codes, y)
        expected = h_statistic(again, codes, [0, 1])
        np.testing.assert_allclose(found.h, expected.h, rtol=1e-9)
        brute = h_statistic(model, table, ["x", "t"], method="brute", max_samples=20)
        expected = h_statistic(again, codes, [0, 1], method="brute", max_samples=20)
        np.testing.assert_allclose(brute.h, expected.h, rtol=1e-9)


def table_column(table: Any) -> np.ndarray:
    return np.asarray(table["z"])
