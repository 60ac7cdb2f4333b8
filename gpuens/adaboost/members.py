"""Learners of AdaBoost of any kind: clones of an estimator, fitted one after the other."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..devices.placement import Device, to_numpy
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_TREE
from ..members.fitting import input_tags, read_features
from ..numerics.sampling import weighted_counts
from .weights import RowWeights

SEED_BITS = np.uint64(0x7FFFFFFF)
_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)


def member_seeds(seed: int, t: int, n: int) -> list[int]:
    """Seeds for the n parameters of learner t that take one, below 2**31."""
    key = np.uint64(_subkey(np.uint64(seed), PURPOSE_TREE, np.uint64(t)))
    return [int(_draw(key, np.uint64(k)) & SEED_BITS) for k in range(n)]


def new_member(base: Any, seed: int, t: int) -> Any:
    """Learner t, not fitted: a clone with seeds of its own."""
    member = clone(base)
    names = [
        name
        for name in sorted(member.get_params(deep=True))
        if name == "random_state" or name.endswith("__random_state")
    ]
    return member.set_params(**dict(zip(names, member_seeds(seed, t, len(names)), strict=True)))


def bootstrap_weights(rows: RowWeights, seed: int, t: int) -> np.ndarray:
    """How often each row is in the sample of learner t.

    As many rows are drawn as have a positive weight, with chances by weight.

    Returns
    -------
    float64, shape (n_rows,), NumPy
    """
    counts = weighted_counts(to_numpy(rows.values), rows.n_used, seed, t)
    return counts.astype(np.float64)


def read_any(X: Any, device: Device, *, estimator: Any, base: Any, reset: bool) -> Any:
    """The features as the learners get them, with values of any type and of any number of
    dimensions from two."""
    return read_features(
        X, device, estimator=estimator, reset=reset, sparse=input_tags(base).sparse, allow_nd=True
    )


def labels_of(codes: Any, classes: np.ndarray, device: Device) -> Any:
    """The labels of class numbers; on the device where they are numbers."""
    if classes.dtype.kind in "biuf":
        return device.asarray(classes)[codes]
    return classes[to_numpy(codes)]


def class_numbers(member: Any, X: Any, classes: np.ndarray, device: Device) -> Any:
    """The classes that a learner predicts, by their numbers.

    Returns
    -------
    int64, shape (n_rows,), on the device
        -1 for a label that is not among the classes.
    """
    predicted, xp = member.predict(X), device.xp
    if classes.dtype.kind in "biuf":
        predicted, known = device.asarray(predicted), device.asarray(classes)
    else:
        predicted, known, xp = np.asarray(to_numpy(predicted), classes.dtype), classes, np
    codes = xp.minimum(xp.searchsorted(known, predicted), len(classes) - 1)
    return device.asarray(xp.where(known[codes] == predicted, codes, -1))


class AnyLearners:
    """Clones of an estimator.

    Parameters
    ----------
    estimator : estimator
        The ensemble, which learns the features of X.
    base : estimator
    X : array, sparse matrix or data frame, shape (n_rows, n_features)
    device : Device
    before : list of estimators or None
        Those of the rounds before.
    """

    def __init__(
        self, estimator: Any, base: Any, X: Any, device: Device, before: list[Any] | None
    ) -> None:
        self.values = read_any(X, device, estimator=estimator, base=base, reset=before is None)
        self.n_rows = self.values.shape[0]
        self._estimator, self._base, self._device = estimator, base, device
        self.members: list[Any] = [] if before is None else list(before)

    def start(self, y: Any, rows: RowWeights) -> None:
        """Take the target: int64 class numbers, or float64 numbers."""
        self._y = y

    def fit(self, t: int, rows: RowWeights) -> Any:
        """Fit learner t; what it predicts for the training rows, shape (n_rows,)."""
        member = new_member(self._base, self._estimator._seed, t)
        self._fit_member(member, t, rows)
        self.members.append(member)
        return self.predictions(t)

    def keep(self, n: int) -> None:
        """Forget all but the first n learners."""
        del self.members[n:]

    def forest(self, weights: np.ndarray) -> Any:
        """There is none."""
        raise AttributeError(f"The learners are copies of {self._base!r}: they make no forest.")

    def set_on(self, estimator: Any, weights: np.ndarray) -> None:
        """Give an ensemble its learners."""
        estimator._members = self.members[: weights.size]

    @abstractmethod
    def predictions(self, t: int) -> Any:
        """What learner t predicts for the training rows, shape (n_rows,)."""

    @abstractmethod
    def _fit_member(self, member: Any, t: int, rows: RowWeights) -> None:
        """Fit learner t."""


class AnyClassifiers(AnyLearners):
    """Classifiers that are fitted to all rows with their weights; they know the labels."""

    def start(self, y: Any, rows: RowWeights) -> None:
        self._y = labels_of(y, self._estimator.classes_, self._device)

    def predictions(self, t: int) -> Any:
        return class_numbers(self.members[t], self.values, self._estimator.classes_, self._device)

    def _fit_member(self, member: Any, t: int, rows: RowWeights) -> None:
        member.fit(self.values, self._y, sample_weight=rows.on_grid())


class AnyRegressors(AnyLearners):
    """Regressors that are fitted to samples drawn by weight.

    A sample is a weight for each row where the regressor takes them, which copies nothing.
    """

    def predictions(self, t: int) -> Any:
        return numbers_of(self.members[t], self.values, self._device)

    def _fit_member(self, member: Any, t: int, rows: RowWeights) -> None:
        counts = bootstrap_weights(rows, self._estimator._seed, t)
        if has_fit_parameter(member, "sample_weight"):
            member.fit(self.values, self._y, sample_weight=self._device.asarray(counts))
            return
        drawn = np.repeat(np.arange(self.n_rows), counts.astype(np.int64))
        at = drawn if issparse(self.values) else self._device.asarray(drawn)
        member.fit(self.values[at], self._y[self._device.asarray(drawn)])


def numbers_of(member: Any, X: Any, device: Device) -> Any:
    """What a regressor predicts: float64, shape (n_rows,), on the device."""
    return device.asarray(member.predict(X), np.float64).reshape(X.shape[0])
