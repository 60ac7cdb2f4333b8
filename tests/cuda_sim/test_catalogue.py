"""Fits and predictions start no kernel with arguments that the catalogue does not name: whatever
they need on a GPU has been compiled, checked and, by ``warmup``, made ahead."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import pytest
from numba import typeof, types
from numba.cuda.simulator.kernel import FakeCUDAKernel

import gpuens
from gpuens.kernels import catalogue
from gpuens.kernels.prediction.cuda import traverse

SMALL = {"n_estimators": 2, "random_state": 0, "device": "cuda"}
CATEGORIES = {"categorical_features": [3]}
RULES = {"monotonic_cst": [1, 0, 0, 0]}


def plain(kind: types.Type) -> types.Type:
    """Without what a GPU's arrays have not: NumPy's read-only and unaligned ones."""
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, kind.ndim, kind.layout)
    return kind


CATALOGUED = defaultdict(set)
for entry in catalogue.entries():
    CATALOGUED[entry.kernel.fn].add(tuple(map(plain, entry.arguments)))


@pytest.fixture
def launched(monkeypatch):
    """The types of arguments of all launches, by kernel."""
    found = defaultdict(set)
    call = FakeCUDAKernel.__call__

    def noted(kernel, *args):
        kinds = tuple(plain(typeof(argument)) for argument in args)
        found[kernel.fn].add(kinds)
        return call(kernel, *args)

    monkeypatch.setattr(FakeCUDAKernel, "__call__", noted)
    return found


def table(n_rows=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    X[:, 3] = rng.integers(0, 5, n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, rng.normal(size=n_rows), rng.integers(0, 3, n_rows)


MODELS = {
    "boosting": (gpuens.GradientBoostingRegressor, {"early_stopping": True}, "y"),
    "boosting, two classes": (gpuens.GradientBoostingClassifier, {"subsample": 0.7}, "two"),
    "boosting, classes": (gpuens.GradientBoostingClassifier, {"colsample_bynode": 0.5}, "three"),
    "boosting, categories": (gpuens.GradientBoostingRegressor, CATEGORIES, "y"),
    "boosting, rules": (gpuens.GradientBoostingRegressor, RULES, "y"),
    "boosting, quantile": (
        gpuens.GradientBoostingRegressor, {"loss": "quantile", "quantile": 0.7}, "y",
    ),
    "boosting, goss": (gpuens.GradientBoostingClassifier, {"sampling": "goss"}, "two"),
    "tree": (gpuens.DecisionTreeRegressor, {}, "y"),
    "tree, categories": (gpuens.DecisionTreeClassifier, CATEGORIES, "three"),
    "forest": (gpuens.RandomForestClassifier, {"oob_score": True}, "three"),
    "forest, regression": (gpuens.RandomForestRegressor, {"max_depth": 4}, "y"),
    "extra trees": (gpuens.ExtraTreesRegressor, {"max_depth": 4}, "y"),
    "quantile forest": (gpuens.QuantileForestRegressor, {}, "y"),
    "isolation forest": (gpuens.IsolationForest, {}, None),
    "AdaBoost": (gpuens.AdaBoostClassifier, {}, "two"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_all_launches_are_catalogued(launched, name, monkeypatch):
    monkeypatch.setattr(traverse, "FEW_ROWS", 10)  # so that layouts are made for forty
    cls, settings, target = MODELS[name]
    X, y, three = table()
    y = {"y": y, "two": three > 0, "three": three, None: None}[target]
    known = cls().get_params(deep=False)
    small = {key: value for key, value in SMALL.items() if key in known}
    for values in (X, np.asfortranarray(X.astype(np.float32))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = cls(**small, **settings).fit(values, y)
        for rows in (values, values[:1], values[::2]):
            model.predict(rows)
            getattr(model, "predict_proba", model.predict)(rows)
            getattr(model, "apply", model.predict)(rows)
    assert len(launched) > 5
    for kernel, kinds in launched.items():
        assert kinds <= CATALOGUED[kernel], kernel.__qualname__
