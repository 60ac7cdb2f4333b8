"""The loop of growth by phases, between which Python does what no kernel can: read the next part of
a table, wait for a GPU, or add up the histograms of several workers.

Tables that one worker has in the memory of one device have loops of their own, without returns to
Python between the rounds (``cpu.grow``, ``cpu.sparse``, ``cuda.grow``). All others differ in where
their rows are, and share this one::

    tables in files                     cpu/streamed     passes over slabs
    tables larger than a GPU            cuda/streamed    passes over chunks
    dense tables of several workers     cpu/by_phases, cuda/by_phases
    sparse tables of several workers    cpu/sparse
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..runtime.collective import Workers, count_of_all
from ..runtime.dtypes import TreeRecords
from . import frontier as fr
from .frontier import Frontier
from .params import FeatureRules, GrowthParams


class Batch(Protocol):
    """Trees that grow together, and their rows. Sums are those of all workers."""

    @property
    def frontier(self) -> Frontier: ...

    def plant(self) -> None:
        """Plant the roots, and add up their histograms."""

    def open_nodes(self) -> None:
        """Find the splits of the nodes that have got histograms, choose the nodes to open, and
        route the rows of these."""

    def make_children(self) -> None:
        """Turn the opened nodes into parents, and see to the histograms of their children, which
        tables that are read in passes have added up while they routed the rows."""


def run_rounds(batch: Batch) -> None:
    """Grow trees until no node is worth opening."""
    batch.plant()
    batch.open_nodes()
    while batch.frontier.state[fr.N_EXPAND] > 0:
        batch.make_children()
        batch.open_nodes()


def start(
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules,
    workers: Workers,
) -> tuple[Frontier, np.ndarray, int]:
    """Return the frontier of the rows of all workers (parameters: those of
    ``kernels.growth.grow``), where the records of each tree begin among this worker's, int64 of
    shape (n_trees + 1,), and how many all workers have of a tree."""
    n_trees, n_own = records.words.shape
    n_all = count_of_all(n_own, workers)
    frontier = fr.allocate([n_all] * n_trees, keys, params, n_bins, rules)
    fr.set_statistics(frontier, records.sums, records.scales)
    return frontier, n_own * np.arange(n_trees + 1), n_all
