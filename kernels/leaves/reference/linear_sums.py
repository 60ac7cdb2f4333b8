"""Reference twin of ``kernels.leaves.linear_sums``."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...runtime.dtypes import Scales
from ...runtime.reference.arrays import to_host
from ...scalars import rounding
from ...scalars.primitives import vectorise
from ..linear_sums import PathFeatures

nearest_even = vectorise(rounding.nearest_even)


def linear_sums(
    leaf: Array, g: Array, h: Array, X: Array, features: PathFeatures, scales: Scales
) -> np.ndarray:
    """Leaf by leaf."""
    xp = array_namespace(g)
    begin = features.begin_of_sums()
    sums = np.zeros(int(begin[-1]), np.int64)
    g, h = xp.astype(g, xp.float64) * scales.g, xp.astype(h, xp.float64) * scales.h
    for node in np.flatnonzero(np.diff(features.begin)).tolist():
        inside = xp.nonzero(leaf == node)[0]
        z = []
        for entry in range(int(features.begin[node]), int(features.begin[node + 1])):
            x = xp.astype(xp.take(X[:, int(features.feature[entry])], inside), xp.float64)
            with np.errstate(over="ignore"):
                z.append((x - float(features.center[entry])) * float(features.scale[entry]))
        finite = xp.all(xp.isfinite(xp.stack(z)), axis=0)
        complete = xp.nonzero(finite)[0]
        z = [xp.take(own, complete) for own in z]
        z.append(xp.ones(complete.shape[0], dtype=xp.float64))
        own_g, own_h = (xp.take(xp.take(values, inside), complete) for values in (g, h))
        terms = []
        for i, zi in enumerate(z):
            terms += [own_h * zi * zj for zj in z[: i + 1]]
            terms.append(own_g * zi)
        nearest_integers = xp.astype(nearest_even(xp.stack(terms)), xp.int64)
        sums[begin[node] : begin[node + 1] - 1] = to_host(xp.sum(nearest_integers, axis=1))
        sums[begin[node + 1] - 1] = complete.shape[0]
    return sums
