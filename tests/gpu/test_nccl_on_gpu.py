"""NCCL on the GPUs of this machine: a communicator of all of them, be it a single one."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from gpuens.cluster.nccl import add_in_place, communicator_of, nccl_of_cupy
from gpuens.cluster.rendezvous import Place, join_ring, open_listener

pytestmark = [pytest.mark.gpu, pytest.mark.hardware]
HOST, PATIENCE = "127.0.0.1", 60.0


def test_sums_of_all_gpus(cupy):
    if nccl_of_cupy() is None:
        pytest.skip("needs NCCL: this CuPy has none")
    n_gpus = cupy.cuda.runtime.getDeviceCount()
    listeners = [open_listener(HOST) for _ in range(n_gpus)]
    addresses = [listener.getsockname()[:2] for listener in listeners]
    found: list[Any] = [None] * n_gpus

    def work(rank: int) -> None:
        place = Place(rank, addresses, "token")
        with join_ring(place, listeners[rank], 30.0, PATIENCE) as ring, cupy.cuda.Device(rank):
            communicator = communicator_of(ring)
            sums = []
            for dtype in (np.int32, np.int64):
                values = cupy.arange(100_000, dtype=dtype) * (rank + 1)
                add_in_place(communicator, values, ring)
                sums.append(cupy.asnumpy(values))
            found[rank] = sums
            communicator.destroy()

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(n_gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    expected = np.arange(100_000) * (n_gpus * (n_gpus + 1) // 2)
    for sums in found:
        assert sums is not None, "a worker hangs or has failed"
        for total in sums:
            np.testing.assert_array_equal(total, expected)
