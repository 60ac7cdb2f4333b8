"""The beginning of growth on a share of the rows, the same wherever these are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.collective import Collective, current_share
from ...runtime.dtypes import TreeRecords
from .. import frontier as fr
from ..frontier import Frontier
from ..params import FeatureRules, GrowthParams


class Started(NamedTuple):
    """A batch of trees before its first round.

    collective : Collective
    frontier : Frontier
        Of the rows of all workers.
    own_begin : int64, shape (n_trees + 1,)
        Where the records of each tree begin among this worker's.
    n_all : int
        Records of a tree, of all workers.
    """

    collective: Collective
    frontier: Frontier
    own_begin: np.ndarray
    n_all: int


def start(
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules,
) -> Started:
    """Count the records of all workers, and return the batch whose trees have them (parameters:
    those of ``kernels.growth.grow``)."""
    share = current_share()
    assert share is not None
    n_trees, n_own = records.words.shape
    n_all = np.array([n_own])
    share.collective.add(n_all)
    frontier = fr.allocate(n_all.tolist() * n_trees, keys, params, n_bins, rules)
    fr.set_statistics(frontier, records.sums, records.scales)
    return Started(share.collective, frontier, n_own * np.arange(n_trees + 1), int(n_all[0]))
