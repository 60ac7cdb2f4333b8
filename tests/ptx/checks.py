"""What a watched launch checks, and how faults are reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .parse import Program


@dataclass
class Region:
    """An array of a launch, which begins where one of the pointers in the parameters leads.

    Parameters
    ----------
    address, size : int
        Where it is on the host, in bytes. The bytes may belong to several regions.
    name : str
        For reports.
    pointer : int
        The offset of its pointer in the parameter block.
    writable : bool, default True
    granule : int, default 1
        A power of two: accesses to the same so many bytes touch each other. The size of the
        smallest field is right, 1 is always right and slow.
    initialised : uint8 array of length ``size``, optional
        Not 0 where a byte has been written; kept up to date. By default everything has.
    """

    address: int
    size: int
    name: str
    pointer: int
    writable: bool = True
    granule: int = 1
    initialised: np.ndarray | None = None


@dataclass
class Memory:
    """The arrays of a launch."""

    regions: list[Region] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """Something that a kernel must not do."""

    kind: str
    line: int
    instruction: str
    block: int
    thread: int
    array: str = ""
    offset: int = 0
    times: int = 1

    def __str__(self) -> str:
        where = f" {self.array}[byte {self.offset}]" if self.array else ""
        return (
            f"{self.kind}{where}: block {self.block}, thread {self.thread}, "
            f"line {self.line}: {self.instruction}"
        )


class MachineFault(Exception):  # noqa: N818 - it holds faults
    """A kernel did what it must not do."""

    def __init__(self, kernel: str, faults: list[Fault]) -> None:
        self.kernel, self.faults = kernel, faults
        super().__init__("\n  ".join([f"{len(faults)} faults in {kernel}:", *map(str, faults)]))


class Watch:
    """The checks of one launch."""

    def __init__(self, *arguments: Any) -> None:
        raise NotImplementedError

    def faults(self) -> list[Fault]:
        return []


def faults_of_end(
    program: Program, ended: int, block: int, points: np.ndarray, context: np.ndarray
) -> list[Fault]:
    """Return the fault that a launch ended with, if it did."""
    if ended == 0:
        return []
    kind = {1: "threads wait at different barriers", 2: "endless"}[ended]
    return [Fault(kind, 0, "", block, 0)]
