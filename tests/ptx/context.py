"""The words that a launch, its compiled kernel and its checks share: 64-bit integers."""

from __future__ import annotations

from enum import IntEnum, auto


class Word(IntEnum):
    """Places in the context of a launch. Addresses are those of NumPy arrays."""

    PARAMETERS = 0
    SHARED = auto()
    BLOCK_X = auto()
    BLOCK_Y = auto()
    BLOCK_Z = auto()
    THREADS_X = auto()
    THREADS_Y = auto()
    THREADS_Z = auto()
    BLOCKS_X = auto()
    BLOCKS_Y = auto()
    BLOCKS_Z = auto()
    THREAD_X = auto()
    THREAD_Y = auto()
    THREAD_Z = auto()
    THREAD = auto()
    """The number of the thread in its block."""
    BLOCK = auto()
    """The number of the block in its grid."""
    EPOCH = auto()
    """Counts the barriers of all blocks."""
    BLOCK_EPOCH = auto()
    """The epoch in which the running block began."""
    FUEL = auto()
    """Jumps backwards that are left to the launch."""
    CHECK = auto()
    """The address of the function that checks an access."""
    REGIONS = auto()
    N_REGIONS = auto()
    FAULTS = auto()
    N_FAULTS = auto()
    SCRATCH = auto()
    """Memory that faulty accesses go to."""
    COUNTS = auto()
    DYNAMIC_SHARED = auto()
    """The bytes of shared memory that the launch adds."""


N_WORDS = len(Word)

TAG = 48
"""In watched kernels the bits of an address from this one on name the array it belongs to."""
SHARED_TAGS = 1
"""The tag of the first shared variable; local memory and the arrays of the launch follow."""

DONE, RAN_AWAY = 0, -1
"""What a thread returns instead of the number of a barrier, counted from 1."""

SPACES = ("generic", "global", "shared", "local")
KINDS = ("read", "write", "atomic")
