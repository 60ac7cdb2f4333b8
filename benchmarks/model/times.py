"""From the counts of a launch to the time that each resource of a card needs.

A launch takes as long as its busiest resource: the others are taken to work beside it, as they do
where enough warps are at hand. Where there are few, latencies add up: a block cannot be faster than
its slowest warp alone, and the blocks share the places that registers and shared memory leave.

Before that, code has to come from the second-level cache, once for each launch: other kernels have
taken its place in the caches of the multiprocessor since the launch before. Nothing is taken to
happen meanwhile. This matters where one block does everything once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from gpuens.devices.cards import Card
from tests.ptx.costs import Linked, linked

from .cards import (
    ATOMIC_PASS,
    CODE_LINE,
    INSTRUCTION_BYTES,
    INTEGER_LANES,
    L2_BYTES_A_CLOCK,
    LATENCIES,
    LAUNCH_GAP,
    LINES_AHEAD,
    REGISTERS,
    SCHEDULERS,
    SECTORS_OF_ATOMIC,
    SPECIAL_LANES,
    WARP,
    latency_of,
)
from .launches import Launch

SECTOR = 32
REGISTER_UNIT = 256
"""Registers are given to warps in pieces of this many."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that each block takes for the system."""
RESIDENT = 0.5
"""The share of the second-level cache that an array may take to be found there from the launch
before; a larger one is taken to come from memory, and go there, sector by sector. Assumed."""
RESOURCES = {
    "issue": "issue slots",
    "integer": "integer pipe",
    "float64": "float64 pipe",
    "convert": "conversions",
    "shared": "shared memory",
    "l1": "first-level cache",
    "l2": "second-level cache",
    "atomics": "atomics in L2",
    "memory": "memory",
    "latency": "latency",
    "code": "code",
}


class Time(NamedTuple):
    """The seconds of a launch.

    Parameters
    ----------
    seconds : float
        Without the gap before it.
    binds : str
        The resource that takes the longest.
    by_resource : dict of float
    code : float
        Of ``seconds``, those until the code is there.
    """

    seconds: float
    binds: str
    by_resource: dict[str, float]
    code: float


def blocks_at_once(launch: Launch, card: Card, code: Linked) -> int:
    """Return how many blocks of a launch fit on a multiprocessor."""
    warps = -(-launch.threads // WARP)
    per_warp = -(-code.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // per_warp // warps
    by_threads = card.most_threads // (warps * WARP)
    by_shared = card.shared_kb * 1024 // (launch.shared_bytes + RESERVED_SHARED)
    return max(1, min(by_registers, by_threads, by_shared, card.most_blocks))


def moved(launch: Launch, card: Card) -> float:
    """Return the bytes between the second-level cache and memory."""
    return sum(
        sectors * SECTOR
        for size, sectors in launch.arrays.values()
        if size > RESIDENT * card.l2_bytes
    )


def time_of(launch: Launch, card: Card, code: Linked | None = None) -> Time:
    """Return the time of a launch on a card."""
    code = code or linked(launch.ptx, card.architecture)
    counts = launch.counts
    used = min(card.multiprocessors, max(1.0, launch.blocks))
    rate = used * card.clock
    slots = counts.issued * code.scale
    l2_rate = min(card.l2_gb_s * 1e9, L2_BYTES_A_CLOCK * rate)
    by_resource = {
        "issue": slots / SCHEDULERS / rate,
        "integer": slots * code.integer_share * WARP / INTEGER_LANES / rate,
        "float64": counts.float64 * WARP / card.float64 / rate,
        "convert": (counts.convert / card.convert + counts.special / SPECIAL_LANES) * WARP / rate,
        "shared": (counts.shared_passes + ATOMIC_PASS * counts.atomic_passes) / rate,
        "l1": counts.lines / rate,
        "l2": counts.l2_sectors * SECTOR / l2_rate,
        "atomics": counts.atomics * SECTORS_OF_ATOMIC * SECTOR / (card.l2_gb_s * 1e9),
        "memory": moved(launch, card) / card.memory,
        "latency": latency(launch, card, code),
    }
    binds = max(by_resource, key=lambda name: by_resource[name])
    busiest, fetched = by_resource[binds], fetch(launch, card, code)
    return Time(busiest + fetched, binds if busiest > fetched else "code", by_resource, fetched)


def fetch(launch: Launch, card: Card, code: Linked) -> float:
    """Return the time that a multiprocessor waits for the code of a launch: for as much of it as
    is run at all."""
    lines = launch.code * code.scale * INSTRUCTION_BYTES / CODE_LINE
    return lines / LINES_AHEAD * LATENCIES[latency_of(card)].far / card.clock


def latency(launch: Launch, card: Card, code: Linked) -> float:
    """Return the time that a launch takes if nothing but latencies counts."""
    places = card.multiprocessors * blocks_at_once(launch, card, code)
    kind = latency_of(card)
    shared = launch.cycles[kind] / min(places, max(1.0, launch.blocks))
    slowest = launch.longest[kind]
    return max(slowest, shared) / card.clock


def device_seconds(launches: Iterable[Launch], card: Card, n_others: int = 0) -> float:
    """Return the time of a stream of launches and of other work, gaps between them included."""
    times = [time_of(launch, card).seconds for launch in launches]
    return math.fsum(times) + (len(times) + n_others) * LAUNCH_GAP
