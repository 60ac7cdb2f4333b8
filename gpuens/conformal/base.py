"""The base of conformal regressors and classifiers: rows that an estimator has not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, to_numpy
from ..estimators.base import Savable, kept_on_failure
from ..estimators.parameters import is_number, seed_of
from ..estimators.validation import holdout_rows
from ..inputs.targets import read_sample_weight
from ..members.fitting import input_tags, takes_any_array
from ..members.rows import MemberRows, fit_one, home_of, readable

FIT = """Parameters
    ----------
    X : array, sparse matrix or data frame, shape (n_rows, n_features)
        Of any type that the <kind> takes.
    y : array, shape (n_rows,)
        <y>
    sample_weight : array of shape (n_rows,), default=None
        For the fits of the <kind>.

    Returns
    -------
    self

    Raises
    ------
    TypeError, ValueError
        A parameter is wrong, <wrong>"""
"""The documentation of ``fit``."""


@dataclass(kw_only=True, eq=False, repr=False)
class Conformal(Savable, MetaEstimatorMixin, BaseEstimator):
    """Fits an estimator, and measures its errors on rows that it has not seen."""

    _methods: ClassVar[tuple[str, ...]]
    _of_some_methods: ClassVar[set[str]] = {"fold_estimators_"}
    """Attributes that only some methods have."""

    estimator: Any = field(default=None, kw_only=False)
    method: str = "split"
    calibration_size: float | int = 0.25
    cv: Any = 10
    random_state: Any = None
    device: str = "auto"

    def _read_y(self, y: Any, n: int, home: Device) -> np.ndarray:
        """Return the target as numbers on the host."""
        raise NotImplementedError

    def _target_of(self, numbers: np.ndarray, home: Device) -> Any:
        """Return the target as the estimator gets it."""
        raise NotImplementedError

    def _default(self) -> Any:
        """Return the estimator that None is."""
        raise NotImplementedError

    def _inner(self) -> Any:
        """Return a clone of the estimator, which suits the method."""
        raise NotImplementedError

    def _errors(
        self, model: Any, rows: MemberRows, target: np.ndarray, part: np.ndarray
    ) -> np.ndarray:
        """Return the errors of a model on some of the rows: float64, shape (part.size,)."""
        raise NotImplementedError

    def _method_of_fit(self) -> str:
        """Return the method that the model was fitted with."""
        return "cv+" if "fold_estimators_" in vars(self) else "split"

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Fit the estimator, and measure its errors."""
        if self.method not in self._methods:
            raise ValueError(f"method must be one of {self._methods}, got {self.method!r}.")
        home = home_of(self.device, X, y=y, sample_weight=sample_weight)
        with kept_on_failure(self), home.active():
            rows = MemberRows(readable(X), home)
            if rows.n < 2:
                raise ValueError("X has 1 sample (n_samples=1): errors are measured on others.")
            target = self._read_y(y, rows.n, home)
            weight = read_sample_weight(sample_weight, rows.n, home)
            self._weight = None if weight is None else to_numpy(weight)
            for of_method in self._of_some_methods & set(vars(self)):
                delattr(self, of_method)
            self._measure(rows, target)
            del self._weight
            self.n_calibration_ = sum(map(len, self.scores_))
            if hasattr(self.estimator_, "n_features_in_"):
                self.n_features_in_ = self.estimator_.n_features_in_
            if hasattr(self.estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.estimator_.feature_names_in_
        return self

    def _measure(self, rows: MemberRows, target: np.ndarray) -> None:
        """Fit models on some of the rows each, and keep their errors on the others."""
        inner, parts = self._inner(), self._parts(rows.n)
        models = [self._fit_part(clone(inner), rows, target, train) for train, _ in parts]
        self.estimator_ = models[0]
        if self.method == "cv+":
            self.fold_estimators_ = models
            self.estimator_ = self._fit_part(inner, rows, target, np.arange(rows.n))
        self.scores_ = [
            np.sort(self._errors(model, rows, target, held_out))
            for model, (_, held_out) in zip(models, parts, strict=True)
        ]

    def _parts(self, n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the rows that each model is fitted on, and those that it is measured on."""
        if self.method == "cv+":
            return self._folds(n_rows)
        seed = self._random_state().randint(2**31 - 1)
        return [holdout_rows(n_rows, self.calibration_size, None, seed, "calibration_size")]

    def _folds(self, n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
        cv = self.cv
        if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
            if not 2 <= cv <= n_rows:
                raise ValueError(f"cv must be from 2 to the {n_rows} rows, got {cv}.")
            cv = KFold(int(cv), shuffle=True, random_state=self._random_state())
        try:
            folds = list(check_cv(cv).split(np.empty((n_rows, 1))))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"cv={self.cv!r:.60} cannot divide rows without y and groups ({error}), and "
                "coverage is guaranteed for folds that do not look at them: pass KFold or a number."
            ) from error
        if not np.array_equal(np.sort(np.concatenate([b for _, b in folds])), np.arange(n_rows)):
            raise ValueError(f"cv={self.cv!r} must put each row into exactly one fold.")
        if any(np.intersect1d(*fold).size for fold in folds):
            raise ValueError(
                f"cv={self.cv!r:.60} measures models on rows that they were trained on."
            )
        return folds

    def _fit_part(self, model: Any, rows: MemberRows, target: np.ndarray, part: np.ndarray) -> Any:
        """Fit an estimator on some rows."""
        given = {}
        if self._weight is not None:
            given["sample_weight"] = rows.vector(model, rows.home.asarray(self._weight[part]))
        whole = part.size == rows.n
        table = (rows if whole else rows.part(part)).table(model)
        values = rows.vector(model, self._target_of(target[part], rows.home))
        return fit_one("estimator", model, table, values, given)

    def _random_state(self) -> np.random.RandomState:
        return check_random_state(seed_of(self.random_state))

    def _require_method_of_fit(self) -> None:
        """Raise ValueError if ``method`` has been set to another one since ``fit``."""
        check_is_fitted(self)
        learned = self._method_of_fit()
        if self.method != learned:
            raise ValueError(
                f"method must be {learned!r}, with which the model was fitted, got "
                f"{self.method!r}: fit it again."
            )

    def _rank(self, coverage: float) -> int:
        """Return which of the errors, from 1 and ascending, gives the coverage."""
        if not is_number(coverage) or not 0 < coverage < 1:
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
        n = self.n_calibration_
        rank = math.ceil(round((n + 1) * coverage, 9))
        if rank > n:
            least = math.ceil(round(coverage / (1 - coverage), 9))
            raise ValueError(
                f"coverage={coverage} takes the errors of at least {least} rows, and there are "
                f"{n}: nothing narrower than everything can be guaranteed. Lower it, or fit with "
                f"more rows{' (calibration_size)' if self.method in ('split', 'quantile') else ''}."
            )
        return rank

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self._default() if self.estimator is None else self.estimator
        own, tags.array_api_support = input_tags(inner), takes_any_array(inner)
        tags.input_tags.sparse, tags.input_tags.allow_nan = own.sparse, own.allow_nan
        return tags
