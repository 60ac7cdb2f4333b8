"""Features as the codes that classification and regression trees are grown on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..devices.placement import Device, to_numpy
from ..devices.threads import map_in_threads
from ..inputs.binning import SAMPLE_SIZE, Binner
from ..inputs.cut_points import cut_points_of_sorted, round_down
from ..kernels.binning.bin_values import bin_values
from ..kernels.cart.problem import CartTable
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import MAX_BINS

CELLS_WORTH_A_THREAD = 100_000
EXACT_CELLS = 2**20
"""Most cells of a table whose values each get a bin where there are more than 255 classes."""


class _Feature(NamedTuple):
    """A feature's bins, and the codes of its rows, with ``lower.size`` for missing values; None
    leaves them to be looked up by the bins."""

    codes: Array | None
    lower: np.ndarray
    upper: np.ndarray
    has_missing: bool


def bins_for_classes(
    max_bins: int | None, shape: tuple[int, int], n_classes: tuple[int, ...]
) -> int | None:
    """Return the bins of a feature; None: one for each distinct value.

    With more classes than ``MAX_BINS``, some bins of every feature hold several classes, which the
    feature by itself does not part: small tables then get exact thresholds.
    """
    if max(n_classes, default=0) > MAX_BINS and shape[0] * shape[1] <= EXACT_CELLS:
        return None
    return max_bins


def cart_table(
    X: Array,
    *,
    n_categories: np.ndarray,
    monotone: np.ndarray,
    max_bins: int | None,
    seed: int,
    device: Device,
    n_threads: int,
) -> CartTable:
    """Return the codes of a table.

    Parameters
    ----------
    X : float32 or float64, shape (n_rows, n_features), on the device
        NaN is missing; categories are whole numbers below ``n_categories``.
    n_categories : int32, shape (n_features,)
        0 for a numeric feature.
    monotone : int8, shape (n_features,)
    max_bins : int or None
        Bins of a numeric feature; None: one for each distinct value. A feature with at most
        so many distinct values has one for each in any case, otherwise the bins hold about the
        same number of rows each.
    seed : int
        Key of the sample that cuts are chosen from where there are very many rows.

    Returns
    -------
    CartTable
    """
    sampled: tuple[np.ndarray, ...] | None = None
    if max_bins is not None and X.shape[0] > SAMPLE_SIZE:
        sampled = Binner.fit(X, None, max_bins, seed, device, n_threads).thresholds

    def encode(f: int) -> _Feature:
        column = X[:, f]
        if n_categories[f]:
            return _categories(column, int(n_categories[f]))
        if max_bins is None:
            return _distinct(column, device)
        return _ranges(column, None if sampled is None else sampled[f], max_bins, device)

    features = _for_each(encode, X, device, n_threads)
    n_bins = np.array([feature.lower.size for feature in features], np.int32)
    return CartTable(
        codes=_codes(X, features, n_bins, device),
        n_bins=n_bins,
        begin=np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)]),
        lower=np.concatenate([feature.lower for feature in features]),
        upper=np.concatenate([feature.upper for feature in features]),
        categorical=(n_categories > 0).astype(np.uint8),
        monotone=monotone,
    )


def _codes(X: Array, features: list[_Feature], n_bins: np.ndarray, device: Device) -> Array:
    """Return the codes of all features, one row each."""
    xp = device.xp
    narrow = n_bins.max() <= MAX_BINS
    if narrow and any(feature.codes is None for feature in features):
        thresholds = np.full((len(features), MAX_BINS), np.inf, X.dtype)
        for row, feature in zip(thresholds, features, strict=True):
            if feature.codes is None:
                row[: feature.upper[:-1].size] = feature.upper[:-1]
        codes = bin_values(X, device.asarray(thresholds)).columns
    else:
        codes = xp.empty((len(features), X.shape[0]), np.uint8 if narrow else np.uint32)
    for f, feature in enumerate(features):
        if feature.codes is not None:
            codes[f] = feature.codes
            continue
        if not narrow:
            upper = device.asarray(feature.upper.astype(X.dtype))
            codes[f] = xp.searchsorted(upper, X[:, f], side="left")
        if feature.has_missing:
            codes[f][X[:, f] != X[:, f]] = n_bins[f]
    return codes


def _for_each(
    encode: Callable[[int], _Feature], X: Array, device: Device, n_threads: int
) -> list[_Feature]:
    """Encode every column, on the CPU in threads: sorting releases the interpreter."""
    columns = range(X.shape[1])
    if device.xp is not np or n_threads == 1 or X.size < CELLS_WORTH_A_THREAD:
        return [encode(f) for f in columns]
    return map_in_threads(encode, columns, n_threads)


def _distinct(column: Array, device: Device) -> _Feature:
    """Give each distinct value a bin."""
    xp = device.xp
    order = xp.argsort(column)  # NaN comes last
    ordered = column[order]
    ordered = ordered[: int(xp.count_nonzero(ordered == ordered))]
    n = ordered.size
    is_new = xp.ones(n, dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    codes = xp.empty(column.size, dtype=np.uint32)
    codes[order[:n]] = xp.cumsum(is_new, dtype=np.int64) - 1
    values = to_numpy(ordered[is_new]).astype(np.float64)
    codes[order[n:]] = values.size
    return _Feature(codes, values, values, n < column.size)


def _ranges(column: Array, cuts: np.ndarray | None, max_bins: int, device: Device) -> _Feature:
    """Give each distinct value a bin if they are few, else all values between two cuts one."""
    xp = device.xp
    ordered = xp.sort(column)  # NaN comes last
    n = int(xp.count_nonzero(ordered == ordered))
    has_missing, ordered = n < ordered.size, ordered[:n]
    is_new = ordered[1:] != ordered[:-1]
    if int(xp.count_nonzero(is_new)) < max_bins:
        last = xp.flatnonzero(is_new)
    else:
        if cuts is None:
            cuts = cut_points_of_sorted(ordered, None, max_bins)
        inner = device.asarray(round_down(cuts, column.dtype))
        last = xp.searchsorted(ordered, inner, side="right") - 1
        last = last[(last >= 0) & (last < n - 1)]
        last = last[xp.concatenate([xp.ones(1, dtype=bool), last[1:] != last[:-1]])[: last.size]]
    ends = xp.concatenate([last, xp.full(min(n, 1), n - 1, dtype=last.dtype)])
    begins = xp.concatenate([xp.zeros(min(n, 1), dtype=last.dtype), last + 1])
    lower, upper = (to_numpy(ordered[at]).astype(np.float64) for at in (begins, ends))
    return _Feature(None, lower, upper, has_missing)


def _categories(column: Array, n: int) -> _Feature:
    codes = column.copy()
    codes[codes != codes] = n
    none = np.zeros(n)
    return _Feature(codes.astype(np.uint32), none, none, True)
