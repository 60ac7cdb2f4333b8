"""Workers that share the rows of a table, each on a GPU of its own, train the model of ``fit``.

The GPUs are those of the stand-in for CuPy: what is outside of ``kernels`` sees arrays of a GPU.
The kernels run in ``tests/gpu/test_shared_rows_on_gpu.py``, as compiled PTX or on hardware.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.devices import among_workers, placement
from gpuens.kernels.runtime.collective import Workers, sharing
from gpuens.losses import ArrayLoss, Cox, CustomLoss
from tests.cluster.test_shared_rows import (
    CUTS,
    TARGETS,
    WEIGHT,
    X,
    centred,
    cube,
    fourth_power,
)
from tests.support import strict_cupy
from tests.support.lanes import few
from tests.support.thread_workers import cut, run_workers

R, C = GradientBoostingRegressor, GradientBoostingClassifier
Y = TARGETS["reg"]
CASES: dict[str, tuple[type, str, bool, dict[str, Any]]] = {
    "plain": (R, "reg", False, {}),
    "levels, sample": (
        R, "reg", True, {"max_leaf_nodes": None, "max_depth": 5, "subsample": 0.3},
    ),
    "symmetric": (R, "reg", True, {"grow_policy": "symmetric", "subsample": 0.3}),
    "few rows": (R, "reg", False, {"subsample": 0.0005, "min_samples_leaf": 1}),
    "rechecks": (C, "classes", False, {"categorical_features": [9], "min_samples_leaf": 300}),
    "outputs": (R, "two", True, {"colsample_bynode": 0.5, "interaction_cst": "pairwise"}),
    "line search": (R, "positive", True, {"loss": "poisson", "line_search": True}),
    "classes": (C, "classes", True, {"class_weight": "balanced", "sampling": "balanced",
                                     "subsample": 0.01}),
    "goss": (R, "reg", True, {"sampling": "goss", "learning_rate": 0.5,
                              "min_impurity_decrease": 0.01}),
    "mvs": (R, "two", True, {"sampling": "mvs", "subsample": 0.3}),
    "quantiles": (R, "positive", False, {"loss": "quantile", "quantile": [0.2, 0.8],
                                         "subsample": 0.5}),
    "huber": (R, "reg", True, {"loss": "huber"}),
    "dropout": (R, "two", False, {"dropout": 0.6, "normalize_drop": "forest", "subsample": 0.5}),
    "linear leaves": (C, "classes", True, {"linear_leaves": True, "subsample": 0.3}),
    "early stopping": (C, "classes", True, {"early_stopping": True, "n_estimators": 9,
                                            "n_iter_no_change": 2, "learning_rate": 1.0}),
}  # fmt: skip


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return strict_cupy.install(monkeypatch, gpus=3)


def fit_on_gpus(
    model: Any, rows: tuple[Any, ...], cupy: Any, gpus: tuple[int | None, ...] = (0, 1, 2),
    is_there: bool = False, **others: Any,
) -> list[Any]:  # fmt: skip
    """Return the models of workers on certain GPUs, None: on the CPU; ``is_there``: where their
    rows are."""
    ends = CUTS[len(gpus)]
    pieces = cut(rows, ends)

    def work(collective):
        rank = collective.rank
        own, gpu = pieces[rank], gpus[rank]
        share = Workers(collective, [0, *ends][rank], own[0].shape[0], ends[-1])
        with sharing(share), nullcontext() if gpu is None else cupy.cuda.Device(gpu):
            if is_there and gpu is not None:
                own = tuple(None if each is None else cupy.asarray(each) for each in own)
            return type(model)(**model.get_params(deep=False)).fit(*own, **others)

    return run_workers(len(ends), work)


@pytest.mark.parametrize("cls, target, weighted, params", CASES.values(), ids=CASES)
def test_the_model_is_that_of_the_cpu(cls, target, weighted, params, cupy):
    model = cls(**{"n_estimators": 4, "random_state": 3, "device": "cuda", **params})
    y, weight = TARGETS[target], WEIGHT if weighted else None
    plain = type(model)(**{**model.get_params(), "device": "cpu"}).fit(X, y, weight)
    for shared in fit_on_gpus(model, (X, y, weight), cupy):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize(
    "loss",
    few([ArrayLoss(centred), CustomLoss(fourth_power, cube)], 0),
    ids=["arrays", "formulas"],
)
def test_losses_of_users_see_what_one_gpu_would_show_them(loss, cupy):
    model = R(n_estimators=3, loss=loss, learning_rate=0.01, random_state=3, device="cuda")
    plain = R(**model.get_params()).fit(X, Y)
    for shared in fit_on_gpus(model, (X, Y), cupy, gpus=(0, 1)):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("holds_out", [False, True])
def test_rows_on_gpus_are_trained_on_there(holds_out, cupy):
    model = R(n_estimators=4, random_state=3, early_stopping=holds_out)
    plain = R(**{**model.get_params(), "device": "cpu"}).fit(X, Y, WEIGHT)
    found = fit_on_gpus(model, (X, Y, WEIGHT), cupy, gpus=(0, 1), is_there=True)
    places = {gpu for gpu, _ in strict_cupy.log().places}
    assert places == {0, 1}
    for shared in found:
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_rows_of_the_host_stay_there_by_default(cupy):
    fit_on_gpus(R(n_estimators=2), (X, Y), cupy, gpus=(0, 1))
    assert not strict_cupy.log().places


def test_evaluation_sets_are_on_every_gpu(cupy):
    others = {"eval_set": (X[:700], Y[:700])}
    model = R(n_estimators=5, random_state=3, device="cuda", scoring="r2")
    plain = R(**{**model.get_params(), "device": "cpu"}).fit(X, Y, **others)
    for shared in fit_on_gpus(model, (X, Y), cupy, gpus=(1, 0), **others):
        assert shared.evals_result_ == plain.evals_result_


@pytest.mark.parametrize("gpus, device", [((0, 1, 0), "auto"), ((0, 1, 2), "cuda:1")])
def test_two_workers_on_one_gpu(gpus, device, cupy):
    with pytest.raises(ValueError, match=r"have the same one \(.*Start one worker a GPU"):
        fit_on_gpus(R(device=device), (X, Y), cupy, gpus=gpus, is_there=device == "auto")


def test_workers_that_see_the_same_gpus_take_one_each(cupy):
    fit_on_gpus(R(n_estimators=2, device="cuda"), (X, Y), cupy, gpus=(0, 0, 0))
    assert {gpu for gpu, _ in strict_cupy.log().places} == {0, 1, 2}


def test_more_workers_than_gpus(monkeypatch):
    cupy = strict_cupy.install(monkeypatch, gpus=1)
    with pytest.raises(ValueError, match="workers 0 and 1 have the same one"):
        fit_on_gpus(R(device="cuda"), (X, Y), cupy, gpus=(0, 0))


def test_rows_on_a_gpu_and_on_the_host(cupy):
    with pytest.raises(
        ValueError, match=r"rows of worker 0, 2 are on a GPU, those of worker 1 are"
    ):
        fit_on_gpus(R(), (X, Y), cupy, gpus=(0, None, 2), is_there=True)


def test_a_worker_without_a_gpu(cupy, monkeypatch):
    def resolve(device, X, **others):
        if len(X) == 1024:
            raise RuntimeError("device='cuda' asks for a GPU, but no NVIDIA driver was found.")
        return placement.resolve_device(device, X, **others)

    monkeypatch.setattr(among_workers, "resolve_device", resolve)
    with pytest.raises(
        RuntimeError, match="Worker 0 of 2 cannot work on a GPU: device='cuda' asks"
    ):
        fit_on_gpus(R(device="cuda"), (X, Y), cupy, gpus=(0, 1))


def test_losses_that_need_the_host_are_named(cupy):
    times = np.array(list(zip(Y > 0, abs(Y), strict=True)), [("event", bool), ("time", float)])
    with pytest.raises(NotImplementedError, match=r"device='cuda' is not .*loss=Cox\(.* orders"):
        fit_on_gpus(R(loss=Cox(), device="cuda"), (X, times), cupy, gpus=(0, 1))
