"""Asynchronous copies of results to the host (contract: ``kernels.runtime.fetch``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .target import cupy_stream, is_simulated


class Fetched:
    """The values that a device array has once the stream comes to this point.

    The copy goes to pinned memory, where the device can write by itself.
    """

    def __init__(self, array: Any) -> None:
        self._done: Any = None
        if is_simulated():
            self._values = np.array(array)
            return
        import cupyx

        stream = cupy_stream()
        self._values = cupyx.empty_pinned(array.shape, array.dtype)
        self._source = array  # as long as the copy is under way
        array.get(stream=stream, out=self._values, blocking=False)
        self._done = stream.record()

    @property
    def is_here(self) -> bool:
        """Whether they are known to have arrived; in the simulator they always have."""
        return self._done is None

    def wait(self) -> np.ndarray:
        """The values, once they have arrived."""
        if self._done is not None:
            self._done.synchronize()
            self._done = self._source = None
        return self._values

    def __del__(self) -> None:
        """Pinned memory is handed out again at once, so nothing may be written to it any more."""
        if getattr(self, "_done", None) is not None:
            self._done.synchronize()


def fetch(array: Any) -> Callable[[], np.ndarray]:
    return Fetched(array).wait
