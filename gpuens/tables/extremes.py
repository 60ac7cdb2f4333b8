"""The smallest and the largest value of each bin, which the thresholds of forests lie between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.runtime.dtypes import MAX_BINS, MISSING


class Extremes(NamedTuple):
    """The values in the bins of numeric features.

    lowest, highest : float64, shape (n_features, 255)
        Of the rows in each bin; +inf and -inf where it has none.
    n_distinct : int64, shape (n_features,)
        Distinct values; ``max_bins + 1`` stands for more than ``max_bins``, and 0 where bins were
        not chosen by a sample.
    """

    lowest: np.ndarray
    highest: np.ndarray
    n_distinct: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> Extremes:
        """Return the extremes of no rows."""
        lowest = np.full((n_features, MAX_BINS), np.inf)
        return cls(lowest, -lowest, np.zeros(n_features, np.int64))


class ExtremesOfBatches:
    """Collects the extremes of rows that come in batches.

    Parameters
    ----------
    is_numeric : bool, shape (n_features,)
    max_bins : int
    counts : bool
        Whether distinct values are counted.
    """

    def __init__(self, is_numeric: np.ndarray, max_bins: int, counts: bool) -> None:
        self.found = Extremes.empty(is_numeric.size)
        self._numeric = np.flatnonzero(is_numeric).tolist()
        self._most = max_bins
        nothing = np.empty(0)
        self._distinct = dict.fromkeys(self._numeric, nothing) if counts else {}
        self._first = np.full((is_numeric.size, MAX_BINS), np.nan)

    def add(self, table: np.ndarray, columns: np.ndarray) -> None:
        """Take the values of a batch, shape (n_rows, n_features), and their codes by columns."""
        for f in self._numeric:
            known = columns[f] != MISSING
            values, codes = table[:, f], columns[f]
            if not known.all():
                values, codes = values[known], codes[known]
            np.minimum.at(self.found.lowest[f], codes, values.astype(np.float64, copy=False))
            np.maximum.at(self.found.highest[f], codes, values.astype(np.float64, copy=False))
            if f in self._distinct:
                self._count(f, values, codes)

    def _count(self, f: int, values: np.ndarray, codes: np.ndarray) -> None:
        """Count distinct values: most rows of a feature that has few hold the first value that was
        seen in their bin."""
        first = self._first[f]
        new = np.isnan(first)
        first[new] = np.where(np.isfinite(self.found.lowest[f]), self.found.lowest[f], np.nan)[new]
        others = values[values != first[codes]]
        known = first[~np.isnan(first)]
        self._distinct[f] = np.unique(np.concatenate([self._distinct[f], known, others]))
        self.found.n_distinct[f] = min(self._distinct[f].size, self._most + 1)
        if self.found.n_distinct[f] > self._most:
            del self._distinct[f]
