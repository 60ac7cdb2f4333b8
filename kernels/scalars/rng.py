"""Counter-based randomness: a draw is a hash of its purpose, so every backend and every order of
evaluation sees the same one.

All values are 32-bit numbers held in uint64, which wraps the same way in NumPy, on the CPU
and on a GPU. The mixing steps and constants are those of the "lowbias32" hash of the hash
prospector project (Wellons 2018), with the key mixed in a second time between them so that
the streams of two keys are not shifted copies of each other.
"""

import numpy as np

from .primitives import formula

u64 = np.uint64

MASK = u64(0xFFFFFFFF)
GOLDEN = u64(0x9E3779B9)
MULTIPLIER_1 = u64(0x21F0AAAD)
MULTIPLIER_2 = u64(0xD35A2D97)
S15 = u64(15)
S16 = u64(16)

PURPOSE_ROUNDING = u64(1)
PURPOSE_ROWS = u64(2)
PURPOSE_FEATURES = u64(3)
PURPOSE_BIN_SAMPLE = u64(4)
PURPOSE_TREE = u64(5)
PURPOSE_THRESHOLD = u64(6)
PURPOSE_BOOTSTRAP = u64(7)
PURPOSE_HALVES = u64(8)
PURPOSE_PROJECTIONS = u64(9)


@formula
def draw(key, counter):
    """32 random bits for a counter under a key (uint64 in, uint64 out, both below 2³²)."""
    x = (counter * GOLDEN + key) & MASK
    x = ((x ^ (x >> S16)) * MULTIPLIER_1) & MASK
    x = x ^ key
    x = ((x ^ (x >> S15)) * MULTIPLIER_2) & MASK
    return x ^ (x >> S15)


@formula
def subkey(key, purpose, index):
    """Return the key of an independent stream, for a purpose and an index (a tree, a node)."""
    return draw(draw(key, purpose), index)
