"""Weighted sums, means, quantiles and expectiles that are the same on every device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..devices.placement import Device
from ..kernels.leaves.quantiles import leaf_quantiles
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, rows_of_all
from ..kernels.statistics.ordered_sums import ordered_sums
from .shared_rows import sum_of_all

Later = Callable[[], float]
"""A number that may be on its way from a GPU."""
BLOCK_ROWS = 1 << 18
"""Values that are added to others together."""
LINE_ROWS = 1 << 15
"""Values that a GPU sums in one block."""
WEIGHT_BITS = 51
"""Bits of the sum of whole-number weights."""


def ordered_sum(values: Array, device: Device, workers: Workers = ONE_WORKER) -> float:
    """Sum a float64 vector in an order that is the same on any device: its upper half is added to
    its lower half, with zeros up to a power of two of values, until one value is left."""
    return sum_later(values, device, workers)()


def sum_later(values: Array, device: Device, workers: Workers = ONE_WORKER) -> Later:
    """Asynchronous ``ordered_sum``: return a callable that waits for the value."""
    if workers is not ONE_WORKER:
        total = sum_of_all(values, workers)
        return lambda: total
    n = int(values.shape[0])
    sums = values
    if n > LINE_ROWS:
        size = 1 << (n - 1).bit_length()
        n_blocks = max(1, size // BLOCK_ROWS)
        size //= n_blocks
        sums = _sum_of_blocks(values, 0, 1, n_blocks, size, device)
        while size > LINE_ROWS:
            size //= 2
            sums = sums[:size] + sums[size:]
    found = ordered_sums(sums[None, :], [int(sums.shape[0])])
    return lambda: float(found()[0, 0])


def sums_later(lines: Array, n_rows: Sequence[int], device: Device) -> list[Later]:
    """Return callables that wait for the ``ordered_sum`` of each line of as many rows as it has."""
    if max(n_rows) > LINE_ROWS:  # each is enough work for launches of its own
        return [sum_later(line[:n], device) for line, n in zip(lines, n_rows, strict=True)]
    found = ordered_sums(lines, n_rows)

    def total_of(line: int) -> Later:
        return lambda: float(found()[line, 0])

    return [total_of(line) for line in range(len(n_rows))]


def _sum_of_blocks(
    values: Array, first: int, step: int, n_blocks: int, size: int, device: Device
) -> Array:
    """Add up every ``step``-th block of a vector from block ``first`` on as halving it does, which
    would take as much memory again: of n blocks k and k + n/2 meet, then k and k + n/4. Behind the
    last value there are zeros."""
    if step == n_blocks:
        block = values[first * size : (first + 1) * size]
        if block.shape[0] == size:
            return block
        padded = device.xp.zeros(size, dtype=device.xp.float64)
        padded[: block.shape[0]] = block
        return padded
    low = _sum_of_blocks(values, first, 2 * step, n_blocks, size, device)
    if (first + step) * size >= values.shape[0]:
        return low + device.xp.zeros(size, dtype=device.xp.float64)
    return low + _sum_of_blocks(values, first + step, 2 * step, n_blocks, size, device)


def mean_later(
    values: Array, weight: Array, device: Device, workers: Workers = ONE_WORKER, n_terms: int = 1
) -> Later:
    """Return a callable that waits for the mean of float64 values; ``weight`` is empty if all
    weights are 1.

    Each value is a sum of ``n_terms``, over which the mean is taken too.
    """
    if weight.size == 0:
        total = sum_later(values, device, workers)
        n = rows_of_all(values.shape[0], workers) * n_terms
        return lambda: total() / n
    total, of_weights = (sum_later(own, device, workers) for own in (values * weight, weight))
    return lambda: total() / of_weights() / n_terms


def whole_weights(weight: Array, device: Device, workers: Workers = ONE_WORKER) -> Array:
    """Return weights as whole numbers, whose sums do not depend on the order of addition.

    They are rounded to 51 bits of their sum, and to no less than 1, unless they are 0. Weights
    that are small whole numbers keep their proportions exactly.

    Parameters
    ----------
    weight : float64, shape (n_rows,) or (0,)

    Returns
    -------
    int64, of the same shape
    """
    xp = device.xp
    if weight.size == 0:
        return xp.empty(0, dtype=xp.int64)
    _, exponent = math.frexp(ordered_sum(weight, device, workers))
    scale = 2.0 ** max(-1000, min(1000, WEIGHT_BITS - exponent))
    whole = xp.floor(weight * scale + 0.5).astype(xp.int64)
    return xp.where(weight > 0, xp.maximum(whole, 1), 0)


def weighted_quantile(
    values: Array, weight: Array, quantile: float, device: Device, workers: Workers = ONE_WORKER
) -> float:
    """Return a quantile of float64 values, as ``kernels.leaves.quantiles`` defines it.

    ``weight`` (int64) is that of ``whole_weights``; rows of weight 0 take no part.
    """
    leaf = device.xp.zeros(values.shape[0], dtype=device.xp.int32)
    if weight.size:
        leaf[weight == 0] = -1
    return float(leaf_quantiles(leaf, values, weight, quantile, 1, workers)[0])


def weighted_expectile(
    values: Array, weight: Array, level: float, device: Device, workers: Workers = ONE_WORKER
) -> float:
    """Return the expectile of float64 values: the minimum of the mean of ``losses.Expectile``.

    It is the mean in which the values above it count ``level``, the others ``1 - level``. Each step
    from the ordinary mean takes that of the weights that belong to the last one (Newey and Powell
    1987). From the first step on they lead in one direction, so that the one that does not is due
    to rounding, and ends the search.

    Parameters
    ----------
    values : float64, shape (n_rows,)
    weight : float64, shape (n_rows,) or (0,)
        Empty if all weights are 1.
    level : float
        In (0, 1).
    """
    found = mean_later(values, weight, device, workers)()
    while True:
        factor = device.xp.where(values > found, 2.0 * level, 2.0 * (1.0 - level))
        factor = factor if weight.size == 0 else factor * weight
        moved = mean_later(values, factor, device, workers)()
        if not (moved > found if level > 0.5 else moved < found):
            return found
        found = moved
