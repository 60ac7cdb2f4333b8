"""Models that were trained on a real GPU, saved, and loaded where there is none."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gpuens
from gpuens.datasets import make_higgs_like

pytestmark = pytest.mark.gpu
N_ROWS, N_TREES = 3000, 10
MODELS = {
    "boosting": gpuens.GradientBoostingClassifier(n_estimators=N_TREES, device="cuda"),
    "forest": gpuens.RandomForestClassifier(n_estimators=N_TREES, device="cuda"),
    "AdaBoost": gpuens.AdaBoostClassifier(n_estimators=N_TREES, device="cuda"),
}
ELSEWHERE = """
import sys
import numpy as np
import gpuens
from gpuens.devices.placement import gpu_problem
assert gpu_problem() is not None
folder = sys.argv[1]
model = gpuens.load(folder + "/model.gpuens")
model.set_params(device="cpu")
np.save(folder + "/found.npy", model.predict_proba(np.load(folder + "/X.npy")))
"""


@pytest.fixture(scope="module", params=MODELS)
def model(request, cupy):
    X, y = make_higgs_like(N_ROWS, 6)
    return MODELS[request.param].fit(cupy.asarray(X), cupy.asarray(y))


def test_a_file_is_read_where_there_is_no_gpu(cupy, host, model, tmp_path):
    X, _ = make_higgs_like(200, 6, random_state=1)
    expected = host(model.predict_proba(cupy.asarray(X)))
    model.save(tmp_path / "model.gpuens")
    np.save(tmp_path / "X.npy", X)
    child = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), expected)


def test_a_pickle_holds_no_array_of_the_gpu(cupy, host, model):
    X, _ = make_higgs_like(200, 6, random_state=1)
    expected = host(model.predict_proba(cupy.asarray(X)))  # layouts on the GPU are kept
    data = pickle.dumps(model)
    assert b"cupy" not in data
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.set_params(device="cpu").predict_proba(X), expected)
    found = again.set_params(device="auto").predict_proba(cupy.asarray(X))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(host(found), expected)


def test_a_file_of_the_cpu_is_used_on_the_gpu(cupy, host, tmp_path):
    X, y = make_higgs_like(N_ROWS, 6)
    on_cpu = gpuens.GradientBoostingClassifier(n_estimators=N_TREES, device="cpu").fit(X, y)
    on_cpu.save(tmp_path / "model.gpuens")
    loaded = gpuens.load(tmp_path / "model.gpuens").set_params(device="auto")
    found = loaded.predict_proba(cupy.asarray(X))
    np.testing.assert_array_equal(host(found), on_cpu.predict_proba(X))
