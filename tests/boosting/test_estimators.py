"""Gradient boosting as its user sees it: accuracy, inputs, outputs, scikit-learn's tools."""

from __future__ import annotations

import copy
import functools
import pickle
import subprocess
import sys
import threading

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import datasets
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from threadpoolctl import threadpool_limits

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor

NAN = float("nan")
BOTH = (GradientBoostingRegressor, GradientBoostingClassifier)


@functools.cache
def table(n=300, n_features=4):
    """Features, a target that follows from them, and that target as two classes."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, n_features))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=n)
    return X, y, (y > 0.3).astype(np.int64)


@functools.cache
def fitted(cls, n_estimators=10):
    X, y, c = table()
    return cls(n_estimators=n_estimators).fit(X, c if cls is GradientBoostingClassifier else y)


def fingerprint(model):
    return model.forest_.fingerprint()


class TestAccuracy:
    """Beside scikit-learn's HistGradientBoosting with its settings: as good, up to chance."""

    SAME = {"l2_regularization": 0.0, "min_samples_leaf": 20, "n_estimators": 60}

    @pytest.fixture(autouse=True)
    def one_thread(self):
        """OpenMP's threads wait busily for each other, which takes minutes on a busy machine."""
        with threadpool_limits(1):
            yield

    @pytest.mark.parametrize("load, splits", [
        (datasets.load_breast_cancer, 4), (datasets.load_wine, 4),
        pytest.param(datasets.load_digits, 1, marks=pytest.mark.slow),
    ])  # fmt: skip
    def test_classification(self, load, splits):
        ours = GradientBoostingClassifier(**self.SAME)
        theirs = HistGradientBoostingClassifier(max_iter=60, early_stopping=False)
        losses, scores = np.empty((2, splits)), np.empty((2, splits))
        for seed in range(splits):
            X, Xt, y, yt = train_test_split(*load(return_X_y=True), random_state=seed)
            for k, model in enumerate((ours.fit(X, y), theirs.fit(X, y))):
                losses[k, seed] = log_loss(yt, model.predict_proba(Xt))
                scores[k, seed] = model.score(Xt, yt)
        assert losses[0].mean() < 1.2 * losses[1].mean()
        assert scores[0].mean() > scores[1].mean() - 0.02

    @pytest.mark.parametrize("make", [
        lambda: datasets.load_diabetes(return_X_y=True),
        lambda: datasets.make_friedman1(2000, random_state=0),
    ])  # fmt: skip
    def test_regression(self, make):
        X, Xt, y, yt = train_test_split(*make(), random_state=0)
        ours = GradientBoostingRegressor(**self.SAME).fit(X, y)
        theirs = HistGradientBoostingRegressor(max_iter=60, early_stopping=False).fit(X, y)
        assert ours.score(Xt, yt) > theirs.score(Xt, yt) - 0.03

    def test_rare_classes_do_not_make_training_diverge(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6000, 6))
        shares = np.array([0.5, 0.3, 0.15, 0.04, 0.007, 0.003])
        order = np.argsort(X[:, 0] + 0.7 * rng.normal(size=6000))
        y = np.empty(6000, int)
        y[order] = np.repeat(np.arange(6), (shares * 6000).astype(int))
        X, Xt, y, yt = train_test_split(X, y, random_state=0, stratify=y)
        model = GradientBoostingClassifier(l2_regularization=0.0, min_samples_leaf=1).fit(X, y)
        prior = log_loss(yt, np.tile(np.bincount(y) / len(y), (len(yt), 1)))
        assert log_loss(yt, model.predict_proba(Xt)) < prior

    def test_the_loss_falls_in_every_round(self):
        X, y, c = table()
        for cls, target in zip(BOTH, (y, c), strict=True):
            model = cls(n_estimators=30).fit(X, target, eval_set=(X, target))
            assert (np.diff(model.evals_result_["validation_0"]["loss"]) < 0).all()


class TestLabels:
    NAMES = ["no", "yes", "maybe"]

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("kind", [
        np.int8, np.uint64, np.float32, np.float64, "U", object, "category", "string", pl.Series,
    ])  # fmt: skip
    def test_any_type(self, kind, n_classes):
        X, y, _ = table()
        codes = np.digitize(y, [-0.5, 0.5][: n_classes - 1])
        text = np.array(self.NAMES)[codes]
        if kind in ("category", "string"):
            labels = pd.Series(text, dtype=kind)
        elif kind is pl.Series:
            labels = pl.Series(text)
        elif kind in ("U", object):
            labels = text.astype(kind)
        else:
            labels = (codes * 3).astype(kind)
        model = GradientBoostingClassifier(n_estimators=5).fit(X, labels)
        expected = np.unique(np.asarray(labels))
        assert model.classes_.tolist() == expected.tolist()
        prediction = model.predict(X)
        assert isinstance(prediction, np.ndarray) and prediction.dtype == model.classes_.dtype
        assert (prediction == np.asarray(labels)).mean() > 0.8
        assert model.score(X, labels) == (prediction == np.asarray(labels)).mean()

    def test_booleans(self):
        X, _, c = table()
        model = GradientBoostingClassifier(n_estimators=5).fit(X, c == 1)
        assert model.classes_.dtype == bool and model.predict(X).dtype == bool
        np.testing.assert_array_equal(
            model.predict_proba(X), fitted(GradientBoostingClassifier, 5).predict_proba(X)
        )

    def test_the_order_of_the_classes_is_that_of_the_labels(self):
        X, _, c = table()
        model = GradientBoostingClassifier(n_estimators=5).fit(X, np.array(["z", "a"])[c])
        proba = fitted(GradientBoostingClassifier, 5).predict_proba(X)
        np.testing.assert_allclose(model.predict_proba(X), proba[:, ::-1], rtol=1e-2)


class TestPredictions:
    @pytest.mark.parametrize("n_classes", [2, 3, 6])
    def test_classifier(self, n_classes):
        X, y, _ = table()
        labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
        model = GradientBoostingClassifier(n_estimators=4).fit(X, labels)
        raw, proba = model.decision_function(X), model.predict_proba(X)
        assert model.n_trees_per_iteration_ == (1 if n_classes == 2 else n_classes)
        assert raw.shape == ((300,) if n_classes == 2 else (300, n_classes))
        assert proba.shape == (300, n_classes) and (proba > 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        if n_classes == 2:
            np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-raw)))
        else:
            exponent = np.exp(raw)
            np.testing.assert_allclose(proba, exponent / exponent.sum(axis=1)[:, None])
        np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))

    def test_stages_end_at_the_prediction(self):
        X, _, _ = table()
        for cls in BOTH:
            model = fitted(cls)
            methods = ["predict", "predict_proba", "decision_function"]
            for method in methods[: 3 if cls is GradientBoostingClassifier else 1]:
                stages = list(getattr(model, f"staged_{method}")(X))
                assert len(stages) == 10
                np.testing.assert_array_equal(stages[-1], getattr(model, method)(X))
                smaller = fitted(cls, 3)
                np.testing.assert_array_equal(stages[2], getattr(smaller, method)(X))

    def test_a_stage_does_not_change_when_the_next_is_asked_for(self):
        X, _, _ = table()
        for method in ("staged_predict_proba", "staged_decision_function", "staged_predict"):
            stages = getattr(fitted(GradientBoostingClassifier), method)(X)
            first = next(stages)
            kept = first.copy()
            next(stages)
            np.testing.assert_array_equal(first, kept)

    def test_apply_gives_the_leaf_whose_value_is_added(self):
        X, y, _ = table()
        model = fitted(GradientBoostingRegressor)
        forest, leaves = model.forest_, model.apply(X)
        assert leaves.shape == (300, 10) and leaves.dtype == np.int32
        at = leaves + forest.offset[:-1]
        assert (forest.feature[at] == -1).all()
        total = np.full(300, forest.base[0])
        for t in range(10):
            total += forest.value[at[:, t], 0]
        np.testing.assert_array_equal(total, model.predict(X))

    def test_one_row_at_a_time(self):
        X, _, _ = table()
        model = fitted(GradientBoostingClassifier)
        rows = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(40)])
        np.testing.assert_array_equal(rows, model.predict_proba(X)[:40])


class TestMissingValues:
    def test_missing_says_something(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 2))
        X[rng.random(400) < 0.5, 0] = NAN
        y = np.isnan(X[:, 0]).astype(int)
        for labels in (y, 1 - y):
            model = GradientBoostingClassifier(n_estimators=3).fit(X, labels)
            assert model.score(X, labels) == 1.0

    def test_missing_values_go_where_they_fit(self):
        X = np.array([0.0, 1.0, 2.0, NAN] * 20)[:, None]
        for value in (0.0, 10.0):
            y = np.array([0.0, 0.0, 10.0, value] * 20)
            model = GradientBoostingRegressor(n_estimators=1, learning_rate=1.0)
            model.set_params(l2_regularization=0.0).fit(X, y)
            np.testing.assert_allclose(model.predict(X), y, atol=1e-6)

    def test_missing_only_at_prediction(self):
        X, y, _ = table()
        model = fitted(GradientBoostingRegressor)
        assert np.isfinite(model.predict(np.full((2, 4), NAN))).all()

    def test_columns_without_information(self):
        X, y, _ = table()
        useless = np.column_stack([np.full(300, NAN), np.full(300, 5.0), np.full(300, np.inf)])
        model = GradientBoostingRegressor(n_estimators=10).fit(np.hstack([useless, X]), y)
        forest, plain = model.forest_, fitted(GradientBoostingRegressor).forest_
        inner = forest.feature >= 0
        np.testing.assert_array_equal(forest.feature[inner] - 3, plain.feature[inner])
        np.testing.assert_array_equal(forest.value, plain.value)

    def test_nothing_but_columns_without_information(self):
        y = np.arange(40.0)
        for column in (NAN, 1.0, np.inf):
            X = np.full((40, 2), column)
            model = GradientBoostingRegressor(n_estimators=3).fit(X, y)
            np.testing.assert_allclose(model.predict(X), 19.5)


class TestNumbers:
    def test_infinities_are_ordered_values(self):
        X = np.array([-np.inf, -1.0, 1.0, np.inf] * 20)[:, None]
        y = np.array([0.0, 1.0, 2.0, 3.0] * 20)
        model = GradientBoostingRegressor(n_estimators=1, learning_rate=1, l2_regularization=0)
        np.testing.assert_allclose(model.fit(X, y).predict(X), y, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_neighbours_next_to_the_limits_are_told_apart(self, dtype):
        info = np.finfo(dtype)
        largest = np.array(info.max, dtype)
        values = [
            -largest, np.nextafter(-largest, dtype(0)), -info.smallest_subnormal, dtype(0),
            info.smallest_subnormal, info.tiny, dtype(1), np.nextafter(dtype(1), dtype(2)),
            np.nextafter(largest, dtype(0)), largest,
        ]  # fmt: skip
        X = np.array(values * 20, dtype)[:, None]
        y = np.arange(10.0)[np.tile(np.arange(10), 20)] % 2
        model = GradientBoostingClassifier(n_estimators=5, learning_rate=1.0).fit(X, y)
        assert X.dtype == dtype and model.score(X, y) == 1.0

    def test_float64_differences_below_float32(self):
        X = np.array([1.0, 1.0 + 1e-12] * 30)[:, None]
        y = np.array([0, 1] * 30)
        assert GradientBoostingClassifier(n_estimators=2).fit(X, y).score(X, y) == 1.0

    @pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e6, 1e30])
    def test_the_scale_of_the_target_does_not_matter(self, scale):
        X, y, _ = table()
        settings = {"n_estimators": 10, "min_sum_hessian": 0.0}
        model = GradientBoostingRegressor(**settings).fit(X, y * scale)
        plain = GradientBoostingRegressor(**settings).fit(X, y)
        assert r2_score(y, model.predict(X) / scale) == pytest.approx(plain.score(X, y), abs=0.01)

    def test_a_constant_target(self):
        X, _, _ = table()
        model = GradientBoostingRegressor(n_estimators=3).fit(X, np.full(300, 1 / 3))
        np.testing.assert_allclose(model.predict(X), 1 / 3, rtol=1e-12)

    def test_one_row(self):
        model = GradientBoostingRegressor(n_estimators=2).fit([[1.0, 2.0]], [3.0])
        assert model.predict([[0.0, 0.0]]).tolist() == [3.0]

    def test_small_limits_of_sampling(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=3, subsample=1e-9).fit(X, y)
        assert (model.forest_.n_samples == 1).all()


class TestWeights:
    SETTINGS = {"n_estimators": 20, "min_samples_leaf": 1, "max_leaf_nodes": 8}

    def test_rows_of_weight_zero_are_as_if_they_were_not_there(self):
        X, y, c = table()
        weight = np.r_[np.ones(200), np.zeros(100)]
        strange = np.r_[c[:200], np.where(c[200:] == 0, 1, 0)]
        model = GradientBoostingClassifier(**self.SETTINGS).fit(X, strange, weight)
        without = GradientBoostingClassifier(**self.SETTINGS).fit(X[:200], c[:200])
        np.testing.assert_allclose(
            model.predict_proba(X[:200]), without.predict_proba(X[:200]), atol=0.05
        )
        assert model.forest_.n_samples[0] == 200

    def test_a_weight_of_two_is_two_rows(self):
        X, y, _ = table()
        weight = np.tile([1.0, 2.0, 3.0], 100)
        twice = np.repeat(np.arange(300), weight.astype(int))
        weighted = GradientBoostingRegressor(**self.SETTINGS).fit(X, y, weight)
        repeated = GradientBoostingRegressor(**self.SETTINGS).fit(X[twice], y[twice])
        error = np.abs(weighted.predict(X) - repeated.predict(X)).mean()
        assert error < 0.05 * y.std()

    def test_equal_weights_are_no_weights(self):
        X, y, c = table()
        for cls, target in zip(BOTH, (y, c), strict=True):
            weighted = cls(n_estimators=10).fit(X, target, np.ones(300))
            assert fingerprint(weighted) == fingerprint(fitted(cls))

    @pytest.mark.parametrize("kind", [list, np.float32, pd.Series, pl.Series])
    def test_weights_of_any_type(self, kind):
        X, y, _ = table()
        weight = np.tile([1.0, 2.0], 150)
        expected = GradientBoostingRegressor(n_estimators=3).fit(X, y, weight)
        model = GradientBoostingRegressor(n_estimators=3).fit(X, y, kind(weight))
        assert fingerprint(model) == fingerprint(expected)

    def test_class_weights_are_sample_weights(self):
        X, y, c = table()
        labels = np.array(["a", "b"])[c]
        factors = {"a": 2.0, "b": 0.5}
        model = GradientBoostingClassifier(n_estimators=5, class_weight=factors).fit(X, labels)
        weight = np.array([factors[label] for label in labels])
        plain = GradientBoostingClassifier(n_estimators=5).fit(X, labels, weight)
        assert fingerprint(model) == fingerprint(plain)
        both = GradientBoostingClassifier(n_estimators=5, class_weight=factors)
        other = np.tile([1.0, 3.0], 150)
        plain.fit(X, labels, weight * other)
        assert fingerprint(both.fit(X, labels, other)) == fingerprint(plain)

    def test_balanced_classes_start_even(self):
        X, y, _ = table()
        rare = (y > np.quantile(y, 0.9)).astype(int)
        weight = np.random.default_rng(0).random(300)
        for w in (None, weight):
            model = GradientBoostingClassifier(n_estimators=5, class_weight="balanced")
            model.fit(X, rare, w)
            np.testing.assert_allclose(model.forest_.base, 0, atol=1e-12)
        assert model.predict_proba(X)[:, 1].mean() > 0.3

    def test_class_weights_of_an_evaluation_set_are_those_of_training(self):
        X, _, c = table()
        model = GradientBoostingClassifier(n_estimators=2, class_weight={0: 1.0, 1: 9.0})
        model.fit(X, c, eval_set=[(X, c), (X, 1 - c)])
        proba = model.predict_proba(X)
        for name, y in (("validation_0", c), ("validation_1", 1 - c)):
            expected = log_loss(y, proba, sample_weight=np.where(y == 1, 9.0, 1.0))
            assert model.evals_result_[name]["loss"][-1] == pytest.approx(expected)


class TestRandomness:
    SETTINGS = {"n_estimators": 5, "subsample": 0.5, "colsample_bynode": 0.5}

    def fit(self, random_state=None):
        X, y, _ = table()
        model = GradientBoostingRegressor(**self.SETTINGS, random_state=random_state)
        return fingerprint(model.fit(X, y))

    def test_none_is_a_fixed_seed(self):
        np.random.seed(0)  # noqa: NPY002
        first = self.fit()
        np.random.seed(1)  # noqa: NPY002
        assert self.fit() == first == self.fit(0)

    def test_integers(self):
        assert len({self.fit(seed) for seed in (0, 1, 2**32 - 1, np.int64(1))}) == 3

    def test_a_random_state_moves_on(self):
        state = np.random.RandomState(0)
        first, second = self.fit(state), self.fit(state)
        assert first == self.fit(np.random.RandomState(0)) != second

    def test_sampling_makes_a_difference(self):
        X, y, _ = table()
        plain = {"n_estimators": 5}
        samplings = [
            {"subsample": 0.5}, {"colsample_bytree": 0.5}, {"colsample_bylevel": 0.5},
            {"colsample_bynode": 0.5}, {},
        ]  # fmt: skip
        models = [GradientBoostingRegressor(**plain, **s).fit(X, y) for s in samplings]
        assert len({fingerprint(model) for model in models}) == len(samplings)
        assert all(model.score(X, y) > 0.4 for model in models)


class TestFrames:
    def test_names(self):
        X, y, c = table()
        names = ["a", "b", "c", "d"]
        for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, names)):
            model = GradientBoostingClassifier(n_estimators=10).fit(frame, c)
            assert model.feature_names_in_.tolist() == names and model.n_features_in_ == 4
            assert fingerprint(model) == fingerprint(fitted(GradientBoostingClassifier))
            proba = model.predict_proba(frame)
            assert type(proba) is np.ndarray
            np.testing.assert_array_equal(proba, model.predict_proba(pl.DataFrame(X, names)))

    def test_other_names_at_prediction(self):
        X, y, _ = table()
        frame = pd.DataFrame(X, columns=list("abcd"))
        model = GradientBoostingRegressor(n_estimators=2).fit(frame, y)
        for method in (model.predict, model.apply, lambda X: next(model.staged_predict(X))):
            with pytest.raises(ValueError, match="must be in the same order"):
                method(frame[list("badc")])
            with pytest.raises(ValueError, match="unseen at fit time:\n- z"):
                method(frame.rename(columns={"a": "z"}))
            with pytest.warns(UserWarning, match="does not have valid feature names"):
                method(X)

    def test_names_are_forgotten(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=2)
        model.fit(pd.DataFrame(X, columns=list("abcd")), y).fit(X, y)
        assert not hasattr(model, "feature_names_in_")

    def test_evaluation_set_has_the_names_too(self):
        X, y, _ = table()
        frame = pd.DataFrame(X, columns=list("abcd"))
        with pytest.raises(ValueError, match="must be in the same order"):
            GradientBoostingRegressor().fit(frame, y, eval_set=(frame[list("dcba")], y))


class TestTools:
    """What scikit-learn does with estimators."""

    def test_parameters(self):
        for cls in BOTH:
            model = cls(n_estimators=3, subsample=0.5, callbacks=[])
            parameters = model.get_params()
            assert clone(model).get_params() == parameters
            assert cls(**parameters).get_params() == parameters
            assert model.set_params(max_depth=2).max_depth == 2

    def test_representation(self):
        model = GradientBoostingClassifier(n_estimators=3)
        assert "n_estimators=3" in repr(model)
        assert "Not fitted" in estimator_html_repr(model)
        html = fitted(GradientBoostingClassifier)._repr_html_()
        assert "GradientBoostingClassifier" in html and "n_estimators" in html

    def test_search_and_cross_validation(self):
        X, y, c = table()
        pipeline = make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=5))
        grid = {"gradientboostingclassifier__max_leaf_nodes": [2, 8]}
        search = GridSearchCV(pipeline, grid, cv=3, scoring="roc_auc").fit(X, c)
        assert search.best_score_ > 0.85 and search.best_params_[next(iter(grid))] == 8
        scores = cross_val_score(GradientBoostingRegressor(n_estimators=30), X, y, cv=3)
        assert scores.min() > 0.6

    def test_worker_processes(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=5)
        serial = cross_val_score(model, X, y, cv=2)
        np.testing.assert_array_equal(cross_val_score(model, X, y, cv=2, n_jobs=2), serial)

    @pytest.mark.skipif(sys.platform != "linux", reason="fork is the way of Linux")
    def test_fork(self):
        program = """
import multiprocessing, numpy as np
from gpuens import GradientBoostingRegressor
from gpuens.kernels.growth.cpu import grow
from gpuens.kernels.runtime.cpu import team

team.MIN_WORK_PER_THREAD = grow.MIN_CELLS_PER_THREAD = 1
X = np.random.default_rng(0).normal(size=(500, 3))

def fit(_=None):
    model = GradientBoostingRegressor(n_estimators=5, n_jobs=2).fit(X, X[:, 0])
    return model.forest_.fingerprint()

before = fit()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert set(pool.map(fit, range(4))) == {before}
assert fit() == before
"""
        subprocess.run([sys.executable, "-c", program], check=True, timeout=600)

    def test_concurrent_fits_and_predictions(self):
        X, y, _ = table()
        model = fitted(GradientBoostingRegressor)
        expected = fingerprint(model), model.predict(X).tobytes()
        found = []

        def work(n_jobs):
            for _ in range(3):
                own = GradientBoostingRegressor(n_estimators=10, n_jobs=n_jobs).fit(X, y)
                found.append((fingerprint(own), model.predict(X).tobytes()))

        threads = [threading.Thread(target=work, args=(1 + i % 2,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 12

    def test_score(self):
        X, y, c = table()
        weight = np.tile([1.0, 2.0], 150)
        model = fitted(GradientBoostingRegressor)
        assert model.score(X, y, weight) == r2_score(y, model.predict(X), sample_weight=weight)
        classifier = fitted(GradientBoostingClassifier)
        right = classifier.predict(X) == c
        assert classifier.score(X, c, weight) == pytest.approx(np.average(right, weights=weight))


class TestPersistence:
    @pytest.mark.parametrize("cls", BOTH)
    @pytest.mark.parametrize("again", [
        lambda model: pickle.loads(pickle.dumps(model)), copy.copy, copy.deepcopy,
    ], ids=["pickle", "copy", "deepcopy"])  # fmt: skip
    def test_copies(self, cls, again):
        X, _, _ = table()
        model = fitted(cls)
        other = again(model)
        assert fingerprint(other) == fingerprint(model)
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert other.evals_result_ == model.evals_result_ and other.n_iter_ == model.n_iter_

    def test_joblib(self, tmp_path):
        X, _, _ = table()
        model = fitted(GradientBoostingClassifier)
        joblib.dump(model, tmp_path / "model")
        for mode in (None, "r"):
            other = joblib.load(tmp_path / "model", mmap_mode=mode)
            np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))

    def test_the_size_does_not_grow_with_use(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=3).fit(X, y)
        before = len(pickle.dumps(model))
        model.predict(X)
        assert len(pickle.dumps(model)) == before

    def test_a_fitted_forest_cannot_be_changed(self):
        with pytest.raises(ValueError, match="read-only"):
            fitted(GradientBoostingRegressor).forest_.value[0] = 1.0

    def test_inputs_are_not_changed(self):
        X, y, _ = table()
        X, y, weight = X.copy(), y.copy(), np.tile([1.0, 2.0], 150)
        kept = X.copy(), y.copy(), weight.copy()
        GradientBoostingRegressor(n_estimators=3, subsample=0.5).fit(X, y, weight).predict(X)
        for now, before in zip((X, y, weight), kept, strict=True):
            np.testing.assert_array_equal(now, before)

    def test_read_only_and_mapped_inputs(self, tmp_path):
        X, y, _ = table()
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        model = GradientBoostingRegressor(n_estimators=10).fit(mapped, y)
        assert fingerprint(model) == fingerprint(fitted(GradientBoostingRegressor))
        np.testing.assert_array_equal(model.predict(mapped), model.predict(X))
