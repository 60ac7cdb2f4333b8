"""Sums over GPUs by NCCL beside a ring, with a stand-in for CuPy and its NCCL."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.cluster.nccl import RingOfGPUs
from gpuens.cluster.ring import WorkerLostError
from gpuens.kernels.runtime.collective import Workers, sharing
from tests.cluster.test_shared_rows import CUTS, TARGETS, X
from tests.support import strict_cupy
from tests.support.nccl_stand_in import NCCL
from tests.support.thread_workers import PATIENCE, cut, ring_of_threads

Y = TARGETS["reg"]


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return strict_cupy.install(monkeypatch, gpus=3)


@pytest.fixture
def nccl(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> NCCL:
    module = NCCL()
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", module)
    return module


def on_gpus(size: int, work: Any, cupy: Any) -> list[Any]:
    """Return the results, or errors, of ``work(ring)`` of a ring of threads with a GPU each."""

    def on_its_own(ring: RingOfGPUs) -> Any:
        with cupy.cuda.Device(ring.rank):
            return work(ring)

    return ring_of_threads(size, on_its_own, kind=RingOfGPUs)


def sums_of(size: int, cupy: Any) -> list[Any]:
    """Return the sums of arrays of two types that each worker has found."""

    def work(ring: RingOfGPUs) -> Any:
        own = [np.arange(7, dtype=dtype) + 10**ring.rank for dtype in (np.int32, np.int64)]
        return [ring.sum_to_host(cupy.asarray(values)).tolist() for values in own]

    return on_gpus(size, work, cupy)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_sums_are_those_of_all_gpus(size, cupy, nccl):
    ones = sum(10**rank for rank in range(size))
    expected = [size * k + ones for k in range(7)]
    assert sums_of(size, cupy) == [[expected, expected]] * size
    for rank in range(size):
        own = [(what, *args) for what, of, args in nccl.calls if of == rank]
        assert own == [
            ("begin", size), ("add", np.dtype(np.int32), 7), ("add", np.dtype(np.int64), 7),
            ("abort",),
        ]  # fmt: skip


def test_without_nccl_sums_pass_through_the_hosts(cupy):
    assert sums_of(2, cupy) == [[[2 * k + 11 for k in range(7)]] * 2] * 2


def test_so_they_do_where_versions_differ(cupy, nccl):
    versions = iter([22703, 22800])
    nccl.get_version = lambda: next(versions)
    assert sums_of(2, cupy) == [[[2 * k + 11 for k in range(7)]] * 2] * 2
    assert nccl.calls == []


def test_the_model_is_that_of_the_cpu(cupy, nccl):
    plain = GradientBoostingRegressor(n_estimators=3, device="cpu").fit(X, Y)
    ends = CUTS[3]
    pieces = cut((X, Y), ends)

    def work(ring: RingOfGPUs) -> Any:
        own = pieces[ring.rank]
        share = Workers(ring, [0, *ends][ring.rank], len(own[0]), ends[-1])
        with sharing(share):
            model = GradientBoostingRegressor(n_estimators=3, device="cuda").fit(*own)
        # What the kernels of growth on a GPU do: their operations run on the CPU here.
        built = cupy.full((2, 2, 3, 256), ring.rank + 1, dtype=np.int32)
        return model.forest_.fingerprint(), int(ring.sum_to_host(built).sum())

    expected = plain.forest_.fingerprint(), 6 * 2 * 2 * 3 * 256
    assert on_gpus(3, work, cupy) == [expected] * 3


@pytest.mark.parametrize("failing", [{0}, {1}, {0, 2}])
def test_a_worker_that_cannot_connect_its_gpu_ends_the_others(failing, cupy, nccl):
    """NCCL waits without end for the workers that never call it."""
    nccl.failing = failing
    for rank, error in enumerate(sums_of(3, cupy)):
        if rank in failing:
            assert "NCCL_ERROR_SYSTEM_ERROR" in str(error)
        else:
            assert isinstance(error, WorkerLostError)
            assert "is gone (while NCCL connected the GPUs)" in str(error)


def test_a_communicator_that_is_ready_too_late_is_given_up(cupy, nccl):
    nccl.failing = {1}
    sums_of(2, cupy)
    (group,) = nccl.groups.values()
    group.is_complete.set()
    deadline = time.monotonic() + PATIENCE
    while ("abort", 0, ()) not in nccl.calls and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert ("abort", 0, ()) in nccl.calls


def test_a_sum_is_given_up_when_a_worker_is_lost(cupy, nccl):
    def work(ring: RingOfGPUs) -> Any:
        ring.sum_to_host(cupy.ones(3, dtype=np.int64))
        if ring.rank == 1:
            raise RuntimeError("this worker fails")
        return ring.sum_to_host(cupy.ones(3, dtype=np.int64))

    first, second, third = on_gpus(3, work, cupy)
    assert "this worker fails" in str(second)
    assert isinstance(first, WorkerLostError) and isinstance(third, WorkerLostError)
    assert sorted(rank for what, rank, _ in nccl.calls if what == "abort") == [0, 1, 2]
