"""Tables whose rows several workers share: who has which rows, and how the workers add up.

Each worker runs the same training on its own range of rows. What depends on all rows goes through
a ``Collective``, so that all workers see the same numbers and decide alike. Contracts add up the
results of their operations, which see nothing but a table; growth and the quantiles of leaves add
up in between, in the rounds that they are made of. The argument ``workers`` says who shares the
rows, ``ONE_WORKER`` that one process has all of them.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array
from .dtypes import SUM_CHUNK
from .fetch import fetch

NO_ROWS = np.array([-1], np.int32)
"""The rows of a sample that has none of this worker's: an empty array is for all rows."""


class Collective(ABC):
    """Computations of several workers. All of them call the same methods in the same order.

    Attributes
    ----------
    rank : int
        The number of this worker, from 0.
    size : int
        How many workers there are.
    """

    rank: int
    size: int

    @property
    def group(self) -> Collective:
        """The workers that train the same model."""
        return self

    @abstractmethod
    def add(self, values: np.ndarray) -> None:
        """Add up the arrays of all workers, in place.

        Parameters
        ----------
        values : int32 or int64, contiguous
            Of the same shape on every worker. Sums of integers do not depend on the order.
        """

    def sum_to_host(self, values: Array) -> np.ndarray:
        """Add up arrays on the workers' devices, and return the sum on the host.

        They pass through pinned memory of the host, unless the devices can reach each other (see
        ``gpuens.cluster.nccl``).

        Parameters
        ----------
        values : int32 or int64, contiguous
            As for ``add``; it may hold anything afterwards.
        """
        total = np.ascontiguousarray(fetch(values)())
        self.add(total)
        return total

    @abstractmethod
    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the arrays of all workers, in the order of their ranks.

        Parameters
        ----------
        values : contiguous
            Of the same dtype on every worker, and the same shape but for the first axis.
        """


class Alone(Collective):
    """The collective of a single worker, or of one of a ``group`` each of which has all rows."""

    rank, size = 0, 1

    def __init__(self, group: Collective | None = None) -> None:
        self._group = group

    @property
    def group(self) -> Collective:
        return self._group or self

    def add(self, values: np.ndarray) -> None:
        pass

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        return [values]


class Workers(NamedTuple):
    """The rows of this worker: ``first`` … ``first + n_own - 1`` of ``n_all``.

    Every range but the last is a multiple of ``SUM_CHUNK`` rows long, so that no chunk whose sum is
    rounded is divided. No range is empty.
    """

    collective: Collective
    first: int
    n_own: int
    n_all: int


ONE_WORKER = Workers(Alone(), 0, 0, 0)
"""The worker of a table that is not shared, however many rows it has."""

_share: ContextVar[Workers] = ContextVar("gpuens_share", default=ONE_WORKER)


current_workers: Callable[[], Workers] = _share.get
"""Return the share of this worker, ``ONE_WORKER`` where a table is not shared. It is read where a
fit begins, which hands it on."""


@contextmanager
def sharing(share: Workers) -> Iterator[None]:
    """Let the fits inside the block work on a share of the rows."""
    is_last = share.collective.rank == share.collective.size - 1
    if share.n_own < 1 or share.first % SUM_CHUNK or (share.n_own % SUM_CHUNK and not is_last):
        raise ValueError(
            f"A share must hold whole chunks of {SUM_CHUNK} rows, got {share.n_own} rows from row "
            f"{share.first} on."
        )
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)


def rows_of_all(n: int, workers: Workers) -> int:
    """Return the number of rows of all workers where this one has n."""
    if workers is ONE_WORKER:
        return n
    assert n == workers.n_own, f"an operation on {n} rows, this worker has {workers.n_own}"
    return workers.n_all


def sum_of_each(counts: np.ndarray, workers: Workers) -> np.ndarray:
    """Return the sum of each entry of the arrays (int64) of all workers."""
    total = counts.copy()
    workers.collective.add(total)
    return total


def count_of_all(n: int, workers: Workers) -> int:
    """Return the sum of a number of every worker."""
    return int(sum_of_each(np.array([n], np.int64), workers)[0])


def selected(values: Any, rows: Any) -> Any:
    """Return the values of this worker's rows of a sample; ``rows`` is not empty."""
    return values[:0] if rows is NO_ROWS else values[rows]


def halved(values: np.ndarray) -> np.ndarray:
    """Add up the lines of an array, filled up with zeros to a power of two: upper halves onto lower
    halves, as sums are defined (see ``statistics.gradients``)."""
    total = np.zeros((1 << (len(values) - 1).bit_length(), *values.shape[1:]))
    total[: len(values)] = values
    while len(total) > 1:
        half = len(total) // 2
        total = total[:half] + total[half:]
    return total[0]


def largest_of_all(value: float, workers: Workers) -> float:
    """Return the largest of a number of every worker."""
    return float(np.max(workers.collective.gather(np.array([value]))))


def largest_of_each(values: np.ndarray, workers: Workers) -> np.ndarray:
    """Return the largest of each entry of the arrays of all workers."""
    return np.max(workers.collective.gather(values[None]), axis=(0, 1))


def objects_of_all(value: Any, workers: Workers) -> list[Any]:
    """Return an object of every worker (see ``objects_among``)."""
    return objects_among(value, workers.collective)


def objects_among(value: Any, collective: Collective) -> list[Any]:
    """Return an object of every worker, in the order of the ranks. They are pickled, so that they
    must come from workers that are trusted."""
    own = np.frombuffer(pickle.dumps(value), np.uint8)
    return [pickle.loads(each.tobytes()) for each in collective.gather(own)]
