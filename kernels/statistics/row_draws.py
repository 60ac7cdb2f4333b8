"""Samples of the rows without replacement."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def draw_below(
    weight: Array, n_rows: Sequence[int], limits: Sequence[int], keys: Sequence[int]
) -> tuple[Array, ...]:
    """Return the rows whose draw is below a limit, or those of the smallest draw if none is, for
    several samples; on CUDA they share launches, and the host waits for their sizes.

    Parameters
    ----------
    weight : float64, shape (n,), (n_samples, n) or (0,)
        Of all samples or of each. Rows of weight zero are not drawn, unless all rows have it.
    n_rows : sequence of int
        From how many rows each sample is drawn, below 2**31: with weights at most n.
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


def draw_by_chances(
    weight: Array, chances: Array, n_rows: Sequence[int], keys: Sequence[int]
) -> list[tuple[Array, Array]]:
    """Draw each row with its own chance, and the row of the smallest draw in any case; on CUDA the
    samples share launches, and the host waits for their sizes.

    Parameters
    ----------
    weight, n_rows, keys
        As for ``draw_below``.
    chances : float64, shape (n_samples, n)
        In (0, 1].

    Returns
    -------
    list of (rows, factors)
        Of each sample: int32 of shape (n_drawn,), ascending, and float32, 1 / chance; both of no
        rows where all rows are drawn for certain.
    """
    op = implementation(__name__, chances)
    found: list[tuple[Array, Array]] = op.draw_by_chances(weight, chances, n_rows, keys)
    return found
