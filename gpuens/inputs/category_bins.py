"""Bins of categorical features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.array_functions import occurrences
from ..devices.placement import Device, is_streamed, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import MISSING, N_SLOTS, Codes
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from .binning import Binner

_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)
PURPOSE_GROUPS = 0x201
"""Purpose of the hash of rare categories, different from those in ``rng``."""


@dataclass(frozen=True)
class CategoryBinner(Binner):
    """Cut points of numeric features, and the bins of the categories of the others.

    Every category has its own bin if there are enough bins. Otherwise the rarest categories are
    hashed into groups with one bin each, which no split divides; or categories are ranked: a bin
    holds those of similar means, and ``thresholds`` are the cuts between these.

    Parameters
    ----------
    bins : tuple of uint8 arrays or None
        ``bins[f][c]`` is the bin of category c of feature f; None for a numeric feature. That of
        missing values is last where categories are ranked, otherwise ``MISSING``.
    """

    bins: tuple[np.ndarray | None, ...] = ()

    @property
    def n_bins(self) -> np.ndarray:
        numeric = super().n_bins
        of_categories = [
            n if b is None or n > 1 else int(b.max()) + 1
            for n, b in zip(numeric, self.bins, strict=True)
        ]
        return np.array(of_categories, np.int32)

    @property
    def is_categorical(self) -> np.ndarray:
        return np.array([bins is not None for bins in self.bins])

    @property
    def is_ranked(self) -> np.ndarray:
        return self.is_categorical & np.array([cuts.size > 0 for cuts in self.thresholds])

    def _with_missing(self, feature: int) -> np.ndarray:
        """Return the bins of a feature's categories, and that of missing values."""
        bins = self.bins[feature]
        assert bins is not None
        return bins if self.thresholds[feature].size else np.append(bins, np.uint8(MISSING))

    def bin_of_missing(self, feature: int) -> int:
        return int(self._with_missing(feature)[-1])

    def _codes(self, X: Array, thresholds: Array, device: Device) -> Codes:
        codes = super()._codes(X, thresholds, device)
        for feature, bins in enumerate(self.bins):
            if bins is not None:
                own = _bins_of(X[:, feature], self._with_missing(feature), device)
                set_bins(codes, feature, own)
        return codes

    def left_categories(self, feature: int, left_codes: np.ndarray) -> np.ndarray:
        """Pack the categories whose bin is in a set of codes into the words of a ``Forest``.

        Parameters
        ----------
        feature : int
        left_codes : uint32, shape (CODE_WORDS,)

        Returns
        -------
        uint32, shape ((n_categories + 31) // 32,)
        """
        bins = self._with_missing(feature)[:-1]
        of_codes = np.unpackbits(left_codes.astype("<u4").view(np.uint8), bitorder="little")
        in_left = np.zeros(-(-bins.size // 32) * 32, np.uint8)
        in_left[: bins.size] = of_codes[bins]
        return np.packbits(in_left, bitorder="little").view("<u4").astype(np.uint32)

    def left_codes(self, feature: int, categories: np.ndarray) -> np.ndarray:
        """Return the codes of the categories in the words of a ``Forest``, the inverse of
        ``left_categories`` but for missing values.

        Returns
        -------
        uint32, shape (CODE_WORDS,)
        """
        bins = self._with_missing(feature)[:-1]
        in_left = np.unpackbits(categories.astype("<u4").view(np.uint8), bitorder="little")
        of_codes = np.zeros(N_SLOTS, np.uint8)
        of_codes[bins[in_left[: bins.size] > 0]] = 1
        return np.packbits(of_codes, bitorder="little").view("<u4").astype(np.uint32)


def set_bins(codes: Codes, feature: int, bins: Array) -> None:
    """Give the rows of a table their bins of a feature, in place."""
    codes.columns[feature] = bins
    codes.rows[:, feature] = bins


def with_bins_of_categories(
    binner: Binner,
    X: Array,
    weight: Array | None,
    n_categories: np.ndarray,
    max_bins: int,
    seed: int,
    device: Device,
    n_groups: int = 1,
) -> CategoryBinner:
    """Return the bins of all features: those of ``binner``, and of categories those that the rows
    of a table want.

    Parameters
    ----------
    n_categories : int32, shape (n_features,)
        0 for a numeric feature; else its values are 0 ... n_categories - 1.
    n_groups : int
        Bins for the rarest categories of a feature with more than ``max_bins`` categories.
    """
    counts = count_categories(X, weight, n_categories, device)
    return with_counts(binner, counts, max_bins, n_groups, seed)


def count_categories(
    X: Array, weight: Array | None, n_categories: np.ndarray, device: Device
) -> list[np.ndarray | None]:
    """Count the rows of positive weight of each category; None for a numeric feature."""
    rows: Any = slice(None)
    if weight is not None:
        rows = to_numpy(weight > 0) if is_streamed(X, device) else weight > 0
    return [_count(X[rows, f], n) if n else None for f, n in enumerate(n_categories.tolist())]


def with_counts(
    binner: Binner, counts: Sequence[np.ndarray | None], max_bins: int, n_groups: int, seed: int
) -> CategoryBinner:
    """Return the bins of all features, of which those with ``counts`` are categorical."""
    bins = [None if n is None else bins_by_count(n, max_bins, n_groups, seed) for n in counts]
    return with_categories(binner, bins)


def with_categories(binner: Binner, bins: Sequence[np.ndarray | None]) -> CategoryBinner:
    """Return the bins of all features, of which those with ``bins`` are categorical."""
    none = np.empty(0)
    pairs = zip(binner.thresholds, bins, strict=True)
    return CategoryBinner(tuple(cuts if b is None else none for cuts, b in pairs), tuple(bins))


def _count(column: Array, n: int) -> np.ndarray:
    """Count the rows of each category."""
    known = column[column == column].astype(np.int64)
    return to_numpy(occurrences(known, n))


def bins_by_count(counts: np.ndarray, max_bins: int, n_groups: int, seed: int) -> np.ndarray:
    """Choose the bin of each category: own bins in the order of the categories, then the bins of
    groups for the rarest ones, by a hash of the category."""
    numbers = np.arange(counts.size)
    if counts.size <= max_bins:
        return numbers.astype(np.uint8)
    n_own = max_bins - n_groups
    frequent = np.sort(np.argsort(-counts, kind="stable")[:n_own])
    bins = n_own + _draw(_subkey(np.array([seed]), PURPOSE_GROUPS, 0), numbers) % n_groups
    bins[frequent] = np.arange(n_own)
    return bins.astype(np.uint8)


def _bins_of(column: Array, bins: np.ndarray, device: Device) -> Array:
    """Look up the codes of a column of categories; NaN is missing, and has the last bin."""
    xp = device.xp
    return device.asarray(bins)[xp.where(column == column, column, bins.size - 1).astype(np.int64)]
