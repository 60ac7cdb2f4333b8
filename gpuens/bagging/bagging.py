"""Bagging around any estimator: ``BaggingClassifier`` and ``BaggingRegressor``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device
from ..estimators.docstrings import EXPLAINED, LABELS, PREDICTED, PROBABILITIES, documented
from ..estimators.scores import ScoresClasses, ScoresValues
from ..explanation.explainer import explained
from ..inputs.arrays import to_input_library
from ..inputs.labels import labels_of_all, read_labels
from ..kernels.runtime.collective import Workers
from ..members.classes import labels_of
from ..members.fitting import class_shares, decisions, read_outputs, values_of
from ..members.samples import accuracy, out_of_bag_score
from ..trees.sharing import rows_of_workers
from ..trees.trees import DecisionTreeClassifier, DecisionTreeRegressor
from .base import Bagging
from .parameters import BAGGING


@documented(
    BAGGING,
    default="this package's ``DecisionTreeRegressor``",
    score="R² score",
    voting="",
    attributes="""oob_prediction_ : float64 ndarray, shape (n_rows,) or (n_rows, n_outputs)
        Mean prediction of the members that did not see the row; NaN if all have seen it.""",
)
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingRegressor(ScoresValues, RegressorMixin, Bagging):
    """Regressors on random samples of the rows and features, averaged.

    Bagging (Breiman 1996), pasting (Breiman 1999: ``bootstrap=False``), random subspaces (Ho
    1998: ``max_features``) and random patches (Louppe and Geurts 2012: both). A sample depends
    on nothing but the seed and the number of the member: it is the same on every device.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from gpuens import BaggingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BaggingRegressor(KNeighborsRegressor(), max_features=0.6).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((442,), True)
    """

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        *,
        pred_contribs: bool = False,
        pred_interactions: bool = False,
    ) -> Any:
        """Predict the target: the mean over the members.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        return_std : bool, default=False
            Whether to return the spread of the M members too,
            ``sqrt(sum((member - mean)**2) / M)``.
        pred_contribs, pred_interactions : bool, default=False
            Return Shapley values of the features, or of their pairs, instead (see
            ``gpuens.TreeExplainer``): float64 of shape (n_rows, n_features + 1) or
            (n_rows, n_features + 1, n_features + 1), of several raw outputs
            (n_rows, n_outputs, ...). The last entry is the expected value; the sum is the raw
            prediction.

        Returns
        -------
        float64, shape (n_rows,) or (n_rows, n_outputs), or two of these
            In the array library and on the device of X.
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        if not return_std:
            return self._predict(X, self._shaped)
        total: Any = 0.0
        mean: Any = 0.0  # so far, to sum up squares of small differences (Welford 1962)
        squares: Any = 0.0
        with self._asking(X) as (values, device):
            for n, answer in enumerate(self._answers(self._ask(device), values, device), 1):
                total = total + answer
                difference = answer - mean
                mean = mean + difference / n
                squares = squares + difference * (answer - mean)
            results = total / len(self), (squares / len(self)) ** 0.5
            return tuple(to_input_library(self._shaped(r, device), X) for r in results)

    def _shaped(self, values: Any, device: Device = CPU) -> Any:
        return values if self._shape else values[:, 0]

    def _base_estimator(self) -> Any:
        if self.estimator is None:
            return DecisionTreeRegressor(n_jobs=self.n_jobs, device=self.device)
        return self.estimator

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool, workers: Workers) -> Any:
        target = rows_of_workers(read_outputs(y, n_rows, device, estimator=self), workers)
        if warm and target.shape[1:] != self._shape:
            raise ValueError(
                f"y has shape {tuple(target.shape)}, but warm_start=True continues from members "
                f"that predict (n_rows, {', '.join(map(str, self._shape))}). Set warm_start=False."
            )
        self._shape: tuple[int, ...] = target.shape[1:]
        return target

    def _width(self, target: Any) -> int:
        return 1 if target.ndim == 1 else target.shape[1]

    def _ask(self, device: Device) -> Callable[..., Any]:
        return partial(values_of, device=device)

    def _score_out_of_bag(self, mean: np.ndarray, target: np.ndarray) -> None:
        self.oob_prediction_ = self._shaped(mean)
        metric = self._metric(r2_score)
        self.oob_score_ = out_of_bag_score(metric, target, mean, self._shaped)


def _has_decision_function(bag: BaggingClassifier) -> bool:
    members = getattr(bag, "estimators_", None)
    return hasattr(members[0] if members else bag._base_estimator(), "decision_function")


@documented(
    BAGGING,
    default="this package's ``DecisionTreeClassifier``",
    score="share of correct classes",
    voting="""voting : {"auto", "soft", "hard"}, default="auto"
        "soft" averages the probabilities of the members, "hard" counts their votes, "auto" is
        "soft" where members have ``predict_proba``.
    """,
    attributes="""oob_decision_function_ : float64 ndarray, shape (n_rows, n_classes)
        Mean probabilities (or shares of votes) of the members that did not see the row; NaN
        if all have seen it.
    classes_ : ndarray
        The labels, ascending. Members are fitted on their numbers.
    n_classes_ : int""",
)
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingClassifier(ScoresClasses, ClassifierMixin, Bagging):
    """Classifiers on random samples of the rows and features, averaged or voting.

    Bagging (Breiman 1996), pasting (Breiman 1999: ``bootstrap=False``), random subspaces (Ho
    1998: ``max_features``) and random patches (Louppe and Geurts 2012: both). A sample depends
    on nothing but the seed and the number of the member: it is the same on every device.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import Perceptron
    >>> from gpuens import BaggingClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = BaggingClassifier(Perceptron(), n_estimators=25, oob_score=True).fit(X, y)
    >>> 0.4 < model.oob_score_ < 1
    True
    """

    voting: str = "auto"

    @documented(EXPLAINED, result=LABELS)
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict the class of the highest probability, the first of those that tie.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        return self._predict(X, self._labels)

    @documented(PREDICTED, result=PROBABILITIES)
    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, with hard voting the shares of the votes.

        <shared>
        """
        return self._predict(X, lambda shares, device: shares)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of ``predict_proba``; -inf for 0.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        with np.errstate(divide="ignore"):
            return self._predict(X, lambda shares, device: device.xp.log(shares))

    @available_if(_has_decision_function)
    def decision_function(self, X: Any) -> Any:
        """Return the mean of the members' decision functions.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,) or (n_rows, k), as the members give it

        Raises
        ------
        ValueError
            Samples of the members lack classes, so their decision functions differ in shape.
        """
        check_is_fitted(self)
        ask = partial(decisions, n_classes=self.n_classes_)
        with self._asking(X) as (values, device):
            answers = self._answers(partial(ask, device=device), values, device)
            return to_input_library(sum(answers) / len(self), X)

    def _labels(self, shares: Any, device: Device) -> Any:
        """Return the most probable classes, on the device if labels are numbers."""
        return labels_of(shares.argmax(axis=1), self.classes_, device)

    def _base_estimator(self) -> Any:
        if self.estimator is None:
            return DecisionTreeClassifier(n_jobs=self.n_jobs, device=self.device)
        return self.estimator

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool, workers: Workers) -> Any:
        labels = labels_of_all(read_labels(y, n_rows, device, estimator=self), workers)
        if warm and labels.classes.tolist() != self.classes_.tolist():
            raise ValueError(
                f"y has the classes {labels.classes.tolist()}, but warm_start=True continues from "
                f"members that know {self.classes_.tolist()}. Set warm_start=False."
            )
        self.classes_: np.ndarray = labels.classes
        self.n_classes_ = len(labels.classes)
        return labels.codes

    def _width(self, target: Any) -> int:
        return self.n_classes_

    def _averages_values(self) -> bool:
        return self.voting != "hard"

    def _with_labels(self, model: Any) -> Any:
        if len(model.classes_) != self.n_classes_:
            raise ValueError(
                f"averaged() needs members that know all {self.n_classes_} classes, got "
                f"{len(model.classes_)}: raise max_samples."
            )
        model.classes_ = self.classes_
        return model

    def _ask(self, device: Device) -> Callable[..., Any]:
        return partial(class_shares, n_classes=self.n_classes_, voting=self.voting, device=device)

    def _score_out_of_bag(self, mean: np.ndarray, target: np.ndarray) -> None:
        self.oob_decision_function_ = mean
        self.oob_score_ = out_of_bag_score(
            self._metric(accuracy),
            self.classes_[target],
            mean,
            lambda shares: self.classes_[shares.argmax(axis=1)],
        )
