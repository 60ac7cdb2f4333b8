"""The class ``BinnedTable``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.memory_plan import return_freed_memory
from ..devices.placement import Device, to_numpy
from ..estimators.parameters import seed_of, threads_of
from ..forest.forest import Forest
from ..forest.plain import require_plain_trees
from ..inputs.binning import Binner
from ..inputs.category_bins import CategoryBinner
from ..kernels.growth.streamed_codes import StreamedCodes
from ..kernels.runtime.arrays import Array, empty_on_line
from ..kernels.runtime.cpu.team import using_threads
from ..kernels.runtime.dtypes import MAX_BINS, MISSING, Codes
from ..kernels.scalars.lazy_jit import lazy_property
from .building import Reader, fit_bins, write_codes
from .extremes import Extremes
from .file import CodesFile, read_table_file, require_free
from .parts import Binning, Content, Features, stride_of
from .sources import source_of
from .streaming import streamed

PIECE_ROWS = 2**16


class BinnedTable:
    """A table whose values have been replaced by their bins: one byte a cell, stored twice.

    It is made from batches by ``from_batches``, so that the values never have to be in memory
    together, and ``fit`` of gradient boosting, trees and forests takes it in place of X and y. The
    model is that of ``fit(X, y, sample_weight)`` with the same rows in memory, bit for bit, if

    - ``max_bins`` is that of the estimator, and with more than 200,000 rows, from which cut points
      are chosen by a sample, ``random_state`` too;
    - no rows are held out (the bins here are those of all rows), and ``class_weight`` is None (cut
      points here follow ``sample_weight`` alone);
    - no feature has more categories than ``max_bins``, or ``cat_hash_groups`` of boosting is a
      number (means of the target do not order categories here).

    Trees and forests take tables that were made without weights, which are passed to ``fit``.

    Parameters
    ----------
    codes, binner, features, binning, content : parts of a table
        Made by ``from_batches`` and ``open``, which are the ways to a table.
    extremes : Extremes or None, default=None
        Made by them, too.

    Attributes
    ----------
    shape : tuple of int
        Rows and features.
    y : ndarray, shape (n_rows,) or (n_rows, n_targets), or None
        Made at every look where it is kept as a byte a row: integers, booleans or strings of at
        most 256 different values.
    sample_weight : float64 ndarray, shape (n_rows,), or None
    max_bins : int
    extremes : Extremes or None
        The values in the bins, for trees and forests; None for some rows of another table.
    path : Path or None
        The file that holds the bins; None: they are in memory.
    feature_names_in_ : ndarray of str or None

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import BinnedTable, GradientBoostingRegressor
    >>> def batches():
    ...     for seed in range(3):
    ...         X = np.random.default_rng(seed).normal(size=(100, 4))
    ...         yield X, X[:, 0]
    >>> table = BinnedTable.from_batches(batches)
    >>> table.shape
    (300, 4)
    >>> model = GradientBoostingRegressor(n_estimators=5, device="cpu").fit(table)
    >>> model.n_features_in_
    4
    """

    def __init__(
        self,
        codes: Codes,
        binner: Binner,
        features: Features,
        binning: Binning,
        content: Content,
        extremes: Extremes | None = None,
    ) -> None:
        self.extremes = extremes
        # Growth keeps what it derives from the rows for as long as their array lives, also views of
        # them. The base of these is the array below this view, which goes with the table.
        self._codes = Codes(codes.rows.view(), codes.columns)
        self._binner, self._features = binner, features
        self._binning = binning
        self._target, self.sample_weight, self.path = content.y, content.weight, content.path

    @classmethod
    def from_batches(
        cls,
        batches: Any,
        *,
        y: Any = None,
        sample_weight: Any = None,
        path: str | os.PathLike[str] | None = None,
        max_bins: int = 255,
        categorical_features: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> BinnedTable:
        """Bin a table that is read in batches.

        The batches are read two or three times: to survey the columns and to choose the cut points
        (separately if the number of rows is not known before, or more than 200,000 rows have
        weights of which some are zero), and to bin. In memory are two
        batches (files and memory maps are read ahead by a thread), bins of one that are being
        written, the sample of up to 200,000 rows that cut points are chosen from, the target and
        the weights, and without ``path`` the bins.

        Parameters
        ----------
        batches : path, pyarrow.dataset.Dataset, polars.LazyFrame, ndarray or function
            A parquet file, or a folder whose files ``*.parquet`` are read in the order of their
            names; a memory map (or another array) of numbers; or a function that returns an
            iterator of tuples (X, y) or (X, y, weight), where X is an array or a data frame of
            some rows. It is called again for each reading and must return the same rows.
        y : str or array, default=None
            The column of the files that is the target; for an ndarray an array of targets.
        sample_weight : str or array, default=None
            The column of the files that holds the weights of the rows, or an array. Cut points
            follow the weights.
        path : str or path, default=None
            A new file for the bins, two bytes a cell. None: they stay in memory.
        max_bins : int, default=255
            As for gradient boosting: 2 ... 255.
        categorical_features : "from_dtype", array-like or None, default=None
            As for gradient boosting.
        random_state : int, RandomState or None, default=0
            Draws the sample of a table with more than 200,000 rows.
        n_jobs : int or None, default=None
            Threads; None: all cores.
        verbose : bool, default=False
            Whether bars show the progress of each reading.

        Returns
        -------
        BinnedTable

        Raises
        ------
        TypeError, ValueError
            An argument is wrong, batches differ in their columns or types, or are not the same
            when they are read again; the message names the batch.
        FileExistsError
            There is a file at ``path``.
        OSError
            The disk is full; the unfinished file has been removed, as after Ctrl-C.
        """
        if not isinstance(max_bins, (int, np.integer)) or not 2 <= max_bins <= MAX_BINS:
            raise ValueError(f"max_bins must be an integer from 2 to {MAX_BINS}, got {max_bins!r}.")
        if path is not None:
            require_free(Path(path))
        source = source_of(batches, y, sample_weight)
        reader = Reader(source, categorical_features, seed_of(random_state), verbose)
        binning = Binning(int(max_bins), reader.seed)
        with using_threads(threads_of(n_jobs)):
            survey = reader.survey()
            binner = fit_bins(reader, survey, binning.max_bins, binning.n_groups)
            content = Content(survey.y, survey.weight, None if path is None else Path(path))
            shape = survey.n_rows, survey.features.n
            if path is None:
                codes = empty_codes(shape)
                extremes = write_codes(reader, survey, binner, binning.max_bins, _into(codes))
                return_freed_memory()
                return cls(codes, binner, survey.features, binning, content, extremes)
            with CodesFile(content, shape, binner, survey.features, binning) as file:
                extremes = write_codes(reader, survey, binner, binning.max_bins, file.store)
                file.store_extremes(extremes)
        return_freed_memory()
        return cls(*read_table_file(Path(path), is_new=True))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> BinnedTable:
        """Open the file that ``from_batches`` wrote. The bins are mapped, and checked in one pass.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        FileNotFoundError
            The file does not exist.
        ValueError
            The file is damaged, or holds something else.
        """
        return cls(*read_table_file(Path(path)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self._codes.rows.shape[0], self._codes.columns.shape[0]

    @property
    def y(self) -> np.ndarray | None:
        """The target of the rows."""
        return None if self._target is None else np.asarray(self._target)

    @property
    def itemsize(self) -> int:
        """Bytes of a cell, once."""
        return 1

    @property
    def max_bins(self) -> int:
        """Most bins of a feature, not counting missing values."""
        return self._binning.max_bins

    @property
    def feature_names_in_(self) -> np.ndarray | None:
        """Names of the columns of data frames."""
        return self._features.names

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        where = "in memory" if self.path is None else f"in {self.path}"
        return f"BinnedTable({n_rows:,} x {n_features:,}, {where})"

    def __getitem__(self, rows: Any) -> BinnedTable:
        """Return some rows, in memory."""
        rows = to_numpy(rows)
        codes = Codes(self._codes.rows[rows], np.ascontiguousarray(self._codes.columns[:, rows]))
        y = None if self._target is None else self._target[rows]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        content = Content(y, weight, None)
        return BinnedTable(codes, self._binner, self._features, self._binning, content)

    def beside(self, y: Any, sample_weight: Any, of_classes: bool = False) -> tuple[Any, Any]:
        """Return the target and the weights of a fit: y may be passed or is the table's own, for
        classes as it is kept.

        Raises
        ------
        TypeError
            Weights were passed, which the cut points do not follow.
        """
        if sample_weight is not None:
            raise TypeError(
                "sample_weight must be None where X is a BinnedTable, whose cut points follow the "
                "weights: pass them to BinnedTable.from_batches."
            )
        if y is None:
            y = self._target if of_classes else self.y
        return y, self.sample_weight

    def describe(self, estimator: Any) -> None:
        """Give an estimator the attributes that reading the features gives it."""
        self._features.describe(estimator)

    def codes_of_feature(self, feature: int) -> np.ndarray:
        """Return the bins of a feature: uint8, shape (n_rows,)."""
        column: np.ndarray = self._codes.columns[feature]
        return column

    def binner_for(self, max_bins: int, n_groups: int | None) -> Binner:
        """Return the bins of the features for an estimator with these parameters; None for
        ``n_groups`` where it does not matter.

        Raises
        ------
        ValueError
            The table was binned with others.
        """
        if max_bins != self.max_bins:
            raise ValueError(
                f"The table was made with max_bins={self.max_bins}, the estimator has "
                f"max_bins={max_bins}. Set the estimator's to {self.max_bins}, or make the table "
                f"with max_bins={max_bins}."
            )
        has_groups = any(n > max_bins for n in self._features.n_categories.tolist())
        if has_groups and n_groups not in (None, self._binning.n_groups):
            raise ValueError(
                f"The table was made with {self._binning.n_groups} group of rare categories, the "
                f"estimator has cat_hash_groups={n_groups}. Set it to {self._binning.n_groups}."
            )
        return self._binner

    def codes_for(
        self, binner: Binner, device: Device, name: str, streams: bool = False
    ) -> Codes | StreamedCodes:
        """Return the codes on a device, or for a GPU, if it ``streams`` them, on the host.

        Raises
        ------
        ValueError
            ``binner`` has other bins.
        """
        self.require_bins(binner, name)
        if not device.is_gpu:
            return self._codes
        if streams:
            return streamed(self._codes)
        return Codes(device.asarray(self._codes.rows), device.asarray(self._codes.columns))

    def require_bins(self, binner: Binner, name: str) -> None:
        """Raise a ValueError if the bins of this table are not those of ``binner``."""
        own, others = self._binner, binner
        same = len(own.thresholds) == len(others.thresholds) and all(
            map(np.array_equal, own.thresholds, others.thresholds)
        )
        if same and isinstance(own, CategoryBinner) == isinstance(others, CategoryBinner):
            pairs = zip(_category_bins(own), _category_bins(others), strict=True)
            same = all(
                a is b is None or (a is not None and b is not None and np.array_equal(a, b))
                for a, b in pairs
            )
        else:
            same = False
        if not same:
            raise ValueError(
                f"{name} is a BinnedTable with other bins than those that the trees are grown on. "
                "Pass its rows as an array or a data frame, which is binned as the trees need."
            )

    def raw_predict(self, forest: Forest, device: Device) -> Array:
        """Return the raw predictions of trees that split between bins of this table.

        Returns
        -------
        float64, shape (n_outputs, n_rows), on ``device``
        """
        instead = "pass the rows as an array, or "
        require_plain_trees(forest, "A BinnedTable, which has no values,", instead)
        n_rows = self.shape[0]
        raw = device.xp.empty((forest.n_outputs, n_rows), dtype=device.xp.float64)
        if forest.n_trees == 0:
            raw[...] = device.asarray(forest.base)[:, None]
            return raw
        for first in range(0, n_rows, PIECE_ROWS):
            rows = slice(first, min(first + PIECE_ROWS, n_rows))
            values = device.asarray(self._values(rows))
            raw[:, rows] = forest.raw_predict(values, device)
        return raw

    def _values(self, rows: slice) -> np.ndarray:
        """Return values that lie in the bins of some rows: for these trees as good as the rows'."""
        columns = self._codes.columns[:, rows]
        values = np.empty((columns.shape[1], columns.shape[0]), np.float64, order="F")
        for f, codes in enumerate(columns):
            values[:, f] = self._inside[f][codes]
        return values

    @lazy_property
    def _inside(self) -> np.ndarray:
        """A value of each bin: float64 of shape (n_features, 256), NaN for missing ones."""
        inside = np.full((self.shape[1], MISSING + 1), np.nan)
        inside[:, :MAX_BINS] = self._binner.table
        for f, bins in enumerate(_category_bins(self._binner)):
            if bins is not None:
                codes, categories = np.unique(bins, return_index=True)
                inside[f, codes] = categories
        return inside


def empty_codes(shape: tuple[int, int]) -> Codes:
    """Return room for the codes of a table."""
    n_rows, n_features = shape
    rows = empty_on_line((n_rows, stride_of(n_features)), np.uint8)
    return Codes(rows, np.empty((n_features, n_rows), np.uint8))


def _into(codes: Codes) -> Any:
    def store(rows: slice, part: Codes) -> None:
        codes.rows[rows] = part.rows
        codes.columns[:, rows] = part.columns

    return store


def _category_bins(binner: Binner) -> tuple[np.ndarray | None, ...]:
    return binner.bins if isinstance(binner, CategoryBinner) else (None,) * len(binner.thresholds)
