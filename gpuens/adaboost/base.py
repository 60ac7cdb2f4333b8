"""The base class of AdaBoost, and checks of its parameters."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..callbacks import callbacks_of
from ..devices.placement import Device, to_numpy
from ..estimators.all_or_nothing import kept_on_failure
from ..estimators.base import Savable
from ..estimators.parameters import check_callbacks, is_bool, is_count, seed_of, threads_of
from ..forest.forest import Forest
from ..forest.structure import tree_importances
from ..inputs.arrays import to_input_library
from ..inputs.categories import read_features
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.cpu.team import using_threads
from ..kernels.runtime.dtypes import MAX_BINS
from ..members.fitting import device_for, input_tags
from .learners import are_trees, member_seeds, read_any, trees_of
from .rounds import AdaBoostResult, RowWeights, Rule, boost

ADABOOST = """Parameters
    ----------
    estimator : estimator or None, default=None
        <base>
        This package's trees are grown on a table that is binned once, and kept as one forest.
    n_estimators : int, default=50
        Most rounds.
    learning_rate : float, default=1.0
        The weight of a learner, and the exponent by which it changes those of the rows, are this
        times what the algorithm says.
    <loss>max_bins : int or None, default=255
        Of the trees where ``estimator`` is None: a feature with more distinct values is cut into
        so many bins. None: every midpoint between neighbouring values can be a threshold.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the rounds that are there, to the model that one call gives.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, and of the ``random_state`` of each learner. None is a fixed seed: the
        same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU where the learners are trees of this package; None uses all that the
        process may use. The model does not depend on it.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to work. "auto" follows the arrays where the learners are of this package, cuML
        or XGBoost, and takes all others to the host.
    verbose : bool or int, default=0
        Whether to show a progress bar with the errors of the learners.
    callbacks : list or None, default=None
        Functions of the state after a round, or objects with ``after_iteration(state)``, see
        ``gpuens.callbacks``. A true result stops the training.
        ``state.evals["training"]["learner_error"]`` holds the errors of the learners, after that
        of guessing.

    Attributes
    ----------
    estimator_ : estimator
        What was cloned for each round.
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
        Mean of the learners' importances, by their weights; where they have some.
    stopped_ : str
        Why the training ended: "finished", "perfect learner", "weak learner", "infinite
        weights", "callback", "interrupted", or "error", of a callback.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""


def _has_forest(model: Any) -> bool:
    return hasattr(model, "forest_") or not hasattr(model, "estimator_weights_")


class AdaBoost(Savable, MetaEstimatorMixin, BaseEstimator):
    """What the classifier and the regressor share."""

    _takes_sparse = True
    _categories: Any
    _members: list[Any]
    _seed: int
    forest_: Forest

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Boost.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            For trees NumPy, CuPy, torch, pandas, polars or pyarrow, with NaN for missing values;
            what other learners take is their business.
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None
            The weights of the rows in the first round, up to a factor. Rows of weight zero keep
            it.

        Returns
        -------
        self
            Ctrl-C ends the training early and keeps the finished rounds; so does an error in a
            callback, which is raised afterwards.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        """
        check_adaboost_parameters(self)
        base = self._base_estimator()
        self._check_base(base)
        device = device_for(base, self.device, X, y=y, sample_weight=sample_weight)
        with kept_on_failure(self), self._working_on(device):
            error = self._fit(X, y, sample_weight, base, device)
        if error is not None:
            raise error
        return self

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, base: Any, device: Device
    ) -> Exception | None:
        """Train, and return the error of a callback."""
        grows = are_trees(base)
        rounds = self._rounds_before(grows)
        before = None
        if rounds.weights.size:
            before = self._trees if grows else self._members
        else:
            self._seed = seed_of(self.random_state)
        learners = self._learners(grows)(self, base, X, device, before)
        target = self._read_y(y, learners.n_rows, device, before is not None)
        weight = read_sample_weight(sample_weight, learners.n_rows, device, estimator=self)
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
        return result.error

    def _rounds_before(self, grows: bool) -> AdaBoostResult:
        """The rounds that a warm start goes on from."""
        if not (self.warm_start and hasattr(self, "estimator_weights_")):
            return AdaBoostResult(np.empty(0), np.empty(0))
        if self.n_estimators < self.estimator_weights_.size:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the "
                f"{self.estimator_weights_.size} rounds of the model that warm_start=True goes on "
                "from. Raise it, or set warm_start=False to start anew."
            )
        if grows != hasattr(self, "forest_"):
            raise ValueError(
                "warm_start=True goes on from the learners that are there, but they are copies of "
                f"{self.estimator_!r}, which are kept in another way. Set warm_start=False to "
                "start anew."
            )
        return AdaBoostResult(self.estimator_weights_, self.estimator_errors_, self.stopped_)

    def _snapshot(self, learners: Any, so_far: AdaBoostResult, base: Any) -> Any:
        """A fitted copy with the rounds so far, without the callbacks, for checkpoints."""
        model = copy.copy(self)
        model.callbacks = None
        return model._finish(learners, so_far, base)

    def _finish(self, learners: Any, result: AdaBoostResult, base: Any) -> Any:
        for name in ("forest_", "_trees", "_members"):
            self.__dict__.pop(name, None)
        learners.set_on(self, result.weights)
        self.estimator_ = base
        self.estimator_weights_, self.estimator_errors_ = result.weights, result.errors
        self.stopped_ = result.stopped
        return self

    @contextmanager
    def _working_on(self, device: Device) -> Iterator[None]:
        with using_threads(threads_of(self.n_jobs)), device.active():
            yield

    @contextmanager
    def _asking(self, X: Any) -> Iterator[tuple[Any, Device]]:
        """X as the learners get it, and its device, which is active inside."""
        check_is_fitted(self)
        device = device_for(self.estimator_, self.device, X)
        with self._working_on(device):
            if hasattr(self, "forest_"):
                values = read_features(X, device, estimator=self, reset=False).values
            else:
                values = read_any(X, device, estimator=self, base=self.estimator_, reset=False)
            yield values, device

    @property
    def estimators_(self) -> list[Any]:
        """The learners, one by one."""
        check_is_fitted(self)
        if "_members" not in self.__dict__:
            self._members = list(self._make_members())
        return self._members

    def _make_members(self) -> Iterator[Any]:
        """The trees as estimators."""
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
        """Attributes beyond those of every tree."""

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean of the learners' importances by their weights, float64 of shape (n_features,)."""
        check_is_fitted(self)
        weights = self.estimator_weights_
        if hasattr(self, "forest_"):
            importances = tree_importances(self._trees)
        elif all(hasattr(member, "feature_importances_") for member in self._members):
            importances = np.array([member.feature_importances_ for member in self._members])
        else:
            raise AttributeError(
                "Unable to compute feature importances since estimator does not have a "
                f"feature_importances_ attribute: {self.estimator_!r}."
            )
        return (weights[:, None] * importances).sum(axis=0) / weights.sum()

    @available_if(_has_forest)
    def apply(self, X: Any) -> Any:
        """The leaf that each row ends in, where the learners are trees of this package.

        Returns
        -------
        int32, shape (n_rows, n_rounds)
            Node numbers counted from the root of each tree.
        """
        with self._asking(X) as (values, device):
            return to_input_library(self.forest_.apply(values, device), X)

    def __len__(self) -> int:
        check_is_fitted(self)
        return self.estimator_weights_.size

    def __getitem__(self, t: int) -> Any:
        return self.estimators_[t]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        derived = "_members" if hasattr(self, "forest_") else ""
        return {name: value for name, value in state.items() if name != derived}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_weights_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_learners = input_tags(self._base_estimator())
        tags.input_tags.sparse = of_learners.sparse
        tags.input_tags.allow_nan = of_learners.allow_nan
        return tags

    @abstractmethod
    def _base_estimator(self) -> Any:
        """The parameter ``estimator``, or what None stands for."""

    @abstractmethod
    def _check_base(self, base: Any) -> None:
        """Refuse base estimators that cannot work."""

    @abstractmethod
    def _learners(self, grows: bool) -> type[Any]:
        """The class of the learners: trees of this package, or any."""

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Any:
        """The target: class numbers or float64."""

    @abstractmethod
    def _rule(self, target: Any, device: Device) -> Rule:
        """The variant of AdaBoost."""


def score_of(metric: Any, y: Any, predicted: Any, sample_weight: Any) -> float:
    """A metric of scikit-learn on arrays of any library."""
    weight = None if sample_weight is None else to_numpy(sample_weight)
    return float(metric(to_numpy(y), to_numpy(predicted), sample_weight=weight))


LOSSES = ("linear", "square", "exponential")

_ALLOWED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_estimators": ("an integer >= 1", lambda value: is_count(value, 1)),
    "learning_rate": (
        "a finite number > 0",
        lambda value: isinstance(value, Real) and not is_bool(value) and 0 < float(value) < np.inf,
    ),
    "loss": (
        "'linear', 'square' or 'exponential'",
        lambda value: isinstance(value, str) and value in LOSSES,
    ),
    "max_bins": (
        f"None or an integer from 2 to {MAX_BINS}",
        lambda value: value is None or (is_count(value, 2) and int(value) <= MAX_BINS),
    ),
    "warm_start": ("True or False", is_bool),
    "verbose": ("a bool or an integer >= 0", lambda value: is_bool(value) or is_count(value, 0)),
}


def check_adaboost_parameters(estimator: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    parameters = estimator.get_params(deep=False)
    for name, (wanted, is_allowed) in _ALLOWED.items():
        if name in parameters and not is_allowed(parameters[name]):
            raise ValueError(f"{name} must be {wanted}, got {parameters[name]!r}.")
    check_base_estimator(parameters["estimator"])
    check_callbacks(parameters["callbacks"])
    threads_of(parameters["n_jobs"])


def check_base_estimator(base: Any) -> None:
    """Check that something is an estimator, or None.

    Raises
    ------
    TypeError
        Says what it lacks.
    """
    if base is None:
        return
    needed = ("fit", "predict", "get_params")
    lacking = [name for name in needed if not callable(getattr(base, name, None))]
    if lacking or isinstance(base, type):
        raise TypeError(
            "estimator must be None or an object with the methods fit, predict and get_params (a "
            f"subclass of sklearn.base.BaseEstimator has the last one), got {base!r}."
        )


def check_classifier(base: Any) -> None:
    """Check that boosting by weights can work with a base estimator.

    Raises
    ------
    TypeError
        It is a regressor.
    ValueError
        Its ``fit`` takes no weights.
    """
    check_not_regressor(base, "AdaBoostRegressor")
    if not has_fit_parameter(base, "sample_weight"):
        raise ValueError(
            f"{type(base).__name__} doesn't support sample_weight, by which AdaBoost tells its "
            "learners what to look at. Use an estimator whose fit takes sample_weight, or "
            "BaggingClassifier, which does without."
        )


def check_not_regressor(base: Any, instead: str) -> None:
    """Check that a base estimator is not one for numbers.

    Raises
    ------
    TypeError
        It is a regressor; ``instead`` is what takes these.
    """
    if _says(is_regressor, base):
        raise TypeError(
            f"estimator must be a classifier, got {base!r}, which predicts numbers. Use {instead}."
        )


def check_regressor(base: Any) -> None:
    """Check that a base estimator is not one for classes.

    Raises
    ------
    TypeError
        It is a classifier.
    """
    if _says(is_classifier, base):
        raise TypeError(
            f"estimator must be a regressor, got {base!r}, which predicts classes. Use "
            "AdaBoostClassifier."
        )


def _says(question: Callable[[Any], bool], base: Any) -> bool:
    """An answer from an estimator's tags, which a user's own class may lack."""
    return hasattr(base, "__sklearn_tags__") and question(base)
