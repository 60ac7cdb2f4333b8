"""Warps, replayed from the traces of their threads: what a multiprocessor does in lockstep.

The machine runs threads one by one. Here the basic blocks that each thread of a warp went through
are put together again: threads part at a branch and meet where all ways join (at the branch's
immediate post-dominator), as the hardware's do. That gives, exactly for the traced blocks, how
often a warp issues each instruction, which sectors of memory and which banks it touches at a time,
and how long it takes if it has a multiprocessor to itself: an instruction starts when what it reads
is ready, a basic block when the branch before it is decided.

What is not exact: the first-level cache is taken to be direct-mapped and the block's own, and warps
pass through it one after the other.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .costs import Latency, slots_of
from .parse import Program

WARP = 32
PLAIN, READ, WRITE, ATOMIC, BARRIER, JUMP = range(6)
NO_SPACE, GLOBAL, SHARED = range(3)
KINDS = {"read": READ, "write": WRITE, "atomic": ATOMIC}
SECTOR, LINE, WORD, BANKS = 32, 128, 4, 32
CACHE_SECTORS = 4096
"""Of the first-level cache: 128 KB."""
RETRY = 6.0
"""Slots of a round of compare and swap."""
PASS = 2.0
"""Cycles that a pass of shared memory adds to an access."""


class Code(NamedTuple):
    """A program as arrays.

    Parameters
    ----------
    first, end, meet : int32, shape (n_blocks,)
        Instructions of each basic block, and the block where ways that part behind it join;
        ``n_blocks`` is the end of the kernel.
    kind, space, width : int8, shape (n_instructions,)
    retries : bool
        Atomic operations that the hardware does by compare and swap.
    slots, latency : float64
    target_begin, targets, source_begin, sources : int32
        Numbers of registers.
    n_registers : int
    """

    first: np.ndarray
    end: np.ndarray
    meet: np.ndarray
    kind: np.ndarray
    space: np.ndarray
    width: np.ndarray
    retries: np.ndarray
    slots: np.ndarray
    latency: np.ndarray
    target_begin: np.ndarray
    targets: np.ndarray
    source_begin: np.ndarray
    sources: np.ndarray
    n_registers: int


class Replayed(NamedTuple):
    """What the warps of some blocks did, by instruction.

    Parameters
    ----------
    warps, lanes : int64, shape (n_instructions,)
        Warps that issued it, and their threads that took part.
    passes : int64
        Of a shared access: over the banks, one after the other; of a global one: lines of 128
        bytes; of a global atomic operation: additions to a sector, one after the other.
    sectors : int64
        Of 32 bytes, in global memory.
    rounds : int64
        Of compare and swap.
    to_l2, to_memory : int64, shape (n_instructions, n_arrays + 1)
        Sectors that the second-level cache is asked for, and those of them that the block touches
        for the first time; the last column is for addresses in no array.
    cycles : float64, shape (n_blocks of threads,)
        Time of each block alone on a multiprocessor: between barriers, of its slowest warp.
    phases : int64, shape (n_blocks of threads,)
        Barriers, and the end.
    """

    warps: np.ndarray
    lanes: np.ndarray
    passes: np.ndarray
    sectors: np.ndarray
    rounds: np.ndarray
    to_l2: np.ndarray
    to_memory: np.ndarray
    cycles: np.ndarray
    phases: np.ndarray


class Trace(NamedTuple):
    """What the threads of one block did, thread after thread.

    Parameters
    ----------
    what : int32, shape (n_events,)
        Number of a basic block that is entered, or ``-1 - i`` for an access by instruction i.
    address : int64, shape (n_events,)
        Of the access; in shared memory counted from its begin.
    begin : int64, shape (n_threads + 1,)
        Where the events of each thread begin.
    """

    what: np.ndarray
    address: np.ndarray
    begin: np.ndarray


def trace_of(thread: np.ndarray, what: np.ndarray, address: np.ndarray, n_threads: int) -> Trace:
    """Sort the events of a block by thread; the order of each thread's own stays."""
    order = np.argsort(thread, kind="stable")
    begin = np.searchsorted(thread[order], np.arange(n_threads + 1))
    return Trace(what[order].astype(np.int32), address[order].astype(np.int64), begin)


def traces_of(program: Program, trace: Any, n_threads: int) -> list[Trace]:
    """Return the traces of single blocks from the events that the machine has kept.

    Raises
    ------
    ValueError
        Events are missing: warps cannot be put together from the others.
    """
    if trace.missed:
        raise ValueError(
            f"The trace has room for {trace.room:,} events, but the kernel {program.short_name} "
            f"has {trace.missed:,} more in the blocks that are traced. Trace fewer blocks or warps "
            "(blocks=..., warps=...), or give it more room (room=...)."
        )
    block, _, thread, event, address = trace.rows.T
    accesses = (each.access for each in program.instructions)
    shared = np.array([access is not None and access.space == "shared" for access in accesses])
    address = address - np.where((event >= 0) & shared[event], trace.shared, 0)
    found = []
    for number in trace.blocks:
        own = block == number
        found.append(trace_of(thread[own], -1 - event[own], address[own], n_threads))
    return found


@functools.cache
def code_of(program: Program, latency: Latency) -> Code:
    """Return the arrays of a program."""
    number = {name: k for k, name in enumerate(program.registers)}
    instructions = program.instructions
    used = {name for instruction in instructions for name in instruction.sources}
    kind = np.zeros(len(instructions), np.int8)
    space, width = np.zeros_like(kind), np.zeros_like(kind)
    retries, cycles = np.zeros(kind.size, np.bool_), np.zeros(kind.size)
    for i, instruction in enumerate(instructions):
        access = instruction.access
        if instruction.is_barrier:
            kind[i] = BARRIER
        elif access is None:
            kind[i] = JUMP if instruction.name in ("bra", "ret", "exit") else PLAIN
            cycles[i] = latency.of(instruction.opcode)
        elif access.space not in ("param", "local"):
            shared = access.space == "shared"
            kind[i], width[i] = KINDS[access.kind], access.width
            space[i] = SHARED if shared else GLOBAL
            if access.kind == "atomic":
                retries[i] = shared and access.width > WORD
                if used.intersection(instruction.targets):
                    cycles[i] = latency.atomic if shared else latency.far
            elif access.kind == "read":
                cycles[i] = latency.shared if shared else latency.far
    targets = [[number[name] for name in each.targets] for each in instructions]
    sources = [[number[name] for name in each.sources] for each in instructions]
    blocks = program.blocks
    return Code(
        np.array([block.first for block in blocks], np.int32),
        np.array([block.end for block in blocks], np.int32),
        meetings([block.successors for block in blocks]),
        kind, space, width, retries,
        np.array([sum(slots_of(each.opcode)) for each in instructions]), cycles,
        *_joined(targets), *_joined(sources), len(number),
    )  # fmt: skip


def _joined(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return where each list begins, and all of them."""
    begin = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return begin, np.array([k for each in lists for k in each], np.int32)


def meetings(successors: list[tuple[int, ...]]) -> np.ndarray:
    """Return the immediate post-dominator of each basic block; the end of the kernel is the number
    of blocks. From blocks that no way leaves, the end is taken to follow."""
    n = len(successors)
    behind = [set(after) or {n} for after in successors]
    everything = set(range(n + 1))
    after = [set(everything) for _ in range(n)] + [{n}]  # post-dominators, the block itself too
    changed = True
    while changed:
        changed = False
        for k in reversed(range(n)):
            found = set.intersection(*(after[j] for j in behind[k])) | {k}
            if found != after[k]:
                after[k], changed = found, True
    nearest = [max(after[k] - {k}, key=lambda j: len(after[j])) for k in range(n)]
    return np.array(nearest, np.int32)


class Memory(NamedTuple):
    """The memory that the warps of a block share, and what has been counted there.

    Parameters
    ----------
    arrays : int64, shape (n_arrays, 2)
    shift : int64, shape (n_arrays + 1,)
        From the begin of a sector to that of each array: a card's memory is aligned, NumPy's not.
    tags : int64, shape (2, CACHE_SECTORS)
        The sectors that the first-level cache holds, and those written lately.
    counts : int64, shape (5, n_instructions)
        The first arrays of ``Replayed``.
    to_l2, to_memory : int64, shape (n_instructions, n_arrays + 1)
    """

    arrays: np.ndarray
    shift: np.ndarray
    tags: np.ndarray
    counts: np.ndarray
    to_l2: np.ndarray
    to_memory: np.ndarray


WARPS, LANES, PASSES, SECTORS, ROUNDS = range(5)
"""Rows of ``Memory.counts``."""


class Paths(NamedTuple):
    """Where the threads of a warp are.

    ``blocks`` is a stack: the basic block that some threads, those in ``masks``, enter next, and
    the one where they join the entry below. ``at`` is the next event of each thread, ``lane`` and
    ``address`` and ``array`` have the threads of the access under way.
    """

    blocks: np.ndarray
    masks: np.ndarray
    at: np.ndarray
    stop: np.ndarray
    following: np.ndarray
    lane: np.ndarray
    address: np.ndarray
    array: np.ndarray


def replay(code: Code, traces: list[Trace], arrays: np.ndarray, latency: Latency) -> Replayed:
    """Replay the warps of traced blocks.

    Parameters
    ----------
    code : Code
    traces : list of Trace, one a block
    arrays : int64, shape (n_arrays, 2)
        Addresses of the first byte, and behind the last; of arrays that overlap the first counts.
        They are taken to begin with a sector.
    latency : Latency

    Warps without events, which have not been traced, are left out.
    """
    n = code.kind.size
    counts = np.zeros((5, n), np.int64)
    to_l2, to_memory = np.zeros((2, n, len(arrays) + 1), np.int64)
    cycles, phases = np.zeros(len(traces)), np.zeros(len(traces), np.int64)
    shift = np.append(arrays[:, 0] % SECTOR, 0)
    delays = (latency.near, latency.far, latency.barrier)
    for k, trace in enumerate(traces):
        phases[k] = _count_barriers(code, trace) + 1
        n_warps = -(-(trace.begin.size - 1) // WARP)
        spans = np.zeros((n_warps, int(phases[k])))
        tags = np.full((2, CACHE_SECTORS), -1)
        memory = Memory(arrays, shift, tags, counts, to_l2, to_memory)
        for warp in range(n_warps):
            paths = _paths(code, trace, warp)
            if not paths.masks[0].any():
                continue
            _replay_warp(code, trace, paths, memory, delays, spans[warp])
        cycles[k] = spans.max(axis=0).sum()
    return Replayed(*counts, to_l2, to_memory, cycles, phases)


def _paths(code: Code, trace: Trace, warp: int) -> Paths:
    """Return the threads of a warp before the kernel begins."""
    first = warp * WARP
    at, stop = np.zeros((2, WARP), np.int64)
    own = trace.begin[first : first + WARP + 1]
    at[: own.size - 1], stop[: own.size - 1] = own[:-1], own[1:]
    depth = code.first.size + 8
    blocks, masks = np.zeros((depth, 2), np.int64), np.zeros((depth, WARP), np.bool_)
    blocks[0, 1] = code.first.size
    masks[0] = at < stop
    return Paths(blocks, masks, at, stop, *np.zeros((4, WARP), np.int64))


@njit(cache=True)
def _count_barriers(code, trace):
    """Return the most barriers that a thread passes."""
    most = 0
    for thread in range(trace.begin.size - 1):
        own = 0
        for event in range(trace.begin[thread], trace.begin[thread + 1]):
            block = trace.what[event]
            if block >= 0 and code.kind[code.end[block] - 1] == BARRIER:
                own += 1
        most = max(most, own)
    return most


@njit(cache=True)
def _replay_warp(code, trace, paths, memory, delays, spans):
    """Run one warp; ``spans`` receives the cycles between its barriers."""
    ready = np.zeros(code.n_registers)
    depth, now, phase, since = 1, 0.0, 0, 0.0
    while depth > 0:
        top = depth - 1
        block = paths.blocks[top, 0]
        if block == paths.blocks[top, 1]:
            depth -= 1
            continue
        for lane in range(WARP):
            if paths.masks[top, lane]:
                paths.at[lane] += 1  # past the entry of the block
        offset, decided = 0.0, now
        for i in range(code.first[block], code.end[block]):
            starts = now + offset
            for k in range(code.source_begin[i], code.source_begin[i + 1]):
                starts = max(starts, ready[code.sources[k]])
            takes, more = _issue(code, trace, paths, top, memory, delays, i)
            for k in range(code.target_begin[i], code.target_begin[i + 1]):
                ready[code.targets[k]] = starts + takes
            offset += code.slots[i] + more
            if code.kind[i] >= BARRIER:
                decided = max(decided, starts)
        now = max(now + offset, decided)
        if code.kind[code.end[block] - 1] == BARRIER:
            now += delays[2]
            spans[phase] = now - since
            phase, since = phase + 1, now
        depth = _go_on(code, trace, paths, depth, block)
    spans[phase] = now - since


@njit(cache=True)
def _issue(code, trace, paths, top, memory, delays, i):
    """Count an instruction of the threads on top; returns its latency, and slots beyond its own."""
    n = 0
    for lane in range(WARP):
        if paths.masks[top, lane]:
            if code.space[i] == NO_SPACE:
                n += 1
            elif trace.what[paths.at[lane]] == -1 - i:
                paths.lane[n] = lane
                paths.address[n] = trace.address[paths.at[lane]]
                if code.space[i] == GLOBAL:
                    paths.array[n] = _array_of(memory.arrays, paths.address[n])
                    paths.address[n] -= memory.shift[paths.array[n]]
                paths.at[lane] += 1
                n += 1
    memory.counts[WARPS, i] += 1
    memory.counts[LANES, i] += n
    takes, more = code.latency[i], 0.0
    if code.space[i] == SHARED and n > 0:
        passes = _banks(paths, n, code.width[i], code.kind[i])
        if code.retries[i]:
            rounds = _most_on_one(paths, n, -1)
            memory.counts[ROUNDS, i] += rounds
            more = RETRY * rounds
            passes += rounds + rounds * (rounds - 1) // 2
        memory.counts[PASSES, i] += passes
        takes += PASS * (passes - 1) * (takes > 0)
    elif code.space[i] == GLOBAL and n > 0:
        missed = _sectors(paths, n, memory, i, code.kind[i])
        if code.kind[i] == READ:
            takes = delays[1] if missed else delays[0]
    return takes, more


@njit(cache=True)
def _go_on(code, trace, paths, depth, block):
    """Send the threads on top on their ways, which join where the block's ways do; returns the new
    depth of the stack."""
    top = depth - 1
    n_ways = 0
    waits = paths.masks[top].copy()
    for lane in range(WARP):
        if waits[lane]:
            done = paths.at[lane] >= paths.stop[lane]
            paths.following[lane] = code.first.size if done else trace.what[paths.at[lane]]
            if n_ways == 0 or paths.following[lane] != paths.blocks[top, 0]:
                n_ways += 1
            paths.blocks[top, 0] = paths.following[lane]
    if n_ways == 1:
        return depth
    meeting = code.meet[block]
    if paths.blocks[top, 1] == meeting:  # as in loops: what is below takes its place
        depth = top
    paths.blocks[top, 0] = meeting
    for lane in range(WARP):
        way = paths.following[lane]
        if waits[lane] and way != meeting:
            paths.blocks[depth, 0], paths.blocks[depth, 1] = way, meeting
            for other in range(WARP):
                joins = waits[other] and paths.following[other] == way
                paths.masks[depth, other] = joins
                waits[other] = waits[other] and not joins
            depth += 1
    return depth


@njit(cache=True)
def _banks(paths, n, width, kind):
    """Return the passes of an access to shared memory.

    Threads that read or write the same word share a pass, atomic operations on it take one each.
    Of words of 8 bytes, half a warp is served at a time.
    """
    passes = 0
    wide = width > WORD
    for half in range(2 if wide else 1):
        load = np.zeros(BANKS, np.int64)
        for k in range(n):
            if wide and (paths.lane[k] >= WARP // 2) != (half == 1):
                continue
            for part in range(max(1, width // WORD)):
                word = paths.address[k] // WORD + part
                known = False
                for j in range(k if kind != ATOMIC else 0):
                    together = not wide or (paths.lane[j] >= WARP // 2) == (half == 1)
                    if together and paths.address[j] // WORD + part == word:
                        known = True
                        break
                if not known:
                    load[word % BANKS] += 1
        passes += load.max()
    return passes


@njit(cache=True)
def _sectors(paths, n, memory, i, kind):
    """Count what a global access touches and return whether any sector is not in the first-level
    cache."""
    missed = False
    cache = 0 if kind == READ else 1
    for k in range(n):
        address = paths.address[k]
        sector = address // SECTOR
        new_sector, new_line = True, True
        for j in range(k - 1, -1, -1):
            if paths.address[j] // LINE == address // LINE:
                new_line = False
                if paths.address[j] // SECTOR == sector:
                    new_sector = False
                    break
        if kind != ATOMIC:
            memory.counts[PASSES, i] += new_line
        if not new_sector:
            continue
        if kind == ATOMIC:
            memory.counts[PASSES, i] += _most_on_one(paths, n, sector)
        memory.counts[SECTORS, i] += 1
        slot = (sector ^ (sector >> 12)) % CACHE_SECTORS
        known = memory.tags[cache, slot] == sector
        memory.tags[cache, slot] = sector
        array = paths.array[k]
        memory.to_l2[i, array] += kind != READ or not known
        memory.to_memory[i, array] += not known
        missed = missed or not known
    return missed


@njit(cache=True)
def _array_of(arrays, address):
    """Return the number of the array that an address is in, that of all arrays if it is in none."""
    for k in range(len(arrays)):
        if arrays[k, 0] <= address < arrays[k, 1]:
            return k
    return len(arrays)


@njit(cache=True)
def _most_on_one(paths, n, sector):
    """Return how many threads meet at one address, of a sector or (-1) anywhere."""
    most = 0
    for k in range(n):
        if sector in (-1, paths.address[k] // SECTOR):
            same = 0
            for j in range(n):
                same += paths.address[j] == paths.address[k]
            most = max(most, same)
    return most
