"""A function of each of several items, such as the outputs of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .dispatch import implementation


def each(function: Callable[[Any], Any], items: Sequence[Any], array: Any) -> list[Any]:
    """``[function(item) for item in items]``, on the CPU some of them at the same time.

    Items of too little work to keep all threads busy one at a time go to one thread each, so that
    operations on short arrays share the machine too.

    Parameters
    ----------
    function : callable
        Calls for different items must not write to the same arrays.
    items : sequence
    array : array
        One of those that a call works on: its size is the work of an item.

    Returns
    -------
    list
        In the order of the items.
    """
    return implementation(__name__, array).each(function, items, array)
