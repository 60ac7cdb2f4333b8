"""Parameters of gradient boosting: reading and checking them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from ..custom_metrics import ArrayMetric, CustomMetric
from ..estimators.parameters import (
    CLASS_FACTORS,
    COUNT,
    FEATURES,
    HELD_OUT,
    JOBS,
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    ROWS_TO_SPLIT,
    SHARE,
    SWITCH,
    VERBOSE,
    Rule,
    check_callbacks,
    check_rules,
    integer,
    monotone_constraints,
    n_features_to_look_at,
    number,
    one_of,
    passing,
)
from ..kernels.growth.params import UNLIMITED, FeatureRules, GrowthParams
from ..kernels.runtime.dtypes import MAX_BINS
from ..losses import Loss
from ..ranking_metrics import RankingMetric, ranking_metric_of
from .data.auto_values import AUTO, LEAF_ROWS_OF_LEVELS, most_rounds
from .steps.sampling import SCHEMES


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingParameters:
    """The parameters of gradient boosting, for classes and for regression."""

    loss: str | Loss | Callable[..., Any] = field(kw_only=False)
    n_estimators: int | str = "auto"
    learning_rate: float | str | Sequence[float] | Callable[[int], float] = "auto"
    multi_strategy: str = "auto"
    line_search: bool = False
    dropout: float = 0.0
    skip_dropout: float = 0.0
    max_drop: int | None = None
    uniform_drop: bool = True
    normalize_drop: str = "tree"
    linear_leaves: bool = False
    linear_lambda: float = 0.0
    grow_policy: str = "auto"
    max_depth: int | None = None
    max_leaf_nodes: int | None = 31
    min_samples_split: int | float = 2
    min_samples_leaf: int | str = "auto"
    min_sum_hessian: float = 1e-3
    l2_regularization: float = 1.0
    min_gain_to_split: float = 0.0
    min_impurity_decrease: float = 0.0
    max_bins: int = 255
    subsample: float | str = "auto"
    sampling: str = "uniform"
    top_rate: float = 0.2
    other_rate: float = 0.1
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float | str = "auto"
    max_features: int | float | str | None = None
    categorical_features: Any = "from_dtype"
    cat_smooth: float | str = "auto"
    cat_l2: float = 0.0
    max_cat_to_onehot: int = 4
    cat_hash_groups: int | str = "auto"
    monotonic_cst: Any = None
    interaction_cst: Any = None
    early_stopping: bool | str = False
    validation_fraction: float | int = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7
    keep_best: bool = True
    scoring: str | Callable[..., Any] | CustomMetric | ArrayMetric | Sequence[Any] | None = "loss"
    warm_start: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"
    verbose: bool | int = False
    callbacks: Any = None


@dataclass(frozen=True)
class DropoutSettings:
    """The parameters of the estimators.

    Parameters
    ----------
    rate, skip : float
        In [0, 1].
    most : int or None
        Rounds that are left out together.
    uniform : bool
    normalisation : {"tree", "forest"}
    """

    rate: float
    skip: float
    most: int | None
    uniform: bool
    normalisation: str


_METHODS = ("fit", "predict", "get_params")


def _can_start(value: Any) -> bool:
    has_methods = all(callable(getattr(value, name, None)) for name in _METHODS)
    return has_methods and not isinstance(value, type)


DEPTH_OF_LEVELS = 6
"""Depth of trees that grow by levels where ``max_depth`` is None."""
START = NONE | one_of("zero") | passing("an estimator to fit first", _can_start)
"""Valid values of ``init``."""
AUTO_SMOOTHING = 10.0
"""The most that ``cat_smooth="auto"`` stands for, see ``rare_categories``."""

_MOST_FEATURES = {"no_interactions": 1, "pairwise": 2}
"""Most features on a path from the root to a leaf, by the name of an interaction constraint."""


Schedule = Callable[[int], float]
"""Returns the rate of a round; rounds are counted from 0."""


def _is_metric(value: Any) -> bool:
    if isinstance(value, str):
        if ranking_metric_of(value) is not None:
            return True
        from sklearn.metrics import get_scorer_names

        return value in get_scorer_names()
    known = (CustomMetric, ArrayMetric, RankingMetric)
    return callable(value) or isinstance(value, known)


_METRIC = Rule((
    "None", "'loss'", "a name from sklearn.metrics.get_scorer_names()",
    "a callable (estimator, X, y) -> float", "a metric of gpuens.custom_metrics", "a list of these",
    "for survival 'concordance'",
    "for rankings 'ndcg', 'ndcg@10', 'map', 'map@10' or a metric of gpuens.ranking_metrics",
), words=(None, "loss", "concordance"), tests=(_is_metric,))  # fmt: skip
NORMALISATIONS = ("tree", "forest")
FROM_ZERO_TO_ONE = number("a number in [0, 1]", 0.0, 1.0)
RULES = {
    "n_estimators": one_of("auto") | COUNT,
    "grow_policy": one_of("auto", "lossguide", "depthwise", "symmetric"),
    "max_depth": NONE | COUNT,
    "max_leaf_nodes": NONE | integer(2),
    "min_samples_split": ROWS_TO_SPLIT,
    "min_samples_leaf": one_of("auto") | COUNT,
    "min_sum_hessian": NOT_NEGATIVE,
    "l2_regularization": NOT_NEGATIVE,
    "min_gain_to_split": NOT_NEGATIVE,
    "min_impurity_decrease": NOT_NEGATIVE,
    "max_bins": integer(2, MAX_BINS),
    "cat_smooth": one_of("auto") | NOT_NEGATIVE,
    "cat_l2": NOT_NEGATIVE,
    "max_cat_to_onehot": COUNT,
    "cat_hash_groups": one_of("auto") | COUNT,
    "class_weight": NONE | one_of("balanced") | CLASS_FACTORS,
    "subsample": one_of("auto") | SHARE,
    "sampling": one_of(*SCHEMES),
    "top_rate": FROM_ZERO_TO_ONE,
    "other_rate": SHARE,
    "colsample_bytree": SHARE,
    "colsample_bylevel": SHARE,
    "colsample_bynode": one_of("auto") | SHARE,
    "max_features": FEATURES,
    "init": START,
    "multi_strategy": one_of("auto", "one_output_per_tree", "multi_output_tree"),
    "line_search": SWITCH,
    "dropout": FROM_ZERO_TO_ONE,
    "skip_dropout": FROM_ZERO_TO_ONE,
    "max_drop": NONE | COUNT,
    "uniform_drop": SWITCH,
    "normalize_drop": one_of(*NORMALISATIONS),
    "linear_leaves": SWITCH,
    "linear_lambda": NOT_NEGATIVE,
    "keep_best": SWITCH,
    "early_stopping": SWITCH | one_of("auto"),
    "validation_fraction": NONE | HELD_OUT,
    "n_iter_no_change": COUNT,
    "n_jobs": JOBS,
    "tol": NOT_NEGATIVE,
    "warm_start": SWITCH,
    "verbose": VERBOSE,
}


def check_parameters(estimator: Any) -> None:
    """Check the parameters of an estimator that do not depend on data.

    ``device`` and ``loss`` are checked where they are resolved.

    Raises a ValueError or a TypeError that names the parameter, what it got and what it wants.
    """
    check_rules(estimator, RULES)
    groups = estimator.cat_hash_groups
    if groups != AUTO and int(groups) > int(estimator.max_bins):
        raise ValueError(
            f"cat_hash_groups must be at most max_bins={estimator.max_bins}, got "
            f"{estimator.cat_hash_groups}: each group takes a bin."
        )
    at_node = 1.0 if estimator.colsample_bynode == AUTO else float(estimator.colsample_bynode)
    if estimator.max_features is not None and at_node != 1.0:
        raise ValueError(
            f"max_features={estimator.max_features!r} and colsample_bynode="
            f"{estimator.colsample_bynode} both say how many features a node looks at: pass one."
        )
    several = isinstance(estimator.scoring, (list, tuple)) and len(estimator.scoring) > 0
    for metric in estimator.scoring if several else [estimator.scoring]:
        _METRIC.check("scoring", metric)
    rate = estimator.learning_rate
    if not (isinstance(rate, str) and rate == AUTO):
        schedule_of(rate, int(most_rounds(estimator)))
    check_callbacks(estimator.callbacks)
    most_path_features(estimator.interaction_cst)


def dropout_settings(estimator: Any) -> DropoutSettings:
    """Return the settings of dropout, as plain numbers."""
    most = estimator.max_drop
    return DropoutSettings(
        float(estimator.dropout),
        float(estimator.skip_dropout),
        None if most is None else int(most),
        bool(estimator.uniform_drop),
        estimator.normalize_drop,
    )


def growth_params(estimator: Any, shape: tuple[int, int]) -> GrowthParams:
    """Return the settings of growth, as plain numbers, for so many training rows and features."""
    n_rows, n_features = shape
    split, features = estimator.min_samples_split, estimator.max_features
    smooth = estimator.cat_smooth
    if not isinstance(split, Integral):
        split = max(2, math.ceil(split * n_rows))
    at_node = float(estimator.colsample_bynode)
    if features is not None:
        at_node = n_features_to_look_at(features, n_features) / n_features
    by_levels = estimator.grow_policy in ("depthwise", "symmetric")
    most_leaves = UNLIMITED if by_levels else int(estimator.max_leaf_nodes or UNLIMITED)
    depth = DEPTH_OF_LEVELS if by_levels and estimator.max_depth is None else estimator.max_depth
    return GrowthParams(
        max_leaves=min(most_leaves, UNLIMITED),
        max_depth=min(int(depth or UNLIMITED), UNLIMITED - by_levels),
        min_samples_leaf=min(int(estimator.min_samples_leaf), UNLIMITED),
        min_sum_hessian=float(estimator.min_sum_hessian),
        l2=float(estimator.l2_regularization),
        min_gain=float(estimator.min_gain_to_split),
        colsample_bytree=float(estimator.colsample_bytree),
        colsample_bylevel=float(estimator.colsample_bylevel),
        colsample_bynode=at_node,
        cat_smooth=AUTO_SMOOTHING if smooth == "auto" else float(smooth),
        cat_l2=float(estimator.cat_l2),
        max_cat_to_onehot=min(int(estimator.max_cat_to_onehot), UNLIMITED),
        max_path_features=most_path_features(estimator.interaction_cst),
        min_samples_split=min(int(split), UNLIMITED),
        is_symmetric=int(estimator.grow_policy == "symmetric"),
    )


def width_of(estimator: Any, loss: Loss) -> int:
    """Return the number of values of a leaf.

    Raises
    ------
    ValueError
        A parameter needs a tree for each output.
    """
    if estimator.multi_strategy == "one_output_per_tree" or loss.n_outputs == 1:
        return 1
    for name in ("dropout", "linear_leaves", "monotonic_cst"):
        value = getattr(estimator, name)
        if value is not None and value is not False and value != 0:
            raise ValueError(
                f"multi_strategy='multi_output_tree' does not go with {name}={value!r}: set it to "
                "its default, or multi_strategy='one_output_per_tree'."
            )
    return loss.n_outputs


def of_symmetric_trees(estimator: Any, params: GrowthParams) -> GrowthParams:
    """Return the settings of symmetric trees where no limit of trees is set."""
    least = LEAF_ROWS_OF_LEVELS if estimator.min_samples_leaf == AUTO else params.min_samples_leaf
    return params._replace(
        is_symmetric=1, max_leaves=UNLIMITED, max_depth=DEPTH_OF_LEVELS, min_samples_leaf=least
    )


def most_path_features(interaction_cst: Any) -> int:
    """Return the number of different features that a path may use, from ``interaction_cst``.

    It is ``UNLIMITED`` unless the constraint is a name.

    Raises a ValueError if the name is unknown, or the constraint is not a collection.
    """
    if isinstance(interaction_cst, str) and interaction_cst in _MOST_FEATURES:
        return _MOST_FEATURES[interaction_cst]
    if interaction_cst is not None and (
        isinstance(interaction_cst, (str, Mapping)) or not isinstance(interaction_cst, Collection)
    ):
        raise ValueError(
            "interaction_cst must be None, 'pairwise', 'no_interactions' or a list of sets of "
            f"features, got {interaction_cst!r}."
        )
    return UNLIMITED


def schedule_of(learning_rate: Any, n_rounds: int) -> Schedule:
    """Read the parameter.

    Parameters
    ----------
    learning_rate : float, sequence of float, or callable
    n_rounds : int
        Least length of a sequence.

    Returns
    -------
    Schedule
        Raises ValueError if a callable returns anything but a finite number > 0.

    Raises
    ------
    ValueError
        Names the parameter, what it got and what it wants.
    """
    if POSITIVE.allows(learning_rate):
        return lambda index: float(learning_rate)
    is_text = isinstance(learning_rate, (str, bytes))
    if isinstance(learning_rate, (Sequence, np.ndarray)) and not is_text:
        return _from_sequence(learning_rate, n_rounds)
    if not callable(learning_rate) or isinstance(learning_rate, type):
        raise ValueError(
            "learning_rate must be a finite number > 0, 'auto', a sequence of these numbers, or a "
            f"function (round from 0) -> rate, got {learning_rate!r}."
        )

    def rate(index: int) -> float:
        value = learning_rate(index)
        if not POSITIVE.allows(value):
            raise ValueError(
                f"learning_rate({index}) must be a finite number > 0, got {value!r}; the argument "
                "of the function is the number of finished rounds."
            )
        return float(value)

    return rate


def _from_sequence(rates: Any, n_rounds: int) -> Schedule:
    for index, value in enumerate(rates):
        if not POSITIVE.allows(value):
            raise ValueError(f"learning_rate[{index}] must be a finite number > 0, got {value!r}.")
    if len(rates) < n_rounds:
        raise ValueError(
            f"learning_rate must have a rate for each of the n_estimators={n_rounds} rounds, got "
            f"{len(rates)}. Lengthen it, or lower n_estimators."
        )
    fixed = [float(value) for value in rates]
    return lambda index: fixed[index]


class _NoFeatureError(ValueError):
    """Invalid feature reference: neither an index nor a column name."""


def feature_rules(estimator: Any, is_categorical: np.ndarray, n_classes: int) -> FeatureRules:
    """Read ``monotonic_cst`` and ``interaction_cst`` of an estimator that has read X.

    Parameters
    ----------
    estimator : object
        Has the parameters, and ``feature_names_in_`` where X had names.
    is_categorical : bool, shape (n_features,)
    n_classes : int
        0 for a regression.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    names = getattr(estimator, "feature_names_in_", None)
    names = None if names is None else list(map(str, names))
    n_features = is_categorical.size
    constraints = estimator.monotonic_cst
    groups: tuple[tuple[int, ...], ...] = ()
    if isinstance(constraints, Mapping):
        constraints = _by_position(constraints, names, n_features)
    of_classes = (n_classes,) if n_classes else ()
    monotone = monotone_constraints(constraints, is_categorical, of_classes, 1)
    try:
        if not (estimator.interaction_cst is None or isinstance(estimator.interaction_cst, str)):
            groups = _groups(estimator.interaction_cst, names, n_features)
    except _NoFeatureError as error:
        raise ValueError(
            "Interaction constraints must consist of integer indices in [0, n_features - 1] = "
            f"[0, {n_features - 1}], specifying the position of features, or of names: {error}"
        ) from error
    return FeatureRules(monotone, groups, is_categorical)


def rules_of_columns(rules: FeatureRules, columns: np.ndarray) -> FeatureRules:
    """Return the rules of some features, which are numbered from 0."""
    place = {feature: k for k, feature in enumerate(columns.tolist())}
    groups = (tuple(place[f] for f in group if f in place) for group in rules.groups)
    return rules._replace(
        monotone=rules.monotone[columns],
        groups=tuple(filter(None, groups)),
        categorical=rules.categorical[columns],
    )


def _by_position(
    monotonic_cst: Mapping[Any, Any], names: list[str] | None, n_features: int
) -> list[Any]:
    """Put constraints by name into the order of the features."""
    positions = [_position(name, "monotonic_cst", names, n_features) for name in monotonic_cst]
    if any(not isinstance(name, str) for name in monotonic_cst):
        raise ValueError(
            f"monotonic_cst as a dict must have names of X's columns as keys, got "
            f"{monotonic_cst!r}. Pass a list with -1, 0 or 1 for each feature instead."
        )
    constraints = np.zeros(n_features, object)
    constraints[positions] = list(monotonic_cst.values())
    return constraints.tolist()


def _position(feature: Any, parameter: str, names: list[str] | None, n_features: int) -> int:
    if isinstance(feature, Integral) and not isinstance(feature, (bool, np.bool_)):
        if 0 <= int(feature) < n_features:
            return int(feature)
        raise _NoFeatureError(
            f"{parameter} must name features from 0 to {n_features - 1}, got {feature!r}: X has "
            f"{n_features} features."
        )
    if isinstance(feature, str):
        if names is None:
            raise ValueError(
                f"{parameter} names the feature {feature!r}, but X has no column names. Pass "
                "positions, or a data frame."
            )
        if feature in names:
            return names.index(feature)
        raise ValueError(
            f"{parameter} names a column that X does not have: {feature!r}. Its columns are "
            f"{', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}."
        )
    raise _NoFeatureError(
        f"{parameter} must name features by position or by name, got {feature!r}."
    )


def _groups(
    interaction_cst: Any, names: list[str] | None, n_features: int
) -> tuple[tuple[int, ...], ...]:
    """Read groups of ascending positions; the remaining features form one more group."""
    groups = []
    for group in interaction_cst:
        if isinstance(group, (str, Mapping)) or not isinstance(group, Collection):
            raise ValueError(
                "Interaction constraints must be a sequence of tuples or lists: interaction_cst "
                "must be None, 'pairwise', 'no_interactions' or a list of sets of features; one "
                f"of its entries is {group!r}."
            )
        positions = {_position(f, "interaction_cst", names, n_features) for f in group}
        groups.append(tuple(sorted(positions)))
    rest = set(range(n_features)).difference(*groups)
    return tuple(group for group in (*groups, tuple(sorted(rest))) if group)
