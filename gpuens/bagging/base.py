"""Common base of ``BaggingClassifier`` and ``BaggingRegressor``."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device, home_of, report_choice, to_numpy
from ..devices.policy import Work
from ..estimators.base import Exportable, Savable, kept_on_failure
from ..estimators.docstrings import FITTED, documented
from ..estimators.nothing_learned import of_ensemble, warn_if_members_have_no_split
from ..estimators.parameters import seed_of, threads_of
from ..forest.forest import Forest
from ..forest.sum_of_trees import IDENTITY, NotASumOfTreesError, SumOfTrees
from ..inputs.arrays import is_frame, to_input_library
from ..inputs.categories import read_features as read_table_of_trees
from ..inputs.shared_tables import agreed_table
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.collective import ONE_WORKER, Workers, current_workers, rows_of_all
from ..kernels.runtime.cpu.team import using_threads
from ..members.averaged import averaged_model
from ..members.fitting import (
    device_for,
    fit_members,
    grows_batches,
    in_order,
    input_tags,
    jobs_for,
    prediction_work_of,
    read_features,
    training_work,
)
from ..members.out_of_bag import OutOfBagTrees
from ..members.samples import (
    OutOfBag,
    SampledMembers,
    SamplingPlan,
    left_out,
    rows_of_share,
    sampling_plan,
)
from ..trees.on_host import growth_on_host
from ..trees.sharing import device_to_grow_on, device_to_read_on, refuse, rows_of_workers
from .parameters import check_bagging_parameters, check_columns

_joined: WeakKeyDictionary[Any, tuple[list[Any], Forest]] = WeakKeyDictionary()
"""The members of each bag and the forest of all their trees. They are not kept in the bag:
prediction must not change it, and it would be saved with every tree twice."""


def joined_forest(bag: Any) -> Forest | None:
    """Return the trees of all members, None if these are not trees that see the whole table.
    Prediction then passes over the rows once: with 100 trees grown on 20,000 rows of 10 features,
    ``predict_proba`` of 1, 1000 and 20,000 rows is 80, 40 and 4 times as fast on two cores."""
    members = bag.estimators_
    known = _joined.get(bag)
    if known is not None and len(known[0]) == len(members):
        if all(a is b for a, b in zip(known[0], members, strict=True)):
            return known[1]
    pairs = zip(members, bag.estimators_features_, strict=True)
    if not all(_is_whole(member, features, bag) for member, features in pairs):
        return None
    forest = Forest.concatenate([member.forest_ for member in members])
    _joined[bag] = list(members), forest
    return forest


def mean_of_trees(forest: Forest, member: Any, X: Any, device: Device) -> Any:
    """Return the mean of what all trees predict, (n_rows, width); ``member``, one of them, reads
    X."""
    with using_threads(threads_of(member.n_jobs)):
        table = read_table_of_trees(X, device, estimator=member, reset=False)
        return forest.raw_predict(table, device).T / forest.n_trees


def _is_whole(member: Any, features: np.ndarray, bag: Any) -> bool:
    """Return whether a member is a tree that has seen all features and classes."""
    if not (hasattr(member, "_fit_batch") and isinstance(getattr(member, "forest_", None), Forest)):
        return False
    if getattr(member, "_categories", None) is not getattr(bag.estimators_[0], "_categories", None):
        return False  # fitted on different rows, whose categories have other numbers
    sees_all = np.array_equal(features, np.arange(bag.n_features_in_))
    return sees_all and len(getattr(member, "classes_", ())) == getattr(bag, "n_classes_", 0)


def _require_trees(bag: Any, base: Any, plan: SamplingPlan, values: Any) -> None:
    """Raise NotImplementedError for members that workers which share the rows do not train."""
    if not grows_batches(base, plan, values):
        if not grows_batches(base, replace(plan, weight=None, n_draws=1), values):
            refuse("estimator", bag.estimator, "use a tree of gpuens")
        what = "max_samples" if plan.weight is None else "sample_weight"
        value = bag.max_samples if plan.weight is None else "array"
        refuse(what, value, "rows may be drawn more often than workers count: use other samples")
    if not plan.sees_all_features:
        refuse(
            "max_features", bag.max_features,
            "set max_features=1.0 and bootstrap_features=False, or max_features of the trees",
        )  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class Bagging(SampledMembers, Savable, Exportable, MetaEstimatorMixin, BaseEstimator):
    """Estimators on samples of the rows and features, averaged or voting."""

    estimator: Any = field(default=None, kw_only=False)
    n_estimators: int = field(default=10, kw_only=False)
    max_samples: int | float | None = None
    max_features: int | float = 1.0
    bootstrap: bool = True
    bootstrap_features: bool = False
    oob_score: Any = False
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    device: str = "auto"

    @documented(FITTED, ends="")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the members.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            Members decide about sparse matrices, missing values and types.
        y : array, shape (n_rows,)
            For a regressor also (n_rows, n_outputs), if the members take that.
        sample_weight : array of shape (n_rows,), default=None
            Chances of the rows to be drawn are proportional to it.

        <shared>
        """
        check_bagging_parameters(self)
        base = self._base_estimator()
        others = {"y": y, "sample_weight": sample_weight}
        workers = current_workers()
        if workers is ONE_WORKER:
            work = self._training_work(X, y)
            device = device_for(base, self.device, X, work=work, **others)
        else:
            of_table = partial(self._training_work, y=y)
            device = device_to_grow_on(self.device, X, of_table, workers, **others)
        if self.verbose:
            report_choice(device)
        home = device_to_read_on(device, workers)
        with growth_on_host(device, base), kept_on_failure(self), home.active():
            return self._fit(X, y, sample_weight, base, device, workers)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, base: Any, device: Device, workers: Workers
    ) -> Any:
        members, plans, features = self._before()
        sparse = input_tags(base).sparse
        grown_on, device = device, device_to_read_on(device, workers)
        home = home_of(X, device)
        values = read_features(X, home, estimator=self, reset=not members, sparse=sparse)
        if workers is not ONE_WORKER and not is_frame(values):
            values = agreed_table(values, self, workers)
        n_own = values.shape[0]
        target = self._read_y(y, n_own, device, bool(members), workers)
        weight = read_sample_weight(sample_weight, n_own, CPU, workers=workers)
        weight = rows_of_workers(weight, workers)
        plan = self._new_plan(base, plans, values, weight, workers)
        first = len(members)
        if first == self.n_estimators:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new members.",
                stacklevel=3,
            )
            return self
        new = range(first, self.n_estimators)
        if self.oob_score or not grows_batches(base, plan, values):
            is_array = not (issparse(values) or is_frame(values))
            values = device.asarray(values) if is_array else values
        self._max_samples = plan.n_draws
        self.estimator_ = base
        own = grown_on.asarray(rows_of_share(target, workers))
        with of_ensemble():
            self.estimators_ = members + fit_members(
                base, plan, new, values, own, grown_on, self.n_jobs, self.verbose
            )
        self._plans = plans + [plan] * len(new)
        self.estimators_features_ = features + [plan.features(member) for member in new]
        if self.oob_score:
            self._set_oob_score(values, target, device, workers)
        warn_if_members_have_no_split(base, self.estimators_, values, target, plan.n_draws, weight)
        return self

    def _new_plan(
        self, base: Any, plans: list[SamplingPlan], values: Any, weight: Any, workers: Workers
    ) -> SamplingPlan:
        """Return what further members see, with the seed of those before, if base can have it."""
        seed = plans[0].seed if plans else seed_of(self.random_state)
        plan = sampling_plan(self, rows_of_all(values.shape[0], workers), weight, seed)
        if not plan.sees_all_features:
            check_columns(base)
        if workers is not ONE_WORKER:
            _require_trees(self, base, plan, values)
        return plan

    def averaged(self) -> Any:
        """Return boosted members as one model of their kind: the mean of their raw predictions.

        Its ``forest_`` has the trees of all members, with values divided by their number. So it
        predicts in one pass, is saved in a file that is read without the bag, has one Shapley value
        for each feature, and can be exported. ``decision_function`` is the mean of those of the
        members. Predictions are computed from the mean: probabilities, and counts or amounts of
        losses with a logarithmic link, differ from those of the bag, which averages predictions.

        Returns
        -------
        GradientBoostingClassifier or GradientBoostingRegressor
            Fitted; the bag does not change. ``n_iter_`` counts the rounds of all members, which
            staged predictions pass one member after the other; ``evals_result_`` is empty.

        Raises
        ------
        TypeError
            The members are not boosted models of this package.
        ValueError
            Members see a part of the features, lack classes, begin with ``init``, or have a
            baseline hazard of their own (``loss="cox"``).
        """
        check_is_fitted(self)
        members = self.estimators_
        others = [own for own in members if not hasattr(type(own), "n_trees_per_iteration_")]
        if others:
            raise TypeError(
                f"averaged() is for bags of gradient boosting of gpuens, got members of type "
                f"{type(others[0]).__name__}. Predict with the bag."
            )
        everything = np.arange(self.n_features_in_)
        if not all(np.array_equal(own, everything) for own in self.estimators_features_):
            raise ValueError(
                f"averaged() needs members that see all features, got max_features="
                f"{self.max_features} and bootstrap_features={self.bootstrap_features}: set "
                "max_features=1.0, bootstrap_features=False, and colsample_bytree of the members."
            )
        model = averaged_model(members)
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return self._with_labels(model)

    def _with_labels(self, model: Any) -> Any:
        """Give a model that was fitted as a member the labels of the classes."""
        return model

    def _training_work(self, X: Any, y: Any) -> Work | None:
        return training_work(self._base_estimator(), X, y, self.n_estimators)

    def _prediction_work(self, X: Any) -> Work | None:
        return prediction_work_of(self.estimators_, X)

    def _before(self) -> tuple[list[Any], list[SamplingPlan], list[np.ndarray]]:
        """Return the members that a warm start continues from, with their plans and features."""
        for name in ("oob_score_", "oob_decision_function_", "oob_prediction_"):
            self.__dict__.pop(name, None)
        if not (self.warm_start and hasattr(self, "estimators_")):
            return [], [], []
        if len(self.estimators_) > self.n_estimators:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to "
                f"len(estimators_)={len(self.estimators_)} when warm_start==True. Raise it, or "
                "set warm_start=False to start again."
            )
        return self.estimators_, self._plans, self.estimators_features_

    def _set_oob_score(self, values: Any, target: Any, device: Device, workers: Workers) -> None:
        out_of_bag = self._out_of_bag(values, target, device, workers)
        self._score_out_of_bag(out_of_bag.mean(), to_numpy(target))

    def _out_of_bag(self, values: Any, target: Any, device: Device, workers: Workers) -> OutOfBag:
        """Return the sums of the predictions for the rows outside the members' samples."""
        width = self._width(target)
        forest = joined_forest(self) if self._averages_values() else None
        if forest is not None:
            member = self.estimators_[0]
            with using_threads(threads_of(member.n_jobs)):
                table = read_table_of_trees(values, device, estimator=member, reset=False)
                nothing = np.empty((0, 0))
                trees = OutOfBagTrees(table, self._counts_of, nothing, (), width, device, workers)
                trees.add(0, forest)
            return trees.of_all_rows()
        rows = (
            left_out(rows_of_share(plan.counts(m, device), workers))
            for m, plan in enumerate(self._plans)
        )
        tasks = (
            (member, features, values, asked)
            for member, features, asked in zip(
                self.estimators_, self.estimators_features_, rows, strict=True
            )
            if asked.size
        )
        out_of_bag = OutOfBag(values.shape[0], width, device)
        n_jobs = jobs_for(values, device, self.n_jobs)
        for (*_, asked), answer in in_order(self._ask(device), tasks, n_jobs):
            out_of_bag.add(asked, answer)
        return OutOfBag.of_workers(out_of_bag, workers)

    def _counts_of(self, member: int, device: Device) -> Any:
        return self._plans[member].counts(member, device)

    @contextmanager
    def _asking(self, X: Any) -> Iterator[tuple[Any, Device]]:
        """Yield X in the form that members get, and its device, which is active inside."""
        check_is_fitted(self)
        device = device_for(self.estimator_, self.device, X, work=self._prediction_work(X))
        with device.active():
            sparse = input_tags(self.estimator_).sparse
            yield read_features(X, device, estimator=self, reset=False, sparse=sparse), device

    def _answers(self, ask: Callable[..., Any], values: Any, device: Device) -> Iterator[Any]:
        """Iterate over the predictions of the members."""
        tasks = (
            (member, features, values, None)
            for member, features in zip(self.estimators_, self.estimators_features_, strict=True)
        )
        n_jobs = jobs_for(values, device, self.n_jobs)
        return (answer for _, answer in in_order(ask, tasks, n_jobs))

    def _predict(self, X: Any, finish: Callable[[Any, Device], Any]) -> Any:
        """Return ``finish(mean of the members, device)`` in the array library of X."""
        with self._asking(X) as (values, device):
            return to_input_library(finish(self._mean(values, device), device), X)

    def _mean(self, values: Any, device: Device) -> Any:
        forest = joined_forest(self) if self._averages_values() else None
        if forest is not None:
            return mean_of_trees(forest, self.estimators_[0], values, device)
        return sum(self._answers(self._ask(device), values, device)) / len(self)

    def _sum_of_trees(self) -> SumOfTrees:
        """Describe the mean over the trees of all members."""
        check_is_fitted(self)
        forest = joined_forest(self) if self._averages_values() else None
        if forest is None:
            raise NotASumOfTreesError(
                "its members are not trees of this package that see all features, or they vote"
            )
        member = self.estimators_[0]

        def read(X: Any, device: Device, name: str) -> Any:
            sparse = input_tags(self.estimator_).sparse
            values = read_features(X, device, estimator=self, reset=False, sparse=sparse)
            return read_table_of_trees(values, device, estimator=member, reset=False)

        of_member = member._sum_of_trees()
        n_trees = forest.n_trees
        return replace(
            of_member, forest=forest, base=forest.base, scale=1.0 / n_trees, n_averaged=n_trees,
            link=IDENTITY, read=read,
        )  # fmt: skip

    def _averages_values(self) -> bool:
        """Return whether the members' values are averaged, and not their votes."""
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_members = input_tags(self._base_estimator())
        tags.input_tags.sparse = of_members.sparse
        tags.input_tags.allow_nan = of_members.allow_nan
        tags.array_api_support = True
        return tags

    @abstractmethod
    def _base_estimator(self) -> Any:
        """Return the parameter ``estimator``, or its default."""

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool, workers: Workers) -> Any:
        """Read the target in the form that members get."""

    @abstractmethod
    def _width(self, target: Any) -> int:
        """Return the number of columns of a prediction."""

    @abstractmethod
    def _ask(self, device: Device) -> Callable[..., Any]:
        """Return ``(member, features, X, rows) -> array``, which is averaged over the members."""

    @abstractmethod
    def _score_out_of_bag(self, mean: np.ndarray, target: np.ndarray) -> None:
        """Set the attributes about the rows that members did not see."""

    def _metric(self, default: Callable[..., Any]) -> Callable[..., Any]:
        return self.oob_score if callable(self.oob_score) else default
