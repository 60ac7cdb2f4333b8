"""Samples of the rows: drawn with replacement, counted, and turned into records."""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def count_draws(counts: Array, n_draws: int, key: int) -> None:
    """Add to every row's entry how often the row is drawn, in place.

    Draw i = 0, 1, ... hits row ``draw(key, i) * n >> 32``.

    Parameters
    ----------
    counts : int32, shape (n,)
        n below 2**31.
    n_draws : int
        Below 2**32.
    key : int
        Random key below 2**32.
    """
    implementation(__name__, counts).count_draws(counts, n_draws, key)


class SampleRecords(NamedTuple):
    """The records of a sample, whose number the host need not know.

    records : uint64, shape (m or more,)
        Ascending; behind them is room that is not used.
    size : int64, shape (1,), on the device of the records
        The number m of the records.
    """

    records: Array
    size: Array


def records_of_sample(counts: Array) -> SampleRecords:
    """Return the records (see ``cart``) of the rows that are in a sample, without a wait.

    Parameters
    ----------
    counts : int32 or uint8, shape (n,)
        How often each row is in the sample.

    Returns
    -------
    SampleRecords
        ``count << 32 | row`` of the rows with a positive count.
    """
    return implementation(__name__, counts).records_of_sample(counts)
