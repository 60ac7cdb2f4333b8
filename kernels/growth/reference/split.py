"""The best split of every node from its histogram: the oracle of the searches of growth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import (
    ALONE,
    CODE_WORDS,
    MAX_BINS,
    MISSING,
    N_SLOTS,
    NO_SETS,
    NUMERIC,
    ORDERED,
)
from ...runtime.reference.arrays import beside, to_host
from ...scalars import gain as formulas
from ...scalars.primitives import vectorise

category_key = vectorise(formulas.category_key)


class NodeBounds(NamedTuple):
    """Monotone constraints on the splits of some nodes (NumPy).

    monotone : int8, shape (n_features,)
        1: the value of the left child must not be above that of the right one, -1: not below.
    low, high : float64, shape (n_nodes,)
        Bounds of the children's values, in quantised units; ±inf where there is none.
    """

    monotone: np.ndarray
    low: np.ndarray
    high: np.ndarray


class CategorySplits(NamedTuple):
    """Splits of some nodes by categories (NumPy).

    kind : int32, shape (n_features,)
        ``NUMERIC``, ``ORDERED`` or ``ALONE``.
    least_h : float64, shape (n_nodes, n_features)
        A category with less, at least 1, goes with the missing values.
    smoothing : float64, shape (n_nodes, n_features)
        Of ``category_key``, in quantised units.
    l2 : float64, shape (n_nodes,)
        Takes the place of the regularisation where ordered categories are cut.
    """

    kind: np.ndarray
    least_h: np.ndarray
    smoothing: np.ndarray
    l2: np.ndarray


class Splits(NamedTuple):
    """The best split of each node; arrays of shape (n_nodes,).

    score : float64
        ``g²/(h + l2)`` of the left child plus that of the right child, in quantised units;
        -inf where no split is allowed.
    feature : int32, bin : int32
        Rows with ``code <= bin`` go left. -1 where there is no split; ``bin`` also of a split by
        categories.
    missing_left : uint8
        Where rows with ``code == MISSING`` go.
    left_g, left_h : int64
        Quantised sums of the left child.
    left_codes : uint32, shape (n_nodes, CODE_WORDS) or (0, CODE_WORDS)
        The codes that go left, of a split by categories; empty without such features.
    """

    score: np.ndarray
    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    left_g: np.ndarray
    left_h: np.ndarray
    left_codes: np.ndarray = NO_SETS


class Arrangement(NamedTuple):
    """The codes of one node by feature.

    n_used : int32, shape (n_features,), NumPy
        Places in use: those of the categories with enough rows, or the number of bins.
    place : dict of int64, shape (n_bins,), NumPy
        Place of each code of a feature that is split by categories; -1: with the missing values.
    """

    n_used: np.ndarray
    place: dict[int, np.ndarray]


def arrange(
    sums: Array, counts: Array | None, n_bins: Array, categories: CategorySplits, node: int
) -> tuple[Array, Array | None, Arrangement]:
    """Copy a node's sums (2, n_features, 256) and counts (1, n_features, 256), or None, with the
    codes of its categorical features in their order, and return that order as well."""
    xp = array_namespace(sums)
    sums = xp.asarray(sums, copy=True)
    counts = None if counts is None else xp.asarray(counts, copy=True)
    arrangement = Arrangement(np.array(n_bins, np.int32), {})
    for feature in np.flatnonzero(categories.kind != NUMERIC).tolist():
        n = int(n_bins[feature])
        g, h = (xp.astype(sums[plane, feature, :n], xp.float64) for plane in (0, 1))
        used = h >= float(categories.least_h[node, feature])
        smoothing = float(categories.smoothing[node, feature])
        bins = xp.arange(n, dtype=xp.float64, device=device(sums))
        is_alone = categories.kind[feature] == ALONE
        key = bins if is_alone else category_key(g, xp.where(used, h, 1.0), smoothing)
        order = xp.argsort(xp.where(used, key, xp.inf), stable=True)
        n_used = int(xp.sum(xp.astype(used, xp.int32)))
        sums[:, feature, :] = _reordered(sums[:, feature, :], order, n_used)
        if counts is not None:
            counts[:, feature, :] = _reordered(counts[:, feature, :], order, n_used)
        place = np.full(n, -1)
        place[to_host(order)[:n_used]] = np.arange(n_used)
        arrangement.n_used[feature], arrangement.place[feature] = n_used, place
    return sums, counts, arrangement


def _reordered(planes: Array, order: Array, n_used: int) -> Array:
    """Reorder planes (n, 256): the used codes in front and all others in the missing one."""
    xp = array_namespace(planes)
    in_order = xp.take(planes, order[:n_used], axis=1)
    total = xp.sum(planes, axis=1, dtype=planes.dtype)
    rest = total - xp.sum(in_order, axis=1, dtype=planes.dtype)
    shape = (planes.shape[0], MAX_BINS - n_used)
    none = xp.zeros(shape, dtype=planes.dtype, device=device(planes))
    return xp.concat([in_order, none, rest[:, None]], axis=1)


def left_codes(place: np.ndarray, cut: int, missing_left: int, is_alone: bool) -> np.ndarray:
    """Return the set of codes on the left of the cut after a place (see ``Splits``)."""
    in_left = np.full(N_SLOTS, bool(missing_left))
    used = np.flatnonzero(place >= 0)
    in_left[used] = place[used] == cut if is_alone else place[used] <= cut
    in_left[MISSING] = bool(missing_left)
    return np.packbits(in_left, bitorder="little").view("<u4").astype(np.uint32)[:CODE_WORDS]


bounded_score = vectorise(formulas.bounded_score)
newton_score = vectorise(formulas.newton_score)
bounded_value = vectorise(formulas.bounded_value)
keeps_order = vectorise(formulas.keeps_order)

FIELDS = (np.float64, np.int32, np.int32, np.uint8, np.int64, np.int64)
NO_SPLIT = (-np.inf, -1, -1, 0, 0, 0)


def split(
    histograms: Array,
    n_bins: Array,
    totals: Array,
    least_h: Array,
    l2: Array,
    allowed: Array,
    counts: Array,
    min_samples_leaf: int,
    bounds: NodeBounds | None = None,
    categories: CategorySplits | None = None,
) -> Splits:
    """Compare all splits ``code <= bin`` of each node and return the best.

    The score of a split is ``newton_score(left) + newton_score(right)`` in float64 on the
    integer sums. The rows with missing values are tried on the right, then, if their g or h
    is not zero, on the left; if both are zero there is nothing to learn, and missing values
    are sent to the child with the larger h (to the right when they tie).
    Ties go to the lowest feature, then the lowest bin, then missing right.

    With ``bounds`` the children take the best values between the bounds of their node, the
    score is ``bounded_score`` of these, and splits whose values break the order that their
    feature demands are excluded.

    With ``categories`` the codes of a feature that is not numeric are arranged for each node:
    those with enough h in ascending order of ``category_key``, ties by code, and the others with
    the missing values. Then they are split as if they were bins in that order. Where the kind is
    ``ALONE``, each code is the whole left side of a candidate instead, in the order of the codes.

    Parameters
    ----------
    histograms : int32, shape (n_nodes, 2, n_features, 256)
    n_bins : int32, shape (n_features,)
        Bins that hold values; candidates are bins 0 … n_bins - 1 (the last one separates the
        values from the missing ones).
    totals : int64, shape (n_nodes, 2)
        g and h of the node.
    least_h : int64, shape (n_nodes,)
        A child needs ``h >= least_h`` (at least 1).
    l2 : float64, shape (n_nodes,)
        Regularisation in quantised units.
    allowed : uint8, shape (n_nodes, n_features)
        Features that the node may use.
    counts : int32, shape (n_nodes, n_features, 256) or (0, 0, 0)
        Exact row counts; where given, a child also needs ``min_samples_leaf`` rows.
    min_samples_leaf : int
    bounds : NodeBounds, optional
    categories : CategorySplits, optional

    Returns
    -------
    Splits
        NumPy arrays on the host.
    """
    # The candidates have the shape (nodes, features, bins, 2), the last axis for missing values on
    # the right and on the left. ``argmax`` takes the first of equal ones, so this order of the
    # axes decides ties as the contract says.
    xp = array_namespace(histograms)
    n_nodes, n_features = histograms.shape[0], histograms.shape[2]
    n_used = np.broadcast_to(np.asarray(n_bins, np.int32), (n_nodes, n_features))
    own_l2 = np.broadcast_to(np.asarray(l2)[:, None], (n_nodes, n_features))
    is_alone: Array | None = None
    orders: list[Arrangement] = []
    if categories is not None and n_nodes:
        is_alone = beside(categories.kind == ALONE, histograms)
        own_l2 = np.where(categories.kind == ORDERED, categories.l2[:, None], own_l2)
        histograms, counts, orders = _arranged(histograms, counts, n_bins, categories)
        n_used = np.stack([order.n_used for order in orders])
    has_missing = bool(xp.any(histograms[..., MISSING] != 0))
    bins = xp.arange(MAX_BINS, dtype=xp.int32, device=device(histograms))
    may = (bins < beside(n_used, histograms)[:, :, None])[..., None]
    may = may & (beside(np.asarray(allowed), histograms) != 0)[:, :, None, None]
    if counts.shape[0]:
        n_rows = xp.sum(counts[:, 0, :], axis=1, dtype=xp.int64)
        n_left, n_right = _children(counts, n_rows[:, None], is_alone, has_missing)
        may = may & (n_left >= min_samples_leaf) & (n_right >= min_samples_leaf)
    candidates = _Candidates(
        histograms,
        beside(np.asarray(totals, np.int64).reshape(-1, 2), histograms),
        beside(np.asarray(least_h, np.int64), histograms)[:, None, None, None],
        beside(own_l2, histograms)[:, :, None, None],
        may,
        is_alone,
        has_missing,
    )
    found = candidates.best(bounds) if n_nodes else [np.empty(0)] * len(FIELDS)
    splits = Splits(*(np.asarray(c, dtype) for c, dtype in zip(found, FIELDS, strict=True)))
    return splits if categories is None else _with_sets(splits, categories, orders)


def _arranged(
    histograms: Array, counts: Array, n_bins: Array, categories: CategorySplits
) -> tuple[Array, Array, list[Arrangement]]:
    """Return the sums and counts (if there are any) with the codes of each node in its order."""
    xp, has_counts = array_namespace(histograms), bool(counts.shape[0])
    parts = []
    for node in range(histograms.shape[0]):
        rows = counts[node : node + 1, ...] if has_counts else None
        parts.append(arrange(histograms[node, ...], rows, n_bins, categories, node))
    sums, rows_of_nodes, orders = zip(*parts, strict=True)
    counts = xp.concat(rows_of_nodes) if has_counts else counts
    return xp.stack(sums), counts, list(orders)


def _with_sets(splits: Splits, categories: CategorySplits, orders: list[Arrangement]) -> Splits:
    """Name the codes on the left where features are split by categories."""
    sets = np.zeros((len(orders), CODE_WORDS), np.uint32)
    cut = splits.bin.copy()
    for node, order in enumerate(orders):
        feature = int(splits.feature[node])
        if feature in order.place:
            alone = bool(categories.kind[feature] == ALONE)
            to_left = int(splits.missing_left[node])
            sets[node] = left_codes(order.place[feature], int(cut[node]), to_left, alone)
            cut[node] = -1
    return splits._replace(bin=cut, left_codes=sets)


class _Candidates(NamedTuple):
    """All splits of some nodes; arrays that broadcast to (nodes, features, bins, 2), or to one
    side where no value is missing: only the heavier child could take it then."""

    histograms: Array
    totals: Array
    least_h: Array
    l2: Array
    may: Array
    is_alone: Array | None
    has_missing: bool

    def best(self, bounds: NodeBounds | None) -> list[np.ndarray]:
        """Return the fields of ``Splits``."""
        xp = array_namespace(self.histograms)
        totals = self.totals[:, :, None]
        sums = _children(self.histograms, totals, self.is_alone, self.has_missing)
        left_h, right_h = (side[:, 1, ...] for side in sums)
        may = self.may & (left_h >= self.least_h) & (right_h >= self.least_h)
        if self.has_missing:
            may = may & _missing_tried(self.histograms, left_h, right_h)
        reals = (xp.astype(side, xp.float64) for side in sums)
        left, right = (
            (side[:, 0, ...], xp.where(may, side[:, 1, ...], 1.0), self.l2) for side in reals
        )
        if bounds is None:
            score = newton_score(*left) + newton_score(*right)
        else:
            low, high, direction = self._limits(bounds)
            values = (bounded_value(*side, low, high) for side in (left, right))
            may = may & keeps_order(*values, direction)
            score = bounded_score(*left, low, high) + bounded_score(*right, low, high)
        score = xp.where(may, score, -xp.inf)
        return self._chosen(score, sums[0][:, 0, ...], left_h)

    def _limits(self, bounds: NodeBounds) -> tuple[Array, Array, Array]:
        """Return the bounds of the nodes and the directions of the features."""
        low, high = (beside(x, self.histograms)[:, None, None, None] for x in bounds[1:])
        direction = beside(bounds.monotone.astype(np.float64), self.histograms)
        return low, high, direction[:, None, None]

    def _chosen(self, score: Array, left_g: Array, left_h: Array) -> list[np.ndarray]:
        """Return the fields of the first of the highest scores of each node."""
        xp = array_namespace(score)
        flat, width = (score.shape[0], -1), score.shape[3]
        best = xp.argmax(xp.reshape(score, flat), axis=1)[:, None]
        highest, g, h = (
            to_host(xp.take_along_axis(xp.reshape(x, flat), best, axis=1))[:, 0]
            for x in (score, left_g, left_h)
        )
        feature, bin_and_side = np.divmod(to_host(best)[:, 0], width * MAX_BINS)
        to_left = bin_and_side % width
        if not self.has_missing:
            to_left = h > to_host(self.totals)[:, 1] - h
        fields = [highest, feature, bin_and_side // width, to_left, g, h]
        may = highest > -np.inf
        return [np.where(may, x, none) for x, none in zip(fields, NO_SPLIT, strict=True)]


def _children(
    sums: Array, total: Array, is_alone: Array | None, has_missing: bool
) -> tuple[Array, Array]:
    """Return the sums (..., features, 256) of the rows on the left and on the right of every
    candidate: all bins up to one, or that one alone."""
    xp = array_namespace(sums)
    sums = xp.astype(sums, xp.int64)
    values = xp.cumulative_sum(sums[..., :MAX_BINS], axis=-1)
    if is_alone is not None:
        values = xp.where(is_alone[:, None], sums[..., :MAX_BINS], values)
    left = values[..., None]
    if has_missing:
        left = xp.stack([values, values + sums[..., MISSING:]], axis=-1)
    return left, total[..., None, None] - left


def _missing_tried(histograms: Array, left_h: Array, right_h: Array) -> Array:
    """Mark both sides where there is something to learn, else only the side of the heavier
    child."""
    xp = array_namespace(histograms)
    learnable = xp.any(histograms[..., MISSING] != 0, axis=1)[..., None, None]
    to_left = (left_h > right_h)[..., 0]
    return learnable | xp.stack([~to_left, to_left], axis=-1)
