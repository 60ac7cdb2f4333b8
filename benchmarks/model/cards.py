"""The cards of the model: their published rates, and what is assumed where nothing is published.

Sources, by column of ``CARDS``:

``multiprocessors``, ``ghz``, ``l2_mb``, ``shared_kb``
    NVIDIA's architecture papers (H100 Tensor Core GPU Architecture; NVIDIA Ada GPU Architecture;
    NVIDIA Ampere GA102 GPU Architecture). ``ghz`` is the boost clock, which the peak rates of the
    data sheets are computed from.
``memory_gb_s``
    Data sheets: H100 SXM, H200 SXM, GeForce RTX 4090, A10.
``float64``, ``convert``
    Results a clock and multiprocessor, CUDA C++ Programming Guide, table of the throughput of
    arithmetic instructions, compute capabilities 9.0, 8.9 and 8.6: 64 or 2 of float64, 16 or 2
    conversions from and to types of 64 bits.
``latency``
    Cycles of loads: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
    Microbenchmarking" (2024); the A10's are taken to be those of the RTX 4090. Cycles of
    arithmetic: Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through
    Microbenchmarking and Instruction-level Analysis" (2022). Those of atomic operations and of
    float64 on the cards with two lanes are assumed.
``l2_gb_s``
    Not published, assumed.

The numbers have not been checked against these documents again. Two constants are not independent
of the estimates that the model is compared with (``groups.ESTIMATES``): ``ATOMIC_PASS`` and
``LAUNCH_GAP`` were chosen with them in view, so the rows of histograms and of gaps confirm little.

For all cards: a multiprocessor has four schedulers that issue an instruction a clock each, 64 lanes
for integers, 16 for special functions, one pass of shared memory (128 bytes) and 64 bytes from the
second-level cache a clock, room for 65,536 registers and 32 blocks (24 on 8.9, 16 on 8.6) of 2,048
(1,536) threads together.
"""

from __future__ import annotations

from dataclasses import dataclass

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
COPY_SHARE = 0.9
"""Of the published bandwidth of memory, as a copy reaches: 4.3 of 4.8 TB/s on an H200."""
SECTORS_OF_ATOMIC = 2
"""Sectors that an addition in the second-level cache moves: it reads and writes. Assumed."""
LAUNCH_GAP = 2.5e-6
"""Seconds from the end of a kernel to the first instruction of the next on the stream. Assumed."""
LAUNCH = 8e-6
"""Seconds of the host for a launch: 4 µs of Python, as ``launcher`` measures them with the driver
stubbed, and 4 µs of the driver, assumed."""
OTHER_CALL = 12e-6
"""Seconds of the host for a fill or a copy by CuPy. Assumed."""
INSTRUCTION_BYTES, CODE_LINE = 16, 128
"""Bytes of machine code: an instruction, and the line that the second-level cache returns."""
LINES_AHEAD = 4
"""Lines of code that a multiprocessor asks for together. Assumed: Huerta et al., "Analyzing Modern
NVIDIA GPU Cores" (2025), suspect a buffer that reads 16 lines ahead of an Ampere's first-level
cache, and branches interrupt it. With 4, an instruction that is run for the first time takes 8
clocks of an H100."""
TRANSFER = 12e9
"""Bytes a second between a card and pageable memory of the host. Pinned memory reaches twice as
much."""


@dataclass(frozen=True)
class Card:
    """The rates of a card; see the module.

    Parameters
    ----------
    name : str
    architecture : str
        As the linker names it.
    multiprocessors : int
    ghz : float
    memory_gb_s : float
    l2_mb : float
    l2_gb_s : float
    float64, convert : int
        Results a clock and multiprocessor.
    shared_kb : int
        Of a multiprocessor, for blocks; each takes 1 KB more than it declares.
    most_threads, most_blocks : int
        On a multiprocessor.
    latency : str
        The key of its latencies.
    """

    name: str
    architecture: str
    multiprocessors: int
    ghz: float
    memory_gb_s: float
    l2_mb: float
    l2_gb_s: float
    float64: int
    convert: int
    shared_kb: int
    most_threads: int
    most_blocks: int
    latency: str

    @property
    def clock(self) -> float:
        """Clocks a second."""
        return self.ghz * 1e9

    @property
    def l2_bytes(self) -> float:
        return self.l2_mb * 2**20


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

T4 = Card("T4", "sm_75", 40, 1.59, 320, 4, 1300, 2, 2, 64, 1024, 16, "RTX")
"""NVIDIA Turing GPU Architecture; its data sheet. It is modelled where the layout of histograms is
(``layouts``), because its shared memory is the least."""

CARDS = {
    card.name: card
    for card in (
        Card("H100", "sm_90", 132, 1.98, 3350, 50, 5500, 64, 16, 228, 2048, 32, "data center"),
        Card("H200", "sm_90", 132, 1.98, 4800, 50, 5500, 64, 16, 228, 2048, 32, "data center"),
        Card("RTX 4090", "sm_89", 128, 2.52, 1008, 72, 5000, 2, 2, 100, 1536, 24, "RTX"),
        Card("A10", "sm_86", 72, 1.695, 600, 6, 2000, 2, 2, 100, 1536, 16, "RTX"),
    )
}
"""By name."""
