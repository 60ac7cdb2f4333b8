"""The first boosting algorithm: three learners and a majority vote."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device, to_numpy
from ..estimators.base import Savable, kept_on_failure
from ..estimators.docstrings import FITTED, LABELS, PREDICTED, documented
from ..estimators.nothing_learned import of_ensemble, warn_if_members_have_no_split
from ..estimators.parameters import check_learner, seed_of
from ..estimators.scores import ScoresClasses
from ..inputs.arrays import to_input_library
from ..inputs.labels import read_labels
from ..members.classes import labels_of
from ..members.fitting import (
    device_for,
    input_tags,
    prediction_work_of,
    take,
    training_work,
    whole,
)
from ..numerics.sampling import subset
from ..trees.on_host import growth_on_host
from ..trees.trees import DecisionTreeClassifier
from .base import check_not_regressor
from .learners import class_numbers, new_member, read_any

MOST_DRAWS = 100
"""Random sets for the first learner, one of which must hold both classes."""
FIRST, PARTS, RIGHT = range(3)
"""Purposes of draws; each has numbers of its own."""


@dataclass(kw_only=True, eq=False, repr=False)
class ThreeLearnerBoostingClassifier(
    ScoresClasses, ClassifierMixin, Savable, MetaEstimatorMixin, BaseEstimator
):
    """Boosting by three learners (Schapire 1990), for two classes.

    The rows are split at random. The first learner is trained on ``max_samples`` of them. One
    half of the others is shown to it, and the second learner is trained on the rows that it gets
    wrong and as many of those that it gets right (or the reverse, where these are fewer). The
    third learner is trained on the rows of the other half about which the first two disagree.
    The majority decides. Each learner sees rows that no learner before it was trained on, as the
    proof requires: three learners of error e then have the error 3 e**2 - 2 e**3.

    The model is the first learner alone, and a UserWarning says so, where it makes no error (or
    nothing but errors) on its half of the others, so that the second has nothing to learn; where
    the rows of the second learner are of one class; and where the first two disagree about no
    rows, or about rows of one class only.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Anything with ``fit`` and ``predict``. None is this package's
        ``DecisionTreeClassifier(max_depth=1)``, a stump.
    max_samples : int or float, default=1/3
        Rows of the first learner, drawn without replacement: a number, or a share.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, and of the ``random_state`` of each learner. None is a fixed seed: the
        same call gives the same model.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where the learners get their arrays. "auto" leaves them where they are for estimators of
        this package, cuML and XGBoost, and copies them to the host for all others. Host arrays
        go to a usable GPU if the learners are of this package and it would be faster.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.

    Attributes
    ----------
    estimator_ : estimator
        The estimator that was cloned.
    estimators_ : list of estimators
        Three learners, or one.
    estimators_samples_ : list of int64 ndarrays
        The rows that each was trained on, ascending.
    classes_ : ndarray, shape (2,)
        The labels, ascending.
    n_classes_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.

    References
    ----------
    Schapire, "The strength of weak learnability", Machine Learning 5, 1990.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import ThreeLearnerBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ThreeLearnerBoostingClassifier().fit(X, y)
    >>> len(model.estimators_), model.score(X, y) > 0.85
    (3, True)
    """

    estimator: Any = field(default=None, kw_only=False)
    max_samples: int | float = 1 / 3
    random_state: Any = None
    device: str = "auto"

    @documented(FITTED, ends="")
    def fit(self, X: Any, y: Any) -> Any:
        """Train the learners.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            The learners validate its values themselves.
        y : array, shape (n_rows,)
            Two classes.

        <shared>
        """
        base = self._base_estimator()
        check_learner(base)
        check_not_regressor(base, "BaggingRegressor")
        work = training_work(base, X, y, 3)
        device = device_for(base, self.device, X, work=work, y=y)
        with growth_on_host(device, base), kept_on_failure(self), device.active():
            return self._fit(X, y, base, device)

    def _fit(self, X: Any, y: Any, base: Any, device: Device) -> Any:
        values = read_any(X, device, estimator=self, base=base, reset=True)
        codes = self._read_y(y, values.shape[0], device)
        self.estimator_ = base
        self._seed = seed_of(self.random_state)
        self._n_draws = self._rows_to_draw(len(codes))
        self.estimators_: list[Any] = []
        self.estimators_samples_: list[np.ndarray] = []
        problem = self._train(values, codes, device)
        warn_if_members_have_no_split(base, self.estimators_, values, codes, self._n_draws)
        if problem:
            del self.estimators_[1:], self.estimators_samples_[1:]
            warnings.warn(f"{problem}: the model is the first learner alone.", stacklevel=3)
        return self

    def _train(self, values: Any, codes: np.ndarray, device: Device) -> str:
        """Train as many learners as there are rows for, and return why there are not three."""
        first, second, third = self._parts(codes)
        self._add(values, codes, first, device)
        wrong = self._ask(0, values, second, device) != codes[second]
        n = min(int(wrong.sum()), int((~wrong).sum()))
        if n == 0:
            kind = "no errors" if not wrong.any() else "nothing but errors"
            return f"The first learner makes {kind} on {second.size} further rows"
        rows = [some[self._draw(some.size, n, RIGHT)] for some in (second[wrong], second[~wrong])]
        second = np.sort(np.concatenate(rows))
        if _is_one_class(codes[second]):
            return f"The {second.size} rows for the second learner are of one class"
        self._add(values, codes, second, device)
        answers = [self._ask(k, values, third, device) for k in range(2)]
        third = third[answers[0] != answers[1]]
        if _is_one_class(codes[third]):
            return (
                f"The first two learners disagree about {third.size} of the further rows, which is "
                "too few, or rows of one class"
            )
        self._add(values, codes, third, device)
        return ""

    def _parts(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw the rows of the first learner, and those that the others choose from."""
        n = codes.size
        for attempt in range(MOST_DRAWS):
            first = self._draw(n, self._n_draws, FIRST, attempt)
            if not _is_one_class(codes[first]):
                break
        else:
            raise ValueError(
                f"max_samples={self.max_samples} draws {self._n_draws} of {n} rows, and "
                f"{MOST_DRAWS} times they were of one class: {np.bincount(codes).min()} rows are "
                "of the rarer one. Raise max_samples."
            )
        others = np.delete(np.arange(n), first)
        chosen = self._draw(others.size, others.size // 2, PARTS)
        return first, others[chosen], np.delete(others, chosen)

    def _draw(self, n: int, n_draws: int, what: int, attempt: int = 0) -> np.ndarray:
        """Draw some of n positions, ascending."""
        return subset(n, n_draws, self._seed, MOST_DRAWS * what + attempt, CPU)

    def _rows_to_draw(self, n: int) -> int:
        """Return the number of rows of the first learner, which leave two for the others."""
        share = self.max_samples
        is_bool = isinstance(share, (bool, np.bool_))
        if isinstance(share, Integral) and not is_bool and share >= 1:
            n_draws = int(share)
        elif isinstance(share, Real) and not isinstance(share, Integral) and 0 < float(share) < 1:
            n_draws = max(2, round(float(share) * n))
        else:
            raise ValueError(
                f"max_samples must be an integer >= 1 or a float in (0, 1), got {share!r}."
            )
        if n_draws > n - 2:
            raise ValueError(
                f"max_samples={share} gives {n_draws} of n_samples={n} rows to the first learner, "
                "but two must be left for the others. Lower it, or pass more rows."
            )
        return n_draws

    def _add(self, values: Any, codes: np.ndarray, rows: np.ndarray, device: Device) -> None:
        """Train the next learner."""
        member = new_member(self.estimator_, self._seed, len(self.estimators_))
        with of_ensemble():
            part = take(values, rows, device)
            member.fit(part, self._labels(codes[rows], device))
        self.estimators_.append(whole(member))
        self.estimators_samples_.append(rows)

    def _ask(self, k: int, values: Any, rows: np.ndarray, device: Device) -> np.ndarray:
        """Return the class numbers that learner k predicts for some rows."""
        part = take(values, rows, device)
        return to_numpy(class_numbers(self.estimators_[k], part, self.classes_, device))

    @documented(PREDICTED, result=LABELS)
    def predict(self, X: Any) -> Any:
        """Predict the class that most learners predict.

        <shared>
        """
        return self._vote(
            X, lambda votes, device: labels_of((votes > 0).astype(np.int64), self.classes_, device)
        )

    def decision_function(self, X: Any) -> Any:
        """Return the mean of the learners' votes.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,)
            From -1 (all are for the first class) to 1.
        """
        return self._vote(X, lambda votes, device: votes / len(self))

    def _vote(self, X: Any, finish: Callable[[Any, Device], Any]) -> Any:
        """Return ``finish(votes for the second class minus those for the first, device)`` in the
        array library of X."""
        check_is_fitted(self)
        work = prediction_work_of(self.estimators_, X)
        device = device_for(self.estimator_, self.device, X, work=work)
        with device.active():
            values = read_any(X, device, estimator=self, base=self.estimator_, reset=False)
            votes = sum(
                device.xp.where(class_numbers(member, values, self.classes_, device) == 1, 1, -1)
                for member in self.estimators_
            )
            return to_input_library(finish(votes, device), X)

    def _base_estimator(self) -> Any:
        if self.estimator is None:
            return DecisionTreeClassifier(max_depth=1, device=self.device)
        return self.estimator

    def _read_y(self, y: Any, n_rows: int, device: Device) -> np.ndarray:
        labels = read_labels(y, n_rows, device, estimator=self, min_classes=2)
        if len(labels.classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: y "
                f"has {len(labels.classes)} classes. Use AdaBoostClassifier, or wrap this one in "
                "sklearn.multiclass.OneVsRestClassifier."
            )
        self.classes_: np.ndarray = labels.classes
        self.n_classes_ = 2
        return to_numpy(labels.codes)

    def _labels(self, codes: np.ndarray, device: Device) -> Any:
        return labels_of(device.asarray(codes), self.classes_, device)

    def __len__(self) -> int:
        check_is_fitted(self)
        return len(self.estimators_)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_learners = input_tags(self._base_estimator())
        tags.input_tags.sparse = of_learners.sparse
        tags.input_tags.allow_nan = of_learners.allow_nan
        tags.classifier_tags.multi_class = False
        tags.array_api_support = True
        return tags


def _is_one_class(codes: np.ndarray) -> bool:
    """Return whether some rows do not hold two classes."""
    return codes.size == 0 or bool((codes == codes[0]).all())
