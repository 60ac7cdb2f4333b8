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
EXACT = gpuens.DecisionTreeRegressor()
ABSOLUTE = gpuens.DecisionTreeRegressor(criterion="absolute_error")
GPU = Device("cuda", 0, "device='cuda'")

WARNS = {
    "tree": ABSOLUTE,
    "forest": gpuens.RandomForestRegressor(2, criterion="absolute_error"),
    "bagging": gpuens.BaggingRegressor(ABSOLUTE, 2),
    "AdaBoost": gpuens.AdaBoostRegressor(ABSOLUTE, n_estimators=2),
    "stagewise": gpuens.StagewiseRegressor([EXACT, ABSOLUTE], n_estimators=2),
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
    (found,) = said_by(WARNS[name], X, Y, device="cuda")
    assert found.filename == __file__
    assert "Trees with criterion='absolute_error'" in str(found.message)
    assert "not on cuda:0 (device='cuda')" in str(found.message)
    assert "Set another criterion" in str(found.message)


@pytest.mark.parametrize("name", WARNS)
def test_data_on_a_gpu_warns(cupy, name):
    (found,) = said_by(WARNS[name], strict_cupy.on_gpu(cupy, X, 1), Y)
    assert "(X is on cuda:1)" in str(found.message)


@pytest.mark.parametrize(
    "model",
    [
        EXACT,
        gpuens.RandomForestRegressor(2),
        gpuens.GradientBoostingRegressor(n_estimators=2, loss="absolute_error"),
        gpuens.BaggingRegressor(EXACT, 2),
        gpuens.AdaBoostRegressor(n_estimators=2),
    ],
)
def test_what_grows_on_a_gpu_does_not_warn(cupy, model):
    assert said_by(model, X, Y, device="cuda") == []


def test_the_warning_can_be_filtered(cupy):
    with warnings.catch_warnings(), pytest.raises(BegunError):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", HostGrowthWarning)
        clone(ABSOLUTE).set_params(device="cuda").fit(X, Y)


def test_members_do_not_repeat_the_warning():
    with pytest.warns(HostGrowthWarning) as said, growth_on_host(GPU, ABSOLUTE):
        for _ in range(3):
            with growth_on_host(GPU, ABSOLUTE):
                pass
    assert len(said) == 1
    with pytest.warns(HostGrowthWarning), growth_on_host(GPU, ABSOLUTE):
        pass  # the next fit warns again


@pytest.mark.parametrize("device", [CPU, SIMULATOR])
def test_no_gpu_no_warning(device):
    with growth_on_host(device, ABSOLUTE):
        pass
