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


@pytest.fixture(scope="module")
def gpus(cupy):
    count = cupy.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(f"needs two GPUs: this machine has {count}")
    return range(count)


@pytest.fixture(scope="module")
def rows(request):
    """A table and its labels: few rows where the GPUs are machines for PTX."""
    return make_higgs_like(3_000 if request.config.getoption("--ptx") else 20_000, 9)


@pytest.fixture(scope="module")
def boosting(n_trees):
    def made(**settings):
        return gpuens.GradientBoostingClassifier(n_estimators=n_trees, random_state=1, **settings)

    return made


@pytest.fixture(scope="module")
def expected(boosting, rows):
    return boosting(device="cpu").fit(*rows)


def test_the_same_model_on_each(cupy, gpus, host, boosting, rows, expected):
    """Also where another one is current, from arrays of the host and of the GPU itself."""
    X, y = rows
    for index in gpus:
        with cupy.cuda.Device(index):
            there = cupy.asarray(X), cupy.asarray(y)
        for data, device in ((there, "auto"), (rows, f"cuda:{index}")):
            model = boosting(device=device).fit(*data)
            assert model.forest_.fingerprint() == expected.forest_.fingerprint()
            found = model.predict_proba(data[0])
            np.testing.assert_array_equal(host(found), expected.predict_proba(X))


def test_a_model_predicts_on_all(cupy, gpus, host, boosting, rows, expected):
    X, y = rows
    model = boosting(device="auto").fit(X, y)
    for _ in range(2):
        for index in gpus:
            with cupy.cuda.Device(index):
                table = cupy.asarray(X)
            found = model.predict_proba(table)
            assert found.device.id == index
            np.testing.assert_array_equal(host(found), expected.predict_proba(X))


def test_threads_train_on_different_ones(gpus, boosting, rows, expected):
    def work(k):
        model = boosting(device=f"cuda:{gpus[k % len(gpus)]}").fit(*rows)
        return model.forest_.fingerprint()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(8))) == {expected.forest_.fingerprint()}


def test_arrays_on_two_are_refused(cupy, gpus, boosting, rows):
    with cupy.cuda.Device(0):
        table = cupy.asarray(rows[0])
    with cupy.cuda.Device(1):
        labels = cupy.asarray(rows[1])
    with pytest.raises(ValueError, match="on one GPU, got X on cuda:0, y on cuda:1"):
        boosting().fit(table, labels)


FIT = """
import sys
from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
X, y = make_higgs_like(20_000, 9)
for k in range(4):
    model = GradientBoostingClassifier(n_estimators=int(sys.argv[1]), random_state=1)
    model.set_params(device=f"cuda:{k % 2}")
    print(model.fit(X, y).forest_.fingerprint())
"""


@pytest.mark.hardware
def test_launches_on_one_after_the_other(gpus, n_trees, expected):
    """The second GPU's first launch of a kernel is not the first one's."""
    command = [sys.executable, "-c", FIT, str(n_trees)]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-3000:]
    assert child.stdout.split() == [expected.forest_.fingerprint()] * 4
