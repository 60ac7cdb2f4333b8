"""Reference twin of ``kernels.binning.widen_bins``."""

from __future__ import annotations

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.dtypes import MISSING
from ...runtime.reference.arrays import to_host


def widen_bins(X: Array, columns: Array, features: Array, lowest: Array, highest: Array) -> None:
    """One bin at a time."""
    xp = array_namespace(X)
    for f in to_host(features).tolist():
        values, codes = xp.astype(X[:, f], xp.float64) + 0.0, columns[f, :]
        for code in set(to_host(codes).tolist()) - {MISSING}:
            own = values[codes == code]
            lowest[f, code] = min(float(lowest[f, code]), float(xp.min(own)))
            highest[f, code] = max(float(highest[f, code]), float(xp.max(own)))
