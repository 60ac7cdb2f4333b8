"""How many kernels of its own CuPy compiles for a first model: a machine that has none waits for
each of them (see ``tests.support.strict_cupy.compiled``)."""

from __future__ import annotations

import numpy as np
import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from gpuens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.datasets import make_higgs_like
from gpuens.devices import transfer
from tests.ptx import host
from tests.support import strict_cupy
from tests.support.ptx_option import Gpu

MOST_OF_BOOSTING, MOST_OF_FORESTS = 5, 8
MOST_ELSEWHERE = 7
"""Of boosting that holds rows out, on a table in several pieces."""
N_ROWS = 600
TASKS = ["regression", "two classes", "three classes"]
CASES = [
    *((GradientBoostingRegressor, GradientBoostingClassifier, task) for task in TASKS),
    *((RandomForestRegressor, RandomForestClassifier, task) for task in TASKS),
]


def compiled(of_values, of_classes, task, **settings):
    """Return what CuPy compiles for a fit, all predictions, and the model."""
    X, y = make_higgs_like(N_ROWS, 5)
    y = {"regression": 2 * X[:, 0] + y, "two classes": y, "three classes": y + (X[:, 0] > 0)}[task]
    estimator = of_values if task == "regression" else of_classes
    model = estimator(n_estimators=2, random_state=0, device="cuda", **settings)
    with host.installed([Gpu((8, 0))], watched=[]) as installed:
        strict_cupy.log().clear()
        model.fit(X, y)
        model.predict(X)
        if task != "regression":
            model.predict_proba(X)
        assert installed.launches
        return sorted(strict_cupy.log().compiled)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__[:-9]}, {case[2]}")
def test_a_first_model(case):
    is_forest = case[0] is RandomForestRegressor
    found = compiled(*case)
    assert found  # else nothing was noted
    assert len(found) <= (MOST_OF_FORESTS if is_forest else MOST_OF_BOOSTING), found


@pytest.mark.parametrize("task", TASKS)
def test_rows_that_are_held_out_and_tables_in_pieces(task, monkeypatch):
    monkeypatch.setattr(transfer, "PIECE_BYTES", N_ROWS * 4)
    case = GradientBoostingRegressor, GradientBoostingClassifier, task
    found = compiled(*case, early_stopping=True)
    # Of several classes the loss of a row takes the raw prediction of its own class alone.
    assert len(found) <= MOST_ELSEWHERE + 6 * (task == "three classes"), found


def test_one_kernel_for_each_combination_of_types(monkeypatch):
    cupy = strict_cupy.install_arrays(monkeypatch)
    values = cupy.zeros(5)
    for _ in range(3):
        values + values
    values[:3] + values[2:]
    assert strict_cupy.log().compiled == {"add(float64, float64, float64; 1 axes)"}
    values.astype(np.float32) + values
    assert len(strict_cupy.log().compiled) == 3


WITHOUT = {
    "zeros": lambda cupy, a: cupy.zeros((3, 4)),
    "a fill with zeros": lambda cupy, a: a[2:].fill(0),
    "a copy": lambda cupy, a: a.copy(),
    "part of an array": lambda cupy, a: a.__setitem__(slice(0, 4), a[6:]),
    "a sort": lambda cupy, a: cupy.sort(a),
    "views": lambda cupy, a: a.reshape(2, 5).T[1:],
    "the host's values": lambda cupy, a: cupy.asarray(np.arange(3)).get(),
}
WITH = {
    "ones": lambda cupy, a: cupy.ones(3),
    "a fill with gaps": lambda cupy, a: a[::2].fill(0),
    "a copy with gaps": lambda cupy, a: a[::2].copy(),
    "another type": lambda cupy, a: a.astype(np.float32),
    "numbers of rows": lambda cupy, a: a[cupy.asarray(np.arange(3))],
    "a sum": lambda cupy, a: a.sum(),
    "a transposed table on the host": lambda cupy, a: a.reshape(2, 5)[:, 1:].get(),
}


@pytest.mark.parametrize("call", WITHOUT.values(), ids=WITHOUT)
def test_what_comes_compiled(call, monkeypatch):
    cupy = strict_cupy.install_arrays(monkeypatch)
    call(cupy, cupy.asarray(np.arange(10.0)))
    assert not strict_cupy.log().compiled


@pytest.mark.parametrize("call", WITH.values(), ids=WITH)
def test_what_is_compiled(call, monkeypatch):
    cupy = strict_cupy.install_arrays(monkeypatch)
    call(cupy, cupy.asarray(np.arange(10.0)))
    assert len(strict_cupy.log().compiled) == 1
