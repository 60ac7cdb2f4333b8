"""What values the parameters of a stack may have, and the errors for the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import check_jobs, check_verbose
from .folds import PREFIT, check_folds, is_holdout
from .named_estimators import check_estimators, may_be
from .stacking_columns import METHODS


def check_stacking_parameters(stack: Any, groups: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Parameters
    ----------
    stack : StackingClassifier or StackingRegressor
    groups : object
        The argument of ``fit``.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    check_estimators(stack, stack._member_kind)
    check_folds(stack.cv)
    check_jobs(stack.n_jobs)
    check_verbose(stack.verbose)
    if groups is not None and (is_holdout(stack.cv) or stack.cv == PREFIT):
        raise ValueError(
            f"groups are for splitters, but cv is {stack.cv!r}. Pass one, such as "
            "cv=sklearn.model_selection.GroupKFold(5), or no groups."
        )
    method = stack._stack_method()
    if not (isinstance(method, str) and method in ("auto", *METHODS)):
        allowed = ", ".join(map(repr, ("auto", *METHODS)))
        raise ValueError(f"stack_method must be one of {allowed}, got {method!r}.")
    if not isinstance(stack.passthrough, (bool, np.bool_)):
        raise ValueError(f"passthrough must be True or False, got {stack.passthrough!r}.")
    final = stack._final_estimator()
    if isinstance(final, type) or not callable(getattr(final, "fit", None)):
        raise TypeError(
            f"final_estimator must be None or an object with a method fit, got {final!r}."
        )
    if not may_be(final, stack._final_kind):
        raise ValueError(
            f"'final_estimator' parameter should be a {stack._final_kind}. Got {final}"
        )
