"""Gradient boosting on tables that do not fit a GPU: the model of the CPU, bit for bit, however
the rows are cut into chunks and however many of these stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import gpuens
from gpuens import BinnedTable, GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.boosting.data import memory
from gpuens.kernels.growth import streamed_codes
from gpuens.kernels.growth.cuda import streamed as growth
from gpuens.kernels.runtime.cuda import chunks
from tests.support.streaming import streaming

pytestmark = pytest.mark.gpu
N_ROWS, N_FEATURES = 3000, 6
ROW_BYTES = 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
X[:, 5] = RNG.integers(0, 12, N_ROWS)
Y = np.nan_to_num(X[:, 0]) + np.abs(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2]) + X[:, 5] % 3
WEIGHT = RNG.integers(0, 4, N_ROWS).astype(np.float64)
CATEGORIES = {"categorical_features": [5]}


def binned(*arrays: Any, path: Any = None, **options: Any) -> BinnedTable:
    halves = [tuple(a[:1300] for a in arrays), tuple(a[1300:] for a in arrays)]
    return BinnedTable.from_batches(lambda: iter(halves), path=path, **options)


@pytest.fixture
def by_chunks(cupy, monkeypatch):
    """Let tables be read in chunks of some rows, of which some stay; returns how many batches of
    trees were grown so, and the pinned buffers that were made."""
    seen: dict[str, list[int]] = {"grown": [], "pinned": []}
    grow, pinned = growth.grow, chunks._empty_pinned
    monkeypatch.setattr(growth, "grow", lambda *a: seen["grown"].append(1) or grow(*a))
    monkeypatch.setattr(chunks, "_empty_pinned", lambda n: seen["pinned"].append(n) or pinned(n))

    def begin(rows: int, n_resident: int) -> dict[str, list[int]]:
        monkeypatch.setattr(streamed_codes, "CHUNK_BYTES", rows * ROW_BYTES)
        monkeypatch.setattr(memory, "rows_that_stay", lambda data, plan, left: n_resident)
        return seen

    with streaming():
        yield begin


MODELS: dict[str, tuple[Any, np.ndarray]] = {
    "numbers": (GradientBoostingRegressor(), Y),
    "quantiles of leaves, sample": (
        GradientBoostingRegressor(loss="absolute_error", subsample=0.6), Y,
    ),
    "two targets, mvs, drawn features": (
        GradientBoostingRegressor(sampling="mvs", subsample=0.5, colsample_bynode=0.5),
        np.stack([Y, -Y], axis=1),
    ),
    "monotone, by levels": (
        GradientBoostingRegressor(
            max_depth=5, max_leaf_nodes=None, monotonic_cst=[1, 0, 0, 0, 0, 0]
        ), Y,
    ),
    "symmetric": (GradientBoostingRegressor(grow_policy="symmetric"), Y),
    "large leaves": (GradientBoostingRegressor(loss="gamma", min_samples_leaf=150), np.exp(Y / 3)),
    "two classes": (GradientBoostingClassifier(min_samples_leaf=100), Y > 1),
    "three classes, goss": (
        GradientBoostingClassifier(sampling="goss", learning_rate=0.6), np.digitize(Y, [0, 2]),
    ),
    "dropout": (GradientBoostingRegressor(dropout=0.6), Y),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_same_model_as_on_the_cpu(by_chunks, n_trees, name):
    model, y = MODELS[name]
    model = clone(model).set_params(n_estimators=n_trees, random_state=3)
    weight = WEIGHT if "sample" in name or "two" in name else None
    expected = clone(model).set_params(device="cpu").fit(X, y, weight).forest_
    table = binned(*(each for each in (X, y, weight) if each is not None))
    seen = by_chunks(700, 1400)
    found = model.set_params(device="cuda").fit(table)
    assert found.forest_.fingerprint() == expected.fingerprint()
    assert len(seen["grown"]) >= n_trees
    assert seen["pinned"] == [700 * ROW_BYTES] * 2


@pytest.mark.parametrize("rows, n_resident", [
    (37, 2900), (64, 64), (1500, 0), (1500, 3000), (2999, 0), (2999, 2999), (10_000, 0),
])  # fmt: skip
def test_chunks_of_any_size_give_the_same_model(by_chunks, rows, n_resident):
    model = GradientBoostingRegressor(n_estimators=2, max_leaf_nodes=9, device="cpu")
    expected = model.fit(X, Y).forest_.fingerprint()
    seen = by_chunks(rows, n_resident)
    model.set_params(device="cuda").fit(binned(X, Y))
    assert model.forest_.fingerprint() == expected
    assert len(seen["pinned"]) == 2 and len(seen["grown"]) == 2


def test_evaluation_sets_categories_and_a_warm_start(by_chunks, n_trees, tmp_path):
    """Rows that are held out, and a table of evaluation: neither is on the GPU as a whole, and they
    share the two buffers of the training rows."""
    model = GradientBoostingRegressor(n_estimators=n_trees, device="cpu", **CATEGORIES)
    rows = slice(500, 1700)
    expected = clone(model).fit(X, Y, eval_set=[(X[rows], -Y[rows])])
    seen = by_chunks(400, 800)
    table = binned(X, Y, path=tmp_path / "table", **CATEGORIES)
    other = table[np.arange(rows.start, rows.stop)]
    found = clone(model).set_params(device="cuda", n_estimators=n_trees - 1, warm_start=True)
    found.fit(table, eval_set=[(other, -Y[rows])])
    found.set_params(n_estimators=n_trees).fit(table, eval_set=[(other, -Y[rows])])
    assert found.forest_.fingerprint() == expected.forest_.fingerprint()
    assert found.evals_result_ == expected.evals_result_
    assert set(seen["pinned"]) == {400 * ROW_BYTES} and len(seen["pinned"]) == 4  # 2 a fit
    np.testing.assert_array_equal(found.predict(X[:300]), expected.predict(X[:300]))


def test_early_stopping_holds_rows_out(by_chunks, n_trees):
    model = GradientBoostingClassifier(n_estimators=n_trees, early_stopping=True, device="cpu")
    table = binned(X, Y > 1)
    seen = by_chunks(256, 512)
    with streaming() as decision:
        decision.side_effect = lambda data, plan: False
        expected = clone(model).fit(table)
    found = clone(model).set_params(device="cuda").fit(table)
    assert found.forest_.fingerprint() == expected.forest_.fingerprint()
    assert found.evals_result_ == expected.evals_result_
    assert seen["grown"] and len(seen["pinned"]) == 2


def test_the_plan_decides(cupy, monkeypatch, request):
    """As many chunks stay as there is room for beside what else training takes, and a GPU without
    room for that is refused."""
    if not request.config.getoption("--ptx"):
        pytest.skip("the free memory of a real GPU is what it is")
    monkeypatch.setattr(streamed_codes, "CHUNK_BYTES", 300 * ROW_BYTES)
    table = binned(X, Y)
    model = GradientBoostingRegressor(n_estimators=2, max_leaf_nodes=9, device="cpu")
    expected = model.fit(table).forest_.fingerprint()
    model.set_params(device="cuda")
    whole = gpuens.memory_plan(model, table)
    free = [whole.total]
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (free[0], 2**34))
    plan = gpuens.memory_plan(model, table)
    assert plan.fits and not plan.streams
    stay = []
    while True:
        free[0] = plan.total - 1
        plan = gpuens.memory_plan(model, table)
        assert plan.streams and plan.parts["bins"] == plan.n_resident * ROW_BYTES
        assert f"{plan.n_resident // 300} of 10 chunks of 300 rows stay there" in str(plan)
        if not plan.fits:
            break
        stay.append(plan.n_resident)
        if plan.n_resident in (0, 900, 3000):
            assert model.fit(table).forest_.fingerprint() == expected
    assert stay == list(range(3000, -1, -300))
    with pytest.raises(MemoryError, match="on the host, of which 0 of 10 chunks"):
        model.fit(table)
