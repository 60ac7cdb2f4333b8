"""Numbers of all rows of a shared table that depend on their order.

Each worker sorts its own values. What is sought is found digit by digit, from the highest one: the
workers add up how many of their values have each digit, and go on inside one of them::

    values     17 | 23 25 28 | 31        the third smallest: the second of those that begin with 2
               23 | 25 | 28              it is 25
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..kernels.runtime.collective import Workers

DIGIT_BITS = 11
DIGITS = np.arange(1 << DIGIT_BITS, dtype=np.int64)
LEAST_LEFT = 1e-300
NOT_CLOSE = 1.0 - 1e-12
"""Where two numbers differ by more than this factor, rounding does not decide between them."""


class _Stretch(NamedTuple):
    """The values, at least 0, with the same first digits: ``prefix`` and ``shift`` unknown bits.

    ``begin`` and ``end`` are the places of this worker's, ``n_below`` and ``sum_below`` the number
    and the sum of all workers' values that are smaller.
    """

    prefix: int
    shift: int
    begin: int
    end: int
    n_below: int = 0
    sum_below: int = 0

    def cut(self, ordered: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the bits that remain unknown once the next digit is known, and the places of this
        worker's values where each digit begins, the end included."""
        shift = max(self.shift - DIGIT_BITS, 0)
        digits = DIGITS[: 1 << (self.shift - shift)]
        mine = ordered[self.begin : self.end]
        begins = self.begin + np.searchsorted(mine, self.prefix + (digits << shift))
        return shift, np.append(begins, self.end)


def kth_of_all(values: np.ndarray, k: int, workers: Workers) -> np.float32:
    """Return the value that ``sort(values)[k]`` is of all workers.

    Parameters
    ----------
    values : float32, shape (n_own,)
        At least 0.
    """
    # The bits are in the order of the values; NaN, whatever its sign, comes last.
    ordered = np.sort(values).view(np.int32).astype(np.int64) & 0x7FFFFFFF
    at = _Stretch(0, 32, 0, ordered.size)
    while at.shift > 0:
        shift, places = at.cut(ordered)
        counts = np.diff(places)
        workers.collective.add(counts)
        running = at.n_below + np.cumsum(counts)
        digit = int(np.searchsorted(running, k, side="right"))
        begin, end = places[digit : digit + 2].tolist()
        n_below = int(running[digit] - counts[digit])
        at = _Stretch(at.prefix + (digit << shift), shift, begin, end, n_below)
    return np.array([at.prefix], np.int32).view(np.float32)[0]


def count_before(n: int, workers: Workers) -> int:
    """Return the sum of a number of the workers before this one."""
    counts = workers.collective.gather(np.array([n]))
    return sum(int(count[0]) for count in counts[: workers.collective.rank])


def mvs_threshold(whole: np.ndarray, fraction: float, n_bits: int, workers: Workers) -> float:
    """Return the threshold of ``sampling.mvs_chances`` for the rows of all workers.

    Of the values in ascending order, with running sums s, the last is sought with
    ``value[i] * left[i] <= s[i]``, where ``left[i] = fraction n - (n - 1 - i) > 0``. The difference
    of both sides falls along the values, by more than rounding errors where n > ``SUM_CHUNK``, and
    is the same for equal values. So the search goes into the first digit whose largest value does
    not fit.

    Parameters
    ----------
    whole : int64, shape (n_own,)
        From 1 to ``2**n_bits - 1``.
    """
    ordered = np.sort(whole)
    sums = np.append(0, np.cumsum(ordered))

    def left(i: np.ndarray | int) -> np.ndarray:
        return np.asarray(fraction * workers.n_all - (workers.n_all - 1 - i))

    at = _Stretch(0, n_bits, 0, ordered.size)
    while at.shift > 0:
        shift, places = at.cut(ordered)
        found = np.stack([np.diff(places), np.diff(sums[places])])
        largest = np.where(found[0] > 0, ordered[places[1:] - 1], -1)
        workers.collective.add(found)
        largest = np.max(workers.collective.gather(largest[None]), axis=0)[0]
        counts, totals = found
        n_until, sum_until = at.n_below + np.cumsum(counts), at.sum_below + np.cumsum(totals)
        room = left(n_until - 1)
        fails = (counts > 0) & (room > 0) & (largest.astype(np.float64) * room > sum_until)
        if not fails.any():
            return float(sum_until[-1]) / max(float(left(workers.n_all - 1)), LEAST_LEFT)
        digit = int(fails.argmax())
        begin, end = places[digit : digit + 2].tolist()
        n_below, sum_below = n_until[digit] - counts[digit], sum_until[digit] - totals[digit]
        prefix = at.prefix + (digit << shift)
        at = _Stretch(prefix, shift, begin, end, int(n_below), int(sum_below))
    last, below = _last_that_fits(at, int(counts[digit]), left)
    if last < 0:
        smallest = workers.collective.gather(ordered[:1])
        last, below = 0, int(np.min(np.concatenate(smallest)))
    return float(below) / max(float(left(last)), LEAST_LEFT)


def _last_that_fits(at: _Stretch, n_equal: int, left: Any) -> tuple[int, int]:
    """Return the place of the last value that fits, -1 where none does, and the sum up to it.

    It is one of the ``n_equal`` values of ``at``, of which rounding may let some fit, or the value
    before them.
    """
    last = at.n_below + n_equal - 1
    sum_until = at.sum_below + at.prefix * n_equal
    if float(at.prefix) * float(left(last)) * NOT_CLOSE <= float(sum_until):
        places = np.arange(at.n_below, last + 1)
        below = at.sum_below + at.prefix * (places - at.n_below + 1)
        room = left(places)
        fits = np.flatnonzero((room > 0) & (float(at.prefix) * room <= below))
        if fits.size:
            return int(places[fits[-1]]), int(below[fits[-1]])
    before = at.n_below - 1
    return (before, at.sum_below) if before >= 0 and left(before) > 0 else (-1, 0)
