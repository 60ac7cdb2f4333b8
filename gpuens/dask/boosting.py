"""Gradient boosting for tables in partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..boosting.classifier import GradientBoostingClassifier as LocalClassifier
from ..boosting.parameters import check_parameters
from ..boosting.ranker import GradientBoostingRanker as LocalRanker
from ..boosting.regressor import GradientBoostingRegressor as LocalRegressor
from .collections import parts_of
from .on_cluster import OnCluster, on_cluster


class BoostingOnCluster(OnCluster):
    """Gradient boosting by workers that add up the histograms of their rows."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
    ) -> Any:
        """Train on the workers of a cluster.

        Parameters
        ----------
        X : dask array, dask data frame or list of delayed parts, shape (n_rows, n_features)
            Rows stay in their order: the model is that of all partitions one after the other.
        y, sample_weight : likewise, shape (n_rows,)
            Cut at the same rows as X; arrays whose chunks are known are cut like X.
        eval_set : (X, y) or list of these, default=None
            In memory: every worker gets a copy.
        eval_sample_weight : array or list of arrays, default=None

        Returns
        -------
        estimator
            Itself; ``forest_`` is that of the estimator of ``gpuens``.

        Raises
        ------
        NotImplementedError
            A setting would not give the same model on several workers; the message names it.
        RuntimeError
            Workers were lost more often than ``max_restarts``.
        """
        model: Any = self._unfitted()
        check_parameters(model)
        others = {"eval_set": eval_set, "eval_sample_weight": eval_sample_weight}
        return self._train(model, parts_of(X, y, sample_weight), others)


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingClassifier(BoostingOnCluster, LocalClassifier):  # type: ignore[misc]
    """Gradient boosted classification trees, trained by the workers of a Dask cluster."""


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingRegressor(BoostingOnCluster, LocalRegressor):  # type: ignore[misc]
    """Gradient boosted regression trees, trained by the workers of a Dask cluster."""


@on_cluster
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingRanker(OnCluster, LocalRanker):  # type: ignore[misc]
    """Gradient boosted trees that rank documents, trained by the workers of a Dask cluster."""

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        qid: Any,
        position: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_sample_weight: Any = None,
    ) -> Any:
        """Train on the workers of a cluster.

        Parameters
        ----------
        X : dask array, dask data frame or list of delayed parts, shape (n_rows, n_features)
            Rows stay in their order: the model is that of all partitions one after the other.
        y, sample_weight : likewise, shape (n_rows,)
            Cut at the same rows as X; arrays whose chunks are known are cut like X.
        qid : likewise, shape (n_rows,)
            The query of each row. The rows of a query are neighbours; they may be in several
            partitions, one after the other.
        position : likewise, shape (n_rows,), default=None
            Places at which documents were shown.
        eval_set : (X, y) or list of these, default=None
            In memory: every worker gets a copy.
        eval_group, eval_qid, eval_sample_weight : array or list of arrays, default=None
            As for ``gpuens.GradientBoostingRanker``.

        Returns
        -------
        estimator
            Itself; ``forest_`` is that of the estimator of ``gpuens``.

        Raises
        ------
        NotImplementedError
            A setting would not give the same model on several workers; the message names it.
        ValueError
            A query begins again after another one.
        RuntimeError
            Workers were lost more often than ``max_restarts``.
        """
        model: Any = self._unfitted()
        check_parameters(model)
        others = {
            "eval_set": eval_set, "eval_group": eval_group, "eval_qid": eval_qid,
            "eval_sample_weight": eval_sample_weight,
        }  # fmt: skip
        return self._train(model, parts_of(X, y, sample_weight, qid, position), others)
