"""The smallest and the largest value of each bin, which the thresholds of forests lie between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.binning.widen_bins import widen_bins
from ..kernels.runtime.dtypes import MAX_BINS, MISSING


class Extremes(NamedTuple):
    """The lowest and highest values of the rows in the bins of numeric features, (n_features, 255),
    +inf and -inf where there is none; ``n_distinct`` counts values, ``max_bins + 1`` for more than
    ``max_bins`` and 0 where bins were not chosen by a sample."""

    lowest: np.ndarray
    highest: np.ndarray
    n_distinct: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> Extremes:
        """Return the extremes of no rows."""
        lowest = np.full((n_features, MAX_BINS), np.inf)
        return cls(lowest, -lowest, np.zeros(n_features, np.int64))


class ExtremesOfBatches:
    """Collects the extremes of rows that come in batches; ``counts`` is whether distinct values are
    counted."""

    def __init__(self, is_numeric: np.ndarray, max_bins: int, counts: bool) -> None:
        self.found = Extremes.empty(is_numeric.size)
        self._numeric = np.flatnonzero(is_numeric)
        self._most = max_bins
        nothing = np.empty(0)
        self._distinct = dict.fromkeys(self._numeric.tolist(), nothing) if counts else {}

    def add(self, table: np.ndarray, columns: np.ndarray) -> None:
        """Take the values of a batch, shape (n_rows, n_features), and their codes by columns."""
        lowest, highest, n_distinct = self.found
        before, were_filled = lowest.copy(), lowest <= highest
        widen_bins(table, columns, self._numeric, lowest, highest)
        for f in list(self._distinct):
            is_filled = lowest[f] <= highest[f]
            if np.array_equal(lowest[f, is_filled], highest[f, is_filled]):
                n_distinct[f] = np.count_nonzero(is_filled)
            else:
                seen = np.concatenate([before[f, were_filled[f]], lowest[f, is_filled]])
                self._count(f, seen, table[:, f], columns[f])

    def _count(self, f: int, seen: np.ndarray, values: np.ndarray, codes: np.ndarray) -> None:
        """Count distinct values where bins have several: those that were counted, those seen as the
        lowest of their bin, which are all of the batches before if none was counted, and others of
        this batch."""
        is_known = codes != MISSING
        values, codes = values[is_known], codes[is_known]
        others = values[values != self.found.lowest[f, codes]]
        self._distinct[f] = np.unique(np.concatenate([self._distinct[f], seen, others]))
        n = self._distinct[f].size
        self.found.n_distinct[f] = min(n, self._most + 1)
        if n > self._most:
            del self._distinct[f]
