"""The base of estimators for tables in partitions: training on workers, predicting by parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import dask
import distributed
import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import PAGE
from ..estimators.docstrings import documented
from ..estimators.parameters import seed_of
from .collections import is_collection
from .running import Training

Kind = TypeVar("Kind", bound=type)

OF_CLUSTER = """Parameters
    ----------
    client : distributed.Client, default=None
        None: the one that was created last.
    max_restarts : int, default=3
        How often training goes on with other workers after some were lost.
    heartbeat : float, default=10
        Seconds of silence, at least 1, after which a worker is lost. One whose process ends is
        lost at once.
    **parameters
        Those of ``gpuens.<name>``."""
"""The parameters of an estimator on a cluster, in docstrings."""


def _local_has(method: str) -> Callable[[Any], bool]:
    """Return the condition that the estimator of ``gpuens`` has a method."""
    return lambda estimator: hasattr(estimator._local, method)


@dataclass(kw_only=True, eq=False, repr=False)
class OnCluster:
    """The common part of these estimators: training on workers, and predicting by parts."""

    client: Any = None
    max_restarts: int = 3
    heartbeat: float = 10.0

    _doc_link_template = PAGE.replace("gpuens.{", "gpuens.dask.{")
    _local: ClassVar[Any]
    """The estimator of ``gpuens``."""

    def _train(self, model: Any, parts: list[Any], others: dict[str, Any]) -> Any:
        """Train ``model``, an estimator of ``gpuens`` with checked parameters, on the workers."""
        restarts, heartbeat = self._cluster_settings()
        model.set_params(random_state=seed_of(model.random_state))
        is_fitted = not {"forest_", "estimators_"}.isdisjoint(vars(self))
        before = self.to_local() if model.warm_start and is_fitted else None
        client = distributed.default_client() if self.client is None else self.client
        fitted = Training(client, model, others, restarts, heartbeat, before).run(parts)
        params = fitted.get_params(deep=False)
        for name, value in vars(fitted).items():
            if name not in params:
                setattr(self, name, value)
        return self

    def to_local(self) -> Any:
        """Return the estimator of ``gpuens``, with the parameters and what was learned."""
        model: Any = self._unfitted()
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        vars(model).update({n: v for n, v in vars(self).items() if n not in params})
        return model

    def predict(self, X: Any) -> Any:
        """Predict as the estimator of ``gpuens`` does: lazily if X is in parts."""
        return self._of_parts("predict", X)

    @available_if(_local_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, lazily if X is in parts."""
        return self._of_parts("predict_proba", X)

    @available_if(_local_has("apply"))
    def apply(self, X: Any) -> Any:
        """Return the leaf that each row ends in, lazily if X is in parts."""
        return self._of_parts("apply", X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the estimator of ``gpuens`` (see ``to_local``)."""
        self.to_local().save(path)

    def _unfitted(self) -> Any:
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        own = {field.name for field in fields(OnCluster)}
        return self._local(**{n: v for n, v in params.items() if n not in own})

    def _cluster_settings(self) -> tuple[int, float]:
        restarts, heartbeat = self.max_restarts, self.heartbeat
        if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
            raise ValueError(f"max_restarts must be an integer >= 0, got {restarts!r}.")
        if isinstance(heartbeat, bool) or not isinstance(heartbeat, (int, float)) or heartbeat < 1:
            raise ValueError(f"heartbeat must be a number of seconds >= 1, got {heartbeat!r}.")
        return restarts, float(heartbeat)

    def _of_parts(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        model = self.to_local()
        if not is_collection(X):
            return getattr(model, method)(X)
        example = getattr(_without_names(model), method)(_row_for(model))
        if isinstance(example, list):
            raise NotImplementedError(
                f"{method} of several outputs returns a list, which cannot be in parts: call it "
                "of model.to_local() on arrays."
            )
        example = example[:0]
        of_part = dask.delayed(_of_part, pure=True)
        shared = dask.delayed(model)
        if isinstance(X, (list, tuple)):
            return [of_part(part, shared, method, example) for part in X]
        if not hasattr(X, "chunks"):
            parts = [of_part(part, shared, method, example) for part in X.to_delayed()]
            return _concatenated(parts, example)
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        return X.map_blocks(
            _of_part, shared, method, example, dtype=example.dtype, meta=example,
            drop_axis=1 if example.ndim == 1 else None,
            chunks=(X.chunks[0], *((n,) for n in example.shape[1:])),
        )  # fmt: skip


def on_cluster(cls: Kind) -> Kind:
    """Complete the class of an estimator on a cluster, whose second base is that of ``gpuens``."""
    made: Any = cls
    made._local = cls.__bases__[1]
    made.__doc__ = cls.__doc__ and f"{cls.__doc__}\n\n<shared>"
    return documented(OF_CLUSTER, name=cls.__name__)(cls)


def _concatenated(parts: list[Any], example: np.ndarray) -> Any:
    """Return predictions of parts as one dask array of unknown length."""
    import dask.array as da

    shape = (np.nan, *example.shape[1:])
    return da.concatenate([da.from_delayed(part, shape, meta=example) for part in parts])


def _of_part(part: Any, model: Any, method: str, example: np.ndarray) -> Any:
    """Return the predictions for a part, which may be empty, as ``example`` is."""
    return getattr(model, method)(part) if part.shape[0] else example


def _row_for(model: Any) -> np.ndarray:
    """Return a row that the model reads: zeros, and missing values for categories, which may be
    strings."""
    if getattr(model, "is_categorical_", None) is None:
        return np.zeros((1, model.n_features_in_))
    row = np.zeros((1, model.n_features_in_), object)
    row[:, model.is_categorical_] = None
    return row


def _without_names(model: Any) -> Any:
    """Return the model for arrays, which have no names of columns to compare."""
    other = type(model)(**model.get_params(deep=False))
    vars(other).update({n: v for n, v in vars(model).items() if n != "feature_names_in_"})
    return other
