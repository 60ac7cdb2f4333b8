"""Trees that the host grows although a GPU was asked for: one warning for each ``fit``."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import gpuens
from gpuens import HostGrowthWarning
from gpuens.devices.placement import CPU, SIMULATOR, Device
from gpuens.trees.on_host import growth_on_host
from tests.support import strict_cupy

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0] + X[:, 1]
CLASSES = (Y > 0).astype(np.int64)
EXACT = gpuens.DecisionTreeRegressor()
CLASSIFIER = gpuens.DecisionTreeClassifier(max_depth=1)
BINNED = gpuens.DecisionTreeRegressor(max_bins=255)
ABSOLUTE = gpuens.DecisionTreeRegressor(max_bins=255, criterion="absolute_error")
GPU = Device("cuda", 0, "device='cuda'")

WARNS = {
    "tree": (EXACT, Y),
    "absolute error": (ABSOLUTE, Y),
    "forest": (gpuens.RandomForestRegressor(2, max_bins=None), Y),
    "bagging": (gpuens.BaggingRegressor(EXACT, 2), Y),
    "AdaBoost": (gpuens.AdaBoostClassifier(CLASSIFIER, n_estimators=2), CLASSES),
    "three learners": (gpuens.ThreeLearnerBoostingClassifier(CLASSIFIER), CLASSES),
    "stagewise": (gpuens.StagewiseRegressor([EXACT, ABSOLUTE], n_estimators=2), Y),
}


class BegunError(Exception):
    """Work on a GPU began."""


@pytest.fixture
def cupy(monkeypatch):
    def begin(self):
        raise BegunError

    monkeypatch.setattr(Device, "active", begin)
    return strict_cupy.install(monkeypatch)


def said_by(model, X, y, **settings):
    """The warnings of a fit that begins on a GPU."""
    model = clone(model).set_params(**settings)
    with warnings.catch_warnings(record=True) as said, pytest.raises(BegunError):
        warnings.simplefilter("always")
        model.fit(X, y)
    return [entry for entry in said if entry.category is HostGrowthWarning]


@pytest.mark.parametrize("name", WARNS)
def test_the_word_cuda_warns_once_and_names_the_caller(cupy, name):
    model, y = WARNS[name]
    (found,) = said_by(model, X, y, device="cuda")
    assert found.filename == __file__
    setting = "criterion='absolute_error'" if model is ABSOLUTE else "max_bins=None"
    assert f"Trees with {setting}" in str(found.message)
    assert "not on cuda:0 (device='cuda')" in str(found.message)
    assert "Set max_bins=255" in str(found.message)


@pytest.mark.parametrize("name", WARNS)
def test_data_on_a_gpu_warns(cupy, name):
    model, y = WARNS[name]
    (found,) = said_by(model, strict_cupy.on_gpu(cupy, X, 1), y)
    assert "(X is on cuda:1)" in str(found.message)


@pytest.mark.parametrize(
    "model",
    [
        BINNED,
        gpuens.RandomForestRegressor(2),
        gpuens.GradientBoostingRegressor(n_estimators=2, loss="absolute_error"),
        gpuens.BaggingRegressor(BINNED, 2),
        gpuens.AdaBoostRegressor(n_estimators=2),
    ],
)
def test_what_grows_on_a_gpu_does_not_warn(cupy, model):
    assert said_by(model, X, Y, device="cuda") == []


def test_the_warning_can_be_filtered(cupy):
    with warnings.catch_warnings(), pytest.raises(BegunError):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", HostGrowthWarning)
        clone(EXACT).set_params(device="cuda").fit(X, Y)


def test_members_do_not_repeat_the_warning():
    with pytest.warns(HostGrowthWarning) as said, growth_on_host(GPU, EXACT):
        for _ in range(3):
            with growth_on_host(GPU, EXACT):
                pass
    assert len(said) == 1
    with pytest.warns(HostGrowthWarning), growth_on_host(GPU, EXACT):
        pass  # the next fit warns again


@pytest.mark.parametrize("device", [CPU, SIMULATOR])
def test_no_gpu_no_warning(device):
    with growth_on_host(device, EXACT):
        pass
