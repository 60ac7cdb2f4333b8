"""Queries of a table whose rows several workers share, some of which more than one worker has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..numerics.shared_rows import of_all_rows


class WholeQueries(NamedTuple):
    """The rows of all queries that this worker has rows of::

        rows of all      | a a b b b c | c c c c | c d d e |
        of worker 1                c     c c c c   c          before, own, after

    sent : int64, shape (n_sent,)
        Rows of this worker that others may need: those of its first and its last query.
    before, after : int64
        Which of the rows that all workers send come before and after this worker's.
    workers : Workers
    """

    sent: np.ndarray
    before: np.ndarray
    after: np.ndarray
    workers: Workers

    @classmethod
    def of(cls, query: Array, sends_all: bool, workers: Workers) -> WholeQueries | None:
        """Return them for this worker's rows; None where a table is not shared.

        Parameters
        ----------
        query : float64, shape (n_own,)
            Numbers of the queries, ascending over all workers.
        sends_all : bool
            Whether every worker gets the rows of all queries.
        workers : Workers
        """
        if workers is ONE_WORKER:
            return None
        sent = np.flatnonzero(sends_all | (query == query[0]) | (query == query[-1]))
        found = workers.collective.gather(query[sent])
        number = np.concatenate(found)
        rank = np.repeat(np.arange(len(found)), [len(each) for each in found])
        own = workers.collective.rank
        before = np.flatnonzero((rank < own) & (sends_all | (number == query[0])))
        after = np.flatnonzero((rank > own) & (sends_all | (number == query[-1])))
        return cls(sent, before, after, workers)

    def whole(self, values: Array) -> Array:
        """Return the values of these rows, (..., n_rows), from those of this worker's."""
        found = of_all_rows(values[..., self.sent], self.workers)
        parts = [found[..., self.before], np.asarray(values), found[..., self.after]]
        return np.ascontiguousarray(np.concatenate(parts, axis=-1))

    def own(self, values: Array) -> Array:
        """Return the values of this worker's rows."""
        begin = self.before.size
        return np.ascontiguousarray(values[..., begin : begin + self.workers.n_own])


def whole_queries(rows: WholeQueries | None, values: Array) -> Array:
    """Return values of the rows of whole queries; as they are where a table is not shared."""
    return values if rows is None else rows.whole(values)
