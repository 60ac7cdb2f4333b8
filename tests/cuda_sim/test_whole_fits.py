"""Whole fits with ``device="cuda"`` in the simulator: the model is the CPU's, bit for bit.

One of each kind of growth, to see that the simulator, which users may debug with, runs the project.
Everything else runs as compiled PTX (``tests/ptx``, ``tests/gpu``, ``tests/kernels``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import (
    BinnedTable,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    ObliqueRandomForestClassifier,
    RandomForestClassifier,
)
from gpuens.kernels.growth import streamed_codes
from gpuens.kernels.growth.cuda import grow as growth
from gpuens.kernels.growth.cuda import search
from gpuens.kernels.runtime.collective import Workers, sharing
from tests.support.streaming import streaming
from tests.support.thread_workers import run_workers

N = 40


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with ties and missing values, a target that depends on both, weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, N)
    X[rng.random(N) < 0.2, 0] = np.nan
    y = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    return X, y, rng.lognormal(size=N) * (np.arange(N) % 6 > 0)


BOOSTED = {"n_estimators": 2, "max_leaf_nodes": 3, "max_bins": 16, "min_samples_leaf": 3}
CASES: dict[str, tuple[type, dict[str, Any]]] = {
    "boosting": (GradientBoostingRegressor, BOOSTED | {"monotonic_cst": [0, 0, 1]}),
    "boosting, classes": (
        GradientBoostingClassifier, BOOSTED | {"subsample": 0.7, "categorical_features": [1]},
    ),
    "forest": (RandomForestClassifier, {"n_estimators": 2, "max_depth": 2, "max_bins": 8}),
    "oblique forest": (
        ObliqueRandomForestClassifier,
        {"n_estimators": 2, "max_depth": 2, "feature_combinations": 2, "n_projections": 6},
    ),
    "isolation forest": (
        IsolationForest, {"n_estimators": 2, "max_samples": 10, "bootstrap": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("cls, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(cls, settings):
    X, y, weight = table()
    if cls is not GradientBoostingRegressor:
        y = (y > 1).astype(int)
    cpu, gpu = (cls(**settings, device=device).fit(X, y, weight) for device in ("cpu", "cuda"))
    assert cpu.forest_.n_leaves.min() > 2
    assert gpu.forest_.fingerprint() == cpu.forest_.fingerprint()
    np.testing.assert_array_equal(gpu.predict(X[:5]), cpu.predict(X[:5]), strict=True)


def test_a_table_that_is_read_in_chunks(tmp_path, monkeypatch):
    """Compiled PTX shows more: ``tests/gpu/test_large_tables_on_gpu.py``."""
    X, y, weight = table()
    settings = BOOSTED | {"monotonic_cst": [0, 0, 1], "subsample": 0.8}
    expected = GradientBoostingRegressor(**settings, device="cpu").fit(X, y, weight)
    monkeypatch.setattr(streamed_codes, "CHUNK_BYTES", 13 * 8)
    binned = BinnedTable.from_batches(
        lambda: iter([(X, y, weight)]), path=tmp_path / "table", max_bins=16
    )
    with streaming():
        found = GradientBoostingRegressor(**settings, device="cuda").fit(binned)
    assert found.forest_.fingerprint() == expected.forest_.fingerprint()


def test_workers_that_share_the_rows(rng):
    """Compiled PTX shows more: ``tests/gpu/test_shared_rows_on_gpu.py``."""
    X = rng.normal(size=(1100, 2))
    y = X[:, 0] * X[:, 1]
    settings = {"n_estimators": 1, "max_leaf_nodes": 3, "max_bins": 8}
    plain = GradientBoostingRegressor(**settings, device="cpu").fit(X, y)
    rows = slice(0, 1024), slice(1024, 1100)

    def work(collective):
        own = rows[collective.rank]
        with sharing(Workers(collective, own.start, own.stop - own.start, 1100)):
            return GradientBoostingRegressor(**settings, device="cuda").fit(X[own], y[own])

    for shared in run_workers(2, work):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("devices", [("cuda", "cuda"), ("cpu", "cuda")], ids="-".join)
def test_workers_that_grow_forests(devices, rng):
    """Compiled PTX shows more: ``tests/gpu/test_shared_forests_on_gpu.py``."""
    X = rng.normal(size=(1100, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    settings = {"n_estimators": 3, "max_depth": 2, "max_bins": 8, "max_samples": 0.05}
    plain = RandomForestClassifier(**settings, device="cpu").fit(X, y)
    rows = slice(0, 1024), slice(1024, 1100)

    def work(collective):
        own, device = rows[collective.rank], devices[collective.rank]
        with sharing(Workers(collective, own.start, own.stop - own.start, 1100)):
            return RandomForestClassifier(**settings, device=device).fit(X[own], y[own])

    for shared in run_workers(2, work):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_blocks_share_the_rows_of_a_large_node_that_is_chosen_again(monkeypatch):
    """A block of the search counts the rows of a small one by itself."""
    rows = []
    count = search.count_bins

    def noted(column, source, node, *args):
        rows.append(int(node.end - node.begin))
        count(column, source, node, *args)

    monkeypatch.setattr(search, "count_bins", noted)
    X = np.random.default_rng(1).normal(size=(200, 3))
    y = np.random.default_rng(0).standard_t(1, 200)  # the best split is about one row
    settings = {"min_samples_leaf": 9, "n_estimators": 2, "max_depth": 3, "device": "cuda"}
    model = GradientBoostingRegressor(**settings).fit(X, y)
    assert 18 <= min(rows) <= max(rows) < growth.LEAST_COUNTED
    rows.clear()
    monkeypatch.setattr(growth, "LEAST_COUNTED", 10**6)
    alone = GradientBoostingRegressor(**settings).fit(X, y)
    assert max(rows) == 200
    assert model.forest_.fingerprint() == alone.forest_.fingerprint()
