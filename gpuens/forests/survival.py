"""Forests of survival trees: ``RandomSurvivalForest`` and ``ExtraSurvivalTrees``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device, module_of, to_numpy
from ..estimators.docstrings import EXPLAINED, FOREST, documented
from ..explanation.explainer import explained
from ..forest.forest import Forest
from ..inputs.arrays import to_input_library
from ..inputs.categories import read_features
from ..inputs.survival import Survival, read_survival
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.collective import Workers
from ..kernels.scalars import elementary
from ..kernels.scalars.primitives import vectorise
from ..members.samples import OutOfBag, left_out
from ..survival_metrics import concordance, curve_times
from ..trees.cart import CartRegressor
from ..trees.criteria import Problem, regression_problem
from ..trees.growth import clip
from ..trees.training_data import TrainingData
from ..trees.trees import DecisionTreeRegressor, ExtraTreeRegressor
from .estimator import ForestOfTrees
from .growing import ForestGrower, Progress, trees_of
from .hazards import LeafHazards, Timeline
from .out_of_bag import OOB_ATTRIBUTES
from .quantile import grown_with_records

exp = vectorise(elementary.exp)

FOREST_OF_TIMES = {
    "honest": "",
    "further": "",
    "leaf": "8",
    "criteria": """{"log_rank"}, default="log_rank"
        The variance of the log-rank scores.""",
    "features": '"sqrt"',
    "class_weight": "",
    "attributes": """oob_prediction_ : float64, shape (n_rows,)
        NaN for rows that are in every sample. ``oob_score_`` is the concordance.
    unique_times_ : float64, shape (n_times,)
        The times of events.""",
}


CURVES = """``monotonic_cst`` bounds the risks of ``predict``, not these curves.

    Parameters
    ----------
    X : array, sparse matrix or data frame, shape (n_rows, n_features)
        In any form that ``fit`` takes.
    times : array, shape (n_times,), default=None
        Not negative; ``unique_times_`` without it.

    Returns
    -------
    float64, shape (n_rows, n_times)
        In the array library of X; added up on the CPU."""


@dataclass(kw_only=True, eq=False, repr=False)
class ForestOfSurvivalTrees(CartRegressor, ForestOfTrees):
    """Trees that are grown by log-rank scores, with cumulative hazards in their leaves."""

    _criteria: ClassVar[dict[str, int]] = {"log_rank": CartRegressor._criteria["squared_error"]}
    _grows_among_workers = False

    criterion: str = "log_rank"
    min_samples_leaf: int | float = 8
    max_features: int | float | str | None = "sqrt"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the trees.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing.
        y : structured array, or tuple (event, time), default=None
            With a boolean field (whether the event was observed) and a field of times, as of
            scikit-survival.
        sample_weight : array of shape (n_rows,), default=None
            Factors on how often a row counts. Rows of weight zero are as if they were
            not there, except for the draws that they use up.

        Returns
        -------
        self
            Ctrl-C ends the growth early and keeps the trees that are finished.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        MemoryError
            The forest would not fit; the message says how large it would be.
        """
        survival = read_survival(y)
        weight = read_sample_weight(sample_weight, survival.time.size, CPU)
        timeline = Timeline.of(survival, weight)
        if timeline.times.size == 0:
            raise ValueError(
                "y has no event of positive weight, so that there is nothing to learn: pass rows "
                "whose event was observed too."
            )
        self._observed = survival, timeline
        try:
            return super().fit(X, timeline.scores(), sample_weight)
        finally:
            self.__dict__.pop("_observed", None)

    def _fit(self, X: Any, y: Any, sample_weight: Any, device: Device, workers: Workers) -> None:
        before = self._forest_before()
        super()._fit(X, y, sample_weight, device, workers)
        if "_grown" not in self.__dict__:  # a warm start that had nothing to add
            return
        data, records = self.__dict__.pop("_grown")
        survival, timeline = self._observed
        first = 0 if before is None else before.n_trees
        forest = self.forest_.slice(first, self.forest_.n_trees)
        hazards = LeafHazards.collect(forest, records, timeline)
        self._hazards: LeafHazards = hazards if before is None else self._hazards.joined(hazards)
        self.unique_times_ = timeline.times
        risks = self._hazards.with_mortality(self.forest_, self.unique_times_)
        value = risks.value.copy()
        clip(data.table, data.problem, risks, value)
        self.forest_ = replace(risks, value=value)
        if self.oob_score:
            self._set_out_of_bag(data, survival, device)

    def _report(self, data: TrainingData, before: Forest | None, device: Device) -> Any:
        """Only the progress: hazards are known after the growth."""
        return Progress(0 if before is None else before.n_trees, self.n_estimators, self.verbose)

    def _grow(self, grower: ForestGrower, first: int, n_new: int, report: Any) -> Forest:
        forest, records = grown_with_records(grower, first, n_new, report)
        self._grown = grower.data, records
        return forest

    def _set_out_of_bag(self, data: TrainingData, survival: Survival, device: Device) -> None:
        """Predict each row by the trees whose samples it is not in."""
        for name in OOB_ATTRIBUTES:
            self.__dict__.pop(name, None)
        total = OutOfBag(data.shape[0], 1, CPU)
        values: Any = data.values
        for t, tree in enumerate(trees_of(self.forest_)):
            rows = left_out(self._plan.counts(t, CPU))
            outside = values[module_of(values).asarray(rows)]  # on the host or the device
            raw = tree.raw_predict(outside, device)
            total.add(rows, to_numpy(raw).T)
        mean = total.mean()
        known = ~np.isnan(mean[:, 0])
        self.oob_prediction_: np.ndarray = mean[:, 0]
        metric = self.oob_score if callable(self.oob_score) else concordance
        truth = survival.event[known], survival.time[known]
        self.oob_score_: float = float(metric(truth, mean[known, 0]))

    def _problem(
        self, targets: list[Any], weight: Any, multiplicity: int, device: Device
    ) -> Problem:
        y = np.stack(targets)
        return regression_problem(y, weight, "squared_error", multiplicity, device)

    def _member(self, t: int) -> Any:
        return super()._member(t).set_params(criterion="squared_error")

    @documented(
        EXPLAINED,
        result="""float64, shape (n_rows,)
        In the array library of X.""",
    )
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict risks: the number of events that are expected of each row (Ishwaran et al. 2008),
        the mean over the trees of the cumulative hazard, summed over ``unique_times_``. Higher is
        earlier.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        check_is_fitted(self)
        return self._outputs(X, lambda mean, device: mean[0])

    @documented(CURVES)
    def predict_cumulative_hazard_function(self, X: Any, times: Any = None) -> Any:
        """Predict the cumulative hazard of each row until some times, the mean over the trees.

        <shared>
        """
        return self._curves(X, times, lambda hazard: hazard)

    @documented(CURVES)
    def predict_survival_function(self, X: Any, times: Any = None) -> Any:
        """Predict the probability that each row has no event until some times: the exponential of
        the negative cumulative hazard.

        <shared>
        """
        return self._curves(X, times, lambda hazard: exp(-hazard))

    def _curves(self, X: Any, times: Any, finish: Callable[[np.ndarray], np.ndarray]) -> Any:
        check_is_fitted(self)
        at = self.unique_times_ if times is None else curve_times(times)
        distinct, place = np.unique(at, return_inverse=True)
        device = self._device_to_predict(X)
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False)
            leaf = np.ascontiguousarray(to_numpy(self.forest_.apply(values, device)))
            hazard = self._hazards.mean(leaf, distinct)[:, place]
            return to_input_library(device.asarray(finish(hazard)), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return Harrell's concordance of the predictions (see
        ``gpuens.survival_metrics.concordance``).

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : structured array, or tuple (event, time)
            The true target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        return concordance(y, to_numpy(self.predict(X)), sample_weight=sample_weight)

    def oob_permutation_importance(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError: the errors of a tree are not those of the forest here.

        Parameters
        ----------
        *args, **kwargs : as for other forests
            Not read.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no out-of-bag importances: compare score(X, y) with and "
            "without the values of a feature shuffled, on rows held out."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


@documented(FOREST, bins="255", bootstrap="True", **FOREST_OF_TIMES)
@dataclass(kw_only=True, eq=False, repr=False)
class RandomSurvivalForest(ForestOfSurvivalTrees):
    """A random survival forest (Ishwaran et al. 2008): trees on bootstrap samples, whose nodes
    consider features drawn at random and whose leaves hold cumulative hazards.

    A split is the one that lowers the variance of the log-rank scores of its rows most (Hothorn
    and Lausen 2003). The scores are those of all training rows, computed once: their sums are
    additive, so that trees grow like those of a regression. scikit-survival computes the log-rank
    statistic of every node again; its concordance is nearly the same.

    <shared>

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import RandomSurvivalForest
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> time, censoring = rng.exponential(np.exp(X[:, 0])), rng.exponential(2.0, 300)
    >>> y = time <= censoring, np.minimum(time, censoring)
    >>> forest = RandomSurvivalForest(n_estimators=50, device="cpu").fit(X, y)
    >>> forest.score(X, y) > 0.7
    True
    """

    _tree_class = DecisionTreeRegressor


@documented(FOREST, bins="255", bootstrap="False", **FOREST_OF_TIMES)
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraSurvivalTrees(ForestOfSurvivalTrees):
    """Extremely randomised survival trees (Geurts et al. 2006; Ishwaran et al. 2008): a node
    considers one random cut of each of the features that it draws, and leaves hold cumulative
    hazards. Splits are chosen as by ``RandomSurvivalForest``.

    <shared>

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import ExtraSurvivalTrees
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> time, censoring = rng.exponential(np.exp(X[:, 0])), rng.exponential(2.0, 300)
    >>> y = time <= censoring, np.minimum(time, censoring)
    >>> trees = ExtraSurvivalTrees(n_estimators=50, device="cpu").fit(X, y)
    >>> trees.score(X, y) > 0.7
    True
    """

    _tree_class = ExtraTreeRegressor
    _random_splits = True

    bootstrap: bool = False
