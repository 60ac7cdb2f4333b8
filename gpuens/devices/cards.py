"""The rates of GPUs, which ``policy`` chooses a device by.

None of them has been measured here. Sources, by column of ``CARDS``:

``multiprocessors``, ``ghz``, ``l2_mb``, ``shared_kb``
    NVIDIA's architecture papers (H100 Tensor Core GPU Architecture; NVIDIA Ada GPU Architecture;
    NVIDIA Ampere GA102 GPU Architecture; NVIDIA Turing GPU Architecture). ``ghz`` is the boost
    clock, which the peak rates of the data sheets are computed from.
``memory_gb_s``, ``bus_gb_s``
    Data sheets: H100 SXM, H200 SXM, GeForce RTX 4090, A10, T4. The bus is PCIe of the fifth, the
    fourth or the third generation with 16 lanes, in one direction.
``float64``, ``convert``
    CUDA C++ Programming Guide, table of the throughput of arithmetic instructions, compute
    capabilities 9.0, 8.9, 8.6 and 7.5.
``l2_gb_s``
    Not published, assumed.
"""

from __future__ import annotations

from typing import NamedTuple

COPY_SHARE = 0.9
"""Share of the published bandwidth of memory that a copy reaches: 4.3 of 4.8 TB/s on an H200."""
BUS_SHARE = 0.8
"""Share of the published bandwidth of the bus that copies of pinned memory reach. Assumed."""
HOST_COPY = 12e9
"""Bytes a second of a thread of the host that copies to pinned memory or from there. Assumed."""
LAUNCH = 8e-6
"""Seconds of the host for a launch: 4 µs of Python, as ``benchmarks.gpu.host_time`` measures
them with the driver stubbed, and 4 µs of the driver, assumed."""
OTHER_CALL = 12e-6
"""Seconds of the host for a fill or a copy by CuPy. Assumed."""
PREDICTION = 0.5e-3
"""Seconds of the host for a prediction: checks, copies, launches. Assumed."""


class Card(NamedTuple):
    """The rates of a card; see the module.

    Parameters
    ----------
    name : str
    architecture : str
        As the linker names it.
    multiprocessors : int
    ghz : float
        10⁹ clocks a second.
    memory_gb_s, l2_gb_s, bus_gb_s : float
        10⁹ bytes a second between the chip and its memory, from the second-level cache, and from
        the host.
    l2_mb : float
        2²⁰ bytes of the second-level cache.
    float64, convert : int
        Results a clock and multiprocessor: of float64, and of conversions from and to types of
        64 bits.
    shared_kb : int
        2¹⁰ bytes of a multiprocessor for blocks; each takes one more than it declares.
    most_threads, most_blocks : int
        On a multiprocessor.
    """

    name: str
    architecture: str
    multiprocessors: int
    ghz: float
    memory_gb_s: float
    l2_mb: float
    l2_gb_s: float
    bus_gb_s: float
    float64: int
    convert: int
    shared_kb: int
    most_threads: int
    most_blocks: int

    @property
    def clock(self) -> float:
        """Clocks a second."""
        return self.ghz * 1e9

    @property
    def memory(self) -> float:
        """Bytes a second between the chip and its memory, as copies reach them."""
        return COPY_SHARE * self.memory_gb_s * 1e9

    @property
    def bus(self) -> float:
        """Bytes a second between the card and pinned memory of the host."""
        return BUS_SHARE * self.bus_gb_s * 1e9

    @property
    def l2_bytes(self) -> float:
        """Bytes of the second-level cache."""
        return self.l2_mb * 2**20


CARDS = {
    card.name: card
    for card in (
        Card("H100", "sm_90", 132, 1.98, 3350, 50, 5500, 64, 64, 16, 228, 2048, 32),
        Card("H200", "sm_90", 132, 1.98, 4800, 50, 5500, 64, 64, 16, 228, 2048, 32),
        Card("RTX 4090", "sm_89", 128, 2.52, 1008, 72, 5000, 32, 2, 2, 100, 1536, 24),
        Card("A10", "sm_86", 72, 1.695, 600, 6, 2000, 32, 2, 2, 100, 1536, 16),
        Card("T4", "sm_75", 40, 1.59, 320, 4, 1300, 16, 2, 2, 64, 1024, 16),
    )
}
"""By name."""
