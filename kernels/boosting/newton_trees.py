"""A round of Newton boosting: trees grown on gradients, their values, and the new raw
predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..growth.grow import GrownTrees
from ..growth.params import NO_RULES, FeatureRules, GrowthParams
from ..growth.sparse_codes import SparseCodes
from ..growth.streamed_codes import StreamedCodes
from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers
from ..runtime.dispatch import implementation
from ..runtime.dtypes import Codes, NodeValues, Totals


class Draws(NamedTuple):
    """Keys of the random numbers of a batch of trees.

    rounding, tree : int
        Random keys below 2**32, of ``quantise`` and of the sampling of features.
    first : int
        The number of the first tree.
    """

    rounding: int
    tree: int
    first: int


class NewtonTrees(NamedTuple):
    """The trees, and the values of their nodes before shrinkage."""

    trees: GrownTrees
    values: Sequence[NodeValues]


def add_newton_trees(
    codes: Codes | SparseCodes | StreamedCodes,
    n_bins: np.ndarray,
    g: Array,
    h: Array,
    totals: Sequence[Totals],
    raw: Array,
    draws: Draws,
    factor: float,
    largest: float,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
) -> NewtonTrees:
    """Grow a tree for every output on all rows, and add it to the raw predictions.

    The composition of ``quantise``, ``grow``, ``newton_steps`` and ``add_values_of_trees``; one
    call on the CPU, where the calls take as long as the growth of a small table.

    Parameters
    ----------
    codes : Codes, SparseCodes or StreamedCodes
    n_bins : int32, shape (n_features,), NumPy
    g, h : float32, shape (n_trees, n_rows), contiguous
    totals : sequence of Totals
        Of these, by tree; finite.
    raw : float64, shape (n_trees, n_rows), contiguous
        Updated.
    draws : Draws
        The key of tree i is ``draw(draws.tree, draws.first + i)``.
    factor : float
        What the values are multiplied by before they are added.
    largest : float
        See ``newton_steps``.
    params : GrowthParams
    rules : FeatureRules
        Without monotone constraints, which bound values after growth.
    workers : Workers

    Returns
    -------
    NewtonTrees
        ``trees.leaf`` may be overwritten by the next call with these codes.
    """
    op = implementation(__name__, g)
    return op.add_newton_trees(
        codes, n_bins, g, h, totals, raw, draws, factor, largest, params, rules, workers
    )
