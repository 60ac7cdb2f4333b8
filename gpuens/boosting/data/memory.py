"""The memory that gradient boosting takes, part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from ...devices.memory_plan import (
    FOREST_NODE_BYTES,
    LIKELY_SHARE,
    WORKING_SHARE,
    MemoryPlan,
    code_bytes,
    plan_of,
    row_bytes,
)
from ...devices.placement import Device, is_sparse
from ...devices.sparse_tables import SparseTable
from ...devices.transfer import PIECE_BYTES
from ...inputs.sparse import ENTRY_BYTES, read_sparse
from ...kernels.growth import frontier as fr
from ...kernels.growth import streamed_codes
from ...kernels.growth.params import GrowthParams
from ...kernels.growth.streamed_codes import GROUP_ROWS, most_sums, number_type, rows_of_chunk
from ...kernels.runtime.dtypes import CODE_WORDS, N_SLOTS, NO_LEAF
from ...kernels.runtime.native import source
from ...losses import AbsoluteError, ArrayLoss, Huber, Loss, Quantile
from ...losses.distributions import DistributionLoss
from ...numerics.sampling import most_rows_of_a_piece
from ...tables.binned_table import BinnedTable
from ...tables.planned import PlannedTable
from ...tables.streaming import AHEAD
from ...tables.worker_rows import ranges_of
from ..parameters import growth_params, width_of
from ..steps.pieces import PIECE_ROWS, takes_pieces
from ..steps.plain import batch_size
from .auto_values import AUTO, folds_of, most_rounds, settled
from .tables import BinsTable, DataSize, EntriesTable

SCRATCH_NODE_BYTES = 72
"""Bytes of a growing node beside its record."""
ORDER_ROW_BYTES = 3 * 8
"""Bytes that the split of a shared table takes for a row of any worker: its number, its place in
the permutation, and its class."""
HISTOGRAM_BYTES = 8 * N_SLOTS
"""Bytes of the histogram of a feature: two planes of int32."""
PATH_FEATURES = 16
"""Different features on the way to a leaf, in estimates: paths rarely have more."""
PLACE_BYTES = 4
"""Bytes of the place of a node in a group of rows."""
SPARSE_PLACE_BYTES = 12
"""Bytes of an entry of a histogram without zeros: the sums, and the number of rows."""
SPARSE_MESSAGE_BYTES = 16
"""Bytes of the same entry while workers add it up."""
STREAMING_SHARE = 1 / 32
"""Working arrays of passes over the rows, relative to what is planned: they are made in pieces."""
COMPILING_BYTES = 2**28
"""Memory that is left to Numba for compiling the kernels of a training: 171 MB were measured."""
UNPLANNED_SHARE = 1 / 2
"""Share of the free memory beyond the plan left to rounds: rows of a file do not get it."""
GATHERED_BYTES = 2 * 8
"""Bytes of a number of a row of any worker, as the workers send it and in the array of all rows."""
FUNCTION_BYTES = 5 * 8
"""Bytes of a row's score, gradient and hessian for a function of arrays: these two once as the
function returns them, and once checked."""


def boosting_plan(
    estimator: Any, loss: Loss, params: GrowthParams, data: DataSize, device: Device
) -> MemoryPlan:
    """Plan the memory that gradient boosting takes beyond the data that is on the device already,
    and decide whether a table is read in the order of its rows, and how many of them stay in the
    device's memory.

    Parameters
    ----------
    estimator : estimator
        With the parameters of gradient boosting.
    loss : Loss
    params : GrowthParams
        For the rows of all workers.
    data : DataSize
    device : Device

    Returns
    -------
    MemoryPlan
    """
    plan = _plan(estimator, loss, params, data, device)
    if not exceeds_memory(data, plan):
        return plan
    data = replace(data, streams=True)
    plan = _plan(estimator, loss, params, data, device)
    left = (plan.free or 0) - plan.total
    if not device.is_gpu and isinstance(source(), str):
        left -= COMPILING_BYTES
    if not device.is_gpu and not _knows_all_arrays(estimator, loss, data):
        left -= int(UNPLANNED_SHARE * plan.total)
    data = replace(data, n_resident=rows_that_stay(data, plan, max(0, left)))
    plan = _plan(estimator, loss, params, data, device)
    return replace(
        plan,
        streams=True,
        n_resident=data.n_resident,
        in_pieces=computes_pieces(estimator, loss, params, data, device),
    )


def exceeds_memory(data: DataSize, plan: MemoryPlan) -> bool:
    """Return whether the codes leave too little memory for what else training takes."""
    if not data.can_stream or plan.free is None:
        return False
    return plan.total + data.on_disk > plan.free


def _knows_all_arrays(estimator: Any, loss: Loss, data: DataSize) -> bool:
    """Return whether rounds make no large arrays but those that the plan names."""
    revises = estimator.linear_leaves or estimator.dropout
    steps = type(loss).leaf_values is Loss.leaf_values or isinstance(loss, tuple(STEP_BYTES))
    return steps and not (loss.checks_rows or revises or data.evaluated or data.splits)


def rows_that_stay(data: DataSize, plan: MemoryPlan, left: int) -> int:
    """Return how many rows a device has room for in ``left`` bytes beside a plan without any: all,
    or those of whole chunks, on the CPU of whole slabs."""
    n, n_features = data.shape
    if plan.device.is_gpu:
        row = row_bytes(n_features)
        size, n_fit = rows_of_chunk(row), int(left / (1 + WORKING_SHARE)) // row
    else:
        size, n_fit = streamed_codes.SLAB_ROWS, left // n_features
    return n if n_fit >= n else n_fit // size * size


class _Growth(NamedTuple):
    """The sizes of what grows in a round: values of a leaf, trees that grow together, rows in the
    sample of a tree (of this worker, and of all), most nodes of a tree and of a batch, the bytes of
    the set of categories of a node, and whether gradients are computed piece by piece."""

    width: int
    batch: int
    in_sample: int
    sample_of_all: int
    most_nodes: int
    n_nodes: int
    set_bytes: int
    in_pieces: bool


def _plan(
    estimator: Any, loss: Loss, params: GrowthParams, data: DataSize, device: Device
) -> MemoryPlan:
    n, n_features = data.shape
    n_all = data.n_all or n
    width = width_of(estimator, loss)
    batch = 1 if width > 1 else batch_size(data.n_outputs, n_all, n_features, params, device)
    sample_of_all = max(1, int(n_all * float(estimator.subsample)))
    most_nodes = fr.node_capacity(params, sample_of_all)
    growth = _Growth(
        width,
        batch,
        max(1, int(n * float(estimator.subsample))),
        sample_of_all,
        most_nodes,
        batch * most_nodes,
        0 if estimator.categorical_features is None else 4 * CODE_WORDS,
        data.streams and computes_pieces(estimator, loss, params, data, device),
    )
    free, capacity = device.memory()
    parts = _bytes_of_data(estimator, loss, params, data, device, growth)
    parts |= _bytes_of_steps(estimator, loss, params, data, device, growth)
    parts |= _bytes_of_trees(estimator, params, data, growth, capacity)
    task = f"Gradient boosting with {n:,} x {n_features:,} values"
    if data.streams and device.is_gpu:
        parts, more = _chunked(parts, data, most_nodes)
        task += more
    if data.n_all is not None:
        task += f" of {n_all:,} rows"
        parts |= _held_out(estimator, data)
    if data.n_sparse is not None:
        task += (
            f" (of {data.n_sparse:,} columns those with at least "
            f"min_samples_leaf={params.min_samples_leaf} entries, if all are looked at)"
        )
    plan = plan_of(task, device, parts, free, capacity)
    return _with_slabs(plan, data, most_nodes) if data.streams and not device.is_gpu else plan


def _bytes_of_data(
    estimator: Any, loss: Loss, params: GrowthParams, data: DataSize, device: Device,
    growth: _Growth,
) -> dict[str, int]:  # fmt: skip
    """Return the parts of a plan that hold rows from the first round to the last, and what the
    loss computes of all rows: those of all workers where each of them needs these."""
    (n, n_features), n_outputs = data.shape, data.n_outputs
    target_bytes, table = loss.target_type(device).itemsize, n * n_features * data.itemsize
    is_streamed = device.is_gpu and not data.is_there
    bins, evaluated_bins = code_bytes(n_features), data.evaluated_bins
    if evaluated_bins is None:
        evaluated_bins = bins * sum(data.evaluated)
    bins_of_rows = n * bins if data.bins is None else data.bins
    parts = {
        "table": 0 if data.is_there else min(table, 2 * PIECE_BYTES) if is_streamed else table,
        "target and weights": n * (target_bytes + 8 * data.weighted),
        "table without the rows held out": table if data.splits and not is_streamed else 0,
        "bins": 0 if data.is_binned and not device.is_gpu else bins_of_rows,
        "raw predictions": n * 8 * n_outputs,
        "evaluation sets": evaluated_bins
        + sum(rows * (8 * n_outputs + 4) for rows in data.evaluated),
        "trees left out": n * (8 * n_outputs + 4) if estimator.dropout else 0,
    }
    if estimator.linear_leaves:
        parts |= _linear_bytes(params, data, device, growth.n_nodes)
    if data.n_all is not None and loss.reads_all_rows:
        n = data.n_all
        parts["scores of all rows"] = GATHERED_BYTES * n_outputs * n
    if isinstance(loss, ArrayLoss):
        parts["arguments and results of the loss"] = (8 + FUNCTION_BYTES * n_outputs) * n
    parts["queries or risk sets"] = loss.row_bytes * n
    return parts


def _bytes_of_steps(
    estimator: Any, loss: Loss, params: GrowthParams, data: DataSize, device: Device,
    growth: _Growth,
) -> dict[str, int]:  # fmt: skip
    """Return the parts of a plan that the steps of a round take for its rows."""
    n, width, batch = data.shape[0], growth.width, growth.batch
    of_outputs = 8 * width + PROJECTION_BYTES if width > 1 else 0
    of_fold = 8 * data.n_outputs + 2 * (8 + loss.target_type(device).itemsize)
    of_fold += 12 * batch + of_outputs
    is_sample = estimator.sampling != "uniform" or estimator.subsample < 1.0
    # Two records where they are moved, with a mark of their side on the CPU. Passes on the CPU over
    # all rows take integers without the numbers of rows.
    record = 16 if device.is_gpu else 17
    if data.streams:
        record = 8 if device.is_gpu or is_sample or data.weighted else 4
    drawn = WEIGHTED_BYTES * n if data.weighted else 0
    if is_sample:
        drawn = DRAWING_BYTES[estimator.sampling] * n
        drawn += PIECE_BYTES_OF_ROW * min(n, most_rows_of_a_piece(device))
    steps = [size for kind, size in STEP_BYTES.items() if isinstance(loss, kind)]
    steps += [STEP_BYTES_OF_OUTPUTS] * (data.n_outputs > 1) + [SEARCH_BYTES] * estimator.line_search
    # Trees of a round, and of the next.
    n_numbered = data.n_outputs // width + batch * device.runs_ahead
    return {
        "gradients": 8 * batch * (min(n, PIECE_ROWS) if growth.in_pieces else n),
        "gradients of all outputs": of_outputs * n,
        "records": record * batch * growth.in_sample,
        # First rows are drawn, later the values of leaves are found.
        "samples and steps": max(drawn, max(steps, default=0) * n),
        "leaves of the rows": _leaf_bytes(params, data, device, growth) * n_numbered * n,
        # Of each search at once raw predictions, gradients and leaves, and weights and targets of
        # its rows and of those held out.
        "trainings that hold rows out": (
            folds_of(n) * n * of_fold if estimator.n_estimators == AUTO else 0
        ),
    }


def _leaf_bytes(params: GrowthParams, data: DataSize, device: Device, growth: _Growth) -> int:
    """Return the bytes of the leaf of a row in a tree."""
    if growth.in_pieces and growth.most_nodes <= NO_LEAF:
        return 2
    if not device.is_gpu:
        return 4
    if data.streams:
        return number_type(growth.most_nodes).itemsize
    return fr.leaf_type(params, growth.sample_of_all).itemsize


def _bytes_of_trees(
    estimator: Any, params: GrowthParams, data: DataSize, growth: _Growth, capacity: int | None
) -> dict[str, int]:
    """Return the parts of a plan that grow with the nodes."""
    n_features, width, n_nodes = data.shape[1], growth.width, growth.n_nodes
    # Growth builds those histograms again that do not fit into the pool.
    n_slots = fr.n_slots(n_features, n_nodes, growth.batch, params)
    histograms = messages = n_slots * n_features * HISTOGRAM_BYTES * (params.max_leaves != 1)
    if data.n_places is not None:
        n_entries = n_slots * data.n_places
        histograms, messages = SPARSE_PLACE_BYTES * n_entries, SPARSE_MESSAGE_BYTES * n_entries
    # The best split of each feature in the nodes that a step searches: two new nodes for each
    # histogram, and those that are searched again.
    n_searched = 3 * min(n_slots, n_nodes)
    leaves = max(1, growth.sample_of_all // params.min_samples_leaf)
    if params.max_depth < 31:
        leaves = min(leaves, 2**params.max_depth)
    leaves = max(1, min(int(LIKELY_SHARE * leaves), params.max_leaves))
    n_trees = int(most_rounds(estimator, growth.sample_of_all)) * data.n_outputs // width
    finished = 2 * n_trees * (2 * leaves - 1) * (FOREST_NODE_BYTES + 8 * width)
    node = fr.NODE.itemsize
    parts = {
        "histograms": histograms,
        "candidates of splits": n_searched * n_features * (20 + growth.set_bytes),
        "tables of nodes": n_nodes * (node + SCRATCH_NODE_BYTES + growth.set_bytes),
        "trees": finished if capacity is None else 0,
    }
    if data.n_all is not None:
        parts["messages"] = messages
        parts["nodes of the worker's rows"] = n_nodes * (node + fr.EXPANSION.itemsize)
    return parts


def computes_pieces(
    estimator: Any, loss: Loss, params: GrowthParams, data: DataSize, device: Device
) -> bool:
    """Return whether a training keeps no gradients of all rows. Rows that have weights might not
    all take part."""
    if not data.streams or device.is_gpu or data.weighted or estimator.n_estimators == AUTO:
        return False
    if width_of(estimator, loss) > 1 or batch_size(data.n_outputs, *data.shape, params, device) > 1:
        return False
    is_sample = estimator.sampling != "uniform" or estimator.subsample < 1.0
    revises = estimator.line_search or estimator.linear_leaves or estimator.dropout
    takes_steps = type(loss).leaf_values is Loss.leaf_values and takes_pieces(loss)
    return takes_steps and not (is_sample or revises or estimator.monotonic_cst is not None)


DRAWING_BYTES = {"uniform": 4, "goss": 16, "mvs": 66, "balanced": 30}
"""Bytes of a row while a sample is drawn and its statistics are scaled."""
PIECE_BYTES_OF_ROW = 40
"""Bytes of a row of a piece while its random bits are drawn."""
STEP_BYTES: dict[type[Loss], int] = {
    AbsoluteError: 18, Quantile: 18, Huber: 68, DistributionLoss: 40
}  # fmt: skip
"""Bytes of a row while the values of leaves are found that are not Newton steps."""
STEP_BYTES_OF_OUTPUTS, SEARCH_BYTES, WEIGHTED_BYTES = 16, 40, 5
"""Bytes of a row where trees have several outputs, where steps are searched for, and while the rows
that have a weight are listed."""
PROJECTION_BYTES = 32
"""Bytes of a row while the gradients of all outputs are added up for one tree, and its weight."""
READING_BYTES = 12
"""Bytes of a row's target, or weight, while it is read."""


def reading_plan(shape: tuple[int, int], n_columns: int, device: Device) -> MemoryPlan:
    """Plan the memory of the targets and weights of a table, before they are read.

    ``n_columns`` is how many numbers a row has, the weight included.
    """
    n, n_features = shape
    task = f"Gradient boosting with {n:,} x {n_features:,} values"
    return plan_of(task, device, {"target and weights": READING_BYTES * n * n_columns},
                   *device.memory())  # fmt: skip


def _linear_bytes(
    params: GrowthParams, data: DataSize, device: Device, n_nodes: int
) -> dict[str, int]:
    """Return what linear functions in leaves take: the values of all rows, which a GPU would read
    in pieces otherwise, and the sums of a tree's leaves."""
    n_features = data.shape[1]
    n_rows = data.shape[0] + sum(data.evaluated)
    table = n_rows * n_features * data.itemsize if device.is_gpu and not data.is_there else 0
    n_path = min(n_features, PATH_FEATURES)
    sums = 8 * min(params.max_leaves, n_nodes) * ((n_path + 1) * (n_path + 4) // 2 + 1)
    return {"values for linear leaves": table, "sums of linear leaves": 2 * sums}


def _held_out(estimator: Any, data: DataSize) -> dict[str, int]:
    """Return what it takes to hold rows out of a shared table, all of which every worker gets."""
    if not data.splits or data.n_all is None:
        return {}
    share, n_features = estimator.validation_fraction, data.shape[1]
    n_held_out = int(share if share >= 1 else share * data.n_all)
    row = n_features * data.itemsize + code_bytes(n_features) + 8 * data.n_outputs + 4
    return {"order of all rows": ORDER_ROW_BYTES * data.n_all, "evaluation sets": n_held_out * row}


def _with_slabs(plan: MemoryPlan, data: DataSize, most_nodes: int) -> MemoryPlan:
    """Add the rows of a file that stay in memory, without padding, those that are being read, and
    the places of nodes in groups of rows: these take no working arrays."""
    n, n_features = data.shape
    size = min(streamed_codes.SLAB_ROWS, n)
    n_read = min(-(-n // size), AHEAD + 1) * size
    of_rows = {
        "bins": data.n_resident * n_features, "slabs of rows": n_read * row_bytes(n_features),
        "places of nodes": -(-n // GROUP_ROWS) * (most_nodes + 1) * PLACE_BYTES,
    }  # fmt: skip
    others = plan.total - plan.parts["working arrays"]
    parts = {**of_rows, "working arrays": int(STREAMING_SHARE * others)}
    task = (
        f"{plan.task} in a file that is read in the order of its rows, of which "
        f"{data.n_resident:,} stay in memory,"
    )
    return replace(plan, task=task, parts=plan.parts | parts)


def _chunked(parts: dict[str, int], data: DataSize, most_nodes: int) -> tuple[dict[str, int], str]:
    """Return the parts of a training on a GPU to which rows go in their order, and where they are,
    in words.

    What concerns nodes is the host's, and evaluation sets that are binned stay there.
    """
    n, n_features = data.shape
    row = row_bytes(n_features)
    size = rows_of_chunk(row)
    n_chunks, n_resident = -(-n // size), -(-data.n_resident // size)
    evaluated_bins = data.evaluated_binned * code_bytes(n_features)
    parts |= {
        "bins": data.n_resident * row,
        "chunks of rows": 2 * size * row + 8 * min(size, n),
        "histograms": min(most_nodes, most_sums(n_features)) * n_features * HISTOGRAM_BYTES,
        "candidates of splits": 0,
        "tables of nodes": 0,
        "evaluation sets": parts["evaluation sets"] - evaluated_bins,
    }
    where = f"{n_resident:,} of {n_chunks:,} chunks of {size:,} rows stay there"
    return parts, f" on the host, of which {where},"


def plan_of_training(estimator: Any, table: PlannedTable) -> MemoryPlan:
    """Return the plan of gradient boosting on a table."""
    n_outputs, shape, n_all = table.n_outputs, table.shape, table.n_all
    is_of_classes = is_classifier(estimator)
    n_trees = (1 if n_outputs <= 2 else n_outputs) if is_of_classes else n_outputs
    loss = estimator._read_loss()
    n_trees *= loss.n_outputs  # quantiles, or parameters of a distribution
    if is_of_classes:
        loss = loss.for_classes(max(2, n_outputs))
    stops_early = estimator._stops_early(n_all or shape[0], False)
    estimator = settled(
        estimator, loss, n_all or shape[0], is_sparse(table.X), n_all is not None, stops_early
    )
    params = growth_params(estimator, (n_all or shape[0], shape[1]))
    if is_sparse(table.X):
        size = _size_of_entries(estimator, params, table, n_trees)
        return boosting_plan(estimator, loss, params, size, table.device)
    size = DataSize(
        shape,
        table.itemsize,
        n_outputs=n_trees,
        weighted=table.weighted,
        is_there=table.is_there,
        splits=stops_early and estimator.validation_fraction is not None,
        n_all=n_all,
    )
    if isinstance(table.X, BinnedTable):
        size = replace(size, **BinsTable(table.X).size_of_bins(table.device, n_all))
    return boosting_plan(estimator, loss, params, size, table.device)


def _size_of_entries(
    estimator: Any, params: GrowthParams, table: PlannedTable, n_trees: int
) -> DataSize:
    """Return what a training has of a sparse table, or a worker."""
    entries = read_sparse(table.X, estimator=clone(estimator), reset=True, name="X")
    columns, size = EntriesTable(entries).size(params, (), table.device, n_trees)
    size = replace(size, weighted=table.weighted)
    if table.n_workers is None:
        return size
    own = entries if columns is None else entries.columns(columns)
    return _of_a_worker(size, own, table.n_workers)


def _of_a_worker(size: DataSize, table: SparseTable, n_workers: int) -> DataSize:
    """Return what a worker has of a sparse table: the most rows, and the most entries, of any."""
    n_all, n_features = table.shape
    ranges = ranges_of([n_all], n_workers)
    n_own = max(end - begin for begin, end in ranges)
    bins = n_own * code_bytes(n_features)
    if size.n_places is not None:
        before = np.cumsum([0, *np.bincount(table.entries.indices, minlength=n_all)])
        bins = ENTRY_BYTES * max(int(before[end] - before[begin]) for begin, end in ranges)
    return replace(size, shape=(n_own, n_features), n_all=n_all, bins=bins)
