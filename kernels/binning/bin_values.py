"""Binning: raw values to bin numbers."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from ..runtime.dtypes import Codes


def bin_values(X: Array, thresholds: Array) -> Codes:
    """Replace every value by the number of its bin.

    The code of ``x`` in feature ``f`` is the number of thresholds below it,
    ``sum(thresholds[f] < x)``; NaN gets ``MISSING``. Infinities are ordered values.

    Parameters
    ----------
    X : float32 or float64, shape (n_rows, n_features), any strides
    thresholds : the dtype of X, shape (n_features, 255)
        Ascending, at most 254 finite or infinite cut points, padded with +inf.

    Returns
    -------
    Codes
    """
    return implementation(__name__, X).bin_values(X, thresholds)
