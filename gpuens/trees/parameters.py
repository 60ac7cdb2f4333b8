"""What values the parameters of trees and forests may have, and what they mean."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from ..estimators.parameters import is_bool, threads_of
from ..kernels.cart.problem import CartParams
from ..kernels.growth.params import UNLIMITED
from ..kernels.runtime.dtypes import MAX_BINS
from .criteria import Problem


def _is_int(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not is_bool(value) and int(value) >= least


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, Integral) and not is_bool(value)


def _is_share(value: Any) -> bool:
    return _is_real(value) and 0 < float(value) <= 1


_Rule = tuple[str, Callable[[Any], bool]]
_RULES: dict[str, _Rule] = {
    "splitter": ("'best' or 'random'", lambda v: isinstance(v, str) and v in ("best", "random")),
    "max_depth": ("None or an integer >= 1", lambda v: v is None or _is_int(v, 1)),
    "max_leaf_nodes": ("None or an integer >= 2", lambda v: v is None or _is_int(v, 2)),
    "min_samples_split": (
        "an integer >= 2 or a float in (0, 1]",
        lambda v: _is_int(v, 2) or _is_share(v),
    ),
    "min_samples_leaf": (
        "an integer >= 1 or a float in (0, 1)",
        lambda v: _is_int(v, 1) or (_is_share(v) and v < 1),
    ),
    "min_weight_fraction_leaf": (
        "a number in [0, 0.5]",
        lambda v: isinstance(v, Real) and not is_bool(v) and 0 <= float(v) <= 0.5,
    ),
    "max_features": (
        "None, 'sqrt', 'log2', an integer >= 1 or a float in (0, 1]",
        lambda v: (
            v is None
            or (isinstance(v, str) and v in ("sqrt", "log2"))
            or _is_int(v, 1)
            or _is_share(v)
        ),
    ),
    "min_impurity_decrease": (
        "a finite number >= 0",
        lambda v: isinstance(v, Real) and not is_bool(v) and 0 <= float(v) < math.inf,
    ),
    "ccp_alpha": (
        "a finite number >= 0",
        lambda v: isinstance(v, Real) and not is_bool(v) and 0 <= float(v) < math.inf,
    ),
    "max_bins": (
        f"None or an integer from 2 to {MAX_BINS}",
        lambda v: v is None or (_is_int(v, 2) and int(v) <= MAX_BINS),
    ),
    "n_estimators": ("an integer >= 1", lambda v: _is_int(v, 1)),
    "max_samples": (
        "None, an integer >= 1 or a finite float > 0",
        lambda v: v is None or _is_int(v, 1) or (_is_real(v) and 0 < float(v) < math.inf),
    ),
    "bootstrap": ("True or False", is_bool),
    "oob_score": ("True, False or a callable", lambda v: is_bool(v) or callable(v)),
    "warm_start": ("True or False", is_bool),
    "verbose": ("a bool or an integer >= 0", lambda v: is_bool(v) or _is_int(v, 0)),
}


def check_tree_parameters(estimator: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Raises
    ------
    ValueError
        Names the parameter, what it got and what it wants.
    """
    parameters = estimator.get_params(deep=False)
    for name, (text, allowed) in _RULES.items():
        if name in parameters and not allowed(parameters[name]):
            raise ValueError(f"{name} must be {text}, got {parameters[name]!r}.")
    criterion, known = parameters.get("criterion"), estimator._criteria
    if "criterion" in parameters and not (isinstance(criterion, str) and criterion in known):
        raise ValueError(f"criterion must be {' or '.join(map(repr, known))}, got {criterion!r}.")
    if "class_weight" in parameters:
        _check_class_weight(parameters["class_weight"], "n_estimators" in parameters)
    if criterion == "friedman_mse":
        warnings.warn(
            "criterion='friedman_mse' is deprecated, as in scikit-learn 1.9: it is another name "
            "of 'squared_error', pass that.",
            FutureWarning,
            stacklevel=3,
        )
    threads_of(estimator.n_jobs)


def _check_class_weight(value: Any, of_forest: bool) -> None:
    words = ("balanced", "balanced_subsample") if of_forest else ("balanced",)
    if value is None or (isinstance(value, str) and value in words):
        return
    factors = value if isinstance(value, list) else [value]
    if not factors or not all(map(_is_factors, factors)):
        raise ValueError(
            f"class_weight must be None, {', '.join(map(repr, words))}, a dict from classes to "
            f"finite numbers >= 0, or a list of these for several outputs, got {value!r}."
        )


def _is_factors(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(v, Real) and 0 <= float(v) < math.inf for v in value.values()
    )


def n_features_to_look_at(max_features: Any, n_features: int) -> int:
    """How many features ``max_features`` stands for."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(math.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(math.log2(n_features)))
    if isinstance(max_features, Integral):
        if int(max_features) > n_features:
            raise ValueError(
                f"max_features={max_features} asks for more features than the {n_features} of X. "
                "Pass at most that many, or a share such as 0.5."
            )
        return int(max_features)
    return max(1, int(max_features * n_features))


def cart_params(
    estimator: Any, problem: Problem, n_rows: int, n_features: int, *, random: bool
) -> CartParams:
    """The settings of growth, as plain numbers.

    Parameters
    ----------
    estimator : object
        Has scikit-learn's parameters of trees.
    problem : Problem
    n_rows, n_features : int
        Of the training table, which shares refer to.
    random : bool
        Whether cuts are random.
    """

    def limit(value: int | None) -> int:
        return UNLIMITED if value is None else min(int(value), UNLIMITED)

    def rows(value: Any, least: int) -> int:
        if isinstance(value, Integral):
            return min(int(value), UNLIMITED)
        return max(least, math.ceil(value * n_rows))

    looked_at = n_features_to_look_at(estimator.max_features, n_features)
    return CartParams(
        criterion=problem.criterion,
        max_depth=limit(estimator.max_depth),
        max_leaves=limit(estimator.max_leaf_nodes),
        min_samples_split=rows(estimator.min_samples_split, 2),
        min_samples_leaf=rows(estimator.min_samples_leaf, 1),
        min_weight_fraction=float(estimator.min_weight_fraction_leaf),
        # A little less: the gain is rounded, the number that the user compares it with is not.
        min_gain=float(estimator.min_impurity_decrease) * problem.gain_unit * (1.0 - 1e-10),
        max_features=looked_at,
        shuffle=1,  # ties fall to a random feature: members of an ensemble differ more
        random_splits=int(random),
    )
