"""Rules for parameters of estimators, and the meaning of seeds, threads and constraints."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..config import available_threads
from ..other_names import meant_value

AUTO_LEAF_ROWS = 10
"""Fewest rows of a leaf that ``min_samples_leaf="auto"`` stands for in gradient boosting."""
_SEEDS = 2**32


def is_bool(value: Any) -> bool:
    """Return whether a value is True or False, of Python or NumPy."""
    return isinstance(value, (bool, np.bool_))


def is_count(value: Any, least: int = 1) -> bool:
    """Return whether a value is an integer >= ``least``."""
    return isinstance(value, Integral) and not is_bool(value) and int(value) >= least


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, not True or False."""
    return isinstance(value, Real) and not is_bool(value)


def is_share(value: Any) -> bool:
    """Return whether a value is a share of the rows: a number in (0, 1) that is not an integer."""
    return is_number(value) and not isinstance(value, Integral) and 0 < float(value) < 1


Interval = tuple[float, float]
"""A range of numbers: the least and the largest."""
TINY, LARGE, BELOW_ONE = math.ulp(0.0), sys.float_info.max, math.nextafter(1.0, 0.0)
"""The least float above 0, the largest finite one, and the largest below 1: the ends of open
ranges."""


class Rule(NamedTuple):
    """The values that a parameter may have: what any of these fields allows.

    options : tuple of str
        The alternatives, as error messages list them.
    words : tuple
        Strings, and None.
    switch : bool
        Whether True and False are allowed. They are not numbers.
    integers, floats : tuple of Interval
        Ranges of integers, and of numbers that are not integers.
    tests : tuple of callables
        Return whether a value of any other kind is allowed.
    """

    options: tuple[str, ...]
    words: tuple[str | None, ...] = ()
    switch: bool = False
    integers: tuple[Interval, ...] = ()
    floats: tuple[Interval, ...] = ()
    tests: tuple[Callable[[Any], bool], ...] = ()

    def __or__(self, other: Rule) -> Rule:
        """Allow what either rule allows."""
        return Rule(
            self.options + other.options,
            self.words + other.words,
            self.switch or other.switch,
            self.integers + other.integers,
            self.floats + other.floats,
            self.tests + other.tests,
        )

    def allows(self, value: Any) -> bool:
        """Return whether a value is one of those of the rule."""
        if value is None or isinstance(value, str):
            known = value in self.words
        elif isinstance(value, (bool, np.bool_)):
            known = self.switch
        elif isinstance(value, Integral):
            known = any(low <= int(value) <= high for low, high in self.integers)
        elif isinstance(value, Real):
            known = any(low <= float(value) <= high for low, high in self.floats)
        else:
            known = False
        return known or any(test(value) for test in self.tests)

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError that names the parameter unless the value is allowed."""
        if not self.allows(value):
            *others, last = self.options
            wanted = f"{', '.join(others)} or {last}" if others else last
            hint = meant_value(name, value)
            raise ValueError(f"{name} must be {wanted}, got {value!r}.{hint}")


def integer(least: int, most: int | None = None) -> Rule:
    """Allow integers within bounds."""
    if most is None:
        return Rule((f"an integer >= {least}",), integers=((least, math.inf),))
    return Rule((f"an integer from {least} to {most}",), integers=((least, most),))


def number(wanted: str, least: float, most: float) -> Rule:
    """Allow real numbers within bounds."""
    return Rule((wanted,), integers=((least, most),), floats=((least, most),))


def fraction(wanted: str, least: float, most: float) -> Rule:
    """Allow real numbers other than integers within bounds."""
    return Rule((wanted,), floats=((least, most),))


def one_of(*words: str) -> Rule:
    """Allow some strings."""
    return Rule(tuple(map(repr, words)), words)


def passing(wanted: str, test: Callable[[Any], bool]) -> Rule:
    """Allow what passes a test."""
    return Rule((wanted,), tests=(test,))


def _are_factors(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(factor, Real) and 0 <= float(factor) < math.inf for factor in value.values()
    )


NONE = Rule(("None",), words=(None,))
SWITCH = Rule(("True", "False"), switch=True)
COUNT = integer(1)
VERBOSE = Rule(("a bool", "an integer >= 0"), switch=True, integers=((0, math.inf),))
JOBS = NONE | Rule(("an integer other than 0",), integers=((-math.inf, -1), (1, math.inf)))
POSITIVE = number("a finite number > 0", TINY, LARGE)
NOT_NEGATIVE = number("a finite number >= 0", 0.0, LARGE)
SHARE = number("a number in (0, 1]", TINY, 1.0)
FLOAT_SHARE = fraction("a float in (0, 1]", TINY, 1.0)
FEATURES = NONE | one_of("sqrt", "log2") | COUNT | FLOAT_SHARE
"""Valid values of ``max_features``, see ``n_features_to_look_at``."""
ROWS_TO_SPLIT = integer(2) | FLOAT_SHARE
"""Valid values of ``min_samples_split``."""
HELD_OUT = fraction("a number in (0, 1)", TINY, BELOW_ONE) | Rule(
    ("a number of rows >= 1",), integers=((1, math.inf),)
)
CALLABLE = passing("a callable", callable)
CLASS_FACTORS = passing("a dict from classes to finite numbers >= 0", _are_factors)
"""A dict of factors, for ``class_weight``."""
CLASS_FACTORS_OF_OUTPUTS = CLASS_FACTORS | passing(
    "a list of these for several outputs",
    lambda value: isinstance(value, list) and bool(value) and all(map(_are_factors, value)),
)


def check_rules(estimator: Any, rules: Mapping[str, Rule]) -> None:
    """Check those parameters of an estimator that have a rule. Raises a ValueError that names the
    parameter, what it got and what it wants."""
    kind: Any = type(estimator)
    names = parameters_of(kind)
    for name, rule in rules.items():
        if name in names:
            rule.check(name, getattr(estimator, name))


@functools.lru_cache(maxsize=256)
def parameters_of(kind: Any) -> frozenset[str]:
    """Return the names of an estimator's parameters: to read its signature takes a tenth of the
    time to train on a few rows."""
    return frozenset(kind._get_param_names())


@functools.lru_cache(maxsize=256)
def takes_any_parameter(kind: Any) -> bool:
    """Return whether a class, made by a user, has further parameters (``**kwargs``)."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def check_learner(estimator: Any, wanted: str = "None or an object") -> None:
    """Check that a parameter ``estimator`` can be fitted, asked and cloned. Raises a TypeError if
    it is a class, or lacks one of the methods."""
    needed = ("fit", "predict", "get_params")
    lacking = [name for name in needed if not callable(getattr(estimator, name, None))]
    if lacking or isinstance(estimator, type):
        raise TypeError(
            f"estimator must be {wanted} with the methods fit, predict and get_params (a "
            f"subclass of sklearn.base.BaseEstimator has the last one), got {estimator!r}."
        )


def check_callbacks(value: Any) -> None:
    """Check the parameter ``callbacks``: None, or a list of functions and of objects with
    ``after_iteration``."""
    if value is None:
        return
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"callbacks must be None or a list, got {value!r}.")
    for callback in value:
        if not callable(getattr(callback, "after_iteration", callback)) or isinstance(
            callback, type
        ):
            raise TypeError(
                "callbacks must be functions of the state, or objects with a method "
                f"after_iteration(state), got {callback!r}."
            )


def n_features_to_look_at(max_features: Any, n_features: int) -> int:
    """Return the number of features that ``max_features`` means."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(math.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(math.log2(n_features)))
    if isinstance(max_features, Integral):
        if int(max_features) > n_features:
            raise ValueError(
                f"max_features={max_features} is more than the {n_features} features of X. Pass at "
                "most that many, or a share such as 0.5."
            )
        return int(max_features)
    return max(1, int(max_features * n_features))


def seed_of(random_state: Any) -> int:
    """Return the random key of a fit. None is a fixed key: the same call gives the same model."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral) and not isinstance(random_state, (bool, np.bool_)):
        if 0 <= int(random_state) < _SEEDS:
            return int(random_state)
    elif not isinstance(random_state, (Real, str)):
        try:
            return int(check_random_state(random_state).randint(0, 2**31 - 1))
        except ValueError:
            pass
    raise ValueError(
        "random_state must be None, an integer from 0 to 2**32 - 1 or a numpy RandomState, got "
        f"{random_state!r}."
    )


def threads_of(n_jobs: Any) -> int:
    """Return the number of threads that ``n_jobs`` means: None and -1 are all, -2 all but one. A
    training beside others gets no more than its share."""
    JOBS.check("n_jobs", n_jobs)
    n_threads = available_threads() if n_jobs is None else int(n_jobs)
    if n_threads < 0:
        n_threads = max(1, available_threads() + 1 + n_threads)
    share = share_of_threads.get()
    return n_threads if share is None else min(n_threads, share())


share_of_threads: ContextVar[Callable[[], int] | None] = ContextVar(
    "share_of_threads", default=None
)
"""Returns how many threads a training that is one of several side by side may keep busy."""


def monotone_constraints(
    monotonic_cst: Any, categorical: np.ndarray, n_classes: tuple[int, ...], n_outputs: int
) -> np.ndarray:
    """Read the parameter ``monotonic_cst``: return the constraint of each feature, int8.

    Parameters
    ----------
    monotonic_cst : array-like of int, shape (n_features,), or None
    categorical : bool, shape (n_features,)
    n_classes : tuple of int
        Empty for regression.

    Raises
    ------
    ValueError
        Wrong length or entries, a constraint on a category, several outputs or classes.
    """
    n_features = categorical.size
    if monotonic_cst is None:
        return np.zeros(n_features, np.int8)
    constraints = np.asarray(monotonic_cst)
    if n_outputs > 1 and constraints.any():
        raise ValueError(
            "Monotonicity constraints are not supported with multiple outputs. y has "
            f"{n_outputs}: set monotonic_cst=None, or fit a model for each."
        )
    _require_constraints(constraints, monotonic_cst, n_features)
    constraints = constraints.astype(np.int8)
    if not constraints.any():
        return constraints
    if n_classes and n_classes[0] > 2:
        raise ValueError(
            "Monotonicity constraints are not supported with multiclass classification. y has "
            f"{n_classes[0]} classes: set monotonic_cst=None."
        )
    wrong = np.flatnonzero((constraints != 0) & categorical)
    if wrong.size:
        raise ValueError(
            "Categorical features cannot have monotonic constraints: monotonic_cst constrains "
            f"feature {wrong[0]}, whose categories have no order. Set it to 0 there."
        )
    return constraints


def _require_constraints(constraints: np.ndarray, monotonic_cst: Any, n_features: int) -> None:
    """Raise a ValueError unless there is one of -1, 0 and 1 for each feature."""
    if constraints.ndim != 1:
        raise ValueError(
            "monotonic_cst must be None or a list with -1, 0 or 1 for each feature, got "
            f"{monotonic_cst!r}."
        )
    if constraints.size != n_features:
        raise ValueError(
            f"monotonic_cst has shape {constraints.size} but the input data X has {n_features} "
            "features. Pass -1, 0 or 1 for each of them."
        )
    if not bool(np.isin(constraints, (-1, 0, 1)).all()):
        raise ValueError(
            "monotonic_cst must be None or an array-like of -1, 0 or 1, but got "
            f"[{', '.join(sorted({str(c) for c in constraints.tolist()}))}]."
        )
