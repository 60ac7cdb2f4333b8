"""Asynchronous copies of results to the host (contract: ``kernels.runtime.fetch``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array
from .target import cupy_stream, is_simulated


class Fetched:
    """The values of a device array at this point of the stream.

    The copy goes to pinned memory, which the device can write by itself.
    """

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
