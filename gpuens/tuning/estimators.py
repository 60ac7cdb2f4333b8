"""``TunedClassifier`` and ``TunedRegressor``: a search, and an ensemble of the best, in one fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..boosting.classifier import GradientBoostingClassifier
from ..boosting.data.auto_values import AUTO
from ..boosting.parameters import RULES, schedule_of
from ..boosting.regressor import GradientBoostingRegressor
from ..devices.lazy_tables import require_in_memory
from ..estimators.base import Exportable, Savable, kept_on_failure
from ..estimators.docstrings import EXPLAINED, documented
from ..estimators.parameters import VERBOSE, check_rules
from ..estimators.scores import ScoresClasses, ScoresValues
from ..forest.forest import Forest
from ..forest.sum_of_trees import SumOfTrees
from ..tables.binned_table import BinnedTable
from .boosting import SearchedBoosting, SearchedClassifier, SearchedRegressor
from .candidate import Candidate
from .search import SearchPlan, stderr
from .space import check_space, read_budget

FIXED: dict[str, tuple[Any, ...]] = {
    "n_estimators": ("auto",), "early_stopping": (False,), "warm_start": (False,),
    "dropout": (0.0,), "init": (None, "zero"), "callbacks": (None,),
}  # fmt: skip
"""Parameters of the estimator that a search cannot use, with the values that they must have."""
OWN = "scoring", "random_state", "n_jobs", "device", "verbose"
"""Parameters of the search, which it sets on the estimator."""

TUNED = """Parameters
    ----------
    estimator : <kind> or None, default=None
        What the settings of the space are set on: its other parameters, such as ``loss``,
        ``categorical_features`` or ``monotonic_cst``, hold for all. None is the default one.
        ``n_estimators`` must be "auto", since the rows held out decide the number of rounds, and
        ``early_stopping``, ``warm_start``, ``dropout``, ``init`` ("zero" is possible) and
        ``callbacks`` as they are by default, as must ``scoring``, ``random_state``, ``n_jobs``,
        ``device`` and ``verbose``, which are parameters of the search. ``learning_rate`` is no
        list.
    budget : int or str, default="60s"
        How long to search: a number of settings, with which the same data and seed give the same
        model, bit for bit, or a time as "60s", "5min" or "1.5h", with which the model depends on
        the machine and its load. The last trainings are counted; a fit may take longer by a
        fraction of one training.
    param_distributions : dict, list of dicts or None, default=None
        The space: for each parameter a list of values, or a distribution of ``scipy.stats``, as
        for ``RandomizedSearchCV``. None is the space of the notes.
    scoring : str, callable or None, default="loss"
        The metric of rows held out that decides, as of the estimator: "loss" (lower is better),
        the name of a scorer of scikit-learn, or a metric of ``gpuens.custom_metrics``.
    cv : int, cross-validation splitter, iterable or None, default=None
        The rows to hold out in turn: a number of folds, a splitter of scikit-learn, or pairs of
        rows to train on and to score. None is a fifth of the rows (of each class; whole groups if
        ``fit`` gets groups), in turn until 2500 have been held out, five times at most. Pass
        ``TimeSeriesSplit`` where rows depend on earlier ones.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, the settings and the rounds. None is a fixed seed.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work, as of the estimator.
    verbose : bool or int, default=False
        Whether a line is printed to standard error at every better setting, with the number of
        settings and the best score so far.

    Attributes
    ----------
    estimator_ : <kind>
        The fitted model: its trees are those of all trainings of the members, times their weights.
        It has all methods of its class.
    forest_ : Forest
        Its trees.
    best_params_ : dict
        The best single setting; empty for the default, or its ``grow_policy`` where it chooses.
    best_score_ : float
        Its score on the rows held out, greater is better (the loss with a minus sign).
    ensemble_score_ : float
        That of the ensemble; NaN if Ctrl-C has left its members with fewer rounds.
    members_ : list of int
        The settings in the ensemble, numbers of ``cv_results_``.
    weights_ : float64 ndarray, shape (n_members,)
        Their weights, which sum to one.
    cv_results_ : dict
        An entry for each setting tried, the first of which are the default: "params",
        "mean_test_score" (on the rows held out; greater is better), "rank_test_score" (from 1;
        equal ones share a rank), "n_rounds" (the best number of rounds), "n_trained" (rounds of its
        trainings) and "fit_time" (seconds of these; where they grow together, as on a GPU, each
        second counts once).
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>

    Notes
    -----
    The table is binned once, and all trainings share it. The default goes first: where its
    ``grow_policy="auto"`` would try two shapes of trees, the first setting is "lossguide" and the
    second one "symmetric". Four settings near those that were good on some of four tables
    (california_housing, waveform5000, airlines_allyears2k and a synthetic one with steps) are next
    (two where symmetric trees are not tried). Half of the others are drawn at random from the space
    below, half are one of the five best so far, of which each parameter is drawn again with a
    chance of 0.35; what a changed default does not draw remains that of the default.

    Each setting is trained without the rows of each fold. A training ends where no later round is
    better by 0.1 %, though there are 15 % more, and their learning rates add up to 2.5, or after
    2000. Where time ends, the best round so far counts. The best settings are weighted by greedy
    selection on the raw predictions of the rows held out (Caruana et al. 2004), and those with a
    weight trained on all rows, three times with other seeds. Of a time a quarter is kept for that,
    or what it takes to train each once; the second and third trainings are left out where the time
    is not enough.

    The space: ``learning_rate`` 0.035, 0.05, 0.07; ``max_leaf_nodes`` 5, 8, 12, 18, 28, 42, 64;
    ``min_samples_leaf`` 1, 2, 5, 10, 20, 40; ``l2_regularization`` 0.1, 0.5, 1, 3, 10;
    ``subsample`` 0.5, 0.65, 0.8, 0.95; ``colsample_bynode`` 0.3, 0.4, 0.6, 0.8, 1; with categories
    also ``cat_smooth`` "auto", 5, 20, 60 and ``cat_l2`` 0, 3, 10, 30. Where the default tries
    symmetric trees, half of the random settings have ``grow_policy="symmetric"``, with
    ``max_depth`` 3, 4, 5, 6, 7, 8 in place of ``max_leaf_nodes``, ``learning_rate`` 0.05, 0.07, 0.1
    and ``min_samples_leaf`` 1, 2, 5, 10. An estimator with ``max_features`` keeps it: then
    ``colsample_bynode``, which says the same, is not in the space.

    A budget that is too short for the first measurement, and fewer than 50 rows, give the fit of
    the default, with a warning. Ctrl-C ends the search; the model is made of what was tried until
    then, or of the best setting alone where it comes in the choice of an ensemble. In the
    training on all rows it keeps the members that are finished, or else the rounds of those that
    are not, with a warning; with several threads on the CPU, members that are being trained are
    trained to their end."""


@dataclass(kw_only=True, eq=False, repr=False)
class Tuned(Savable, Exportable, BaseEstimator):
    """Base of the two estimators: the search, and its results."""

    _kinds: ClassVar[tuple[type, type[SearchedBoosting]]]
    """The estimator that is tuned, and the one that searches."""

    _saved_if_possible = "cv", "param_distributions"
    """Parameters that act on training alone: a file has None where it cannot hold them."""

    estimator: Any = field(default=None, kw_only=False)
    budget: int | str = "60s"
    param_distributions: Any = None
    scoring: Any = "loss"
    cv: Any = None
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"
    verbose: bool | int = False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Any:
        """Search, and train the ensemble.

        Parameters
        ----------
        X : array, data frame, sparse matrix or BinnedTable, shape (n_rows, n_features)
            Of any type that the estimator takes.
        y : array, shape (n_rows,), default=None
            The target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows, in training and in scores.
        groups : array of shape (n_rows,), default=None
            The group of each row, for splitters such as ``GroupKFold``. With ``cv=None`` whole
            groups are held out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is wrong, or what ``fit`` of the estimator raises.
        KeyboardInterrupt
            Before the default was scored.
        """
        plan = self._plan(groups)
        if y is None and not isinstance(X, BinnedTable):
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        require_in_memory(groups, "groups")
        kind, searching = self._kinds
        template = kind() if self.estimator is None else clone(self.estimator)
        own = {name: getattr(self, name) for name in ("random_state", "n_jobs", "device")}
        template.set_params(scoring=self.scoring, verbose=False, **own)
        params = template.get_params(deep=False)
        search = searching(**params)
        search.plan = plan
        with kept_on_failure(self):
            search.fit(X, y, sample_weight)
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self._keep(search, template)
        return self

    def _plan(self, groups: Any) -> SearchPlan:
        """Check the parameters."""
        budget = read_budget(self.budget)
        check_rules(self, {"verbose": VERBOSE})
        kind = self._kinds[0]
        if self.estimator is not None and type(self.estimator) is not kind:
            raise TypeError(f"estimator must be a {kind.__name__}, got {self.estimator!r:.80}.")
        for name, allowed in FIXED.items():
            value = allowed[0] if self.estimator is None else getattr(self.estimator, name)
            if not any(value is each or value == each for each in allowed):
                wanted = " or ".join(map(repr, allowed))
                raise ValueError(f"estimator must have {name}={wanted} to be tuned, got {value!r}.")
        template: Any = kind() if self.estimator is None else self.estimator
        for name in OWN:
            value, usual = getattr(template, name), getattr(kind(), name)
            if not (value is usual or (isinstance(value, type(usual)) and value == usual)):
                raise ValueError(
                    f"estimator has {name}={value!r:.80}, but a search has its own: set it on "
                    f"{type(self).__name__} itself."
                )
        require_one_rate(template.learning_rate, "estimator")
        check_space(self.param_distributions, kind, tuple(FIXED))
        check_values(self.param_distributions, template)
        report: Callable[[str], None] = stderr if self.verbose else lambda line: None
        return SearchPlan(budget, self.param_distributions, self.cv, groups, report)

    def _keep(self, search: SearchedBoosting, model: Any) -> None:
        """Take over what a search has learned, and move it into a plain estimator."""
        left_out = {*model.get_params(deep=False), "plan", "found_"}
        if search.found_ is not None:
            settle_attributes(search, search.found_.members)
        vars(model).update({k: v for k, v in vars(search).items() if k not in left_out})
        self.estimator_ = model
        if search.found_ is None:
            self.best_params_, self.members_, self.weights_ = {}, [], np.empty(0)
            self.best_score_ = self.ensemble_score_ = float("nan")
            self.cv_results_: Mapping[str, Any] = {"params": []}
            return
        found = search.found_
        self.cv_results_ = found.results()
        self.best_params_ = dict(found.best(1)[0].params)
        self.best_score_ = -found.best(1)[0].score
        self.ensemble_score_ = -found.score
        self.members_ = [member.number for member in found.members]
        self.weights_ = found.weights

    @documented(
        EXPLAINED,
        result="""array of labels, or float64, shape (n_rows,)
        For several targets or quantiles (n_rows, n_outputs).""",
    )
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict classes, or the target, as ``estimator_`` does.

        <shared>
        """
        more = {"pred_contribs": pred_contribs, "pred_interactions": pred_interactions}
        return self._fitted().predict(X, **more)

    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _sum_of_trees(self) -> SumOfTrees:
        found: SumOfTrees = self._fitted()._sum_of_trees()
        return found

    @property
    def forest_(self) -> Forest:
        forest: Forest = self._fitted().forest_
        return forest

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the gains of all splits, float64 of shape (n_features,)."""
        importances: np.ndarray = self._fitted().feature_importances_
        return importances

    @property
    def n_features_in_(self) -> int:
        return int(self._fitted().n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        names: np.ndarray = self._fitted().feature_names_in_
        return names

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self._kinds[0]() if self.estimator is None else self.estimator)
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        tags.array_api_support = False  # the weights of the members are NumPy arrays
        return tags


def require_one_rate(rate: Any, whose: str) -> None:
    """Raise a ValueError if a learning rate is a list of those of the rounds."""
    if hasattr(rate, "__len__") and not isinstance(rate, str):
        raise ValueError(
            f"{whose} has a list of learning rates, one for each round, but a search finds the "
            "number of rounds: pass a number, 'auto' or a callable as learning_rate."
        )


def check_values(space: Any, template: Any) -> None:
    """Check the values that a space lists, before any of them is drawn."""
    parts = space if isinstance(space, (list, tuple)) else [space or {}]
    for name, values in [each for part in parts for each in part.items()]:
        for value in [] if hasattr(values, "rvs") else values:
            own = clone(template).set_params(**{name: value})
            check_rules(own, {key: rule for key, rule in RULES.items() if key == name})
            require_one_rate(own.learning_rate, "param_distributions")
            if not isinstance(own.learning_rate, str):
                schedule_of(own.learning_rate, 1)


def settle_attributes(search: SearchedBoosting, members: Sequence[Candidate]) -> None:
    """Keep what "auto" has become where all members agree."""
    found = {"grow_policy_": {m.params.get("grow_policy", search.grow_policy) for m in members}}
    found["grow_policy_"] = {"lossguide" if p == AUTO else p for p in found["grow_policy_"]}
    if "learning_rate_" in vars(search):
        found["learning_rate_"] = {m.rate for m in members}
    for name, values in found.items():
        search.__dict__.pop(name, None)
        if len(values) == 1:
            setattr(search, name, values.pop())


@documented(
    TUNED,
    kind="GradientBoostingClassifier",
    attributes="classes_ : ndarray\n        The labels, ascending.",
)
class TunedClassifier(ScoresClasses, ClassifierMixin, Tuned):
    """Gradient boosting for classes whose settings are searched for within a budget.

    The raw scores (log-odds) of the best settings are averaged: the model is one sum of trees,
    which is saved, explained and exported as a ``GradientBoostingClassifier`` is.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import TunedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TunedClassifier(budget=2, cv=2).fit(X, y)
    >>> len(model.cv_results_["params"]), model.score(X, y) > 0.98
    (2, True)
    """

    _kinds = GradientBoostingClassifier, SearchedClassifier

    @property
    def classes_(self) -> Any:
        return self._fitted().classes_

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, as ``estimator_`` does.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        return self._fitted().predict_proba(X)

    def decision_function(self, X: Any) -> Any:
        """Return the raw predictions, as ``estimator_`` does.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows,) for two classes (log-odds of the second one), else
        (n_rows, n_classes)
        """
        return self._fitted().decision_function(X)


@documented(TUNED, kind="GradientBoostingRegressor", attributes="")
class TunedRegressor(ScoresValues, RegressorMixin, Tuned):
    """Gradient boosting for numbers whose settings are searched for within a budget.

    The raw scores of the best settings are averaged: the model is one sum of trees, which is
    saved, explained and exported as a ``GradientBoostingRegressor`` is.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import TunedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TunedRegressor(budget=2, cv=2).fit(X, y)
    >>> len(model.cv_results_["params"]), model.score(X, y) > 0.5
    (2, True)
    """

    _kinds = GradientBoostingRegressor, SearchedRegressor

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of ``estimator_``: R², of quantiles the share of the loss explained.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,) or (n_rows, n_targets)
            The true target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        return float(self._fitted().score(X, y, sample_weight))
