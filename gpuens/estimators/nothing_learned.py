"""The warning of a training that learns nothing, with its reason and what to change."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse

from ..devices.placement import to_numpy
from ..devices.sparse_tables import SparseTable
from ..forest.forest import Forest
from ..inputs.arrays import is_frame
from .parameters import AUTO_LEAF_ROWS

PACKAGE = __name__.partition(".")[0]
TINY_SPREAD = 1e-150
"""Range of a target below which squares of its deviations are not normal float64."""
ALLOWS_ALL = {
    "min_weight_fraction_leaf": 0.0,
    "min_sum_hessian": 1e-3,
    "min_gain_to_split": 0.0,
    "min_impurity_decrease": 0.0,
    "ccp_alpha": 0.0,
    "monotonic_cst": None,
}
"""Parameters by which splits are forbidden, and values that hardly forbid any."""


_of_ensemble: ContextVar[bool] = ContextVar("of_ensemble", default=False)


class NothingLearnedWarning(UserWarning):
    """The model is constant, or a metric of its rounds is not a number. The message names the
    reason and what to change."""


class Seen(NamedTuple):
    """The data of a training, as far as it decides whether there was something to learn.

    Parameters
    ----------
    n_rows : int
        Rows that a tree sees.
    target : array, shape (n_rows,) or (n_outputs, n_rows), or None
        Of the rows of positive weight; None: trees do without.
    features_vary : callable
        Returns whether a feature has two values.
    """

    n_rows: int
    target: Any
    features_vary: Callable[[], bool]


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn about the line that called this package, however deep the call is."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def warn(message: str) -> None:
    """Warn the caller of ``fit``."""
    warn_user(message, NothingLearnedWarning)


@contextmanager
def of_ensemble() -> Iterator[None]:
    """Fit a member of an ensemble inside: one without a split is not worth a warning, none with one
    is (``warn_if_members_have_no_split``)."""
    token = _of_ensemble.set(True)
    try:
        yield
    finally:
        _of_ensemble.reset(token)


def warn_if_no_split(
    settings: Any,
    forests: Iterable[Forest],
    seen: Callable[[], Seen],
    own_reason: Callable[[], str] | None = None,
) -> None:
    """Warn if no tree of a model has a split although its target is not constant.

    Parameters
    ----------
    settings : estimator
        Has the parameters of the trees.
    forests : iterable of Forest
        All trees of the model.
    seen : callable
        Called where there is no split.
    own_reason : callable, optional
        Returns the reason and what to change, or "" for one that every tree can have.
    """
    if _of_ensemble.get():
        return
    forests = list(forests)
    n_trees = sum(forest.n_trees for forest in forests)
    if n_trees == 0 or sum(forest.feature.size for forest in forests) > n_trees:
        return
    data = seen()
    spread = _spread(data.target)
    if spread == 0.0:
        return
    reason = own_reason() if own_reason is not None else ""
    reason = reason or _reason(settings, data, spread)
    warn(f"No tree has a split, so that all predictions are equal: {reason}")


def warn_if_members_have_no_split(
    settings: Any, members: Iterable[Any], X: Any, target: Any, n_rows: int, weight: Any = None
) -> None:
    """Warn of an ensemble whose members are trees of this package, none of which has a split.

    Parameters
    ----------
    settings : estimator
        The base estimator.
    members : iterable of fitted estimators
    X : array or sparse matrix, shape (n_rows, n_features)
    target : array, shape (n_rows,) or (n_rows, n_outputs)
    n_rows : int
        Rows that a member sees.
    weight : array, shape (n_rows,), or None
        Rows of weight zero do not count.
    """
    forests = [getattr(member, "forest_", None) for member in members]

    def seen() -> Seen:
        y = to_numpy(target)
        y = y if weight is None else y[to_numpy(weight) > 0]
        return Seen(n_rows, y.T, lambda: features_vary(X))

    if all(isinstance(forest, Forest) for forest in forests):
        warn_if_no_split(settings, forests, seen)  # type: ignore[arg-type]


def features_vary(X: Any) -> bool:
    """Return whether a column of a table has two values; missing ones do not count."""
    X = X.entries if isinstance(X, SparseTable) else X
    if issparse(X):
        return bool((X.max(axis=0) != X.min(axis=0)).nnz)
    if is_frame(X):
        columns = nw.from_native(X, eager_only=True).iter_columns()
        return any(_known(column).n_unique() > 1 for column in columns)
    table = X if hasattr(X, "dtype") else np.asarray(X, object)
    for f in range(table.shape[1]):
        column = to_numpy(table[:, f])
        if len(set(column[column == column].tolist())) > 1:
            return True
    return False


def _known(column: nw.Series[Any]) -> nw.Series[Any]:
    """Return the values of a column that are neither missing nor NaN."""
    values = column.drop_nulls()
    return values.filter(~values.is_nan()) if values.dtype.is_float() else values


def _spread(target: Any) -> float:
    """Return the largest range of an output."""
    if target is None:
        return math.inf
    return float((target.max(axis=-1) - target.min(axis=-1)).max())


def _reason(settings: Any, seen: Seen, spread: float) -> str:
    """Return why trees have no splits, and what to change."""
    params, n = settings.get_params(deep=False), seen.n_rows
    if params.get("min_samples_leaf") == "auto":  # of boosted members
        params["min_samples_leaf"] = AUTO_LEAF_ROWS
    if n < 2:
        return f"a tree sees one row{_drawn(params)}. Let trees see more rows."
    for name, sides, what in (
        ("min_samples_leaf", 2, "rows on either side of a split"),
        ("min_samples_split", 1, "rows in a node that is split"),
    ):
        least = _rows(params.get(name, 1), n)
        if sides * least > n:
            return (
                f"{name}={params[name]} demands {least} {what}, and a tree sees "
                f"{n}{_drawn(params)}. Lower {name}, or let trees see more rows."
            )
    if not seen.features_vary():
        return (
            "each feature of X has a single value, or is missing, in all rows that count. Pass "
            "features that differ from row to row, and check how X was read."
        )
    if spread < TINY_SPREAD:
        return (
            f"y ranges over {spread:.3g} only, and squares of that are zero in float64. Multiply y "
            "by a power of two, such as 2.0**500, and divide the predictions by it."
        )
    strict = [name for name, allows in ALLOWS_ALL.items() if _forbids(params.get(name), allows)]
    if not strict and _forbids(params.get("min_samples_leaf"), 1):
        strict = ["min_samples_leaf"]
    if not strict:
        return (
            "no split of a single feature lowers the loss. Check that the rows of X and y belong "
            "together, and add features that say something about y."
        )
    named = ", ".join(f"{name}={params[name]!r}" for name in strict)
    return f"no split satisfies {named}. Lower or drop {'one of them' if strict[1:] else 'it'}."


def _forbids(value: Any, allows: float | None) -> bool:
    return value is not None if allows is None else value is not None and value > allows


def _rows(value: float, n_rows: int) -> int:
    """Return a number of rows that is given as one or as a share."""
    return math.ceil(value * n_rows) if isinstance(value, float) and value < 1 else int(value)


def _drawn(params: dict[str, Any]) -> str:
    """Name the parameters by which trees see a part of the rows."""
    names = [name for name in ("subsample", "max_samples") if params.get(name) is not None]
    drawn = [f"{k}={params[k]}" for k in names if repr(params[k]) not in ("1.0", "'auto'")]
    return f" ({', '.join(drawn)})" if drawn else ""


def warn_of_one_class(data: str, y: Any, names: Any) -> None:
    """Warn of a set for early stopping whose rows are of one class.

    Parameters
    ----------
    data : str
        Its name in ``evals_result_``.
    y : int array
        Class numbers of its rows of positive weight.
    names : ndarray
        The classes.
    """
    if y.shape[0] and int(y.min()) == int(y.max()) and len(names) > 1:
        warn(
            f"All rows of {data!r}, by which early stopping chooses the number of rounds, are of "
            f"class {names.tolist()[int(y.min())]!r}: the model that predicts this class always is "
            "the best for them. Validate on rows of every class: raise validation_fraction, pass a "
            "set with all classes, or set early_stopping=False."
        )


def warn_of_unknown_metric(data: str, metric: str, values: list[float], stops: bool) -> None:
    """Warn of a metric that is NaN after some rounds.

    Parameters
    ----------
    data, metric : str
        Its names in ``evals_result_``.
    values : list of float
        From before the first round on.
    stops : bool
        Whether early stopping watches it.
    """
    unknown = np.isnan(values)
    if not unknown.any():
        return
    if unknown.all():
        when, effect = "in every round", "so that early stopping compares nothing"
    else:
        when = f"in {int(unknown.sum())} of {unknown.size} rounds, first in {unknown.argmax()}"
        effect = "which early stopping takes for worse than any number"
    warn(
        f"The metric {metric!r} of {data!r} is NaN {when}{', ' + effect if stops else ''}. Check "
        "whether it is defined for these rows (some metrics need rows of several classes) and for "
        "such predictions, or choose another one by scoring."
    )
