"""Calls for each of several items, such as the outputs of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .arrays import Array
from .collective import ONE_WORKER, Workers
from .dispatch import implementation


def each(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    array: Array,
    workers: Workers = ONE_WORKER,
) -> list[Any]:
    """Return ``[function(item) for item in items]``; on the CPU some items at the same time.

    Where an item alone has too little work for all threads, each thread takes items of its own.

    Parameters
    ----------
    function : callable
        Calls for different items must not write to the same arrays.
    items : sequence
    array : array
        One of the arrays that a call works on: its size is the work of an item.
    workers : Workers
        Those that meet in the calls, each of which must make them in the same order.

    Returns
    -------
    list
        In the order of the items.
    """
    if len(items) == 1 or workers is not ONE_WORKER:
        return [function(item) for item in items]
    return implementation(__name__, array).each(function, items, array)
