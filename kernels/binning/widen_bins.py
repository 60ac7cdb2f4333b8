"""The values in bins: the smallest and the largest one of each."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def widen_bins(X: Array, columns: Array, features: Array, lowest: Array, highest: Array) -> None:
    """Widen what is known of the values in bins by those of more rows.

    Parameters
    ----------
    X : float32 or float64, shape (n_rows, n_features), any strides
    columns : uint8, shape (n_features, n_rows), in C order
        The codes of X.
    features : int64, shape (n,)
        Those to look at.
    lowest, highest : float64, shape (n_features, 255), in C order
        Of the rows so far, +inf and -inf where a bin has none; they are overwritten. A zero has no
        sign.
    """
    implementation(__name__, X).widen_bins(X, columns, features, lowest, highest)
