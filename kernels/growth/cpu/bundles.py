"""Several small features in one byte.

A histogram costs one addition for each row and byte. Features of few bins, such as the columns of
a one-hot encoding, share a byte: eight binary ones make one code of 256. Their own histograms
are sums over parts of the common one, which cost nothing beside adding up the rows.

    code = c0 + c1 * n0 + c2 * n0 * n1 + ...        (stride of feature k: n0 * ... * n(k-1))
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner
from ...runtime.cpu.running_sums import LANES
from ...runtime.derived import derived
from ...runtime.dtypes import MISSING, N_SLOTS, Codes

MOST_BINS = 16
"""A feature with more bins keeps a byte of its own."""
FEWEST_ROWS = 5_000
"""Tables with fewer rows do not repay the expansion."""
SLOT_ALIGNMENT = LANES
"""Numbers of used slots are rounded up to this, which spares the loops their remainders."""
SHORTEST_LINE = 16
"""Entries below which adding up two lines is slower than adding up two digits."""

_I = np.int64
FEATURE = np.dtype(
    [
        ("column", _I),  # the byte that holds it
        ("stride", _I),  # in the code of a bundle; 0: the byte is its own
        ("n_bins", _I),
        ("product", _I),  # number of codes of the bundle
    ]
)


class Layout(NamedTuple):
    """What histograms are added up from.

    words : uint64, flat
        Row-major, eight bytes a word.
    features : FEATURE, one entry a feature
    column_begin, column_features : int64
        ``column_features[column_begin[c]:column_begin[c + 1]]`` share byte c.
    column_slots : int64
        The histogram of byte c uses its first ``column_slots[c]`` entries, and MISSING.
    """

    words: np.ndarray
    features: np.ndarray
    column_begin: np.ndarray
    column_features: np.ndarray
    column_slots: np.ndarray


# A slice's own loop vectorises; sums of indices, which might be negative, would keep it from that.


@inner
def _copy(source, target):
    for i in range(target.size):
        target[i] = source[i]


@inner
def _add(source, target):
    for i in range(target.size):
        target[i] += source[i]


@inner
def _clear(values):
    for i in range(values.size):
        values[i] = 0


@inner
def _sum(values):
    total = np.int64(0)
    for i in range(values.size):
        total += values[i]
    return total


@inner
def expand(bundle, feature, bins):
    """The histogram of one feature of a bundle: ``bins[d]`` sums the codes with digit d.

    First the higher digits are added up, line by line, then the lower ones within each line.
    ``bins`` is the scratch, too: ``bins[d]`` is written after all that stands below
    ``bins[(d + 1) * stride]`` was read.
    """
    stride = feature.stride
    step = stride * feature.n_bins
    line = step
    while line < SHORTEST_LINE and feature.product % (2 * line) == 0:
        line *= 2
    _copy(bundle[:line], bins[:line])
    for first in range(line, feature.product, line):
        _add(bundle[first : first + line], bins[:line])
    for first in range(step, line, step):
        _add(bins[first : first + step], bins[:step])
    if stride > 1:
        for d in range(feature.n_bins):
            bins[d] = _sum(bins[d * stride : (d + 1) * stride])
    _clear(bins[feature.n_bins : feature.n_bins + SLOT_ALIGNMENT])
    bins[MISSING] = 0


def layout(codes: Codes, n_bins: np.ndarray) -> Layout:
    """The layout of a table, made once."""
    return derived(codes.rows, "layout", lambda: _layout(codes, n_bins))


def _layout(codes: Codes, n_bins: np.ndarray) -> Layout:
    groups = _bundle(codes, n_bins)
    n_features, n_rows = codes.columns.shape
    features = np.zeros(n_features, FEATURE)
    features["n_bins"] = n_bins
    for column, group in enumerate(groups):
        features["column"][group] = column
        if len(group) > 1:
            sizes = n_bins[group].astype(np.int64)
            features["stride"][group] = np.cumprod(sizes) // sizes
            features["product"][group] = np.prod(sizes)
    begin = np.cumsum([0, *map(len, groups)])
    slots = np.array([np.prod(n_bins[group], dtype=np.int64) for group in groups])
    slots = np.minimum(-(-slots // SLOT_ALIGNMENT) * SLOT_ALIGNMENT, N_SLOTS)
    if len(groups) == n_features:
        words = codes.rows
    else:
        words = np.zeros((n_rows, -(-len(groups) // 8) * 8), np.uint8)
        for column, group in enumerate(groups):
            strides = np.maximum(features["stride"][group], 1).astype(np.uint8)
            parts = (codes.columns[f] * s for f, s in zip(group, strides, strict=True))
            words[:, column] = sum(parts, np.uint8(0))
    return Layout(words.reshape(-1).view(np.uint64), features, begin, np.concatenate(groups), slots)


def _bundle(codes: Codes, n_bins: np.ndarray) -> list[list[int]]:
    """Which features share a byte: those with few bins and no missing values, as they come."""
    own: list[list[int]] = []
    shared: list[list[int]] = []
    product = N_SLOTS
    for f, n in enumerate(n_bins.tolist()):
        small = codes.columns.shape[1] >= FEWEST_ROWS and n <= MOST_BINS
        if not small or int(codes.columns[f].max()) == MISSING:
            own.append([f])
        elif product * n <= N_SLOTS and shared:
            shared[-1].append(f)
            product *= n
        else:
            shared.append([f])
            product = n
    return sorted(own + shared, key=lambda group: (len(group) > 1, group[0]))
