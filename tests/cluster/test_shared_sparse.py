"""Workers that share the rows of a sparse table train the models of ``fit``, bit for bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import gpuens
from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.boosting.data import tables
from gpuens.boosting.data.tables import fit_shared_sparse_binner
from gpuens.devices.sparse_tables import SparseTable
from gpuens.inputs import binning, shared_tables
from gpuens.kernels.growth import frontier
from gpuens.kernels.growth.cpu import sparse as sparse_growth
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from gpuens.trees import sharing as trees_sharing
from tests.cluster.test_shared_rows import CUTS, TARGETS, WEIGHT, N, Y, fit_shared, in_turns
from tests.support.thread_workers import run_workers

R, C = GradientBoostingRegressor, GradientBoostingClassifier
N_FEATURES = 60
MONOTONE = [1, -1] + [0] * (N_FEATURES - 2)


def table() -> scipy.sparse.csr_array:
    """Normal, whole and missing entries, columns that exclude each other, and one that the first
    worker lacks."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((N, N_FEATURES)) < 0.04, rng.standard_normal((N, N_FEATURES)), 0.0)
    X[:, 3] = np.where(rng.random(N) < 0.5, np.round(Y), 0.0)
    X[:1024, 5] = 0.0
    X[rng.random(N) < 0.02, 7] = np.nan
    for k in range(4):
        X[:, 10 + k] = np.digitize(Y, [-1, 0, 1]) == k
    return scipy.sparse.csr_array(X)


SPARSE = table()
CASES: list[tuple[type, str, bool, dict[str, Any]]] = [
    (R, "reg", False, {}),
    (R, "reg", True, {"min_samples_leaf": 250, "subsample": 0.6, "n_jobs": 2}),
    (R, "reg", True, {"max_leaf_nodes": None, "max_depth": 5, "max_bins": 4}),
    (R, "reg", True, {"grow_policy": "symmetric", "max_depth": 4}),
    (R, "two", False, {"monotonic_cst": MONOTONE, "interaction_cst": "no_interactions"}),
    (R, "positive", False, {"loss": "poisson", "subsample": 0.001, "min_samples_leaf": 1}),
    (R, "reg", True, {"loss": "absolute_error", "dropout": 0.3}),
    (C, "binary", True, {"sampling": "goss", "learning_rate": 0.5}),
    (C, "classes", False, {"colsample_bynode": 0.5}),
    (R, "reg", True, {"early_stopping": True}),
    (C, "classes", False, {"early_stopping": True, "validation_fraction": 5000}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "target", "weighted", "params", "ends"),
    in_turns(CASES),
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_the_model_is_that_of_fit(cls, target, weighted, params, ends):
    model = cls(**{"n_estimators": 5, "random_state": 3, "device": "cpu", **params})
    y, weight = TARGETS[target], WEIGHT if weighted else None
    plain = cls(**model.get_params()).fit(SPARSE, y, weight)
    for shared in fit_shared(model, (SPARSE, y, weight), ends):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.evals_result_ == plain.evals_result_


@pytest.mark.parametrize(("n_rows", "is_sparse"), [(N, True), (3072, False)])
def test_the_entries_of_all_workers_decide_whether_zeros_are_left_out(
    n_rows, is_sparse, monkeypatch
):
    """The first worker has four entries in a row of ten, the others have none."""
    rng = np.random.default_rng(0)
    X = np.zeros((n_rows, 10))
    X[:1024] = np.where(rng.random((1024, 10)) < 0.4, rng.standard_normal((1024, 10)), 0.0)
    own = scipy.sparse.csr_array(X)
    model = R(n_estimators=2, random_state=3, device="cpu")
    plain = R(**model.get_params()).fit(own, Y[:n_rows])
    grow, grown = sparse_growth.grow, []
    monkeypatch.setattr(sparse_growth, "grow", lambda *args: grown.append(1) or grow(*args))
    for shared in fit_shared(model, (own, Y[:n_rows]), [1024, n_rows]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
    assert bool(grown) is is_sparse


def test_histograms_that_are_not_kept(monkeypatch):
    monkeypatch.setattr(frontier, "most_slots", lambda n_features: 4)
    monkeypatch.setattr(frontier, "LEAST_SLOTS", 4)
    model = R(n_estimators=3, random_state=3, device="cpu")
    plain = R(**model.get_params()).fit(SPARSE, Y)
    for shared in fit_shared(model, (SPARSE, Y), CUTS[3]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_cut_points_of_a_sample_and_small_messages(monkeypatch):
    """Columns are cut one by one, and rows held out are sent one by one."""
    monkeypatch.setattr(binning, "SAMPLE_SIZE", 3_000)
    monkeypatch.setattr(tables, "ENTRIES_AT_ONCE", 1)
    monkeypatch.setattr(shared_tables, "MESSAGE_BYTES", 2**12)
    for params in ({"max_bins": 30}, {"early_stopping": True}):
        model = R(n_estimators=3, random_state=5, device="cpu", **params)
        for weight in (None, WEIGHT):
            plain = R(**model.get_params()).fit(SPARSE, Y, weight)
            for shared in fit_shared(model, (SPARSE, Y, weight), CUTS[3]):
                assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("model, target", [
    (gpuens.RandomForestClassifier(max_depth=6, honest=True), "classes"),
    (gpuens.RandomForestRegressor(max_bins=None, max_leaf_nodes=30), "two"),
    (gpuens.ExtraTreesRegressor(max_bins=8, max_depth=5), "reg"),
    (gpuens.IsolationForest(contamination=0.2), None),
])  # fmt: skip
def test_forests(model, target, monkeypatch):
    monkeypatch.setattr(trees_sharing, "DEALT_BYTES", 2**12)
    model.set_params(n_estimators=5, random_state=3, device="cpu")
    X = scipy.sparse.csr_array(np.nan_to_num(SPARSE.toarray())) if target is None else SPARSE
    y = None if target is None else TARGETS[target]
    plain = type(model)(**model.get_params()).fit(X, y)
    for shared in fit_shared(model, (X, y), CUTS[5]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_bag_of_trees():
    model = gpuens.BaggingRegressor(
        gpuens.DecisionTreeRegressor(max_depth=4), n_estimators=4, random_state=3, device="cpu"
    )
    plain = gpuens.BaggingRegressor(**model.get_params(deep=False)).fit(SPARSE, Y)
    for shared in fit_shared(model, (SPARSE, Y), CUTS[3]):
        assert np.array_equal(shared.predict(SPARSE), plain.predict(SPARSE))


def test_formats_that_differ():
    def work(collective):
        own = slice(1024 * collective.rank, 1024 * (collective.rank + 1))
        X = SPARSE[own] if collective.rank else SPARSE[own].toarray()
        with sharing(Workers(collective, own.start, 1024, 2048)):
            R(device="cpu").fit(X, Y[own])

    message = "must have the same format: worker 0 has dense, worker 1 has sparse"
    with pytest.raises(ValueError, match=message):
        run_workers(2, work)


def test_gpus_do_not_share_sparse_rows():
    model, device = R(device="cuda"), SimpleNamespace(is_gpu=True)
    model._seed = 0
    table = SparseTable(scipy.sparse.csc_array(np.eye(80)))
    share = Workers(Alone(), 0, 80, 80)
    with pytest.raises(NotImplementedError, match="device='cuda' is not supported .* a sparse X"):
        fit_shared_sparse_binner(model, table, np.empty(0), share, device)
