"""Gradient boosted trees that rank the documents of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..custom_metrics import ArrayMetric, CustomMetric
from ..devices.placement import Device, home_of, to_numpy
from ..estimators.base import require_fitted
from ..estimators.boosting_docs import BOOSTING
from ..estimators.docstrings import ENDS_EARLY, EXPLAINED, FITTED, VALUES, documented
from ..estimators.validation import split_rows
from ..explanation.explainer import explained
from ..inputs.queries import first_query_of_worker, read_queries, rows_of_queries, weight_of_rows
from ..inputs.targets import read_target
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, current_workers
from ..losses import Loss
from ..losses.names import OF_RANKINGS
from ..losses.ranking import QUERY, RankingLoss
from ..ranking_metrics import NDCG, RankingMetric
from ..tables.binned_table import BinnedTable
from .additive import AdditiveModel
from .data.auto_values import N_PARTS
from .data.reading import EvalSet, eval_sets
from .estimator import BoostingEstimator
from .forest_builder import ForestBuilder
from .parameters import check_parameters
from .round_data import BoostingResult, RawRows, RoundSettings, Training


class OfQueries(NamedTuple):
    """The queries and positions of a set of rows.

    sizes : int64 ndarray, shape (n_queries,)
    position : array, shape (n_rows,), or None
    first : int
        The number of the first query: those of the training rows go on from worker to worker.
    """

    sizes: np.ndarray
    position: Any
    first: int = 0


@documented(
    BOOSTING,
    losses="""str or loss object, default="lambdarank"
        "lambdarank", "xendcg" or "pairwise". ``gpuens.losses`` has them as objects with their
        parameters: ``LambdaRank`` (truncation level, gains), ``CrossEntropyNDCG`` and
        ``PairwiseLogistic``.""",
    init="",
    class_weight="",
    scoring="""str, metric or list of these, default="ndcg"
        Metrics of the evaluation sets: "loss", "ndcg", "ndcg@10", "map", "map@10", an object of
        ``gpuens.ranking_metrics``, or a metric of ``gpuens.custom_metrics`` (``y`` of an
        ``ArrayMetric`` has two columns, relevance and number of the query).""",
    attributes="""position_bias_ : float64, shape (n_positions,)
        Only where ``fit`` got positions: what was added to the scores of documents at each.
    """,
)
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingRanker(AdditiveModel, BoostingEstimator):
    """Gradient boosted trees on binned features that rank the documents of queries.

    LambdaMART (Burges 2010) with histogram trees. Predictions are scores: within a query, a
    higher one comes first. The same data and seed give the same model, bit for bit, on the CPU
    with any number of threads and on a GPU.

    Of the rows, ``validation_fraction`` holds out whole queries.

    <shared>

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import GradientBoostingRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = np.clip(X[:, 0] + rng.normal(size=1000), 0, 4).astype(int)
    >>> model = GradientBoostingRanker(n_estimators=20).fit(X, y, group=[10] * 100)
    >>> model.score(X, y, group=[10] * 100) > 0.9
    True
    """

    _losses = OF_RANKINGS

    loss: str | Loss | Callable[..., Any] = field(default="lambdarank", kw_only=False)
    scoring: str | RankingMetric | CustomMetric | ArrayMetric | Sequence[Any] = "ndcg"

    @documented(FITTED, ends=ENDS_EARLY)
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        position: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_sample_weight: Any = None,
        init: Any = None,
    ) -> Any:
        """Train.

        Parameters
        ----------
        X : array, data frame or BinnedTable, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing.
        y : array, shape (n_rows,)
            Relevance of each document, from 0: whole numbers unless gains are linear.
        sample_weight : array, shape (n_rows,) or (n_queries,), default=None
            Factors on the gradients of each row, as in LightGBM, or of each query, as in XGBoost.
            A row of weight zero is still compared with the others of its query.
        group : array of int, shape (n_queries,), default=None
            Rows of each query, in the order of the rows.
        qid : array, shape (n_rows,), default=None
            Or the query of each row; the rows of a query must be neighbours.
        position : array of int, shape (n_rows,), default=None
            Place, from 0, at which each document was shown when its relevance was observed, as
            clicks are. The bias of each place is learned beside the trees, as in LightGBM, and
            does not reach predictions; further rounds on an old model learn it again.
        eval_set : (X, y) or list of these, default=None
            Further rows whose metrics are recorded after every round in ``evals_result_`` as
            "validation_0", "validation_1" and so on. Early stopping watches the first.
        eval_group, eval_qid : array or list of arrays, default=None
            ``group`` or ``qid`` of each entry of ``eval_set``.
        eval_sample_weight : array or list of arrays, default=None
            One for each entry of ``eval_set``. A query counts by the mean weight of its rows.
        init : fitted GradientBoostingRanker, default=None
            Training continues after its trees, which do not change, with ``n_estimators`` further
            rounds. Other rows may be used; the features must be the same.

        <shared>
        """
        check_parameters(self)
        if isinstance(X, BinnedTable):
            y, sample_weight = X.beside(y, sample_weight)
        further = eval_sets(eval_set, eval_sample_weight)
        groups = _of_each(eval_group, "eval_group", eval_set, len(further))
        qids = _of_each(eval_qid, "eval_qid", eval_set, len(further))
        names = "X", "y", "sample_weight"
        training = EvalSet(X, y, sample_weight, "training", names, workers=current_workers())
        given = [_training_queries(training, group, qid, position)]
        for i, rows in enumerate(further):
            given.append(_with_queries(rows, groups[i], qids[i], None, f"eval_set[{i}] "))
        return self._train(given, self._read_loss(), init)

    @documented(EXPLAINED, result=VALUES)
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict scores, by which the documents of a query are ranked, descending.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        require_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def staged_predict(self, X: Any) -> Any:
        """Yield the scores after every round, as from ``predict``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None, qid: Any = None
    ) -> float:
        """Return the NDCG of the predictions, with the gains of the loss.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,)
            Relevances.
        sample_weight : array, shape (n_rows,) or (n_queries,), default=None
            Weights of the rows.
        group, qid : array, default=None
            As for ``fit``.

        Returns
        -------
        float
        """
        predicted = self.predict(X)
        loss = cast(RankingLoss, self._fitted_loss)
        metric = NDCG(label_gain=loss.label_gain)
        return metric(y, predicted, group=group, qid=qid, sample_weight=sample_weight)

    def _read(self, rows: EvalSet, device: Device, fit: bool, reset: bool) -> RawRows:
        read = super()._read(rows, device, fit, reset)
        sizes, position, first = rows.of_queries
        n = read.table.shape[0]
        numbers = first + np.arange(sizes.size, dtype=np.float64)
        home = home_of(read.target, device)
        columns = [read.target, home.asarray(np.repeat(numbers, sizes))]
        if position is not None:
            columns.append(home.asarray(_read_position(position, n)))
        return read._replace(target=home.xp.stack(columns, axis=1))

    def _read_y(self, rows: EvalSet, n: int, device: Device, fit: bool) -> Array:
        return read_target(rows.y, n, device, estimator=self, name=rows.names[1])

    def _read_loss(self) -> Loss:
        loss = super()._read_loss()
        if not isinstance(loss, RankingLoss):
            names = " or ".join(repr(kind.name) for kind in OF_RANKINGS)
            raise ValueError(
                f"loss must be {names}, or one of these losses of gpuens.losses as an object, got "
                f"{self.loss!r}."
            )
        return loss

    def _bound(self, loss: Loss, target: Array) -> Loss:
        assert isinstance(loss, RankingLoss)
        return loss.for_queries(self._seed)

    def _labels_of_folds(self, training: Training) -> np.ndarray:
        return -1 - to_numpy(training.rows.y[QUERY]).astype(np.int64)

    def _rows_to_deal(self, rows: RawRows) -> int:
        """Return the rows, none where there are fewer queries than parts."""
        query = to_numpy(rows.target[QUERY])
        if rows.weight.size:
            query = query[to_numpy(rows.weight) > 0]
        return super()._rows_to_deal(rows) if np.unique(query).size >= N_PARTS else 0

    def _begin(
        self, rows: RawRows, before: BoostingResult | None, settings: RoundSettings, device: Device
    ) -> tuple[Loss, ForestBuilder]:
        loss, builder = super()._begin(rows, before, settings, device)
        self.__dict__.pop("position_bias_", None)
        if bias := getattr(loss, "bias", None):
            self.position_bias_ = bias.value
        return loss, builder

    def _split_reads_target(self) -> bool:
        return True

    def _split(self, target: Array, weight: Array) -> tuple[np.ndarray, np.ndarray]:
        """Hold out whole queries; rows stay in their order."""
        query = to_numpy(target[:, QUERY]).astype(np.int64)
        sizes = np.bincount(query)
        every, fraction = np.ones(sizes.size), self.validation_fraction
        of_query = np.bincount(query, to_numpy(weight)) if weight.size else weight
        split = split_rows(sizes.size, every, of_query, fraction, 0, self._seed, "queries")
        return rows_of_queries(sizes, split[0]), rows_of_queries(sizes, split[1])


def _of_each(values: Any, name: str, eval_set: Any, n: int) -> list[Any]:
    """Read an argument that has an entry for each evaluation set."""
    if values is None:
        return [None] * n
    if isinstance(eval_set, tuple):
        return [values]
    if not isinstance(values, (list, tuple)) or len(values) != n:
        size = f" of length {len(values)}" if hasattr(values, "__len__") else ""
        raise ValueError(
            f"{name} must be a list with an array (or None) for each of the {n} evaluation sets, "
            f"got {type(values).__name__}{size}."
        )
    return list(values)


def _training_queries(rows: EvalSet, group: Any, qid: Any, position: Any) -> EvalSet:
    """Return the training rows with their queries, which workers may share."""
    if rows.workers is ONE_WORKER:
        return _with_queries(rows, group, qid, position, "")
    if qid is None:
        raise ValueError(
            "qid (the query of each row) must be passed where several workers share the rows, in "
            "place of group: a query may have rows of two workers."
        )
    sizes = read_queries(group, qid, _count_rows(rows.y, rows.names[1]))
    first = first_query_of_worker(qid, rows.workers)
    return rows._replace(of_queries=OfQueries(sizes, position, first))


def _with_queries(rows: EvalSet, group: Any, qid: Any, position: Any, prefix: str) -> EvalSet:
    """Return a set of rows with its queries, and weights of its rows."""
    n = _count_rows(rows.y, rows.names[1])
    sizes = read_queries(group, qid, n, prefix)
    weight = weight_of_rows(rows.weight, sizes, n)
    return rows._replace(weight=weight, of_queries=OfQueries(sizes, position))


def _count_rows(y: Any, name: str) -> int:
    shape = getattr(y, "shape", None)
    if shape is None:
        shape = (len(y),) if hasattr(y, "__len__") else np.asarray(y).shape
    if not len(shape):
        raise ValueError(f"{name} must have the relevance of each row of X, got {y!r}.")
    return int(shape[0])


def _read_position(position: Any, n_rows: int) -> np.ndarray:
    array = np.asarray(to_numpy(position))
    if array.shape != (n_rows,):
        raise ValueError(
            f"position must have the place of each of the {n_rows} rows of X, got shape "
            f"{array.shape}."
        )
    places = array.astype(np.float64) if array.dtype.kind in "iuf" else np.array([-1.0])
    if not ((places >= 0) & (places == np.floor(places)) & (places < n_rows)).all():
        raise ValueError(
            "position must hold whole numbers from 0, below the number of rows: places at which "
            f"documents were shown, got {position!r}."
        )
    return places
