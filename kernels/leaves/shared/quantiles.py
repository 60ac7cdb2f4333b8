"""Quantiles in leaves of shared rows (contract: ``kernels.leaves.quantiles``).

The bits of a number, turned so that they ascend with it, are found eight at a time from the highest
ones: the workers add up the weights of the rows of each leaf that have its bits so far, by their
next eight, which leaves the first that have weight enough::

    0.5    3fe|0000... -> bfe|0...     -2.0    c00|0000... -> 3ff|f...

A message has 256 sums for each leaf, eight times for each of the two values.
"""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import Collective, current_share
from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ...scalars.primitives import vectorise
from ...scalars.quantile import lower_share, upper_share
from ..cpu.quantiles import quantile_of_leaves

__all__ = ["leaf_quantiles", "quantile_of_leaves"]

BITS = 8
KEY_BITS = 64
SIGN = np.uint64(1 << 63)
u64, i64 = np.uint64, np.int64
_lower_share, _upper_share = vectorise(lower_share), vectorise(upper_share)


@kernel
def _weigh_worker(thread, n_threads, barrier, leaf, keys, weight, prefix, shift, sums):
    """Add up the weights of the rows whose bits above ``shift + 8`` are those of ``prefix``, which
    has an entry a node, in ``sums`` of shape (n_threads, n_nodes, 256)."""
    n = leaf.size
    mine = sums[thread]
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        node = leaf[i]
        if node >= 0:
            digits = keys[i] >> shift
            if digits >> u64(8) == prefix[node]:
                mine[node, digits & u64(255)] += i64(1) if weight.size == 0 else weight[i]


def leaf_quantiles(
    leaf: Array, values: Array, weight: Array, quantile: float, n_nodes: int
) -> np.ndarray:
    share = current_share()
    assert share is not None
    bits = (values + 0.0).view(np.uint64)  # without negative zeros
    keys = np.where(bits & SIGN, ~bits, bits | SIGN)
    rows = leaf, keys, weight
    total = np.zeros(n_nodes, np.int64)
    inside = leaf >= 0
    if weight.size:
        np.add.at(total, leaf[inside], weight[inside])
    else:
        total += np.bincount(leaf[inside], minlength=n_nodes)
    share.collective.add(total)
    whole = total.astype(np.float64)
    mean = np.zeros(n_nodes)
    for share_of in (_lower_share, _upper_share):
        least = share_of(float(quantile), whole).astype(np.int64)
        mean += 0.5 * _select(rows, np.where(total > 0, least, 0), share.collective)
    return np.where(total > 0, mean, 0.0) + 0.0


def _select(
    rows: tuple[Array, Array, Array], least: np.ndarray, collective: Collective
) -> np.ndarray:
    """Return the least value of each node up to which the weights sum to ``least``; anything for a
    node without rows."""
    n_nodes = least.size
    n_threads = threads_for(rows[0].size)
    prefix = np.zeros(n_nodes, np.uint64)
    missing = least.copy()
    nodes = np.arange(n_nodes)
    for shift in range(KEY_BITS - BITS, -1, -BITS):
        sums = np.zeros((n_threads, n_nodes, 1 << BITS), np.int64)
        run(_weigh_worker, n_threads, *rows, prefix, np.uint64(shift), sums)
        of_all = sums.sum(axis=0)
        collective.add(of_all)
        running = np.cumsum(of_all, axis=1)
        digit = (running >= missing[:, None]).argmax(axis=1)
        missing -= running[nodes, digit] - of_all[nodes, digit]
        prefix = prefix << np.uint64(BITS) | digit.astype(np.uint64)
    bits = np.where(prefix & SIGN, prefix ^ SIGN, ~prefix)
    return np.where(least > 0, bits.view(np.float64), 0.0)
