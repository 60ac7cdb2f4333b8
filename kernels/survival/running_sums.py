"""Sums of a sequence up to each of its values."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation

BLOCK = 256
"""Values whose sums are taken one after the other."""


def running_sums(values: Array) -> Array:
    """Return for each value the sum of the values up to it.

    Each block of ``BLOCK`` values is added up from its first one on. To these sums, but in the
    first block, the running sum of the blocks' totals up to the block before is added; the totals
    are added up likewise, in blocks of their own.

    Parameters
    ----------
    values : float64, shape (n,), contiguous
        n > 0.

    Returns
    -------
    float64, shape (n,), on the device
    """
    return implementation(__name__, values).running_sums(values)
