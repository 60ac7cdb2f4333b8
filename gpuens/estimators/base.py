"""The base of estimators that predict with a ``Forest``, and the method ``save`` of all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, report_choice
from ..devices.policy import Work, prediction_work, size_of
from ..forest.forest import Forest
from ..inputs.arrays import resolve_device, to_input_library
from ..inputs.categories import read_features
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.cpu.team import using_threads
from .parameters import threads_of


class Savable:
    """Gives an estimator its method ``save``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to a file that ``gpuens.load`` reads (see ``gpuens.saving.save``).

        Parameters
        ----------
        path : str or path
            Replaced if it exists, once the new file is complete.
        """
        import gpuens  # saving knows every class, training needs few

        gpuens.save(self, path)


class OnDevice:
    """Lets an estimator work where its parameters ``device`` and ``n_jobs`` say."""

    device: str
    n_jobs: int | None

    @contextmanager
    def _working_on(self, device: Device) -> Iterator[None]:
        with using_threads(threads_of(self.n_jobs)), device.active():
            yield

    def _report_choice(self, device: Device) -> None:
        """Print where ``fit`` runs, and why, if the estimator is verbose."""
        if getattr(self, "verbose", False):
            report_choice(device)


class ForestEstimator(Savable, OnDevice, BaseEstimator):
    """An estimator that is fitted once it has a ``forest_``."""

    forest_: Forest

    def _prediction_work(self, X: Any) -> Work:
        return prediction_work(size_of(X), self.forest_.n_trees)

    def _device_to_predict(self, X: Any, **others: Any) -> Device:
        """Return where rows go through the trees, see ``resolve_device``."""
        return resolve_device(self.device, X, work=self._prediction_work(X), **others)

    def _predict(self, X: Any, finish: Callable[[Array, Device], Array]) -> Any:
        """``finish(raw, device)`` of the raw predictions (n_outputs, n_rows), in the array
        library of X."""
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            table = read_features(X, device, estimator=self, reset=False).values
            return to_input_library(finish(self.forest_.raw_predict(table, device), device), X)

    def _staged(self, X: Any, finish: Callable[[Any, Device], Any]) -> Iterator[Any]:
        """Yield the result of ``_predict`` after every round; ``finish`` returns new arrays."""
        check_is_fitted(self)
        device = self._device_to_predict(X)
        forest, n_outputs = self.forest_, self.forest_.n_outputs
        with self._working_on(device):
            table = read_features(X, device, estimator=self, reset=False).values
            raw = forest.slice(0, 0).raw_predict(table, device)
        for first in range(0, forest.n_trees, n_outputs):
            with self._working_on(device):  # not around the yield: it is the caller's time
                forest.slice(first, first + n_outputs).add_to(raw, table, device)
                result = to_input_library(finish(raw, device), X)
            yield result

    def apply(self, X: Any) -> Array:
        """Return the leaf that each row ends in.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        int32, shape (n_rows, n_trees)
            Node numbers counted from the root of each tree; the trees of one round stand
            beside each other, one for each output.
        """
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            table = read_features(X, device, estimator=self, reset=False).values
            return to_input_library(self.forest_.apply(table, device), X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
