"""The same model, bit for bit: on every implementation, thread count and container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from gpuens import (
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    ObliqueRandomForestClassifier,
    RandomForestClassifier,
)
from gpuens.kernels.growth import frontier
from gpuens.kernels.growth.cpu import grow as cpu_grow
from gpuens.kernels.growth.reference import grow as reference_grow
from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.dispatch import Implementation, using
from tests.support.lanes import few
from tests.trees.test_inputs import LAYOUTS as OF_TREES

NAN = float("nan")
DEPTHWISE = {"max_leaf_nodes": None, "max_depth": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "leaf-wise": {},
    "depth-wise": DEPTHWISE,
    "no limit": {"max_leaf_nodes": None, "min_samples_leaf": 1, "n_estimators": 2},
    "subsample": {"subsample": 0.4, "random_state": 5},
    "colsample_bytree": {"colsample_bytree": 0.6},
    "colsample_bylevel": {"colsample_bylevel": 0.6, "random_state": 2**32 - 1},
    "colsample_bynode": {"colsample_bynode": 0.6, **DEPTHWISE},
    "all sampling": {
        "subsample": 0.7, "colsample_bytree": 0.8, "colsample_bylevel": 0.8,
        "colsample_bynode": 0.8,
    },
    "few bins": {"max_bins": 3},
    "dropout": {"dropout": 0.6, "n_estimators": 6},
    "linear leaves": {"linear_leaves": True, "n_estimators": 6},
    "regularised": {"l2_regularization": 7.5, "min_sum_hessian": 3.0, "min_gain_to_split": 0.05},
    "large leaves": {"min_samples_leaf": 60},
}  # fmt: skip


def table(n: int, n_features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with ties, missing and infinite values; a target that depends on all of that."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[:, 1] = rng.integers(0, 5, n)
    X[rng.random(n) < 0.2, 0] = NAN
    X[rng.random(n) < 0.05, 2] = np.inf
    y = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) + X[:, 1] * (X[:, 3] > 0)
    return X, y + 0.3 * rng.normal(size=n)


def target(kind: str, y: np.ndarray) -> np.ndarray:
    return y if kind == "regression" else np.digitize(y, [0.5] if kind == "binary" else [0, 1.5, 4])


def estimator(kind: str, **settings: Any) -> Any:
    cls = GradientBoostingRegressor if kind == "regression" else GradientBoostingClassifier
    return cls(**{"n_estimators": 4, "n_jobs": 1, **settings})


def fingerprint(model: Any) -> str:
    return model.forest_.fingerprint()


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are not worth a thread; here they get them all the same."""
    monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
    monkeypatch.setattr(cpu_grow, "MIN_CELLS_PER_THREAD", 1)


KINDS = ("regression", "binary", "multiclass")
kinds = pytest.mark.parametrize("kind", KINDS)
PAIRS = [(kind, name) for kind in KINDS for name in SETTINGS]
"""Targets in turns: each setting is quick with one kind of them."""
pairs = pytest.mark.parametrize(
    ("kind", "name"),
    few(PAIRS, *(i for i in range(len(PAIRS)) if sum(divmod(i, len(SETTINGS))) % len(KINDS) == 0)),
)


@pairs
def test_any_number_of_threads(kind, name, eager_threads):
    X, y = table(5000)
    settings = SETTINGS[name]
    y = target(kind, y)
    weight = np.random.default_rng(1).random(5000) * (np.arange(5000) % 7 > 0)
    model = estimator(kind, **settings).fit(X, y, weight)
    raw = model.forest_.raw_predict(X)
    for n_jobs in (2, 3):
        other = estimator(kind, **settings, n_jobs=n_jobs).fit(X, y, weight)
        assert fingerprint(other) == fingerprint(model)
        with team.using_threads(n_jobs):
            np.testing.assert_array_equal(other.forest_.raw_predict(X), raw)
        np.testing.assert_array_equal(other.apply(X), model.apply(X))


def refit_on_reference(model: Any, *data: Any, **more: Any) -> Any:
    with using(Implementation.REFERENCE):
        return clone(model).fit(*data, **more)


def assert_same(model: Any, other: Any, X: np.ndarray) -> None:
    """Equal models, and equal predictions by both implementations."""
    assert fingerprint(other) == fingerprint(model)
    assert other.evals_result_ == model.evals_result_
    classifies = isinstance(model, GradientBoostingClassifier)
    for method in ["predict", "apply"] + ["predict_proba", "decision_function"] * classifies:
        with using(Implementation.REFERENCE):
            expected = getattr(other, method)(X)
        np.testing.assert_array_equal(getattr(model, method)(X), expected, strict=True)


@pairs
def test_reference(kind, name, eager_threads):
    """Each setting with each kind of target, every second pair with weights."""
    X, y = table(400)
    weighted = PAIRS.index((kind, name)) % 2 == 1
    y = target(kind, y)
    weight = np.random.default_rng(1).exponential(size=400) * (np.arange(400) % 5 > 0)
    data = (X, y, weight) if weighted else (X, y)
    model = estimator(kind, n_jobs=2, **SETTINGS[name]).fit(*data, eval_set=(X[:70], y[:70]))
    assert model.forest_.n_leaves.max() > 2
    assert_same(model, refit_on_reference(model, *data, eval_set=(X[:70], y[:70])), X)


@pytest.mark.parametrize("kind", few(KINDS, "regression", "binary"))
def test_early_stopping_and_warm_start(kind):
    X, y = table(500)
    y = target(kind, y)
    settings = {"n_estimators": 40, "learning_rate": 0.6, "n_iter_no_change": 3}
    model = estimator(kind, early_stopping=True, **settings).fit(X, y)
    other = refit_on_reference(model, X, y)
    assert model.stopped_ == "early stopping"
    assert_same(model, other, X)
    for m in (model, other):
        m.set_params(warm_start=True, early_stopping=False, n_estimators=model.n_iter_ + 2)
    model.fit(X, y)  # goes on from the reference's trees on the CPU, and the other way round
    with using(Implementation.REFERENCE):
        other.fit(X, y)
    assert_same(model, other, X)


class TestRowCounts:
    """Splits that turn out to break ``min_samples_leaf`` and are chosen anew."""

    @pytest.fixture
    def rechecked(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The number of such splits in each round of growth of the reference."""
        counts: list[int] = []

        def spy(tables: Any, params: Any) -> None:
            commit(tables, params)
            counts.append(int(tables.state[frontier.N_RECHECK]))

        commit = reference_grow.commit
        monkeypatch.setattr(reference_grow, "commit", spy)
        return counts

    @pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
    @pytest.mark.parametrize("growth", [{}, DEPTHWISE], ids=["leaf-wise", "depth-wise"])
    def test_chosen_anew(self, kind, growth, rechecked, eager_threads):
        X, y = table(600, seed=3)
        y = target(kind, y)
        weight = np.random.default_rng(0).lognormal(sigma=2.0, size=600)
        settings = {"min_samples_leaf": 50, "learning_rate": 0.5, **growth}
        model = estimator(kind, n_estimators=8, n_jobs=2, **settings).fit(X, y, weight)
        assert_same(model, refit_on_reference(model, X, y, weight), X)
        assert sum(rechecked) >= 5
        assert model.forest_.n_samples.min() >= 50


@kinds
@pytest.mark.parametrize("growth", [{}, DEPTHWISE], ids=["leaf-wise", "depth-wise"])
def test_memory_for_histograms_does_not_change_the_trees(kind, growth, monkeypatch):
    X, y = table(600)
    settings = {"min_samples_leaf": 15, **growth}
    model = estimator(kind, **settings).fit(X, target(kind, y))
    monkeypatch.setattr(frontier, "HISTOGRAM_BYTES", 1)
    other = estimator(kind, **settings).fit(X, target(kind, y))
    assert fingerprint(other) == fingerprint(model)
    assert_same(other, refit_on_reference(other, X, target(kind, y)), X)


def test_more_trees_than_histograms_may_be_kept(monkeypatch):
    """Trees that would not find a histogram for their roots grow in further batches."""
    X, _ = table(300)
    y = np.arange(300) % 9
    model = estimator("multiclass").fit(X, y)
    monkeypatch.setattr(frontier, "HISTOGRAM_BYTES", 1)
    assert fingerprint(estimator("multiclass").fit(X, y)) == fingerprint(model)


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    name: layout for name, layout in OF_TREES.items() if not name.startswith("sparse")
} | {"pandas nullable": lambda X: pd.DataFrame(X).convert_dtypes()}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_any_container(layout):
    X, y = table(300)
    X = np.where(np.isinf(X), 9.0, X).astype(np.float32)
    model = estimator("binary").fit(X, target("binary", y))
    other = estimator("binary").fit(layout(X), target("binary", y))
    assert fingerprint(other) == fingerprint(model)
    proba = other.predict_proba(layout(X))
    np.testing.assert_array_equal(np.asarray(proba), model.predict_proba(X), strict=True)


def test_integers_are_the_floats_that_they_are():
    X = np.random.default_rng(0).integers(-100, 100, (300, 4))
    y = X[:, 0] + X[:, 1] % 7
    found = {
        fingerprint(estimator("regression").fit(X.astype(dtype), y))
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64)
    }
    assert len(found) == 1


def test_the_place_of_a_row_in_a_table_does_not_matter_for_its_prediction():
    """Many rows, few rows and one row take different ways through the compiled code."""
    X, y = table(5000)
    model = estimator("multiclass", n_estimators=60).fit(X, target("multiclass", y))
    for dtype in (np.float64, np.float32):
        Z = X.astype(dtype)
        whole = model.decision_function(Z)
        for rows in (slice(0, 1), slice(7, 8), slice(10, 75), slice(4999, 5000)):
            np.testing.assert_array_equal(model.decision_function(Z[rows]), whole[rows])
        *_, last = model.staged_decision_function(Z)
        np.testing.assert_array_equal(last, whole)
        with using(Implementation.REFERENCE):
            np.testing.assert_array_equal(model.decision_function(Z[:300]), whole[:300])


def test_fingerprints_tell_models_apart():
    X, y = table(200)
    found = {
        fingerprint(estimator("regression", **settings).fit(X, y))
        for settings in ({}, {"n_estimators": 5}, {"learning_rate": 0.2}, {"max_bins": 20})
    }
    assert len(found) == 4


def test_a_known_fingerprint():
    """The same on other machines, and with other releases of the libraries. It changes when a
    decision about the algorithm does, and then belongs into the change log."""
    X = (np.arange(240).reshape(80, 3) * 7919 % 101).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(int)
    settings = {
        "learning_rate": 0.1, "max_leaf_nodes": 5, "min_samples_leaf": 3, "min_sum_hessian": 1e-3,
        "l2_regularization": 1.0, "subsample": 0.9, "colsample_bynode": 0.7,
    }  # fmt: skip
    model = estimator("binary", **settings).fit(X, y)
    assert fingerprint(model)[:16] == "32e7996cd4e51737"


FORESTS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "forest": (RandomForestClassifier, "multiclass", {"n_estimators": 6, "oob_score": True}),
    "oblique forest": (ObliqueRandomForestClassifier, "multiclass", {
        "n_estimators": 6, "feature_combinations": 3, "n_projections": 40,
    }),
    "weighted forest": (
        RandomForestClassifier, "binary", {"n_estimators": 4, "class_weight": "balanced_subsample"},
    ),
    "tree": (DecisionTreeRegressor, "regression", {}),
    "tree, best first": (DecisionTreeRegressor, "regression", {"max_leaf_nodes": 20}),
    "tree, medians": (DecisionTreeRegressor, "regression", {"criterion": "absolute_error"}),
    "tree, categories": (DecisionTreeRegressor, "regression", {"categorical_features": [1, 4]}),
    "random tree": (ExtraTreeClassifier, "multiclass", {"criterion": "entropy"}),
    "random forest": (
        ExtraTreesRegressor, "regression",
        {"n_estimators": 5, "monotonic_cst": [0, 1, 0, 0, 0, -1]},
    ),
}  # fmt: skip
forests = pytest.mark.parametrize("cls, kind, settings", FORESTS.values(), ids=FORESTS)


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
class TestForests:
    @staticmethod
    def data(n: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, y = table(n)
        X[:, 4] = np.floor(3 * X[:, 4])
        weight = np.random.default_rng(1).exponential(size=n) * (np.arange(n) % 7 > 0)
        return X, target(kind, y), weight

    @forests
    def test_any_number_of_threads(self, cls, kind, settings, eager_threads):
        X, y, weight = self.data(3000, kind)
        models = [cls(**settings, n_jobs=n_jobs).fit(X, y, weight) for n_jobs in (1, 2, 3)]
        assert len({fingerprint(model) for model in models}) == 1
        assert models[0].forest_.n_leaves.max() > 15
        for model in models[1:]:
            np.testing.assert_array_equal(model.predict(X), models[0].predict(X))
            if "oob_score" in settings:
                np.testing.assert_array_equal(model.oob_scores_path_, models[0].oob_scores_path_)

    @forests
    def test_reference(self, cls, kind, settings):
        X, y, weight = self.data(120, kind)
        model = cls(**settings).fit(X, y, weight)
        other = refit_on_reference(model, X, y, weight)
        assert fingerprint(other) == fingerprint(model)
        for method in ["predict", "apply"] + ["predict_proba"] * hasattr(model, "classes_"):
            with using(Implementation.REFERENCE):
                expected = getattr(other, method)(X)
            np.testing.assert_array_equal(getattr(model, method)(X), expected, strict=True)

    @pytest.mark.parametrize("name", ["forest", "weighted forest", "random forest"])
    def test_reference_warm_start(self, name):
        """Trees of both implementations stand beside each other."""
        cls, kind, settings = FORESTS[name]
        X, y, weight = self.data(60, kind)
        whole = cls(**settings).fit(X, y, weight)
        model = cls(**settings | {"n_estimators": 2}, warm_start=True).fit(X, y, weight)
        model.set_params(n_estimators=settings["n_estimators"])
        with using(Implementation.REFERENCE):
            model.fit(X, y, weight)
        assert fingerprint(model) == fingerprint(whole)

    @pytest.mark.parametrize("model, kind, expected", [
        (RandomForestClassifier(5, max_features=2, random_state=7), "binary", "68e93f1300533059"),
        (DecisionTreeRegressor(max_leaf_nodes=15), "regression", "ad734308715d1ede"),
        (ExtraTreesRegressor(5, bootstrap=True), "regression", "d778dd95bc71b69e"),
        (
            ObliqueRandomForestClassifier(5, feature_combinations=2, n_projections=20),
            "binary", "5c5facbd43063a38",
        ),
    ], ids=["forest", "tree", "random forest", "oblique forest"])  # fmt: skip
    def test_a_known_fingerprint(self, model, kind, expected):
        """As for boosting, above."""
        X = (np.arange(240).reshape(80, 3) * 7919 % 101).astype(np.float32)
        X[::9, 1] = NAN
        y = X[:, 0] + X[:, 2] % 7
        found = clone(model).fit(X, y > 50 if kind == "binary" else y)
        assert fingerprint(found)[:16] == expected
