"""Growing forests from a problem and samples of its rows, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from ..devices.memory_plan import (
    FOREST_NODE_BYTES,
    LIKELY_SHARE,
    MemoryPlan,
    code_bytes,
    plan_of,
)
from ..devices.placement import Device, to_numpy
from ..devices.sparse_tables import SparseTable
from ..devices.transfer import PIECE_BYTES
from ..estimators.training import group_here, stop_with_group
from ..forest.forest import Forest, ForestRoom
from ..inputs.binning import SAMPLE_SIZE
from ..inputs.sparse_bins import ENTRIES_AT_ONCE
from ..kernels.cart.grow_cart import grow_cart
from ..kernels.cart.problem import (
    FEW_BINS,
    LIKELY_NODES,
    MOST_ON_LANES,
    CartParams,
    CartTable,
    GrownCart,
    bytes_by_row,
    grows_on_device,
)
from ..kernels.growth.params import UNLIMITED
from ..kernels.leaves.inner_nodes import bound_values
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.cpu.team import get_threads
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_TREE, subkey
from ..kernels.statistics.samples import SampleRecords
from ..members.out_of_bag import bytes_of_sums
from .criteria import Problem, host_records, node_numbers
from .gpu_batches import bytes_of_tree, most_trees, scratch_bytes, trees_at_once
from .parameters import grows_on_host, has_random_cuts, sorts_on_device
from .table import bytes_of_cell

BATCH_BYTES = 2**25
"""Approximate memory of the records and nodes of one batch of trees. The allocator reuses blocks of
this size; larger ones come from the system, which clears them first."""
NODE_BYTES = 160
"""The size of a node while it grows, without its statistics."""
MOST_TREES = 256
"""Most trees of one batch: training can be watched and stopped between two batches."""

_subkey = vectorise(subkey)


def tree_key(seed: int, tree: int) -> int:
    """Return the random key of a tree."""
    return int(_subkey(np.uint64(seed), PURPOSE_TREE, np.uint64(tree)))


def tree_keys(seed: int, trees: range) -> np.ndarray:
    """Return the random key of each of some trees, uint64."""
    keys: np.ndarray = _subkey(np.uint64(seed), PURPOSE_TREE, np.array(trees, np.uint64))
    return keys


def grow_forest(
    table: CartTable,
    problem: Problem,
    sample: Callable[[int], Array | SampleRecords],
    seeds: Sequence[int] | np.ndarray,
    params: CartParams,
    device: Device,
    *,
    finish: Callable[[int, Forest, Array], tuple[Forest, Array]] | None = None,
    after_batch: Callable[[int, Forest, Any], bool] | None = None,
) -> Forest:
    """Grow trees, as many at a time as memory allows.

    Parameters
    ----------
    sample : callable
        ``sample(i)`` gives the records of tree i, uint64 on the device
        (see ``kernels.cart.problem``), for every tree in one form: alone or as a ``SampleRecords``.
    seeds : sequence of int
        The random key of each tree.
    finish : callable, default=None
        ``finish(first, forest, records)`` with the number of a batch's first tree, its trees and
        their records returns the trees to keep, and the records in their nodes.
    after_batch : callable, default=None
        ``after_batch(first, forest, records)`` with the number of a batch's first tree, its
        trees and its records as growth left them. A true result ends the growth.

    Returns
    -------
    Forest
        After Ctrl-C that of the batches that were finished, if there are any.
    """
    first, n_trees = 0, len(seeds)
    done = ForestRoom(n_trees)
    on_gpu = device.is_gpu and grows_on_device(table, params)
    most = trees_at_once(table, problem.target, params, device) if on_gpu else get_threads()
    size = min(n_trees, most)
    while first < n_trees:
        try:
            stop_with_group()
            forest, records = _grow_batch(
                table, problem, [sample(i) for i in range(first, first + size)],
                seeds[first : first + size], params, device,
            )  # fmt: skip
            if finish is not None:
                forest, records = finish(first, forest, records)
            done.append(forest)
            stop = after_batch is not None and after_batch(first, forest, records)
        except KeyboardInterrupt:
            if done.is_empty or group_here.get() is not None:
                raise
            break
        if stop:
            break
        first += size
        size = min(n_trees - first, most if on_gpu else _batch_size(forest, records))
    return done.forest()


def _batch_size(forest: Forest, records: Array) -> int:
    """Return the number of trees of the next batch, from the size of those of the last one."""
    node = NODE_BYTES + 16 * forest.width
    size = (records.size * 8 + forest.feature.size * node) / forest.n_trees
    return max(get_threads(), min(MOST_TREES, int(BATCH_BYTES / size)))


def _grow_batch(
    table: CartTable,
    problem: Problem,
    samples: list[Any],
    keys: Sequence[int] | np.ndarray,
    params: CartParams,
    device: Device,
) -> tuple[Forest, Array]:
    records, sizes = _joined(samples, device)
    end = np.cumsum(sizes)
    begin = end - sizes
    grown = grow_cart(table, problem.target, records, begin, end, np.array(keys, np.uint64), params)
    return forest_of(table, problem, grown, records), records


def _joined(samples: list[Any], device: Device) -> tuple[Array, np.ndarray]:
    """Return the records of all samples, one behind the other, and their sizes. The host waits
    once where it does not know these."""
    xp, parts = device.xp, samples
    if isinstance(samples[0], SampleRecords):
        there = xp.empty(len(samples), dtype=xp.int64)
        for i, sample in enumerate(samples):
            there[i : i + 1] = sample.size
        sizes = to_numpy(there)
        pairs = zip(samples, sizes.tolist(), strict=True)
        parts = [sample.records[:size] for sample, size in pairs]
    else:
        sizes = np.array([part.size for part in parts], np.int64)
    if len(parts) == 1:
        return parts[0], sizes
    joined, end = xp.empty(int(sizes.sum()), dtype=parts[0].dtype), 0
    for part in parts:  # copies by the driver: CuPy would compile a kernel that concatenates
        joined[end : end + part.size] = part
        end += part.size
    return joined, sizes


def forest_of(table: CartTable, problem: Problem, grown: GrownCart, records: Array) -> Forest:
    """Return the frozen form of grown trees."""
    is_monotone = bool(table.monotone.any())
    numbers = node_numbers(problem, grown, records, is_monotone)
    if is_monotone:
        clip(table, problem, grown, numbers["value"])
    return Forest(
        n_features=table.n_bins.size,
        base=np.zeros(problem.width),
        offset=grown.offset,
        output=np.zeros(grown.offset.size - 1, np.int32),
        feature=grown.feature,
        threshold=grown.threshold,
        missing_left=grown.missing_left,
        left=grown.left,
        right=grown.right,
        category_begin=grown.category_begin,
        categories=grown.categories,
        n_categories=np.where(table.categorical == 1, table.n_bins, 0).astype(np.int32),
        **numbers,
    )


def clip(table: CartTable, problem: Problem, grown: GrownCart | Forest, value: np.ndarray) -> None:
    """Clip the values of all nodes, in place, to their bounds: means, or the shares of class 1."""
    free = value[:, -1].copy()
    clipped = free.copy()
    for first, last in pairwise(grown.offset.tolist()):
        of_nodes = (getattr(grown, name)[first:last] for name in ("feature", "left", "right"))
        bound_values(*of_nodes, table.monotone, clipped[first:last])
    value[:, -1] = clipped
    if problem.n_classes:
        value[:, 0] = np.where(clipped == free, value[:, 0], 1.0 - clipped)


def all_rows(n: int, device: Device) -> Array:
    """Return the records of a sample that has every row once."""
    return device.xp.arange(n, dtype=device.xp.uint64) | np.uint64(2**32)


def rows_and_counts(records: Any) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and multiplicities of records, int64."""
    words = host_records(records)
    return (words & np.uint64(0xFFFFFFFF)).astype(np.int64), (words >> np.uint64(32)).astype(
        np.int64
    )


TO_COME = (
    "records and growing nodes", "codes by row", "middles of bins", "histograms", "out-of-bag sums",
)  # fmt: skip
"""Parts of a plan that are not there yet when target and bins are."""

EXACT_CELL_BYTES = 32
"""The size of a value that is a bin of its own: two copies of its code, three of the value."""

DEALT_BYTES = 2**25
"""Bytes of the columns that a worker bins at a time, if one column has not more."""

BYTES_OF_MIDDLES = 8 * 256
"""Bytes of the middles of the bins of a feature, for random cuts."""

BYTES_OF_ENDS = 4 * 8
"""Bytes of the two ends of a bin: those of each feature are joined, and go later."""

BYTES_OF_LANES = 72
"""Bytes of the scratch of a thread for a feature, where subtrees of few rows grow on lanes."""

CUTTING_BYTES = 24
"""Bytes of a sampled value while a thread of the host cuts a column into bins."""

SPARSE_CUTTING_BYTES = 64
"""Bytes of an entry of a sparse table while its column is cut."""

SORTING_BYTES = 60
"""Bytes of a row while a table that comes to a GPU in parts is cut: some columns, and one of them
as it is sorted."""


def cart_plan(
    estimator: Any, shape: tuple[int, int], itemsize: int, device: Device, *, width: int = 1,
    n_outputs: int = 1, is_there: bool = False, held: bool = False, n_own: int | None = None,
    cell_bytes: int | None = None,
) -> MemoryPlan:  # fmt: skip
    """Plan the memory of a decision tree or a forest.

    Parameters
    ----------
    estimator : estimator
        With the parameters of a tree or a forest.
    width : int
        Values of a leaf: outputs, or classes of all outputs.
    held : bool
        Whether target and bins are on the device already; the trees are then left to the check of
        forests, which follows their growth.
    n_own : int or None
        The rows that a worker reads where several share those of ``shape``; None: not shared. The
        plan of its GPU is that of what comes there: bins, targets and weights, and what grows.
    cell_bytes : int or None
        Bytes of the bin of a value, of a sparse table or where that is known; None: of a dense
        table.

    Returns
    -------
    MemoryPlan
        See ``boosting_plan`` for the other parameters.
    """
    n, n_columns = shape[0], estimator._n_columns_of(shape[1])
    n_read = n if n_own is None else n_own
    n_trees = int(getattr(estimator, "n_estimators", 1))
    in_sample = int(n * (0.632 if getattr(estimator, "bootstrap", False) else 1.0))
    n_likely, n_nodes = _nodes_of_tree(estimator, in_sample, width == n_outputs)
    on_workers_gpu = n_own is not None and device.is_gpu  # its host reads, bins and scores rows
    is_streamed = device.is_gpu and not is_there
    table = 0 if is_there or on_workers_gpu else n_read * shape[1] * itemsize
    free, capacity = device.memory()
    on_host = int(capacity is None)  # 0 for what a GPU's plan leaves to the host
    by_row = middles = scratch = 0
    if capacity is None or grows_on_host(estimator):
        of_tree = 3 * 8 * in_sample + n_nodes * (NODE_BYTES + 16 * (1 + width))
        batch = min(n_trees, max(get_threads(), BATCH_BYTES // of_tree))
        by_row, middles = _bytes_of_search(
            estimator, (n, n_columns), batch * max(1, in_sample), width, n_outputs, cell_bytes
        )
    else:
        of_tree, batch, scratch = _gpu_growth(
            estimator, n, n_columns, n_trees, n_likely, width, free
        )
    real = 8 * n * (n_outputs + 1)  # beside their integers, which growth reads
    is_scored = getattr(estimator, "oob_score", False) and not on_workers_gpu
    parts = {
        "table": min(table, 2 * PIECE_BYTES) if is_streamed else table,
        "target and weights": n * (16 * n_outputs + 8) + on_host * real,
        "bins": n * _bytes_of_row(estimator, n_columns, is_streamed, on_workers_gpu, cell_bytes),
        "columns to bin": _bytes_to_bin(estimator, n, n_columns, itemsize, n_own, on_workers_gpu),
        "records and growing nodes": batch * of_tree,
        "codes by row": by_row,
        "middles of bins": middles,
        "histograms": scratch,
        "out-of-bag sums": bytes_of_sums(n_read, width, n_outputs, batch) if is_scored else 0,
        "ends of bins": on_host * BYTES_OF_ENDS * n_columns * min(n, estimator.max_bins or 0),
        "trees": on_host * 2 * n_trees * n_nodes * (FOREST_NODE_BYTES + 8 * width),
    }
    parts = {name: parts[name] for name in TO_COME} if held else parts
    what = "A tree" if n_trees == 1 else f"A forest of {n_trees:,} trees"
    shared = "" if n_own is None else f", of which a worker reads {n_own:,} rows,"
    return plan_of(f"{what} on {n:,} x {n_columns:,} values{shared}", device, parts, free, capacity)


def _bytes_to_bin(
    estimator: Any, n: int, n_columns: int, itemsize: int, n_own: int | None, on_workers_gpu: bool
) -> int:
    """Return the bytes of the columns that are binned at a time."""
    if n_own is None:
        return int(estimator._bytes_to_bin(n, n_columns))
    return 0 if on_workers_gpu else 3 * max(n * itemsize, DEALT_BYTES)


def _bytes_of_search(
    estimator: Any,
    shape: tuple[int, int],
    n_records: int,
    width: int,
    n_outputs: int,
    cell_bytes: int | None,
) -> tuple[int, int]:
    """Return the bytes of the copy of the codes that nodes read on the CPU row by row, and those of
    the middles of bins, with the scratch of lanes where these are used. Growth decides likewise
    (``ways_of_nodes``), but knows whether there are categories and rows of different weight."""
    if estimator.max_bins is None and cell_bytes != 1:
        # Where bins have one byte by chance, ``EXACT_CELL_BYTES`` has room for these.
        return 0, 0
    n_columns, is_random = shape[1], has_random_cuts(estimator)
    depth = UNLIMITED if estimator.max_depth is None else int(estimator.max_depth)
    looked_at = estimator._n_looked_at(n_columns)
    copied = bytes_by_row(shape, n_records, looked_at, depth, is_random)
    if not is_random:
        return copied, 0
    if n_outputs > 1 or np.any(estimator.monotonic_cst):
        return 0, 0
    # Rows that are drawn twice do not count like others.
    of_two_classes = estimator.criterion == "gini" and width <= 2
    of_two_classes = of_two_classes and not getattr(estimator, "bootstrap", False)
    of_numbers = estimator.criterion in ("squared_error", "friedman_mse")
    middles = BYTES_OF_MIDDLES * n_columns
    if copied and (of_two_classes or of_numbers):
        return copied, middles
    if of_two_classes and n_columns <= MOST_ON_LANES and estimator.max_leaf_nodes is None:
        return 0, middles + BYTES_OF_LANES * n_columns * get_threads()
    return 0, 0


def _gpu_growth(
    estimator: Any,
    n: int,
    n_columns: int,
    n_trees: int,
    n_likely: int,
    width: int,
    free: int | None,
) -> tuple[int, int, int]:
    """Return the bytes of a growing tree, how many trees grow at a time, and the bytes that the
    search of their splits takes beside them."""
    likely = int(LIKELY_NODES / LIKELY_SHARE * n_likely)
    n_sorted = n_columns if sorts_on_device(estimator) else 0
    of_tree = bytes_of_tree(n, likely, 1 + width, n_sorted)
    batch = max(1, min(n_trees, most_trees(n, of_tree, free)))
    n_bins = estimator.max_bins or FEW_BINS
    return of_tree, batch, scratch_bytes(n_bins, 1 + width, n * batch, n_columns, n_sorted)


def _bytes_of_row(
    estimator: Any,
    n_columns: int,
    is_streamed: bool,
    on_workers_gpu: bool,
    cell_bytes: int | None,
) -> int:
    """Return the bytes that the bins of a row take, while they are made and after."""
    if cell_bytes is not None:
        return cell_bytes * n_columns
    if on_workers_gpu:
        return (4 if estimator.max_bins is None else 1) * n_columns
    if estimator.max_bins is None:
        return EXACT_CELL_BYTES * n_columns
    return max(n_columns, SORTING_BYTES) if is_streamed else code_bytes(n_columns)


def reading_plan(
    estimator: Any,
    shape: tuple[int, int],
    itemsize: int,
    device: Device,
    sparse: SparseTable | None = None,
) -> MemoryPlan:
    """Plan the memory of the target and the bins, of a table that may be sparse, before they are
    read (see ``cart_plan``)."""
    of_cell = None if sparse is None else bytes_of_cell(sparse, estimator.max_bins)
    plan = cart_plan(estimator, shape, itemsize, device, is_there=True, cell_bytes=of_cell)
    parts = {
        name: plan.parts[name]
        for name in ("target and weights", "bins", "ends of bins", "columns to bin")
    }
    if sparse is not None:
        parts["columns being cut"] = SPARSE_CUTTING_BYTES * min(sparse.entries.nnz, ENTRIES_AT_ONCE)
    elif estimator.max_bins is not None:
        parts["columns being cut"] = CUTTING_BYTES * min(shape[0], SAMPLE_SIZE) * get_threads()
    return replace(plan, parts=parts)


def _nodes_of_tree(estimator: Any, n_rows: int, has_means: bool) -> tuple[int, int]:
    """Return how many nodes a tree is likely to have, and how many are planned for: where it grows
    to purity and leaves have means, every row may have its own."""
    n_likely = 2 * _leaves_of_tree(estimator, n_rows, LIKELY_SHARE) - 1
    is_pure = estimator.min_samples_leaf == 1 and estimator.min_samples_split == 2
    if not (has_means and is_pure):
        return n_likely, n_likely
    return n_likely, 2 * _leaves_of_tree(estimator, n_rows, 1.0) - 1


def _leaves_of_tree(estimator: Any, n_rows: int, share: float) -> int:
    """Return a share of the most leaves that rows and depth allow a tree; those that
    ``max_leaf_nodes`` allows, if they are fewer."""
    leaves = n_rows
    if isinstance(estimator.min_samples_leaf, Integral):
        leaves //= int(estimator.min_samples_leaf)
    if estimator.max_depth is not None and estimator.max_depth < 31:
        leaves = min(leaves, 2 ** int(estimator.max_depth))
    leaves = max(1, int(share * leaves))
    return leaves if estimator.max_leaf_nodes is None else min(leaves, estimator.max_leaf_nodes)
