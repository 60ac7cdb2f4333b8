"""Isolation forests: anomalies are rows that few random cuts separate from all others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..devices.placement import CPU, Device, to_numpy
from ..devices.policy import NO_WORK, Work, prediction_work, size_of
from ..estimators.base import ForestEstimator, kept_on_failure
from ..estimators.docstrings import EXPLAINED, FITTED, documented
from ..estimators.nothing_learned import Seen, features_vary, warn_if_no_split
from ..estimators.parameters import (
    COUNT,
    FLOAT_SHARE,
    SWITCH,
    TINY,
    VERBOSE,
    check_rules,
    fraction,
    one_of,
    seed_of,
    threads_of,
)
from ..explanation.explainer import explained
from ..forest.forest import Forest
from ..forest.sum_of_trees import Link, SumOfTrees
from ..inputs.arrays import to_input_library
from ..inputs.categories import read_features
from ..inputs.shared_tables import agreed_table
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.collective import ONE_WORKER, Workers, current_workers, rows_of_all
from ..kernels.scalars.isolation import average_path_length
from ..members.samples import SampledMembers, SamplingPlan, features_to_draw, made_members
from ..trees.growth import tree_key
from ..trees.sharing import device_to_grow_on, device_to_read_on, require_shareable, rows_of_workers
from ..trees.trees import ExtraTreeRegressor
from .growing import Progress, warn_of_interruption
from .isolation_trees import IsolationScores, depth_limit, grow_isolation_trees, local_features

AUTO_SAMPLES = 256


_RULES = {
    "n_estimators": COUNT,
    "max_samples": one_of("auto") | COUNT | FLOAT_SHARE,
    "contamination": one_of("auto") | fraction("a float in (0, 0.5]", TINY, 0.5),
    "max_features": COUNT | FLOAT_SHARE,
    "bootstrap": SWITCH,
    "warm_start": SWITCH,
    "verbose": VERBOSE,
}


def check_isolation_parameters(forest: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` is checked when it is resolved.
    Raises a ValueError or a TypeError that names the parameter, what it got and what it wants."""
    check_rules(forest, _RULES)
    threads_of(forest.n_jobs)


def isolation_plan(
    forest: Any, shape: tuple[int, int], weight: np.ndarray | None, seed: int
) -> SamplingPlan:
    """Return the plan of sampling by the parameters of an isolation forest; ``weight`` are the
    chances of the rows. Raises a ValueError if ``max_features`` exceeds the number of features, or
    ``max_samples`` without replacement the number of rows with a positive weight."""
    n_rows, n_features = shape
    drawable = n_rows
    if weight is not None and bool((weight == weight[0]).all()):
        weight = None  # gives the same samples, and faster
    if weight is not None and not forest.bootstrap:
        drawable = int(np.count_nonzero(weight))
        warnings.warn(
            f"When fitting {type(forest).__name__} with sample_weight it is recommended to use "
            "bootstrap=True, got bootstrap=False.",
            stacklevel=4,
        )
    n_draws = _rows_to_draw(forest.max_samples, n_rows, drawable)
    return SamplingPlan(
        n_rows=n_rows,
        n_draws=n_draws,
        replace=bool(forest.bootstrap),
        n_features=n_features,
        n_feature_draws=features_to_draw(forest.max_features, n_features),
        replace_features=False,
        weight=weight,
        seed=seed,
    )


def _rows_to_draw(wanted: Any, n_rows: int, drawable: int) -> int:
    """Return the size of a sample; ``drawable`` rows have a positive weight or may be repeated."""
    if wanted == "auto":
        return min(AUTO_SAMPLES, drawable)
    n_draws = max(1, int(wanted if isinstance(wanted, Integral) else wanted * n_rows))
    if n_draws > n_rows:
        warnings.warn(
            f"max_samples ({wanted}) is greater than the total number of samples ({n_rows}). "
            "max_samples will be set to n_samples for estimation.",
            stacklevel=5,
        )
        n_draws = n_rows
    if n_draws > drawable:
        raise ValueError(
            f"sample_weight is positive for {drawable} rows, fewer than the {n_draws} that are "
            "drawn without replacement for each tree. Lower max_samples, or set bootstrap=True."
        )
    return n_draws


@dataclass(kw_only=True, eq=False, repr=False)
class IsolationForest(OutlierMixin, SampledMembers, ForestEstimator):
    """An isolation forest, which finds anomalies (Liu, Ting and Zhou 2008).

    Every tree separates a small sample of the rows by cuts drawn at random: a feature, then a
    number between its smallest and its largest value in the node. Rows that lie apart are
    alone after few cuts. The score of a row compares the mean length of its paths through the
    trees with that of an unsuccessful search in a binary search tree of as many rows.

    Cuts are drawn between the values themselves, so there are no bins, and growth looks at
    sampled rows only: it takes time in proportion to ``n_estimators * max_samples``, however
    large X is. Features are numbers; encode categories before (for example with
    ``sklearn.preprocessing.OrdinalEncoder``).

    Parameters
    ----------
    Growing
        How many trees, of which rows and features, and what counts as an outlier.
    n_estimators : int, default=100
        Trees. More make scores depend less on chance.
    contamination : "auto" or float, default="auto"
        Share of the training rows that ``predict`` calls outliers, in (0, 0.5]; "auto": those
        with a score below -0.5, which are less deep than the average. Set it where that share is
        known; scores do not depend on it.
    max_samples : "auto", int or float, default="auto"
        Rows drawn for each tree, or their share; "auto": 256, or all where there are fewer. No
        tree is deeper than the binary logarithm of this. Raise it where outliers lie close to
        the other rows.
    max_features : int or float, default=1.0
        Features drawn for each tree, or their share.
    bootstrap : bool, default=False
        Whether rows are drawn with replacement.
    Running
        Where and how the trees are grown.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. None is a fixed seed: the same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if they are large
        enough for that to be faster (``gpuens.show_config()``), else stay.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.
    verbose : bool or int, default=0
        Above 0, where the work runs, why, and a progress bar are printed to standard error.
    warm_start : bool, default=False
        Whether ``fit`` adds to the existing trees until there are ``n_estimators``.

    Attributes
    ----------
    forest_ : Forest
        The trees, whose values are path lengths; ``forest_.fingerprint()`` is the same on every
        device.
    offset_ : float
        Rows with a score below it are outliers: -0.5, or by ``contamination``.
    max_samples_ : int
        Rows drawn for each tree.
    estimators_ : list of ExtraTreeRegressor
        The trees, one by one; they predict path lengths from the features in
        ``estimators_features_``.
    estimator_ : ExtraTreeRegressor
        An unfitted tree of this kind.
    estimators_samples_ : list of int64 ndarrays
        The rows of each tree's sample, ascending, with repetitions; drawn again on request.
    estimators_features_ : list of int64 ndarrays
        The features of each tree, ascending.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.

    References
    ----------
    Liu, Ting and Zhou, "Isolation Forest", ICDM 2008.

    Examples
    --------
    >>> from gpuens import IsolationForest
    >>> X = [[-1.1], [0.3], [0.5], [100]]
    >>> forest = IsolationForest(random_state=0, device="cpu").fit(X)
    >>> forest.predict([[0.1], [0], [90]]).tolist()
    [1, 1, -1]
    """

    n_estimators: int = 100
    max_samples: int | float | str = "auto"
    contamination: float | str = "auto"
    max_features: int | float = 1.0
    bootstrap: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: bool | int = 0
    warm_start: bool = False
    device: str = "auto"

    _averages_trees = True
    _takes_sparse = True
    _grows_among_workers = True

    @documented(FITTED, ends="")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> IsolationForest:
        """Grow the trees.

        Parameters
        ----------
        X : array, SciPy sparse matrix or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing. A sparse matrix is
            made dense in parts: the rows that are drawn, and blocks of those that are scored.
        y : None, default=None
            Has no effect.
        sample_weight : array of shape (n_rows,), default=None
            Chances of the rows to be drawn are proportional to it.

        <shared>
        """
        check_isolation_parameters(self)
        workers = current_workers()
        require_shareable(self, workers)
        device = device_to_grow_on(
            self.device, X, lambda table: self._training_work(table, y), workers,
            sample_weight=sample_weight,
        )  # fmt: skip
        self._report_choice(device)
        home = device_to_read_on(device, workers)
        with kept_on_failure(self), self._working_on(home):
            values = self._read(X, home, True, workers)
            self._fit(values, sample_weight, device, workers)
            self._scores = IsolationScores(self.forest_, self.max_samples_)
            self.offset_ = self._offset(values, device, workers)
        return self

    def _training_work(self, X: Any, y: Any) -> Work:
        """Return the work of scoring all rows; the trees grow on few of them."""
        scores = not isinstance(self.contamination, str)
        return prediction_work(size_of(X), 1).times(self.n_estimators) if scores else NO_WORK

    def _offset(self, values: Any, device: Device, workers: Workers) -> float:
        if isinstance(self.contamination, str):
            return -0.5
        with device.active():
            own = values if issparse(values) else device.asarray(values)
            scores = to_numpy(self._scores.of(own, device))
        scores = rows_of_workers(scores, workers)
        return float(np.percentile(scores, 100.0 * float(self.contamination)))

    def _sum_of_trees(self) -> SumOfTrees:
        trees = super()._sum_of_trees()
        slope = -1.0 / average_path_length(float(self.max_samples_))
        return replace(trees, link=Link("isolation", slope))

    def _read(self, X: Any, device: Device, reset: bool, workers: Workers = ONE_WORKER) -> Any:
        """Return features on the device, or as a CSR matrix."""
        if not issparse(X):
            values = read_features(X, device, estimator=self, reset=reset, workers=workers)
        else:
            if reset:
                self._categories = self.is_categorical_ = None
            values = validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset,
                ensure_all_finite=False,
            )  # fmt: skip
        return values if workers is ONE_WORKER else agreed_table(values, self, workers)

    def _fit(self, values: Any, sample_weight: Any, device: Device, workers: Workers) -> None:
        before: Forest | None = getattr(self, "forest_", None) if self.warm_start else None
        plans: list[SamplingPlan] = [] if before is None else self._plans
        n_own, n_features = values.shape
        weight = read_sample_weight(sample_weight, n_own, CPU, workers=workers)
        weight = rows_of_workers(weight, workers)
        seed = plans[0].seed if plans else seed_of(self.random_state)
        plan = isolation_plan(self, (rows_of_all(n_own, workers), n_features), weight, seed)
        self.max_samples_: int = plan.n_draws
        self._max_samples = plan.n_draws
        first = len(plans)
        if before is not None:
            self._check_warm_start(before, n_features)
        n_new = self.n_estimators - first
        if n_new == 0:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new trees.",
                stacklevel=3,
            )
            return
        progress = Progress(first, self.n_estimators, self.verbose)
        grown = grow_isolation_trees(values, plan, first, n_new, device, progress, workers)
        progress.finish()
        self.forest_ = grown if before is None else Forest.concatenate([before, grown])
        self._plans: list[SamplingPlan] = plans + [plan] * grown.n_trees
        if plan.n_rows > 1:
            seen = Seen(plan.n_draws, None, lambda: features_vary(values))
            warn_if_no_split(self, [self.forest_], lambda: seen)
        if before is None:
            self.__dict__.pop("_members", None)
        if grown.n_trees < n_new:
            warn_of_interruption(self.forest_.n_trees, stacklevel=3)

    def _check_warm_start(self, before: Forest, n_features: int) -> None:
        if self.n_estimators < before.n_trees:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the "
                f"{before.n_trees} trees that are there when warm_start==True. Raise it, or set "
                "warm_start=False to start again."
            )
        if n_features != before.n_features:
            raise ValueError(
                f"X has {n_features} features, the trees that exist know "
                f"{before.n_features}. Pass such data, or set warm_start=False to start again."
            )

    def score_samples(self, X: Any) -> Any:
        """Return how normal rows are.

        Parameters
        ----------
        X : array, SciPy sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,)
            Minus the anomaly score of the paper: from -1, anomalous, to nearly 0. In the array
            library of X.
        """
        return self._scored(X, lambda score, device: score)

    def decision_function(self, X: Any) -> Any:
        """Return ``score_samples(X) - offset_``, negative for outliers.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        return self._scored(X, lambda score, device: score - self.offset_)

    @documented(
        EXPLAINED,
        result="""int64, shape (n_rows,)
        -1 for outliers, 1 for all others. In the array library of X.""",
    )
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict whether rows are outliers.

        <shared>
        """

        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)

        def sign(score: Any, device: Device) -> Any:
            return device.xp.where(score - self.offset_ < 0, np.int64(-1), np.int64(1))

        return self._scored(X, sign)

    def _scored(self, X: Any, finish: Callable[[Any, Device], Any]) -> Any:
        """Return ``finish(scores, device)`` in the array library of X."""
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            score = self._scores.of(self._read(X, device, reset=False), device)
            return to_input_library(finish(score, device), X)

    @property
    def estimators_features_(self) -> list[np.ndarray]:
        """The features of each tree, ascending."""
        check_is_fitted(self)
        return [plan.features(t) for t, plan in enumerate(self._plans)]

    @property
    def estimator_(self) -> ExtraTreeRegressor:
        """An unfitted tree of the forest's kind."""
        check_is_fitted(self)
        return ExtraTreeRegressor(
            splitter="random", max_features=1, max_depth=depth_limit(self.max_samples_)
        )

    @property
    def estimators_(self) -> list[ExtraTreeRegressor]:
        """The trees, one by one; they predict path lengths."""
        check_is_fitted(self)
        return made_members(self, self.forest_.n_trees)

    def _member(self, t: int) -> ExtraTreeRegressor:
        plan = self._plans[t]
        member = self.estimator_.set_params(
            max_depth=depth_limit(plan.n_draws),
            random_state=tree_key(plan.seed, t),
            device=self.device,
        )
        member._categories = member.is_categorical_ = None
        member.n_features_in_ = plan.n_feature_draws
        member.n_outputs_ = member.max_features_ = 1
        member.forest_ = local_features(self.forest_.slice(t, t + 1), plan.features(t))
        return member

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
