"""What a watched launch checks, and how faults are reported.

Every access to memory is compared with the array that its address was computed from: it must lie
within, be aligned, not write what is read-only, not read what nobody has written, and not race with
other threads (see ``shadow``). Accesses that are not possible go to scratch memory, so that a
kernel goes on and reports all of its faults at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from . import native, shadow
from .context import SHARED_TAGS, SPACES, TAG, Word
from .parse import Program

WIDEST = 16
"""Bytes of the widest access."""
MOST_SHOWN = 8
"""Faults in the text of an error."""
UNORDERED, ENDLESS = "threads wait at different barriers", "the kernel does not end"


@dataclass
class Region:
    """An array of a launch, into which one of the pointers in the parameters leads.

    Parameters
    ----------
    address, size : int
        Where it is on the host, in bytes. The bytes may belong to several regions.
    name : str
        For reports.
    pointer : int
        The offset of its pointer in the parameter block.
    writable : bool, default True
    granule : int, optional
        A power of two: accesses to the same so many bytes touch each other. The size of the
        smallest field is right. By default it is the width of the kernel's narrowest access.
    initialised : uint8 array of length ``size``, optional
        Not 0 where a byte has been written; kept up to date. By default everything has.
    touched : int
        Set by a launch whose memory is ``measured``: the bytes up to the last granule that it has
        read or written.
    """

    address: int
    size: int
    name: str
    pointer: int
    writable: bool = True
    granule: int | None = None
    initialised: np.ndarray | None = None
    touched: int = 0


@dataclass
class Memory:
    """The arrays of a launch. Pointers in the parameters that none of them names must not be
    followed. ``measured`` asks how far each array is touched, for which all shadows are read."""

    regions: list[Region] = field(default_factory=list)
    measured: bool = False


@dataclass(frozen=True)
class Fault:
    """Something that a kernel must not do, and how often the same instruction did it.

    ``offset`` counts bytes from the start of the array; ``other`` is the number of the thread that
    a race is with, if it is one thread.
    """

    kind: str
    line: int
    instruction: str
    block: int
    thread: int
    array: str = ""
    offset: int = 0
    times: int = 1
    other: int | None = None

    def __str__(self) -> str:
        where = f" at byte {self.offset} of {self.array}" if self.array else ""
        other = "" if self.other is None else f" with thread {self.other}"
        times = f", {self.times} times" if self.times > 1 else ""
        return (
            f"{self.kind}{where}{other}: block {self.block}, thread {self.thread}{times}, "
            f"line {self.line}: {self.instruction}"
        )


class MachineFault(Exception):  # noqa: N818 - it holds faults
    """A kernel did what it must not do.

    Attributes
    ----------
    kernel : str
    faults : list of Fault
    """

    def __init__(self, kernel: str, faults: list[Fault]) -> None:
        self.kernel, self.faults = kernel, faults
        shown = [str(fault) for fault in faults[:MOST_SHOWN]]
        if len(faults) > MOST_SHOWN:
            shown.append(f"and {len(faults) - MOST_SHOWN} more")
        super().__init__("\n  ".join([f"{len(faults)} faults in {kernel}:", *shown]))


class Watch:
    """The tables of one launch: its regions by tag, their shadows, and the faults."""

    def __init__(
        self,
        program: Program,
        memory: Memory,
        context: np.ndarray,
        parameters: np.ndarray,
        frames: np.ndarray,
        dynamic: int,
    ) -> None:
        self.program, self.memory = program, memory
        self.names = ["", *(variable.name for variable in program.shared), "local memory"]
        self.first = len(self.names)
        self.names += [region.name for region in memory.regions]
        self.rows = np.zeros((len(self.names), shadow.N_COLUMNS), np.int64)
        self.kept: list[np.ndarray] = []
        """Arrays whose addresses are in the tables."""
        self.shadows: list[tuple[Region, np.ndarray, int]] = []
        self._add_shared(int(context[Word.SHARED]), dynamic)
        local_at = frames.shape[1] - program.local_bytes_in_frame
        start = frames.ctypes.data + local_at
        self.rows[self.first - 1, : shadow.SPACE + 1] = (
            start, start + program.local_bytes, SPACES.index("local")
        )  # fmt: skip
        self.rows[self.first - 1, shadow.ORIGIN] = frames.shape[1]
        self._add_regions(parameters)
        self.found = np.zeros((shadow.MOST_FAULTS, 8), np.int64)
        self.scratch = np.zeros(WIDEST, np.uint8)
        self.context = context
        context[Word.CHECK] = shadow.check.address
        context[Word.REGIONS], context[Word.N_REGIONS] = self.rows.ctypes.data, len(self.rows)
        context[Word.FAULTS] = self.found.ctypes.data
        context[Word.SCRATCH] = self.scratch.ctypes.data

    def _shadow(self, size: int, granule: int) -> np.ndarray:
        """Return an empty shadow."""
        cells = np.zeros((size // granule + 2, 2), np.int64)
        self.kept.append(cells)
        return cells

    def _narrowest(self, spaces: Iterable[str]) -> int:
        """Return the width of the program's narrowest access to some spaces."""
        widths = self.program.widths
        return min((widths[space] for space in spaces if space in widths), default=1)

    def _add_shared(self, base: int, dynamic: int) -> None:
        granule = self._narrowest(("shared", "generic"))
        if self.program.local or any(v.offset % granule for v in self.program.shared):
            granule = 1
        cells = self._shadow(self.program.shared_bytes + dynamic, granule)
        for k, variable in enumerate(self.program.shared):
            start = base + variable.offset
            end = start + (variable.size or dynamic)
            shift = granule.bit_length() - 1
            self.rows[SHARED_TAGS + k] = (
                start, end, SPACES.index("shared"), 1, shift, cells.ctypes.data, base, 0
            )  # fmt: skip

    def _add_regions(self, parameters: np.ndarray) -> None:
        """Enter the arrays, and tag the pointers to them."""
        narrowest = self._narrowest(("global", "generic"))
        words = parameters[: len(parameters) // 8 * 8].view(np.uint64)
        for together in overlapping(self.memory.regions):
            regions = [self.memory.regions[k] for k in together]
            origin = min(region.address for region in regions) & ~(WIDEST - 1)
            size = max(region.address + region.size for region in regions) - origin
            granule = min(region.granule or narrowest for region in regions)
            cells = self._shadow(size, granule)
            shift = granule.bit_length() - 1
            for k in together:
                region, tag = self.memory.regions[k], self.first + k
                written = 0
                if region.initialised is not None:
                    written = region.initialised.ctypes.data
                self.rows[tag] = (
                    region.address, region.address + region.size, SPACES.index("global"),
                    region.writable, shift, cells.ctypes.data, origin, written,
                )  # fmt: skip
                first = (region.address - origin) >> shift
                end = (region.address + region.size - origin + granule - 1) >> shift
                self.shadows.append((region, cells[first:end], granule))
                pointer = int(words[region.pointer // 8])
                if not region.address <= pointer <= region.address + region.size:
                    raise ValueError(
                        f"memory: parameter byte {region.pointer} does not lead into {region.name}."
                    )
                words[region.pointer // 8] |= np.uint64(tag << TAG)

    def faults(self) -> list[Fault]:
        """Return what has been found, and note how much of the arrays has been touched."""
        for region, cells, granule in self.shadows if self.memory.measured else ():
            reached = np.flatnonzero(cells.any(axis=1))
            region.touched = min(
                region.size, (int(reached[-1]) + 1) * granule if reached.size else 0
            )
        return [self._fault(row.tolist()) for row in self.found[: int(self.context[Word.N_FAULTS])]]

    def _fault(self, row: list[int]) -> Fault:
        instruction = self.program.instructions[row[shadow.INSTRUCTION]]
        other = row[shadow.OTHER]
        return Fault(
            kind=shadow.FAULTS[row[shadow.KIND]],
            line=instruction.line,
            instruction=str(instruction),
            block=row[shadow.BLOCK],
            thread=row[shadow.THREAD],
            array=self.names[row[shadow.ARRAY]],
            offset=row[shadow.OFFSET],
            times=row[shadow.TIMES],
            other=other if 0 <= other < shadow.MANY else None,
        )


def overlapping(regions: list[Region]) -> list[list[int]]:
    """Return the numbers of the regions, those together that share bytes, or a word of them."""
    groups: list[list[int]] = []
    end = -1
    for k in sorted(range(len(regions)), key=lambda k: regions[k].address):
        region = regions[k]
        if not groups or region.address >= end:
            groups.append([])
        groups[-1].append(k)
        end = max(end, region.address + max(region.size, 1))
    return groups


def faults_of_end(program: Program, ended: int, block: int, points: np.ndarray) -> list[Fault]:
    """Return the fault that ended a launch, if one did."""
    if ended == native.STOPPED:
        return [Fault(ENDLESS, 0, "", block, 0)]
    if ended == native.ENDED:
        return []
    faults = []
    for point in np.unique(points[points > 0]):
        thread, times = int(np.argmax(points == point)), int(np.sum(points == point))
        instruction = program.instructions[program.barriers[point - 1]]
        faults.append(
            Fault(UNORDERED, instruction.line, str(instruction), block, thread, times=times)
        )
    return faults
