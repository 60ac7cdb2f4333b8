"""The projections that an oblique forest splits by: which features they add up, and how."""

from __future__ import annotations

import math

import numpy as np

from ..devices.placement import module_of, to_numpy
from ..forest.oblique import Projections
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_PROJECTIONS

KEYS_AT_ONCE = 2**21
"""Random numbers that are in memory together, of a projection and a feature each."""
MOST_SAMPLED = 2**14
"""Rows that the spread of a feature is measured on."""
OUTER = 0.1
"""The share of the values on either side that the spread leaves out."""
MOST_EXPONENT = 1000
S32 = np.uint64(32)

_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)


def draw_projections(
    scales: np.ndarray, combines: np.ndarray, n: int, combinations: float, seed: int
) -> Projections:
    """Draw n sparse projections of ``combinations`` features on average (Tomita et al. 2020,
    section 3).

    Every feature leads as many projections as the others, give or take one. A leader that
    ``combines`` is joined by a Poisson-distributed number of other features, with random signs; one
    of a single feature is the feature itself, without its scale (see ``scales_of``)."""
    n_features = scales.size
    numbers = np.arange(n, dtype=np.uint64)
    keys = _subkey(np.uint64(seed), PURPOSE_PROJECTIONS, numbers)
    leader = _order(n_features, seed)[np.arange(n) % n_features]
    others = _poisson(_draw(keys, np.uint64(0)), combinations - 1.0)
    others = np.minimum(others, max(0, int(combines.sum()) - 1)) * combines[leader]
    begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(others + 1)])
    member = np.empty(begin[-1], np.int32)
    weight = np.ones(begin[-1])
    step = max(1, KEYS_AT_ONCE // n_features)
    features = np.arange(n_features, dtype=np.uint64)
    for first in range(0, n, step):
        some = np.flatnonzero(others[first : first + step]) + first
        bits = _draw(keys[some, None], features + np.uint64(1))
        rank = bits << S32 | features  # no two are equal
        rank[:, ~combines] = np.uint64(2**64 - 1)
        rank[np.arange(some.size), leader[some]] = 0
        order = np.argsort(rank, axis=1)
        for row, j in enumerate(some.tolist()):
            chosen = np.sort(order[row, : others[j] + 1])
            entries = slice(begin[j], begin[j + 1])
            member[entries] = chosen
            weight[entries] = np.where(bits[row, chosen] & np.uint64(1), -1.0, 1.0) * scales[chosen]
    alone = np.flatnonzero(others == 0)
    member[begin[alone]] = leader[alone]
    return Projections(begin, member, weight)


def _order(n_features: int, seed: int) -> np.ndarray:
    """Return the features in a random order."""
    key = _subkey(np.uint64(seed), PURPOSE_PROJECTIONS, np.uint64(2**32 - 1))
    return np.argsort(_draw(key, np.arange(n_features, dtype=np.uint64)), kind="stable")


def _poisson(bits: np.ndarray, mean: float) -> np.ndarray:
    """Return Poisson-distributed numbers, int64, by inversion of 32 random bits."""
    if mean == 0.0:
        return np.zeros(bits.shape, np.int64)
    # Beyond twelve standard deviations above the mean there is less than 2**-32.
    most = int(mean + 12.0 * math.sqrt(mean) + 12.0)
    logs = np.array([k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(most)])
    return np.searchsorted(np.cumsum(np.exp(logs)), bits / 2.0**32, side="right").astype(np.int64)


def scales_of(X: Array, weight: np.ndarray | None = None) -> np.ndarray:
    """Return the power of two that brings the spread of each feature between 1/2 and 1, 1 for a
    constant feature; rows of weight zero have no effect, NaN is missing. Without it the sum of two
    features would be the one whose values are larger. A power of two changes no digit of a value,
    so that sums stay the same everywhere."""
    if weight is None or (weight > 0).all():
        sample = X[:: -(-X.shape[0] // MOST_SAMPLED)]
    else:
        used = np.flatnonzero(weight)
        sample = X[module_of(X).asarray(used[:: -(-used.size // MOST_SAMPLED)])]
    sample = to_numpy(sample).astype(np.float64)
    spread = np.array([_spread(column) for column in sample.T])
    exponent = np.clip(np.frexp(spread)[1], -MOST_EXPONENT, MOST_EXPONENT)
    return np.where(spread > 0, np.ldexp(1.0, -exponent), 1.0)


def _spread(column: np.ndarray) -> float:
    """Return the range of the inner values, or of all if that is zero."""
    known = np.sort(column[np.isfinite(column)])
    if known.size == 0:
        return 0.0
    cut = int(OUTER * known.size)
    inner = known[known.size - 1 - cut] / 2 - known[cut] / 2
    return float(inner or known[-1] / 2 - known[0] / 2)
