"""The base class of AdaBoost, and checks of its parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..callbacks import callbacks_of
from ..devices.placement import Device, is_sparse, to_numpy
from ..devices.policy import Work, prediction_work, size_of
from ..estimators.base import Exportable
from ..estimators.docstrings import ENDS_EARLY, FITTED, documented
from ..estimators.nothing_learned import warn_if_members_have_no_split
from ..estimators.parameters import (
    COUNT,
    NONE,
    POSITIVE,
    SWITCH,
    VERBOSE,
    check_callbacks,
    check_learner,
    check_rules,
    integer,
    one_of,
    seed_of,
    threads_of,
)
from ..estimators.sequential import SequentialEnsemble
from ..forest.forest import Forest
from ..forest.structure import tree_importances
from ..forest.sum_of_trees import NotASumOfTreesError, SumOfTrees
from ..inputs.arrays import dense_table, to_input_library
from ..inputs.categories import read_features
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import MAX_BINS
from ..members.fitting import device_for, input_tags, prediction_work_of, training_work
from ..trees.on_host import growth_on_host
from .learners import AnyLearners, TreeLearners, are_trees, member_seeds, read_any, trees_of
from .rounds import R2, AdaBoostResult, RowWeights, Samme, boost

RULES = {
    "n_estimators": COUNT,
    "learning_rate": POSITIVE,
    "loss": one_of("linear", "square", "exponential"),
    "max_bins": NONE | integer(2, MAX_BINS),
    "warm_start": SWITCH,
    "verbose": VERBOSE,
}

ADABOOST = """Parameters
    ----------
    Boosting
        The learners, and how many of them.
    estimator : estimator or None, default=None
        <base>
        This package's trees are grown on a table that is binned once, and kept as one forest.
        Deeper trees fit interactions, and need fewer rounds.
    n_estimators : int, default=50
        Largest number of rounds. Raise it for simple learners, such as stumps.
    learning_rate : float, default=1.0
        Factor on the weight of each learner, and on the exponent by which it changes the weights
        of the rows. Lower it for noisy labels or targets, with more rounds.
    <loss>max_bins : int or None, default=255
        For the trees of ``estimator=None``: a feature with more distinct values is cut into this
        many bins. None: every midpoint between neighbouring values can be a threshold.
    Running
        Where and how training runs.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, and of the ``random_state`` of each learner. None is a fixed seed: the
        same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU where the learners are trees of this package; None uses all that the
        process may use. The model does not depend on it.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work. "auto" follows the arrays where the learners are of this package, cuML
        or XGBoost, and brings them to the host for all others. Host arrays go to a usable GPU if
        the learners are of this package and it would be faster (``gpuens.show_config()``).
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.
    verbose : bool or int, default=0
        Above 0, where the work runs, a progress bar with the errors of the learners, and why the
        training ended are printed to standard error.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the rounds of the last call, to the model of a single one.
    callbacks : list or None, default=None
        Functions of the state after a round, or objects with ``after_iteration(state)``, see
        ``gpuens.callbacks``. A true result stops the training.
        ``state.evals["training"]["learner_error"]`` holds the errors of the learners, after that
        of guessing.

    Attributes
    ----------
    estimator_ : estimator
        The estimator that was cloned for each round.
    estimators_ : list of estimators
        The learners.
    estimator_weights_ : float64, shape (n_rounds,)
        <estimator_weights>
    estimator_errors_ : float64, shape (n_rounds,)
        <estimator_errors>
    forest_ : Forest
        Only where the learners are trees of this package. <forest>
        ``forest_.fingerprint()`` is the same on every device.
    feature_importances_ : float64, shape (n_features,)
        Mean of the learners' importances by their weights; only where all learners have them.
    stopped_ : str
        Why the training ended: "finished", "perfect learner", "weak learner", "infinite
        weights", "callback", "interrupted", or "error", of a callback.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostParameters:
    """The parameters of the classifier and the regressor."""

    estimator: Any = field(default=None, kw_only=False)
    n_estimators: int = 50
    learning_rate: float = 1.0
    max_bins: int | None = 255
    warm_start: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"
    verbose: bool | int = 0
    callbacks: Any = None


class AdaBoost(Exportable, AdaBoostParameters, SequentialEnsemble):
    """The base class of the classifier and the regressor."""

    _takes_sparse = _keeps_sparse = True
    _default_base: Callable[..., Any]
    _categories: Any
    _members: list[Any]
    _seed: int
    forest_: Forest

    @documented(FITTED, ends=ENDS_EARLY)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Boost.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            For trees NumPy, CuPy, torch, pandas, polars or pyarrow, with NaN for missing values.
            Other learners validate X themselves.
        y : array, shape (n_rows,)
            The target: labels for a classifier, numbers for a regressor.
        sample_weight : array of shape (n_rows,), default=None
            The weights of the rows in the first round, up to a factor. Rows of weight zero are as
            if they were not there.

        <shared>
        """
        check_rules(self, RULES)
        check_callbacks(self.callbacks)
        threads_of(self.n_jobs)
        base = self._base_estimator()
        check_learner(base)
        self._check_base(base)
        work = self._training_work(X, y)
        device = device_for(base, self.device, X, work=work, y=y, sample_weight=sample_weight)
        self._report_choice(device, f"At most {self.n_estimators} rounds.")
        with growth_on_host(device, base):
            return self._train(device, X, y, sample_weight, base)

    def _training_work(self, X: Any, y: Any) -> Work | None:
        return training_work(self._base_estimator(), X, y, self.n_estimators)

    def _prediction_work(self, X: Any) -> Work | None:
        if hasattr(self, "forest_"):
            return prediction_work(size_of(X), self.forest_.n_trees)
        return prediction_work_of(self._members, X)

    def _fit(self, X: Any, y: Any, sample_weight: Any, base: Any, device: Device) -> Any:
        grows = are_trees(base)
        rounds = self._rounds_before(grows)
        before = None
        if rounds.weights.size:
            before = self._trees if grows else self._members
        else:
            self._seed = seed_of(self.random_state)
        kind: type[Any] = TreeLearners if grows else AnyLearners
        learners = kind(self, base, X, device, before)
        target = self._read_y(y, learners.n_rows, device, before is not None)
        weight = read_sample_weight(sample_weight, learners.n_rows, device)
        if weight is not None and not bool((weight > 0).all()):
            used = np.flatnonzero(to_numpy(weight))
            learners.take(used)
            at = device.asarray(used)
            target, weight = target[at], weight[at]
        rows = RowWeights(weight, learners.n_rows, device)
        learners.start(target, rows)
        result = boost(
            learners,
            self._rule(target, device),
            rows,
            int(self.n_estimators),
            rounds,
            callbacks_of(self),
            lambda so_far: self._snapshot(learners, so_far, base),
        )
        self._finish(learners, result, base)
        members = [self] if hasattr(self, "forest_") else self.estimators_
        n_rows = learners.n_rows
        warn_if_members_have_no_split(base, members, learners.values, target, n_rows, weight)
        return result.error

    def _rounds_before(self, grows: bool) -> AdaBoostResult:
        """Return the rounds that a warm start goes on from."""
        if not self._goes_on_from(getattr(self, "estimator_weights_", np.empty(0)).size):
            return AdaBoostResult(np.empty(0), np.empty(0))
        if grows != hasattr(self, "forest_"):
            raise ValueError(
                "warm_start=True goes on from the learners of the last call, but they are copies "
                f"of {self.estimator_!r}, which are kept in another way. Set warm_start=False to "
                "start again."
            )
        return AdaBoostResult(self.estimator_weights_, self.estimator_errors_, self.stopped_)

    def _finish(self, learners: Any, result: AdaBoostResult, base: Any) -> Any:
        for name in ("forest_", "_trees", "_members"):
            self.__dict__.pop(name, None)
        learners.set_on(self, result.weights)
        self.estimator_ = base
        self.estimator_weights_, self.estimator_errors_ = result.weights, result.errors
        self.stopped_ = result.stopped
        return self

    @contextmanager
    def _asking(self, X: Any) -> Iterator[tuple[Any, Device]]:
        """Yield X as the learners get it, and its device, which is active inside."""
        check_is_fitted(self)
        device = device_for(self.estimator_, self.device, X, work=self._prediction_work(X))
        with self._working_on(device):
            if hasattr(self, "forest_"):
                values = read_features(X, device, estimator=self, reset=False)
            else:
                values = read_any(X, device, estimator=self, base=self.estimator_, reset=False)
            yield values, device

    @property
    def estimators_(self) -> list[Any]:  # type: ignore[override]
        """The learners, one by one."""
        check_is_fitted(self)
        if "_members" not in self.__dict__:
            self._members = list(self._make_members())
        return self._members

    def _make_members(self) -> Iterator[Any]:
        """Yield the trees as estimators."""
        for t, tree in enumerate(trees_of(self._trees)):
            (seed,) = member_seeds(self._seed, t, 1)
            member = clone(self.estimator_).set_params(random_state=seed)
            member._categories = self._categories
            member.is_categorical_ = self.is_categorical_
            member.n_features_in_ = self.n_features_in_
            member.n_outputs_ = 1
            self._describe_member(member)
            member._keep(tree)
            yield member

    def _describe_member(self, member: Any) -> None:
        """Set attributes beyond those of every tree."""

    def _importances_of_members(self) -> np.ndarray:
        own = hasattr(self, "forest_")
        return tree_importances(self._trees) if own else super()._importances_of_members()

    def _rows_of(self, X: Any, device: Device, name: str) -> Any:
        """Read rows as trees take them."""
        X = dense_table(X, name) if is_sparse(X) else X
        return read_features(X, device, estimator=self, reset=False, name=name)

    def _sum_of_trees(self) -> SumOfTrees:
        """Describe the votes of trees, which classifiers have."""
        check_is_fitted(self)
        raise NotASumOfTreesError(
            "it predicts the weighted median of its learners, or of learners that are not trees of "
            "this package"
        )

    @available_if(lambda self: hasattr(self, "forest_") or not hasattr(self, "estimator_weights_"))
    def apply(self, X: Any) -> Any:
        """Return the leaf that each row ends in, where the learners are trees of this package.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        int32, shape (n_rows, n_rounds)
            Node numbers counted from the root of each tree.
        """
        with self._asking(X) as (values, device):
            return to_input_library(self.forest_.apply(values, device), X)

    @abstractmethod
    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield predictions after every round, as from ``predict``."""

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Yield scores after every round, as from ``score``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,)
            The true target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.
        """
        for predicted in self.staged_predict(X):
            yield self._score_of(y, predicted, sample_weight)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        derived = "_members" if hasattr(self, "forest_") else ""
        return {name: value for name, value in state.items() if name != derived}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_learners = input_tags(self._base_estimator())
        tags.input_tags.sparse = of_learners.sparse
        tags.input_tags.allow_nan = of_learners.allow_nan
        return tags

    def _base_estimator(self) -> Any:
        """Return the parameter ``estimator``, or the tree that None stands for."""
        if self.estimator is not None:
            return self.estimator
        settings = {"max_bins": self.max_bins, "n_jobs": self.n_jobs, "device": self.device}
        return type(self)._default_base(**settings)

    @abstractmethod
    def _check_base(self, base: Any) -> None:
        """Raise an error for base estimators that cannot work."""

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Array:
        """Read the target: class numbers or float64."""

    @abstractmethod
    def _rule(self, target: Array, device: Device) -> Samme | R2:
        """Return the variant of AdaBoost."""

    @abstractmethod
    def _score_of(self, y: Any, predicted: Any, sample_weight: Any) -> float:
        """Score predictions."""


def check_classifier(base: Any) -> None:
    """Raise a TypeError if a base estimator is a regressor, a ValueError if its ``fit`` takes no
    weights."""
    check_not_regressor(base, "AdaBoostRegressor")
    if not has_fit_parameter(base, "sample_weight"):
        raise ValueError(
            f"{type(base).__name__} doesn't support sample_weight, by which AdaBoost directs its "
            "learners to the rows that matter. Use an estimator whose fit takes sample_weight, or "
            "BaggingClassifier, which does without."
        )


def check_not_regressor(base: Any, instead: str) -> None:
    """Raise a TypeError if a base estimator is a regressor; ``instead`` takes those."""
    if hasattr(base, "__sklearn_tags__") and is_regressor(base):
        raise TypeError(
            f"estimator must be a classifier, got {base!r}, which is a regressor. Use {instead}."
        )


def check_regressor(base: Any) -> None:
    """Raise a TypeError if a base estimator is a classifier."""
    if hasattr(base, "__sklearn_tags__") and is_classifier(base):
        raise TypeError(
            f"estimator must be a regressor, got {base!r}, which is a classifier. Use "
            "AdaBoostClassifier."
        )
