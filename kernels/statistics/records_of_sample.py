"""A tree's sample of the rows, as records."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation


def records_of_sample(counts: Any) -> Any:
    """The records (see ``cart``) of the rows that are in a sample.

    Parameters
    ----------
    counts : int32 or uint8, shape (n,)
        How often each row is in the sample.

    Returns
    -------
    uint64, shape (m,)
        ``count << 32 | row`` of the rows with a positive count, ascending.
    """
    return implementation(__name__, counts).records_of_sample(counts)
