"""Sparse tables in trees and their ensembles: the models of the same tables with their zeros."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import gpuens
from gpuens.devices import placement as devices
from gpuens.devices.sparse_tables import SparseTable
from gpuens.trees import table as trees_table
from gpuens.trees.table import bytes_of_cell
from tests.support import strict_cupy

N, P = 700, 30
CPU = {"device": "cpu", "random_state": 3}


def made() -> tuple[Any, np.ndarray, np.ndarray]:
    """Few values and many, missing ones, negative ones, and columns without entries or zeros."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(N, P, density=0.15, random_state=1, format="lil", dtype=np.float64)
    X[X.nonzero()] = np.round(rng.normal(size=X.nnz) * 4) / 4
    X[:, 3] = rng.normal(size=(N, 1))
    X[::2, 4] = rng.normal(size=(N // 2, 1))
    X[:, 9] = 0
    X[5, 7] = X[6, 3] = X[7, 9] = np.nan
    X = X.tocsr()
    dense = np.nan_to_num(X.toarray())
    y = dense[:, 0] + dense[:, 3] + dense[:, 4] + rng.normal(size=N) * 0.1
    return X, y, np.digitize(y, [-0.5, 0.5])


X, Y, C = made()
MODELS = {
    "exact tree": (gpuens.DecisionTreeRegressor(**CPU), Y),
    "binned tree": (gpuens.DecisionTreeRegressor(max_bins=20, **CPU), Y),
    "classes": (gpuens.DecisionTreeClassifier(max_depth=5, **CPU), C),
    "random cuts": (gpuens.ExtraTreesRegressor(6, max_bins=None, **CPU), Y),
    "forest": (gpuens.RandomForestClassifier(20, oob_score=True, **CPU), C),
    "honest": (gpuens.RandomForestRegressor(6, honest=True, **CPU), Y),
    "quantiles": (gpuens.QuantileForestRegressor(6, max_bins=30, **CPU), Y),
    "AdaBoost": (gpuens.AdaBoostClassifier(n_estimators=5, **CPU), C),
    "AdaBoost of numbers": (gpuens.AdaBoostRegressor(n_estimators=5, **CPU), np.abs(Y)),
    "bag": (
        gpuens.BaggingRegressor(
            gpuens.DecisionTreeRegressor(max_bins=30), 20, oob_score=True, **CPU
        ), Y,
    ),
    "bag of some features": (
        gpuens.BaggingClassifier(gpuens.DecisionTreeClassifier(), 6, max_features=0.5, **CPU), C,
    ),
}  # fmt: skip
NO_MISSING = ("AdaBoost of numbers",)


def prints(model: Any) -> list[str]:
    forests = [model] if hasattr(model, "forest_") else model.estimators_
    return [each.forest_.fingerprint() for each in forests]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_the_model_of_the_table_with_its_zeros(name, kind):
    model, y = MODELS[name]
    table = X.copy()
    if name in NO_MISSING:
        table.data = np.nan_to_num(table.data)
    dense, sparse = table.toarray(), table.asformat(kind)
    of_dense, of_sparse = clone(model).fit(dense, y), clone(model).fit(sparse, y)
    assert prints(of_dense) == prints(of_sparse)
    np.testing.assert_array_equal(of_dense.predict(dense), of_sparse.predict(sparse))
    np.testing.assert_array_equal(of_dense.predict(sparse), of_sparse.predict(dense))
    assert getattr(of_dense, "oob_score_", 0) == getattr(of_sparse, "oob_score_", 0)
    if hasattr(model, "apply"):
        np.testing.assert_array_equal(of_dense.apply(dense), of_sparse.apply(sparse))


def test_cuts_of_a_sample(monkeypatch):
    monkeypatch.setattr(trees_table, "SAMPLE_SIZE", 200)
    monkeypatch.setattr("gpuens.inputs.binning.SAMPLE_SIZE", 200)
    model = gpuens.RandomForestRegressor(3, max_bins=40, **CPU)
    assert prints(clone(model).fit(X.toarray(), Y)) == prints(clone(model).fit(X, Y))


def test_weights_pruning_and_paths():
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    model = gpuens.DecisionTreeClassifier(ccp_alpha=0.001, **CPU)
    dense, sparse = clone(model).fit(X.toarray(), C, weight), clone(model).fit(X, C, weight)
    assert prints(dense) == prints(sparse)
    paths = [model.cost_complexity_pruning_path(table, C).ccp_alphas for table in (X.toarray(), X)]
    np.testing.assert_array_equal(*paths)
    assert (dense.decision_path(X.toarray()) != sparse.decision_path(X)).nnz == 0
    assert prints(dense.prune(X.toarray()[::2], C[::2])) == prints(sparse.prune(X[::2], C[::2]))


def test_categories_are_read_with_the_zeros():
    table = abs(X.copy())
    table.data = np.floor(np.nan_to_num(table.data))
    model = gpuens.RandomForestClassifier(3, categorical_features=[0, 1], **CPU)
    dense, sparse = clone(model).fit(table.toarray(), C), clone(model).fit(table, C)
    assert prints(dense) == prints(sparse)
    np.testing.assert_array_equal(dense.predict(table.toarray()), sparse.predict(table))


def test_on_a_gpu(monkeypatch):
    """The codes are those of the host."""
    strict_cupy.install(monkeypatch)
    device = devices.Device("cuda")
    settings = {
        "n_categories": np.zeros(P, np.int32), "monotone": np.zeros(P, np.int8),
        "max_bins": 30, "seed": 0,
    }  # fmt: skip
    table = SparseTable(scipy.sparse.csc_array(X))
    there = trees_table.cart_table(table, device=device, **settings)
    here = trees_table.cart_table(X.toarray(), device=devices.CPU, **settings)
    np.testing.assert_array_equal(devices.to_numpy(there.codes), here.codes)
    for name in ("n_bins", "begin", "lower", "upper"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


def test_no_dense_table_is_made():
    wide = scipy.sparse.random(2000, 5000, density=0.002, random_state=0, format="csr")
    y = np.asarray(wide.sum(axis=1)).ravel()
    model = gpuens.ExtraTreesRegressor(2, max_depth=3, max_features=10, n_jobs=1, **CPU)
    clone(model).fit(wide[:500, :20], y[:500])  # what is made once a process
    tracemalloc.start()
    model.fit(wide, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.6 * wide.shape[0] * wide.shape[1]  # bytes; as float64 it has eight times more
    assert gpuens.memory_plan(model, wide).parts["bins"] == wide.shape[0] * wide.shape[1]


@pytest.mark.slow
def test_a_table_that_is_too_wide_is_refused(monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda: 10**6)
    wide = scipy.sparse.random(1000, 20_000, density=0.001, random_state=0, format="csr")
    with pytest.raises(MemoryError, match=r"takes about .*bins 19.1 MiB.* free"):
        gpuens.RandomForestRegressor(2, **CPU).fit(wide, np.arange(1000.0))


def test_duplicates_unsorted_and_long_indices():
    rows, columns = np.array([2, 0, 2, 1]), np.array([1, 0, 1, 1])
    values = np.array([1.0, 2.0, 3.0, 5.0])
    table = scipy.sparse.coo_array((values, (rows, columns)), shape=(4, 2))
    unsorted = scipy.sparse.csr_array(
        (values, columns[::-1].astype(np.int64), np.array([0, 1, 2, 4, 4], np.int64)), shape=(4, 2)
    )
    for each in (table, unsorted):
        dense = gpuens.DecisionTreeRegressor(**CPU).fit(each.toarray(), np.arange(4.0))
        sparse = gpuens.DecisionTreeRegressor(**CPU).fit(each, np.arange(4.0))
        assert prints(dense) == prints(sparse)


@pytest.mark.parametrize(
    "max_bins, n_distinct, size", [(255, 400, 1), (None, 100, 1), (None, 400, 4)]
)
def test_bytes_of_a_code(max_bins, n_distinct, size):
    column = np.zeros((500, 2))
    column[:n_distinct, 0] = np.arange(1, n_distinct + 1)
    table = SparseTable(scipy.sparse.csc_array(column))
    assert bytes_of_cell(table, max_bins) == size
    found = trees_table.cart_table(
        table, n_categories=np.zeros(2, np.int32), monotone=np.zeros(2, np.int8),
        max_bins=max_bins, seed=0, device=devices.CPU,
    )  # fmt: skip
    assert found.codes.itemsize == size
