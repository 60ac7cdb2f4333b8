"""Data types and layouts that the operations share.

Codes
    A feature value is stored as its bin number in 8 bits. At most ``MAX_BINS`` bins
    (0 … 254) hold values; ``MISSING`` means NaN.

Records
    One 64-bit word for every row that takes part in a tree, moved by the partition::

        63           48 47           32 31                            0
        +--------------+---------------+-----------------------------+
        |  g (int16)   |  h (uint16)   |        row (uint32)         |
        +--------------+---------------+-----------------------------+

    ``g`` and ``h`` are the row's gradient and hessian as integers (see ``quantise``).

Arrays over rows and histograms live on the device of the data; arrays over nodes (segments,
splits, totals, small tables) are NumPy arrays on the host.

Histograms
    int32, shape (nodes, 2, features, 256): plane 0 sums g, plane 1 sums h. The scale of
    ``quantise`` keeps the sum over any subset of rows inside 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

CODE = np.uint8
MISSING = 255
MAX_BINS = 255
N_SLOTS = 256
"""Histogram entries of one feature: MAX_BINS bins and the missing values."""

ROW_ALIGNMENT = 8
"""Rows of the code matrix are padded to whole 64-bit words."""

RECORD = np.uint64
RAW = np.float64
"""Raw predictions, leaf values, gains and thresholds."""

SUM_CHUNK = 1024
"""Rows of one chunk in the order-fixed sum of ``gradients`` (a power of two)."""


NO_LEAF = 65_535
"""In place of -1 where the numbers of leaves are uint16, as on a GPU: the row is in no leaf."""


class Codes(NamedTuple):
    """A binned table, stored twice because its two readers walk it differently.

    rows : uint8, shape (n_rows, stride)
        Row after row for the histograms; ``stride`` is n_features rounded up to a multiple
        of ``ROW_ALIGNMENT``, the padding is 0.
    columns : uint8, shape (n_features, n_rows)
        Column after column for the partition.
    """

    rows: np.ndarray
    columns: np.ndarray


class Totals(NamedTuple):
    """Largest value and order-fixed sum of \\|g\\| and h over all rows (float64 scalars).

    On a GPU they are objects with the same attributes: reading one waits until it is known.
    """

    max_g: float
    sum_g: float
    max_h: float
    sum_h: float

    @property
    def is_here(self) -> bool:
        """Return whether the numbers are known without waiting."""
        return True


class Scales(NamedTuple):
    """Powers of two that turn real statistics into integers: ``integer = real * scale``."""

    g: float
    h: float


MOST_OUTPUTS = 65_535
"""Outputs, or trees of a batch, that an operation takes together: the rows of a grid of CUDA."""


class TreeRecords(NamedTuple):
    """The rows that the trees of a batch grow on, as integers.

    words : uint64, shape (n_trees, n_records), contiguous
        Records. Growth may change their order.
    sums : int64, shape (n_trees, 2), on the device of the records
        Of g and of h.
    scales : sequence of Scales
        What the statistics of each tree were multiplied by.
    """

    words: np.ndarray
    sums: np.ndarray
    scales: Sequence[Scales]


class RowStatistics(NamedTuple):
    """The statistics of all rows in the order of these, in place of ``TreeRecords`` (see
    ``records_for``).

    words : uint32, shape (n_trees, n_rows), contiguous
        The integers of g and h, of 16 bits each.
    sums, scales
        As those of ``TreeRecords``.
    leaf_type : dtype
        Of the leaves of rows, uint16 only where it holds their numbers.
    """

    words: np.ndarray
    sums: np.ndarray
    scales: Sequence[Scales]
    leaf_type: np.dtype = np.dtype(np.int32)


class NodeValues(NamedTuple):
    """Values of the nodes of a tree, float64 NumPy arrays of shape (n_nodes,).

    value
        What a node adds to the raw prediction, before any shrinkage.
    hessian
        The sum of its rows' hessians.
    """

    value: np.ndarray
    hessian: np.ndarray


class Update(NamedTuple):
    """An update of raw predictions by a tree: ``raw[i] += factor * values.value[leaf[i]]``.

    leaf : int32 or on CUDA uint16, shape (n,)
        The node of each row, which is in one.
    values : NodeValues
    factor : float
    """

    leaf: Any
    values: NodeValues
    factor: float


NUMERIC, ORDERED, ALONE = range(3)
"""Kinds of features: ``code <= bin`` goes left; categories, cut in the order of their mean
gradients; categories, one of them against all others."""
CODE_WORDS = N_SLOTS // 32
"""Words of a set of codes: bit ``code % 32`` of word ``code // 32``, ``MISSING`` among them."""
NO_SETS = np.zeros((0, CODE_WORDS), np.uint32)
