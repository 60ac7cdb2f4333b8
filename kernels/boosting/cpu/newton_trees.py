"""A round of Newton boosting in one call (contract: ``kernels.boosting.newton_trees``).

The parts are those of the operations that it is made of, with a barrier after each:

    records     all         integers of the rows' gradients
    growth      all         see ``grow``
    sums        all         of the leaves; thread 0 lists the nodes of the trees first
    steps       by tree     values of the nodes
    update      all         raw predictions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...growth.control import emit
from ...growth.cpu.by_phases import grow_in
from ...growth.cpu.grow import frontier_of, grow_together, threads_of, workspace_of
from ...growth.cpu.tables import Table, Work
from ...growth.frontier import Frontier
from ...growth.grow import GrownTrees
from ...growth.params import NO_RULES, FeatureRules, GrowthParams
from ...growth.sparse_codes import SparseCodes
from ...growth.streamed_codes import StreamedCodes
from ...leaves.cpu.newton_steps import BLOCK, add_share, add_threads
from ...leaves.newton_steps import take_steps
from ...runtime.arrays import derived
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import atomic_add, run, wait
from ...runtime.dtypes import CODE_WORDS, Codes, NodeValues, Totals, TreeRecords
from ...scalars.rng import draw
from ...statistics.cpu.add_leaf_values import add_values
from ...statistics.cpu.quantise import fill, quantise_all
from ...statistics.quantise import fixed_point_scales, scales_for
from ..newton_trees import Draws, NewtonTrees
from ..reference import newton_trees as reference

u64 = np.uint64


class TreeStatistics(NamedTuple):
    """The statistics of the rows, a line for each tree; records and sums of these are written.

    g, h : float32; raw : float64; leaf : int32, all of shape (n_trees, n_rows)
    scales, fixed : float64, shape (n_trees, 2)
        Of ``quantise`` and of ``leaf_sums``.
    records : uint64, shape (n_trees * n_rows,)
    sums : int64, shape (n_trees, 2)
    """

    g: np.ndarray
    h: np.ndarray
    raw: np.ndarray
    leaf: np.ndarray
    scales: np.ndarray
    fixed: np.ndarray
    records: np.ndarray
    sums: np.ndarray


class FinishedNodes(NamedTuple):
    """Room for the nodes of the finished trees, see ``GrownTrees`` and ``NodeValues``.

    order : int64
        Their entries in the frontier.
    added : float64
        What they add to raw predictions.
    leaf_sums : int64, shape (n_threads, capacity, 2)
    scratch : int64, shape (n_threads, 2, BLOCK)
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
    order: np.ndarray
    value: np.ndarray
    hessian: np.ndarray
    added: np.ndarray
    leaf_sums: np.ndarray
    scratch: np.ndarray


class NewtonRound(NamedTuple):
    """Numbers of a round, see ``add_newton_trees``."""

    rounding: int
    tree: int
    first: int
    factor: float
    largest: float


@inner
def _make_records(thread, n_threads, rows, how):
    n_trees, n = rows.g.shape
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    for t in range(n_trees):
        # The key depends on the tree's number alone, as in ``quantise``: the bits are the same.
        key = draw(u64(how.rounding), u64(how.first + t))
        scale_g, scale_h = rows.scales[t, 0], rows.scales[t, 1]
        records = rows.records[t * n : (t + 1) * n]
        sum_g, sum_h = quantise_all(
            rows.g[t], rows.h[t], begin, end, u64(0), key, scale_g, scale_h, records
        )
        # Integers: the order of the threads does not matter.
        atomic_add(rows.sums[t], 0, sum_g)
        atomic_add(rows.sums[t], 1, sum_h)


@inner
def _plant(rows, frontier, how):
    """Fill in the statistics and keys of the trees, and clear the sums for the next round."""
    for t in range(frontier.trees.size):
        tree = frontier.trees[t]
        tree.g, tree.h = rows.sums[t, 0], rows.sums[t, 1]
        tree.scale_g, tree.scale_h = rows.scales[t, 0], rows.scales[t, 1]
        tree.key = draw(u64(how.tree), u64(how.first + t))
        rows.sums[t, 0] = rows.sums[t, 1] = 0


@inner
def _list_nodes(frontier, nodes):
    """Write the nodes of the trees."""
    for i in range(nodes.offset[-1] if nodes.left_codes.size > 0 else 0):
        for word in range(CODE_WORDS):
            nodes.left_codes[i, word] = 0
    sets = frontier.left_codes
    emit(
        frontier.nodes, sets, nodes.order, nodes.offset,
        nodes.feature, nodes.bin, nodes.missing_left, nodes.left, nodes.right,
        nodes.gain, nodes.n_samples, nodes.left_codes,
    )  # fmt: skip


@inner
def _add_leaves(thread, n_threads, rows, nodes, how):
    """Add up the statistics of a thread's rows by leaf."""
    own = nodes.leaf_sums[thread]
    for i in range(nodes.offset[-1]):
        own[i, 0] = own[i, 1] = 0
    for t in range(rows.g.shape[0]):
        sums = own[nodes.offset[t] : nodes.offset[t + 1]]
        add_share(
            thread, n_threads, rows.leaf[t], rows.g[t], rows.h[t],
            rows.fixed[t, 0], rows.fixed[t, 1], nodes.scratch[thread], sums,
        )  # fmt: skip


@inner
def _take_steps(thread, n_threads, rows, params, nodes, how):
    for t in range(thread, rows.g.shape[0], n_threads):
        begin, end = nodes.offset[t], nodes.offset[t + 1]
        sums = nodes.leaf_sums[:, begin:end]
        add_threads(sums)
        limits = rows.fixed[t, 0], rows.fixed[t, 1], params.l2, params.min_sum_hessian, how.largest
        take_steps(
            nodes.left[begin:end], nodes.right[begin:end], sums[0], limits,
            nodes.value[begin:end], nodes.hessian[begin:end],
        )  # fmt: skip
        for i in range(begin, end):
            # Shrunken once a node, not once a row.
            nodes.added[i] = how.factor * nodes.value[i]


@inner
def _update(thread, n_threads, rows, nodes):
    n_trees, n = rows.raw.shape
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    for t in range(n_trees):
        added = nodes.added[nodes.offset[t] : nodes.offset[t + 1]]
        add_values(rows.raw[t], rows.leaf[t], added, begin, end)


@kernel_without_allocation
def _round_worker(thread, n_threads, barrier, table, frontier, params, work, rows, nodes, how):
    _make_records(thread, n_threads, rows, how)
    # All rows have been added to the trees' sums, which the roots start from.
    wait(barrier, n_threads)
    if thread == 0:
        _plant(rows, frontier, how)
    # ``grow_together`` begins with a barrier of its own, behind which the roots are there.
    grow_together(
        thread, n_threads, barrier, table, frontier, params, work,
        nodes.order, nodes.offset, rows.leaf,
    )  # fmt: skip
    if thread == 0:
        _list_nodes(frontier, nodes)
    # Thread 0 lists nodes meanwhile; the others need ``offset`` alone, which growth has filled in.
    _add_leaves(thread, n_threads, rows, nodes, how)
    wait(barrier, n_threads)
    # Behind the barrier the sums of all threads are there; trees are shared out.
    _take_steps(thread, n_threads, rows, params, nodes, how)
    wait(barrier, n_threads)
    # Behind the barrier all values are there; rows are shared out.
    _update(thread, n_threads, rows, nodes)


class _Tables(NamedTuple):
    """Tables that are kept from round to round."""

    n_threads: int
    table: Table
    frontier: Frontier
    work: Work
    leaf: np.ndarray
    records: np.ndarray
    sums: np.ndarray
    nodes: FinishedNodes
    numbers: tuple[np.ndarray, ...]


def add_newton_trees(
    codes: Codes | SparseCodes | StreamedCodes,
    n_bins: np.ndarray,
    g: np.ndarray,
    h: np.ndarray,
    totals: Sequence[Totals],
    raw: np.ndarray,
    draws: Draws,
    factor: float,
    largest: float,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
    workers: Workers = ONE_WORKER,
) -> NewtonTrees:
    if not isinstance(codes, Codes) or workers is not ONE_WORKER:
        add = _add_trees_of_workers if isinstance(codes, Codes) else reference.add_newton_trees
        return add(codes, n_bins, g, h, totals, raw, draws, factor, largest, params, rules, workers)
    kept = _tables(codes, n_bins, g.shape, params, rules)
    n = g.shape[1]
    scales = [[find(own, n) for own in totals] for find in (scales_for, fixed_point_scales)]
    rows = TreeStatistics(g, h, raw, kept.leaf, *np.array(scales), kept.records, kept.sums)
    how = NewtonRound(*draws, float(factor), float(largest))
    run(
        _round_worker, kept.n_threads,
        kept.table, kept.frontier, params, kept.work, rows, kept.nodes, how,
    )  # fmt: skip
    return _results(kept)


def _add_trees_of_workers(
    codes: Codes, n_bins: np.ndarray, g: np.ndarray, *others: Any
) -> NewtonTrees:
    """Compose the round of the operations that it is made of, which meet the other workers."""
    # Records and leaves have the same memory in all rounds. Dask has its workers return memory to
    # the system at once, and the first writing to new memory would take 3 of 45 ms a tree of 1M
    # rows.
    kept = derived(codes.rows, "newton trees of workers", dict)
    if kept.get("shape") != g.shape:
        kept.clear()
        kept["shape"] = g.shape
        kept["words"], kept["leaf"] = np.empty(g.shape, np.uint64), np.empty(g.shape, np.int32)

    def records_for(codes: Codes, g: np.ndarray, *how: Any) -> TreeRecords:
        *rounding, scales, workers = how
        records = TreeRecords(kept["words"], np.zeros((len(g), 2), np.int64), scales)
        fill(workers.first, g, *rounding, records)
        workers.collective.add(records.sums)
        return records

    composed: Callable[..., NewtonTrees] = reference.add_newton_trees
    grow = partial(grow_in, kept["leaf"])
    return composed(codes, n_bins, g, *others, records_for=records_for, grow=grow)


def _tables(
    codes: Codes, n_bins: np.ndarray, shape: tuple[int, ...], params: GrowthParams,
    rules: FeatureRules,
) -> _Tables:  # fmt: skip
    """Return the tables of a round, kept as long as nothing but the statistics changes. A smaller
    batch, as the last one of a round, gets a part of them."""
    kept = derived(codes.rows, "newton trees", dict)
    n_trees, n = shape
    # Rules are compared by identity: a round that follows another one has the same object.
    if kept.get("what") == (params, n) and kept["rules"] is rules:
        tables: _Tables = kept["tables"]
        most = len(tables.leaf)
        if n_trees <= most and tables.n_threads == threads_of(codes, most * n):
            return tables if n_trees == most else _first(tables, n_trees)
    n_threads = threads_of(codes, n_trees * n)
    frontier = frontier_of(codes, n_trees, n, params, n_bins, rules)
    records = np.empty(n_trees * n, u64)
    table, work = workspace_of(codes, n_bins, records, frontier, n_threads, params.is_symmetric)
    nodes, numbers = _room(frontier.nodes.size, n_trees, n_threads, len(frontier.left_codes))
    leaf, sums = np.empty(shape, np.int32), np.zeros((n_trees, 2), np.int64)
    tables = _Tables(n_threads, table, frontier, work, leaf, records, sums, nodes, numbers)
    kept.update(what=(params, n), rules=rules, tables=tables)
    return tables


def _first(tables: _Tables, n_trees: int) -> _Tables:
    """Return the tables of the first trees of a batch."""
    columns, own, (records, spare), few_rows = tables.table
    n_records = n_trees * tables.leaf.shape[1]
    records = records[:n_records]
    return tables._replace(
        table=Table(columns, own, (records, spare[:n_records]), few_rows),
        frontier=tables.frontier._replace(trees=tables.frontier.trees[:n_trees]),
        leaf=tables.leaf[:n_trees],
        records=records,
        sums=tables.sums[:n_trees],
        nodes=tables.nodes._replace(offset=tables.nodes.offset[: n_trees + 1]),
    )


def _room(
    capacity: int, n_trees: int, n_threads: int, n_sets: int
) -> tuple[FinishedNodes, tuple[np.ndarray, ...]]:
    """Return room for nodes, and the tables that what is copied in every round are the lines of:
    a copy of one costs less than one of each line."""
    integers, reals = np.empty((5, capacity), np.int32), np.empty((3, capacity))
    missing_left = np.empty(capacity, np.uint8)
    left_codes = np.empty((n_sets, CODE_WORDS), np.uint32)
    feature, bin_, left, right, n_samples = integers
    gain, value, hessian = reals
    nodes = FinishedNodes(
        offset=np.empty(n_trees + 1, np.int64),
        feature=feature,
        bin=bin_,
        missing_left=missing_left,
        left=left,
        right=right,
        gain=gain,
        n_samples=n_samples,
        left_codes=left_codes,
        order=np.empty(capacity, np.int64),
        value=value,
        hessian=hessian,
        added=np.empty(capacity),
        leaf_sums=np.empty((n_threads, capacity, 2), np.int64),
        scratch=np.empty((n_threads, 2, BLOCK), np.int64),
    )
    return nodes, (integers, reals)


def _results(kept: _Tables) -> NewtonTrees:
    """Return copies of what was found: the tables are written again in the next round."""
    nodes = kept.nodes
    ends = nodes.offset.tolist()
    n = ends[-1]
    integers, reals = kept.numbers
    feature, bin_, left, right, n_samples = integers[:, :n].copy()
    gain, value, hessian = reals[:, :n].copy()
    missing_left, left_codes = nodes.missing_left[:n].copy(), nodes.left_codes[:n].copy()
    trees = GrownTrees(
        nodes.offset.copy(), feature, bin_, missing_left, left, right, gain, n_samples, left_codes,
        kept.leaf,
    )  # fmt: skip
    if len(ends) == 2:
        return NewtonTrees(trees, [NodeValues(value, hessian)])
    pairs = zip(ends[:-1], ends[1:], strict=True)
    return NewtonTrees(trees, [NodeValues(value[a:b], hessian[a:b]) for a, b in pairs])
