"""Cut points of the features, and the bins of their values."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..devices.placement import Device, is_streamed, module_of, to_numpy
from ..devices.threads import map_in_threads
from ..devices.transfer import in_pieces
from ..kernels.binning.bin_values import bin_values
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import MAX_BINS, Codes
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_BIN_SAMPLE, draw, subkey

SAMPLE_SIZE = 200_000
"""Rows that cut points are chosen from; larger tables are sampled."""
FEATURES_AT_ONCE = 8
"""Columns of the sample that are in memory together."""
CELLS_WORTH_A_THREAD = 100_000


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
        n_threads: int = 1,
    ) -> Binner:
        """Choose the cut points.

        A feature with at most ``max_bins`` distinct values is cut half-way between
        neighbours. Otherwise the bins hold about the same weight each, values that outweigh a
        bin alone, and cuts lie half-way between the values that they separate.

        Parameters
        ----------
        X : float32 or float64, shape (n_rows, n_features)
            On ``device``, or on the host. NaN is missing.
        weight : float64, shape (n_rows,), or None
        max_bins : int
            2 … 255, not counting missing values.
        seed : int
            Key of the sample when the table has more than ``SAMPLE_SIZE`` rows.
        """
        sampled = sample_rows(X.shape[0], seed)
        rows = slice(None) if sampled is None else module_of(X).asarray(sampled)
        if weight is not None:
            weight = to_numpy(weight if sampled is None else weight[device.asarray(sampled)])
        cuts: list[np.ndarray] = []
        for first in range(0, X.shape[1], FEATURES_AT_ONCE):
            sample = X[rows, first : first + FEATURES_AT_ONCE]
            if device.is_gpu and weight is None:
                cuts += _cut_there(device.asarray(sample.T, order="C"), max_bins, device)
            else:
                cuts += _cut_columns(to_numpy(sample), weight, max_bins, n_threads)
        del sample, sampled, rows, weight
        if X.shape[0] > SAMPLE_SIZE:
            _return_freed_memory()
        return cls(tuple(cuts))

    @property
    def n_bins(self) -> np.ndarray:
        """Number of bins of each feature, int32."""
        return np.array([len(cuts) + 1 for cuts in self.thresholds], np.int32)

    @cached_property
    def table(self) -> np.ndarray:
        """The thresholds as float64 of shape (n_features, 255), padded with +inf: with
        ``bin`` as column, also where a split parts all values from the missing ones."""
        table = np.full((len(self.thresholds), MAX_BINS), np.inf)
        for row, cuts in zip(table, self.thresholds, strict=True):
            row[: len(cuts)] = cuts
        return table

    def left_categories(self, feature: int, left_codes: np.ndarray) -> np.ndarray:
        """See ``CategoryBinner``; here every feature is numeric, so there are no categories."""
        return np.empty(0, np.uint32)

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
                    device.xp.empty((X.shape[0], n_words), part.rows.dtype),
                    device.xp.empty(X.shape[::-1], part.columns.dtype),
                )
            codes.rows[rows] = part.rows
            codes.columns[:, rows] = part.columns
        assert codes is not None
        return codes

    def _codes(self, X: Array, thresholds: Array, device: Device) -> Codes:
        """Return the bins of rows on ``device``; thresholds of the type of X."""
        return bin_values(X, thresholds)


def _cut_columns(
    sample: np.ndarray, weight: np.ndarray | None, max_bins: int, n_threads: int
) -> list[np.ndarray]:
    """Cut points of some features. Threads only sort, in place: memory that
    a thread allocates stays with it long after."""
    columns = np.array(sample.T, order="C")
    if weight is None and n_threads > 1 and sample.size >= CELLS_WORTH_A_THREAD:
        map_in_threads(np.ndarray.sort, columns, n_threads)
    return [cut_points(column, weight, max_bins) for column in columns]


def _cut_there(columns: Array, max_bins: int, device: Device) -> list[np.ndarray]:
    """Return the cut points of some features, without weights, found on a GPU."""
    ordered = device.xp.sort(columns, axis=1)  # NaN comes last
    n_values = (ordered == ordered).sum(axis=1).tolist()
    return [
        cut_points_of_sorted(column[:n], None, max_bins)
        for column, n in zip(ordered, n_values, strict=True)
    ]


def _return_freed_memory() -> None:
    """Return the memory of the sample to the system: glibc would keep it during training."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def sample_rows(n: int, seed: int) -> np.ndarray | None:
    """Return one random row from each of ``SAMPLE_SIZE`` equal stretches; None takes all rows."""
    if n <= SAMPLE_SIZE:
        return None
    stretch = np.arange(SAMPLE_SIZE + 1, dtype=np.int64) * n // SAMPLE_SIZE
    key = vectorise(subkey)(np.uint64(seed), PURPOSE_BIN_SAMPLE, np.uint64(0))
    bits = vectorise(draw)(key, np.arange(SAMPLE_SIZE, dtype=np.uint64)).astype(np.int64)
    return stretch[:-1] + ((stretch[1:] - stretch[:-1]) * bits >> 32)


def cut_points(values: np.ndarray, weight: np.ndarray | None, max_bins: int) -> np.ndarray:
    """Cut points (float64, ascending) of one feature; ``values`` is overwritten."""
    if weight is None:
        values.sort()  # NaN comes last
        values = values[: np.searchsorted(values, np.nan)]
        return cut_points_of_sorted(values, None, max_bins)
    keep = ~np.isnan(values) & (weight > 0)
    order = np.argsort(values[keep], kind="stable")
    return cut_points_of_sorted(values[keep][order], weight[keep][order], max_bins)


def cut_points_of_sorted(values: Array, weight: np.ndarray | None, max_bins: int) -> np.ndarray:
    """``cut_points`` for ascending values without NaN; without weights also of a GPU's array.

    Without weights all sums are whole numbers, so that their order does not matter.
    """
    if values.size == 0:
        return np.empty(0)
    xp = module_of(values)
    begins = xp.ones(values.size, np.bool_)
    begins[1:] = values[1:] != values[:-1]
    first = xp.flatnonzero(begins)
    distinct = values[first].astype(np.float64) + 0.0  # equal values may begin with a zero below 0
    if distinct.size <= max_bins:
        distinct = to_numpy(distinct)
        return midpoints(distinct[:-1], distinct[1:])
    if weight is None:
        mass = xp.empty(first.size, np.float64)
        mass[:-1] = first[1:] - first[:-1]
        mass[-1:] = values.size - first[-1:]
    else:
        mass = np.add.reduceat(weight, first)
    last = _ends_of_bins(mass, max_bins)
    return midpoints(to_numpy(distinct[last]), to_numpy(distinct[last + 1]))


def _ends_of_bins(mass: Array, max_bins: int) -> Array:
    """Return the distinct values (all but the last) that are the last of their bin.

    Values that outweigh an average bin have one each; the others share the rest evenly.
    """
    xp = module_of(mass)
    heavy = mass >= mass.sum() / max_bins
    light = xp.where(heavy, 0.0, mass)
    shared = xp.cumsum(light) - 0.5 * light
    of_light = max(float(light.sum()), 1e-300)
    n_light = max(1, max_bins - int(heavy.sum()))
    while True:
        bin_of = xp.floor(shared * (n_light / of_light))
        ends = xp.flatnonzero((bin_of[1:] != bin_of[:-1]) | heavy[1:] | heavy[:-1])
        excess = ends.size + 1 - max_bins
        if excess <= 0:
            return ends
        if n_light == 1:  # light values between heavy ones: join the emptiest neighbours
            order = np.argsort(to_numpy(mass[ends]), kind="stable")
            return xp.asarray(np.sort(to_numpy(ends)[order[excess:]]))
        n_light = max(1, n_light - excess)


def midpoints(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Half-way between low < high, always with ``low <= midpoint < high``: next to the limits
    of the floats, and beside infinities, it is ``low`` itself."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = 0.5 * low + 0.5 * high
    return np.where((low <= middle) & (middle < high), middle, low)


def round_down(thresholds: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the largest numbers of ``dtype`` not above the thresholds: for x of that type,
    ``x <= rounded`` is equivalent to ``x <= threshold``."""
    target = np.dtype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        rounded = thresholds.astype(target)
        above = rounded.astype(np.float64) > thresholds
        return np.where(above, np.nextafter(rounded, target.type(-np.inf)), rounded)
