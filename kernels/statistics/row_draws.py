"""Samples of the rows without replacement."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def draw_below(weight: Array, n_rows: int, limit: int, key: int) -> Array:
    """Return the rows whose draw is below a limit; those of the smallest draw if none is.

    Parameters
    ----------
    weight : float64, shape (n_rows,) or (0,)
        Rows of weight zero are not drawn, unless all rows have it.
    n_rows : int
        Below 2**31.
    limit : int
        The chance of a row times 2**32, below 2**32.
    key : int
        Random key below 2**32; the draw of row i is ``draw(key, i)``.

    Returns
    -------
    int32, shape (n_drawn,)
        Ascending.
    """
    return implementation(__name__, weight).draw_below(weight, n_rows, limit, key)
