"""Boosting on sparse matrices: the models and predictions of the same values as dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from gpuens import (
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    memory_plan,
)
from gpuens.devices import placement, sparse_tables
from gpuens.devices.placement import CPU
from gpuens.inputs import sparse
from gpuens.inputs.categories import read_features
from gpuens.kernels.growth import frontier
from gpuens.kernels.growth.cpu import sparse as sparse_growth
from gpuens.kernels.runtime.dispatch import Implementation, using

RNG = np.random.default_rng(3)
N, M = 900, 40


def table() -> np.ndarray:
    """Rare and frequent counts, a few numbers of any kind, missing values and an empty column."""
    X = np.where(RNG.random((N, M)) < RNG.random(M) ** 3 * 0.5, RNG.integers(-2, 6, (N, M)), 0)
    X = X.astype(np.float64)
    X[:, 0] = np.where(RNG.random(N) < 0.5, RNG.normal(size=N), 0.0)
    X[:, 1] = RNG.normal(size=N)
    X[RNG.random(N) < 0.1, 2] = np.nan
    X[:, 3] = 0.0
    return X


X = table()
Y = X[:, 0] + X[:, 1] * (X[:, 4] > 0) + np.nan_to_num(X[:, 2]) + RNG.normal(size=N)
C = np.digitize(Y, [-0.5, 0.8])
WEIGHT = RNG.exponential(size=N) * (np.arange(N) % 7 > 0)
S = scipy.sparse.csr_array(X)
SMALL = {"n_estimators": 6, "random_state": 0, "device": "cpu"}
SETTINGS = {
    "default": {},
    "small leaves": {"min_samples_leaf": 1, "max_bins": 9},
    "large leaves": {"min_samples_leaf": 60},
    "no column splits": {"min_samples_leaf": N // 2 + 1},
    "features drawn": {"colsample_bynode": 0.4},
    "rules": {"monotonic_cst": [1, -1] + [0] * (M - 2), "interaction_cst": [{0, 1, 2, 3}, {4, 5}]},
    "no interactions": {"interaction_cst": "no_interactions"},
    "held out": {"early_stopping": True, "n_iter_no_change": 2},
    "symmetric": {"grow_policy": "symmetric", "colsample_bynode": 0.7},
    "symmetric, one tree by rules": {
        "grow_policy": "symmetric",
        "max_depth": 4,
        "interaction_cst": "pairwise",
        "monotonic_cst": [1, -1] + [0] * (M - 2),
    },
    "rows drawn": {"subsample": 0.6},
    "dropout": {"dropout": 0.5, "subsample": 0.8},
    "one leaf, rows drawn": {"subsample": 0.6, "min_samples_leaf": N // 2 + 1},
}


def assert_same(sparse, dense):
    assert sparse.forest_.fingerprint() == dense.forest_.fingerprint()
    assert sparse.evals_result_ == dense.evals_result_


@pytest.fixture(params=[0, 10**6], ids=["codes without zeros", "dense codes"])
def either_codes(request, monkeypatch):
    """A sparse table with codes of either kind, whatever its share of zeros."""
    monkeypatch.setattr(sparse, "CELLS_OF_ENTRY", request.param)


@pytest.fixture
def without_zeros(monkeypatch):
    monkeypatch.setattr(sparse, "CELLS_OF_ENTRY", 0)


def test_kinds_of_codes():
    """Zeros are left out on the CPU where they are many."""
    narrow, wide = (read_features(t, CPU, estimator=GradientBoostingRegressor())
                    for t in (S, scipy.sparse.csr_array((N, 9))))  # fmt: skip
    assert not sparse.stays_sparse(narrow, CPU)
    assert sparse.stays_sparse(wide, CPU)
    assert not sparse.stays_sparse(wide, placement.SIMULATOR)


@pytest.mark.usefixtures("either_codes")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_models_of_dense_arrays(settings, weight):
    model = GradientBoostingRegressor(**SMALL | settings)
    expected = model.fit(X, Y, weight)
    found = GradientBoostingRegressor(**SMALL | settings).fit(S, Y, weight)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.predict(S), expected.predict(X))
    assert (expected.forest_.n_leaves.max() > 2) == (settings.get("min_samples_leaf") != 451)


@pytest.mark.usefixtures("either_codes")
def test_reference():
    settings = SMALL | {"n_estimators": 2, "max_leaf_nodes": 6}
    with using(Implementation.REFERENCE):
        found = GradientBoostingClassifier(**settings).fit(S, C)
    assert_same(found, GradientBoostingClassifier(**settings).fit(X, C))


@pytest.mark.usefixtures("without_zeros")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("slots", [2**29, 1], ids=["", "histograms built again"])
def test_threads_and_shares(n_jobs, slots, monkeypatch):
    """Several classes grow together; a task searches a few features."""
    settings = SMALL | {"min_samples_leaf": 3, "n_jobs": n_jobs}
    expected = GradientBoostingClassifier(**settings).fit(X, C)
    monkeypatch.setattr(sparse_growth, "FEWEST_OF_SHARE", 4)
    monkeypatch.setattr(sparse_growth, "MIN_ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(frontier, "HISTOGRAM_BYTES", slots)
    assert_same(GradientBoostingClassifier(**settings).fit(S, C), expected)
    assert_same(
        GradientBoostingClassifier(**settings, max_leaf_nodes=None, max_depth=4).fit(S, C),
        GradientBoostingClassifier(**settings, max_leaf_nodes=None, max_depth=4).fit(X, C),
    )
    settings |= {"grow_policy": "symmetric"}
    assert_same(*(GradientBoostingClassifier(**settings).fit(table, C) for table in (S, X)))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_all_ways_to_predict(n_jobs, monkeypatch):
    monkeypatch.setattr(sparse_tables, "BLOCK_BYTES", 5000)
    model = GradientBoostingClassifier(**SMALL, n_jobs=n_jobs).fit(S.tocsc(), C)
    for method in ("predict", "predict_proba", "decision_function", "apply"):
        expected = getattr(model, method)(X)
        np.testing.assert_array_equal(getattr(model, method)(S), expected, strict=True)
        np.testing.assert_array_equal(getattr(model, method)(S[:1]), expected[:1])
    pairs = zip(model.staged_predict_proba(S), model.staged_predict_proba(X), strict=True)
    for own, other in pairs:
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(
        model.predict(S[:9], pred_contribs=True), model.predict(X[:9], pred_contribs=True)
    )


@pytest.mark.usefixtures("either_codes")
def test_evaluation_sets_of_either_kind():
    sets = [(X[:200], Y[:200]), (S[:100], Y[:100])]
    settings = SMALL | {"early_stopping": True}
    expected = GradientBoostingRegressor(**settings).fit(
        X, Y, eval_set=[sets[0], (X[:100], Y[:100])]
    )
    for table in (X, S):
        assert_same(GradientBoostingRegressor(**settings).fit(table, Y, eval_set=sets), expected)


@pytest.mark.usefixtures("without_zeros")
def test_training_goes_on():
    """Also on rows in which other columns have few entries."""
    models = [GradientBoostingRegressor(**SMALL, warm_start=True).fit(t, Y) for t in (X, S)]
    for model, further in zip(models, (X[:300], S[:300]), strict=True):
        model.set_params(n_estimators=9).fit(further, Y[:300])
    assert_same(*models)
    assert_same(*[GradientBoostingRegressor(**SMALL).fit(t, Y, init=models[0]) for t in (X, S)])


def test_from_another_model():
    settings = SMALL | {"init": DecisionTreeRegressor(max_depth=3)}
    models = [GradientBoostingRegressor(**settings).fit(t, Y) for t in (X, S)]
    assert_same(*models)
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(S.tocoo()))


def test_rankings():
    group = np.full(N // 30, 30)
    models = [GradientBoostingRanker(**SMALL).fit(t, C, group=group) for t in (X, S)]
    assert_same(*models)


class TestBadInput:
    def test_categories(self):
        with pytest.raises(ValueError, match=r"categorical_features must be None.*got \[0\]"):
            GradientBoostingRegressor(categorical_features=[0]).fit(S, Y)
        model = GradientBoostingRegressor(**SMALL, categorical_features=[4]).fit(X, Y)
        with pytest.raises(ValueError, match=r"X is sparse, but .* categorical .*X.toarray\(\)"):
            model.predict(S)

    def test_other_features(self):
        model = GradientBoostingRegressor(**SMALL).fit(S, Y)
        with pytest.raises(ValueError, match="X has 39 features"):
            model.predict(S[:, 1:])

    def test_too_wide(self, monkeypatch):
        wide = scipy.sparse.csr_array(
            (np.ones(3 * N), (np.arange(3 * N) % N, np.arange(3 * N) % 30)), shape=(N, 10**5)
        )
        model = GradientBoostingRegressor(**SMALL, min_samples_leaf=5)
        plan = memory_plan(model, wide, Y)
        assert plan.parts["bins"] == N * sparse.ENTRY_BYTES and plan.fits
        drawn = GradientBoostingRegressor(**SMALL, colsample_bynode=0.5)
        plan = memory_plan(drawn, wide, Y)
        assert plan.parts["bins"] == N * sparse.ENTRY_BYTES
        free = plan.total - 1
        monkeypatch.setattr(placement, "available_memory", lambda: free)
        with pytest.raises(MemoryError, match=r"900 x 100,000 values \(of 100,000 columns"):
            drawn.fit(wide, Y)
        model.fit(wide, Y)


def test_the_table_is_not_copied_where_it_need_not_be():
    table = read_features(S.tocsc(), CPU, estimator=GradientBoostingRegressor())
    assert isinstance(table, sparse_tables.SparseTable)
    source = S.tocsc()
    kept = read_features(source, CPU, estimator=GradientBoostingRegressor()).entries
    assert np.shares_memory(kept.data, source.data)
