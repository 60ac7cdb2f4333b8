"""Oblique random forests, whose nodes split by sums of a few features."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..devices.placement import CPU, Device, is_streamed, near, on_host
from ..devices.policy import Work, size_of
from ..devices.transfer import in_pieces
from ..estimators.docstrings import FOREST, FOREST_OF_CLASSES, FOREST_OF_VALUES, documented
from ..estimators.parameters import n_features_to_look_at
from ..forest.forest import Forest
from ..forest.oblique import ObliqueForest, Projections
from ..inputs.targets import shape_of
from ..kernels.cart.problem import CartTable
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers
from ..members.fitting import take
from ..members.rows import n_rows_of, readable
from ..numerics.sampling import subset
from ..tables.binned_table import BinnedTable
from ..trees.cart import CartClassifier, CartRegressor
from ..trees.parameters import work_of_trees
from ..trees.table import cart_table, side_by_side
from ..trees.training_data import TrainingData
from ..trees.trees import DecisionTreeClassifier, DecisionTreeRegressor
from .estimator import ForestOfTrees
from .growing import ForestGrower, Progress
from .projections import draw_projections, scales_of

TRIAL_TREES = 50
TRIAL_ROWS = 5000
"""Most trees and rows of the forests that parameters are chosen by."""
FIRST_TREES = 15
"""Trees of a costly trial after which it ends if it promises nothing."""
PROMISE, WORTH = 0.95, 0.9
"""Most of the error that may be left where nodes look at more: after the first trees of a trial,
for it to go on, and in the end, for its gain to be worth the time of the forest."""
PROJECTIONS, MOST_PROJECTIONS = 1000, 4000
PROJECTIONS_OF_FEATURE = 40
"""Projections for each feature, if these are more than ``PROJECTIONS``."""
PROJECTIONS_OF_PAIR = 10
"""Projections for each pair of features, if these are fewer."""
LOOKED_AT, MORE_LOOKED_AT = 100, 300
"""Projections that a node looks at, if the parameters leave it open."""
CELLS_AT_ONCE = 2**23
"""Projections of the training rows that are in memory together, 64 MB."""

OBLIQUE = """feature_combinations : float or "auto", default="auto"
        The features of a projection on average, >= 1. With 1 the forest is a plain one. "auto"
        tries 1, 3, half of the features and, if these are 36 or more, the square root of their
        number with small forests, and keeps what has the least out-of-bag error; then nodes that
        look at 300 projections, if ``max_features`` is "auto".
    n_projections : int or "auto", default="auto"
        Projections of the whole forest. "auto": 1000, or forty for each feature, up to 4000, if
        that is more; ten times the square of the number of features if that is less; never fewer
        than features. ``max_features`` is of them: "auto" is 100, or 300 if trials say so, and what
        a plain forest has where ``feature_combinations`` is 1.
    """


LEARNED = """
    feature_combinations_ : float
        The features of a projection on average.
    max_features_ : int
        Projections that a node looks at.

    References
    ----------
    Tomita et al., "Sparse projection oblique randomer forests", Journal of Machine Learning
    Research 21, 2020."""


Pool = tuple[Projections, CartTable]
"""Projections, and the columns of a training table that they make."""
Pools = dict[tuple[float, str], Pool]
"""Pools of the same rows, by the features of a projection and the device."""


@dataclass(kw_only=True, eq=False, repr=False)
class ObliqueTrees(ForestOfTrees):
    """Trees that are grown on projections of the features, which all of them share.

    The projections are drawn once, and binned once, like the columns of a wider table. No more
    than ``CELLS_AT_ONCE`` of their values are there at a time; their codes take a byte each.
    """

    max_features: int | float | str | None = "auto"
    feature_combinations: float | str = "auto"
    n_projections: int | str = "auto"
    honest: bool = False

    _keeps_sparse = False
    _grows_among_workers = False
    _plain_share: ClassVar[Any]

    def _training_work(self, X: Any, y: Any) -> Work:
        n_rows, n_features = size_of(X)
        looked_at = min(LOOKED_AT, self._n_columns_of(n_features))
        work = work_of_trees(self, (n_rows, looked_at), self.n_estimators)
        return work._replace(features=n_features)  # the columns of the table that is copied

    def _n_columns_of(self, n_features: int) -> int:
        if self._combinations == 1:
            return n_features
        if not isinstance(self.n_projections, str):
            return int(self.n_projections)
        many = min(max(PROJECTIONS, PROJECTIONS_OF_FEATURE * n_features), MOST_PROJECTIONS)
        return max(n_features, min(many, PROJECTIONS_OF_PAIR * n_features**2))

    def _bytes_to_bin(self, n_rows: int, n_columns: int) -> int:
        if self._combinations == 1:
            return 0
        return 8 * n_rows * min(n_columns, _columns_at_once(n_rows))

    @property
    def _combinations(self) -> float:
        """The features of a projection on average, once they are known."""
        chosen = getattr(self, "feature_combinations_", self.feature_combinations)
        return math.nan if isinstance(chosen, str) else float(chosen)

    def _n_looked_at(self, n_columns: int) -> int:
        wanted: Any = self.max_features
        if wanted == "auto":
            # A forest that goes on may have been begun with more projections.
            few = min(getattr(self, "max_features_", LOOKED_AT), n_columns)
            wanted = self._plain_share if self._combinations == 1 else few
        elif isinstance(wanted, Integral) and int(wanted) > n_columns:
            raise ValueError(
                f"max_features={wanted} is more than the {n_columns} projections. Pass at most "
                "that many, or raise n_projections."
            )
        return n_features_to_look_at(wanted, n_columns)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> None:
        for name in ("feature_combinations_", "max_features_"):
            self.__dict__.pop(name, None)
        wanted: Any = self.feature_combinations
        if wanted == "auto":
            self._choose(X, y, sample_weight)
        else:
            self.feature_combinations_ = float(wanted)

    def _choose(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Take over the parameters of the best trial; if it had all rows, its trees as well, which
        are the first ones of this forest."""
        X = readable(X)
        n_rows = n_rows_of(X)
        is_whole = n_rows <= TRIAL_ROWS or isinstance(X, BinnedTable)
        if not is_whole and _fit_together(n_rows, y, sample_weight):
            rows = self._trial_rows(n_rows, sample_weight)
            X = take(on_host(X), rows, CPU)
            y = np.asarray(on_host(y))[rows]
            if np.ndim(sample_weight):
                sample_weight = np.asarray(on_host(sample_weight))[rows]
        best, pools = self._best_trial((X, y, sample_weight))
        self.feature_combinations_ = best.feature_combinations_
        self.max_features_: int = best.max_features_
        if is_whole:
            self._pools = pools
            if self.bootstrap:
                self._begun = best.forest_

    def _trial_rows(self, n_rows: int, sample_weight: Any) -> np.ndarray:
        """Draw the rows of the trials, none of them of weight zero unless all are."""
        rows = np.arange(n_rows)
        if np.ndim(sample_weight):
            used = np.flatnonzero(np.asarray(on_host(sample_weight)))
            rows = used if used.size else rows
        if rows.size <= TRIAL_ROWS:
            return rows
        drawn: np.ndarray = subset(rows.size, TRIAL_ROWS, self._seed, 0, CPU)
        return rows[drawn]

    def _best_trial(self, data: tuple[Any, Any, Any]) -> tuple[ObliqueTrees, Pools]:
        """Return the small forest of the least out-of-bag error, and its columns."""
        pools: Pools = {}
        best, n_trees = None, min(self.n_estimators, TRIAL_TREES)
        for combinations in self._tried(max(1, size_of(data[0])[1])):
            trial = self._trial(combinations)
            trial._try(n_trees, data, pools)
            if best is None or trial._error_of(n_trees) < best._error_of(n_trees):
                best = trial
            for key in [key for key in pools if key[0] != best.feature_combinations_]:
                del pools[key]
        assert best is not None
        return self._with_more(best, data, pools), pools

    def _with_more(
        self, best: ObliqueTrees, data: tuple[Any, Any, Any], pools: Pools
    ) -> ObliqueTrees:
        """Return a trial whose nodes look at more, if that is worth the time, else ``best``."""
        n_columns = best.forest_.n_columns
        is_sums = best.feature_combinations_ > 1
        if not is_sums or self.max_features != "auto" or n_columns <= LOOKED_AT:
            return best
        trial = self._trial(best.feature_combinations_, min(MORE_LOOKED_AT, n_columns))
        last = min(self.n_estimators, TRIAL_TREES)
        for n_trees, share in (min(last, FIRST_TREES), PROMISE), (last, WORTH):
            trial._try(n_trees, data, pools)
            if not trial._error_of(n_trees) < share * best._error_of(n_trees):
                return best
        return trial

    @staticmethod
    def _tried(n_features: int) -> list[float]:
        few, half = min(3.0, float(n_features)), max(1.0, n_features / 2)
        between = math.sqrt(n_features)
        return sorted({1.0, few, between if between >= 2 * few else few, half})

    def _trial(self, combinations: float, max_features: Any = None) -> ObliqueTrees:
        """Return an estimator that is this one but for its size and for what is tried."""
        trial: ObliqueTrees = clone(self).set_params(
            feature_combinations=combinations,
            max_features=self.max_features if max_features is None else max_features,
            max_samples=self.max_samples if self.bootstrap else None,
            bootstrap=True,
            oob_score=True,
            warm_start=True,
            verbose=0,
            random_state=self._seed,
        )
        return trial

    def _try(self, n_trees: int, data: tuple[Any, Any, Any], pools: Pools) -> None:
        """Grow a trial until it has some trees."""
        self._pools = pools
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the forest itself warns
            self.set_params(n_estimators=n_trees).fit(*data)
        if self.forest_.n_trees < n_trees:
            raise KeyboardInterrupt

    def _error_of(self, n_trees: int) -> float:
        """Return the out-of-bag error of the first trees; infinite if no row is out of bag."""
        error = float(self.oob_scores_path_[n_trees - 1])
        return math.inf if math.isnan(error) else error

    def _read_training(self, X: Any, *args: Any, **kwargs: Any) -> TrainingData:
        if isinstance(X, BinnedTable):
            raise TypeError(
                "X is a BinnedTable, which has no values to add up: pass the rows as an array or "
                "a data frame."
            )
        return super()._read_training(X, *args, **kwargs)

    def _cart_table(
        self, values: Array, n_categories: np.ndarray, monotone: np.ndarray, workers: Workers,
        **settings: Any,
    ) -> CartTable:  # fmt: skip
        pools: Pools = self.__dict__.get("_pools", {})
        key = self._combinations, str(settings["device"])
        if key not in pools:
            pools[key] = self._pool(values, n_categories, monotone, **settings)
        self._projections, table = pools[key]
        self.max_features_ = self._n_looked_at(self._projections.n)
        return table

    def _pool(
        self, values: Array, n_categories: np.ndarray, monotone: np.ndarray, **settings: Any
    ) -> Pool:
        alone = (n_categories > 0) | (monotone != 0)
        projections = self._drawn(values, settings["weight"], ~alone)
        lead = projections.member[projections.begin[:-1]]
        single = projections.sizes == 1
        n_categories, monotone = n_categories[lead] * single, monotone[lead] * single
        step = _columns_at_once(values.shape[0])
        device = settings["device"]
        table = near(values, device)
        parts = []
        for first in range(0, projections.n, step):
            some = slice(first, min(first + step, projections.n))
            parts.append(
                cart_table(  # without a name, the columns do not wait for those of the next part
                    _projected(projections, np.arange(some.start, some.stop), table, device).T,
                    n_categories=n_categories[some],
                    monotone=monotone[some],
                    **settings,
                )
            )
        return projections, side_by_side(parts)

    def _drawn(self, values: Array, weight: np.ndarray | None, combines: np.ndarray) -> Projections:
        """Return the projections, in a warm start those of the existing trees."""
        before = self._forest_before()
        if isinstance(before, ObliqueForest) and before.n_features == combines.size:
            return before.projections
        n = self._n_columns_of(combines.size)
        return draw_projections(
            scales_of(values, weight), combines, n, self._combinations, self._seed
        )

    def _of_features(self, forest: Forest) -> Forest:
        return ObliqueForest.of(forest, self.n_features_in_, self._projections)

    def _fit(self, X: Any, y: Any, sample_weight: Any, device: Device, workers: Workers) -> None:
        try:
            super()._fit(X, y, sample_weight, device, workers)
        finally:
            for name in ("_begun", "_pools", "_projections"):
                self.__dict__.pop(name, None)

    def _grow(self, grower: ForestGrower, first: int, n_new: int, report: Progress) -> Forest:
        begun: Forest | None = self.__dict__.get("_begun")
        if begun is None:
            return super()._grow(grower, first, n_new, report)
        report(0, begun, None)
        n_begun = begun.n_trees
        if n_begun == n_new:
            return begun

        def after_batch(first: int, forest: Forest, records: Any) -> bool:
            return report(n_begun + first, forest, records)

        return Forest.concatenate([begun, grower.grow(n_begun, n_new - n_begun, after_batch)])

    def _parameters_of_members(self) -> dict[str, Any]:
        return super()._parameters_of_members() | {"max_features": None}


def _fit_together(n_rows: int, y: Any, sample_weight: Any) -> bool:
    """Return whether rows can be drawn; the first trial refuses what does not fit together."""
    of_weight = () if sample_weight is None else shape_of(sample_weight, "sample_weight")
    return shape_of(y)[:1] == (n_rows,) and (of_weight == () or of_weight[0] == n_rows)


def _columns_at_once(n_rows: int) -> int:
    return max(1, CELLS_AT_ONCE // max(1, n_rows))


def _projected(
    projections: Projections, numbers: np.ndarray, table: Array, device: Device
) -> Array:
    """Return some projections of all rows: float64, shape (n_numbers, n_rows), on the device."""
    some = projections.some(numbers)
    if not is_streamed(table, device):
        return some.of(table, device)
    columns = device.xp.empty((some.n, table.shape[0]))
    for rows, piece in in_pieces(table, device.xp):
        columns[:, rows] = some.of(piece, device)
    return columns


@documented(
    FOREST + LEARNED,
    bins="255",
    bootstrap="True",
    **FOREST_OF_CLASSES | {"features": '"auto"', "further": OBLIQUE},
)
@dataclass(kw_only=True, eq=False, repr=False)
class ObliqueRandomForestClassifier(CartClassifier, ObliqueTrees):
    """A random forest for classification whose nodes split by sums of a few features with random
    signs, drawn once for all trees.

    <shared>

    Examples
    --------
    >>> from gpuens import ObliqueRandomForestClassifier
    >>> from gpuens.datasets import make_sparse_parity
    >>> X, y = make_sparse_parity(3000, 10)
    >>> forest = ObliqueRandomForestClassifier(n_estimators=20, device="cpu")
    >>> bool(forest.fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) > 0.8)
    True
    """

    _tree_class = DecisionTreeClassifier
    _plain_share = "sqrt"

    criterion: str = "gini"
    class_weight: Any = None


@documented(
    FOREST + LEARNED,
    bins="255",
    bootstrap="True",
    **FOREST_OF_VALUES | {"features": '"auto"', "further": OBLIQUE},
)
@dataclass(kw_only=True, eq=False, repr=False)
class ObliqueRandomForestRegressor(CartRegressor, ObliqueTrees):
    """A random forest for regression whose nodes split by sums of a few features with random
    signs, drawn once for all trees.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import ObliqueRandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = ObliqueRandomForestRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> forest.predict(X[:2]).shape
    (2,)
    """

    _tree_class = DecisionTreeRegressor
    _plain_share = 1.0

    criterion: str = "squared_error"
