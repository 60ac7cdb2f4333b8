"""Features as the codes that classification and regression trees are grown on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .binning import Binner, round_down
from .devices import Device, to_numpy
from .kernels.cart import CartTable
from .kernels.dtypes import MAX_BINS

CELLS_WORTH_A_THREAD = 100_000


class _Feature(NamedTuple):
    """Codes of a feature's rows, with ``lower.size`` for missing values, and its bins."""

    codes: Any
    lower: np.ndarray
    upper: np.ndarray


def cart_table(
    X: Any,
    *,
    n_categories: np.ndarray,
    monotone: np.ndarray,
    max_bins: int | None,
    seed: int,
    device: Device,
    n_threads: int,
) -> CartTable:
    """The codes of a table.

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
    cuts: tuple[np.ndarray, ...] = ()
    if max_bins is not None:
        cuts = Binner.fit(X, None, max_bins, seed, device, n_threads).thresholds

    def encode(f: int) -> _Feature:
        column = X[:, f]
        if n_categories[f]:
            return _categories(column, int(n_categories[f]))
        if max_bins is None:
            return _distinct(column, device)
        return _binned(column, cuts[f], max_bins, device)

    features = _for_each(encode, X, device, n_threads)
    n_bins = np.array([feature.lower.size for feature in features], np.int32)
    dtype = np.uint8 if n_bins.max() <= MAX_BINS else np.uint32
    codes = device.xp.empty((len(features), X.shape[0]), dtype=dtype)
    for f, feature in enumerate(features):
        codes[f] = feature.codes
    return CartTable(
        codes=codes,
        n_bins=n_bins,
        begin=np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)]),
        lower=np.concatenate([feature.lower for feature in features]),
        upper=np.concatenate([feature.upper for feature in features]),
        categorical=(n_categories > 0).astype(np.uint8),
        monotone=monotone,
    )


def _for_each(
    encode: Callable[[int], _Feature], X: Any, device: Device, n_threads: int
) -> list[_Feature]:
    """Sorting lets go of the interpreter, so threads pay on the CPU."""
    columns = range(X.shape[1])
    if device.xp is not np or n_threads == 1 or X.size < CELLS_WORTH_A_THREAD:
        return [encode(f) for f in columns]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(encode, columns))


def _distinct(column: Any, device: Device) -> _Feature:
    """A bin for each distinct value."""
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
    return _Feature(codes, values, values)


def _binned(column: Any, cuts: np.ndarray, max_bins: int, device: Device) -> _Feature:
    """A bin for each distinct value if they are few, else the values between two cuts."""
    xp = device.xp
    ordered = xp.sort(column)  # NaN comes last
    ordered = ordered[: int(xp.count_nonzero(ordered == ordered))]
    is_new = ordered[1:] != ordered[:-1]
    if int(xp.count_nonzero(is_new)) < max_bins:
        last = xp.flatnonzero(is_new)
    else:
        inner = device.asarray(round_down(cuts, column.dtype))
        last = xp.searchsorted(ordered, inner, side="right") - 1
        last = last[(last >= 0) & (last < ordered.size - 1)]
        last = last[xp.concatenate([xp.ones(1, dtype=bool), last[1:] != last[:-1]])[: last.size]]
    n = ordered.size
    ends = xp.concatenate([last, xp.full(min(n, 1), n - 1, dtype=last.dtype)])
    begins = xp.concatenate([xp.zeros(min(n, 1), dtype=last.dtype), last + 1])
    upper = ordered[ends]
    codes = xp.searchsorted(upper, column, side="left")
    codes[column != column] = upper.size
    lower, upper = (to_numpy(a).astype(np.float64) for a in (ordered[begins], upper))
    return _Feature(codes, lower, upper)


def _categories(column: Any, n: int) -> _Feature:
    codes = column.copy()
    codes[codes != codes] = n
    none = np.zeros(n)
    return _Feature(codes.astype(np.uint32), none, none)
