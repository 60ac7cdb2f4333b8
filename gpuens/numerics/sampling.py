"""The random rows and features that each model of an ensemble gets.

A draw is a hash of (seed, purpose, model, number of the draw): every device, every order of the
models and every partition of the work sees the same samples, and a sample can be drawn again
when it is needed instead of being kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..devices.array_functions import first_positions, smallest
from ..devices.placement import CPU, Device
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import NO_ROWS, ONE_WORKER, Workers, count_of_all, largest_of_all
from ..kernels.scalars import rng
from ..kernels.scalars.elementary import log
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_BOOTSTRAP, PURPOSE_FEATURES, PURPOSE_ROWS, PURPOSE_TREE
from ..kernels.statistics.row_draws import draw_below
from ..kernels.statistics.samples import count_draws

S32 = np.uint64(32)
LOW_32 = np.uint64(0xFFFFFFFF)
UNIT_32 = 1.0 / 2**32
NEVER = np.uint32(2**32 - 1)
SEED_BITS = np.uint64(0x7FFFFFFF)
SPARSE = 16
"""Rows for each row of a sample from which on it is drawn without a pass over all rows."""

PIECE_ROWS, PIECE_ROWS_ON_GPU = 2**20, 2**24
"""Rows that are drawn at once, with some 40 bytes each."""

_draw, _subkey, _log = vectorise(rng.draw), vectorise(rng.subkey), vectorise(log)


@dataclass(frozen=True)
class SamplingPlan:
    """The drawing of the rows and features of each member.

    Parameters
    ----------
    n_rows, n_draws : int
        Of the table, and rows drawn for each member.
    replace : bool
        Whether rows are drawn with replacement.
    n_features, n_feature_draws, replace_features
        The same of the features.
    weight : float64, shape (n_rows,), NumPy, or None
        Chances of the rows are proportional to it.
    seed : int
    """

    n_rows: int
    n_draws: int
    replace: bool
    n_features: int
    n_feature_draws: int
    replace_features: bool
    weight: np.ndarray | None
    seed: int

    @classmethod
    def of_rows(cls, n_rows: int, n_draws: int, replace: bool, seed: int) -> SamplingPlan:
        """Return a plan that draws rows only."""
        return cls(n_rows, n_draws, replace, 1, 1, False, None, seed)

    @property
    def repeats_little(self) -> bool:
        """Return whether no row is in a sample more often than ``MAX_MULTIPLICITY`` of
        ``kernels.cart.problem``, up to a negligible chance (see ``draw_counts``)."""
        return not self.replace or (self.weight is None and self.n_draws <= self.n_rows)

    @property
    def sees_all_features(self) -> bool:
        """Return whether every member gets all columns of the table."""
        return self.n_feature_draws == self.n_features and not self.replace_features

    def counts(self, member: int, device: Device) -> Any:
        """Return how often each row is in a member's sample: integers, shape (n_rows,)."""
        if not self.replace:
            counts = device.xp.zeros(self.n_rows, dtype=device.xp.int32)
            counts[self._subset(member, device)] = 1
            return counts
        if self.weight is None:
            return draw_counts(self.n_rows, self.n_draws, self.seed, member, device)
        return device.asarray(weighted_counts(self.weight, self.n_draws, self.seed, member))

    def rows(self, member: int) -> np.ndarray:
        """Return a member's rows, ascending, with repetitions: int64, shape (n_draws,), NumPy."""
        if self.replace:
            return np.repeat(np.arange(self.n_rows), self.counts(member, CPU))
        return self._subset(member, CPU)

    def features(self, member: int) -> np.ndarray:
        """Return a member's features, ascending: int64, shape (n_feature_draws,), NumPy."""
        return draw_features(
            self.n_features, self.n_feature_draws, self.replace_features, self.seed, member
        )

    def random_states(self, member: int, n: int) -> list[int]:
        """Return seeds below 2**31 for the n parameters of a member that take one."""
        key = np.uint64(_subkey(np.uint64(self.seed), PURPOSE_TREE, np.uint64(member)))
        return [int(_draw(key, np.uint64(k)) & SEED_BITS) for k in range(n)]

    def _subset(self, member: int, device: Device) -> Any:
        if self.weight is None:
            return subset(self.n_rows, self.n_draws, self.seed, member, device)
        return device.asarray(weighted_subset(self.weight, self.n_draws, self.seed, member))


def draw_counts(n: int, n_draws: int, seed: int, tree: int, device: Device) -> Array:
    """Count how often each row is in a sample with replacement.

    Draw i hits row ``draw(key, i) * n >> 32``, with key
    ``subkey(seed, PURPOSE_BOOTSTRAP, tree)``.

    Parameters
    ----------
    n, n_draws : int
        Rows, below 2**31, and draws.
    seed, tree : int
        Random key below 2**32, and the number of the model.

    Returns
    -------
    int32, shape (n,), on the device
        They sum up to ``n_draws``. For at most as many draws as rows, a row has more than 31 hits
        with a chance below ``1 / 32! < 4e-36``, for all rows of the largest table and a million
        models together below 1e-20.
    """
    key, xp = _key(seed, PURPOSE_BOOTSTRAP, tree), device.xp
    counts = xp.zeros(n, dtype=xp.int32)
    count_draws(counts, n_draws, key)
    return counts


def subset(n: int, n_draws: int, seed: int, tree: int, device: Device) -> Any:
    """Draw the rows of a sample without replacement.

    They are the first ``n_draws`` different rows that the draws with replacement hit; where
    that is more than half of the rows, the first ``n - n_draws`` are those left out. So a
    small sample of a large table does not cost a pass over the table.

    Parameters
    ----------
    n, n_draws : int
        Rows, below 2**31, and how many of them.
    seed, tree : int
        As for ``draw_counts``.

    Returns
    -------
    int64, shape (n_draws,), on the device
        Ascending.
    """
    return _subset(n, n_draws, _key(seed, PURPOSE_BOOTSTRAP, tree), device)


def draw_features(n_features: int, n_draws: int, replace: bool, seed: int, tree: int) -> np.ndarray:
    """Draw the features of a model, in the way of rows.

    Returns
    -------
    int64, shape (n_draws,), NumPy
        Ascending; with ``replace`` a feature can be there several times.
    """
    key = _key(seed, PURPOSE_FEATURES, tree)
    if replace:
        return np.sort(_hits(n_features, n_draws, key, np).astype(np.int64))
    return _subset(n_features, n_draws, key, CPU)


def weighted_counts(weight: np.ndarray, n_draws: int, seed: int, tree: int) -> np.ndarray:
    """Count how often each row is in a sample with replacement and unequal chances.

    Weights become integers ``q`` with a total T below 2**32 (so a chance is exact to 2**-32).
    Draw i hits the first row where the running sum of ``q`` exceeds ``draw(key, i) * T >> 32``:
    equal weights give what ``draw_counts`` gives.

    Parameters
    ----------
    weight : float64, shape (n,), NumPy
        Finite and not negative, not all zero. Chances are proportional to it.
    n_draws, seed, tree
        As for ``draw_counts``.

    Returns
    -------
    int64, shape (n,), NumPy
    """
    running = np.cumsum(_integers(weight))
    bits = _bits(n_draws, _key(seed, PURPOSE_BOOTSTRAP, tree), np)
    hits = np.sort(bits.astype(np.uint64) * running[-1] >> S32)
    return np.diff(np.searchsorted(hits, running, side="left"), prepend=0)


def weighted_subset(weight: np.ndarray, n_draws: int, seed: int, tree: int) -> np.ndarray:
    """Draw the rows of a sample without replacement and with unequal chances.

    As if rows were drawn one after the other with chances proportional to the weights of those
    left: the rows with the smallest ``-log(u) / weight``, u uniform (Efraimidis and Spirakis
    2006).

    Parameters
    ----------
    weight : float64, shape (n,), NumPy
        At least ``n_draws`` entries are positive.
    n_draws, seed, tree
        As for ``subset``.

    Returns
    -------
    int64, shape (n_draws,), NumPy
        Ascending.
    """
    bits = _bits(weight.size, _key(seed, PURPOSE_BOOTSTRAP, tree), np)
    waiting = -_log((bits.astype(np.float64) + 0.5) * UNIT_32)
    with np.errstate(divide="ignore", over="ignore"):
        time = waiting / (weight / weight.max())
    return np.sort(np.argsort(time, kind="stable")[:n_draws])


def _key(seed: int, purpose: np.uint64, tree: int) -> int:
    return int(_subkey(np.uint64(seed), purpose, np.uint64(tree)))


def _bits(n_draws: int, key: int, xp: ModuleType) -> Array:
    """Return the draws as uint32, which wraps around as the hash requires and halves the memory."""
    return _draw(np.uint32(key), xp.arange(n_draws, dtype=xp.uint32))


def _hits(n: int, n_draws: int, key: int, xp: ModuleType) -> Array:
    return _bits(n_draws, key, xp).astype(np.uint64) * np.uint64(n) >> S32


def _subset(n: int, n_draws: int, key: int, device: Device) -> Any:
    xp = device.xp
    if 2 * n_draws <= n:
        return _first_different(n, n_draws, key, xp)
    kept = xp.ones(n, dtype=xp.bool)
    if n_draws < n:
        kept[_first_different(n, n - n_draws, key, xp)] = False
    return xp.nonzero(kept)[0]


def _first_different(n: int, k: int, key: int, xp: ModuleType) -> Array:
    """Return the first k different rows that the draws hit, ascending; k is at most n / 2."""
    n_draws = int(-n * math.log1p(-k / n) + 6 * math.sqrt(k)) + 8  # nearly always enough
    find = _first_hits_few if k * SPARSE < n else _first_hits_many
    while True:
        rows, number = find(n, _hits(n, n_draws, key, xp), xp)
        if rows.size >= k:
            return rows[number <= smallest(number, k - 1)]
        n_draws *= 2


def _first_hits_few(n: int, hits: Array, xp: ModuleType) -> tuple[Array, Array]:
    """Return the rows that are hit, ascending, and the number of the first draw that hits each."""
    draws = xp.sort(hits << S32 | xp.arange(hits.size, dtype=xp.uint64), stable=False)
    rows = (draws >> S32).astype(np.int64)
    first = xp.ones(hits.size, dtype=xp.bool)
    first[1:] = rows[1:] != rows[:-1]
    return rows[first], (draws[first] & LOW_32).astype(np.uint32)


def _first_hits_many(n: int, hits: Array, xp: ModuleType) -> tuple[Array, Array]:
    """Find the first hits with a table of all rows instead of sorting."""
    first = first_positions(hits, n, int(NEVER))
    rows = xp.nonzero(first != NEVER)[0]
    return rows, first[rows]


def _integers(weight: np.ndarray) -> np.ndarray:
    """Return weights times a power of two, rounded, with a sum just below 2**32 (uint64)."""
    most = (2**32 - 1 - weight.size) / (weight / weight.max()).sum()
    scale = 2.0 ** math.floor(math.log2(most))
    return np.rint(weight / weight.max() * scale).astype(np.uint64)


def draw_rows(
    n: int, fraction: float, weight: Array, seed: int, index: int, device: Device,
    workers: Workers = ONE_WORKER,
) -> Array:  # fmt: skip
    """Draw the rows of a random sample without replacement.

    A row belongs to the sample if its hash, which depends only on (seed, index, row),
    is small: the same rows on every device and however the rows are distributed. The sample's
    size varies around ``fraction * n``; it is never empty.

    Parameters
    ----------
    fraction : float
        Chance of a row, in (0, 1].
    weight : float64, shape (n,) or (0,)
        Rows with weight 0 never belong.
    seed, index : int
        Random key, and the number of the draw.

    Returns
    -------
    int32, shape (n_sampled,)
        Ascending; empty (meaning all rows) if no worker leaves a row out; ``NO_ROWS`` for none of
        this worker's.
    """
    if fraction < 1.0 and workers is ONE_WORKER and (device.has_numpy or device.is_gpu):
        (rows,) = draw_samples([RowDraw(n, fraction, seed, index)], weight, device)
        return rows
    everything, keep = device.xp.empty(0, dtype=device.xp.int32), weight > 0
    if fraction < 1.0:
        limit = np.uint64(fraction * 2**32)
        keep = small_draws(n, lambda rows: limit, weight, seed, index, device, workers)
    elif weight.size == 0:
        return everything
    # The weights of some workers may leave rows out where those of others do not.
    if not count_of_all(n - int(device.xp.count_nonzero(keep)), workers):
        return everything
    rows = rows_where(keep, device)
    return rows if rows.size else NO_ROWS


class RowDraw(NamedTuple):
    """The rows, the share of them to draw, below 1, and what decides which; see ``draw_rows``."""

    n: int
    fraction: float
    seed: int
    number: int


def draw_samples(draws: Sequence[RowDraw], weight: Array, device: Device) -> list[Array]:
    """Return the rows of several samples, see ``draw_rows``; on a GPU they share launches.
    ``weight`` is that of all, or has a line for each."""
    n_rows = [own.n for own in draws]
    limits = [int(own.fraction * 2**32) for own in draws]
    keys = [key_of_rows(own.seed, own.number) for own in draws]
    everything = device.xp.empty(0, dtype=device.xp.int32)
    found = draw_below(weight, n_rows, limits, keys)
    return [rows if rows.size < n else everything for rows, n in zip(found, n_rows, strict=True)]


def small_draws(
    n: int,
    limit_of: Callable[[slice], Any],
    weight: Array,
    seed: int,
    index: int,
    device: Device,
    workers: Workers = ONE_WORKER,
) -> Array:
    """Find the rows whose hash is below their limit, and those with the smallest hash of all.

    Parameters
    ----------
    limit_of : callable
        Gets neighbouring rows, and returns their limits: uint64, shape () or (n_rows,).
    weight, seed, index, device, workers
        As for ``draw_rows``.

    Returns
    -------
    bool, shape (n,), on the device
    """
    xp, first = device.xp, workers.first
    key = key_of_rows(seed, index)
    kept = xp.empty(n, dtype=xp.bool)
    least, at_least = 2**32 + 1, list[Array]()
    pieces = _pieces(n, device)
    for rows in pieces:
        numbers = xp.arange(first + rows.start, first + rows.stop, dtype=xp.uint64)
        bits = _draw(xp.full(numbers.size, key, dtype=xp.uint64), numbers)
        if weight.size:
            bits[weight[rows] == 0] = np.uint64(2**32)
        kept[rows] = bits < limit_of(rows)
        # One worker's host need not wait for the smallest one.
        if len(pieces) == 1 and workers is ONE_WORKER:
            return kept | (bits == bits.min())
        smallest = int(bits.min())
        if smallest < least:
            least, at_least = smallest, []
        if smallest == least:
            at_least.append(xp.nonzero(bits == smallest)[0] + rows.start)
    if least == -largest_of_all(-least, workers):
        for rows_at_least in at_least:
            kept[rows_at_least] = True
    return kept


def key_of_rows(seed: int, index: int) -> int:
    """Return the key of the draws of rows with a number."""
    return int(_subkey(np.uint64(seed), PURPOSE_ROWS, np.uint64(index)))


def rows_where(kept: Array, device: Device) -> Array:
    """Return the rows that are kept, ascending: int32."""
    xp = device.xp
    parts = [
        xp.nonzero(kept[rows])[0].astype(np.int32) + np.int32(rows.start)
        for rows in _pieces(kept.size, device)
    ]
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def most_rows_of_a_piece(device: Device) -> int:
    """Return how many rows are drawn at once."""
    return PIECE_ROWS_ON_GPU if device.is_gpu else PIECE_ROWS


def _pieces(n: int, device: Device) -> list[slice]:
    size = most_rows_of_a_piece(device)
    return [slice(begin, min(begin + size, n)) for begin in range(0, max(n, 1), size)]
