"""Categories as bins: the codes of a node in the order in which they are cut."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.dtypes import (
    ALONE,
    CODE_WORDS,
    MAX_BINS,
    MISSING,
    N_SLOTS,
    NUMERIC,
    CategorySplits,
)
from ...runtime.reference.arrays import to_host
from ...scalars.category_order import category_key
from ...scalars.primitives import vectorise

category_key = vectorise(category_key)


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
    sums: Any, counts: Any, n_bins: np.ndarray, categories: CategorySplits, node: int
) -> tuple[Any, Any, Arrangement]:
    """Copies of a node's sums (2, n_features, 256) and counts (1, n_features, 256), or None, with
    the codes of its categorical features in their order, and that order."""
    xp = array_namespace(sums)
    sums = xp.asarray(sums, copy=True)
    counts = None if counts is None else xp.asarray(counts, copy=True)
    arrangement = Arrangement(np.array(n_bins, np.int32), {})
    smoothing = float(categories.smoothing[node])
    for feature in np.flatnonzero(categories.kind != NUMERIC).tolist():
        n = int(n_bins[feature])
        g, h = (xp.astype(sums[plane, feature, :n], xp.float64) for plane in (0, 1))
        used = h >= float(categories.least_h[node])
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


def _reordered(planes: Any, order: Any, n_used: int) -> Any:
    """Planes (n, 256) with the used codes in front and all others in the missing one."""
    xp = array_namespace(planes)
    in_order = xp.take(planes, order[:n_used], axis=1)
    total = xp.sum(planes, axis=1, dtype=planes.dtype)
    rest = total - xp.sum(in_order, axis=1, dtype=planes.dtype)
    shape = (planes.shape[0], MAX_BINS - n_used)
    none = xp.zeros(shape, dtype=planes.dtype, device=device(planes))
    return xp.concat([in_order, none, rest[:, None]], axis=1)


def left_codes(place: np.ndarray, cut: int, missing_left: int, is_alone: bool) -> np.ndarray:
    """The set of codes on the left of the cut after a place (see ``Splits``)."""
    in_left = np.full(N_SLOTS, bool(missing_left))
    used = np.flatnonzero(place >= 0)
    in_left[used] = place[used] == cut if is_alone else place[used] <= cut
    in_left[MISSING] = bool(missing_left)
    return np.packbits(in_left, bitorder="little").view("<u4").astype(np.uint32)[:CODE_WORDS]
