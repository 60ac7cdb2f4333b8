"""Linear models in leaves: the features of their paths, the exact sums of the least squares, and
their solution."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers, sum_of_each
from ..runtime.compilation import inner, kernel
from ..runtime.dispatch import implementation
from ..runtime.dtypes import Scales
from ..scalars.primitives import exponent, two_to

TINY = 1e-200
"""Half the width of an interval below which a feature counts as constant."""
HUGE = 2.0**1022
"""And above which it is left out: its inverse would not be a normal number."""
SMALLEST_SHARE = 1e-9
"""Least share of a feature's variance that the features before it must leave."""
SMALLEST_VARIANCE = 1e-11
"""Least variance of a feature, in units of the square of half its interval."""
NOISE = 64.0
"""Least variance in units of the rounding of its sum."""


class PathFeatures(NamedTuple):
    """The numeric features on the way to each leaf of a tree, with their intervals (NumPy).

    Every training row of the leaf has ``abs(x - center) * scale <= 1``, up to rounding.

    begin : int64, shape (n_nodes + 1,)
        Node i has entries ``begin[i]:begin[i + 1]`` below; inner nodes have none.
    feature : int32
        Columns of the table, ascending in each node.
    center, scale : float64
        ``scale`` is a power of two.
    """

    begin: np.ndarray
    feature: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    def begin_of_sums(self) -> np.ndarray:
        """Return where the sums of each node begin, and end, int64 of shape (n_nodes + 1,)."""
        n = np.diff(self.begin)
        size = np.where(n > 0, (n + 1) * (n + 4) // 2 + 1, 0)
        return np.cumsum([0, *size])

    def complete_rows(self, sums: np.ndarray) -> np.ndarray:
        """Return the number of complete rows of each node from the sums, int64; more than there are
        rows where a node has no features."""
        begin = self.begin_of_sums()
        has_sums = np.diff(begin) > 0
        found = np.full(has_sums.size, np.iinfo(np.int64).max)
        found[has_sums] = sums[begin[1:][has_sums] - 1]
        return found


class LinearFits(NamedTuple):
    """The linear models of a tree's leaves (NumPy).

    The value of a row is ``intercept[leaf]`` and the sum of ``coefficient[c] * x[feature[c]]`` for
    the coefficients ``begin[leaf] <= c < begin[leaf + 1]``. Nodes without any have a constant.
    """

    begin: np.ndarray
    feature: np.ndarray
    coefficient: np.ndarray
    intercept: np.ndarray


def path_features(
    feature: np.ndarray,
    cut: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> PathFeatures:
    """Find the features that splits by values lead to each leaf by.

    Parameters
    ----------
    feature, left, right : int32, shape (n_nodes,)
        One tree, ``feature`` in columns of the table.
    cut : float64, shape (n_nodes,)
        ``x <= cut`` goes left; NaN at leaves and at splits by categories.
    low, high : float64, shape (n_features,)
        Least and largest finite value of the training rows; a feature with ``low >= high`` takes
        no part.
    """
    n = left.size
    parent, depth = np.full(n, -1, np.int32), np.zeros(n, np.int64)
    _find_parents(left, right, parent, depth)
    room = int(depth[left < 0].sum())
    of, center, scale = np.empty(room, np.int32), np.empty(room), np.empty(room)
    begin = np.zeros(n + 1, np.int64)
    _list_features(feature, cut, left, parent, low, high, begin, of, center, scale)
    return PathFeatures(begin, of[: begin[-1]], center[: begin[-1]], scale[: begin[-1]])


@kernel
def _find_parents(left, right, parent, depth):
    for node in range(left.size):
        if left[node] >= 0:
            for child in (left[node], right[node]):
                parent[child] = node
                depth[child] = depth[node] + 1


@kernel
def _list_features(feature, cut, left, parent, low, high, begin, found, center, scale):
    """``center`` and ``scale`` hold the bounds of an interval until the leaf is done."""
    end = 0
    for leaf in range(left.size):
        first, child = end, leaf
        while left[leaf] < 0 and parent[child] >= 0:
            node = parent[child]
            if not math.isnan(cut[node]):
                f = feature[node]
                at = first
                while at < end and found[at] < f:
                    at += 1
                if at == end or found[at] != f:
                    for k in range(end, at, -1):
                        found[k], center[k], scale[k] = found[k - 1], center[k - 1], scale[k - 1]
                    found[at], center[at], scale[at] = f, low[f], high[f]
                    end += 1
                if left[node] == child:
                    scale[at] = min(scale[at], cut[node])
                else:
                    center[at] = max(center[at], cut[node])
            child = node
        last, end = end, first
        for k in range(first, last):
            middle = 0.5 * center[k] + 0.5 * scale[k]
            half = 0.5 * scale[k] - 0.5 * center[k]
            if TINY < half < HUGE:
                found[end], center[end] = found[k], middle
                scale[end] = 0.5 * two_to(-exponent(half))
                end += 1
        begin[leaf + 1] = end


def linear_sums(
    leaf: Array, g: Array, h: Array, X: Array, features: PathFeatures, scales: Scales,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:  # fmt: skip
    """Sum the products that least squares in leaves needs, in 64-bit fixed point.

    With z = ((x - center) * scale for the k features of the leaf, then 1), a row adds for each i
    from 0 to k the numbers ``h z[i] z[0]``, ... ``h z[i] z[i]``, ``g z[i]``, all times their scale
    and rounded to the nearest integer, ties to even; after these the count of the rows. A row with
    a missing or infinite value in a feature of its leaf takes no part.

    Parameters
    ----------
    leaf : int32 or on CUDA uint16, shape (n,)
        As for ``newton_steps.leaf_sums``.
    g, h : float32, shape (n,)
    X : float32 or float64, shape (n, n_features), any strides
    features : PathFeatures
    scales : Scales
        From ``quantise.fixed_point_scales``.
    workers : Workers

    Returns
    -------
    int64, NumPy
        Node i has the entries from ``features.begin_of_sums()[i]`` on. Independent of the order of
        addition.
    """
    own = implementation(__name__, g).linear_sums(leaf, g, h, X, features, scales)
    return sum_of_each(own, workers)


def solve_linear(
    features: PathFeatures,
    sums: np.ndarray,
    scales: Scales,
    n_rows: np.ndarray,
    total: np.ndarray,
    value: np.ndarray,
    ridge: float,
    min_sum_hessian: float,
    is_bounded: bool,
) -> LinearFits:
    """Minimise the loss's second-order model in each leaf over linear functions of its features.

    The squares of the coefficients count ``ridge / 2``, that of the intercept nothing. A feature
    gets no coefficient where it is constant or the features before it determine it. A leaf keeps
    its constant where it has too few complete rows, or where the model says that the linear
    function is not better.

    Parameters
    ----------
    features : PathFeatures
    sums : int64
        From ``linear_sums``.
    scales : Scales
    n_rows : int32, shape (n_nodes,)
        Rows of each node, complete or not.
    total : float64, shape (n_nodes, 2)
        Their gradients and hessians; read where rows are not complete and ``is_bounded``.
    value : float64, shape (n_nodes,)
        The constants, which rows with missing values get.
    ridge, min_sum_hessian : float
    is_bounded : bool
        Whether the loss has a largest safe step: then the step of the complete rows must not raise
        the bound of the loss (``gpuens.losses.safe_steps``) together with that of the others.

    Returns
    -------
    LinearFits
        The coefficient of a feature that was left out is kept, as 0, in leaves with rows that are
        not complete: they get the constant in training too.
    """
    n_nodes, n = value.size, features.feature.size
    most = int(np.diff(features.begin).max(initial=0))
    begin, of = np.zeros(n_nodes + 1, np.int64), np.empty(n, np.int32)
    coefficient, intercept = np.empty(n), value.copy()
    how = scales.g, scales.h, float(ridge), float(min_sum_hessian), bool(is_bounded)
    _solve(
        features, features.begin_of_sums(), sums, n_rows, total, value, how,
        np.empty((2, most, most)), np.empty((6, most)), begin, of, coefficient, intercept,
    )  # fmt: skip
    return LinearFits(begin, of[: begin[-1]], coefficient[: begin[-1]], intercept)


@inner
def _reduce(k, sums, at, how, matrix, right):
    """Eliminate the intercept; returns the sums of the gradients and hessians, and the means of the
    features are left in line 1 of ``right``."""
    scale_g, scale_h = how[0], how[1]
    last = at + k * (k + 3) // 2
    sum_h, sum_g = sums[last + k] / scale_h, sums[last + k + 1] / scale_g
    for i in range(k):
        right[1, i] = (sums[last + i] / scale_h) / sum_h
    for i in range(k):
        line = at + i * (i + 3) // 2
        for j in range(i + 1):
            matrix[i, j] = sums[line + j] / scale_h - right[1, i] * (sums[last + j] / scale_h)
        right[0, i] = sums[line + i + 1] / scale_g - right[1, i] * sum_g
    return sum_g, sum_h


@inner
def _factorise(k, matrix, factor, ridges, floor, pivot):
    """Decompose ``matrix + diag(ridges)`` into L D L'. Features that must be left out get a pivot
    of 0."""
    for i in range(k):
        for j in range(i):
            left = matrix[i, j]
            for t in range(j):
                left -= factor[i, t] * pivot[t] * factor[j, t]
            factor[i, j] = left / pivot[j] if pivot[j] > 0.0 else 0.0
        whole = matrix[i, i] + ridges[i]
        left = whole
        for t in range(i):
            left -= factor[i, t] * factor[i, t] * pivot[t]
        is_used = matrix[i, i] > floor and left > max(floor, SMALLEST_SHARE * whole)
        pivot[i] = left if is_used else 0.0


@inner
def _substitute(k, factor, pivot, right, solution):
    """Solve L D L' x = -right."""
    for i in range(k):
        left = -right[i]
        for t in range(i):
            left -= factor[i, t] * solution[t]
        solution[i] = left if pivot[i] > 0.0 else 0.0
    for i in range(k - 1, -1, -1):
        left = solution[i] / pivot[i] if pivot[i] > 0.0 else 0.0
        for t in range(i + 1, k):
            left -= factor[t, i] * solution[t]
        solution[i] = left if pivot[i] > 0.0 else 0.0


@inner
def _changes(k, matrix, right, solution):
    """Return the slope along a solution, and its square under the matrix."""
    slope, square = 0.0, 0.0
    for i in range(k):
        slope += solution[i] * right[i]
        product = 0.5 * matrix[i, i] * solution[i]
        for j in range(i):
            product += matrix[i, j] * solution[j]
        square += 2.0 * solution[i] * product
    return slope, square


@inner
def _is_better(sum_g, sum_h, slope, square, value, rest_g, rest_h, is_bounded):
    """Return whether the linear function is better than the constant, and safe. ``rest`` are the
    sums of the rows that get the constant."""
    linear = slope + 0.5 * square - 0.5 * sum_g * sum_g / sum_h
    constant = value * (sum_g + 0.5 * value * sum_h)
    if not linear < constant:
        return False
    bound = slope + square + value * (rest_g + value * rest_h)
    return not is_bounded or rest_h == 0.0 or bound <= 0.0


@kernel
def _solve(
    features, begin_of_sums, sums, n_rows, total, value, how, matrices, lines, begin, of,
    coefficient, intercept,
):  # fmt: skip
    first_of, feature, center, scale = features
    ridge, min_sum_hessian, is_bounded = how[2], how[3], how[4]
    matrix, factor = matrices
    right, pivot, ridges, solution = lines[0:2], lines[2], lines[3], lines[4]
    end = 0
    for node in range(value.size):
        begin[node + 1] = end
        first = first_of[node]
        k, at = first_of[node + 1] - first, begin_of_sums[node]
        if k == 0:
            continue
        n_complete = sums[begin_of_sums[node + 1] - 1]
        last = at + k * (k + 3) // 2
        if n_complete < k + 1 or not sums[last + k] / how[1] > max(min_sum_hessian, 0.0):
            continue
        sum_g, sum_h = _reduce(k, sums, at, how, matrix, right)
        for i in range(k):
            ridges[i] = ridge * scale[first + i] * scale[first + i]
        floor = max(SMALLEST_VARIANCE * sum_h, NOISE * n_complete / how[1])
        _factorise(k, matrix, factor, ridges, floor, pivot)
        _substitute(k, factor, pivot, right[0], solution)
        slope, square = _changes(k, matrix, right[0], solution)
        is_complete = n_complete == n_rows[node]
        rest_g = 0.0 if is_complete or not is_bounded else total[node, 0] - sum_g
        rest_h = 0.0 if is_complete or not is_bounded else total[node, 1] - sum_h
        if not _is_better(sum_g, sum_h, slope, square, value[node], rest_g, rest_h, is_bounded):
            continue
        constant, is_finite = -sum_g / sum_h, True
        for i in range(k):
            own_slope = solution[i] * scale[first + i]
            constant -= solution[i] * right[1, i]
            constant -= own_slope * center[first + i]
            is_finite = is_finite and abs(own_slope) < math.inf
            if own_slope != 0.0 or not is_complete:
                of[end], coefficient[end] = feature[first + i], own_slope
                end += 1
        if abs(constant) < math.inf and is_finite:
            intercept[node] = constant
            begin[node + 1] = end
        else:
            end = begin[node]
    begin[value.size] = end
