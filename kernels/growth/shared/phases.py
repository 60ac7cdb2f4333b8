"""The compiled phases of growth on shared rows, between which Python calls the collective.

Every worker has the same nodes in two tables: those of ``frontier`` have the places of their rows
among the records of all workers, those of ``own`` among the records of this worker. The control of
growth sees the first alone, and so decides alike everywhere; what touches rows sees the second.

    frontier   |------- A --------|----- B -----|      records of all workers
    own        |-- A --|-- B --|                       records of this worker, either may be empty

The tables have everything else in common, from the pairs to the set of histograms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import atomic_add, wait
from ...runtime.dtypes import MISSING, N_SLOTS
from .. import control
from .. import frontier as fr
from ..cpu.grow import histograms, partition, plan_histograms, plan_partition, scatter_leaves
from ..cpu.histogram import STRIDE, add_rows, add_used, clear_used
from ..cpu.search import evaluate, recheck_known, settle_nodes
from ..cpu.tables import EVALUATE, LEAVES

u64, i64 = np.uint64, np.int64


class Sums(NamedTuple):
    """What workers add up.

    begin : int64, (bytes + 1,)
        Where the entries of each byte of the layout begin in a line of ``pairs``.
    pairs : int64, (pairs, entries)
        The used entries of the histograms that are built in a round.
    n_left : int64, (expansions,)
        Rows that go left.
    """

    begin: np.ndarray
    pairs: np.ndarray
    n_left: np.ndarray


@inner
def _place_roots(frontier, own, own_begin):
    for t in range(frontier.trees.size):
        node = own.nodes[t]
        node.tree = t
        node.depth = 0
        node.begin = own_begin[t]
        node.end = own_begin[t + 1]


@inner
def _place_children(frontier, own):
    """Divide the rows of the nodes that were expanded among their children."""
    for k in range(frontier.state[fr.N_EXPAND]):
        expansion = own.expand[k]
        x = expansion.node
        left = frontier.nodes[x].child
        if left < 0:  # it is rechecked
            continue
        parent = own.nodes[x]
        middle = parent.begin + expansion.n_left
        for child in range(left, left + 2):
            node = own.nodes[child]
            node.tree = parent.tree
            node.depth = parent.depth + 1
            node.begin = parent.begin if child == left else middle
            node.end = middle if child == left else parent.end


@inner
def begin_round(frontier, own, params, n_left, own_begin, is_first):
    """Plant the roots, or turn the partitioned nodes into parents: ``n_left`` rows of all workers
    went left. This worker's rows are divided among the new nodes."""
    if is_first:
        control.start(frontier, params)
        _place_roots(frontier, own, own_begin)
        return
    for k in range(frontier.state[fr.N_EXPAND]):
        frontier.expand[k].n_left = n_left[k]
    control.commit(frontier, params)
    _place_children(frontier, own)


@inner
def _copy_used(slots, begin, first, last, histogram, line, is_back):
    """Copy the used entries of some bytes to a line of ``Sums.pairs``, or back."""
    for column in range(first, last):
        o, at = column * STRIDE, begin[column]
        n = slots[column]
        for i in range(n):
            if is_back:
                histogram[o + i] = line[at + i]
            else:
                line[at + i] = histogram[o + i]
        if n < N_SLOTS:
            if is_back:
                histogram[o + MISSING] = line[at + n]
            else:
                line[at + n] = histogram[o + MISSING]


@inner
def _collect(table, own, work, sums):
    """Add up the pieces of the built histograms, and copy them to the message."""
    slots = table.layout.column_slots
    n_words = work.best.shape[1]
    while True:
        task = atomic_add(work.counts, EVALUATE, 1)
        if task >= own.state[fr.N_PAIRS] * n_words:
            break
        p = task // n_words
        first = 8 * (task - p * n_words)
        last = min(first + 8, slots.size)
        node = own.nodes[own.pairs[p].build]
        built = work.histograms[node.slot]
        if node.begin == node.end:  # no piece has cleared it
            clear_used(slots, first, last, built, built)
        for q in range(work.partial_range[p, 0], work.partial_range[p, 1]):
            add_used(slots, first, last, built, work.partials[q])
        _copy_used(slots, sums.begin, first, last, built, sums.pairs[p], False)


@kernel_without_allocation
def build(
    thread, n_threads, barrier, table, frontier, own, params, work, sums, own_begin, is_first
):  # fmt: skip
    """Turn the partitioned nodes into parents and build the histograms of the new pairs."""
    if thread == 0:
        begin_round(frontier, own, params, sums.n_left, own_begin, is_first)
        for p in range(frontier.state[fr.N_PAIRS]):
            x = frontier.pairs[p].build
            own.nodes[x].slot = frontier.nodes[x].slot
        plan_histograms(table, own, params, work, n_threads)
    wait(barrier, n_threads)
    histograms(table, own, work)
    wait(barrier, n_threads)
    _collect(table, own, work, sums)


@kernel_without_allocation
def count_rechecked(thread, n_threads, barrier, table, frontier, own, packed, counts):
    """Fill in what the recheck of nodes needs of all workers: histograms that are not kept, packed,
    and counts of rows by node, feature and code. Both hold zeros before."""
    n_columns = table.layout.column_begin.size - 1
    for k in range(thread, frontier.state[fr.N_RECHECK], n_threads):
        x = frontier.recheck[k]
        node = own.nodes[x]
        records = table.records[node.depth & 1]
        if frontier.nodes[x].slot < 0:
            add_rows(table.layout.words, n_columns, records, node.begin, node.end, packed[k])
        for f in range(counts.shape[1]):
            column = table.columns[f]
            for i in range(node.begin, node.end):
                counts[k, f, column[records[i] & u64(0xFFFFFFFF)]] += 1


@inner
def route(frontier, own):
    """Copy the nodes to expand, with their splits, to the table of this worker's rows."""
    for k in range(frontier.state[fr.N_EXPAND]):
        x = frontier.expand[k].node
        own.expand[k].node = x
        node, target = frontier.nodes[x], own.nodes[x]
        target.feature = node.feature
        target.bin = node.bin
        target.missing_left = node.missing_left


@inner
def find_splits(thread, n_threads, barrier, table, frontier, own, params, work, known):
    """Find the best splits of the new nodes and of those to recheck, and choose the nodes to
    expand. ``known`` are the histograms and counts of rows of ``count_rechecked``."""
    evaluate(thread, n_threads, table, frontier, params, work)
    recheck_known(thread, table, frontier, params, work, known)
    wait(barrier, n_threads)
    if thread == 0:
        settle_nodes(frontier, params, work)
        control.choose(frontier, params)
        route(frontier, own)


@kernel_without_allocation
def open_nodes(
    thread, n_threads, barrier, table, frontier, own, params, work, sums, packed, counts
):
    """Find the splits of the new nodes in the sums of all workers, choose the nodes to expand, and
    partition this worker's rows of them."""
    slots = table.layout.column_slots
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        built = work.histograms[frontier.nodes[frontier.pairs[p].build].slot]
        _copy_used(slots, sums.begin, 0, slots.size, built, sums.pairs[p], True)
        work.partial_range[p, 0] = work.partial_range[p, 1] = 0
    if thread == 0:
        work.counts[EVALUATE] = 0
    wait(barrier, n_threads)
    find_splits(
        thread, n_threads, barrier, table, frontier, own, params, work, (packed, counts)
    )  # fmt: skip
    if thread == 0:
        plan_partition(own, work, n_threads)
    wait(barrier, n_threads)
    partition(thread, n_threads, barrier, table, own, work)
    wait(barrier, n_threads)
    if thread == 0:
        for k in range(frontier.state[fr.N_EXPAND]):
            sums.n_left[k] = own.expand[k].n_left = work.n_left[k]


@inner
def number_leaves(frontier, own, params, order, tree_offset):
    """Number the nodes of the final trees, and their leaves in both tables."""
    control.finish(frontier, params, order, tree_offset)
    for x in range(frontier.state[fr.N_NODES]):
        own.nodes[x].child = frontier.nodes[x].child
        own.nodes[x].leaf = frontier.nodes[x].leaf


@kernel_without_allocation
def finish(
    thread, n_threads, barrier, table, frontier, own, params, work, order, tree_offset, leaf
):
    """Number the nodes of the final trees and write the leaf of every row of this worker."""
    if thread == 0:
        number_leaves(frontier, own, params, order, tree_offset)
        work.counts[LEAVES] = 0
    wait(barrier, n_threads)
    scatter_leaves(table, own, work, leaf)
