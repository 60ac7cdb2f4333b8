"""The codes of a sparse table, which growth on the CPU reads in place of ``Codes``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..runtime.dtypes import ROW_ALIGNMENT, Codes


class SparseCodes(NamedTuple):
    """A binned table of which the zeros are left out, stored twice, by rows and by columns.

    A histogram has a place for each bin of a feature and one for its missing values, the features
    one after the other.

    row_begin : int64, shape (n_rows + 1,)
        Row i has entries ``row_begin[i]:row_begin[i + 1]`` of ``row_places``.
    row_places : uint32, shape (n_entries,)
        Where the entry's row is added to a histogram.
    column_begin : int64, shape (n_features + 1,)
        Feature f has entries ``column_begin[f]:column_begin[f + 1]`` of the two arrays below.
    column_rows : int32, shape (n_entries,)
        Ascending within a feature.
    column_codes : uint8, shape (n_entries,)
    zeros : uint8, shape (n_features,)
        The code of the rows without an entry.
    place_begin : int64, shape (n_features + 1,)
        The first place of each feature in a histogram, and the number of all.
    """

    row_begin: np.ndarray
    row_places: np.ndarray
    column_begin: np.ndarray
    column_rows: np.ndarray
    column_codes: np.ndarray
    zeros: np.ndarray
    place_begin: np.ndarray

    def dense(self, features: np.ndarray) -> Codes:
        """Return the codes of some features, with those of zeros."""
        n_rows = self.row_begin.size - 1
        columns = np.empty((features.size, n_rows), np.uint8)
        columns[...] = self.zeros[features, None]
        for column, f in zip(columns, features.tolist(), strict=True):
            own = slice(self.column_begin[f], self.column_begin[f + 1])
            column[self.column_rows[own]] = self.column_codes[own]
        stride = -(-features.size // ROW_ALIGNMENT) * ROW_ALIGNMENT
        rows = np.zeros((n_rows, stride), np.uint8)
        rows[:, : features.size] = columns.T
        return Codes(rows, columns)

    def with_features(self, feature: np.ndarray) -> tuple[Codes, np.ndarray]:
        """Return the dense codes of the features of a tree's nodes, and the features renumbered.

        Parameters
        ----------
        feature : int32, shape (n_nodes,)
            -1 at a leaf.
        """
        used = np.unique(feature[feature >= 0])
        used = used if used.size else np.zeros(1, feature.dtype)  # a tree of one leaf
        place = np.searchsorted(used, feature).astype(feature.dtype)
        return self.dense(used), np.where(feature >= 0, place, feature)
