"""The value of a formula for every row."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation


def row_values(loss: Any, y: Any, raw: Any, shift: Any) -> Any:
    """``value(loss, y[i], raw[i] - shift[i])`` for every row i, in float64.

    Parameters
    ----------
    loss : a named tuple from ``scalars.losses``
        A loss, or a link, whose value is a prediction.
    y : float64, shape (n,)
    raw : float64, shape (n,), contiguous
    shift : float64, shape (n,) or (0,)
        Empty: nothing is subtracted.

    Returns
    -------
    float64, shape (n,), on the device of ``raw``
    """
    return implementation(__name__, raw).row_values(loss, y, raw, shift)
