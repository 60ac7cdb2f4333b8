"""Reference twin of ``kernels.explanation.contributions``."""

from __future__ import annotations

from itertools import count
from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...scalars.explanation import (
    flow_slope,
    known_share,
    known_slope,
    left_share,
    mixed,
    slope,
    step_to_known,
)
from ...scalars.primitives import vectorise
from ...scalars.routing import is_left_category, names_category
from ..program import Program, Size

_names_category = vectorise(names_category)
_is_left_category = vectorise(is_left_category)
_known_share = vectorise(known_share)
_known_slope = vectorise(known_slope)
_left_share = vectorise(left_share)
_mixed = vectorise(mixed)
_slope = vectorise(slope)
_flow_slope = vectorise(flow_slope)
_step_to_known = vectorise(step_to_known)


def add_contributions(
    program: Program, size: Size, X: Array, phi: Array, pairs: Array | None = None
) -> None:
    """Group by group, tree by tree: from the root down to the leaves and back."""
    n_features = X.shape[1]
    xp = array_namespace(X)
    for group in range(program.group_output.shape[0]):
        output = int(program.group_output[group])
        sums: dict[Any, Array] = {}  # of features, and of pairs of them
        for entry in range(int(program.group_begin[group]), int(program.group_begin[group + 1])):
            tree = int(program.trees[entry])
            column = output - int(program.first_output[tree])
            _walk(program, tree, column, X, sums, pairs is not None)
        zeros = xp.zeros(X.shape[0], dtype=xp.float64, device=device(X))
        for f in range(n_features):
            phi[output, f, :] = phi[output, f, :] + sums.get(f, zeros)
        if pairs is None:
            continue
        for cell in range(n_features * n_features):
            found = sums.get(divmod(cell, n_features), zeros)
            pairs[output, cell, :] = pairs[output, cell, :] + found


def _walk(
    program: Program, tree: int, column: int, X: Array, sums: dict[Any, Array], with_pairs: bool
) -> None:
    """Walk through a tree. Arrays have the shape (n_points, n_rows)."""
    xp, splits = array_namespace(X), program.splits
    n = int(program.n_points[tree])
    rule = slice(n * (n - 1) // 2, n * (n + 1) // 2)
    points, weights = program.points[rule][:, None], program.weights[rule][:, None]
    steps = range(int(program.step_begin[tree]), int(program.step_begin[tree + 1]))
    if len(steps) == 0:
        return
    numbers = count(int(program.steps[steps[0]]) >> 3)  # of the splits, depth first
    ones = xp.ones(X.shape[0], dtype=xp.float64, device=device(X))

    def descend(flows: dict[Any, Array], paths: dict[int, Array]) -> Array:
        """Return the expected values of the next split. ``flows`` are what arrives (None) and its
        derivatives by features, in the order of their first split."""
        at = next(numbers)
        f, share, passed = (x[at] for x in (splits.feature, splits.share, splits.passed))
        f, share, passed = int(f), float(share), float(passed)
        path = paths.get(f, ones)
        on_left = xp.where(goes_left_at(program, at, X), path, 0.0 * path)
        step = _step_to_known(on_left, path, share)
        known, slopes = _known_share(points, passed), _known_slope(points, passed)
        gone = _left_share(share, step[None, :], known)
        to_left = {key: flow * gone for key, flow in flows.items()}
        if with_pairs:
            before, weight = flows.setdefault(f, 0.0 * gone), flows[None]
            to_left[f] = _flow_slope(before, gone, weight, slopes, step[None, :])
        to_right = {key: flow - to_left[key] for key, flow in flows.items()}
        left = child(int(splits.left[at]), to_left, {**paths, f: on_left})
        right = child(int(splits.right[at]), to_right, {**paths, f: path - on_left})
        for key, flow in flows.items():
            if key is not None and key == f:
                continue
            terms = _slope(flow, slopes, left, right)
            total = 0.0 * ones
            for q in range(terms.shape[0]):
                total = total + terms[q, :]
            cell = f if key is None else (min(f, key), max(f, key))
            sums[cell] = sums.get(cell, 0.0) + step * total
        return _mixed(left, right, gone)

    def child(leaf: int, flows: Any, paths: dict[int, Array]) -> Array:
        if leaf < 0:
            return descend(flows, paths)
        return xp.full_like(flows[None], float(program.value[leaf, column]))

    descend({None: weights * ones[None, :]}, {})


def goes_left_at(program: Program, at: int, X: Array) -> Array:
    """Return which rows a split sends left."""
    xp, splits = array_namespace(X), program.splits
    f, begin = int(splits.feature[at]), int(splits.category_begin[at])
    x, missing_left = xp.astype(X[:, f], xp.float64), bool(splits.missing_left[at])
    if begin < 0:
        below = x <= float(splits.threshold[at])
        return xp.where(xp.isnan(x), xp.full_like(below, missing_left), below)
    known = _names_category(x, float(program.n_categories[f]))
    category = xp.astype(xp.where(known, x, 0.0), xp.int64)
    words = xp.take(program.category_words, begin + category // 32)
    in_set = _is_left_category(xp.astype(words, xp.int64), category)
    return xp.where(known, in_set, xp.full_like(in_set, missing_left))
