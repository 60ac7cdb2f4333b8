"""The base class of AdaBoost and stagewise modelling."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device
from .base import OnDevice, Savable, kept_on_failure


class SequentialEnsemble(Savable, OnDevice, MetaEstimatorMixin, BaseEstimator):
    """An ensemble whose members are trained one after the other, each with a weight.

    It is fitted once it has ``estimator_weights_``, one for each of ``estimators_``.
    """

    callbacks: Any
    n_estimators: int
    warm_start: bool
    estimators_: list[Any]
    estimator_weights_: np.ndarray

    def _train(self, device: Device, *data: Any) -> Any:
        """Call ``_fit`` on a device; an error leaves the estimator as it was, one of a callback
        is raised once the finished rounds are kept."""
        with kept_on_failure(self), self._working_on(device):
            error = self._fit(*data, device)
        if error is not None:
            raise error
        return self

    @abstractmethod
    def _fit(self, *data: Any) -> Exception | None:
        """Train, and return the error of a callback."""

    @abstractmethod
    def _finish(self, *result: Any) -> Any:
        """Set the fitted attributes, and return the estimator."""

    def _snapshot(self, *result: Any) -> Any:
        """Return a fitted copy with the rounds so far, without the callbacks, for checkpoints."""
        model = copy.copy(self)
        model.callbacks = None
        return model._finish(*result)

    def _goes_on_from(self, n_rounds: int) -> bool:
        """Return whether a warm start continues from the given number of rounds.

        Raises
        ------
        ValueError
            ``n_estimators`` is lower.
        """
        if not self.warm_start or n_rounds == 0:
            return False
        if self.n_estimators < n_rounds:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the {n_rounds} "
                "rounds of the model that warm_start=True continues. Raise it, or set "
                "warm_start=False to start again."
            )
        return True

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean of the members' importances by the sizes of their weights, float64 of shape
        (n_features,); an AttributeError if a member has none."""
        check_is_fitted(self)
        importances, weights = self._importances_of_members(), abs(self._factors())
        return (weights[:, None] * importances).sum(axis=0) / (weights.sum() or 1.0)

    def _importances_of_members(self) -> np.ndarray:
        for member in self.estimators_:
            if not hasattr(member, "feature_importances_"):
                raise AttributeError(
                    "Unable to compute feature importances since estimator does not have a "
                    f"feature_importances_ attribute: {member!r}."
                )
        return np.array([member.feature_importances_ for member in self.estimators_])

    def _factors(self) -> np.ndarray:
        """Return the factors of the members in the model, float64 of shape (n_members,)."""
        return self.estimator_weights_

    def __len__(self) -> int:
        check_is_fitted(self)
        return self.estimator_weights_.size

    def __getitem__(self, index: int) -> Any:
        return self.estimators_[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_weights_")
