"""Metrics of rankings: means over queries, for the parameter ``scoring`` and to call."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .devices.placement import CPU, Device, to_numpy
from .inputs.queries import layout_of, read_queries, weight_of_rows
from .inputs.targets import read_sample_weight, read_target
from .kernels.ranking.measures import average_precisions, discounted_gains
from .kernels.ranking.order import order_queries
from .kernels.ranking.queries import Queries
from .kernels.runtime.arrays import Array
from .losses.gains import check_relevance, discounts, gains, ideal_gains, read_label_gain
from .numerics.weighted import Later, mean_later

__all__ = ["NDCG", "MeanAveragePrecision"]


class RankingMetric:
    """A mean over queries: higher is better, 1 is perfect, and queries without anything relevant
    count 1."""

    name: str
    k: int | None
    label_gain: Any = "linear"

    def __post_init__(self) -> None:
        if self.k is not None and not (isinstance(self.k, numbers.Integral) and int(self.k) > 0):
            raise ValueError(f"k must be None or an integer > 0, got {self.k!r}.")

    @property
    def label(self) -> str:
        """The name of the metric in ``evals_result_``."""
        return self.name if self.k is None else f"{self.name}@{int(self.k)}"

    def __call__(
        self, y: Any, score: Any, *, group: Any = None, qid: Any = None, sample_weight: Any = None
    ) -> float:
        """Compute the metric of a ranking.

        Parameters
        ----------
        y : array, shape (n_rows,)
            Relevances, 0 for documents that are not relevant.
        score : array, shape (n_rows,)
            Documents are ranked by it, descending; equal ones by their row.
        group : array of int, shape (n_queries,), default=None
            Rows of each query, in the order of the rows.
        qid : array, shape (n_rows,), default=None
            Or the query of each row, sorted.
        sample_weight : array, shape (n_queries,) or (n_rows,), default=None
            A query counts by its weight, or by the mean weight of its rows.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            An argument is not possible; names it.
        """
        n = len(score)
        sizes = read_queries(group, qid, n)
        relevance = read_target(to_numpy(y), n, CPU, estimator=self).copy()
        check_relevance(relevance, self.label_gain, "y")
        raw = read_target(to_numpy(score), n, CPU, estimator=self, name="score").copy()
        weight = weight_of_rows(sample_weight, sizes, n)
        weight = read_sample_weight(weight, n, CPU)
        query = np.repeat(np.arange(sizes.size, dtype=np.float64), sizes)
        weight = np.empty(0) if weight is None else weight
        return self.on_rows(relevance, query, weight, CPU)(raw)()

    def on_rows(
        self, relevance: Array, query: Array, weight: Array, device: Device
    ) -> Callable[[Array], Later]:
        """Return a function of the scores of some rows (float64 arrays on the device), which
        returns a callable that waits for the metric; ``weight`` may be empty."""
        queries = layout_of(query, device)
        of_query = self._by_query(relevance, queries, device)
        n_rows = (queries.begin[1:] - queries.begin[:-1]).astype(np.float64)
        if weight.size:
            everything = device.xp.arange(relevance.shape[0], dtype=device.xp.int32)
            ones = device.xp.ones(queries.longest)
            longest = queries.longest
            weight = discounted_gains(weight, everything, queries, ones, longest) / n_rows

        def later(score: Array) -> Later:
            return mean_later(of_query(order_queries(score, queries)), weight, device)

        return later

    def _by_query(
        self, relevance: Array, queries: Queries, device: Device
    ) -> Callable[[Array], Array]:
        """Return a function of the order of the rows, which returns the metric of each query."""
        raise NotImplementedError

    def _depth(self, queries: Queries) -> int:
        return queries.longest if self.k is None else min(int(self.k), queries.longest)


@dataclass(frozen=True)
class NDCG(RankingMetric):
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002).

    The gains of a query's documents are divided by log₂(1 + rank), rank from 1, and added up; the
    sum is divided by that of the best order.

    Parameters
    ----------
    k : int or None, default=None
        Ranks that count; None: all.
    label_gain : "exponential", "linear" or list of float, default="exponential"
        Gain of a document by its relevance y: 2**y - 1, y, or entry y of the list.

    Examples
    --------
    >>> from gpuens.ranking_metrics import NDCG
    >>> NDCG(k=1)([0, 1, 3, 0], [0.1, 0.9, 0.2, 0.8], group=[2, 2])
    0.5
    >>> NDCG()([1, 0, 3, 0], [0.1, 0.9, 0.2, 0.8], group=[2, 2]) < 0.7
    True
    """

    k: int | None = None
    label_gain: Any = "exponential"
    name = "ndcg"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__["label_gain"] = read_label_gain(self.label_gain)

    def _by_query(
        self, relevance: Array, queries: Queries, device: Device
    ) -> Callable[[Array], Array]:
        depth, discount = self._depth(queries), discounts(queries, device)
        gain = gains(relevance, self.label_gain, device)
        ideal = ideal_gains(gain, queries, discount, depth)
        divisor = device.xp.where(ideal > 0.0, ideal, 1.0)

        def ndcg(order: Array) -> Array:
            found = discounted_gains(gain, order, queries, discount, depth)
            return device.xp.where(ideal > 0.0, found / divisor, 1.0)

        return ndcg


@dataclass(frozen=True)
class MeanAveragePrecision(RankingMetric):
    """Mean average precision: over the relevant documents of a query (relevance > 0) among the
    first k ranks, the mean of the share of relevant ones up to each. The divisor is the number of
    relevant documents, at most k.

    Parameters
    ----------
    k : int or None, default=None
        Ranks that count; None: all.

    Examples
    --------
    >>> from gpuens.ranking_metrics import MeanAveragePrecision
    >>> MeanAveragePrecision()([1, 0, 0, 1], [0.1, 0.9, 0.2, 0.8], group=[2, 2])
    0.75
    """

    k: int | None = None
    name = "map"

    def _by_query(
        self, relevance: Array, queries: Queries, device: Device
    ) -> Callable[[Array], Array]:
        depth = self._depth(queries)
        return lambda order: average_precisions(relevance, order, queries, depth)


def ranking_metric_of(value: Any) -> RankingMetric | None:
    """Return the metric that a name such as "ndcg", "ndcg@5" or "map@10" means, or the metric
    itself; None for anything else."""
    if isinstance(value, RankingMetric):
        return value
    if not isinstance(value, str):
        return None
    name, at, k = value.partition("@")
    kinds: dict[str, Callable[..., RankingMetric]] = {"ndcg": NDCG, "map": MeanAveragePrecision}
    if name not in kinds or bool(at) != bool(k):
        return None
    if not at:
        return kinds[name]()
    return kinds[name](int(k)) if k.isdecimal() and int(k) > 0 else None
