"""Losses of learning to rank: pairs of documents, or lists.

The target has two rows, relevance and number of the query, and a third one where documents have
positions.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..devices.placement import Device, to_numpy
from ..forest.sum_of_trees import IDENTITY, Link
from ..inputs.queries import layout_of
from ..kernels.leaves.newton_steps import leaf_sums
from ..kernels.ranking.gradients import PairSettings, list_gradients, pair_gradients
from ..kernels.ranking.order import order_queries
from ..kernels.ranking.queries import Queries
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers, largest_of_all, rows_of_all, sum_of_each
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.ranking import PURPOSE_LISTS
from ..kernels.scalars.rng import subkey
from ..kernels.statistics.gradients import gradients
from ..kernels.statistics.quantise import fixed_point_scales
from ..numerics.weighted import Later
from .base import GradientInputs, Loss
from .gains import check_relevance, discounts, gains, ideal_gains, read_label_gain
from .whole_queries import WholeQueries, whole_queries

RELEVANCE, QUERY, POSITION = range(3)
"""Rows of the target."""
LEAST_CURVATURE = 1e-3
"""Added to the second derivative of a position's bias."""

_subkey = vectorise(subkey)


class Documents(NamedTuple):
    """The quantities that gradients of a set of rows need beside the scores.

    gain : float64, shape (n_rows,)
    queries : Queries
    discount : float64, shape (queries.longest,)
    inverse_ideal : float64, shape (n_queries,)
    position : int32, shape (n_rows,) or (0,)
        Where workers share the rows, of this worker's; the other arrays are those of ``rows``.
    rows : WholeQueries or None
    """

    gain: Array
    queries: Queries
    discount: Array
    inverse_ideal: Array
    position: Array
    rows: WholeQueries | None


class PositionBias:
    """The bias of each position, learned beside the trees.

    ``value`` (float64 ndarray) is updated in place, by the gradients of a round when the next one
    begins.
    """

    def __init__(self, position: np.ndarray, workers: Workers) -> None:
        n = 1 + int(largest_of_all(float(position.max()), workers))
        own = np.bincount(position.astype(np.int64), minlength=n)
        self.counts = sum_of_each(own, workers).astype(np.float64)
        self.value = np.zeros(self.counts.size)
        self.index = -1
        self.latest: Array | None = None


class RankingLoss(Loss):
    """A loss of the documents of queries.

    It has gradients only: use metrics of ``gpuens.ranking_metrics`` to watch the training.
    """

    reads_raw: ClassVar[bool] = True
    takes_positions: ClassVar[bool] = False
    draws_by_row: ClassVar[bool] = False
    """Whether random draws depend on the numbers of the rows in the whole table."""
    row_bytes: ClassVar[int] = 8 * 3 + 8 * 2 + 8 * 5 + 4 * 4
    """Relevance, query and position; gain and discount; both gradients and their sums on a GPU;
    order and layout."""
    label_gain: Any
    seed: int = 0
    index: int = 0
    bias: PositionBias | None = None
    _known: dict[int, tuple[Array, Documents]]

    @property
    def link(self) -> Link:
        return IDENTITY

    def __post_init__(self) -> None:
        self.__dict__["label_gain"] = read_label_gain(self.label_gain)

    def for_targets(self, n_targets: int) -> Any:
        raise ValueError(f"loss={self!r} is a loss of rankings: use GradientBoostingRanker.")

    def for_classes(self, n_classes: int) -> Any:
        raise ValueError(f"loss={self!r} is a loss of rankings: use GradientBoostingRanker.")

    def for_queries(self, seed: int) -> RankingLoss:
        """Return the loss for a ranking whose random draws have a seed."""
        return self._with(seed=seed)

    def check_target(self, y: Array, name: str) -> None:
        check_relevance(y[RELEVANCE], self.label_gain, name)
        if y.shape[0] > POSITION and not self.takes_positions:
            raise ValueError(
                f"position must be None with loss={self.name!r}, whose gradients do not compare "
                "pairs: use 'lambdarank' or 'pairwise'."
            )

    def check_training(self, y: Array, weight: Array, device: Device) -> None:
        y = whole_queries(WholeQueries.of(y[QUERY], False, self.workers), y[: QUERY + 1])
        relevance, query = y[RELEVANCE], y[QUERY]
        differs = (relevance[1:] != relevance[:-1]) & (query[1:] == query[:-1])
        if not largest_of_all(float(differs.any()), self.workers):
            raise ValueError(
                "No query has two documents of different relevance, so that there is nothing to "
                "learn from: check group or qid, and y."
            )

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        return np.zeros(1)

    def formula(self, k: int) -> Any:
        return formulas.Given()

    def on_training_rows(
        self, y: Array, weight: Array, base: np.ndarray, device: Device
    ) -> RankingLoss:
        bias = None
        if y.shape[0] > POSITION:
            bias = PositionBias(to_numpy(y[POSITION]), self.workers)
        return self._with(bias=bias, _known={})

    def in_round(
        self, index: int, y: Array, raw: Array, whole_weight: Array, sample: Array, device: Device
    ) -> Self:
        return self._with(index=index)

    def targets(self, y: Array, k: int, device: Device) -> Array:
        return y[RELEVANCE]

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute all gradients and hessians, float64 of shape (2, n_rows)."""
        return self._gradients_of(self._documents(y, device), raw[0])

    def _gradients_of(self, documents: Documents, score: Array) -> Array:
        """Compute the gradients of this worker's rows, which are all where no table is shared."""
        rows = documents.rows
        both = self._gradients(documents, whole_queries(rows, score))
        return both if rows is None else rows.own(both)

    def _documents(self, y: Array, device: Device) -> Documents:
        """Prepare rows, once in a training."""
        if id(y) not in self._known:
            self._known[id(y)] = y, self._prepared(y, device)
        return self._known[id(y)][1]

    def _prepared(self, y: Array, device: Device) -> Documents:
        position = (
            y[POSITION].astype(np.int32) if self.bias else device.xp.empty(0, dtype=device.xp.int32)
        )
        rows = WholeQueries.of(y[QUERY], self.draws_by_row, self.workers)
        y = whole_queries(rows, y)
        queries = layout_of(y[QUERY], device)
        gain, discount = self._gain(y[RELEVANCE], device), discounts(queries, device)
        ideal = ideal_gains(gain, queries, discount, self._depth(queries))
        inverse = device.xp.where(ideal > 0.0, 1.0 / device.xp.where(ideal > 0.0, ideal, 1.0), 0.0)
        return Documents(gain, queries, discount, inverse, position, rows)

    def _gain(self, relevance: Array, device: Device) -> Array:
        return gains(relevance, self.label_gain, device)

    def _depth(self, queries: Queries) -> int:
        """Return the number of ranks of the ideal gain."""
        return queries.longest

    def _gradients(self, documents: Documents, score: Array) -> Array:
        raise NotImplementedError

    def gradient_inputs(
        self, k: int, target: Array, raw: Array, shared: Array, weight: Array
    ) -> GradientInputs:
        own, second = shared  # has them
        return self.formula(k), own, second, raw[:0], weight

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        raise ValueError(
            f"loss={self.name!r} has gradients only, no value: pass scoring='ndcg', 'map' or "
            "another metric."
        )

    def predict(self, raw: Array, device: Device) -> Array:
        return raw[0].copy()


class PairLoss(RankingLoss):
    """A loss of the pairs of documents of a query."""

    takes_positions: ClassVar[bool] = True
    by_gain: ClassVar[bool]
    truncation_level: int | None
    sigma: float
    normalise: bool
    position_rate: float
    position_l2: float

    def __post_init__(self) -> None:
        super().__post_init__()
        level = self.truncation_level
        if level is not None and not (isinstance(level, numbers.Integral) and int(level) > 0):
            raise ValueError(f"truncation_level must be None or an integer > 0, got {level!r}.")
        if not isinstance(self.normalise, (bool, np.bool_)):
            raise ValueError(f"normalise must be True or False, got {self.normalise!r}.")
        for name, may_be_zero in (
            ("sigma", False),
            ("position_rate", False),
            ("position_l2", True),
        ):
            value = getattr(self, name)
            least = 0.0 if may_be_zero else np.nextafter(0.0, 1.0)
            if not isinstance(value, numbers.Real) or not least <= float(value) < np.inf:
                sign = ">=" if may_be_zero else ">"
                raise ValueError(f"{name} must be a finite number {sign} 0, got {value!r}.")

    def _depth(self, queries: Queries) -> int:
        level = self.truncation_level
        return queries.longest if level is None else min(int(level), queries.longest)

    def in_round(
        self, index: int, y: Array, raw: Array, whole_weight: Array, sample: Array, device: Device
    ) -> Self:
        """Update the biases of the positions by the gradients of the round before."""
        bias = self.bias
        if bias is not None and bias.latest is not None and bias.index < index:
            position = self._documents(y, device).position
            self._update_bias(bias, position, bias.latest, whole_weight, device)
            bias.latest = None
        return super().in_round(index, y, raw, whole_weight, sample, device)

    def _update_bias(
        self, bias: PositionBias, position: Array, both: Array, weight: Array, device: Device
    ) -> None:
        """Take a Newton step of each position, as LightGBM does."""
        g, h = (device.xp.empty(position.shape[0], dtype=device.xp.float32) for _ in range(2))
        largest = largest_of_all(int(weight.max()), self.workers) if weight.size else 1.0
        totals = gradients(
            formulas.Given(), both[0], both[1], both[0, :0], weight / largest, g, h, self.workers
        )
        scales = fixed_point_scales(totals, rows_of_all(g.shape[0], self.workers))
        sums = leaf_sums(position, g, h, scales, bias.value.size, self.workers)
        penalty = float(self.position_l2) * bias.counts
        slope = -sums[:, 0] / scales.g - bias.value * penalty
        curvature = sums[:, 1] / scales.h + penalty
        bias.value += float(self.position_rate) * slope / (curvature + LEAST_CURVATURE)

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        documents, bias = self._documents(y, device), self.bias
        if bias is None:
            return self._gradients_of(documents, raw[0])
        both = self._gradients_of(
            documents, raw[0] + device.asarray(bias.value)[documents.position]
        )
        if bias.index < self.index or bias.latest is None:
            bias.index, bias.latest = self.index, both
        return both

    def _gradients(self, documents: Documents, score: Array) -> Array:
        gain, queries, discount, inverse_ideal, *_ = documents
        level = self._depth(queries)
        settings = PairSettings(float(self.sigma), level, bool(self.normalise), self.by_gain)
        order = order_queries(score, queries)
        return pair_gradients(score, gain, order, inverse_ideal, discount, queries, settings)


@dataclass(frozen=True)
class LambdaRank(PairLoss):
    """Pairs of documents, each by the change of NDCG if the two changed places (Burges 2010).

    Parameters
    ----------
    truncation_level : int or None, default=30
        Pairs take part if at least one of their documents is among so many first; NDCG is that
        of so many. None: all pairs. A little more than the rank that is of interest works best.
    label_gain : "exponential", "linear" or list of float, default="exponential"
        Gain of a document by its relevance y: 2**y - 1, y, or entry y of the list. Only "linear"
        takes relevances that are not whole.
    sigma : float, default=1.0
        Steepness of the logistic function of the scores' differences.
    normalise : bool, default=True
        Whether pairs are divided by the distance of their scores, and queries with many pairs are
        kept from prevailing, as in LightGBM.
    position_rate, position_l2 : float, default=0.1 and 0.0
        Where ``fit`` gets positions: the learning rate of their biases, and the penalty on their
        squares for each document.
    """

    truncation_level: int | None = 30
    label_gain: Any = "exponential"
    sigma: float = 1.0
    normalise: bool = True
    position_rate: float = 0.1
    position_l2: float = 0.0
    name: ClassVar[str] = "lambdarank"
    by_gain: ClassVar[bool] = True


@dataclass(frozen=True)
class PairwiseLogistic(PairLoss):
    """Pairs of documents of different relevance, all alike: RankNet (Burges et al. 2005).

    Parameters
    ----------
    truncation_level : int or None, default=None
        Pairs take part if at least one of their documents is among so many first. None: all.
    label_gain : "exponential", "linear" or list of float, default="exponential"
        As for ``LambdaRank``, for the metric "ndcg"; the loss only compares gains.
    sigma : float, default=1.0
        As for ``LambdaRank``, like the next two.
    normalise : bool, default=True
        Whether the gradients of a query are scaled.
    position_rate, position_l2 : float, default=0.1 and 0.0
        As for ``LambdaRank``.
    """

    truncation_level: int | None = None
    label_gain: Any = "exponential"
    sigma: float = 1.0
    normalise: bool = True
    position_rate: float = 0.1
    position_l2: float = 0.0
    name: ClassVar[str] = "pairwise"
    by_gain: ClassVar[bool] = False


@dataclass(frozen=True)
class CrossEntropyNDCG(RankingLoss):
    """The cross entropy of a query's list, a bound of NDCG (Bruch 2021, "An alternative cross
    entropy loss for learning-to-rank"): XE-NDCG. Targets are drawn in every round.

    Parameters
    ----------
    label_gain : "exponential", "linear" or list of float, default="exponential"
        As for ``LambdaRank``.
    """

    label_gain: Any = "exponential"
    name: ClassVar[str] = "xendcg"
    reads_all_rows: ClassVar[bool] = True
    draws_by_row: ClassVar[bool] = True

    def _gradients(self, documents: Documents, score: Array) -> Array:
        key = int(_subkey(np.uint64(self.seed), PURPOSE_LISTS, np.uint64(self.index)))
        return list_gradients(score, documents.gain, documents.queries, key)
