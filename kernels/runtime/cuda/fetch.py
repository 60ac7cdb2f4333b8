"""Copies of results to the host through pinned memory, which the device can write by itself
(contract: ``kernels.runtime.fetch``)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..arrays import Array
from .chunks import copy_among
from .target import cupy_stream, download, is_simulated

PIECE_BYTES = 32 * 2**20
"""Bytes of a piece of a large array. Pinned memory is given out in powers of two."""


class Fetched:
    """The values of a device array at this point of the stream."""

    def __init__(self, array: Array) -> None:
        self._done: Any = None
        if is_simulated():
            self._values = np.array(array)
            return
        import cupyx

        stream = cupy_stream()
        self._values = cupyx.empty_pinned(array.shape, array.dtype)
        self._source = array  # as long as the copy is under way
        # Without waiting: the copy is ordered behind what the stream has been given so far.
        array.get(stream=stream, out=self._values, blocking=False)
        self._done = stream.record()

    @property
    def is_here(self) -> bool:
        """Return whether the values have arrived, as far as is known; in the simulator always."""
        return self._done is None

    def wait(self) -> np.ndarray:
        """Wait for the values and return them."""
        if self._done is not None:
            self._done.synchronize()
            self._done = self._source = None
        return self._values

    def __del__(self) -> None:
        """Wait for the copy: the pinned memory is used again at once, and must not be written
        to."""
        if getattr(self, "_done", None) is not None:
            self._done.synchronize()


def fetch(array: Array) -> Callable[[], np.ndarray]:
    return Fetched(array).wait


def download_in_pieces(array: Array, n_threads: int) -> np.ndarray:
    """Return the values of a contiguous device array, once the stream has produced them.

    Threads of the host take a piece out of pinned memory while the next one arrives: a copy to
    other memory would go through a single buffer of the driver's. Not measured on hardware.
    """
    if array.nbytes <= PIECE_BYTES or is_simulated():
        return download(array)
    values = np.empty(array.shape, array.dtype)
    here, there = values.reshape(-1), array.reshape(-1)
    step = PIECE_BYTES // values.itemsize
    with ThreadPoolExecutor(n_threads) as threads:
        coming = Fetched(there[:step])
        for first in range(0, here.size, step):
            arrived, behind = coming.wait(), first + step
            if behind < here.size:
                coming = Fetched(there[behind : behind + step])
            copy_among(threads, n_threads, here[first:behind], arrived)
    return values
