"""A plan of the memory that training takes, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..kernels.runtime.dtypes import ROW_ALIGNMENT
from .memory import format_bytes
from .placement import Device

FOREST_NODE_BYTES = 70
"""Of a node in a finished forest, without its values."""


LIKELY_SHARE = 0.2
"""Of the leaves that a tree has at most by its rows and depth, the share that it has as a rule."""


WORKING_SHARE = 1 / 8
"""Of all else: what is taken for a moment (peaks on the CPU were 0.8 to 1.5 times the sum)."""


ADVICE = {
    "table": "float32 values instead of float64, fewer rows or fewer features",
    "histograms": "fewer features, or a smaller max_leaf_nodes or max_depth",
    "tables of nodes": "a smaller max_leaf_nodes or max_depth, or a larger min_samples_leaf",
    "trees": "a smaller n_estimators, max_leaf_nodes or max_depth",
    "evaluation sets": "fewer rows in eval_set",
}
"""What lessens a part, where that is not fewer rows or features."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that training takes at its peak.

    Parameters
    ----------
    task : str
        What is trained on what, for messages.
    device : Device
        Where it would be trained.
    parts : dict of str to int
        Bytes by what takes them.
    free, capacity : int or None
        Bytes that are free on the device, and that it has; None where nobody says.
    """

    task: str
    device: Device
    parts: dict[str, int]
    free: int | None
    capacity: int | None

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether so much is free, as far as is known."""
        return self.free is None or self.total <= self.free

    def __str__(self) -> str:
        """One line: the sum, its parts, the largest first, and what is free."""
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
        """Refuse what does not fit.

        Raises
        ------
        MemoryError
            With the numbers, and what to change.
        """
        if self.fits:
            return
        raise MemoryError(f"{self}. {self._too_large()}{self._advice()}")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Add the plan to the error if the memory ends all the same inside the block.

        Raises
        ------
        MemoryError
        """
        try:
            yield
        except MemoryError as error:
            raise MemoryError(
                f"The memory ended during the training ({error}). The plan was: {self}. "
                f"{self._too_large() or 'Close other programs that hold memory there. '}"
                f"{self._advice()}"
            ) from error

    def _too_large(self) -> str:
        if self.capacity is None or self.total <= self.capacity:
            return ""
        return (
            f"That is more than {self.device} has at all, and training from the disk or in parts "
            "is not supported yet. "
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
    """Return the plan of some parts, with the working arrays that they need besides."""
    parts["working arrays"] = int(WORKING_SHARE * sum(parts.values()))
    return MemoryPlan(task, device, parts, free, capacity)


def code_bytes(n_features: int) -> int:
    """Bytes of a row's bins: beside each other, and once more by columns."""
    return -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT + n_features


def on_host_only(capacity: int | None, size: int) -> int:
    """Finished trees, which are joined in a copy, are in the memory of the host: 0 where the plan
    is that of a GPU."""
    return size if capacity is None else 0
