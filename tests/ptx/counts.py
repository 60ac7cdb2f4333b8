"""What one launch costs, in numbers that do not depend on the card.

All blocks of a launch are counted by thread and basic block; of a few blocks some or all warps are
replayed (``warps``). An instruction's numbers in those are scaled by how often all threads of the
launch ran its basic block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .costs import CONVERT, FLOAT64, INTEGER, SPECIAL, Latency, slots_of
from .parse import Program
from .warps import (
    ATOMIC,
    BARRIER,
    GLOBAL,
    RETRY,
    SHARED,
    WARP,
    Code,
    Replayed,
    Trace,
    code_of,
    replay,
)


class Counts(NamedTuple):
    """The numbers of a launch; all of them add up.

    Parameters
    ----------
    instructions : float
        Of PTX, executed by threads.
    issued : float
        Slots: instructions of machine code that warps issue, by the rules of ``costs``.
    integer, float64, convert, special : float
        Those of them that need the pipe.
    accesses : float
        Instructions that touch shared or global memory, issued by warps.
    shared_passes : float
        Of loads and stores in shared memory: 1 for each without a bank conflict.
    atomic_passes : float
        Of atomic operations in shared memory: threads that meet in a bank wait for each other.
    atomic_accesses : float
        Atomic operations in shared memory, issued by warps.
    lines : float
        Of 128 bytes, that the first-level cache looks up.
    sectors : float
        Of 32 bytes, that warps touch in global memory: 4 an access of neighbouring floats.
    l2_sectors : float
        Those that the second-level cache is asked for.
    atomics : float
        Additions to a sector in the second-level cache; threads that meet at an address count each.
    barriers : float
        Passed by warps.
    unseen : float
        Slots among ``issued`` in basic blocks that no replayed warp ran, taken to be coherent.
    """

    instructions: float
    issued: float
    integer: float
    float64: float
    convert: float
    special: float
    accesses: float
    shared_passes: float
    atomic_passes: float
    atomic_accesses: float
    lines: float
    sectors: float
    l2_sectors: float
    atomics: float
    barriers: float
    unseen: float


class LaunchCounts(NamedTuple):
    """What is known of a launch.

    Parameters
    ----------
    counts : Counts
    to_memory : float, shape (n_arrays + 1,)
        Sectors of each array, by block the distinct ones; the last entry is of no array.
    cycles : float
        Of all blocks together, each alone on a multiprocessor.
    longest : float
        Of the slowest block that was replayed.
    code : float
        Slots of the instructions that some thread ran, each once: what has to be fetched.
    """

    counts: Counts
    to_memory: np.ndarray
    cycles: float
    longest: float
    code: float


def count(
    program: Program, executions: np.ndarray, traces: list[Trace], n_blocks: int,
    arrays: np.ndarray, latency: Latency,
) -> LaunchCounts:  # fmt: skip
    """Count a launch.

    Parameters
    ----------
    program : Program
    executions : int64, shape (n_basic_blocks,)
        By all threads of the launch.
    traces : list of Trace
        Of some blocks: block 0, which may have work of its own, and others that stand for the rest.
    n_blocks : int
        Of the launch.
    arrays : int64, shape (n_arrays, 2)
        Their first addresses and those behind the last.
    latency : Latency
    """
    code = code_of(program, latency)
    found = replay(code, traces, arrays, latency)
    of_block = np.repeat(np.arange(code.first.size), code.end - code.first)
    total = executions[of_block].astype(float)
    seen = np.zeros(code.first.size)
    for trace in traces:
        seen += np.bincount(trace.what[trace.what >= 0], minlength=seen.size)
    scale = np.divide(total, seen[of_block], out=np.zeros_like(total), where=seen[of_block] > 0)
    unseen = np.where(seen[of_block] > 0, 0.0, total / WARP)
    others = found.cycles[1:] if len(traces) > 1 else found.cycles
    return LaunchCounts(
        _sum(program, code, found, total, scale, unseen),
        scale @ found.to_memory,
        float(found.cycles[0] + (n_blocks - 1) * others.mean()),
        float(found.cycles.max()),
        sum(sum(slots_of(each.opcode)) for each, n in zip(program.instructions, total, strict=True)
            if n > 0),
    )  # fmt: skip


def _sum(
    program: Program, code: Code, found: Replayed, total: np.ndarray, scale: np.ndarray,
    unseen: np.ndarray,
) -> Counts:  # fmt: skip
    slots = np.array([slots_of(each.opcode) for each in program.instructions])
    slots_of_all = slots.sum(axis=1)
    warps = found.warps * scale + unseen
    is_atomic, is_shared, is_global = (
        code.kind == ATOMIC,
        code.space == SHARED,
        code.space == GLOBAL,
    )

    def passed(which: np.ndarray, values: np.ndarray) -> float:
        return float((values * scale)[which].sum() + unseen[which].sum())

    by_pipe = {
        name: float(warps @ slots[:, pipe])
        for name, pipe in (("integer", INTEGER), ("float64", FLOAT64), ("convert", CONVERT),
                           ("special", SPECIAL))
    }  # fmt: skip
    return Counts(
        instructions=float(total.sum()),
        issued=float(warps @ slots_of_all + RETRY * (found.rounds @ scale)),
        **by_pipe,
        accesses=float(warps[is_shared | is_global].sum()),
        shared_passes=passed(is_shared & ~is_atomic, found.passes),
        atomic_passes=passed(is_shared & is_atomic, found.passes),
        atomic_accesses=float(warps[is_shared & is_atomic].sum()),
        lines=passed(is_global & ~is_atomic, found.passes),
        sectors=passed(is_global & ~is_atomic, found.sectors),
        l2_sectors=float(scale @ found.to_l2.sum(axis=1) + unseen[is_global].sum()),
        atomics=passed(is_global & is_atomic, found.passes),
        barriers=float(warps[code.kind == BARRIER].sum()),
        unseen=float(unseen @ slots_of_all),
    )
