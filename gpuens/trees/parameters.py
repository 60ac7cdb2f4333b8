"""The parameters of trees and forests: their rules, and the settings of growth they amount to."""

from __future__ import annotations

import math
import warnings
from numbers import Integral
from typing import Any

from ..devices.policy import Work, cart_work
from ..estimators.parameters import (
    BELOW_ONE,
    CALLABLE,
    CLASS_FACTORS_OF_OUTPUTS,
    COUNT,
    FEATURES,
    LARGE,
    NONE,
    NOT_NEGATIVE,
    ROWS_TO_SPLIT,
    SWITCH,
    TINY,
    VERBOSE,
    check_rules,
    fraction,
    integer,
    n_features_to_look_at,
    number,
    one_of,
    threads_of,
)
from ..kernels.cart.problem import CartParams
from ..kernels.growth.params import UNLIMITED
from ..kernels.runtime.dtypes import MAX_BINS
from .criteria import Problem

_RULES = {
    "splitter": one_of("best", "random"),
    "max_depth": NONE | COUNT,
    "max_leaf_nodes": NONE | integer(2),
    "min_samples_split": ROWS_TO_SPLIT,
    "min_samples_leaf": COUNT | fraction("a float in (0, 1)", TINY, BELOW_ONE),
    "min_weight_fraction_leaf": number("a number in [0, 0.5]", 0.0, 0.5),
    "max_features": FEATURES,
    "min_impurity_decrease": NOT_NEGATIVE,
    "ccp_alpha": NOT_NEGATIVE,
    "max_bins": NONE | integer(2, MAX_BINS),
    "n_estimators": COUNT,
    "max_samples": NONE | COUNT | fraction("a finite float > 0", TINY, LARGE),
    "bootstrap": SWITCH,
    "oob_score": SWITCH | CALLABLE,
    "honest": SWITCH,
    "feature_combinations": one_of("auto") | number("a number >= 1", 1.0, LARGE),
    "n_projections": one_of("auto") | COUNT,
    "warm_start": SWITCH,
    "verbose": VERBOSE,
}


def check_tree_parameters(estimator: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` is checked when it is resolved.
    Raises a ValueError that names the parameter, what it got and what it wants."""
    parameters = estimator.get_params(deep=False)
    rules = _RULES | {"criterion": one_of(*estimator._criteria)}
    if "n_projections" in parameters:
        rules["max_features"] = one_of("auto") | FEATURES
    if "class_weight" in parameters:
        words = ["balanced", *(["balanced_subsample"] if "n_estimators" in parameters else [])]
        rules["class_weight"] = NONE | one_of(*words) | CLASS_FACTORS_OF_OUTPUTS
    check_rules(estimator, rules)
    if parameters.get("criterion") == "friedman_mse":
        warnings.warn(
            "criterion='friedman_mse' is deprecated, as in scikit-learn 1.9: it is another name "
            "of 'squared_error', pass that.",
            FutureWarning,
            stacklevel=3,
        )
    if parameters.get("honest") and parameters["criterion"] == "absolute_error":
        raise ValueError(
            "honest=True does not go with criterion='absolute_error': pass "
            "criterion='squared_error', or honest=False."
        )
    threads_of(estimator.n_jobs)


def grows_on_host(tree: Any) -> bool:
    """Return whether the host grows the trees of an estimator wherever the data is: those of the
    absolute error."""
    return bool(tree.criterion == "absolute_error")


def sorts_on_device(tree: Any) -> bool:
    """Return whether a GPU sorts the rows of an estimator's trees by every feature: for exact
    thresholds, unless cuts are drawn at random."""
    return tree.max_bins is None and not has_random_cuts(tree)


def has_random_cuts(tree: Any) -> bool:
    """Return whether the cuts of an estimator's trees are drawn at random."""
    return getattr(tree, "_random_splits", False) or getattr(tree, "splitter", "") == "random"


def work_of_trees(estimator: Any, size: tuple[int, int], n_trees: Any) -> Work:
    """Return the work of growing an estimator's trees on a table of (n_rows, n_features)."""
    share, depth = estimator.max_features, estimator.max_depth
    looked_at = size[1]  # also for settings that are checked, and refused, later
    if isinstance(share, Integral):
        looked_at = min(int(share), looked_at)
    elif isinstance(share, float) or share in ("sqrt", "log2"):
        looked_at = n_features_to_look_at(share, looked_at)
    return cart_work(
        size,
        n_trees,
        looked_at=looked_at,
        max_depth=int(depth) if isinstance(depth, Integral) else None,
        n_sorted=size[1] if sorts_on_device(estimator) else 0,
        on_host=grows_on_host(estimator),
    )


def cart_params(
    estimator: Any, problem: Problem, n_rows: int, n_features: int, *, random: bool
) -> CartParams:
    """Return the settings of growth as plain numbers.

    Parameters
    ----------
    estimator : object
        Has scikit-learn's parameters of trees.
    n_rows, n_features : int
        Of the training table, which shares refer to.
    random : bool
        Whether cuts are random.
    """

    def rows(value: Any, least: int) -> int:
        if isinstance(value, Integral):
            return min(int(value), UNLIMITED)
        return max(least, math.ceil(value * n_rows))

    looked_at = estimator._n_looked_at(n_features)
    return CartParams(
        criterion=problem.criterion,
        max_depth=min(int(estimator.max_depth or UNLIMITED), UNLIMITED),
        max_leaves=min(int(estimator.max_leaf_nodes or UNLIMITED), UNLIMITED),
        min_samples_split=rows(estimator.min_samples_split, 2),
        min_samples_leaf=rows(estimator.min_samples_leaf, 1),
        min_weight_fraction=float(estimator.min_weight_fraction_leaf),
        # Slightly less: the gain is rounded, the number it is compared with is not.
        min_gain=float(estimator.min_impurity_decrease) * problem.gain_unit * (1.0 - 1e-10),
        max_features=looked_at,
        shuffle=1,  # ties fall to a random feature: members of an ensemble differ more
        random_splits=int(random),
    )
