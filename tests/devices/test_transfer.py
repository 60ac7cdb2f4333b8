"""Tables on their way from the host to a GPU, and forests on their way back, piece by piece."""

from __future__ import annotations

import gc
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    memory_plan,
)
from gpuens.devices import placement, transfer
from gpuens.devices.placement import CPU, Device
from gpuens.inputs import binning
from gpuens.inputs.binning import Binner
from gpuens.kernels.runtime.cuda import fetch
from gpuens.trees import table
from tests.support import strict_cupy
from tests.support.lanes import few

GPU = Device("cuda", 0)
PIECE = 4096


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.setattr(transfer, "PIECE_BYTES", PIECE)
    return strict_cupy.install(monkeypatch)


LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every second column": lambda X: np.asfortranarray(np.repeat(X, 2, axis=1))[:, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda X: np.broadcast_to(X[7], X.shape),
}


def hard_table(n, n_features, dtype=np.float32):
    """Few and many distinct values, missing ones, infinities, zeros of both signs."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, n_features)).astype(dtype)
    X[:, 1] = rng.integers(0, 5, n)
    X[:, 2] = np.where(rng.random(n) < 0.9, 3.0, X[:, 2])
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = -0.0
    X[rng.random(X.shape) < 0.05] = 0.0
    X[rng.random(X.shape) < 0.02] = np.inf
    X[rng.random(X.shape) < 0.02] = -np.inf
    X[:, 3] = np.nan
    X[:, 4] = rng.choice([-0.0, 0.0, np.inf], n)
    return X


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("shape, dtype", [
    ((3000, 7), np.float32), ((1500, 6), np.float64), ((9, 3000), np.int64), ((2000, 3), np.bool_),
])  # fmt: skip
def test_copies(cupy, layout, shape, dtype):
    X = layout(np.random.default_rng(0).integers(0, 2**40, shape).astype(dtype))
    there = GPU.asarray(X)
    np.testing.assert_array_equal(there.get(), X)
    assert there.dtype == X.dtype and strict_cupy.log().uploads == ["set"] * len(
        strict_cupy.log().uploads
    )
    assert GPU.asarray(X, order="C").flags.c_contiguous
    assert X.flags.c_contiguous or not X.flags.f_contiguous or there.flags.f_contiguous
    largest = max(PIECE, X[:1].nbytes, X[:, :1].nbytes)
    assert 0 < strict_cupy.state.pinned.peak <= 2 * 2 ** int(np.ceil(np.log2(largest)))
    assert cupy.cuda.get_current_stream().done, "the buffers are free once the copy returns"


def test_small_arrays_and_other_types_need_no_pieces(cupy):
    for values in (np.zeros(PIECE // 8), np.zeros((PIECE, 2), "<f4")[:0]):
        np.testing.assert_array_equal(GPU.asarray(values).get(), values)
    assert strict_cupy.state.pinned.peak == 0
    converted = GPU.asarray(np.arange(PIECE), np.float64)
    assert converted.dtype == np.float64
    np.testing.assert_array_equal(converted.get(), np.arange(PIECE))


@pytest.mark.parametrize("shape", [(PIECE // 8 + 1,), (3000, 7), (2, 4096)])
def test_results_come_back_through_pinned_pieces(cupy, monkeypatch, shape):
    monkeypatch.setattr(fetch, "PIECE_BYTES", PIECE)
    there = cupy.asarray(np.random.default_rng(0).normal(size=shape))
    strict_cupy.log().clear()
    np.testing.assert_array_equal(fetch.download_in_pieces(there, 2), there.get())
    n_pieces = -(-there.nbytes // PIECE)
    assert strict_cupy.log().waits == ["event.synchronize"] * n_pieces + ["get"]
    assert 0 < strict_cupy.state.pinned.peak <= 3 * PIECE
    few = there[:1]
    np.testing.assert_array_equal(fetch.download_in_pieces(few[:0], 1), few[:0].get())


def test_the_arrays_of_a_forest_go_through_pinned_pieces(cupy):
    X = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    model = RandomForestRegressor(n_estimators=2, random_state=0, device="cpu").fit(X, X[:, 0])
    assert model.forest_.threshold.nbytes > 2 * PIECE
    strict_cupy.log().clear()
    trees = model.forest_._trees_on(GPU)
    for name in ("threshold", "feature", "value"):
        np.testing.assert_array_equal(getattr(trees, name).get(), getattr(model.forest_, name))
    assert strict_cupy.log().uploads.count("set") > 8
    assert 0 < strict_cupy.state.pinned.peak <= 2 * PIECE


def test_the_stand_in_sees_buffers_that_are_filled_too_early(cupy):
    stream, there = cupy.cuda.get_current_stream(), cupy.empty(4, np.uint8)
    with pytest.raises(TypeError, match="pinned"):
        there.set(np.zeros(4, np.uint8), stream=stream)
    import cupyx

    buffer = cupyx.empty_pinned(4, np.uint8)
    buffer[:] = 1
    there.set(buffer, stream=stream)
    buffer[:] = 2
    with pytest.raises(AssertionError, match="being copied"):
        stream.synchronize()


@pytest.mark.parametrize("max_bins", [2, 16, 255])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [5, 900, 4000])
def test_cut_points_are_those_of_the_host(cupy, monkeypatch, n, dtype, max_bins):
    monkeypatch.setattr(binning, "SAMPLE_SIZE", 1000)
    X = hard_table(n, 10, dtype)
    X[3, 5], X[4, 6] = 1e6, -1e30
    weight = np.random.default_rng(n).lognormal(size=n) * (np.arange(n) % 5 > 0)
    for given, weights in product(
        (X, GPU.asarray(X), GPU.asarray(np.asfortranarray(X))), (None, weight)
    ):
        expected = Binner.fit(X, weights, max_bins, 3, CPU).thresholds
        before = strict_cupy.unwrapped(given).copy()
        there = None if weights is None else GPU.asarray(weights)
        found = Binner.fit(given, there, max_bins, 3, GPU).thresholds
        assert [cuts.tobytes() for cuts in found] == [cuts.tobytes() for cuts in expected]
        np.testing.assert_array_equal(strict_cupy.unwrapped(given), before)


def test_cut_points_between_values_that_outweigh_bins(cupy):
    """Light values between heavy ones are joined until there are few enough bins."""
    X = np.repeat(np.arange(12.0), [500, 1, 400, 2, 300, 3, 600, 1, 200, 2, 100, 1])[:, None]
    for max_bins in (2, 3, 5, 8, 11):
        (found,) = Binner.fit(X, None, max_bins, 0, GPU).thresholds
        (expected,) = Binner.fit(X, None, max_bins, 0, CPU).thresholds
        assert found.tobytes() == expected.tobytes() and 1 <= found.size < max_bins


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_of_pieces_are_those_of_the_whole(cupy, layout, dtype):
    X = layout(hard_table(1100, 7, dtype))
    binner = Binner.fit(X, None, 31, 0, CPU)
    expected, found = binner.transform(X, CPU), binner.transform(X, GPU)
    np.testing.assert_array_equal(found.rows.get(), expected.rows)
    np.testing.assert_array_equal(found.columns.get(), expected.columns)


SETTINGS = {
    "plain": (GradientBoostingRegressor, {}),
    "held out": (GradientBoostingRegressor, {"early_stopping": True, "subsample": 0.6}),
    "categories": (GradientBoostingRegressor, {"categorical_features": [1], "max_bins": 4}),
    "classes": (GradientBoostingClassifier, {"class_weight": "balanced"}),
}


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_models_of_tables_that_stay_on_the_host(cupy, case, weighted):
    """Training, evaluation sets and going on: the model of the CPU."""
    kind, settings = SETTINGS[case]
    X = hard_table(700, 6)
    X[:, 1] = np.nan_to_num(X[:, 1], posinf=3, neginf=1)
    y = np.digitize(np.nan_to_num(X[:, 0], posinf=2, neginf=-2), [-0.5, 0.5])
    given = {"sample_weight": 1.0 + np.arange(700) % 3} if weighted else {}
    given["eval_set"] = None if case == "held out" else (X[:300], y[:300])
    prints = []
    for device in ("cpu", "cuda"):
        model = kind(n_estimators=3, max_depth=3, device=device, warm_start=True, **settings)
        model.fit(X, y, **given)
        model.set_params(n_estimators=5).fit(X[::2], y[::2])
        prints.append((model.forest_.fingerprint(), model.evals_result_))
    assert prints[0][0] == prints[1][0]
    assert prints[0][1].keys() == prints[1][1].keys()


TREES = {
    "forest": RandomForestRegressor(n_estimators=3, max_depth=5, oob_score=True),
    "classes": RandomForestClassifier(n_estimators=2, max_depth=4),
    "categories": ExtraTreesClassifier(n_estimators=2, categorical_features=[1]),
    "tree": DecisionTreeClassifier(max_depth=4, max_bins=15),
    "boosted classifier": AdaBoostClassifier(n_estimators=3),
    "boosted regressor": AdaBoostRegressor(n_estimators=2),
    "bag": BaggingRegressor(DecisionTreeRegressor(max_bins=31, max_depth=4), n_estimators=3),
    "bag of features": BaggingClassifier(
        DecisionTreeClassifier(max_bins=31), n_estimators=2, max_features=0.5, oob_score=True
    ),
}


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB")
@pytest.mark.parametrize("case", TREES)
def test_trees_of_tables_that_stay_on_the_host(cupy, monkeypatch, case, sampled):
    """Binning, growth and the prediction of training rows: the model of the CPU."""
    if sampled:
        monkeypatch.setattr(binning, "SAMPLE_SIZE", 300)
        monkeypatch.setattr(table, "SAMPLE_SIZE", 300)
    X = hard_table(700, 6)
    X[:, 1] = np.nan_to_num(X[:, 1], posinf=3, neginf=1)
    y = np.digitize(np.nan_to_num(X[:, 0], posinf=2, neginf=-2), [-0.5, 0.5])
    prints = []
    for device in ("cpu", "cuda"):
        model = clone(TREES[case]).set_params(random_state=0, device=device).fit(X, y)
        members = [model] if hasattr(model, "forest_") else model.estimators_
        found = [member.forest_.fingerprint() for member in members]
        prints.append((found, getattr(model, "oob_score_", None)))
    assert prints[0] == prints[1]


@pytest.mark.parametrize(
    "model",
    few([
        GradientBoostingRegressor(n_estimators=2, max_depth=3),
        RandomForestRegressor(n_estimators=1, max_depth=3),
        DecisionTreeRegressor(max_depth=3, max_bins=255),
        AdaBoostRegressor(n_estimators=2),
        BaggingRegressor(DecisionTreeRegressor(max_depth=3, max_bins=255), n_estimators=1),
    ], 0, 2),
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_memory_of_data(cupy, monkeypatch, model):
    """What training allocates outside of the kernels, with all arrays of the rows: three bytes a
    cell and forty a row. A table of the host is never on the GPU as a whole, unless it is small
    beside the free memory and every round needs it."""
    monkeypatch.setattr(transfer, "PIECE_BYTES", 2**16)
    monkeypatch.setattr(placement, "ROOM_FOR_TABLE", 0.0)
    monkeypatch.setattr(binning, "SAMPLE_SIZE", 2000)
    monkeypatch.setattr(table, "SAMPLE_SIZE", 2000)
    n, n_features = 40_000, 24
    X = np.random.default_rng(0).normal(size=(n, n_features)).astype(np.float32)
    y = X[:, 0] + X[:, 1] ** 2
    model = clone(model).set_params(device="cuda")
    gc.collect()
    counted = strict_cupy.state.allocated
    before, counted.peak = counted.bytes, counted.bytes
    model.fit(X, y)
    fixed = 2**20
    assert X.size < counted.peak - before <= 3 * X.size + 40 * n + fixed
    assert strict_cupy.state.pinned.peak <= 2 * 2**16


@pytest.mark.parametrize("n_rows", [1_000_000, 11_000_000])
def test_memory_of_the_plan(cupy, n_rows):
    model = GradientBoostingRegressor(
        n_estimators=100, device="cuda", max_depth=8, max_leaf_nodes=None
    )
    plan = memory_plan(model, (n_rows, 28))
    of_nodes = ("histograms", "candidates of splits", "tables of nodes", "table")
    fixed = sum(plan.parts[name] for name in of_nodes)
    assert plan.parts["table"] <= 2**26
    assert plan.total - 9 / 8 * fixed <= (3 * 28 + 40) * n_rows


@pytest.mark.parametrize("n_rows", [1_000_000, 11_000_000])
def test_memory_of_the_plan_of_forests(cupy, n_rows):
    """Without the trees that grow, as many as memory allows."""
    for model in (RandomForestRegressor(), DecisionTreeRegressor(max_bins=255)):
        parts = memory_plan(model.set_params(device="cuda"), (n_rows, 28)).parts
        assert parts["table"] <= 2**26
        of_rows = parts["bins"] + parts["target and weights"]
        assert of_rows + parts["table"] <= (3 * 28 + 40) * n_rows + 2**26
        assert parts["bins"] == 60 * n_rows
