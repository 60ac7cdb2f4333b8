"""Reference twin of ``kernels.prediction.linear_leaves``."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.reference.arrays import to_host
from ..linear_leaves import LinearLeaves


def add_linear_values(leaves: LinearLeaves, X: Array, leaf: Array, raw: Array) -> None:
    """Tree by tree."""
    xp = array_namespace(X)
    for tree in range(leaves.output.shape[0]):
        node = xp.astype(leaf[:, tree], xp.int64) + int(leaves.offset[tree])
        own = _linear_values(leaves, X, node)
        added = xp.where(xp.isfinite(own), own, xp.take(leaves.value, node))
        output = int(leaves.output[tree])
        raw[output, :] = raw[output, :] + added


def largest_linear_values(leaves: LinearLeaves, X: Array, leaf: Array) -> np.ndarray:
    xp = array_namespace(X)
    node = xp.astype(xp.where(leaf < 0, 0, leaf), xp.int64)
    own = xp.abs(_linear_values(leaves, X, node))
    counts = xp.isfinite(own) & (leaf >= 0)
    counts = counts & (xp.take(leaves.begin, node + 1) > xp.take(leaves.begin, node))
    largest = np.zeros(leaves.value.shape[0])
    np.maximum.at(largest, to_host(node), to_host(xp.where(counts, own, 0.0)))
    return largest


def _linear_values(leaves: LinearLeaves, X: Array, node: Array) -> Array:
    """Return the values of rows in some nodes, as they are; coefficient by coefficient."""
    xp = array_namespace(X)
    first, last = xp.take(leaves.begin, node), xp.take(leaves.begin, node + 1)
    flat = xp.reshape(X, (-1,))
    start = xp.arange(X.shape[0], dtype=xp.int64, device=device(X)) * X.shape[1]
    own = xp.take(leaves.intercept, node)
    for k in range(int(xp.max(last - first)) if node.shape[0] else 0):
        inside = first + k < last
        at = xp.where(inside, first + k, 0)
        x = xp.take(flat, start + xp.astype(xp.take(leaves.feature, at), xp.int64))
        with np.errstate(invalid="ignore", over="ignore"):
            term = xp.take(leaves.coefficient, at) * xp.astype(x, xp.float64)
            own = xp.where(inside, own + term, own)
    return own
