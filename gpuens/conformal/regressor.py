"""Prediction intervals with a guaranteed coverage, around any regressor: ``ConformalRegressor``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin, clone, is_classifier, is_outlier_detector

from ..bagging.base import Bagging
from ..boosting.regressor import GradientBoostingRegressor
from ..devices.placement import CPU, Device, to_numpy
from ..estimators.docstrings import PREDICTED, documented
from ..estimators.parameters import is_number
from ..estimators.scores import ScoresValues
from ..forests.forests import ExtraTreesRegressor, RandomForestRegressor
from ..forests.growing import trees_of
from ..forests.oblique import ObliqueRandomForestRegressor
from ..forests.quantile import QuantileForestRegressor
from ..inputs.arrays import to_input_library
from ..inputs.targets import read_target
from ..members.rows import MemberRows, home_of, readable
from ..members.samples import left_out
from .base import FIT, Conformal

METHODS = ("split", "cv+", "bag", "quantile")
BAGS = (Bagging, RandomForestRegressor, ExtraTreesRegressor, ObliqueRandomForestRegressor)
BLOCK_CELLS = 4_000_000
"""Entries of the matrix of predictions without each row that are in memory at once."""


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalRegressor(ScoresValues, RegressorMixin, Conformal):
    """A regressor whose intervals contain the target with a chosen probability.

    Whatever the regressor, the distribution and the number of rows, the intervals for new rows
    contain at least the chosen share of their targets on average (of "cv+" and "bag", a smaller one
    is proven), if all rows are exchangeable (drawn independently from the same source, for
    example). Nothing is guaranteed for single regions of the features: "quantile" adapts the widths
    best.

    Parameters
    ----------
    estimator : regressor, default=None
        Clones of it are fitted. None is a ``GradientBoostingRegressor`` of 100 rounds, for
        "bag" a ``RandomForestRegressor``.
    method : {"split", "cv+", "bag", "quantile"}, default="split"
        - "split": residuals of rows held out. At least the coverage, and at most one divided by
          the number of rows held out more; intervals of equal width.
        - "cv+": residuals out of fold, around the predictions of each fold's model (CV+). All rows
          train; at least ``2 * coverage - 1``, less up to ``sqrt(2 / n)`` for n rows, is proven,
          the coverage or slightly more is found (see the notes).
        - "bag": out-of-bag residuals around the predictions of the members that did not see the row
          (jackknife+ after bootstrap). One fit; proven and found as for "cv+". For random
          forests, oblique ones and extra trees with ``bootstrap=True``, and bagging. Nothing is
          proven of settings that all rows have chosen, as oblique forests do unless
          ``feature_combinations`` is given.
        - "quantile": predicted quantiles, widened or narrowed by their errors on rows held out
          (conformalised quantile regression); coverage as for "split". For
          ``GradientBoostingRegressor`` and ``QuantileForestRegressor``.
    calibration_size : float or int, default=0.25
        Share or number of the rows that "split" and "quantile" hold out.
    cv : int or splitter, default=10
        Folds of "cv+"; a number shuffles the rows. Each row must be in exactly one fold. With more
        folds the intervals are narrower, and the fit takes longer.
    quantiles : tuple of two floats, default=(0.05, 0.95)
        What "quantile" predicts. Intervals are narrowest where they belong to the coverage.
    random_state : int, RandomState or None, default=None
        Draws the rows held out and the folds. None is a fixed seed.
    device : str, default="auto"
        Where predictions are compared; the regressor has a ``device`` of its own.

    Attributes
    ----------
    estimator_ : regressor
        Fitted on all rows ("cv+", "bag") or on those not held out; ``predict`` is its prediction
        (of the median for "quantile").
    fold_estimators_ : list of regressors
        Those of the folds; only for "cv+".
    scores_ : list of float64 ndarrays
        Errors, ascending: of the rows held out, or of each fold.
    n_calibration_ : int
        Number of the errors.
    n_features_in_ : int

    Notes
    -----
    Vovk et al., *Algorithmic Learning in a Random World*, 2005 ("split"); Barber et al.,
    "Predictive inference with the jackknife+", 2021 ("cv+"); Kim et al., "Predictive inference is
    free with the jackknife+-after-bootstrap", 2020 ("bag"); Romano et al., "Conformalized quantile
    regression", 2019 ("quantile"). ``sample_weight`` weights rows in the fits of the
    regressor only.

    The intervals of "cv+" and "bag" contain a value if the average of its ranks among the errors,
    each rank by another model, is low enough. A rank by one model is uniform; the average of ranks
    that differ is closer to the middle, so that more is contained than the coverage (Linusson et
    al., "On the calibration of aggregated conformal predictors", 2017). The less the models differ,
    the closer both are: with more folds, which share more of their rows, and with more members of a
    bag, a third of which predict each row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import ConformalRegressor, RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(random_state=0)
    >>> model = ConformalRegressor(forest, method="bag").fit(X[:300], y[:300])
    >>> low, high = model.predict_interval(X[300:], coverage=0.9).T
    >>> bool(((low <= y[300:]) & (y[300:] <= high)).mean() > 0.85)
    True
    """

    _methods = METHODS
    _of_some_methods: ClassVar[set[str]] = {"fold_estimators_", "_outside"}

    quantiles: tuple[float, float] = (0.05, 0.95)

    @documented(
        FIT,
        kind="regressor",
        y="The numbers to predict.",
        wrong="or the regressor does not suit the method.",
    )
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the regressor, and measure its errors on rows that it has not seen.

        <shared>
        """
        return self._fit(X, y, sample_weight)

    @documented(PREDICTED, result="float64, shape (n_rows,), in the array library of X")
    def predict(self, X: Any) -> Any:
        """Predict the target.

        <shared>
        """
        self._require_method_of_fit()
        predicted = self.estimator_.predict(X)
        return predicted[:, 1] if self.method == "quantile" else predicted

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Predict an interval for the target of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        coverage : float, default=0.9
            The share of targets to contain, in (0, 1).

        Returns
        -------
        float64, shape (n_rows, 2)
            Lower and upper ends, in the array library of X.

        Raises
        ------
        ValueError
            ``coverage`` is not in (0, 1), or takes more calibration rows than there are.
        """
        self._require_method_of_fit()
        rank = self._rank(coverage)
        home = home_of(self.device, X)
        with home.active():
            rows = MemberRows(readable(X), home)
            if self.method == "split":
                centre = self._ask(self.estimator_, rows)
                width = self.scores_[0][rank - 1]
                ends = centre - width, centre + width
            elif self.method == "quantile":
                low, _, high = self._ask(self.estimator_, rows).T
                width = self.scores_[0][rank - 1]
                ends = _in_order(low - width, high + width)
            elif self.method == "cv+":
                centres = np.stack([self._ask(model, rows) for model in self.fold_estimators_])
                ends = (
                    -_shifted_rank(rank, -centres, self.scores_),
                    _shifted_rank(rank, centres, self.scores_),
                )
            else:
                ends = self._ends_of_bag(rank, self._of_members(rows))
            return to_input_library(home.asarray(np.stack(ends, axis=1)), X)

    def _read_y(self, y: Any, n: int, home: Device) -> np.ndarray:
        return to_numpy(read_target(y, n, home, estimator=self))

    def _target_of(self, numbers: np.ndarray, home: Device) -> Any:
        return home.asarray(numbers)

    def _default(self) -> Any:
        boosting = GradientBoostingRegressor(n_estimators=100)  # one for each fold
        return RandomForestRegressor() if self.method == "bag" else boosting

    def _method_of_fit(self) -> str:
        if "_outside" in vars(self):
            return "bag"
        several = "fold_estimators_" not in vars(self) and _predicts_three(self.estimator_)
        return "quantile" if several else super()._method_of_fit()

    def _measure(self, rows: MemberRows, target: np.ndarray) -> None:
        if self.method == "bag":
            self._fit_bag(rows, target)
        else:
            super()._measure(rows, target)

    def _errors(
        self, model: Any, rows: MemberRows, target: np.ndarray, part: np.ndarray
    ) -> np.ndarray:
        predicted, truth = self._ask(model, rows.part(part)), target[part]
        if self.method != "quantile":
            return abs(truth - predicted)
        low, _, high = predicted.T
        return np.maximum(low - truth, truth - high)

    def _fit_bag(self, rows: MemberRows, target: np.ndarray) -> None:
        model = self._fit_part(self._inner(), rows, target, np.arange(rows.n))
        outside = np.zeros((rows.n, len(model.estimators_)), np.uint8)
        for member, plan in enumerate(model._plans):
            outside[left_out(plan.counts(member, CPU)), member] = 1
        counts = outside.sum(axis=1)
        if not counts.all():
            raise ValueError(
                f"{int((counts == 0).sum())} of {rows.n} rows are in the samples of all "
                f"{outside.shape[1]} members, so that nothing predicts them: raise n_estimators, "
                "or lower max_samples."
            )
        self.estimator_ = model
        errors = abs(target - (self._of_members(rows).T * outside).sum(axis=1) / counts)
        order = np.argsort(errors, kind="stable")
        self.scores_, self._outside = [errors[order]], outside[order]

    def _of_members(self, rows: MemberRows) -> np.ndarray:
        """Return the predictions of the members of a bag: float64, shape (n_members, n_rows)."""
        model, X = self.estimator_, rows.table(self.estimator_)
        if not isinstance(model, Bagging):
            device = model._device_to_predict(X)
            with model._working_on(device):
                table = model._rows(X, device)
                raw = [tree.raw_predict(table, device)[0] for tree in trees_of(model.forest_)]
            return np.stack(list(map(to_numpy, raw)))
        with model._asking(X) as (values, device):
            answers = model._answers(model._ask(device), values, device)
            return np.stack([to_numpy(answer).reshape(-1) for answer in answers])

    def _ends_of_bag(self, rank: int, of_members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the intervals, for as many rows at once as memory is meant for."""
        outside, errors = self._outside.astype(np.float64), self.scores_[0][:, None]
        counts = outside.sum(axis=1, keepdims=True)
        of_members = _with_exact_sums(of_members)
        n = of_members.shape[1]
        low, high = np.empty(n), np.empty(n)
        step = max(1, BLOCK_CELLS // len(outside))
        for first in range(0, n, step):
            rows = slice(first, first + step)
            centres = outside @ of_members[:, rows] / counts
            low[rows] = np.partition(centres - errors, len(outside) - rank, axis=0)[-rank]
            high[rows] = np.partition(centres + errors, rank - 1, axis=0)[rank - 1]
        return low, high

    def _ask(self, model: Any, rows: MemberRows) -> np.ndarray:
        """Return predictions on the host."""
        X = rows.table(model)
        if isinstance(model, QuantileForestRegressor) and self.method == "quantile":
            return np.asarray(to_numpy(model.predict(X, _three(self.quantiles))))
        found = np.asarray(to_numpy(model.predict(X)), np.float64)
        if found.ndim != (2 if self.method == "quantile" else 1):
            raise ValueError(
                f"estimator must predict a number for each row, got predictions of the shape "
                f"{found.shape}: pass a regressor of one output. method='quantile' predicts "
                "several quantiles itself."
            )
        return found

    def _inner(self) -> Any:
        """Return a clone of the regressor, which suits the method."""
        model = clone(self._default() if self.estimator is None else self.estimator)
        if hasattr(model, "__sklearn_tags__") and (
            is_classifier(model) or is_outlier_detector(model)
        ):
            raise TypeError(f"estimator must be a regressor, got {model!r}.")
        if self.method == "quantile":
            return self._of_quantiles(model)
        if self.method == "bag":
            if not isinstance(model, BAGS) or not model.bootstrap:
                raise TypeError(
                    "method='bag' needs a RandomForestRegressor, an ExtraTreesRegressor, an "
                    "ObliqueRandomForestRegressor or a BaggingRegressor, with bootstrap=True, got "
                    f"{model!r}. Use 'split' or 'cv+'."
                )
        return model

    def _of_quantiles(self, model: Any) -> Any:
        quantiles = _three(self.quantiles)
        if isinstance(model, GradientBoostingRegressor):
            return model.set_params(loss="quantile", quantile=quantiles)
        if isinstance(model, QuantileForestRegressor):
            return model.set_params(default_quantiles=quantiles)
        raise TypeError(
            "method='quantile' needs a GradientBoostingRegressor or a QuantileForestRegressor, got "
            f"{model!r}. Use 'split' or 'cv+'."
        )


def _predicts_three(model: Any) -> bool:
    """Return whether a fitted regressor is one of ``_of_quantiles``."""
    if isinstance(model, QuantileForestRegressor):
        return np.size(model.default_quantiles) == 3
    if not isinstance(model, GradientBoostingRegressor) or model.quantile is None:
        return False
    return np.size(model.quantile) == 3


def _three(quantiles: Any) -> list[float]:
    """Return the lower quantile, the median and the upper one."""
    found = list(quantiles) if isinstance(quantiles, (tuple, list)) else []
    if len(found) != 2 or not all(map(is_number, found)) or not 0 < found[0] < 0.5 < found[1] < 1:
        raise ValueError(
            f"quantiles must be two numbers, one below and one above 0.5, got {quantiles!r}."
        )
    return [float(found[0]), 0.5, float(found[1])]


def _in_order(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals whose ends do not cross: quantiles that were narrowed can, and contain
    nothing then."""
    middle = 0.5 * (low + high)
    crossed = low > high
    return np.where(crossed, middle, low), np.where(crossed, middle, high)


def _with_exact_sums(of_members: np.ndarray) -> np.ndarray:
    """Return predictions (n_members, n_rows) without the bits of each row that sums over members
    would round off: which rows are added up together changes no interval then."""
    exponent = np.frexp(abs(of_members).max(axis=0))[1]
    bits = np.finfo(np.float64).nmant - math.ceil(math.log2(max(2, len(of_members))))
    unit = np.ldexp(1.0, np.maximum(exponent - bits, -1000))
    return np.rint(of_members / unit) * unit


def _shifted_rank(rank: int, centres: np.ndarray, errors: list[np.ndarray]) -> np.ndarray:
    """Return the ``rank``-th smallest, from 1, of ``centres[k] + errors[k][i]`` over all k and i,
    for each row. Centres are (n_folds, n_rows), the errors of each fold ascending."""
    n_rows = centres.shape[1]
    best = np.full(n_rows, np.inf)
    for k, of_fold in enumerate(errors):
        # Bisection for the first error of this fold that has at least `rank` values up to it.
        low, high = np.zeros(n_rows, np.int64), np.full(n_rows, len(of_fold), np.int64)
        while (low < high).any():
            middle = (low + high) // 2
            value = centres[k] + of_fold[np.minimum(middle, len(of_fold) - 1)]
            enough = _count_up_to(value, k, middle, centres, errors) >= rank
            active = low < high
            high = np.where(active & enough, middle, high)
            low = np.where(active & ~enough, middle + 1, low)
        found = low < len(of_fold)
        value = centres[k] + of_fold[np.minimum(low, len(of_fold) - 1)]
        best = np.where(found & (value < best), value, best)
    return best


def _count_up_to(
    value: np.ndarray, fold: int, position: np.ndarray, centres: np.ndarray, errors: list[Any]
) -> np.ndarray:
    """Count the sums that do not exceed a value, which is entry ``position`` of a fold."""
    count = position + 1
    for k, of_fold in enumerate(errors):
        if k != fold:
            count = count + np.searchsorted(of_fold, value - centres[k], side="right")
    return count
