"""Kernels that are compiled before they are needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuens import warming_up, warmup
from gpuens.devices import placement as devices
from gpuens.devices.placement import CPU, Device
from tests.support import strict_cupy

FITS_OF_ALL = [
    "boosting, regression", "boosting, two classes", "boosting, many classes",
    "boosting, categories", "decision trees", "decision trees, classes", "forests",
    "forests, classes", "boosting, steps to medians", "monotone constraints", "pruned trees",
    "rankings", "survival", "quantile forests", "oblique forests", "tables by column",
    "explanations",
]  # fmt: skip
STEPS = ["losses", *FITS_OF_ALL]

FITS = """
import json
import numpy as np
from numba.core import event
compiled = []

class Listener(event.Listener):
    def on_start(self, e):
        compiled.append(f"{e.data['dispatcher'].py_func.__name__}{e.data['args']}"[:1500])

    def on_end(self, e):
        pass

event.register("numba:compile", Listener())
import gpuens
rng = np.random.default_rng(1)
X, y = rng.normal(size=(3000, 12)), rng.normal(size=3000)
X[rng.random(X.shape) < 0.1] = np.nan
for dtype in (np.float32, np.float64):
    table = X.astype(dtype)
    for name, target in {
        "GradientBoostingRegressor": y,
        "GradientBoostingClassifier": y > 0,
        "RandomForestClassifier": y > 0,
        "RandomForestRegressor": y,
        "DecisionTreeClassifier": y > 0,
    }.items():
        more = {"n_estimators": 3} if "Tree" not in name else {}
        model = getattr(gpuens, name)(device="cpu", **more).fit(table, target)
        model.predict(table), model.predict(table[:1])
    gpuens.GradientBoostingClassifier(device="cpu", n_estimators=2).fit(
        table, np.digitize(y, [-1, 1])
    ).predict_proba(table)
    gpuens.GradientBoostingClassifier(n_estimators=2, monotonic_cst=[1] * 12, device="cpu").fit(
        table, y > 0
    )
    forest = gpuens.QuantileForestRegressor(device="cpu", n_estimators=2).fit(table, y)
    forest.predict(table), forest.predict_interval(table)
    for sums in gpuens.ObliqueRandomForestRegressor, gpuens.ObliqueRandomForestClassifier:
        sums(2, device="cpu", n_projections=30).fit(table, y > 0).predict(table)
    gpuens.DecisionTreeRegressor(ccp_alpha=0.01, device="cpu").fit(np.asfortranarray(table), y)
    for loss in "absolute_error", "huber", "quantile", "expectile", "poisson", "gamma", "tweedie":
        quantile = {"quantile": 0.9} if loss in ("quantile", "expectile") else {}
        few = {"n_estimators": 2, "device": "cpu", "loss": loss, **quantile}
        model = gpuens.GradientBoostingRegressor(**few).fit(np.asfortranarray(table), abs(y) + 0.1)
        model.predict(table, pred_contribs=True)
        gpuens.StagewiseRegressor(**few).fit(table, abs(y) + 0.1)
    for loss in "exponential", "focal":
        few = {"n_estimators": 2, "device": "cpu", "loss": loss}
        gpuens.StagewiseClassifier(**few).fit(table, y > 0).predict_proba(table)
print(json.dumps(compiled))
"""


def test_says_what_it_does(capsys):
    seconds = warmup("cpu")
    assert list(seconds) == STEPS
    assert all(value > 0 for value in seconds.values())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(STEPS)
    assert lines[2].startswith("[  3/18] boosting, two classes: ") and lines[1].endswith(" s")
    assert list(warmup("cpu", verbose=False)) == STEPS
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_process_after_it_compiles_nothing(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_ENABLE_CUDASIM": "0"}
    warm = "import gpuens; gpuens.warmup('cpu', verbose=False)"
    subprocess.run([sys.executable, "-c", warm], env=env, check=True)
    done = subprocess.run(
        [sys.executable, "-c", FITS], env=env, check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == []
    if shared := os.environ.get("NUMBA_CACHE_DIR"):
        hand_over(tmp_path, Path(shared))


def hand_over(compiled: Path, shared: Path) -> None:
    """Copy kernels to where the tests after this one look for them, unless they are there: with
    an empty cache they would be compiled a second time."""
    for file in compiled.rglob("*.nb?"):
        place = shared / file.relative_to(compiled)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def test_all_cuda_kernels_are_compiled_for_a_gpu(monkeypatch):
    """A step each, before the fits, on the GPU that was asked for."""
    cupy = strict_cupy.install(monkeypatch)
    from gpuens.kernels import catalogue

    compiled = []
    monkeypatch.setattr(
        catalogue, "compile_ahead", lambda entry: compiled.append((entry.name, current()))
    )
    monkeypatch.setattr(warming_up, "_fits", lambda place: iter([("fits", lambda: None)]))

    def current():
        return cupy.cuda.runtime.getDevice()

    seconds = warmup("cuda:1", verbose=False)
    names = [entry.name for entry in catalogue.entries()]
    assert compiled == [(name, 1) for name in names]
    assert list(seconds) == [*(f"kernel {name}" for name in names), "fits"]


def test_fits_follow_the_device():
    fits = dict(warming_up._fits(Device("cuda", 1)))
    (estimators, *_) = fits["forests"].args
    assert [estimator.device for estimator in estimators] == ["cuda:1", "cuda:1"]
    assert list(dict(warming_up._fits(CPU))) == FITS_OF_ALL


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(devices, "simulated", lambda: False)
    monkeypatch.setattr(devices, "gpu_problem", lambda: "no NVIDIA driver was found")
    with pytest.raises(RuntimeError, match="device='cuda' asks for a GPU, but no NVIDIA driver"):
        warmup("cuda")
    with pytest.raises(
        ValueError, match="device must be 'auto', 'cpu', 'cuda', 'cuda:<number>' or"
    ):
        warmup("gpu")


def test_the_simulator_has_nothing_to_compile(monkeypatch):
    monkeypatch.setattr(devices, "simulated", lambda: True)
    with pytest.raises(RuntimeError, match="is the simulator while NUMBA_ENABLE_CUDASIM=1"):
        warmup("cuda")
