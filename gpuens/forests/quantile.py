"""Quantile regression forests: the whole distribution of the target, not its mean alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, on_host
from ..devices.threads import map_in_threads
from ..estimators.docstrings import FOREST, FOREST_OF_VALUES, documented
from ..estimators.parameters import is_number
from ..explanation.explainer import explained
from ..forest.forest import Forest
from ..forest.sum_of_trees import SumOfTrees
from ..inputs.arrays import to_input_library
from ..inputs.categories import read_features
from ..kernels.leaves.quantiles import SHARE_MASK, LeafTargets, least_shares, quantile_of_leaves
from ..kernels.leaves.targets import fill_targets
from ..kernels.runtime.collective import Workers
from ..kernels.runtime.cpu.team import get_threads
from ..trees.criteria import host_records
from .forests import RandomForestRegressor
from .growing import ForestGrower, Progress

BLOCK_ENTRIES = 2**24
"""Entries of a block that is looked up at once, one for each row and tree."""


@dataclass(frozen=True, eq=False)
class TargetsInLeaves:
    """The training targets in the leaves of a forest (NumPy, read-only): ``values`` are the
    distinct targets, ascending, the others as in ``LeafTargets``. It takes 8 bytes for each row in
    the sample of each tree and 8 for each node."""

    values: np.ndarray
    offset: np.ndarray
    begin: np.ndarray
    segment: np.ndarray
    entries: np.ndarray

    def __post_init__(self) -> None:
        for array in (self.values, self.offset, self.begin, self.segment, self.entries):
            array.flags.writeable = False

    @classmethod
    def collect(
        cls, forest: Forest, records: Sequence[np.ndarray], y: np.ndarray, weight: np.ndarray
    ) -> TargetsInLeaves:
        """Sort the rows of every leaf by their targets. The records of each tree are as growth left
        them: those of a node are contiguous, those of its left child first. Sums of weights must be
        exact."""
        values, rank = np.unique(y, return_inverse=True)
        rank = rank.astype(np.int32)
        order = np.argsort(rank, kind="stable").astype(np.int32)
        begin = np.concatenate([[0], np.cumsum([r.size for r in records])]).astype(np.int64)
        segment = np.empty((forest.feature.size, 2), np.int32)
        entries = np.empty(begin[-1], np.int64)

        def fill(t: int) -> None:
            nodes = slice(forest.offset[t], forest.offset[t + 1])
            fill_targets(
                forest.left[nodes], forest.n_samples[nodes], records[t], order, rank, weight,
                segment[nodes], entries[begin[t] : begin[t + 1]],
            )  # fmt: skip

        map_in_threads(fill, range(len(records)), get_threads())
        return cls(values, forest.offset, begin, segment, entries)

    def joined(self, other: TargetsInLeaves) -> TargetsInLeaves:
        """Return these trees, then the others."""
        values = np.union1d(self.values, other.values)
        return TargetsInLeaves(
            values,
            np.concatenate([self.offset, self.offset[-1] + other.offset[1:]]),
            np.concatenate([self.begin, self.begin[-1] + other.begin[1:]]),
            np.concatenate([self.segment, other.segment]),
            np.concatenate([self._entries_among(values), other._entries_among(values)]),
        )

    def _entries_among(self, values: np.ndarray) -> np.ndarray:
        """Return the entries with ranks among more values."""
        rank = np.searchsorted(values, self.values)
        return rank[self.entries >> 32] << 32 | self.entries & SHARE_MASK

    def quantiles(self, forest: Forest, X: Any, quantiles: np.ndarray, device: Device) -> Any:
        """Return quantiles (n_rows, n_quantiles) of the weighted targets, float64 on the device."""
        values, targets = self._on(device)
        least = device.asarray(least_shares(quantiles, forest.n_trees))
        result = device.xp.empty((X.shape[0], quantiles.size))
        step = max(1, BLOCK_ENTRIES // forest.n_trees)
        for first in range(0, X.shape[0], step):
            rows = slice(first, first + step)
            leaf = forest.apply(X[rows], device)
            result[rows] = values[quantile_of_leaves(targets, leaf, least)]
        return result

    def _on(self, device: Device) -> tuple[Any, LeafTargets]:
        """Return the values and the rest, copied to a device once."""
        kept: dict[str, tuple[Any, LeafTargets]] = self.__dict__.setdefault("_kept", {})
        if str(device) not in kept:
            arrays = (self.offset, self.begin, self.segment, self.entries)
            targets = LeafTargets(*(device.asarray(a) for a in arrays))
            kept[str(device)] = device.settled((device.asarray(self.values), targets))
        return kept[str(device)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


def rows_of_trees(forest: Forest, records: Any) -> list[np.ndarray]:
    """Return the records of each tree of a batch, on the host."""
    words = host_records(records)
    ends = np.cumsum(forest.n_samples[forest.offset[:-1]], dtype=np.int64)
    return np.split(words, ends[:-1])


def grown_with_records(
    grower: ForestGrower, first: int, n_new: int, report: Progress
) -> tuple[Forest, list[np.ndarray]]:
    """Grow trees, and return what ``rows_of_trees`` finds of all of them beside the forest."""
    kept: list[np.ndarray] = []

    def keep_records(batch: int, forest: Forest, records: Any) -> bool:
        kept.extend(rows_of_trees(forest, records))
        return report(batch, forest, records)

    grown = grower.grow(first, n_new, keep_records)
    # Ctrl-C can come between the end of a batch and the look at its records.
    if not kept:
        raise KeyboardInterrupt
    return grown.slice(0, len(kept)) if len(kept) < grown.n_trees else grown, kept


DEFAULT_QUANTILES = """default_quantiles : float, list of float or "mean", default=0.5
        Quantiles that ``predict`` returns by default.
    """


@documented(
    FOREST, bins="255", bootstrap="True", **FOREST_OF_VALUES | {"further": DEFAULT_QUANTILES}
)
@dataclass(kw_only=True, eq=False, repr=False)
class QuantileForestRegressor(RandomForestRegressor):
    """A quantile regression forest (Meinshausen 2006): a random forest whose leaves keep the
    targets of their training rows, for quantiles and prediction intervals.

    In each tree the training rows in the leaf that x reaches share a weight of one, in
    proportion to their sample weights and to how often they were drawn. The weights are averaged
    over the trees. The q-quantile is the smallest target up to which the weights add up to at
    least q (the lower inverse of the distribution function, ``method="inverted_cdf"`` of
    ``numpy.quantile``). Sums count in steps of 2**-31 of a tree, rounded in favour of the
    smaller target, and are therefore the same on every device.

    The targets take 8 bytes for each row in the sample of each tree and 8 for each node, beside
    the forest itself. y has one column.

    <shared>

    References
    ----------
    Meinshausen, "Quantile Regression Forests", JMLR 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import QuantileForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = QuantileForestRegressor(min_samples_leaf=5, device="cpu").fit(X, y)
    >>> forest.predict(X[:3], quantiles=[0.1, 0.5, 0.9]).shape
    (3, 3)
    >>> low, high = forest.predict_interval(X[:3], coverage=0.8).T
    >>> bool((low <= high).all())
    True
    """

    default_quantiles: float | Sequence[float] | str = 0.5

    _grows_among_workers = False

    def _sum_of_trees(self) -> SumOfTrees:
        default = self.default_quantiles
        return replace(
            super()._sum_of_trees(),
            link=None,
            unlinked="it predicts quantiles of the targets in its leaves",
            response="predict" if isinstance(default, str) and default == "mean" else None,
        )

    def _fit(self, X: Any, y: Any, sample_weight: Any, device: Device, workers: Workers) -> None:
        self._require_no_bounds(_read_quantiles(self.default_quantiles, "default_quantiles"))
        before = self._forest_before()
        super()._fit(X, y, sample_weight, device, workers)
        if "_grown" not in self.__dict__:  # a warm start that had nothing to add
            return
        data, records = self.__dict__.pop("_grown")
        first = 0 if before is None else before.n_trees
        forest = self.forest_.slice(first, self.forest_.n_trees)
        targets = TargetsInLeaves.collect(forest, records, data.y, data.problem.weight)
        if before is not None:
            targets = self._targets.joined(targets)
        self._targets: TargetsInLeaves = targets

    def _require_no_bounds(self, quantiles: np.ndarray | None) -> None:
        """Refuse quantiles where predictions have bounds: in leaves whose means rise, the quantiles
        of the targets need not."""
        if quantiles is not None and np.any(self.monotonic_cst):
            raise ValueError(
                f"monotonic_cst={self.monotonic_cst!r} bounds means, and quantiles of the rows in "
                "leaves need not follow them: set default_quantiles='mean' or monotonic_cst=None, "
                "or use GradientBoostingRegressor(loss='quantile'), which bounds quantiles."
            )

    def _grow(self, grower: ForestGrower, first: int, n_new: int, report: Any) -> Forest:
        forest, records = grown_with_records(grower, first, n_new, report)
        self._grown = grower.data, records
        return forest

    def _read_outputs(
        self, columns: list[Any], n_rows: int, device: Device, workers: Workers
    ) -> list[Any]:
        if len(columns) > 1:
            raise ValueError(
                f"y has {len(columns)} columns, {type(self).__name__} predicts the quantiles of "
                "one. Fit a forest for each (sklearn.multioutput.MultiOutputRegressor), or use "
                "RandomForestRegressor for their means."
            )
        return super()._read_outputs(columns, n_rows, device, workers)

    def predict(
        self,
        X: Any,
        quantiles: Any = None,
        *,
        pred_contribs: bool = False,
        pred_interactions: bool = False,
    ) -> Any:
        """Predict quantiles of the target, or its mean.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        quantiles : float, list of float, "mean" or None, default=None
            Numbers in [0, 1]; "mean": what a random forest predicts; None:
            ``default_quantiles``.
        pred_contribs, pred_interactions : bool, default=False
            Return Shapley values of the mean instead (see ``RandomForestRegressor.predict``).

        Returns
        -------
        float64, shape (n_rows,), or (n_rows, n_quantiles) for a list
            In the array library of X.

        Raises
        ------
        ValueError
            A quantile is not in [0, 1], the list is empty, or quantiles are wanted of a forest with
            ``monotonic_cst``, which bounds means.
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        check_is_fitted(self)
        name = "quantiles"
        if quantiles is None:
            name, quantiles = "default_quantiles", self.default_quantiles
        wanted = _read_quantiles(quantiles, name)
        self._require_no_bounds(wanted)
        if wanted is None:
            return super().predict(X)
        device = self._device_to_predict(X)
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False)
            result = self._targets.quantiles(self.forest_, values, wanted.reshape(-1), device)
            return to_input_library(result if wanted.ndim else result[:, 0], X)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Predict the interval in which the target lies with some probability.

        An estimate, not a guarantee: where the target follows the features closely, intervals
        contain more than this share; where leaves hold few rows of a noisy target,
        less (raise ``min_samples_leaf``). Compare the two on rows held out.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        coverage : float, default=0.9
            In (0, 1]; as much of the rest lies below the interval as above.

        Returns
        -------
        float64, shape (n_rows, 2)
            The quantiles ``(1 - coverage) / 2`` and ``(1 + coverage) / 2``, in the array library
            of X.
        """
        if not is_number(coverage) or not 0 < coverage <= 1:
            raise ValueError(f"coverage must be a number in (0, 1], got {coverage!r}.")
        return self.predict(X, [(1 - coverage) / 2, (1 + coverage) / 2])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def _read_quantiles(quantiles: Any, name: str) -> np.ndarray | None:
    """Return quantiles as float64 of shape () or (n_quantiles,); None for the mean."""
    if isinstance(quantiles, str) and quantiles == "mean":
        return None
    wanted = on_host(quantiles)
    values = [wanted] if is_number(wanted) else wanted
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or array.size == 0 or not bool(((array >= 0) & (array <= 1)).all()):
        raise ValueError(
            f"{name} must be a number in [0, 1], a list of at least one of these, or 'mean', got "
            f"{quantiles!r}."
        )
    return array[0] if is_number(wanted) else array
