"""Several real GPUs in one process: each has kernels, layouts and memory of its own."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpuens
from gpuens.datasets import make_higgs_like

pytestmark = pytest.mark.gpu
X, Y = make_higgs_like(20_000, 9)


@pytest.fixture(scope="module")
def gpus(cupy):
    count = cupy.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(f"needs two GPUs: this machine has {count}")
    return range(count)


def boosting(**settings):
    return gpuens.GradientBoostingClassifier(n_estimators=10, random_state=1, **settings)


@pytest.fixture(scope="module")
def expected():
    return boosting(device="cpu").fit(X, Y)


def test_the_same_model_on_each(cupy, gpus, host, expected):
    """Also where another one is current, from arrays of the host and of the GPU itself."""
    for index in gpus:
        with cupy.cuda.Device(index):
            there = cupy.asarray(X), cupy.asarray(Y)
        for data, device in ((there, "auto"), ((X, Y), f"cuda:{index}")):
            model = boosting(device=device).fit(*data)
            assert model.forest_.fingerprint() == expected.forest_.fingerprint()
            found = model.predict_proba(data[0])
            np.testing.assert_array_equal(host(found), expected.predict_proba(X))


def test_a_model_predicts_on_all(cupy, gpus, host, expected):
    model = boosting(device="auto").fit(X, Y)
    for _ in range(2):
        for index in gpus:
            with cupy.cuda.Device(index):
                table = cupy.asarray(X)
            found = model.predict_proba(table)
            assert found.device.id == index
            np.testing.assert_array_equal(host(found), expected.predict_proba(X))


def test_threads_train_on_different_ones(gpus, expected):
    def work(k):
        model = boosting(device=f"cuda:{gpus[k % len(gpus)]}").fit(X, Y)
        return model.forest_.fingerprint()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(8))) == {expected.forest_.fingerprint()}


def test_arrays_on_two_are_refused(cupy, gpus):
    with cupy.cuda.Device(0):
        table = cupy.asarray(X)
    with cupy.cuda.Device(1):
        labels = cupy.asarray(Y)
    with pytest.raises(ValueError, match="on one GPU, got X on cuda:0, y on cuda:1"):
        boosting().fit(table, labels)


FIT = """
from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
X, y = make_higgs_like(20_000, 9)
for k in range(4):
    model = GradientBoostingClassifier(n_estimators=10, random_state=1, device=f"cuda:{k % 2}")
    print(model.fit(X, y).forest_.fingerprint())
"""


@pytest.mark.hardware
def test_launches_on_one_after_the_other(gpus, expected):
    """The second GPU's first launch of a kernel is not the first one's."""
    child = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-3000:]
    assert child.stdout.split() == [expected.forest_.fingerprint()] * 4
