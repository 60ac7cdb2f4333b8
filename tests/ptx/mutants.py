"""Compiled kernels with one fault each, on launches recorded from real work.

A mutant is what a slip in a kernel would be compiled to: a barrier that is missing, an atomic
addition that is not one, an address that is one element off, a guard that is missing, an array
that is too short by an element. It is found if the machine reports it, or if the results are not
those of the kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.ptx import checks, machine
from tests.ptx.parse import BITS, Instruction, Program

ALIGNMENT = 256
FUEL = 5_000_000
BLOCKS = 2
ORDERS: tuple[tuple[str, int], ...] = (("random", 1), ("reversed", 0), ("plain", 0))


@dataclass
class Result:
    """What is left of a launch: the bytes of all arrays, faults by kind and array, and how far
    each array has been touched."""

    content: np.ndarray
    faults: set[tuple[str, str]]
    touched: list[int]


@dataclass
class Recording:
    """A launch: its kernel and arguments, and the memory that its pointers lead to before it.

    ``extents`` has the regions that overlap together, ``before`` the bytes of each extent.
    """

    kernel: machine.Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes
    shared: int
    regions: list[checks.Region]
    extents: list[list[int]]
    before: list[np.ndarray]

    def start_of(self, extent: list[int]) -> int:
        return min(self.regions[k].address for k in extent)

    def run(
        self,
        kernel: machine.Kernel,
        order: str,
        seed: int,
        sizes: dict[int, int] | None = None,
        measured: bool = False,
    ) -> Result:
        """Run a kernel on copies of the arrays, some of which may have other sizes; ``measured``
        fills in ``touched``.

        Few blocks share the work, so that each has several pieces of it.
        """
        regions: list[Any] = [None] * len(self.regions)
        words = bytearray(self.parameters)
        copies = []
        for extent, before in zip(self.extents, self.before, strict=True):
            held = np.zeros(len(before) + 2 * ALIGNMENT, np.uint8)
            skipped = (self.start_of(extent) - held.ctypes.data) % ALIGNMENT
            copy = held[skipped : skipped + len(before)]
            copy[:] = before
            copies.append(copy)
            for k in extent:
                regions[k] = self._moved(k, copy.ctypes.data - self.start_of(extent), words)
        for k, size in (sizes or {}).items():
            regions[k].size = size
        faults: set[tuple[str, str]] = set()
        grid = (min(self.grid[0], BLOCKS), *self.grid[1:])
        try:
            kernel.launch(
                grid, self.block, bytes(words), shared=self.shared, order=order, seed=seed,
                memory=checks.Memory(regions, measured), fuel=FUEL,
            )  # fmt: skip
        except checks.MachineFault as error:
            faults = {(fault.kind, fault.array) for fault in error.faults}
        content = np.concatenate([*copies, np.empty(0, np.uint8)])
        return Result(content, faults, [region.touched for region in regions])

    def _moved(self, k: int, distance: int, words: bytearray) -> checks.Region:
        """Return a region moved to its copy, and let its pointer lead there."""
        region = self.regions[k]
        written = None if region.initialised is None else region.initialised.copy()
        pointer = ctypes.c_uint64.from_buffer(words, region.pointer)
        pointer.value += distance
        return replace(region, address=region.address + distance, initialised=written)


@contextlib.contextmanager
def recording(most: int) -> Iterator[dict[str, list[Recording]]]:
    """Record the first launches of every kernel inside the block, by a kernel's name and size."""
    recordings: dict[str, list[Recording]] = {}
    launch = machine.Kernel.launch

    def recorded(
        kernel: machine.Kernel, grid: Any, block: Any, parameters: bytes, **more: Any
    ) -> None:
        key = f"{kernel.program.short_name}, {len(kernel.program.instructions)} instructions"
        found = recordings.setdefault(key, [])
        if len(found) < most:
            found.append(_recorded(kernel, grid, block, parameters, **more))
        with contextlib.suppress(checks.MachineFault):  # other tests are about these
            launch(kernel, grid, block, parameters, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.Kernel, "launch", recorded)
        yield recordings


def _recorded(
    kernel: machine.Kernel,
    grid: Any,
    block: Any,
    parameters: bytes,
    *,
    memory: checks.Memory,
    shared: int = 0,
    **more: Any,
) -> Recording:
    extents, before = checks.overlapping(memory.regions), []
    for extent in extents:
        regions = [memory.regions[k] for k in extent]
        start = min(region.address for region in regions)
        size = max(region.address + region.size for region in regions) - start
        before.append(np.frombuffer(ctypes.string_at(start, size), np.uint8))
    regions = [
        replace(
            region, initialised=None if region.initialised is None else region.initialised.copy()
        )
        for region in memory.regions
    ]
    return Recording(kernel, grid, block, parameters, shared, regions, extents, before)


@dataclass(frozen=True)
class Mutant:
    """A kernel with a fault: its PTX, or an array with the size that is too small.

    ``probe`` is PTX that does not end if the changed instruction has an effect, where that is not
    certain from its being executed.
    """

    kind: str
    where: str
    ptx: str = ""
    shortened: int = -1
    size: int = 0
    probe: str = ""


class Subject:
    """A kernel with the one of its recorded launches that executes most of it.

    What the kernel itself is reported for, and bytes that depend on the order of the threads,
    count for nothing.
    """

    def __init__(self, recordings: list[Recording]) -> None:
        kernel = recordings[0].kernel
        self.program, self.ptx, self.entry = kernel.program, kernel.ptx, kernel.name
        counting = machine.load(self.ptx, self.entry, watch=True, count=True)
        covered = []
        for recording in recordings:
            counting.counts[:] = 0
            recording.run(counting, *ORDERS[0])
            covered.append(counting.counts > 0)
        # The last of the best: arrays hold most then.
        best = max(range(len(covered)), key=lambda k: (covered[k].sum(), k))
        self.recording = recordings[best]
        self.executed = [
            number
            for block, is_executed in zip(self.program.blocks, covered[best], strict=True)
            for number in range(block.first, block.end)
            if is_executed
        ]
        orders = (*ORDERS, ("random", 9))
        results = [self.recording.run(kernel, *order, measured=True) for order in orders]
        self.content, self.touched = results[0].content, results[0].touched
        self.is_stable = np.logical_and.reduce([r.content == self.content for r in results])
        self.known = set().union(*(result.faults for result in results))

    def mutants(self) -> Iterator[Mutant]:
        """Yield all mutants of the instructions that the launch executes, and of its arrays."""
        for number in self.executed:
            instruction = self.program.instructions[number]
            where = f"line {instruction.line}: {instruction}"
            for kind, text, probe in _changes(self.program, number):
                ptx, probe = self._with(instruction, text), probe and self._with(instruction, probe)
                yield Mutant(kind, where, ptx, probe=probe)
        for k, region in enumerate(self.recording.regions):
            size = self.touched[k] - (region.granule or 1)
            if size >= 0:
                yield Mutant("short array", region.name, shortened=k, size=size)

    def _with(self, instruction: Instruction, text: str) -> str:
        """Return the PTX with another text in the place of an instruction."""
        lines = self.ptx.splitlines()
        line = lines[instruction.line - 1]
        start = line.index("@" if instruction.guard else instruction.opcode)
        lines[instruction.line - 1] = line[:start] + text + line[line.index(";", start) + 1 :]
        return "\n".join(lines)

    def notices(self, mutant: Mutant) -> bool | None:
        """Return whether a mutant is found, or None where it changes nothing in this launch."""
        if mutant.shortened >= 0:
            kernel, sizes = self.recording.kernel, {mutant.shortened: mutant.size}
        else:
            kernel, sizes = machine.load(mutant.ptx, self.entry, watch=True, keep=False), {}
        for order in ORDERS:
            result = self.recording.run(kernel, *order, sizes)
            if result.faults - self.known:
                return True
            if not (result.content == self.content)[self.is_stable].all():
                return True
        if mutant.probe:
            probing = machine.load(mutant.probe, self.entry, watch=True, keep=False)
            if not self.recording.run(probing, *ORDERS[0]).faults - self.known:
                return None
        return False


def _changes(program: Program, number: int) -> Iterator[tuple[str, str, str]]:
    """Yield kinds of faults, what they put in the place of an instruction, and probes."""
    instruction = program.instructions[number]
    access = instruction.access
    if instruction.is_barrier:
        yield "no barrier", "", ""
    elif instruction.name == "bra" and instruction.guard:
        if program.target_of(instruction) > number and _guards_a_write(program, number):
            guard = f"@{'!' if instruction.negated else ''}{instruction.guard}"
            yield "no guard", "", f"$probe: {guard} bra $probe;"
    elif access is not None and access.space != "param" and instruction.guard is None:
        if access.kind == "atomic" and "add" in instruction.parts:
            yield "not atomic", _plainly(instruction, access.space), ""
        address = next(operand for operand in instruction.operands if operand.startswith("["))
        moved = _moved(address, access.width)
        operands = [moved if operand == address else operand for operand in instruction.operands]
        changed = f"{instruction.opcode} {', '.join(operands)};"
        yield f"{access.space} {access.kind} off by one", changed, ""


def _guards_a_write(program: Program, number: int) -> bool:
    """Return whether the instructions right after a branch write to arrays."""
    (after,) = (block for block in program.blocks if block.first == number + 1)
    accesses = (program.instructions[k].access for k in range(after.first, after.end))
    return any(access and access.kind != "read" for access in accesses)


def _moved(address: str, distance: int) -> str:
    match = re.match(r"\[([^+\]]+)(?:\+(-?\d+))?\]", address)
    assert match is not None, address
    return f"[{match[1]}+{int(match[2] or 0) + distance}]"


def _plainly(instruction: Instruction, space: str) -> str:
    """Return a load, an addition and a store in place of an atomic addition."""
    target, address, value = instruction.operands
    kind, bits = instruction.type, BITS[instruction.type]
    where = "" if space == "generic" else f".{space}"
    return (
        f"{{ .reg .b{bits} %old, %new; ld{where}.{kind} %old, {address}; "
        f"add.{kind} %new, %old, {value}; st{where}.{kind} {address}, %new; "
        f"mov.{kind} {target}, %old; }}"
    )
