"""``AdaBoostClassifier`` and ``AdaBoostRegressor``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device
from ..estimators.docstrings import LABELS, PREDICTED, PROBABILITIES, VALUES, documented
from ..estimators.parameters import threads_of
from ..estimators.scores import ScoresClasses, ScoresValues
from ..forest.sum_of_trees import Link, SumOfTrees
from ..inputs.arrays import to_input_library
from ..inputs.labels import read_labels
from ..inputs.targets import read_target
from ..kernels.prediction.probabilities import probabilities
from ..kernels.runtime.arrays import Array
from ..members.classes import labels_of
from ..trees.trees import DecisionTreeClassifier, DecisionTreeRegressor
from .base import ADABOOST, AdaBoost, check_classifier, check_regressor
from .learners import class_numbers, numbers_of
from .rounds import R2, Samme

_OF_CLASSES = {
    "base": """The learner of each round, fitted to all rows with their weights: a classifier whose
        ``fit`` takes ``sample_weight``. None is ``DecisionTreeClassifier(max_depth=1)`` of this
        package, a stump.""",
    "loss": "",
    "estimator_weights": """The weights of the learners. Two classes:
        ``alpha = learning_rate / 2 * ln((1 - e) / e)``, half of scikit-learn's. K classes:
        ``learning_rate * (ln((1 - e) / e) + ln(K - 1))``, as in scikit-learn. A learner without
        error has 1/2, or 1 for K classes.""",
    "estimator_errors": "e, the weighted share of the rows that the learner is wrong about.",
    "forest": """Its leaves hold
        the weighted votes, so that its raw predictions, divided by the sum of the weights, are the
        decision function (half of it for two classes).""",
    "attributes": """classes_ : ndarray
        The labels, ascending.
    n_classes_ : int""",
}


@documented(ADABOOST, **_OF_CLASSES)
@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostClassifier(ScoresClasses, ClassifierMixin, AdaBoost):
    """AdaBoost for classification: learners that vote, each trained on rows weighted by the
    errors of those before.

    AdaBoost.M1 (Freund and Schapire 1997) for two classes, SAMME (Zhu et al. 2009) for more. A
    learner with error e divides the weight of what it gets right by the weight of what it gets
    wrong, ``(1 - e) / e`` (times K - 1 for K classes): wrong rows have their weights multiplied by
    that, to the power of ``learning_rate``, and all are then made to sum up to one. Boosting ends
    with a learner without error, and before one whose error is not below that of guessing,
    1 - 1/K; if that is the first one, ``fit`` raises a ValueError. No row's weight falls below
    2**-52; learners get the weights rounded to multiples of 2**-35, at least one of them.

    The same data and seed give the same model, bit for bit, on the CPU with any number of threads
    and on a GPU, where the learners do.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_estimators=100).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _default_base = staticmethod(functools.partial(DecisionTreeClassifier, max_depth=1))

    @documented(PREDICTED, result=LABELS)
    def predict(self, X: Any) -> Any:
        """Predict the class with the largest sum of weighted votes, the first of those that tie.

        <shared>
        """
        return self._vote(X, self._labels)

    def decision_function(self, X: Any) -> Any:
        """Return the sum of the weighted votes divided by that of the weights, as scikit-learn
        scales it.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,) for two classes, else (n_rows, n_classes)
            Two classes: from -2 to 2, twice the mean of the votes -1 and 1. More: a vote is 1
            for its class and -1 / (K - 1) for the others.
        """
        return self._vote(X, self._decide)

    @documented(PREDICTED, result=PROBABILITIES)
    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities: the softmax of the decision function divided by K - 1 (Zhu et al.
        2009, eq. 15), as scikit-learn scales it; with one learner they are not 0 and 1.

        <shared>
        """
        return self._vote(X, self._probabilities)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of ``predict_proba``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        return self._vote(X, lambda *votes: votes[-1].xp.log(self._probabilities(*votes)))

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield classes after every round, as from ``predict``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        return self._staged(X, self._labels)

    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """Yield decision functions after every round, as from ``decision_function``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        return self._staged(X, self._decide)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Yield probabilities after every round, as from ``predict_proba``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        return self._staged(X, self._probabilities)

    def _vote(self, X: Any, finish: Callable[[Array, float, Device], Any]) -> Any:
        """Return ``finish(votes, sum of the weights, device)`` in the array library of X."""
        with self._asking(X) as (values, device):
            if hasattr(self, "forest_"):
                votes = self.forest_.raw_predict(values, device)
            else:
                votes = self._no_votes(values, device)
                for t in range(len(self)):
                    self._add_votes(votes, t, values, device)
            return to_input_library(finish(votes, self._running_weights()[-1], device), X)

    def _staged(self, X: Any, finish: Callable[[Array, float, Device], Any]) -> Iterator[Any]:
        """Yield the result of ``_vote`` after every round."""
        with self._asking(X) as (values, device):
            votes = self._no_votes(values, device)
        for t, weight in enumerate(self._running_weights()):
            with self._working_on(device):  # not around the yield: it is the caller's time
                self._add_votes(votes, t, values, device)
                result = to_input_library(finish(votes, weight, device), X)
            yield result

    def _sum_of_trees(self) -> SumOfTrees:
        check_is_fitted(self)
        if not hasattr(self, "forest_"):
            return super()._sum_of_trees()
        weight = self._running_weights()[-1]
        link = Link("logistic", 2.0 / weight)
        if self.n_classes_ > 2:
            link = Link("softmax", 1.0 / weight / (self.n_classes_ - 1))
        return SumOfTrees(
            forest=self.forest_,
            base=self.forest_.base,
            scale=1.0,
            n_averaged=1,
            link=link,
            unlinked="",
            response=None,
            share_is_cover=True,
            categories=() if self._categories is None else self._categories.values,
            read=self._rows_of,
            n_threads=threads_of(self.n_jobs),
        )

    def _running_weights(self) -> list[float]:
        """Return the weight of the first learner, the sum of the first two, and so on."""
        return np.cumsum(self.estimator_weights_).tolist()

    def _no_votes(self, values: Any, device: Device) -> Array:
        """Return zeros, float64, of shape (n_classes, n_rows), or (1, n_rows) for two classes."""
        shape = self.n_classes_ if self.n_classes_ > 2 else 1, values.shape[0]
        return device.xp.zeros(shape, dtype=device.xp.float64)

    def _add_votes(self, votes: Array, t: int, values: Any, device: Device) -> None:
        """Add the votes of learner t, in place: the numbers that leaves of a forest hold."""
        if hasattr(self, "forest_"):
            self.forest_.slice(t, t + 1).add_to(votes, values, device)
            return
        xp, weight = device.xp, float(self.estimator_weights_[t])
        codes = class_numbers(self._members[t], values, self.classes_, device)
        if self.n_classes_ <= 2:
            votes[0] += xp.where(codes == 1, weight, -weight)
            return
        is_for = codes == xp.arange(self.n_classes_)[:, None]
        votes += xp.where(is_for, weight, -weight / (self.n_classes_ - 1))

    def _labels(self, votes: Array, weight: float, device: Device) -> Any:
        if len(votes) > 1:
            return labels_of(votes.argmax(axis=0), self.classes_, device)
        return labels_of((votes[0] > 0).astype(np.int64), self.classes_, device)

    def _decide(self, votes: Array, weight: float, device: Device) -> Any:
        if self.n_classes_ == 1:
            return device.xp.zeros((votes.shape[1], 1))
        return 2.0 * votes[0] / weight if len(votes) == 1 else (votes / weight).T

    def _probabilities(self, votes: Array, weight: float, device: Device) -> Any:
        if self.n_classes_ == 1:
            return device.xp.ones((votes.shape[1], 1))
        if len(votes) == 1:
            return probabilities(2.0 * votes / weight)
        return probabilities(votes / weight / (self.n_classes_ - 1))

    def _check_base(self, base: Any) -> None:
        check_classifier(base)

    def _describe_member(self, member: Any) -> None:
        member.classes_, member.n_classes_ = self.classes_, self.n_classes_

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Array:
        labels = read_labels(y, n_rows, device, estimator=self)
        if warm and labels.classes.tolist() != self.classes_.tolist():
            raise ValueError(
                f"y has the classes {labels.classes.tolist()}, but warm_start=True goes on from "
                f"learners that know {self.classes_.tolist()}. Set warm_start=False."
            )
        self.classes_: np.ndarray = labels.classes
        self.n_classes_ = len(labels.classes)
        return labels.codes

    def _rule(self, target: Array, device: Device) -> Samme:
        return Samme(target, self.n_classes_, float(self.learning_rate))


_OF_NUMBERS = {
    "base": """The learner of each round, a regressor. It gets a sample of the rows, drawn by
        weight with replacement; as ``sample_weight`` where its ``fit`` takes that, else as rows.
        None is ``DecisionTreeRegressor(max_depth=3)`` of this package.""",
    "loss": """loss : {"linear", "square", "exponential"}, default="linear"
        The loss of a row, from 0 to 1, with r its absolute error divided by the largest: r, r**2 or
        1 - exp(-r).
    """,
    "estimator_weights": "Of the learners: ``learning_rate * ln((1 - e) / e)``; 1 without error.",
    "estimator_errors": "e, the weighted mean of the loss over all rows.",
    "forest": """Its leaves hold
        the predictions of the trees; the model is their median, not their sum.""",
    "attributes": "",
}


@documented(ADABOOST, **_OF_NUMBERS)
@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostRegressor(ScoresValues, RegressorMixin, AdaBoost):
    """AdaBoost.R2 for regression (Drucker 1997): the weighted median of learners, each trained on
    rows drawn by the errors of those before.

    A learner whose mean loss is e has beta = e / (1 - e); the weight of a row with loss L is
    multiplied by ``beta ** ((1 - L) * learning_rate)``, and all are then made to sum up to one.
    Boosting ends with a learner without loss, and before one whose mean loss is not below 1/2; if
    that is the first one, it is the model. No row's weight falls below 2**-52. A sample has as many
    draws as there are rows of positive weight.

    The same data and seed give the same model, bit for bit, on the CPU with any number of threads
    and on a GPU, where the learners do.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import AdaBoostRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AdaBoostRegressor(loss="square").fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    _default_base = staticmethod(functools.partial(DecisionTreeRegressor, max_depth=3))

    loss: str = "linear"

    @documented(PREDICTED, result=VALUES)
    def predict(self, X: Any) -> Any:
        """Predict the weighted median of the learners: the smallest prediction with half of the
        weight at or below it.

        <shared>
        """
        with self._asking(X) as (values, device):
            predicted = self._predictions(values, device)
            return to_input_library(weighted_median(predicted, self.estimator_weights_, device), X)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield predictions after every round, as from ``predict``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        with self._asking(X) as (values, device):
            predicted = self._predictions(values, device)
        for n in range(1, len(self) + 1):
            with self._working_on(device):  # not around the yield: it is the caller's time
                median = weighted_median(predicted[:, :n], self.estimator_weights_[:n], device)
                result = to_input_library(median, X)
            yield result

    def _predictions(self, values: Any, device: Device) -> Array:
        """Return the predictions of every learner: float64, shape (n_rows, n_rounds)."""
        if hasattr(self, "forest_"):
            return self.forest_.tree_predict(values, device)
        columns = [numbers_of(member, values, device) for member in self._members]
        return device.xp.stack(columns, axis=1)

    def _check_base(self, base: Any) -> None:
        check_regressor(base)

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Array:
        return read_target(y, n_rows, device, estimator=self)

    def _rule(self, target: Array, device: Device) -> R2:
        return R2(target, self.loss, float(self.learning_rate), device)


CELLS_AT_ONCE = 2**22
"""Predictions that are sorted together, which bounds the memory."""
WEIGHT_BITS = 40


def weighted_median(predicted: Array, weights: np.ndarray, device: Device) -> Array:
    """Return the smallest prediction of each row, of (n_rows, n_learners), with half of the weight
    at or below it. Weights are rounded to 40 bits of the largest, so that their sums are sums of
    integers: the same on every device."""
    xp = device.xp
    n_rows, n_learners = predicted.shape
    exponent = WEIGHT_BITS - math.frexp(float(weights.max()))[1]
    whole = device.asarray(np.rint(np.ldexp(weights, exponent)).astype(np.int64))
    total = int(whole.sum())
    median = xp.empty(n_rows, dtype=xp.float64)
    step = max(1, CELLS_AT_ONCE // n_learners)
    for first in range(0, n_rows, step):
        part = predicted[first : first + step]
        order = xp.argsort(part, axis=1, stable=False)
        reaches = 2 * xp.cumulative_sum(whole[order], axis=1) >= total
        at = xp.take_along_axis(order, reaches.argmax(axis=1)[:, None], axis=1)
        median[first : first + step] = xp.take_along_axis(part, at, axis=1)[:, 0]
    return median
