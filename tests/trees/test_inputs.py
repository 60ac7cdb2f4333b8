"""What trees take and give: values of any size and type, labels, containers, copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import cycle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_html_repr

from gpuens import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tests.support import strict_cupy

NAN, INF = float("nan"), float("inf")
TREES = (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
FORESTS = (
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
)
trees = pytest.mark.parametrize("cls", TREES)
all_kinds = pytest.mark.parametrize("cls", TREES + FORESTS)


def small(cls: type, **settings: Any) -> Any:
    return cls(**({"n_estimators": 3} if cls in FORESTS else {}), **settings)


def data_for(cls: type) -> tuple[np.ndarray, np.ndarray]:
    return (load_breast_cancer if is_classifier(cls()) else load_diabetes)(return_X_y=True)


def fingerprint(model: Any) -> str:
    return model.forest_.fingerprint()


class TestValues:
    @pytest.mark.parametrize("n", [300, 70_000])
    def test_every_value_can_be_told_from_its_neighbours(self, n):
        rng = np.random.default_rng(n)
        x = rng.permutation(n).astype(np.float32)
        y = rng.integers(0, 2, n)
        model = DecisionTreeClassifier().fit(x[:, None], y)
        assert model.score(x[:, None], y) == 1.0
        changes = np.flatnonzero(np.diff(y[np.argsort(x)]))
        cuts = model.tree_.threshold[model.tree_.feature == 0]
        np.testing.assert_array_equal(np.sort(cuts), changes + 0.5)

    @pytest.mark.parametrize("distance", [1e-9, 2.0**-52])
    def test_values_that_float32_cannot_tell_apart(self, distance):
        x = (1.0 + distance * np.arange(200))[:, None]
        y = np.random.default_rng(0).normal(size=200)
        for cls in (DecisionTreeRegressor, ExtraTreeRegressor):
            np.testing.assert_allclose(cls().fit(x, y).predict(x), y, 1e-12)

    def test_thresholds_lie_half_way(self):
        x = np.array([-3.0, 0.0, 1.0, 10.0])[:, None]
        model = DecisionTreeRegressor().fit(x, [0.0, 10.0, 20.0, 90.0])
        assert sorted(model.tree_.threshold[model.tree_.feature == 0]) == [-1.5, 0.5, 5.5]

    def test_between_two_neighbours_the_lower_is_the_threshold(self):
        low, high = 1.0, np.nextafter(1.0, 2.0)
        model = DecisionTreeClassifier().fit([[low], [high]], [0, 1])
        assert model.tree_.threshold[0] == low
        assert model.predict([[low], [high]]).tolist() == [0, 1]

    @pytest.mark.parametrize("max_bins", [None, 10])
    @trees
    def test_infinite_and_huge_values(self, cls, max_bins):
        large = np.finfo(np.float64).max
        x = np.array([-INF, -large, -1.0, 0.0, 5e-324, 1.0, large, INF])
        y = np.arange(8)
        model = cls(max_bins=max_bins).fit(x[:, None], y)
        np.testing.assert_allclose(model.predict(x[:, None]), y, atol=1e-12)
        np.testing.assert_allclose(model.predict([[-2.0], [0.9]])[1], 5, atol=2.0)

    @all_kinds
    def test_zeros_of_both_signs_are_one_value(self, cls):
        x = np.array([0.0, -0.0] * 20)[:, None]
        model = small(cls).fit(x, np.arange(40) % 2)
        assert model.forest_.n_leaves.max() == 1

    def test_few_bins_cut_where_the_rows_are(self):
        rng = np.random.default_rng(0)
        x = rng.exponential(size=2000)
        view = DecisionTreeRegressor(max_bins=4).fit(x[:, None], x).tree_
        np.testing.assert_allclose(view.n_node_samples[view.feature < 0], 500, atol=5)
        few = np.minimum(np.round(x), 3)  # one bin for each value, however many rows it has
        model = DecisionTreeRegressor(max_bins=4).fit(few[:, None], few)
        assert sorted(set(model.tree_.threshold)) == [-2.0, 0.5, 1.5, 2.5]

    @all_kinds
    def test_one_row(self, cls):
        model = small(cls).fit([[1.0, NAN]], [3])
        assert model.predict([[5.0, 1.0], [NAN, NAN]]).tolist() == [3, 3]
        assert model.forest_.n_leaves.max() == 1

    @all_kinds
    def test_two_rows(self, cls):
        model = cls(**({"n_estimators": 30} if cls in FORESTS else {})).fit([[0.0], [1.0]], [3, 5])
        low, high = model.predict([[-1.0], [2.0]])
        assert 3 <= low < 4 < high <= 5


class TestTargets:
    @all_kinds
    def test_the_same_everywhere(self, cls):
        X, y = data_for(cls)
        model = small(cls).fit(X, np.full(len(y), 7))
        assert model.forest_.n_leaves.max() == 1
        np.testing.assert_array_equal(model.predict(X), 7)
        if is_classifier(model):
            np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(y), 1)))
            assert model.classes_.tolist() == [7] and model.n_classes_ == 1
        np.testing.assert_array_equal(model.feature_importances_, 0.0)

    @pytest.mark.parametrize("labels", [
        [False, True], ["no", "yes"], np.array(["n", "y"], object), [-5, 3], [1.0, 2.0],
        np.array([0, 200], np.uint8),
    ], ids=repr)  # fmt: skip
    @pytest.mark.parametrize("cls", [DecisionTreeClassifier, RandomForestClassifier])
    def test_labels_of_any_type(self, cls, labels):
        X, c = data_for(cls)
        labels = np.asarray(labels)
        model, plain = small(cls).fit(X, labels[c]), small(cls).fit(X, c)
        assert fingerprint(model) == fingerprint(plain)
        assert model.classes_.dtype == labels.dtype
        predicted = model.predict(X)
        assert predicted.dtype == labels.dtype
        np.testing.assert_array_equal(predicted, labels[plain.predict(X)])

    @pytest.mark.parametrize("make", [
        lambda y: y.tolist(), lambda y: pd.Series(y, index=y[::-1]), pl.Series, pa.array,
        lambda y: y.astype(np.float32), lambda y: np.repeat(y, 2)[::2],
    ])  # fmt: skip
    @trees
    def test_containers(self, cls, make):
        X, y = data_for(cls)
        y = y.astype(int)
        assert fingerprint(cls().fit(X, make(y))) == fingerprint(cls().fit(X, y))

    @all_kinds
    def test_a_column(self, cls):
        """Forests say that they would rather have a line, trees do not; as in scikit-learn."""
        X, y = data_for(cls)
        model = small(cls)
        if cls in FORESTS:
            with pytest.warns(match="column-vector y was passed") as caught:
                model.fit(X, y[:, None])
            assert caught[0].filename == __file__
        else:
            model.fit(X, y[:, None])
        assert model.n_outputs_ == 1 and model.predict(X).shape == y.shape
        assert fingerprint(model) == fingerprint(small(cls).fit(X, y))

    def test_numbers_far_from_zero(self):
        X, y = data_for(DecisionTreeRegressor)
        plain = DecisionTreeRegressor(min_samples_leaf=4).fit(X, y)
        moved = DecisionTreeRegressor(min_samples_leaf=4).fit(X, y + 2.0**40)
        np.testing.assert_array_equal(moved.forest_.threshold, plain.forest_.threshold)
        np.testing.assert_allclose(moved.predict(X) - 2.0**40, plain.predict(X), atol=1e-3)

    @pytest.mark.parametrize("criterion, scales", [
        ("squared_error", [1e-140, 1e-30, 1e30, 1e140]),
        ("absolute_error", [1e-300, 1e-30, 1e30, 1e300]),
        ("poisson", [1e-290, 1e-30, 1e30, 1e290]),
    ])  # fmt: skip
    def test_numbers_of_any_size(self, criterion, scales):
        X, y = data_for(DecisionTreeRegressor)
        y = y + np.random.default_rng(0).random(len(y))  # without ties for rounding to decide
        settings = {"criterion": criterion, "min_samples_leaf": 4}
        plain = DecisionTreeRegressor(**settings).fit(X, y)
        for scale in scales:
            model = DecisionTreeRegressor(**settings).fit(X, y * scale)
            np.testing.assert_array_equal(model.forest_.feature, plain.forest_.feature)
            np.testing.assert_allclose(model.predict(X), plain.predict(X) * scale, 1e-9)
            assert np.isfinite(model.tree_.impurity).all()

    @pytest.mark.parametrize("criterion", ["squared_error", "poisson"])
    def test_means_are_exact_with_any_weights_and_beside_larger_outputs(self, criterion):
        """Splits are found in fixed point; what is predicted does not show it."""
        X, y = data_for(DecisionTreeRegressor)
        y = np.stack([y * 1e6, y + 1, y * 1e-6 + 1e-6], axis=1)
        weight = np.random.default_rng(0).exponential(size=len(y))
        model = DecisionTreeRegressor(criterion=criterion, min_samples_leaf=9).fit(X, y, weight)
        path = model.decision_path(X).astype(bool).T.toarray()
        for node, rows in enumerate(path):
            expected = np.average(y[rows], axis=0, weights=weight[rows])
            np.testing.assert_allclose(model.forest_.value[node], expected, 3e-8)
        np.testing.assert_allclose(model.predict(X)[0], model.forest_.value[model.apply(X[:1])[0]])


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "F order": np.asfortranarray,
    "float64": lambda X: X.astype(np.float64),
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed twice": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "big endian": lambda X: X.astype(">f4"),
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "objects": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
    "masked": np.ma.masked_invalid,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda X: pa.table(list(X.T.copy()), names=[f"f{i}" for i in range(X.shape[1])]),
    "sparse rows": scipy.sparse.csr_array,
    "sparse columns": scipy.sparse.csc_matrix,
    "torch": lambda X: pytest.importorskip("torch").from_numpy(X),
}


class TestTables:
    @pytest.mark.parametrize(
        "cls, layout", list(zip(cycle(TREES + FORESTS), LAYOUTS.values())), ids=LAYOUTS
    )
    def test_any_container(self, cls, layout):
        X, y = data_for(cls)
        X = X[:150].astype(np.float32)
        X[::7, 2] = NAN
        model = small(cls).fit(X, y[:150])
        other = small(cls).fit(layout(X), y[:150])
        assert fingerprint(other) == fingerprint(model)
        methods = ["predict", "apply"] + ["predict_proba"] * is_classifier(model)
        for method in methods:
            found = np.asarray(getattr(other, method)(layout(X)))
            np.testing.assert_array_equal(found, getattr(model, method)(X), strict=True)

    @trees
    def test_data_are_left_as_they_are(self, cls):
        X, y = data_for(cls)
        X[::5, 1] = NAN
        before = X.copy(), y.copy()
        cls(categorical_features=[0]).fit(X, y).predict(X)
        np.testing.assert_array_equal(X, before[0])
        np.testing.assert_array_equal(y, before[1])

    def test_names_of_columns(self):
        X, y = data_for(DecisionTreeClassifier)
        frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
        model = DecisionTreeClassifier().fit(frame, y)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.n_features_in_ == 3
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[["c", "b", "a"]])
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            model.predict(X[:, :3])

    @trees
    def test_predictions_live_where_the_table_lives(self, cls, monkeypatch):
        X, y = data_for(cls)
        model = cls(device="cpu").fit(X, y)
        cupy = strict_cupy.install(monkeypatch)
        there = strict_cupy.on_gpu(cupy, X, 0)
        methods = ["predict", "apply"] + ["predict_proba"] * is_classifier(model)
        for method in methods:
            expected = getattr(model, method)(X)
            found = getattr(model, method)(there)
            assert type(expected) is np.ndarray and type(found) is cupy.ndarray
            np.testing.assert_array_equal(found.get(), expected)
            assert found.dtype == expected.dtype


class TestCopies:
    @all_kinds
    def test_pickle_and_deepcopy(self, cls):
        X, y = data_for(cls)
        model = small(cls).fit(X, y)
        if cls in FORESTS:
            assert len(model.estimators_) == 3
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert fingerprint(other) == fingerprint(model)
            np.testing.assert_array_equal(other.predict(X), model.predict(X))
            np.testing.assert_array_equal(other.feature_importances_, model.feature_importances_)

    @all_kinds
    def test_clone(self, cls):
        X, y = data_for(cls)
        model = small(cls, max_depth=3, max_features=2).fit(X, y)
        other = clone(model)
        assert not hasattr(other, "forest_") and other.get_params() == model.get_params()
        assert fingerprint(other.fit(X, y)) == fingerprint(model)

    @all_kinds
    def test_a_failing_fit_changes_nothing(self, cls):
        X, y = data_for(cls)
        model = small(cls).fit(X, y)
        before = fingerprint(model), model.predict(X)
        for wrong in (X[:, :2], np.hstack([X, X])):
            with pytest.raises(ValueError, match="NaN"):
                model.fit(wrong, np.where(y > 0, NAN, y))
        assert fingerprint(model) == before[0]
        np.testing.assert_array_equal(model.predict(X), before[1])
        with pytest.raises(ValueError, match="is expecting"):
            model.predict(X[:, :2])

    @pytest.mark.parametrize("cls", [DecisionTreeClassifier, DecisionTreeRegressor])
    def test_a_bag_of_trees_holds_the_trees_of_its_samples(self, cls):
        X, y = data_for(cls)
        bag = BaggingClassifier if is_classifier(cls()) else BaggingRegressor
        base = cls(min_samples_leaf=9, max_features=None)
        model = bag(base, n_estimators=5, max_features=0.8).fit(X, y)
        for member, rows, features in zip(
            model, model.estimators_samples_, model.estimators_features_, strict=True
        ):
            count = np.bincount(rows, minlength=len(y))
            alone = clone(base).fit(X[:, features], y, count)
            np.testing.assert_allclose(member.tree_.gain[0], alone.tree_.gain[0])
            assert member.tree_.n_node_samples[0] == np.unique(rows).size

    @pytest.mark.parametrize("cls", [DecisionTreeRegressor, RandomForestClassifier])
    def test_inspection_of_scikit_learn(self, cls):
        X, y = data_for(cls)
        model = small(cls, max_depth=3).fit(X, y)
        found = partial_dependence(model, X, [2], grid_resolution=5)["average"]
        assert found.shape[1] == 5 and np.isfinite(found).all()
        found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
        assert found.importances_mean.shape == (X.shape[1],) and found.importances_mean.max() > 0

    @pytest.mark.parametrize("cls", [DecisionTreeClassifier, RandomForestRegressor])
    def test_tools_of_scikit_learn(self, cls):
        X, y = data_for(cls)
        model = small(cls)
        assert cross_val_score(model, X, y, cv=3).mean() > 0.2
        search = GridSearchCV(model, {"max_depth": [1, 4]}, cv=3).fit(X, y)
        assert search.best_params_ == {"max_depth": 4}
        assert cls.__name__ in estimator_html_repr(model)

    def test_threads_and_processes_of_joblib(self):
        X, y = data_for(DecisionTreeClassifier)
        models = [RandomForestClassifier(3, random_state=seed) for seed in range(3)]
        expected = [fingerprint(clone(model).fit(X, y)) for model in models]
        with joblib.parallel_config("threading"):
            found = joblib.Parallel(2)(joblib.delayed(m.fit)(X, y) for m in models)
        assert [fingerprint(model) for model in found] == expected
