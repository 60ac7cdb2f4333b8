"""Integer records of real statistics, and the scales that turn these into integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers
from ..runtime.dispatch import implementation
from ..runtime.dtypes import Scales, Totals, TreeRecords
from ..scalars.rounding import fixed_point_bits, fixed_point_scale, quantising_scale


def quantise(
    g: Array, h: Array, rows: Array, key: int, first: int, scales: Sequence[Scales],
    workers: Workers = ONE_WORKER,
) -> TreeRecords:  # fmt: skip
    """Round the statistics of the sampled rows to 16-bit integers, without bias.

    ``g * scales.g`` and ``h * scales.h`` of output i are rounded stochastically: with
    ``bits = draw(draw(key, first + i), row)``, g uses the low 16 bits and h the high 16 bits.

    Parameters
    ----------
    g, h : float32, shape (n_outputs, n), contiguous
        h >= 0; at most ``MOST_OUTPUTS`` outputs.
    rows : int32, shape (m,) or (0,)
        The rows of the sample, ascending; empty: all n; ``NO_ROWS``: none of this worker's.
    key : int
        Random key below 2**32.
    first : int
        The number of the first output's tree.
    scales : sequence of Scales
        Of each output, see ``scales_for``.
    workers : Workers

    Returns
    -------
    TreeRecords
        In the order of the rows. Where workers share these, a row is rounded by its number among
        the rows of all, and the sums are of all rows and on the host.
    """
    op = implementation(__name__, g)
    if workers is ONE_WORKER:
        return op.quantise(g, h, rows, key, first, scales)
    records: TreeRecords = op.quantise(g, h, rows, key, first, scales, workers.first)
    return records._replace(sums=workers.collective.sum_to_host(records.sums))


def pack(
    begin: int,
    g: Array,
    h: Array,
    key: int,
    first: int,
    scales: Sequence[Scales],
    words: Array,
) -> np.ndarray:
    """Quantise neighbouring rows from row ``begin`` on, in half of the memory. Only on the
    CPU.

    Parameters
    ----------
    begin : int
    g, h, key, first, scales
    words : uint32, shape (n_outputs, n), contiguous
        Written, see ``RowStatistics``.

    Returns
    -------
    int64, shape (n_outputs, 2)
        The sums of the integers.
    """
    found: np.ndarray = implementation(__name__, g).pack(begin, g, h, key, first, scales, words)
    return found


def scales_for(totals: Totals, n: int) -> Scales:
    """Return the scales of ``quantise``: the ``quantising_scale`` of the g and h of n rows, those
    of all workers."""
    if not isinstance(totals, Totals):  # on a GPU, where the scales are computed too
        return totals.scales_for(n)
    scale = quantising_scale.py_func
    return Scales(scale(totals.max_g, totals.sum_g, n), scale(totals.max_h, totals.sum_h, n))


def fixed_point_scales(totals: Totals, n: int) -> Scales:
    """Return the scales of ``leaf_sums``: powers of two under which one value stays below 2**50 and
    those of n rows, of all workers, below 2**62."""
    if not isinstance(totals, Totals):
        return totals.fixed_point_scales(n)
    scale, n_bits = fixed_point_scale.py_func, fixed_point_bits(n)
    return Scales(scale(totals.max_g, n_bits), scale(totals.max_h, n_bits))
