"""Workers that share the rows of a table grow the trees of ``fit``, each on a GPU if it has one.

The GPUs are those of the stand-in for CuPy: what is outside of ``kernels`` sees arrays of a GPU.
The kernels run in ``tests/gpu/test_shared_forests_on_gpu.py``, as compiled PTX or on hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from gpuens import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    memory_plan,
)
from gpuens.devices import among_workers, placement
from gpuens.devices.policy import Work
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from gpuens.trees.on_host import HostGrowthWarning
from gpuens.trees.sharing import device_to_grow_on
from tests.cluster.test_shared_on_gpus import fit_on_gpus
from tests.cluster.test_shared_rows import CUTS, TARGETS, WEIGHT, X
from tests.support import strict_cupy
from tests.support.thread_workers import run_workers

pytestmark = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")

RC, RR = RandomForestClassifier, RandomForestRegressor
EC, BC, BR = ExtraTreesClassifier, BaggingClassifier, BaggingRegressor
TREE = DecisionTreeClassifier(max_depth=4, class_weight="balanced", max_bins=20)
FORESTS: dict[str, tuple[type, str, bool, dict[str, Any]]] = {
    "plain": (RC, "classes", False, {}),
    "weights, pruned": (
        RC, "classes", True, {"class_weight": "balanced_subsample", "ccp_alpha": 0.002},
    ),
    "categories": (RC, "binary", True, {"categorical_features": [3, 9], "max_leaf_nodes": 40}),
    "exact, outputs": (RR, "two", False, {"max_bins": None, "n_estimators": 4}),
    "constraints": (RR, "reg", True, {"monotonic_cst": [1, -1, 0, 0, 0, 0, 1, 0, 0, 0]}),
    "random cuts": (EC, "classes", False, {"bootstrap": True, "criterion": "entropy"}),
    "honest": (RR, "reg", True, {"honest": True, "max_bins": 30}),
    "honest, balanced": (
        RC, "classes", True, {"honest": True, "class_weight": "balanced_subsample"},
    ),
}  # fmt: skip
BAGS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "trees of the bag": (BC, "classes", {"device": "cuda"}),
    "trees that follow": (BC, "classes", {"device": "cuda", "estimator": TREE}),
    "their own device": (BC, "binary", {"estimator": TREE.__class__(max_depth=3, device="cuda")}),
    "votes": (BC, "binary", {"device": "cuda", "voting": "hard", "max_samples": 0.3}),
    "outputs": (BR, "two", {"device": "cuda", "n_estimators": 3}),
}


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return strict_cupy.install(monkeypatch, gpus=3)


def gpus_used() -> set[int]:
    return {gpu for gpu, _ in strict_cupy.log().places}


@pytest.mark.parametrize("cls, target, weighted, params", FORESTS.values(), ids=FORESTS)
def test_the_forest_is_that_of_the_cpu(cls, target, weighted, params, cupy):
    settings = {"n_estimators": 7, "random_state": 3, "oob_score": True, **params}
    y, weight = TARGETS[target], WEIGHT if weighted else None
    plain = cls(**settings, device="cpu").fit(X, y, weight)
    found = fit_on_gpus(cls(**settings, device="cuda"), (X, y, weight), cupy, gpus=(0, 0, 0))
    assert gpus_used() == {0, 1, 2}
    for shared in found:
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.oob_score_ == plain.oob_score_
        assert np.array_equal(shared.oob_scores_path_, plain.oob_scores_path_)


@pytest.mark.parametrize("params", [
    {}, {"bootstrap": True, "contamination": 0.1, "max_samples": 700},
    {"max_features": 0.4, "contamination": 0.2},
], ids=lambda params: "-".join(params) or "plain")  # fmt: skip
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_isolation_forests(kind, params, cupy):
    rows = kind(np.nan_to_num(X))
    settings = {"n_estimators": 9, "random_state": 3, **params}
    plain = IsolationForest(**settings, device="cpu").fit(rows)
    found = fit_on_gpus(IsolationForest(**settings, device="cuda"), (rows,), cupy, gpus=(0, 0, 0))
    assert gpus_used() == {0, 1, 2}
    for shared in found:
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.offset_ == plain.offset_


@pytest.mark.parametrize("cls, target, params", BAGS.values(), ids=BAGS)
def test_bags_of_trees(cls, target, params, cupy):
    settings = {"n_estimators": 5, "random_state": 3, "oob_score": True, **params}
    rows = X[:, :5], TARGETS[target]
    cpu = {name: value for name, value in settings.items() if name != "device"}
    if "estimator" in cpu:
        cpu["estimator"] = type(TREE)(**{**cpu["estimator"].get_params(), "device": "cpu"})
    plain = cls(**cpu, device="cpu").fit(*rows)
    found = fit_on_gpus(cls(**settings), rows, cupy, gpus=(0, 0))
    assert gpus_used() == {0, 1}
    for each in found:
        assert each.oob_score_ == plain.oob_score_
        for own, theirs in zip(each.estimators_, plain.estimators_, strict=True):
            assert own.forest_.fingerprint() == theirs.forest_.fingerprint()


def test_sparse_tables(cupy):
    rows = csr_array(np.where(np.nan_to_num(X) > 0.8, np.nan_to_num(X), 0.0))
    settings = {"n_estimators": 5, "random_state": 3, "oob_score": True}
    plain = RC(**settings, device="cpu").fit(rows, TARGETS["classes"])
    data = rows, TARGETS["classes"]
    for shared in fit_on_gpus(RC(**settings, device="cuda"), data, cupy, gpus=(0, 0, 0)):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.oob_score_ == plain.oob_score_
    assert gpus_used() == {0, 1, 2}


def test_rows_on_gpus(cupy):
    settings = {"n_estimators": 5, "random_state": 3, "oob_score": True}
    rows = X, TARGETS["reg"], WEIGHT
    plain = RR(**settings, device="cpu").fit(*rows)
    for shared in fit_on_gpus(RR(**settings), rows, cupy, gpus=(2, 0), is_there=True):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.oob_score_ == plain.oob_score_
    assert gpus_used() == {0, 2}


@pytest.fixture
def always_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "pays_on_gpu", True)


@pytest.mark.parametrize("n_gpus", [1, 2])
def test_workers_without_a_gpu_work_on_the_cpu(n_gpus, always_pays, monkeypatch):
    cupy = strict_cupy.install(monkeypatch, gpus=n_gpus)
    settings = {"n_estimators": 8, "random_state": 3, "oob_score": True}
    rows = X, TARGETS["classes"]
    plain = RC(**settings, device="cpu").fit(*rows)
    for shared in fit_on_gpus(RC(**settings), rows, cupy, gpus=(0, 0, 0)):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.oob_score_ == plain.oob_score_
    assert gpus_used() == set(range(n_gpus))


def test_a_gpu_that_cannot_be_used(always_pays, cupy, monkeypatch):
    """By default its worker works on the CPU."""

    def resolve(device, X, **others):
        if device == "cuda:1":
            raise RuntimeError("device='cuda:1' asks for a GPU, but it is too old.")
        return placement.resolve_device(device, X, **others)

    monkeypatch.setattr(among_workers, "resolve_device", resolve)
    rows = X, TARGETS["reg"]
    plain = RR(n_estimators=4, device="cpu").fit(*rows)
    for shared in fit_on_gpus(RR(n_estimators=4), rows, cupy, gpus=(0, 0, 0)):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
    assert gpus_used() == {0, 2}
    with pytest.raises(RuntimeError, match="Worker 1 of 3 cannot work on a GPU: device='cuda:1'"):
        fit_on_gpus(RR(device="cuda"), rows, cupy, gpus=(0, 0, 0))


def test_small_tables_stay_on_the_host_by_default(cupy):
    fit_on_gpus(RC(n_estimators=3), (X, TARGETS["classes"]), cupy, gpus=(0, 0))
    assert not gpus_used()


@pytest.mark.parametrize("n_workers, kind", [(1, "cuda"), (2, "cuda"), (3, "cpu")])
def test_a_worker_counts_its_own_trees(n_workers, kind, cupy):
    """All trees together pay on a GPU; a third of them, on all rows too, does not."""

    def work(table: Any) -> Work:
        assert table.shape == X.shape
        return Work(*table.shape, trees=9, cpu=2.5, gpu=0.01)

    def choose(collective: Any) -> str:
        first, last = [0, *CUTS[n_workers]][collective.rank :][:2]
        workers = Workers(collective, first, last - first, len(X))
        return device_to_grow_on("auto", X[first:last], work, workers).kind

    assert set(run_workers(n_workers, choose)) == {kind}


@pytest.mark.parametrize("cls", [RR, BR, IsolationForest])
def test_more_workers_than_gpus(cls, monkeypatch):
    cupy = strict_cupy.install(monkeypatch, gpus=1)
    with pytest.raises(ValueError, match="workers 0 and 1 have the same one .*Start one worker a"):
        fit_on_gpus(cls(device="cuda"), (X, TARGETS["reg"]), cupy, gpus=(0, 0))


@pytest.mark.filterwarnings("ignore:Trees with criterion='absolute_error' are grown by the host")
def test_trees_that_the_host_grows(cupy):
    settings = {"n_estimators": 4, "criterion": "absolute_error", "max_depth": 3}
    rows = X, TARGETS["reg"]
    plain = RR(**settings, device="cpu").fit(*rows)
    found = fit_on_gpus(RR(**settings, device="cuda"), rows, cupy, gpus=(0, 0))
    assert {shared.forest_.fingerprint() for shared in found} == {plain.forest_.fingerprint()}
    assert not gpus_used()
    with (
        sharing(Workers(Alone(), 0, len(X), len(X))),
        pytest.warns(HostGrowthWarning, match="grown by the host, not on cuda:0"),
    ):
        RR(**settings, device="cuda").fit(*rows)


@pytest.mark.parametrize("cls, y", [(RC, "classes"), (RR, "two"), (BR, "two")])
def test_too_little_memory(cls, y, cupy, monkeypatch):
    """The error has the sizes of what would come to the GPU, before anything is there."""
    monkeypatch.setattr(strict_cupy.state, "memory", (200_000, 2**30))
    settings = {"estimator": None} if cls is BR else {}
    message = (
        "of which a worker reads 6,500 rows, on cuda:0 takes about .*target and weights .*bins "
        ".*; 195 KiB are free of 1 GiB"
    )
    with (
        sharing(Workers(Alone(), 0, len(X), len(X))),
        pytest.raises(MemoryError, match=message),
    ):
        cls(device="cuda", **settings).fit(X, TARGETS[y])
    assert gpus_used() == ({0} if cls is BR else set())  # a bag has brought its own targets there


def test_the_plan_of_a_workers_gpu(cupy):
    """All bins and targets come there; what is read, and scored, stays on the host."""
    model = RC(oob_score=True, device="cuda")
    plan = memory_plan(model, (1_000_000, 28), n_workers=3)
    assert plan.device.is_gpu and plan.fits
    assert plan.parts["bins"] == 28 * 1_000_000
    assert plan.parts["target and weights"] == 24 * 1_000_000
    for name in ("table", "columns to bin", "out-of-bag sums", "trees"):
        assert plan.parts[name] == 0
    exact = memory_plan(RC(max_bins=None, device="cuda"), (1_000_000, 28), n_workers=3)
    assert exact.parts["bins"] == 4 * 28 * 1_000_000
    on_host = memory_plan(RC(device="cpu"), (1_000_000, 28), n_workers=3)
    assert not on_host.device.is_gpu and on_host.parts["columns to bin"] > 0
