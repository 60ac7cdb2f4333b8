"""The parameters of a launch, as the driver reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence


def parameter_block(places: Sequence[tuple[int, int]], pointers: int) -> bytes:
    """What the driver reads of the parameters of a kernel.

    Parameters
    ----------
    places : sequence of (offset, size)
        Of each parameter, in bytes.
    pointers : int
        The address of a table with the address of each parameter.
    """
    block = bytearray(max((offset + size for offset, size in places), default=0))
    addresses = (ctypes.c_void_p * len(places)).from_address(pointers)
    for (offset, size), address in zip(places, addresses, strict=True):
        block[offset : offset + size] = ctypes.string_at(address, size)
    return bytes(block)


def words_in(places: Sequence[tuple[int, int]], block: bytes) -> list[int]:
    """The bits of each parameter in a block, as an integer with a sign."""
    return [
        int.from_bytes(block[begin : begin + size], "little", signed=True) for begin, size in places
    ]
