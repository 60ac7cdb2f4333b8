"""The base of ``VotingClassifier`` and ``VotingRegressor``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..devices.placement import Device, to_numpy
from ..estimators.parameters import HELD_OUT, JOBS, SWITCH, VERBOSE, check_rules, one_of
from ..estimators.validation import holdout_rows
from ..inputs.arrays import to_input_library
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.arrays import Array
from ..members.rows import MemberRows, TrainingSet, readable
from . import weights as model_weights
from .base import Combination, check_estimators, is_dropped

VOTING = """Parameters
    ----------
    estimators : list of (str, estimator)
        Members by name, from scikit-learn, cuML, this package or the user; "drop" leaves a
        name without one. Their clones are fitted.
    <voting>weights : list of float, str, callable or None, default=None
        None weighs all members the same; a list has a number >= 0 for each, also for those that
        are dropped. The other weights are learned from rows that the members have not seen:

        - "accuracy": in proportion to the <score>;
        - "optimal": those with the least <loss>, never worse than equal weights or the best
          member on these rows;
        - "greedy": ensemble selection (Caruana et al. 2004): members are added one by one, with
          replacement, while that helps;
        - a function, such as
          ``functools.partial(gpuens.combining.weights.greedy_weights, n_bags=20)``,
          called with predictions, targets, weights of the rows or None, and ``loss=``.
    n_jobs : int or None, default=None
        Processes that fit members of other packages, through joblib; None is 1. Members of this
        package use the threads that their own ``n_jobs`` allow in any case: on small tables several
        are trained side by side, one on each, and on a GPU boosted ones grow together. The model
        does not depend on it.
    <flatten>verbose : bool or int, default=False
        Whether to print how long the fit of each member took.
    prefit : bool, default=False
        Whether the estimators are fitted already. ``fit`` then only learns the weights, from all
        of its rows: they should be others than those that the members were fitted on.
    validation_fraction : float or int, default=0.2
        Share or number of rows to hold out where weights are learned; the members are fitted on
        the rest. Not with ``prefit``, or where ``fit`` gets an ``eval_set``.
    random_state : int, RandomState instance or None, default=None
        Seed of what is drawn here: the rows held out, the bags of "greedy". None is a fixed seed.
        Members draw with their own.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where predictions are combined. "auto" follows the arrays. Members of this package, cuML
        and XGBoost get arrays where they are, all others on the host, copied once for all of
        them; "cuda" gives CuPy arrays to any member.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted members, without those that are dropped.
    named_estimators_ : Bunch
        The fitted members by name; "drop" for those that are dropped.
    weights_ : float64 ndarray, shape (n_members,)
        The weights in use, of the members that are not dropped: as given; 1 for each with None;
        learned ones sum to one.
    <attributes>n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names."""

LEARNERS: dict[str, Any] = {
    "accuracy": model_weights.accuracy_weights,
    "optimal": model_weights.optimal_weights,
    "greedy": model_weights.greedy_weights,
}
"""Functions that learn weights from rows that the members have not seen."""
RULES = {
    "flatten_transform": SWITCH,
    "n_jobs": JOBS,
    "prefit": SWITCH,
    "validation_fraction": HELD_OUT,
    "verbose": VERBOSE,
    "voting": one_of("hard", "soft"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class Voting(Combination):
    """Members whose predictions are averaged, or who vote."""

    estimators: Any = field(kw_only=False)
    weights: Any = None
    n_jobs: int | None = None
    verbose: bool | int = False
    prefit: bool = False
    validation_fraction: float | int = 0.2
    random_state: Any = None
    device: str = "auto"

    _kind: ClassVar[str]
    """Kind of the members: "classifier" or "regressor"."""

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None, **fit_params: Any
    ) -> Any:
        """Fit the members, and learn their weights if ``weights`` requires it.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            Members validate X themselves: it may be sparse or have missing values if they
            accept that.
        y : array, shape (n_rows,)
            For a regressor also (n_rows, n_outputs), if the members take that.
        sample_weight : array of shape (n_rows,), default=None
            For the members, all of which must take it, and for the weights that are learned.
        eval_set : (X, y) or (X, y, sample_weight), default=None
            Rows to learn the weights from. None holds rows out.
        **fit_params : dict
            Further metadata for the members, if scikit-learn's metadata routing is enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        """
        metadata = self._metadata(sample_weight, fit_params)
        check_voting_parameters(self, self._kind)
        check_eval_set(eval_set, self.weights)
        return self._train(X, y, sample_weight, metadata, eval_set)

    def _fit(self, data: TrainingSet, eval_set: Any) -> None:
        weights = given_weights(self)
        seen = data
        if weights is None and not self.prefit and eval_set is None:
            seen, data = map(data.part, self._split(data.target))
        members = self._prefitted() if self.prefit else self._fitted(seen)
        for (name, _), member in zip(self._kept(), members, strict=True):
            self._check_member(name, member)
        self._set_members(members)
        if weights is None:
            if eval_set is not None:
                data = self._read_eval_set(eval_set, data)
            weights = self._learned(data)
        self.weights_: np.ndarray = weights

    def _split(self, target: Array) -> tuple[np.ndarray, np.ndarray]:
        """Split into rows to fit on and rows to learn the weights from."""
        share, strata = self.validation_fraction, self._strata(target)
        return holdout_rows(target.shape[0], share, strata, self._seed, "validation_fraction")

    def _read_eval_set(self, eval_set: Any, data: TrainingSet) -> TrainingSet:
        """Read further rows in the way of those to fit on."""
        X, y, sample_weight = eval_set if len(eval_set) == 3 else (*eval_set, None)
        X = readable(X)
        rows, home = data.rows.like(X), data.rows.home
        self._check_more(X)
        target = self._read_more_y(y, rows.n, home)
        weight = read_sample_weight(sample_weight, rows.n, home)
        return TrainingSet(rows, target, weight, data.metadata)

    def _learned(self, data: TrainingSet) -> np.ndarray:
        """Learn weights from rows that the members have not seen."""
        learn = self.weights
        if isinstance(learn, str):
            learn = LEARNERS[learn]
        if learn is model_weights.greedy_weights:
            learn = partial(learn, random_state=self._seed)
        home = data.rows.home
        predictions = home.xp.stack(list(self._answers(data.rows)), axis=1)
        found = learn(predictions, data.target, data.weight, loss=self._loss())
        weights = np.asarray(to_numpy(found), np.float64)
        if weights.shape != (len(self.estimators_),) or not (weights >= 0).all():
            raise ValueError(
                f"weights must be a function that returns {len(self.estimators_)} numbers >= 0, "
                f"got {found!r} from it."
            )
        return weights

    def _answers(self, rows: MemberRows) -> Iterator[Array]:
        """Yield the answer of each member about the rows, on their device."""
        for name, member in self._fitted_members():
            yield self._checked_answer(name, member, rows)

    def _checked_answer(self, name: str, member: Any, rows: MemberRows) -> Array:
        answer = self._answer(name, member, rows)
        if answer.shape[0] != rows.n:
            raise ValueError(
                f"The member {name!r} predicts {answer.shape[0]} rows of {rows.n}. Its "
                "prediction must have a row for each row of X."
            )
        return answer

    def _average(self, rows: MemberRows) -> Array:
        """Return the weighted mean of the answers; members of weight zero are skipped."""
        total: Any = 0.0
        weights = self.weights_.tolist()
        for (name, member), weight in zip(self._fitted_members(), weights, strict=True):
            if weight > 0:
                answer = self._checked_answer(name, member, rows)
                total = total + weight * self._numbers(answer, rows.home)
        return total / float(self.weights_.sum())

    def transform(self, X: Any) -> Array:
        """Return the predictions of each member.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        array, in the library and on the device of X
            Of a regressor float64, shape (n_rows, n_members * n_outputs). Of a classifier that
            votes hard int64, shape (n_rows, n_members): the numbers of the classes in
            ``classes_``. Of one that votes soft float64, shape (n_rows, n_members * n_classes), or
            (n_members, n_rows, n_classes) with ``flatten_transform=False``.
        """
        with self._asking(X) as rows:
            tensor = rows.home.xp.stack(list(self._answers(rows)), axis=1)
            return to_input_library(self._arranged(tensor), X)

    def _arranged(self, tensor: Array) -> Array:
        """Arrange predictions (n_rows, n_members, ...) for ``transform``."""
        return tensor.reshape(tensor.shape[0], -1)

    @abstractmethod
    def _read_more_y(self, y: Any, n_rows: int, home: Device) -> Array:
        """Read the target of further rows."""

    @abstractmethod
    def _strata(self, target: Array) -> np.ndarray | None:
        """Return the classes to hold out in proportion, on the host; None for regression."""

    def _check_member(self, name: str, member: Any) -> None:
        """Raise a ValueError if a fitted member does not know the classes of this ensemble."""

    @abstractmethod
    def _answer(self, name: str, member: Any, rows: MemberRows) -> Array:
        """Return the answer of a member about the rows, on their device."""

    @abstractmethod
    def _numbers(self, answer: Array, home: Device) -> Array:
        """Convert an answer to the numbers that are averaged."""

    @abstractmethod
    def _loss(self) -> str:
        """Return the loss that learned weights minimise."""


def check_eval_set(eval_set: Any, weights: Any) -> None:
    """Raise a ValueError unless it is None, or a pair or triple that weights are learned from."""
    if eval_set is not None and not learns_weights(weights):
        raise ValueError(
            f"eval_set is for weights that are learned, but weights is {weights!r}. Set weights, "
            "for example to 'optimal', or pass no eval_set."
        )
    if eval_set is not None and not (isinstance(eval_set, tuple) and len(eval_set) in (2, 3)):
        size = f" of length {len(eval_set)}" if hasattr(eval_set, "__len__") else ""
        raise ValueError(
            "eval_set must be a tuple (X, y) or (X, y, sample_weight), got "
            f"{type(eval_set).__name__}{size}."
        )


def check_voting_parameters(vote: Any, kind: str) -> None:
    """Check the parameters that do not depend on data; ``device`` is checked where it is
    resolved."""
    check_estimators(vote, kind)
    check_rules(vote, RULES)
    given_weights(vote)
    if kind == "classifier":
        _check_methods(vote)


def _check_methods(vote: Any) -> None:
    if vote.voting == "hard":
        if isinstance(vote.weights, str) and vote.weights == "optimal":
            raise ValueError(
                "weights='optimal' needs probabilities: the share of wrong votes is not a smooth "
                "function of the weights. Set voting='soft', or weights='greedy' or 'accuracy'."
            )
        return
    for name, estimator in vote.estimators:
        if not is_dropped(estimator) and not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"voting='soft' averages probabilities, but {name!r}, a "
                f"{type(estimator).__name__}, has no predict_proba. Use voting='hard', drop it, or "
                "wrap it in sklearn.calibration.CalibratedClassifierCV."
            )


def learns_weights(weights: Any) -> bool:
    """Return whether weights are learned, by name or by a function."""
    return isinstance(weights, str) or callable(weights)


def given_weights(vote: Any) -> np.ndarray | None:
    """Return the weights of the members that are not dropped, None if they are learned. Raises a
    ValueError for a wrong word, length or values."""
    weights, entries = vote.weights, vote.estimators
    kept = np.array([not is_dropped(entry) for _, entry in entries])
    if weights is None:
        return np.ones(int(kept.sum()))
    if isinstance(weights, str) and weights not in LEARNERS:
        raise ValueError(
            f"weights must be None, a list of numbers, {', '.join(map(repr, LEARNERS))} or a "
            f"function, got {weights!r}."
        )
    if learns_weights(weights):
        return None
    try:
        values = np.asarray(to_numpy(weights), np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"weights must hold numbers, got {weights!r}.") from None
    if values.shape != (len(entries),):
        got = values.shape[0] if values.ndim == 1 else f"an array of shape {values.shape} as"
        raise ValueError(
            f"Number of `estimators` and weights must be equal; got {got} weights, "
            f"{len(entries)} estimators"
        )
    values = values[kept]
    if not ((values >= 0).all() and np.isfinite(values).all()):
        raise ValueError(f"weights must be finite numbers >= 0, got {values.tolist()}.")
    if not values.sum() > 0:
        raise ValueError(
            "weights sum to zero over the estimators that are not dropped; at least one must be "
            "positive."
        )
    return values
