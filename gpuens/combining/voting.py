"""Votes and averages of models of any kind: ``VotingClassifier`` and ``VotingRegressor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import documented
from ..estimators.scores import ScoresClasses, ScoresValues
from ..inputs.arrays import to_input_library
from ..inputs.labels import read_labels
from ..kernels.runtime.arrays import Array
from ..members.classes import (
    check_classes,
    check_shares,
    codes_among,
    codes_of,
    common_classes,
    labels_of,
)
from ..members.fitting import read_outputs
from ..members.rows import MemberRows
from .voting_base import VOTING, Voting


@documented(VOTING, voting="", score="R² score", loss="squared error", flatten="", attributes="")
@dataclass(kw_only=True, eq=False, repr=False)
class VotingRegressor(ScoresValues, RegressorMixin, Voting):
    """The weighted mean of regressors of any kind.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from gpuens import RandomForestRegressor, VotingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [("ridge", Ridge(alpha=0.1)), ("forest", RandomForestRegressor())]
    >>> model = VotingRegressor(members, weights="optimal").fit(X, y)
    >>> bool(abs(model.weights_.sum() - 1) < 1e-12), model.predict(X[:2]).shape
    (True, (2,))
    """

    _kind = "regressor"

    def predict(self, X: Any) -> Array:
        """Predict the target: the weighted mean over the members.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,) or (n_rows, n_outputs)
            In the array library and on the device of X.
        """
        with self._asking(X) as rows:
            return to_input_library(self._average(rows), X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of ``transform``: the members', numbered by output.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the features of ``fit``; None: those that it saw.
        """
        self._check_input_features(input_features)
        prefix = type(self).__name__.lower()
        outputs = [""] if not self._shape else [str(i) for i in range(self._shape[0])]
        names = [f"{prefix}_{name}{i}" for name in self._member_names for i in outputs]
        return np.asarray(names, dtype=object)

    def _read_y(self, y: Any, n_rows: int, home: Device) -> Array:
        target = read_outputs(y, n_rows, home, estimator=self)
        self._shape: tuple[int, ...] = tuple(target.shape[1:])
        return target

    def _read_more_y(self, y: Any, n_rows: int, home: Device) -> Array:
        target = read_outputs(y, n_rows, home, estimator=self)
        if tuple(target.shape[1:]) != self._shape:
            raise ValueError(
                f"eval_set has a y of shape {tuple(target.shape)}, but the y of fit has the shape "
                f"(n_rows, {', '.join(map(str, self._shape))})."
            )
        return target

    def _strata(self, target: Array) -> np.ndarray | None:
        return None

    def _answer(self, name: str, member: Any, rows: MemberRows) -> Array:
        values = rows.home.asarray(member.predict(rows.table(member)), np.float64)
        shape = (rows.n, *self._shape)
        if tuple(values.shape) not in (shape, (*shape, 1)):
            raise ValueError(
                f"The member {name!r} predicts values of shape {tuple(values.shape)}, but must "
                f"predict {shape}: one for each row and each column of the y of fit."
            )
        return values.reshape(shape)

    def _numbers(self, answer: Array, home: Device) -> Array:
        return answer

    def _loss(self) -> str:
        return "squared_error"


def _votes_soft(vote: VotingClassifier) -> bool:
    if vote.voting == "hard":
        raise AttributeError(
            f"predict_proba is not available when voting={vote.voting!r}. Set voting='soft'."
        )
    return True


@documented(
    VOTING,
    voting="""voting : {"hard", "soft"}, default="hard"
        "hard" counts the members' votes, each with the member's weight; the lowest class wins a
        tie. "soft" averages their probabilities.
    """,
    score="share of correct classes",
    loss='log loss (needs probabilities: ``voting="soft"``)',
    flatten="""flatten_transform : bool, default=True
        Whether ``transform`` puts the probabilities of the members beside each other.
    """,
    attributes="""classes_ : ndarray
        The labels, ascending. Members are fitted on their numbers.
    """,
)
@dataclass(kw_only=True, eq=False, repr=False)
class VotingClassifier(ScoresClasses, ClassifierMixin, Voting):
    """Classifiers of any kind that vote, or whose probabilities are averaged.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from gpuens import RandomForestClassifier, VotingClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> members = [("bayes", GaussianNB()), ("forest", RandomForestClassifier())]
    >>> model = VotingClassifier(members, voting="soft", weights=[1, 2]).fit(X, y)
    >>> model.score(X, y), model.predict_proba(X).shape
    (1.0, (178, 3))
    """

    _kind = "classifier"

    voting: str = "hard"
    flatten_transform: bool = True

    def predict(self, X: Any) -> Array:
        """Predict the class of each row: the one with the most votes or the highest probability.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        array of labels, shape (n_rows,)
            In the array library and on the device of X where labels are numbers. The lowest
            class wins a tie.
        """
        with self._asking(X) as rows:
            codes = self._average(rows).argmax(axis=1)
            return to_input_library(labels_of(codes, self.classes_, rows.home), X)

    @available_if(_votes_soft)
    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes: the weighted mean over the members.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        with self._asking(X) as rows:
            return to_input_library(self._average(rows), X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of ``transform``: the members', numbered by class.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the features of ``fit``; None: those that it saw.
        """
        if self.voting == "soft" and not self.flatten_transform:
            raise ValueError(
                "get_feature_names_out is not supported when `voting='soft'` and "
                "`flatten_transform=False`"
            )
        self._check_input_features(input_features)
        prefix = type(self).__name__.lower()
        soft = self.voting == "soft"
        columns = [str(k) for k in range(len(self.classes_))] if soft else [""]
        names = [f"{prefix}_{name}{k}" for name in self._member_names for k in columns]
        return np.asarray(names, dtype=object)

    @property
    def le_(self) -> LabelEncoder:
        """Labels to their numbers and back."""
        check_is_fitted(self)
        return LabelEncoder().fit(self.classes_)

    def _arranged(self, tensor: Array) -> Array:
        if tensor.ndim == 3 and not self.flatten_transform:
            return tensor.transpose(1, 0, 2)
        return super()._arranged(tensor)

    def _read_y(self, y: Any, n_rows: int, home: Device) -> Array:
        shape = tuple(getattr(y, "shape", ()))
        if len(shape) > 1 and shape[-1] > 1:
            raise NotImplementedError(
                f"{type(self).__name__} learns one label a row, got a y of shape {shape}: "
                "several labels or outputs are not supported. Fit one model for each column."
            )
        known = common_classes(self._kept()) if self.prefit else None
        if known is not None:
            self.classes_: np.ndarray = known
            return codes_among(y, n_rows, known, home, estimator=self, name="y")
        labels = read_labels(y, n_rows, home, estimator=self)
        self.classes_ = labels.classes
        return labels.codes

    def _read_more_y(self, y: Any, n_rows: int, home: Device) -> Array:
        return codes_among(y, n_rows, self.classes_, home, estimator=self, name="eval_set's y")

    def _strata(self, target: Array) -> np.ndarray | None:
        return to_numpy(target)

    def _check_member(self, name: str, member: Any) -> None:
        check_classes(name, member, self.classes_)

    def _answer(self, name: str, member: Any, rows: MemberRows) -> Array:
        home, table = rows.home, rows.table(member)
        if self.voting == "hard":
            return codes_of(member.predict(table), member, self.classes_, home, self.prefit)
        shares = home.asarray(member.predict_proba(table), np.float64)
        check_shares(name, shares, rows.n, len(self.classes_))
        return shares

    def _numbers(self, answer: Array, home: Device) -> Array:
        if answer.ndim == 2:
            return answer
        return (answer[:, None] == home.xp.arange(len(self.classes_))).astype(np.float64)

    def _loss(self) -> str:
        return "zero_one" if self.voting == "hard" else "log_loss"
