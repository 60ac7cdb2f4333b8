"""Prediction on a real GPU: every way of the kernels gives the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    memory_plan,
    warmup,
)
from gpuens.datasets import make_higgs_like
from gpuens.devices.placement import CPU, Device

pytestmark = pytest.mark.gpu
N_ROWS = 40_000


@pytest.fixture(scope="module")
def table():
    X, y = make_higgs_like(N_ROWS, 10)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X[:, 7] = np.random.default_rng(1).integers(0, 40, N_ROWS)
    return X, y


MODELS = {
    "shallow": GradientBoostingRegressor(n_estimators=30, max_depth=5, device="cpu"),
    "deep": ExtraTreesRegressor(n_estimators=20, device="cpu"),
    "classes": RandomForestClassifier(n_estimators=20, device="cpu"),
    "categories": GradientBoostingRegressor(
        n_estimators=20, categorical_features=[7], max_leaf_nodes=63, device="cpu"
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def forest(request, table):
    X, y = table
    return MODELS[request.param].fit(X[:10_000], y[:10_000]).forest_


VIEWS = {
    "rows": lambda X: X,
    "columns": lambda X: X.T.copy().T,
    "every second row": lambda X: X[::2],
    "backwards": lambda X: X[::-1],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 100, N_ROWS])
def test_same_predictions_as_on_the_cpu(cupy, table, forest, n_rows, dtype, view):
    """Enough rows that a forest is laid out, and so few that it is not."""
    X = table[0][:n_rows].astype(dtype)
    device = Device("cuda", cupy.cuda.runtime.getDevice())
    there = VIEWS[view](cupy.asarray(X))
    expected = VIEWS[view](X)
    np.testing.assert_array_equal(
        forest.raw_predict(there, device).get(), forest.raw_predict(expected, CPU)
    )
    np.testing.assert_array_equal(forest.apply(there, device).get(), forest.apply(expected, CPU))


@pytest.mark.hardware
def test_all_kernels_compile(cupy):
    seconds = warmup("cuda", verbose=False)
    assert any(name.startswith("kernel predict_perfect") for name in seconds)


@pytest.mark.hardware
def test_too_large_for_the_card(cupy):
    with pytest.raises(MemoryError, match="training from the disk or in parts is not supported"):
        memory_plan(GradientBoostingRegressor(device="cuda"), (2_000_000_000, 1000)).require()


@pytest.mark.hardware
def test_memory_of_training_is_foreseen(cupy):
    """What CuPy takes at most is near the plan."""
    X, y = make_higgs_like(1_000_000, 3)
    X, y = cupy.asarray(X), cupy.asarray(y)
    model = GradientBoostingRegressor(n_estimators=3, device="cuda")
    model.fit(X[:1000], y[:1000])
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    model.fit(X, y)
    assert 0.5 < (pool.total_bytes() - before) / memory_plan(model, X, y).total < 1.5
