"""Workers that share the rows of a table, on GPUs: threads here, several on a GPU if need be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.devices import among_workers
from gpuens.kernels.runtime.collective import Workers, sharing
from tests.support.thread_workers import cut, run_workers

pytestmark = pytest.mark.gpu
N = 2_700
CUTS = {2: [1024, N], 3: [1024, 2048, N]}


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of normal, whole and missing values, a target, and weights of which many are 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)).astype(np.float32)
    X[:, 1] = rng.integers(0, 6, N)
    X[rng.random(N) < 0.1, 2] = np.nan
    y = X[:, 0] * (X[:, 1] > 2) + np.where(np.isnan(X[:, 2]), 1.0, 0.3 * X[:, 3])
    weight = rng.integers(0, 3, N).astype(float)
    weight[:1100] = 0.0  # all rows of the first worker
    return X, y, weight


X, Y, WEIGHT = table()
R, C = GradientBoostingRegressor, GradientBoostingClassifier
CASES: dict[str, tuple[type, bool, dict[str, Any]]] = {
    "levels": (R, False, {"max_leaf_nodes": None, "max_depth": 4}),
    "symmetric": (R, True, {"grow_policy": "symmetric", "max_depth": 3}),
    "leaves, sample": (R, True, {"max_leaf_nodes": 6, "subsample": 0.3}),
    "rechecks": (R, False, {"max_leaf_nodes": 6, "min_samples_leaf": 300}),
    "categories": (C, False, {"max_leaf_nodes": 5, "categorical_features": [1]}),
    "quantiles": (R, True, {"max_leaf_nodes": 4, "loss": "absolute_error"}),
    "linear leaves": (R, False, {"max_leaf_nodes": 4, "linear_leaves": True}),
}


@pytest.mark.parametrize("n_workers", CUTS)
@pytest.mark.parametrize("cls, weighted, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_one_process(cls, weighted, settings, n_workers, gpus, monkeypatch):
    names = itertools.count()  # threads may have the same one
    monkeypatch.setattr(among_workers, "name_of_gpu", lambda device: f"GPU {next(names)}")
    y = np.digitize(Y, [-0.5, 0.5]) if cls is C else Y
    rows = X, y, WEIGHT if weighted else None
    model = {"n_estimators": 2, "max_bins": 32, "random_state": 0, **settings}
    plain = cls(**model, device="cpu").fit(*rows)
    ends = CUTS[n_workers]
    pieces = cut(rows, ends)

    def work(collective):
        rank = collective.rank
        share = Workers(collective, [0, *ends][rank], len(pieces[rank][0]), N)
        with sharing(share):
            return cls(**model, device=f"cuda:{gpus[rank % len(gpus)]}").fit(*pieces[rank])

    for shared in run_workers(n_workers, work):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
