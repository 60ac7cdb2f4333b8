"""Samples of the rows: drawn with replacement or without, and turned into records."""

from __future__ import annotations

from collections.abc import Sequence
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


def draw_below(
    weight: Array, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[Array, ...]:
    """Return the rows whose draw is below a limit, or those of the smallest draw if none is, for
    several samples; on CUDA they share launches, and the host waits for their sizes.

    Parameters
    ----------
    weight : float64, shape (n,) or (0,)
        Rows of weight zero are not drawn, unless all rows have it.
    n_rows : sequence of int
        From how many rows each sample is drawn, below 2**31: n of them where there are weights.
    limits : sequence of int
        The chance of a row times 2**32, below 2**32, for each of at most ``MOST_OUTPUTS`` samples.
    keys : sequence of int
        Random keys below 2**32; the draw of row i is ``draw(key, i)``.

    Returns
    -------
    tuple of int32, shape (n_drawn,)
        Ascending.
    """
    op = implementation(__name__, weight)
    found: tuple[Array, ...] = op.draw_below(weight, n_rows, limits, keys)
    return found


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
