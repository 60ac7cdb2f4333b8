"""The bins of the features of a table, and the cut points between them.

Bins hold about the same weight each, which puts an extreme value among its neighbours, however far
away it is. So the outer values are cut by their gaps as well: one that is wider than the distance
from its inner side to the middle of the feature's bins is never inside a bin. A column without such
gaps is cut by weight alone.

All sums are of whole numbers that float64 holds, so neither the order in which a library adds them
nor the device changes a cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.memory_plan import return_freed_memory
from ..devices.placement import Device, is_streamed, module_of, to_numpy
from ..devices.sparse_tables import SparseTable
from ..devices.transfer import in_pieces
from ..kernels.binning import cut_points as kernel
from ..kernels.binning.bin_values import bin_values
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..kernels.runtime.dtypes import CODE_WORDS, MAX_BINS, Codes
from ..kernels.scalars.lazy_jit import lazy_property
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_BIN_SAMPLE, draw, subkey
from ..kernels.scalars.routing import midpoint
from .sparse import sparse_codes

_midpoint = vectorise(midpoint)

SAMPLE_SIZE = 200_000
"""Rows that cut points are chosen from; larger tables are sampled."""
FEATURES_AT_ONCE = 8
"""Columns of the sample that are in memory together."""
WHOLE_BITS = 52
"""Bits of the largest sum of whole weights; the half of one is exact too."""


@dataclass(frozen=True)
class Binner:
    """Cut points of all features.

    Parameters
    ----------
    thresholds : tuple of float64 arrays
        Ascending cut points of each feature: ``x`` is in bin ``sum(thresholds < x)``.
    """

    thresholds: tuple[np.ndarray, ...]

    @classmethod
    def fit(
        cls,
        X: Array,
        weight: Array | None,
        max_bins: int,
        seed: int,
        device: Device,
    ) -> Binner:
        """Choose the cut points.

        A feature with at most ``max_bins`` distinct values is cut half-way between
        neighbours. Otherwise the bins hold about the same weight each, values that outweigh a
        bin alone, cuts lie half-way between the values that they separate, and extreme values
        have bins of their own (see ``cut_points``).

        Parameters
        ----------
        X : float32 or float64, shape (n_rows, n_features)
            On ``device``, or on the host. NaN is missing.
        weight : float64, shape (n_rows,), or None
            Rows of weight zero have no effect, not even on the sample.
        max_bins : int
            2 … 255, not counting missing values.
        seed : int
            Key of the sample when the table has more than ``SAMPLE_SIZE`` rows.
        """
        sampled = sample_rows(X.shape[0], seed, weight)
        rows = slice(None) if sampled is None else module_of(X).asarray(sampled)
        if weight is not None and sampled is not None:
            weight = weight[module_of(weight).asarray(sampled)]
        if weight is not None:
            weight = device.asarray(weight)
        cuts: list[np.ndarray] = []
        none = device.xp.empty((0, 0))
        for first in range(0, X.shape[1], FEATURES_AT_ONCE):
            sample = X[rows, first : first + FEATURES_AT_ONCE]
            if device.is_gpu or device.library is not None:
                columns = device.asarray(sample.T, order="C")
            else:
                columns = np.array(to_numpy(sample).T, order="C")
            if weight is None:
                cuts += kernel.cut_points(kernel.sort_rows(columns), none, max_bins)
            else:
                cuts += [cut_points(column, weight, max_bins) for column in columns]
            del sample, columns
        del sampled, rows, weight
        if X.shape[0] > SAMPLE_SIZE:
            return_freed_memory()
        return cls(tuple(cuts))

    @property
    def n_bins(self) -> np.ndarray:
        """Number of bins of each feature, int32."""
        return np.array([len(cuts) + 1 for cuts in self.thresholds], np.int32)

    @lazy_property
    def table(self) -> np.ndarray:
        """The thresholds as float64 of shape (n_features, 255), padded with +inf: with
        ``bin`` as column, also where a split parts all values from the missing ones."""
        table = np.full((len(self.thresholds), MAX_BINS), np.inf)
        for row, cuts in zip(table, self.thresholds, strict=True):
            row[: len(cuts)] = cuts
        return table

    def numbers(self, features: np.ndarray) -> np.ndarray:
        """Return the columns of the tables that features of the codes are; -1 is that of a leaf."""
        return features

    def places(self, features: np.ndarray) -> np.ndarray:
        """Return the features of the codes that columns of the tables are, see ``numbers``."""
        return features

    def cuts_at(self, features: np.ndarray, bins: np.ndarray) -> np.ndarray:
        """Return the cuts after some bins of features, and +inf behind the last bin, where a split
        parts all values from the missing ones."""
        begin, cuts = self._flat
        is_inside = bins < begin[features + 1] - begin[features]
        return np.where(is_inside, cuts[begin[features] + bins], np.inf)

    @lazy_property
    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """The beginnings of the cuts of each feature, and all cuts, one after the other, with room
        for the bins of a feature behind them."""
        begin = np.cumsum([0, *map(len, self.thresholds)])
        return begin, np.concatenate([*self.thresholds, np.full(MAX_BINS, np.inf)])

    def left_categories(self, feature: int, left_codes: np.ndarray) -> np.ndarray:
        """See ``CategoryBinner``; here every feature is numeric, so there are no categories."""
        return np.empty(0, np.uint32)

    def left_codes(self, feature: int, categories: np.ndarray) -> np.ndarray:
        """See ``CategoryBinner``."""
        return np.zeros(CODE_WORDS, np.uint32)

    def transform(self, X: Array, device: Device) -> Codes:
        """Return the bins of a table (float32 or float64) on ``device``.

        A table in host memory comes to a GPU in pieces and is never there as a whole.
        """
        thresholds = device.asarray(round_down(self.table, X.dtype))
        if not is_streamed(X, device):
            return self._codes(X, thresholds, device)
        codes: Codes | None = None
        for rows, piece in in_pieces(X, device.xp):
            part = self._codes(piece, thresholds, device)
            if part.rows.shape[0] == X.shape[0]:
                return part
            if codes is None:
                n_words = part.rows.shape[1]
                codes = Codes(
                    device.xp.empty((X.shape[0], n_words), dtype=part.rows.dtype),
                    device.xp.empty(X.shape[::-1], dtype=part.columns.dtype),
                )
            codes.rows[rows] = part.rows
            codes.columns[:, rows] = part.columns
        assert codes is not None
        return codes

    def codes_of(
        self, X: Array | SparseTable, device: Device, workers: Workers = ONE_WORKER
    ) -> Codes | SparseCodes:
        """Return the bins of a table of either kind on ``device``."""
        if isinstance(X, SparseTable):
            return sparse_codes(X, self.thresholds, device, workers)
        return self.transform(X, device)

    def _codes(self, X: Array, thresholds: Array, device: Device) -> Codes:
        """Return the bins of rows on ``device``; thresholds of the type of X."""
        return bin_values(X, thresholds)


def sample_rows(n: int, seed: int, weight: Array | None = None) -> np.ndarray | None:
    """Return one random row from each of ``SAMPLE_SIZE`` equal stretches of the rows of positive
    weight, or these where they are fewer; None takes all rows."""
    if n <= SAMPLE_SIZE:
        return None
    if weight is not None:
        used = np.flatnonzero(to_numpy(weight > 0))
        if used.size < n:
            among = sample_rows(used.size, seed)
            return used if among is None else used[among]
    stretch = np.arange(SAMPLE_SIZE + 1, dtype=np.int64) * n // SAMPLE_SIZE
    key = vectorise(subkey)(np.uint64(seed), PURPOSE_BIN_SAMPLE, np.uint64(0))
    bits = vectorise(draw)(key, np.arange(SAMPLE_SIZE, dtype=np.uint64)).astype(np.int64)
    return stretch[:-1] + ((stretch[1:] - stretch[:-1]) * bits >> 32)


def cut_points(values: Array, weight: Array | None, max_bins: int) -> np.ndarray:
    """Return the cut points (float64, ascending, on the host) of one feature.

    Parameters
    ----------
    values : float32 or float64, shape (n_rows,)
        NaN is missing.
    weight : float64, shape (n_rows,), in the same place, or None
        Rows of weight zero have no effect.
    """
    xp = module_of(values)
    if weight is None:
        return cut_points_of_sorted(_without_nan(xp.sort(values, stable=False)), None, max_bins)
    values = xp.where(weight > 0, values, xp.asarray(np.nan, dtype=values.dtype))
    order = xp.argsort(values, stable=False)
    ordered = _without_nan(values[order])
    return cut_points_of_sorted(ordered, weight[order[: ordered.size]], max_bins)


def cut_points_of_sorted(values: Array, weight: Array | None, max_bins: int) -> np.ndarray:
    """``cut_points`` for ascending values without NaN, and weights above zero."""
    if values.size == 0:
        return np.empty(0)
    whole = module_of(values).empty((0, 0)) if weight is None else whole_weights(weight)[None]
    (cuts,) = kernel.cut_points(values[None], whole, max_bins)
    return cuts


def cut_points_of_distinct(distinct: Array, mass: Array, max_bins: int) -> np.ndarray:
    """``cut_points`` for ascending values that differ, and the weight of each as whole numbers."""
    (cuts,) = kernel.cut_points(distinct[None], mass[None], max_bins)
    return cuts


def whole_weights(weight: Array) -> Array:
    """Return weights times a power of two, rounded to whole numbers.

    A sample of 200,000 keeps 34 bits of its largest weight.
    """
    xp = module_of(weight)
    bits = WHOLE_BITS - int(weight.size).bit_length()
    power = bits - math.frexp(float(weight.max()))[1]
    half = power // 2  # 2.0**power may be infinite
    return xp.round(weight * 2.0**half * 2.0 ** (power - half))


def _without_nan(ordered: Array) -> Array:
    """Return sorted values without NaN, which comes last."""
    return ordered[: int((ordered == ordered).sum())]


def midpoints(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return cuts between values, ``low < high`` (see ``kernels.scalars.routing.midpoint``)."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _midpoint(low, high)


def round_down(thresholds: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the largest numbers of ``dtype`` not above the thresholds: for x of that type,
    ``x <= rounded`` is equivalent to ``x <= threshold``."""
    target = np.dtype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        rounded = thresholds.astype(target)
        above = rounded.astype(np.float64) > thresholds
        return np.where(above, np.nextafter(rounded, target.type(-np.inf)), rounded)
