"""What the model assumes of all cards beside their rates (``gpuens.devices.cards``).

``LATENCIES``
    Cycles of loads: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
    Microbenchmarking" (2024); the A10's are taken to be those of the RTX 4090. Cycles of
    arithmetic: Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through
    Microbenchmarking and Instruction-level Analysis" (2022). Those of atomic operations and of
    float64 on the cards with two lanes are assumed.

The numbers have not been checked against these documents again. Two constants are not independent
of the estimates that the model is compared with (``groups.ESTIMATES``): ``ATOMIC_PASS`` and
``LAUNCH_GAP`` were chosen with them in view, so the rows of histograms and of gaps confirm little.

For all cards: a multiprocessor has four schedulers that issue an instruction a clock each, 64 lanes
for integers, 16 for special functions, one pass of shared memory (128 bytes) and 64 bytes from the
second-level cache a clock, and room for 65,536 registers.
"""

from __future__ import annotations

from gpuens.devices.cards import CARDS, Card
from tests.ptx.costs import Latency

SCHEDULERS = 4
WARP = 32
INTEGER_LANES = 64
SPECIAL_LANES = 16
REGISTERS = 65_536
L2_BYTES_A_CLOCK = 64
"""Of one multiprocessor."""
ATOMIC_PASS = 2.0
"""Clocks of one pass of atomic additions in shared memory: it reads and writes. Assumed."""
SECTORS_OF_ATOMIC = 2
"""Sectors that an addition in the second-level cache moves: it reads and writes. Assumed."""
LAUNCH_GAP = 2.5e-6
"""Seconds from the end of a kernel to the first instruction of the next on the stream. Assumed."""
INSTRUCTION_BYTES, CODE_LINE = 16, 128
"""Bytes of machine code: an instruction, and the line that the second-level cache returns."""
LINES_AHEAD = 4
"""Lines of code that a multiprocessor asks for together. Assumed: Huerta et al., "Analyzing Modern
NVIDIA GPU Cores" (2025), suspect a buffer that reads 16 lines ahead of an Ampere's first-level
cache, and branches interrupt it. With 4, an instruction that is run for the first time takes 8
clocks of an H100."""

LATENCIES = {
    "data center": Latency(
        integer=4.5, float64=8, convert=14, special=20, shared=29, atomic=64, near=41, far=263,
        barrier=20,
    ),
    "RTX": Latency(
        integer=4.5, float64=48, convert=40, special=20, shared=30, atomic=64, near=43, far=273,
        barrier=20,
    ),
}  # fmt: skip
"""By the kind of card."""


def latency_of(card: Card) -> str:
    """Return the key of the latencies of a card: those in data centers compute in float64."""
    return "data center" if card.float64 >= WARP else "RTX"


SHOWN = [card for card in CARDS.values() if card.name != "T4"]
"""The cards that have a column in the results. The T4 is modelled where the layout of histograms is
(``layouts``), because its shared memory is the least."""
