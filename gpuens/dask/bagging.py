"""Bags of trees for tables in partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..bagging import bagging as local
from ..bagging.parameters import check_bagging_parameters
from ..estimators.docstrings import documented
from .collections import parts_of
from .on_cluster import OF_CLUSTER, OnCluster


class BagOnCluster(OnCluster):
    """Bags whose trees are dealt to workers, all of which get the bins of all rows, and grow their
    trees on a GPU if they have one (see ``device``)."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the trees on the workers of a cluster.

        Parameters
        ----------
        X : dask array, dask data frame or list of delayed parts, shape (n_rows, n_features)
            Rows stay in their order: the model is that of all partitions one after the other.
        y : likewise, shape (n_rows,) or, for a regressor, (n_rows, n_outputs)
            Cut at the same rows as X; arrays whose chunks are known are cut like X.
        sample_weight : likewise, shape (n_rows,), default=None
            Only with ``bootstrap=False``.

        Returns
        -------
        estimator
            Itself; its members are those of the estimator of ``gpuens``.

        Raises
        ------
        NotImplementedError
            ``estimator`` is not a tree of ``gpuens``, or a setting is not supported; the message
            names it.
        MemoryError
            A worker, or its GPU, has too little memory for the bins of all rows; the message says
            how much they take.
        RuntimeError
            Workers were lost more often than ``max_restarts``, or one has no GPU that it can use
            where ``device="cuda"``.
        ValueError
            Two workers have the same GPU, unless ``device="auto"``.
        """
        model: Any = self._unfitted()
        check_bagging_parameters(model)
        return self._train(model, parts_of(X, y, sample_weight), {})


@documented(OF_CLUSTER)
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingClassifier(BagOnCluster, local.BaggingClassifier):  # type: ignore[misc]
    """Trees for classification on random samples, grown by the workers of a Dask cluster.

    Parameters
    ----------
    <shared>
    **parameters
        Those of ``gpuens.BaggingClassifier``.
    """

    _local = local.BaggingClassifier

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, lazily if X is in parts."""
        return self._of_parts("predict_proba", X)


@documented(OF_CLUSTER)
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingRegressor(BagOnCluster, local.BaggingRegressor):  # type: ignore[misc]
    """Trees for regression on random samples, grown by the workers of a Dask cluster.

    Parameters
    ----------
    <shared>
    **parameters
        Those of ``gpuens.BaggingRegressor``.
    """

    _local = local.BaggingRegressor
