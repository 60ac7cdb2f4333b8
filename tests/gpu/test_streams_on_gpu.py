"""Streams, threads, memory that ends, and ways to start kernels, on a real GPU."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpuens
from gpuens.datasets import make_higgs_like
from tests.driver import stub

pytestmark = pytest.mark.gpu
N_ROWS, N_TREES = 20_000, 10
BUSY = 1000 if stub.is_in_place() else 10_000_000
"""Numbers that keep a GPU busy for a while, which a stub of the driver never is."""
X, Y = make_higgs_like(N_ROWS, 9)


def boosting(**settings):
    return gpuens.GradientBoostingClassifier(n_estimators=N_TREES, random_state=1, **settings)


@pytest.fixture(scope="module")
def expected():
    return boosting(device="cpu").fit(X, Y)


def keep_busy(cupy):
    """Give the current stream work for some milliseconds; returns what comes of it."""
    noise = cupy.ones(BUSY, cupy.float32)
    for _ in range(200):
        noise = cupy.sqrt(noise * noise + 1)
    return noise


def test_work_follows_the_stream(cupy, host, expected):
    """Tables that are written on a stream are read behind that, without anybody waiting."""
    for _ in range(3):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            noise = keep_busy(cupy)
            table = cupy.asarray(X) + 0 * noise[0]
            model = boosting(device="cuda").fit(table, cupy.asarray(Y))
            found = model.predict_proba(table)
        stream.synchronize()
        assert model.forest_.fingerprint() == expected.forest_.fingerprint()
        np.testing.assert_array_equal(host(found), expected.predict_proba(X))


def test_a_model_is_used_on_other_streams(cupy, host, expected):
    table = cupy.asarray(X)
    model = boosting(device="cuda").fit(table, cupy.asarray(Y))
    cupy.cuda.get_current_stream().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    found = []
    for k, stream in enumerate(streams):
        with stream:
            if k == 0:  # the others must not read the forest's copy before it is there
                keep_busy(cupy)
            found.append(model.predict_proba(table))
    for stream, p in zip(streams, found, strict=True):
        stream.synchronize()
        np.testing.assert_array_equal(host(p), expected.predict_proba(X))


@pytest.mark.parametrize("own_stream", [False, True])
def test_threads_train_side_by_side(cupy, expected, own_stream):
    table, y = cupy.asarray(X), cupy.asarray(Y)
    cupy.cuda.get_current_stream().synchronize()
    forest = gpuens.RandomForestClassifier(5, max_depth=8, device="cpu").fit(X, Y)

    def work(k):
        stream = cupy.cuda.Stream(null=not own_stream, non_blocking=own_stream)
        with cupy.cuda.Device(table.device.id), stream:
            if k % 3 == 2:
                made = gpuens.RandomForestClassifier(5, max_depth=8, device="cuda")
                return made.fit(table, y).forest_.fingerprint()
            return boosting(device="cuda").fit(table, y).forest_.fingerprint()

    with ThreadPoolExecutor(4) as pool:
        marks = list(pool.map(work, range(9)))
    kinds = (expected.forest_, expected.forest_, forest.forest_)
    assert marks == [kinds[k % 3].fingerprint() for k in range(9)]


def test_fit_many_gives_the_models_of_single_fits(cupy):
    folds = [(np.arange(0, 3000), None), (np.arange(2000, 5000), None)]
    settings = {"learning_rate": [0.05, 0.3]}
    models = gpuens.fit_many(boosting(device="cuda"), X, Y, param_grid=settings, folds=folds)
    for rate, by_fold in zip(settings["learning_rate"], models, strict=True):
        for (rows, _), model in zip(folds, by_fold, strict=True):
            alone = boosting(device="cpu", learning_rate=rate).fit(X[rows], Y[rows])
            assert model.forest_.fingerprint() == alone.forest_.fingerprint()


def test_fit_many_works_behind_the_stream_of_its_caller(cupy, expected):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        noise = keep_busy(cupy)
        table = cupy.asarray(X) + 0 * noise[0]
        y = cupy.asarray(Y)
        models = gpuens.fit_many([boosting(device="cuda")] * 3, table, y, n_jobs=3)
    for (model,) in models:
        assert model.forest_.fingerprint() == expected.forest_.fingerprint()


@pytest.mark.hardware
def test_memory_that_ends_during_a_fit(cupy, expected):
    """The error says how much is free, and the next fit works."""
    table, y = cupy.asarray(X), cupy.asarray(Y)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + 2**18)
    try:
        with pytest.raises(MemoryError, match="GiB|GB|MB|bytes") as ended:
            boosting(device="cuda").fit(table, y)
    finally:
        pool.set_limit(size=0)
    assert "device='cpu'" in str(ended.value) or "The plan was" in str(ended.value)
    model = boosting(device="cuda").fit(table, y)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


@pytest.mark.hardware
def test_tables_that_are_refused(cupy):
    free, _ = cupy.cuda.runtime.memGetInfo()
    n_rows = 2 * free // (3 * 1000)
    plan = gpuens.memory_plan(boosting(device="cuda"), (int(n_rows), 1000))
    assert not plan.fits and plan.total > free
    with pytest.raises(MemoryError, match="cuda:0"):
        plan.require()


FIT = """
import cupy
from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
X, y = make_higgs_like(20_000, 9)
model = GradientBoostingClassifier(n_estimators=10, random_state=1, device="cuda")
for _ in range(2):
    model.fit(cupy.asarray(X), cupy.asarray(y))
    model.predict(cupy.asarray(X))
    print(model.forest_.fingerprint())
"""


@pytest.mark.hardware
def test_a_new_process_trains_the_same_model_without_a_warning(cupy, expected):
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIT], capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr[-3000:]
    assert child.stdout.split() == [expected.forest_.fingerprint()] * 2


@pytest.mark.hardware
def test_threads_launch_at_the_same_time(cupy, expected):
    """Eight threads, each with a stream of its own, that no thread has used before."""

    def work(k):
        with cupy.cuda.Stream(non_blocking=True):
            model = boosting(device="cuda").fit(X, Y)
        return model.forest_.fingerprint()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(16))) == {expected.forest_.fingerprint()}
