"""Stacked generalisation: ``StackingClassifier`` and ``StackingRegressor``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target

from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import documented
from ..estimators.scores import ScoresClasses, ScoresValues
from ..inputs.arrays import to_input_library
from ..inputs.labels import read_labels
from ..kernels.runtime.arrays import Array
from ..members.classes import codes_among, common_classes, labels_of
from ..members.fitting import read_outputs
from .linear import RidgeRegression
from .logistic import LogisticRegression
from .stacking_base import STACKING, Stacking, final_has


@documented(
    STACKING,
    final="this package's ``gpuens.combining.linear.RidgeRegression``",
    stratified="",
    method="",
    attributes="",
)
@dataclass(kw_only=True, eq=False, repr=False)
class StackingRegressor(ScoresValues, RegressorMixin, Stacking):
    """Regressors of any kind, and one that learns from their predictions.

    Stacked generalisation (Wolpert 1992; Breiman, "Stacked regressions", 1996).

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from gpuens import RandomForestRegressor, StackingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [("ridge", Ridge(alpha=0.1)), ("forest", RandomForestRegressor())]
    >>> model = StackingRegressor(members).fit(X, y)
    >>> model.final_estimator_.coef_.shape, model.predict(X[:2]).shape
    ((2,), (2,))
    """

    _member_kind = "regressor"
    _final_kind = "regressor"

    @final_has("predict")
    def predict(self, X: Any, **predict_params: Any) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        **predict_params : dict
            For the ``predict`` of the meta-model, such as ``return_std=True``.

        Returns
        -------
        float64, shape (n_rows,) or (n_rows, n_outputs), or a tuple of arrays
            In the array library and on the device of X.
        """
        parameters = self._predict_parameters(predict_params)
        values, home = self._ask_final(X, "predict", **parameters)
        if isinstance(values, tuple):
            return tuple(to_input_library(home.asarray(value), X) for value in values)
        return to_input_library(home.asarray(values), X)

    def _classes(self) -> Any:
        return None

    def _read_y(self, y: Any, n_rows: int, home: Device) -> Array:
        return read_outputs(y, n_rows, home, estimator=self)

    def _final_estimator(self, probabilities: Sequence[int] = ()) -> Any:
        return RidgeRegression() if self.final_estimator is None else self.final_estimator


@documented(
    STACKING,
    final="""this package's ``gpuens.combining.logistic.LogisticRegression`` on the predictions and
        the log-odds of those that are probabilities""",
    stratified=" stratified ones",
    method="""stack_method : str, default="auto"
        Method of the members: "predict_proba", "decision_function" or "predict"; "auto" is the
        first of these that a member has. The probabilities of two classes are one column.
        Predicted classes are their numbers.
    """,
    attributes="""classes_ : ndarray, or a list of these for several labels
        The labels, ascending. Members and the meta-model are fitted on their numbers.
    """,
)
@dataclass(kw_only=True, eq=False, repr=False)
class StackingClassifier(ScoresClasses, ClassifierMixin, Stacking):
    """Models of any kind, and a classifier that learns from their predictions.

    Stacked generalisation (Wolpert 1992). Members can be regressors too: they are fitted on the
    numbers of the classes.

    <shared>

    Notes
    -----
    For more layers, ``final_estimator`` is a stack itself: its members learn from the predictions
    of the first layer (with ``passthrough`` also from X), and so on. Each layer makes its own
    folds of the rows that the layer before predicts out of fold, so no layer learns from
    predictions of rows that the models before it have seen.

    Examples
    --------
    Two layers: the meta-model is a stack of models on the predictions of the first layer.

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from gpuens import RandomForestClassifier, StackingClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> first = [("bayes", GaussianNB()), ("forest", RandomForestClassifier(50))]
    >>> second = [("near", KNeighborsClassifier()), ("forest", RandomForestClassifier(50))]
    >>> model = StackingClassifier(first, StackingClassifier(second)).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _member_kind = None
    _final_kind = "classifier"

    stack_method: str = "auto"

    @final_has("predict")
    def predict(self, X: Any, **predict_params: Any) -> Array:
        """Predict the class of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        **predict_params : dict
            For the ``predict`` of the meta-model.

        Returns
        -------
        array of labels, shape (n_rows,) or (n_rows, n_labels)
            In the array library and on the device of X where labels are numbers.
        """
        parameters = self._predict_parameters(predict_params)
        codes, home = self._ask_final(X, "predict", **parameters)
        with home.active():
            codes = home.asarray(codes).astype(np.int64)
            if isinstance(self.classes_, list):
                columns = [labels_of(codes[:, k], c, home) for k, c in enumerate(self.classes_)]
                return to_input_library(home.xp.stack(columns, axis=1), X)
            return to_input_library(labels_of(codes, self.classes_, home), X)

    @final_has("predict_proba")
    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows, n_classes), or (n_rows, n_labels)
            In the order of ``classes_``; of several labels, that each is there.
        """
        shares, home = self._ask_final(X, "predict_proba")
        with home.active():
            if isinstance(shares, list):
                shares = home.xp.stack([home.asarray(share)[:, 1] for share in shares], axis=1)
            return to_input_library(home.asarray(shares), X)

    @final_has("decision_function")
    def decision_function(self, X: Any) -> Array:
        """Return the decision function of the meta-model.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        array, shape (n_rows,) or (n_rows, n_classes), as the meta-model gives it
        """
        values, home = self._ask_final(X, "decision_function")
        return to_input_library(home.asarray(values), X)

    def _stack_method(self) -> str:
        return self.stack_method

    def _classes(self) -> Any:
        return self.classes_

    def _read_y(self, y: Any, n_rows: int, home: Device) -> Array:
        if len(getattr(y, "shape", (n_rows,))) > 1 and y.shape[1] > 1:
            return self._read_several(to_numpy(y), n_rows, home)
        known = common_classes(self._kept()) if self._is_prefit() else None
        if known is not None:
            self.classes_: Any = known
            return codes_among(y, n_rows, known, home, estimator=self, name="y")
        labels = read_labels(y, n_rows, home, estimator=self)
        self.classes_ = labels.classes
        return labels.codes

    def _read_several(self, y: np.ndarray, n_rows: int, home: Device) -> Any:
        """Several labels a row, each of two classes."""
        kind = type_of_target(y)
        if kind != "multilabel-indicator":
            raise ValueError(
                f"y must hold one label a row, or several as columns of zeros and ones, got {kind} "
                f"of shape {y.shape}."
            )
        labels = [read_labels(column, n_rows, home, estimator=self) for column in y.T]
        self.classes_ = [found.classes for found in labels]
        return home.xp.stack([found.codes for found in labels], axis=1)

    def _final_estimator(self, probabilities: Sequence[int] = ()) -> Any:
        if self.final_estimator is not None:
            return self.final_estimator
        return LogisticRegression(log_odds=list(probabilities) or None)
