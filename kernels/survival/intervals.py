"""Gradients and values of times that are known to be within bounds."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation

NORMAL, LOGISTIC, EXTREME = range(3)
"""Distributions of the logarithms."""


def interval_gradients(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    """Compute the gradient and hessian of each row: the formulas of ``scalars.survival``.

    Parameters
    ----------
    lower, upper : float64, shape (n_rows,), contiguous
        Logarithms of the bounds, lower <= upper, within ±``UNBOUNDED``, which means no bound.
    score : float64, shape (n_rows,), contiguous
        The predicted logarithms, finite.
    inverse : float
        1 / scale, in [1e-6, 1e6].
    distribution : NORMAL, LOGISTIC or EXTREME

    Returns
    -------
    float64, shape (2, n_rows), on the device
        Gradients and hessians with respect to the score.
    """
    op = implementation(__name__, score)
    return op.interval_gradients(lower, upper, score, inverse, distribution)


def interval_values(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    """Compute the negative logarithm of each row's probability or density; as above.

    Returns
    -------
    float64, shape (n_rows,), on the device
    """
    op = implementation(__name__, score)
    return op.interval_values(lower, upper, score, inverse, distribution)
