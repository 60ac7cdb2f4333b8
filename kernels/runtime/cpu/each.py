"""Items shared among threads (contract: ``kernels.runtime.each``)."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..arrays import Array
from .team import get_threads, run, threads_for, using_threads


def each(function: Callable[[Any], Any], items: Sequence[Any], array: Array) -> list[Any]:
    n_threads = min(get_threads(), len(items))
    # Arrays that are large enough for all threads are shared by them one item after the other.
    if n_threads <= 1 or threads_for(array.size) == get_threads():
        return [function(item) for item in items]
    results: list[Any] = [None] * len(items)
    queue = itertools.count()
    # Settings of the calling thread hold in the others, too.
    contexts = [contextvars.copy_context() for _ in range(n_threads)]

    def take() -> None:
        with using_threads(1):
            while (k := next(queue)) < len(items):
                results[k] = function(items[k])

    def worker(thread: int, n_threads: int, barrier: Any) -> None:
        contexts[thread].run(take)

    run(worker, n_threads)
    return results
