"""Tables that are read in the order of their rows, however small they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from gpuens.boosting.data import memory


@contextmanager
def streaming() -> Iterator[mock.Mock]:
    """Let boosting think that no table in a file, or on a GPU no binned one, fits into memory."""
    decision = mock.Mock(side_effect=lambda data, plan: data.can_stream)
    with mock.patch.object(memory, "exceeds_memory", decision):
        yield decision
