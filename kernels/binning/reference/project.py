"""Reference twin of ``kernels.binning.project``."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.reference.arrays import to_host


def project(X: Array, begin: Array, feature: Array, weight: Array) -> Array:
    """One entry at a time, all rows at once."""
    xp = array_namespace(X)
    ends, columns, factors = (to_host(a).tolist() for a in (begin, feature, weight))
    projected = xp.zeros((len(ends) - 1, X.shape[0]), dtype=xp.float64, device=device(X))
    with np.errstate(invalid="ignore", over="ignore"):
        for j, (first, last) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
            total = xp.astype(X[:, columns[first]], xp.float64) * factors[first]
            for k in range(first + 1, last):
                total = total + xp.astype(X[:, columns[k]], xp.float64) * factors[k]
            projected[j, :] = total
    return projected
