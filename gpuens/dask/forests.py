"""Forests and bags of trees for tables in partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..bagging import bagging as bags
from ..bagging.parameters import check_bagging_parameters
from ..forests import forests as local
from ..forests.isolation import IsolationForest as LocalIsolationForest
from ..forests.isolation import check_isolation_parameters
from ..trees.parameters import check_tree_parameters
from .collections import parts_of
from .on_cluster import OnCluster, on_cluster


class TreesOnCluster(OnCluster):
    """Trees that are dealt to workers, all of which get the bins of all rows, and grow their trees
    on a GPU if they have one (see ``device``)."""

    _check: ClassVar[Any] = staticmethod(check_tree_parameters)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the trees on the workers of a cluster.

        Parameters
        ----------
        X : dask array, dask data frame or list of delayed parts, shape (n_rows, n_features)
            Rows stay in their order: the model is that of all partitions one after the other.
        y : likewise, shape (n_rows,) or (n_rows, n_outputs)
            Cut at the same rows as X; arrays whose chunks are known are cut like X. A bag of
            classifiers has one output.
        sample_weight : likewise, shape (n_rows,), default=None
            Of a bag only with ``bootstrap=False``.

        Returns
        -------
        estimator
            Itself; ``forest_``, or the members of a bag, are those of the estimator of ``gpuens``.

        Raises
        ------
        NotImplementedError
            The ``estimator`` of a bag is not a tree of ``gpuens``, or a setting is not supported;
            the message names it.
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
        self._check(model)
        return self._train(model, parts_of(X, y, sample_weight), {})


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestClassifier(TreesOnCluster, local.RandomForestClassifier):  # type: ignore[misc]
    """A random forest for classification, grown by the workers of a Dask cluster."""


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestRegressor(TreesOnCluster, local.RandomForestRegressor):  # type: ignore[misc]
    """A random forest for regression, grown by the workers of a Dask cluster."""


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesClassifier(TreesOnCluster, local.ExtraTreesClassifier):  # type: ignore[misc]
    """Extremely randomised trees for classification, grown by the workers of a Dask cluster."""


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesRegressor(TreesOnCluster, local.ExtraTreesRegressor):  # type: ignore[misc]
    """Extremely randomised trees for regression, grown by the workers of a Dask cluster."""


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingClassifier(TreesOnCluster, bags.BaggingClassifier):  # type: ignore[misc]
    """Trees for classification on random samples, grown by the workers of a Dask cluster."""

    _check = staticmethod(check_bagging_parameters)


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingRegressor(TreesOnCluster, bags.BaggingRegressor):  # type: ignore[misc]
    """Trees for regression on random samples, grown by the workers of a Dask cluster."""

    _check = staticmethod(check_bagging_parameters)


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class IsolationForest(OnCluster, LocalIsolationForest):  # type: ignore[misc]
    """An isolation forest, grown by the workers of a Dask cluster."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the trees on the workers of a cluster, which send each other the rows that are drawn
        for some tree.

        Parameters
        ----------
        X : dask array, dask data frame or list of delayed parts, shape (n_rows, n_features)
            Rows stay in their order: the model is that of all partitions one after the other.
        y : None
            Has no effect.
        sample_weight : likewise, shape (n_rows,), default=None
            Cut at the same rows as X.

        Returns
        -------
        estimator
            Itself; ``forest_`` is that of the estimator of ``gpuens``.

        Raises
        ------
        RuntimeError
            Workers were lost more often than ``max_restarts``, or one has no GPU that it can use
            where ``device="cuda"``.
        ValueError
            Two workers have the same GPU, unless ``device="auto"``.
        """
        model: Any = self._unfitted()
        check_isolation_parameters(model)
        return self._train(model, parts_of(X, None, sample_weight), {})

    def score_samples(self, X: Any) -> Any:
        """Return how normal rows are, lazily if X is in parts."""
        return self._of_parts("score_samples", X)

    def decision_function(self, X: Any) -> Any:
        """Return ``score_samples(X) - offset_``, lazily if X is in parts."""
        return self._of_parts("decision_function", X)
