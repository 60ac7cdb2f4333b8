"""The base of ``StackingClassifier`` and ``StackingRegressor``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if

from ..devices.placement import Device, to_numpy
from ..estimators.parameters import JOBS, SWITCH, VERBOSE, check_rules, one_of
from ..inputs.arrays import to_input_library
from ..kernels.runtime.arrays import Array
from ..members.fitting import input_tags
from ..members.rows import Fit, MemberRows, TrainingSet, fit_one, run_fits, takes_weights
from .base import Combination, check_estimators, may_be, routing_enabled
from .columns import METHODS, columns_of, fit_and_ask, method_of
from .folds import (
    PREFIT,
    Fold,
    check_folds,
    folds_of,
    holdout_fold,
    is_holdout,
    require_classes,
    rows_asked,
    searches_rounds,
    without_search,
)

STACKING = """Parameters
    ----------
    estimators : list of (str, estimator)
        Members by name, from scikit-learn, cuML, this package or the user; "drop" leaves a
        name without one. Their clones are fitted.
    final_estimator : estimator or None, default=None
        The meta-model, which learns from the members' predictions. None is <final>. A stack of
        its own gives one more layer.
    cv : None, int, splitter, list, "prefit", "holdout" or float, default=None
        How the meta-model gets predictions of rows that the members have not seen:

        - a number of folds (None is 5<stratified>), a splitter or a list of pairs (rows to fit
          on, rows to predict): copies of the members predict the rows outside of their folds,
          the members themselves are fitted on all rows. The meta-model learns from the rows that
          some fold predicts, as with ``TimeSeriesSplit`` not all; rows that several folds
          predict occur several times. Boosting of this package that searches for its number of
          rounds (``n_estimators="auto"``) searches once, on all rows, and its copies train as
          many;
        - "holdout" or a share of the rows: the members are fitted on the other rows, the
          meta-model on these ("holdout" is 0.2);
        - "prefit": the members are fitted already, the meta-model learns from all rows, which
          should be others than those that the members were fitted on.
    <method>n_jobs : int or None, default=None
        Processes that fit members of other packages, through joblib; None is 1. Members of this
        package use the threads that their own ``n_jobs`` allow in any case: on small tables several
        are trained side by side, one on each, and on a GPU boosted ones grow together. The model
        does not depend on it.
    passthrough : bool, default=False
        Whether the meta-model gets X beside the predictions.
    verbose : bool or int, default=0
        Whether to print how long the fit of each member took.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows held out, and of splitters that shuffle without one. None is a fixed
        seed. Members draw with their own.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where predictions are collected. "auto" follows the arrays. Members and meta-models of
        this package, cuML and XGBoost get arrays where they are, all others on the host, copied
        once for all of them; "cuda" gives CuPy arrays to any member.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted members, without those that are dropped.
    named_estimators_ : Bunch
        The fitted members by name; "drop" for those that are dropped.
    final_estimator_ : estimator
        The fitted meta-model.
    stack_method_ : list of str
        The method that predicts for the meta-model, of each member.
    <attributes>n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names."""


RULES = {
    "n_jobs": JOBS,
    "passthrough": SWITCH,
    "stack_method": one_of("auto", *METHODS),
    "verbose": VERBOSE,
}


def final_has(method: str) -> Any:
    """Make a method available where the meta-model has it."""

    def check(stack: Any) -> bool:
        final = getattr(stack, "final_estimator_", None) or stack._final_estimator()
        getattr(final, method)
        return True

    return available_if(check)


@dataclass(kw_only=True, eq=False, repr=False)
class Stacking(Combination):
    """Members whose predictions are the features of a meta-model."""

    estimators: Any = field(kw_only=False)
    final_estimator: Any = field(default=None, kw_only=False)
    cv: Any = None
    n_jobs: int | None = None
    passthrough: bool = False
    verbose: bool | int = 0
    random_state: Any = None
    device: str = "auto"

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **fit_params: Any
    ) -> Any:
        """Fit the members and the meta-model.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            Members validate X themselves: it may be sparse or have missing values if they
            accept that.
        y : array, shape (n_rows,)
            For a regressor also (n_rows, n_outputs), for a classifier (n_rows, n_labels) of
            zeros and ones, if members and meta-model take that.
        sample_weight : array of shape (n_rows,), default=None
            For the members and the meta-model, all of which must take it.
        groups : array of shape (n_rows,), default=None
            For splitters that keep the rows of a group together.
        **fit_params : dict
            Further metadata for the members, if scikit-learn's metadata routing is enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        """
        metadata = self._metadata(sample_weight, fit_params, groups=groups)
        check_stacking_parameters(self, groups)
        return self._train(X, y, sample_weight, metadata, groups)

    def _fit(self, data: TrainingSet, groups: Any) -> None:
        kept = self._kept()
        self.stack_method_: list[str] = [
            method_of(name, estimator, self._stack_method()) for name, estimator in kept
        ]
        if self._is_prefit():
            self._set_members(self._prefitted())
            columns = self._columns(data.rows)
        elif is_holdout(self.cv):
            fold = holdout_fold(self.cv, data.target, self._classes() is not None, self._seed)
            self._require_classes(fold.seen, data.target, "that are not held out")
            self._set_members(self._fitted(data.part(fold.seen)))
            self._require_classes(fold.asked, data.target, "held out")
            data = data.part(fold.asked)
            columns = self._columns(data.rows)
        else:
            folds, rows, order = self._folds(data, groups)
            columns = self._fit_with_folds(data, folds, order)
            data = data.part(rows)
        self._n_columns = [part.shape[1] for part in columns]
        self._fit_final(self._beside(columns, data.rows), data)

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == PREFIT

    def _folds(self, data: TrainingSet, groups: Any) -> tuple[list[Fold], np.ndarray, np.ndarray]:
        """Return the folds, the rows that they predict, and how to order their predictions."""
        classes, target = self._classes(), to_numpy(data.target)
        folds = folds_of(self.cv, data.rows.X, target, groups, classes is not None, self._seed)
        rows, order = rows_asked(folds, data.rows.n)
        for number, fold in enumerate(folds):
            self._require_classes(fold.seen, data.target, f"to fit on in fold {number} of cv")
        self._require_classes(rows, data.target, "that the folds of cv predict")
        return folds, rows, order

    def _fit_with_folds(
        self, data: TrainingSet, folds: Sequence[Fold], order: np.ndarray
    ) -> list[Array]:
        """Fit the members, and beside them copies to the folds; return what these predict for the
        other rows, in this order. Only where members search for their rounds do copies follow."""
        home, estimators = data.rows.home, [own for _, own in self._kept()]
        n_members, n_folds = len(estimators), len(folds)
        at_once = [k for k, own in enumerate(estimators) if not searches_rounds(own)]
        later = [k for k in range(n_members) if k not in at_once]
        fits = self._fits(data) + self._fits_to_folds(data, folds, at_once, estimators)
        found = run_fits(fits, data.rows, data.target, self.n_jobs)
        members, parts = found[:n_members], found[n_members:]
        self._set_members(members)
        pairs = zip(estimators, members, strict=True)
        copies = [without_search(own, fitted, data.rows.X) for own, fitted in pairs]
        fits = self._fits_to_folds(data, folds, later, copies)
        parts += run_fits(fits, data.rows, data.target, self.n_jobs)
        begins, on_device = np.argsort([*at_once, *later]) * n_folds, home.asarray(order)
        return [home.xp.concat(parts[k : k + n_folds])[on_device] for k in begins.tolist()]

    def _fits_to_folds(
        self, data: TrainingSet, folds: Sequence[Fold], numbers: list[int], copies: list[Any]
    ) -> list[Fit]:
        """Return the fits of copies of some members to the folds."""
        names, classes = self._kept_names(), self._classes()
        return [
            (own, partial(fit_and_ask, name, own, data, *fold, method, classes))
            for name, own, method in ((names[k], copies[k], self.stack_method_[k]) for k in numbers)
            for fold in folds
        ]

    def _require_classes(self, rows: np.ndarray, target: Array, where: str) -> None:
        classes = self._classes()
        if isinstance(classes, np.ndarray):
            require_classes(rows, to_numpy(target), classes, where)

    def _columns(self, rows: MemberRows) -> list[Array]:
        """Return the predictions of each fitted member."""
        members = zip(self._fitted_members(), self.stack_method_, strict=True)
        return [
            columns_of(name, member, method, rows, self._classes(), self._is_prefit())
            for (name, member), method in members
        ]

    def _beside(self, columns: list[Array], rows: MemberRows) -> Array:
        """Return the table of the meta-model: predictions, and with ``passthrough`` X."""
        xp = rows.home.xp
        if not self.passthrough:
            return xp.concat(columns, axis=1)
        X = rows.numbers()
        if sparse.issparse(X):
            return sparse.hstack([to_numpy(part) for part in columns] + [X], format=X.format)
        return xp.concat([*columns, X], axis=1)

    def _fit_final(self, table: Array, data: TrainingSet) -> None:
        final = clone(self._final_estimator(self._probabilities()))
        rows = data.rows.like(table)
        given = {}
        if data.weight is not None and (not routing_enabled() or takes_weights(final)):
            given["sample_weight"] = rows.vector(final, data.weight)
        target = rows.vector(final, data.target)
        self.final_estimator_ = fit_one("final_estimator", final, rows.table(final), target, given)

    def _probabilities(self) -> list[int]:
        """Return the columns of ``transform`` that are probabilities."""
        found: list[int] = []
        first = 0
        for method, n_columns in zip(self.stack_method_, self._n_columns, strict=True):
            if method == "predict_proba":
                found += range(first, first + n_columns)
            first += n_columns
        return found

    def _ask_final(self, X: Any, method: str, **parameters: Any) -> tuple[Array, Device]:
        """Return the answer of the meta-model, and the device of the predictions."""
        with self._asking(X) as rows:
            final = self.final_estimator_
            table = rows.like(self._beside(self._columns(rows), rows)).table(final)
            return getattr(final, method)(table, **parameters), rows.home

    def _predict_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the meta-model's ``predict``."""
        if not routing_enabled():
            return parameters
        return dict(process_routing(self, "predict", **parameters)["final_estimator"]["predict"])

    def transform(self, X: Any) -> Array:
        """Return the table of the meta-model: the members' predictions, with ``passthrough`` and X.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows, n_columns)
            In the array library and on the device of X; sparse if X is and is passed through.
        """
        with self._asking(X) as rows:
            table = self._beside(self._columns(rows), rows)
            return table if sparse.issparse(table) else to_input_library(table, X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that ``transform`` gives.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the features of ``fit``; None: those that it saw.
        """
        self._check_input_features(input_features)
        prefix = type(self).__name__.lower()
        names = []
        for name, n_columns in zip(self._member_names, self._n_columns, strict=True):
            numbers = [""] if n_columns == 1 else range(n_columns)
            names += [f"{prefix}_{name}{i}" for i in numbers]
        if self.passthrough:
            names += list(self._input_names(input_features))
        return np.asarray(names, dtype=object)

    def _input_names(self, input_features: Any) -> Any:
        if input_features is not None:
            return input_features
        generic = [f"x{i}" for i in range(self.n_features_in_)]
        return getattr(self, "feature_names_in_", generic)

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata of ``fit`` goes to the ``fit`` of members and to the splitter, that of
        ``predict`` to the meta-model."""
        router = super().get_metadata_routing()
        final = getattr(self, "final_estimator_", None) or self._final_estimator()
        to_predict = MethodMapping().add(caller="predict", callee="predict")
        router.add(final_estimator=final, method_mapping=to_predict)
        if hasattr(self.cv, "get_metadata_routing"):
            to_split = MethodMapping().add(caller="fit", callee="split")
            router.add(cv=self.cv, method_mapping=to_split)
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        if self.passthrough:
            of_final = input_tags(self._final_estimator())
            tags.input_tags.sparse &= of_final.sparse
            tags.input_tags.allow_nan &= of_final.allow_nan
        return tags

    _member_kind: ClassVar[str | None]
    """Required kind of the members; None for anything that predicts."""
    _final_kind: ClassVar[str]
    """Required kind of the meta-model."""

    def _stack_method(self) -> str:
        return "predict"

    @abstractmethod
    def _classes(self) -> Any:
        """Return the classes, None for regression."""

    @abstractmethod
    def _final_estimator(self, probabilities: Sequence[int] = ()) -> Any:
        """Return ``final_estimator``, or its default, which uses the log-odds of features that are
        probabilities."""


def check_stacking_parameters(stack: Any, groups: Any) -> None:
    """Check the parameters that do not depend on data, and ``groups``; ``device`` is checked where
    it is resolved."""
    check_estimators(stack, stack._member_kind)
    check_folds(stack.cv)
    check_rules(stack, RULES)
    if groups is not None and (is_holdout(stack.cv) or stack.cv == PREFIT):
        raise ValueError(
            f"groups are for splitters, but cv is {stack.cv!r}. Pass one, such as "
            "cv=sklearn.model_selection.GroupKFold(5), or no groups."
        )
    final = stack._final_estimator()
    if isinstance(final, type) or not callable(getattr(final, "fit", None)):
        raise TypeError(
            f"final_estimator must be None or an object with a method fit, got {final!r}."
        )
    if not may_be(final, stack._final_kind):
        raise ValueError(
            f"'final_estimator' parameter should be a {stack._final_kind}. Got {final}"
        )
