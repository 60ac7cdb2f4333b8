"""What a node of a classification or regression tree is worth, from its statistics.

Statistics have the shape (n_statistics, ...), see ``kernels.cart.problem``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from ...scalars import impurity
from ...scalars.primitives import vectorise
from ..problem import (
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    WEIGHT_MASK,
    CartTarget,
)

square, x_log_x, poisson_score = (
    vectorise(formula) for formula in (impurity.square, impurity.x_log_x, impurity.poisson_score)
)


def is_classification(target: CartTarget) -> bool:
    return target.classes.shape[0] > 0


def terms_of(target: CartTarget, row: Any, weight: Any) -> Any:
    """What each row adds to the statistics, shape (n_statistics, n)."""
    xp = array_namespace(row)
    packed = weight + (1 << COUNT_SHIFT)
    if not is_classification(target):
        values = [xp.take(target.values[o, :], row) for o in range(target.n_outputs)]
        return xp.stack([packed, *(value * weight for value in values)])
    begin, terms = target.output_begin.tolist(), []
    for output in range(target.n_outputs):
        entry = xp.take(target.classes[output, :], row)
        for s in range(begin[output], begin[output + 1]):
            terms.append(xp.where(entry == s, packed, xp.zeros_like(packed)))
    return xp.stack(terms)


def packed_weight(statistics: Any, target: CartTarget) -> Any:
    """Rows and weight of the node: of all classes of the first output."""
    if not is_classification(target):
        return statistics[0, ...]
    xp = array_namespace(statistics)
    return xp.sum(statistics[: int(target.output_begin[1]), ...], axis=0)


def rows_of(statistics: Any, target: CartTarget) -> Any:
    return packed_weight(statistics, target) >> COUNT_SHIFT


def weight_of(statistics: Any, target: CartTarget) -> Any:
    """Weight as float64."""
    xp = array_namespace(statistics)
    return xp.astype(packed_weight(statistics, target) & WEIGHT_MASK, xp.float64)


def entries_of(statistics: Any, target: CartTarget) -> list[list[Any]]:
    """Of each output the weights of its classes, or its one sum, as float64."""
    xp = array_namespace(statistics)
    if not is_classification(target):
        outputs = range(1, target.n_outputs + 1)
        return [[xp.astype(statistics[o, ...], xp.float64)] for o in outputs]
    begin = target.output_begin.tolist()
    weights = xp.astype(statistics & WEIGHT_MASK, xp.float64)
    return [
        [weights[s, ...] for s in range(begin[o], begin[o + 1])] for o in range(target.n_outputs)
    ]


def _share_of_squares(entries: list[Any], weight: Any) -> Any:
    return sum((square(s) for s in entries), 0.0) / weight


def _entropy(entries: list[Any], weight: Any) -> Any:
    return sum((x_log_x(s) for s in entries), 0.0) - x_log_x(weight)


def _largest(entries: list[Any], weight: Any) -> Any:
    xp = array_namespace(weight)
    return xp.max(xp.stack(entries), axis=0)


def _poisson(entries: list[Any], weight: Any) -> Any:
    return poisson_score(entries[0], weight)


SCORES: dict[int, Callable[[list[Any], Any], Any]] = {
    GINI: _share_of_squares,
    ENTROPY: _entropy,
    MISCLASSIFICATION: _largest,
    SQUARED_ERROR: _share_of_squares,
    POISSON: _poisson,
}
"""Score of one output; ABSOLUTE_ERROR needs the rows (``absolute_error``)."""


def score(statistics: Any, target: CartTarget, criterion: int) -> Any:
    """Scores of nodes with rows; each output's is finished before they are added up."""
    weight = weight_of(statistics, target)
    of_output = SCORES[criterion]
    return sum((of_output(s, weight) for s in entries_of(statistics, target)), 0.0)


def has_score(statistics: Any, target: CartTarget, criterion: int) -> Any:
    """Whether a child with rows may have these statistics."""
    xp = array_namespace(statistics)
    if criterion != POISSON:
        return rows_of(statistics, target) > 0
    return xp.all(statistics[1:, ...] > 0, axis=0)


def value_of(statistics: Any, target: CartTarget) -> Any:
    """What monotone constraints compare: the mean, or the share of class 1."""
    return entries_of(statistics, target)[0][-1] / weight_of(statistics, target)


def absolute_error(value: Any, weight: Any, member: Any) -> tuple[Any, Any]:
    """Score and median (int64) of the rows that each line of ``member`` (sets, rows) selects."""
    xp = array_namespace(value)
    order = xp.argsort(value)
    value, member = xp.take(value, order), xp.take(member, order, axis=1)
    weight = xp.where(member, xp.take(weight, order)[None, :], 0)
    up_to = xp.cumulative_sum(weight, axis=1)
    reached = 2 * up_to >= up_to[:, -1:]
    median = xp.take(value, xp.argmax(xp.astype(reached, xp.int8), axis=1))
    error = xp.sum(weight * xp.abs(value[None, :] - median[:, None]), axis=1)
    return -error, median
