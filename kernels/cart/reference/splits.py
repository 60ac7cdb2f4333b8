"""The best split of one node of a classification or regression tree, and the scores of nodes.

Statistics have the shape (n_statistics, ...), see ``kernels.cart.problem``.

The rows of a node that have the same code of a feature form a group. Every candidate cuts some
order of the groups in two: the ascending one, an order of the categories, or the two sides of
a random split, one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.reference.arrays import beside
from ...scalars import gain
from ...scalars.primitives import vectorise
from ...scalars.rng import PURPOSE_FEATURES, PURPOSE_THRESHOLD, draw, subkey
from ...scalars.routing import midpoint, random_cut
from ..problem import (
    ABSOLUTE_ERROR,
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    WEIGHT_MASK,
    CartParams,
    CartTable,
    CartTarget,
)

u64 = np.uint64

square, x_log_x, poisson_score = (
    vectorise(formula) for formula in (gain.square, gain.x_log_x, gain.poisson_score)
)


def is_classification(target: CartTarget) -> bool:
    return target.classes.shape[0] > 0


def terms_of(target: CartTarget, row: Array, weight: Array) -> Array:
    """Return what each row adds to the statistics, shape (n_statistics, n)."""
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


def packed_weight(statistics: Array, target: CartTarget) -> Array:
    """Return rows and weight of the node: those of all classes of the first output."""
    if not is_classification(target):
        return statistics[0, ...]
    xp = array_namespace(statistics)
    return xp.sum(statistics[: int(target.output_begin[1]), ...], axis=0)


def rows_of(statistics: Array, target: CartTarget) -> Array:
    return packed_weight(statistics, target) >> COUNT_SHIFT


def weight_of(statistics: Array, target: CartTarget) -> Array:
    """Return the weight as float64."""
    xp = array_namespace(statistics)
    return xp.astype(packed_weight(statistics, target) & WEIGHT_MASK, xp.float64)


def entries_of(statistics: Array, target: CartTarget) -> list[list[Array]]:
    """Return the weights of each output's classes, or its one sum, as float64."""
    xp = array_namespace(statistics)
    if not is_classification(target):
        outputs = range(1, target.n_outputs + 1)
        return [[xp.astype(statistics[o, ...], xp.float64)] for o in outputs]
    begin = target.output_begin.tolist()
    weights = xp.astype(statistics & WEIGHT_MASK, xp.float64)
    return [
        [weights[s, ...] for s in range(begin[o], begin[o + 1])] for o in range(target.n_outputs)
    ]


def _share_of_squares(entries: list[Array], weight: Array) -> Array:
    return sum((square(s) for s in entries), 0.0) / weight


def _entropy(entries: list[Array], weight: Array) -> Array:
    return sum((x_log_x(s) for s in entries), 0.0) - x_log_x(weight)


def _largest(entries: list[Array], weight: Array) -> Array:
    xp = array_namespace(weight)
    return xp.max(xp.stack(entries), axis=0)


def _poisson(entries: list[Array], weight: Array) -> Array:
    return poisson_score(entries[0], weight)


SCORES: dict[int, Callable[[list[Any], Any], Any]] = {
    GINI: _share_of_squares,
    ENTROPY: _entropy,
    MISCLASSIFICATION: _largest,
    SQUARED_ERROR: _share_of_squares,
    POISSON: _poisson,
}
"""Score of one output; ABSOLUTE_ERROR needs the rows (``absolute_error``)."""


def score(statistics: Array, target: CartTarget, criterion: int) -> Any:
    """Score nodes with rows; each output's score is finished before they are added up."""
    weight = weight_of(statistics, target)
    of_output = SCORES[criterion]
    return sum((of_output(s, weight) for s in entries_of(statistics, target)), 0.0)


def has_score(statistics: Array, target: CartTarget, criterion: int) -> Array:
    """Return whether a child with rows may have these statistics."""
    xp = array_namespace(statistics)
    if criterion != POISSON:
        return rows_of(statistics, target) > 0
    return xp.all(statistics[1:, ...] > 0, axis=0)


def value_of(statistics: Array, target: CartTarget) -> Array:
    """Return the number that monotone constraints compare: the mean, or the share of class 1."""
    return entries_of(statistics, target)[0][-1] / weight_of(statistics, target)


def absolute_error(value: Array, weight: Array, member: Array) -> tuple[Array, Array]:
    """Return score and median (int64) of the rows that each line of ``member`` (sets, rows)
    selects."""
    xp = array_namespace(value)
    order = xp.argsort(value)
    value, member = xp.take(value, order), xp.take(member, order, axis=1)
    weight = xp.where(member, xp.take(weight, order)[None, :], 0)
    up_to = xp.cumulative_sum(weight, axis=1)
    reached = 2 * up_to >= up_to[:, -1:]
    median = xp.take(value, xp.argmax(xp.astype(reached, xp.int8), axis=1))
    error = xp.sum(weight * xp.abs(value[None, :] - median[:, None]), axis=1)
    return -error, median


CHUNK = 2**21
"""Entries of the largest table (candidates, rows) in memory."""


class NodeRows(NamedTuple):
    """The rows of a node.

    row, weight : int64, shape (n,)
    terms : int64, shape (n_statistics, n)
        What each row adds to the statistics.
    """

    row: Array
    weight: Array
    terms: Array


class CodeGroups(NamedTuple):
    """The rows of a node by their code of one feature.

    code : int64, shape (g,)
        Codes that occur, ascending, without the missing one.
    sums : int64, shape (n_statistics, g)
    missing : int64, shape (n_statistics,)
    has_missing : bool
    of_row : int64, shape (n,)
        Each row's group, g where the value is missing.
    """

    code: Any
    sums: Array
    missing: Array
    has_missing: bool
    of_row: Any


class CandidateCuts(NamedTuple):
    """Candidates in their order.

    order : int64, shape (g,)
        The groups, those on the left first.
    after : int64, shape (n_cuts,)
        Place in the order of the last group on the left.
    missing_left : int64, shape (n_cuts,)
    value : float
        Where a random split cuts the values.
    """

    order: Array
    after: Array
    missing_left: Array
    value: float = np.nan


class Found(NamedTuple):
    """The best candidate of a feature."""

    score: float
    feature: int
    groups: CodeGroups
    cuts: CandidateCuts
    cut: int
    n_left: int
    values: tuple[float, float]


def fill_best_split(
    node: np.ndarray, sample: NodeRows, table: CartTable, target: CartTarget, params: CartParams
) -> None:
    """Write the node's best split into its columns (see ``node_type``)."""
    best: Found | None = None
    all_constant = True
    for looked_at, feature in enumerate(_features(node, table, params)):
        if looked_at >= params.max_features and not all_constant:
            break
        groups = _group(sample, table, feature)
        for cuts in _candidates(groups, feature, node, table, target, params):
            found = _best_cut(feature, groups, cuts, node, sample, table, target, params)
            all_constant = False
            if found is not None and (best is None or found.score > best.score):
                best = found
    if best is not None:
        node["gain"] = best.score - _score_of_node(node, sample, target, params)
        node["values"] = best.values
        _write(best, node, table)


def _features(node: np.ndarray, table: CartTable, params: CartParams) -> Iterator[int]:
    """Yield all features in the order in which the node looks at them."""
    order = list(range(table.n_bins.size))
    stream = subkey(node["key"], PURPOSE_FEATURES, u64(0))
    for j in range(len(order)):
        if params.shuffle:
            k = j + (int(draw(stream, u64(j))) * (len(order) - j) >> 32)
            order[j], order[k] = order[k], order[j]
        yield order[j]


def _group(sample: NodeRows, table: CartTable, feature: int) -> CodeGroups:
    xp = array_namespace(sample.row)
    code = xp.astype(xp.take(table.codes[feature, :], sample.row), xp.int64)
    order = xp.argsort(code)
    code = xp.take(code, order)
    one = xp.ones(1, dtype=xp.bool, device=device(code))
    is_first = xp.concat([one, code[1:] != code[:-1]])
    last = xp.nonzero(xp.concat([is_first[1:], one]))[0]
    up_to = xp.cumulative_sum(xp.take(sample.terms, order, axis=1), axis=1)
    up_to = xp.take(up_to, last, axis=1)
    sums = xp.concat([up_to[:, :1], up_to[:, 1:] - up_to[:, :-1]], axis=1)
    of_row = xp.cumulative_sum(xp.astype(is_first, xp.int64)) - 1
    of_row = xp.take(of_row, xp.argsort(order))
    code = xp.take(code, last)
    has_missing = int(code[-1]) == int(table.n_bins[feature])
    g = code.shape[0] - has_missing
    missing = sums[:, -1] if has_missing else xp.zeros_like(sums[:, -1])
    return CodeGroups(code[:g], sums[:, :g], missing, has_missing, of_row)


def _candidates(
    groups: CodeGroups,
    feature: int,
    node: np.ndarray,
    table: CartTable,
    target: CartTarget,
    params: CartParams,
) -> Iterator[CandidateCuts]:
    """Yield the candidates of a feature, order by order."""
    xp = array_namespace(groups.code)
    n_groups = groups.code.shape[0]
    ascending = xp.arange(n_groups, dtype=xp.int64, device=device(groups.code))
    if n_groups == 0 or (n_groups == 1 and not groups.has_missing):
        return
    if params.random_splits and n_groups > 1:
        yield _random_cut(groups, ascending, feature, node, table)
    elif params.random_splits:
        yield CandidateCuts(ascending, ascending, ascending)
    elif not table.categorical[feature]:
        yield _all_cuts(groups, ascending)
    else:
        weight = weight_of(groups.sums, target)
        entries = [s for output in entries_of(groups.sums, target) for s in output]
        if target.n_outputs == 1 and len(entries) == 2:
            del entries[0]
        for s in entries:
            yield _all_cuts(groups, xp.argsort(s / weight, stable=True))


def _all_cuts(groups: CodeGroups, order: Array) -> CandidateCuts:
    """Return all cuts of an order: missing values on the right, then on the left; the last cut
    would leave no row right."""
    xp = array_namespace(order)
    sides = 2 if groups.has_missing else 1
    n_cuts = order.shape[0] * sides - 1
    number = xp.arange(n_cuts, dtype=xp.int64, device=device(order))
    return CandidateCuts(order, number // sides, number % sides)


def _random_cut(
    groups: CodeGroups, ascending: Array, feature: int, node: np.ndarray, table: CartTable
) -> CandidateCuts:
    """Return the one candidate of at least two groups."""
    xp = array_namespace(ascending)
    stream = subkey(node["key"], PURPOSE_THRESHOLD, u64(feature))
    bits = int(draw(stream, u64(0)))
    missing_left = xp.zeros_like(ascending[:1]) + (bits & 1 if groups.has_missing else 0)
    code = [int(c) for c in groups.code]
    if table.categorical[feature]:
        left = [int(draw(stream, u64(c + 1))) & 1 for c in code]
        if len(set(left)) == 1:
            left[0] = 1 - left[0]
        order = sorted(range(len(code)), key=lambda place: -left[place])
        after = xp.zeros_like(missing_left) + (sum(left) - 1)
        return CandidateCuts(beside(np.array(order, np.int64), ascending), after, missing_left)
    lower, upper = (_bounds(values, feature, table)[code] for values in (table.lower, table.upper))
    cut = random_cut(lower[0], upper[-1], float(bits))
    n_left = int(np.sum(lower / 2 + upper / 2 <= cut))
    after = xp.zeros_like(missing_left) + (min(max(n_left, 1), len(code) - 1) - 1)
    return CandidateCuts(ascending, after, missing_left, cut)


def _bounds(values: np.ndarray, feature: int, table: CartTable) -> np.ndarray:
    """Return the entries of a feature's bins."""
    return values[table.begin[feature] : table.begin[feature + 1]]


def _best_cut(
    feature: int,
    groups: CodeGroups,
    cuts: CandidateCuts,
    node: np.ndarray,
    sample: NodeRows,
    table: CartTable,
    target: CartTarget,
    params: CartParams,
) -> Found | None:
    """Return the candidate with the highest score of those that are allowed."""
    xp = array_namespace(groups.sums)
    up_to = xp.cumulative_sum(xp.take(groups.sums, cuts.order, axis=1), axis=1)
    left = xp.take(up_to, cuts.after, axis=1)
    left = left + groups.missing[:, None] * cuts.missing_left[None, :]
    children = (left, beside(node["statistics"], left)[:, None] - left)
    may = xp.ones(left.shape[1], dtype=xp.bool, device=device(left))
    for child in children:
        may = may & (rows_of(child, target) >= params.min_samples_leaf)
        may = may & (weight_of(child, target) >= float(node["least_weight"]))
        may = may & has_score(child, target, params.criterion)
    kept = xp.nonzero(may)[0]
    if kept.shape[0] == 0:
        return None
    if params.criterion == ABSOLUTE_ERROR:
        scores, values = _absolute_errors(groups, cuts, kept, sample, target)
    else:
        children = tuple(xp.take(child, kept, axis=1) for child in children)
        scores = [score(child, target, params.criterion) for child in children]
        values = [value_of(child, target) for child in children]
    total = scores[0] + scores[1]
    if table.monotone.any():
        may = _keep_order(values, node, table.monotone[feature])
        if not bool(xp.any(may)):
            return None
        total = xp.where(may, total, -xp.inf)
    best = int(xp.argmax(total))
    n_left = int(rows_of(left, target)[int(kept[best])])
    of_children = (float(values[0][best]), float(values[1][best]))
    return Found(float(total[best]), feature, groups, cuts, int(kept[best]), n_left, of_children)


def _keep_order(values: list[Array], node: np.ndarray, direction: int) -> Array:
    """Mark the pairs of values that the constraint on the feature allows."""
    lowest, highest = node["bounds"].tolist()
    left, right = values
    if direction == 0:
        return array_namespace(left).ones_like(left) > 0
    may = int(direction) * left <= int(direction) * right
    for value in values:
        may = may & (lowest <= value) & (value <= highest)
    return may


def _absolute_errors(
    groups: CodeGroups, cuts: CandidateCuts, kept: Array, sample: NodeRows, target: CartTarget
) -> tuple[list[Array], list[Array]]:
    """Return scores and values of the children of the candidates ``kept``, from their rows."""
    xp = array_namespace(kept)
    place = xp.concat([xp.argsort(cuts.order), xp.zeros_like(kept[:1])])
    place = xp.take(place, groups.of_row)[None, :]
    is_missing = (groups.of_row == groups.code.shape[0])[None, :]
    chunks = []
    step = max(1, CHUNK // sample.row.shape[0])
    for first in range(0, kept.shape[0], step):
        cut = kept[first : min(first + step, kept.shape[0])]
        missing_left = xp.take(cuts.missing_left, cut)[:, None] != 0
        in_left = place <= xp.take(cuts.after, cut)[:, None]
        left = xp.where(is_missing, missing_left, in_left)
        chunks.append([_absolute_error(member, sample, target) for member in (left, ~left)])
    scores, values = (
        [xp.concat([chunk[side][field] for chunk in chunks]) for side in (0, 1)] for field in (0, 1)
    )
    return scores, values


def _absolute_error(member: Array, sample: NodeRows, target: CartTarget) -> tuple[Any, Array]:
    """Return scores of sets of rows, and medians of the first output."""
    xp = array_namespace(member)
    of_outputs = [
        absolute_error(xp.take(target.values[o, :], sample.row), sample.weight, member)
        for o in range(target.n_outputs)
    ]
    total = sum((xp.astype(score, xp.float64) for score, _ in of_outputs), 0.0)
    return total, xp.astype(of_outputs[0][1], xp.float64)


def _score_of_node(
    node: np.ndarray, sample: NodeRows, target: CartTarget, params: CartParams
) -> float:
    xp = array_namespace(sample.row)
    if params.criterion == ABSOLUTE_ERROR:
        every = xp.ones((1, sample.row.shape[0]), dtype=xp.bool, device=device(sample.row))
        return float(_absolute_error(every, sample, target)[0][0])
    statistics = beside(node["statistics"], sample.row)[:, None]
    return float(score(statistics, target, params.criterion)[0])


def _write(best: Found, node: np.ndarray, table: CartTable) -> None:
    """Fill in how the node's rows are sent to its children."""
    groups, cuts, feature = best.groups, best.cuts, best.feature
    xp = array_namespace(groups.code)
    after = int(cuts.after[best.cut])
    left = [int(c) for c in xp.take(groups.code, cuts.order[: after + 1])]
    left_is_larger = 2 * best.n_left > node["end"] - node["begin"]
    missing_left = int(cuts.missing_left[best.cut]) if groups.has_missing else left_is_larger
    node["feature"], node["missing_left"] = feature, missing_left
    if table.categorical[feature]:
        if left_is_larger:
            present = {int(c) for c in groups.code}
            left += [c for c in range(table.n_bins[feature]) if c not in present]
        node["categories"] = 0
        for c in left:
            node["categories"][c // 32] |= np.uint32(1 << c % 32)
        return
    node["bin"] = left[-1]
    if after + 1 == groups.code.shape[0]:
        node["threshold"] = np.inf
        return
    low = table.upper[table.begin[feature] + left[-1]]
    high = table.lower[table.begin[feature] + int(groups.code[after + 1])]
    in_gap = low <= cuts.value < high
    node["threshold"] = cuts.value if in_gap else midpoint(low, high)
