"""Whole fits on a real GPU: the same models, the same predictions, in the input's library."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.datasets import make_covtype_like, make_higgs_like

pytestmark = pytest.mark.gpu
N_ROWS = 5000


SETTINGS = {
    "defaults": {},
    "depth-wise": {"max_leaf_nodes": None, "max_depth": 6},
    "leaf-wise": {"max_leaf_nodes": 63, "min_samples_leaf": 5},
    "regularised": {"l2_regularization": 3.0, "min_sum_hessian": 1.0, "min_gain_to_split": 0.1},
    "few bins": {"max_bins": 16},
    "sampled": {"subsample": 0.6, "colsample_bytree": 0.7, "colsample_bylevel": 0.7,
                "colsample_bynode": 0.7},
    "early stopping": {"early_stopping": True, "n_iter_no_change": 2},
}  # fmt: skip


def table(task, missing=False, n_rows=N_ROWS):
    if task == "multiclass":
        X, y = make_covtype_like(n_rows)
    else:
        X, y = make_higgs_like(n_rows, 13)
    if task == "regression":
        y = 2.0 * X[:, 0] - X[:, 1] * X[:, 2] + y
    if missing:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, y


def model_for(task, **parameters):
    cls = GradientBoostingRegressor if task == "regression" else GradientBoostingClassifier
    return cls(**{"n_estimators": 12, "random_state": 3, **parameters})


def fit_on_both(cupy, task, X, y, weight=None, **parameters):
    on_cpu = model_for(task, device="cpu", **parameters).fit(X, y, weight)
    weight = None if weight is None else cupy.asarray(weight)
    on_gpu = model_for(task, device="cuda", **parameters)
    return on_cpu, on_gpu.fit(cupy.asarray(X), cupy.asarray(y), weight)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_same_model_as_on_the_cpu(cupy, task, settings):
    X, y = table(task)
    on_cpu, on_gpu = fit_on_both(cupy, task, X, y, **SETTINGS[settings])
    assert on_gpu.forest_.fingerprint() == on_cpu.forest_.fingerprint()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_same_model_with_missing_values_and_weights(cupy, task, dtype):
    X, y = table(task, missing=True)
    X[:, 3] = np.nan
    X[:, 4] = 1
    weight = np.random.default_rng(1).integers(0, 4, N_ROWS).astype(float)
    on_cpu, on_gpu = fit_on_both(cupy, task, X.astype(dtype), y, weight)
    assert on_gpu.forest_.fingerprint() == on_cpu.forest_.fingerprint()


def test_same_model_on_a_larger_table(cupy):
    X, y = table("binary", n_rows=300_000)
    on_cpu, on_gpu = fit_on_both(cupy, "binary", X, y, max_leaf_nodes=63)
    assert on_gpu.forest_.fingerprint() == on_cpu.forest_.fingerprint()


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_same_probabilities_in_the_library_of_the_input(cupy, task):
    X, y = table(task, missing=True)
    on_cpu, on_gpu = fit_on_both(cupy, task, X, y)
    for method in ("predict", "predict_proba", "decision_function", "apply"):
        found = getattr(on_gpu, method)(cupy.asarray(X))
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_array_equal(found.get(), getattr(on_cpu, method)(X))


def test_same_regression_in_the_library_of_the_input(cupy):
    X, y = table("regression", missing=True)
    on_cpu, on_gpu = fit_on_both(cupy, "regression", X, y)
    found = on_gpu.predict(cupy.asarray(X))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(found.get(), on_cpu.predict(X))


def test_host_tables_work_on_the_gpu_and_come_back(cupy):
    X, y = table("binary")
    model = model_for("binary", device="cuda").fit(X, y)
    assert isinstance(model.predict_proba(X), np.ndarray)
    expected = model_for("binary", device="cpu").fit(X, y)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


def test_auto_follows_the_table(cupy):
    X, y = table("binary")
    model = model_for("binary", device="auto").fit(cupy.asarray(X), y)
    assert isinstance(model.predict(cupy.asarray(X)), cupy.ndarray)
    expected = model_for("binary", device="cpu").fit(X, y)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
