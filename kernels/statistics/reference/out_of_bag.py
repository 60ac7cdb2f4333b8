"""Reference twin of ``kernels.statistics.out_of_bag``."""

from __future__ import annotations

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from .gradients import ordered_sum


def add_out_of_bag(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array
) -> tuple[Array, Array]:
    """Tree by tree, on whole arrays."""
    xp = array_namespace(leaf)
    errors, n_new = [], []
    for tree in range(leaf.shape[0]):
        reached = leaf[tree, :]
        unseen = reached >= 0
        added = xp.take(value, xp.where(unseen, reached, 0), axis=0)
        sums[...] = xp.where(unseen[:, None], sums + added, sums)
        n_new.append(int(xp.sum(xp.astype(unseen & (n_models == 0), xp.int64))))
        n_models[...] = n_models + xp.astype(unseen, xp.int32)
        known = n_models > 0
        mean = sums / xp.astype(xp.where(known, n_models, 1), xp.float64)[:, None]
        if truth.shape[0]:
            own = _row_errors(mean, truth, begin)
            errors.append(ordered_sum(xp.where(known, own, xp.zeros_like(own))))
        else:
            errors.append(0.0)
    return xp.asarray(errors, dtype=xp.float64), xp.asarray(n_new, dtype=xp.int64)


def _row_errors(mean: Array, truth: Array, begin: Array) -> Array:
    xp = array_namespace(mean)
    n_outputs = truth.shape[1]
    total = xp.zeros(mean.shape[0], dtype=xp.float64)
    for o in range(n_outputs):
        if begin.shape[0]:
            shares = mean[:, int(begin[o]) : int(begin[o + 1])]
            number = xp.astype(xp.argmax(shares, axis=1), xp.float64)
            total = total + xp.astype(number != truth[:, o], xp.float64)
        else:
            difference = mean[:, o] - truth[:, o]
            total = total + difference * difference
    return total / n_outputs
