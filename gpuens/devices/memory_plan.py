"""Memory: what is free, and a plan of what training takes, part by part."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..kernels.runtime.dtypes import ROW_ALIGNMENT
from ..kernels.runtime.system import return_free_heap
from .placement import Device

FOREST_NODE_BYTES = 70
"""Bytes of a node in a finished forest, without its values."""
LIKELY_SHARE = 0.2
"""Usual share of the largest number of leaves that the rows and the depth of a tree allow."""
WORKING_SHARE = 1 / 8
"""Temporary arrays by share of the rest (peaks on the CPU were 0.8 to 1.5 times the sum)."""
ADVICE = {
    "table": "float32 values instead of float64, fewer rows or fewer features",
    "histograms": "fewer features, or a smaller max_leaf_nodes or max_depth",
    "tables of nodes": "a smaller max_leaf_nodes or max_depth, or a larger min_samples_leaf",
    "records and growing nodes": "fewer rows or classes, or a smaller max_leaf_nodes or max_depth",
    "trees": "a smaller n_estimators, max_leaf_nodes or max_depth",
    "evaluation sets": "fewer rows in eval_set",
}
"""Advice on making a part smaller, other than by fewer rows or features."""


@dataclass(frozen=True)
class MemoryPlan:
    """The memory that training takes at its peak.

    Parameters
    ----------
    task : str
        Description of the training, for messages.
    device : Device
    parts : dict of str to int
        Bytes of each part.
    free, capacity : int or None
        Bytes that are free on the device, and in all. Free memory is unknown (None) with custom
        allocators, the capacity is None for the host.
    streams : bool
        Whether a table in a file, or on a GPU any ``BinnedTable``, is read in the order of its
        rows, because it does not fit into memory beside the rest.
    n_resident : int
        Rows of such a table that stay in the device's memory. The others are read in each step of
        growth.
    in_pieces : bool
        Whether the gradients of such a table are computed again, piece by piece, wherever they are
        needed, because those of all rows would take the memory of rows.
    """

    task: str
    device: Device
    parts: dict[str, int]
    free: int | None
    capacity: int | None
    streams: bool = False
    n_resident: int = 0
    in_pieces: bool = False

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Return whether enough memory is free, or free memory is unknown."""
        return self.free is None or self.total <= self.free

    def __str__(self) -> str:
        """Describe the plan in one line: the sum, its parts from the largest, and free memory."""
        ordered = sorted(self.parts.items(), key=lambda part: -part[1])
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in ordered if size)
        card = "" if self.capacity is None else format_bytes(self.capacity)
        if self.free is None:
            free = f"; it has {card}" if card else ""
        else:
            free = f"; {format_bytes(self.free)} are free" + (f" of {card}" if card else "")
        return (
            f"{self.task} on {self.device} takes about {format_bytes(self.total)} ({parts}){free}"
        )

    def __repr__(self) -> str:
        return f"<MemoryPlan: {self}>"

    def require(self) -> None:
        """Raise MemoryError, with the numbers and advice, if the training does not fit."""
        if self.free is not None and self.total > self.free:
            raise MemoryError(f"{self}. {self._too_large()}{self._advice()}")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Add the plan to a MemoryError from inside the block."""
        try:
            yield
        except MemoryError as error:
            raise MemoryError(
                f"Out of memory during training ({error}). The plan was: {self}. "
                f"{self._too_large() or 'Close other programs that hold memory there. '}"
                f"{self._advice()}"
            ) from error

    def _too_large(self) -> str:
        if self.capacity is None or self.total <= self.capacity:
            return ""
        if self.streams:
            return f"That is more than {self.device} has in all, the rows left on the host apart. "
        return (
            f"That is more than {self.device} has in all, where only gradient boosting on a "
            "gpuens.BinnedTable does without all the rows. "
        )

    def _advice(self) -> str:
        largest = max(self.parts, key=lambda name: self.parts[name])
        change = ADVICE.get(largest, "fewer rows or fewer features")
        return f"Most of it is {largest}: pass or set {change}{self._elsewhere()}."

    def _elsewhere(self) -> str:
        return "" if self.capacity is None else ", or use device='cpu'"


def plan_of(
    task: str, device: Device, parts: dict[str, int], free: int | None, capacity: int | None
) -> MemoryPlan:
    """Return the plan of some parts and of the working arrays that they need."""
    parts["working arrays"] = int(WORKING_SHARE * sum(parts.values()))
    return MemoryPlan(task, device, parts, free, capacity)


def row_bytes(n_features: int) -> int:
    """Return the bytes of a row's bins, where they are kept by rows."""
    return -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT


def code_bytes(n_features: int) -> int:
    """Return the bytes of a row's bins, which are kept by rows and by columns."""
    return row_bytes(n_features) + n_features


def return_freed_memory() -> None:
    """Return memory that has been freed to the system: glibc and pyarrow keep much of it for what
    the same threads may need later."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    return_free_heap()


def format_bytes(n: float) -> str:
    """Write a number of bytes with a unit."""
    power = min(4, int(np.log2(max(n, 1)) // 10))
    return f"{n / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
