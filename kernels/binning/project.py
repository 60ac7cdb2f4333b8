"""Projections: weighted sums of a few features each, the columns of oblique splits."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def project(X: Array, begin: Array, feature: Array, weight: Array) -> Array:
    """Return weighted sums of features.

    Projection j of a row is the sum of ``weight[k] * X[row, feature[k]]`` over the entries
    ``begin[j] <= k < begin[j + 1]``. Every product and every sum is rounded to float64, from the
    first entry to the last, so that the result is the same everywhere. It is NaN where one of the
    values is, or where infinite values cancel.

    Parameters
    ----------
    X : float32 or float64, shape (n_rows, n_features), any strides
    begin : int64, shape (n_projections + 1,)
        Every projection has at least one entry.
    feature : int32, shape (n_entries,)
    weight : float64, shape (n_entries,)

    Returns
    -------
    float64, shape (n_projections, n_rows), contiguous
    """
    return implementation(__name__, X).project(X, begin, feature, weight)
