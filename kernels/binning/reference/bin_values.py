"""Reference twin of ``kernels.binning.bin_values``."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import MISSING, ROW_ALIGNMENT, Codes
from ...runtime.reference.arrays import beside


def bin_values(X: Array, thresholds: Array) -> Codes:
    """One binary search a feature: the left insertion point is the number of smaller cuts."""
    xp = array_namespace(X)
    thresholds = beside(thresholds, X)
    n_rows, n_features = X.shape
    stride = -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT
    rows = xp.zeros((n_rows, stride), dtype=xp.uint8, device=device(X))
    columns = xp.zeros((n_features, n_rows), dtype=xp.uint8, device=device(X))
    for feature in range(n_features):
        x = X[:, feature]
        below = xp.searchsorted(thresholds[feature, :], x, side="left")
        columns[feature, :] = xp.astype(xp.where(xp.isnan(x), MISSING, below), xp.uint8)
    rows[:, :n_features] = columns.T
    return Codes(rows, columns)
