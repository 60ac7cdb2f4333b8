"""Growth of a batch of trees: rounds of histograms, a search for splits, and a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers
from ..runtime.compilation import callable_from_python
from ..runtime.dispatch import Implementation, implementation, implementation_for
from ..runtime.dtypes import CODE_WORDS, Codes, RowStatistics, Scales, TreeRecords
from ..statistics.quantise import pack, quantise
from . import by_phases
from .control import emit, finish
from .frontier import Frontier
from .params import NO_RULES, FeatureRules, GrowthParams
from .sparse_codes import SparseCodes
from .streamed_codes import StreamedCodes

_finish = callable_from_python(finish)
_emit = callable_from_python(emit)


class GrownTrees(NamedTuple):
    """A batch of trees in the order of their numbers, nodes breadth first (NumPy arrays).

    offset : int64, shape (n_trees + 1,)
        Tree t owns entries ``offset[t]:offset[t + 1]`` of the arrays below.
    feature, bin, left, right : int32
        ``code <= bin`` goes left; children are counted from the root; -1 at a leaf, and the
        bin of a split by categories.
    missing_left : uint8
    gain : float64
        Gain of the split, in the units of the loss; 0 at a leaf.
    n_samples : int32
        Rows of the sample.
    left_codes : uint32, shape (n_nodes, CODE_WORDS) or (0, CODE_WORDS)
        The codes that go left at a split by categories; 0 elsewhere. Empty where no feature has
        categories.
    leaf : int32 or uint16, shape (n_trees, n_rows), on the device of the data
        The leaf of every row, -1 for rows outside the tree's sample. On CUDA the numbers are
        uint16, with ``NO_LEAF`` in place of -1, where those of all nodes fit.
    """

    offset: np.ndarray
    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    gain: np.ndarray
    n_samples: np.ndarray
    left_codes: np.ndarray
    leaf: Array


def records_for(
    codes: Codes | SparseCodes | StreamedCodes,
    g: Array,
    h: Array,
    rows: Array,
    key: int,
    first: int,
    scales: Sequence[Scales],
    workers: Workers = ONE_WORKER,
) -> TreeRecords | RowStatistics:
    """Return what trees on some codes grow on: the records of ``quantise``, or where the CPU reads
    the codes of all rows in passes, statistics in the order of the rows, which need no numbers of
    these."""
    is_on_cpu = implementation_for(g) is Implementation.CPU
    if is_on_cpu and isinstance(codes, StreamedCodes) and rows.size == 0:
        words = np.empty(g.shape, np.uint32)
        sums = pack(0, g, h, key, first, scales, words)
        return RowStatistics(words, sums, scales)
    return quantise(g, h, rows, key, first, scales, workers)


def grow(
    codes: Codes | SparseCodes | StreamedCodes,
    n_bins: Array,
    records: TreeRecords | RowStatistics,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
) -> GrownTrees:
    """Grow trees on the integer statistics of their rows.

    All trees of the batch share one frontier: a round partitions the nodes that it opens, adds up
    the histograms of their children, and searches these for splits. See ``control`` for the order
    of growth.

    Parameters
    ----------
    codes : Codes, SparseCodes or StreamedCodes
        Sparse ones only on the CPU and without categories, streamed ones with one worker only.
    n_bins : int32, shape (n_features,), NumPy
        Bins that hold values, of each feature.
    records : TreeRecords or RowStatistics
        The rows of each tree, at least one; their order may change. Statistics of all rows only for
        streamed codes on the CPU.
    keys : uint64, shape (n_trees,), NumPy
        Random keys below 2**32, for the sampling of features.
    params : GrowthParams
    rules : FeatureRules
    workers : Workers

    Returns
    -------
    GrownTrees
        The same whatever the implementation and the number of threads.
    """
    own_loop = isinstance(codes, Codes) and workers is ONE_WORKER
    # The reference grows on rows of all kinds in one loop.
    if own_loop or implementation_for(records[0]) is Implementation.REFERENCE:
        op = implementation(__name__, records[0])
        return op.grow(codes, n_bins, records, keys, params, rules)
    op = implementation(by_phases.__name__, records[0])
    return op.grow(codes, n_bins, records, keys, params, rules, workers)


def finished(frontier: Frontier, params: GrowthParams) -> GrownTrees:
    """Return the grown trees except ``leaf``, which the caller adds (``leaf`` is set in the
    nodes)."""
    n_trees, capacity = frontier.trees.size, frontier.nodes.size
    order = np.empty(capacity, np.int64)
    offset = np.empty(n_trees + 1, np.int64)
    _finish(frontier, params, order, offset)
    return emitted(frontier, order, offset, None)


def emitted(frontier: Frontier, order: np.ndarray, offset: np.ndarray, leaf: Any) -> GrownTrees:
    """Return the trees in the order that ``control.finish`` has found, with the given ``leaf``."""
    n_nodes = int(offset[-1])
    trees = GrownTrees(
        offset=offset,
        feature=np.empty(n_nodes, np.int32),
        bin=np.empty(n_nodes, np.int32),
        missing_left=np.empty(n_nodes, np.uint8),
        left=np.empty(n_nodes, np.int32),
        right=np.empty(n_nodes, np.int32),
        gain=np.empty(n_nodes, np.float64),
        n_samples=np.empty(n_nodes, np.int32),
        left_codes=np.zeros((n_nodes if len(frontier.left_codes) else 0, CODE_WORDS), np.uint32),
        leaf=leaf,
    )
    _emit(frontier.nodes, frontier.left_codes, order, *trees[:-1])
    return trees
