"""Sums over the GPUs of a ring by NVIDIA's library NCCL, as CuPy offers it.

The ring stays: it carries everything that is on the host, the name of the communicator, and the
news of a lost worker, which NCCL would wait for without end. Where some worker's CuPy has no NCCL,
or another version of it, arrays of GPUs pass through the hosts.
"""

from __future__ import annotations

import importlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import objects_among
from ..kernels.runtime.fetch import fetch
from .ring import GRACE, Ring

MOMENT = 5e-5
"""Seconds between two looks at whether what is waited for is there."""


class RingOfGPUs(Ring):
    """A ring of processes that may have a GPU each (parameters: those of ``Ring``). The
    communicator is made for the first sum, by all workers together."""

    _communicator: Any = None
    _is_asked = False

    def sum_to_host(self, values: Array) -> np.ndarray:
        if isinstance(values, np.ndarray):  # of workers on the CPU
            return super().sum_to_host(values)
        if not self._is_asked:
            self._communicator, self._is_asked = communicator_of(self), True
        if self._communicator is None:
            return super().sum_to_host(values)
        add_in_place(self._communicator, values, self)
        return fetch(values)()

    def close(self) -> None:
        communicator, self._communicator = self._communicator, None
        if communicator is not None:
            communicator.abort()  # `destroy` would wait for the other workers
        super().close()


def nccl_of_cupy() -> Any:
    """Return CuPy's module of NCCL, or None if there is none."""
    try:
        nccl = importlib.import_module("cupy.cuda.nccl")
    except ImportError:
        return None
    return nccl if getattr(nccl, "available", True) else None


def communicator_of(ring: Ring) -> Any:
    """Return a communicator of the current GPUs of all workers; None unless all have the same
    version of NCCL. Raises a WorkerLostError if a worker is gone, or its NCCL has failed."""
    nccl = nccl_of_cupy()
    version = 0 if nccl is None else int(nccl.get_version())
    name = nccl.get_unique_id() if nccl is not None and ring.rank == 0 else None
    found = objects_among((version, name), ring)
    if version == 0 or any(other != version for other, _ in found):
        return None
    return _connected(lambda: nccl.NcclCommunicator(ring.size, found[0][1], ring.rank), ring)


def _connected(connect: Callable[[], Any], ring: Ring) -> Any:
    """Return what ``connect`` returns, which waits for all workers, without end for one whose own
    call has failed: a thread of its own calls it, and is left behind where a worker is lost."""
    import cupy

    device, made = cupy.cuda.Device(), Future[Any]()

    def run() -> None:
        with device:
            try:
                made.set_result(connect())
            except BaseException as error:
                made.set_exception(error)

    threading.Thread(target=run, name="gpuens-nccl", daemon=True).start()
    try:
        _wait(made.done, ring, "while NCCL connected the GPUs")
    except BaseException:
        made.add_done_callback(_abort)
        raise
    return made.result()


def _abort(made: Future[Any]) -> None:
    """Give up a communicator that is ready too late."""
    if made.exception() is None:
        made.result().abort()


def _wait(is_done: Callable[[], bool], ring: Ring, when: str) -> None:
    """Wait until something is done, or raise a WorkerLostError."""
    last = math.inf
    while not is_done():
        if last == math.inf and ring.has_lost_one():
            last = time.monotonic() + GRACE  # it may have finished, with what is waited for
        if time.monotonic() > last:
            ring.give_up(ConnectionError(when))
        time.sleep(MOMENT)


def add_in_place(communicator: Any, values: Array, ring: Ring) -> None:
    """Replace integers on each GPU by their sum over all GPUs. Raises a WorkerLostError if a worker
    is gone. The sum is given up."""
    import cupy

    nccl = importlib.import_module("cupy.cuda.nccl")
    kinds = {np.dtype(np.int32): nccl.NCCL_INT32, np.dtype(np.int64): nccl.NCCL_INT64}
    stream = cupy.cuda.get_current_stream()
    place = values.data.ptr  # type: ignore[attr-defined]
    kind = kinds[np.dtype(values.dtype)]
    communicator.allReduce(place, place, values.size, kind, nccl.NCCL_SUM, stream.ptr)
    added = stream.record()
    _wait(lambda: bool(added.done), ring, "while its GPU was waited for")
