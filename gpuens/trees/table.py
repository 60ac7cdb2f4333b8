"""Features as the codes that classification and regression trees are grown on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ..devices.placement import CPU, Device, is_streamed, module_of, to_numpy
from ..devices.sparse_tables import SparseTable
from ..devices.threads import map_in_threads
from ..devices.transfer import in_pieces
from ..inputs.binning import (
    SAMPLE_SIZE,
    Binner,
    cut_points_of_sorted,
    round_down,
)
from ..inputs.sparse_bins import distinct_values, fit_sparse_binner, parts_of
from ..kernels.binning.bin_values import bin_values
from ..kernels.binning.cut_points import cut_points, sort_rows
from ..kernels.binning.rank_values import rank_values
from ..kernels.cart.problem import CartTable
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.cpu.team import get_threads
from ..kernels.runtime.dtypes import MAX_BINS, MISSING

CELLS_WORTH_A_THREAD = 100_000
COLUMN_BYTES = 32
"""Bytes of a row of the columns that come to a GPU together."""
BLOCK_CELLS = 2**18
"""Cells of the columns that are sorted together on the CPU."""
COPIED_BYTES = 2**25
"""Bytes of the rows of positive weight that are copied at a time, if one column has not more."""
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
    max_bins: int | None, shape: tuple[int, ...], n_classes: tuple[int, ...]
) -> int | None:
    """Return the bins of a feature; None: one for each distinct value.

    With more classes than ``MAX_BINS``, some bins of every feature hold several classes, which the
    feature by itself does not part: small tables then get exact thresholds.
    """
    if max(n_classes, default=0) > MAX_BINS and shape[0] * shape[1] <= EXACT_CELLS:
        return None
    return max_bins


def cart_table(
    X: Array | SparseTable, *, n_categories: np.ndarray, monotone: np.ndarray,
    max_bins: int | None, seed: int, device: Device,
    weight: np.ndarray | None = None,
) -> CartTable:  # fmt: skip
    """Return the codes of a table.

    Parameters
    ----------
    X : float32 or float64, shape (n_rows, n_features)
        On the device, or in host memory, from where it comes to a GPU in parts. NaN is missing;
        categories are whole numbers below ``n_categories``. A sparse table has none, and never
        becomes dense.
    n_categories : int32, shape (n_features,)
        0 for a numeric feature.
    monotone : int8, shape (n_features,)
    max_bins : int or None
        Bins of a numeric feature; None: one for each distinct value. A feature with at most
        so many distinct values has one for each in any case, otherwise the bins hold about the
        same weight each.
    seed : int
        Key of the sample that cuts are chosen from where there are very many rows.
    weight : float64, shape (n_rows,), NumPy, or None
        Rows of weight zero have no bins: their codes are those of missing values.
    """
    if weight is not None and not (weight > 0).all():
        return _of_used_rows(
            X, weight, n_categories=n_categories, monotone=monotone, max_bins=max_bins, seed=seed,
            device=device,
        )  # fmt: skip
    if weight is not None and (weight == weight[0]).all():
        weight = None
    categorical = (n_categories > 0).astype(np.uint8)
    if isinstance(X, SparseTable):
        return _of_sparse(X, weight, categorical, monotone, max_bins, seed, device)
    if device.has_numpy and not categorical.any() and has_few_rows(X.shape[0], max_bins):
        return _of_few_rows(to_numpy(X), categorical, monotone)
    cuts: tuple[np.ndarray, ...] | None = None
    if max_bins is not None and (weight is not None or X.shape[0] > SAMPLE_SIZE):
        cuts = Binner.fit(X, weight, max_bins, seed, device).thresholds

    def encode(f: int, column: Array) -> _Feature:
        if n_categories[f]:
            return _categories(column, int(n_categories[f]))
        if max_bins is None:
            return _distinct(column)
        return _ranges(column, None if cuts is None else cuts[f], max_bins, device)

    if device.has_numpy and max_bins is not None:
        features = _in_blocks(X, n_categories, cuts, max_bins)
    else:
        features = _for_each(encode, X, device)
    n_bins = np.array([feature.lower.size for feature in features], np.int32)
    lower = joined_ends([feature.lower for feature in features])
    # One array for both ends where every value has a bin of its own: it takes half of the caches.
    is_exact = all(feature.upper is feature.lower for feature in features)
    codes = _narrow_codes if n_bins.max() <= MAX_BINS else _wide_codes
    return CartTable(
        codes=codes(X, features, n_bins, device),
        n_bins=n_bins,
        begin=np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)]),
        lower=lower,
        upper=lower if is_exact else joined_ends([feature.upper for feature in features]),
        categorical=categorical,
        monotone=monotone,
    )


def side_by_side(parts: Sequence[CartTable]) -> CartTable:
    """Return the table of the features of all parts, which have the same rows."""
    n_bins = np.concatenate([part.n_bins for part in parts])
    dtype = np.uint8 if n_bins.max() <= MAX_BINS else np.uint32
    xp, n_rows = array_namespace(parts[0].codes), parts[0].codes.shape[1]
    codes = xp.empty((n_bins.size, n_rows), dtype=dtype)
    begin = 0
    for part in parts:
        codes[begin : begin + part.n_bins.size] = part.codes
        begin += part.n_bins.size
    return CartTable(
        codes=codes,
        begin=np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)]),
        n_bins=n_bins,
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("lower", "upper", "categorical", "monotone")
        },
    )


def _of_used_rows(
    X: Array | SparseTable, weight: np.ndarray, *, device: Device, **settings: Any
) -> CartTable:
    """Return the table of the rows of positive weight, with places for the others in its codes."""
    used = np.flatnonzero(weight > 0)
    n_categories, monotone = settings.pop("n_categories"), settings.pop("monotone")
    step = X.shape[1]
    if not isinstance(X, SparseTable):  # the rows are copied, not all columns at a time
        step = max(1, COPIED_BYTES // (used.size * X.dtype.itemsize))
    places, parts = device.asarray(used), []
    for first in range(0, X.shape[1], step):
        some = slice(first, first + step)
        rows = X[used] if isinstance(X, SparseTable) else X[:, some][module_of(X).asarray(used)]
        part = cart_table(
            rows, weight=weight[used], n_categories=n_categories[some], monotone=monotone[some],
            device=device, **settings,
        )  # fmt: skip
        missing = device.asarray(part.n_bins.astype(part.codes.dtype))
        codes = device.xp.repeat(missing[:, None], weight.size, axis=1)
        codes[:, places] = part.codes
        parts.append(part._replace(codes=codes))
    return parts[0] if len(parts) == 1 else side_by_side(parts)


def _of_sparse(
    X: SparseTable,
    weight: np.ndarray | None,
    categorical: np.ndarray,
    monotone: np.ndarray,
    max_bins: int | None,
    seed: int,
    device: Device,
) -> CartTable:
    cuts: tuple[np.ndarray, ...] | None = None
    if max_bins is not None and (weight is not None or X.shape[0] > SAMPLE_SIZE):
        cuts = fit_sparse_binner(X, weight, max_bins, seed).thresholds

    def of_many(f: int) -> tuple[np.ndarray, np.ndarray]:
        own = None if cuts is None else cuts[f]
        feature = _ranges(X.column(f), own, max_bins or 0, CPU)
        return joined_ends([feature.lower]), joined_ends([feature.upper])

    n_bins, begin, lower, upper = _bins_of_sparse(X, max_bins, of_many)
    codes = device.asarray(_codes_of_sparse(X, n_bins, begin, upper))
    return CartTable(codes, n_bins, begin, lower, upper, categorical, monotone)


def _bins_of_sparse(
    table: SparseTable,
    max_bins: int | None,
    of_many: Callable[[int], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, ...]:
    """Return ``n_bins``, ``begin``, ``lower`` and ``upper`` of a ``CartTable`` with a bin for each
    distinct value. Of a column f with more than ``max_bins`` of them, ``of_many(f)`` returns the
    lowest and highest values in the bins."""
    lower: list[np.ndarray] = []
    upper: list[np.ndarray] = []
    n_bins = np.empty(table.shape[1], np.int32)
    for features in parts_of(table):
        distinct, _, begin = distinct_values(table, features)
        size = np.diff(begin)
        many = np.flatnonzero(size > max_bins) if max_bins is not None else np.empty(0, np.int64)
        n_bins[features.start : features.stop] = size
        done = 0
        for f in many.tolist():
            low, high = of_many(features[f])
            n_bins[features[f]] = low.size
            lower += [distinct[done : begin[f]], low]
            upper += [distinct[done : begin[f]], high]
            done = begin[f + 1]
        lower.append(distinct[done:])
        upper.append(distinct[done:])
    ends = np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)])
    return n_bins, ends, np.concatenate(lower), np.concatenate(upper)


def _codes_of_sparse(
    table: SparseTable, n_bins: np.ndarray, begin: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """Return the bin of each value, zeros included: shape (n_features, n_rows), uint8 or uint32."""
    n_rows, n_features = table.shape
    dtype = np.uint8 if n_bins.max() <= MAX_BINS else np.uint32
    codes = np.empty((n_features, n_rows), dtype)
    indptr, ends = table.entries.indptr.tolist(), begin.tolist()
    for f in range(n_features):
        own, highest = slice(*indptr[f : f + 2]), upper[ends[f] : ends[f + 1]]
        codes[f] = np.searchsorted(highest, 0.0)
        values = table.entries.data[own].astype(np.float64)
        of_entries = np.searchsorted(highest, values)
        of_entries[values != values] = highest.size
        codes[f, table.entries.indices[own]] = of_entries
    return codes


def bytes_of_cell(table: SparseTable, max_bins: int | None) -> int:
    """Return the bytes of a value's code."""
    n_distinct = int(table.n_entries.max(initial=0)) + 1
    return 1 if max_bins is not None or n_distinct <= MAX_BINS else 4


def has_few_rows(n_rows: int, max_bins: int | None) -> bool:
    """Return whether there are fewer rows than bins: each distinct value gets one."""
    return n_rows < MAX_BINS and (max_bins is None or n_rows <= max_bins)


def _of_few_rows(X: np.ndarray, categorical: np.ndarray, monotone: np.ndarray) -> CartTable:
    """Sort columns together: one by itself costs a dozen calls of NumPy, whatever its length, which
    took half the time of a tree with 50 rows of 100,000 features."""
    step = max(1, BLOCK_CELLS // X.shape[0])
    blocks = [X[:, first : first + step] for first in range(0, X.shape[1], step)]
    n_threads = 1 if X.size < CELLS_WORTH_A_THREAD else get_threads()
    parts = map_in_threads(_codes_of_few_rows, blocks, n_threads)
    codes, n_bins, values = map(np.concatenate, zip(*parts, strict=True))
    return CartTable(
        codes=codes,
        n_bins=n_bins,
        begin=np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)]),
        lower=values,
        upper=values,
        categorical=categorical,
        monotone=monotone,
    )


def _codes_of_few_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the codes of some columns, shape (n_features, n_rows), with ``n_bins`` of the feature
    for missing values, their ``n_bins``, and the values of the bins, feature by feature."""
    columns = np.ascontiguousarray(X.T)
    order = np.argsort(columns, axis=1)  # NaN comes last
    ordered = np.take_along_axis(columns, order, axis=1)
    is_value = ordered == ordered
    is_new = is_value.copy()
    is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    n_bins = is_new.sum(axis=1, dtype=np.int32)
    rank = np.cumsum(is_new, axis=1, dtype=np.uint8) - np.uint8(1)
    np.copyto(rank, n_bins[:, None].astype(np.uint8), where=~is_value)
    codes = np.empty_like(rank)
    np.put_along_axis(codes, order, rank, axis=1)
    return codes, n_bins, ordered[is_new].astype(np.float64)


def joined_ends(ends: list[np.ndarray]) -> np.ndarray:
    """Return the ends of the bins of several features in one array.

    Zeros lose their sign: which of 0.0 and -0.0 is the end of a bin that has both depends on the
    order of the rows, and thresholds must not.
    """
    return np.concatenate(ends) + 0.0


def _columns(X: Array, device: Device) -> Iterator[Array]:
    """Yield the columns on the device, where those of a table in host memory come a few at a
    time."""
    step = max(1, COLUMN_BYTES // X.dtype.itemsize) if is_streamed(X, device) else X.shape[1]
    for first in range(0, X.shape[1], step):
        yield from device.asarray(X[:, first : first + step]).T


def _narrow_codes(X: Array, features: list[_Feature], n_bins: np.ndarray, device: Device) -> Array:
    """Return the codes of all features, one row each, uint8."""
    if all(feature.codes is not None for feature in features):
        codes = device.xp.empty((len(features), X.shape[0]), dtype=device.xp.uint8)
    else:
        thresholds = np.full((len(features), MAX_BINS), np.inf, X.dtype)
        for row, feature in zip(thresholds, features, strict=True):
            if feature.codes is None:
                row[: feature.upper[:-1].size] = feature.upper[:-1]
        codes = _looked_up(X, device.asarray(thresholds), device)
    for f, feature in enumerate(features):
        if feature.codes is not None:
            codes[f] = feature.codes
        elif feature.has_missing:
            codes[f][codes[f] == MISSING] = n_bins[f]
    return codes


def _looked_up(X: Array, thresholds: Array, device: Device) -> Array:
    """Return the bins of all values, a row for each feature."""
    if not is_streamed(X, device):
        return bin_values(X, thresholds).columns
    codes = device.xp.empty(X.shape[::-1], dtype=device.xp.uint8)
    for rows, piece in in_pieces(X, device.xp):
        codes[:, rows] = bin_values(piece, thresholds).columns
    return codes


def _wide_codes(X: Array, features: list[_Feature], n_bins: np.ndarray, device: Device) -> Array:
    """Return the codes of all features, one row each, uint32."""
    xp = device.xp
    codes = xp.empty((len(features), X.shape[0]), dtype=xp.uint32)
    for f, (feature, column) in enumerate(zip(features, _columns(X, device), strict=True)):
        if feature.codes is not None:
            codes[f] = feature.codes
            continue
        upper = device.asarray(feature.upper.astype(X.dtype))
        codes[f] = xp.searchsorted(upper, column, side="left")
        if feature.has_missing:
            codes[f][column != column] = n_bins[f]
    return codes


def _for_each(encode: Callable[[int, Array], _Feature], X: Array, device: Device) -> list[_Feature]:
    """Encode every column, on the CPU in threads: sorting releases the interpreter."""
    n_threads = get_threads()
    if not device.has_numpy or n_threads == 1 or X.size < CELLS_WORTH_A_THREAD:
        return [encode(f, column) for f, column in enumerate(_columns(X, device))]
    return map_in_threads(lambda f: encode(f, X[:, f]), range(X.shape[1]), n_threads)


def _distinct(column: Array) -> _Feature:
    """Give each distinct value a bin."""
    ranks, distinct = rank_values(column)
    values = to_numpy(distinct).astype(np.float64)
    has_missing = bool((column != column).any())
    return _Feature(ranks, values, values, has_missing)


def _in_blocks(
    X: Array,
    n_categories: np.ndarray,
    cuts: tuple[np.ndarray, ...] | None,
    max_bins: int,
) -> list[_Feature]:
    """Encode the columns on the CPU. Some at a time are sorted and cut: one by itself, of a few
    thousand rows, costs more calls than work."""
    categorical, numeric = np.flatnonzero(n_categories), np.flatnonzero(n_categories == 0)
    features = {f: _categories(X[:, f], int(n_categories[f])) for f in categorical}
    step = max(get_threads(), BLOCK_CELLS // X.shape[0])
    for first in range(0, numeric.size, step):
        block = numeric[first : first + step]
        ordered = sort_rows(np.ascontiguousarray(X.T[block]))
        if cuts is None:
            of_block = cut_points(ordered, np.empty((0, 0)), max_bins)
        else:
            of_block = [cuts[f] for f in block]
        rounded = round_down(np.concatenate(of_block), X.dtype)
        ends = np.cumsum([own.size for own in of_block])
        for f, line, own in zip(block, ordered, np.split(rounded, ends[:-1]), strict=True):
            features[f] = _ranges_of_sorted(line, own, max_bins)
    return [features[f] for f in np.arange(n_categories.size)]


def _ranges(column: Array, cuts: np.ndarray | None, max_bins: int, device: Device) -> _Feature:
    """Give each distinct value a bin if they are few, else all values between two cuts one."""
    ordered = to_numpy(sort_rows(device.xp.asarray(column, copy=True)[None])[0])
    if cuts is not None:
        cuts = round_down(cuts, ordered.dtype)
    return _ranges_of_sorted(ordered, cuts, max_bins)


def _ranges_of_sorted(ordered: np.ndarray, cuts: np.ndarray | None, max_bins: int) -> _Feature:
    """Give the values of a column bins (see ``_ranges``), where it is in ascending order, NaN last,
    and cuts of its type."""
    n = int(np.searchsorted(ordered, np.nan))
    has_missing, ordered = n < ordered.size, ordered[:n]
    is_new = ordered[1:] != ordered[:-1]
    if np.count_nonzero(is_new) < max_bins:
        last = np.flatnonzero(is_new)
    else:
        if cuts is None:
            cuts = round_down(cut_points_of_sorted(ordered, None, max_bins), ordered.dtype)
        last = np.searchsorted(ordered, cuts, side="right") - 1
        last = last[(last >= 0) & (last < n - 1)]
        last = last[np.concatenate([np.ones(1, bool), last[1:] != last[:-1]])[: last.size]]
    ends = np.concatenate([last, np.full(min(n, 1), n - 1)])
    begins = np.concatenate([np.zeros(min(n, 1), last.dtype), last + 1])
    lower, upper = (ordered[at].astype(np.float64) for at in (begins, ends))
    return _Feature(None, lower, upper, has_missing)


def _categories(column: Array, n: int) -> _Feature:
    codes = column.copy()
    codes[codes != codes] = n
    none = np.zeros(n)
    return _Feature(codes.astype(np.uint8 if n <= MAX_BINS else np.uint32), none, none, True)
