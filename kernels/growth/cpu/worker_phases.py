"""The compiled phases of growth on shared rows, between which Python calls the collective.

Every worker has the same nodes in two tables: those of ``frontier`` have the places of their rows
among the records of all workers, those of ``own`` among the records of this worker. The control of
growth sees the first alone, and so decides alike everywhere; what touches rows sees the second.

    frontier   |------- A --------|----- B -----|      records of all workers
    own        |-- A --|-- B --|                       records of this worker, either may be empty

The tables have everything else in common, from the pairs to the set of histograms.

The histograms of a node's children are added up before it is known how many rows of all workers
each has, so that one message has both. The children have no numbers yet: a third table,
``children``, has those of expansion k at 2 k and 2 k + 1, and as pairs the lines of the message.
A line is of the child with the smaller hessian, as in ``cpu.passes``; where the parent keeps no
histogram, of both. If a child then has fewer than ``min_samples_leaf`` rows, the node stays closed
and its lines are not read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.compilation import inner, kernel_without_allocation
from ...runtime.cpu.team import atomic_add, wait
from ...runtime.dtypes import MISSING, N_SLOTS
from .. import control
from .. import frontier as fr
from ..limits import smallest_h
from .grow import histograms, partition, plan_histograms, plan_partition, scatter_leaves
from .histogram import STRIDE, add_rows, add_used, clear_used, pack_planes
from .levels.dense import find_levels, settle
from .passes import put_summed_first
from .search import evaluate, recheck_known
from .tables import EVALUATE, LEAVES, RECHECK

u64, i64 = np.uint64, np.int64


class Sums(NamedTuple):
    """The histograms and numbers of rows that workers add up in a round.

    begin : int64, (bytes + 1,)
        Where the entries of each byte of the layout begin in a line.
    message : int64
        The used entries of histograms, a line each, and behind the lines of a round the rows that
        go left, by expansion.
    lines : int64, (lines, entries)
        The same memory.
    line_of : int64, (nodes,)
        The line with the histogram of a node, or -1.
    """

    begin: np.ndarray
    message: np.ndarray
    lines: np.ndarray
    line_of: np.ndarray


@inner
def _begin_of_counts(sums, children):
    """Return where the message has the rows that go left."""
    return children.state[fr.N_PAIRS] * sums.lines.shape[1]


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
        # Rows of this worker alone: either child may have none here.
        middle = parent.begin + expansion.n_left
        for child in range(left, left + 2):
            node = own.nodes[child]
            node.tree = parent.tree
            node.depth = parent.depth + 1
            node.begin = parent.begin if child == left else middle
            node.end = middle if child == left else parent.end


@inner
def _start(frontier, own, params, own_begin):
    """Plant the roots."""
    control.start(frontier, params)
    _place_roots(frontier, own, own_begin)


@inner
def _turn_into_parents(frontier, own, params, n_left):
    """Turn the partitioned nodes into parents: ``n_left`` rows of all workers went left. This
    worker's rows are divided among the new nodes."""
    for k in range(frontier.state[fr.N_EXPAND]):
        frontier.expand[k].n_left = n_left[k]
    control.commit(frontier, params)
    _place_children(frontier, own)


@inner
def begin_round(frontier, own, params, n_left, own_begin, is_first):
    """Plant the roots in the first round, and turn the partitioned nodes into parents in later
    ones. The caller then builds the histograms."""
    if is_first:
        _start(frontier, own, params, own_begin)
    else:
        _turn_into_parents(frontier, own, params, n_left)


@inner
def _copy_used(slots, begin, first, last, histogram, line, is_back):
    """Copy the used entries of some bytes to a line of a message, or back."""
    # Messages leave out the entries that no row can have.
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
def _build(thread, n_threads, barrier, table, children, params, work, sums):
    """Add up the rows of the children that have lines, and write the lines."""
    if thread == 0:
        plan_histograms(table, children, params, work, n_threads)
    wait(barrier, n_threads)  # the pieces are cut
    histograms(table, children, work)
    wait(barrier, n_threads)  # all are added up
    _collect(table, children, work, sums)


@inner
def _collect(table, children, work, sums):
    """Add up the pieces of the built histograms, and copy them to the message."""
    slots = table.layout.column_slots
    n_words = work.best.shape[1]
    while True:
        task = atomic_add(work.counts, EVALUATE, 1)
        if task >= children.state[fr.N_PAIRS] * n_words:
            break
        p = task // n_words
        first = 8 * (task - p * n_words)
        last = min(first + 8, slots.size)
        node = children.nodes[children.pairs[p].build]
        built = work.histograms[node.slot]
        if node.begin == node.end:  # no piece has cleared it
            clear_used(slots, first, last, built, built)
        for q in range(work.partial_range[p, 0], work.partial_range[p, 1]):
            add_used(slots, first, last, built, work.partials[q])
        _copy_used(slots, sums.begin, first, last, built, sums.lines[p], False)


@kernel_without_allocation
def plant(
    thread, n_threads, barrier, table, frontier, own, children, params, work, sums, own_begin
):
    """Plant the roots, and build the histograms of those whose splits are sought."""
    if thread == 0:
        _start(frontier, own, params, own_begin)
        children.state[fr.N_PAIRS] = 0
        for p in range(frontier.state[fr.N_PAIRS]):
            x = frontier.pairs[p].build
            root = own.nodes[x]
            _add_line(children, x, root.depth, root.begin, root.end, frontier.nodes[x].slot)
            sums.line_of[x] = p
    _build(thread, n_threads, barrier, table, children, params, work, sums)


@inner
def _add_line(children, x, depth, begin, end, slot):
    """Add a line with the histogram of some records, which is built in a slot."""
    p = children.state[fr.N_PAIRS]
    node = children.nodes[x]
    node.depth = depth
    node.begin = begin
    node.end = end
    node.slot = slot
    children.pairs[p].build = x
    children.pairs[p].sibling = -1
    children.state[fr.N_PAIRS] = p + 1


@inner
def _add_lines(frontier, own, children, params):
    """Add the lines of the children of the partitioned nodes. They are built in free slots, of
    which ``control`` has left enough for the children of all nodes that it opens."""
    children.state[fr.N_PAIRS] = 0
    free = frontier.state[fr.N_FREE_SLOTS]
    for k in range(frontier.state[fr.N_EXPAND]):
        x = frontier.expand[k].node
        node, rows = frontier.nodes[x], own.nodes[x]
        for side in range(2):
            if _has_line(frontier, params, k, side):
                free -= 1
                middle = rows.begin + own.expand[k].n_left
                begin = rows.begin if side == 0 else middle
                end = middle if side == 0 else rows.end
                slot = frontier.free_slots[free]
                _add_line(children, 2 * k + side, node.depth + 1, begin, end, slot)


@inner
def _has_line(frontier, params, k, side):
    """Return whether the histogram of a child of expansion k is added up: the left one is side 0.
    It may be in vain, since the rows of the child are not known."""
    x = frontier.expand[k].node
    node = frontier.nodes[x]
    right_h = node.h - node.left_h
    least = 2 * smallest_h(frontier, params, node.tree)
    # As ``control.commit`` decides, but by hessians: the numbers of rows are on their way.
    if frontier.expand[k].closes == 1 or node.depth + 1 >= params.max_depth:
        return False
    if node.slot >= 0:
        is_smaller = (node.left_h <= right_h) == (side == 0)
        return is_smaller and max(node.left_h, right_h) >= least
    return (node.left_h if side == 0 else right_h) >= least


@kernel_without_allocation
def commit(thread, n_threads, barrier, frontier, own, children, params, sums):
    """Turn the partitioned nodes into parents, and note the lines of their children. One thread
    does this."""
    n_left = sums.message[_begin_of_counts(sums, children) :]
    _turn_into_parents(frontier, own, params, n_left)
    # The children have numbers now, by which the search asks for lines.
    for x in range(frontier.state[fr.N_NODES]):
        sums.line_of[x] = -1
    for p in range(children.state[fr.N_PAIRS]):
        of_expansion = children.pairs[p].build
        left = frontier.nodes[frontier.expand[of_expansion >> 1].node].child
        if left >= 0:
            sums.line_of[left + (of_expansion & 1)] = p
    put_summed_first(frontier, sums.line_of)


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
    if params.is_symmetric == 1:
        find_levels(thread, n_threads, barrier, table, frontier, params, work)
    else:
        evaluate(thread, n_threads, table, frontier, params, work)
        recheck_known(thread, table, frontier, params, work, known)
    wait(barrier, n_threads)  # all splits are known
    if thread == 0:
        settle(table, frontier, params, work)
        control.choose(frontier, params, i64(control.HALF))
        route(frontier, own)


@kernel_without_allocation
def open_nodes(
    thread, n_threads, barrier, table, frontier, own, children, params, work, sums, packed, counts
):
    """Find the splits of the new nodes in the sums of all workers, choose the nodes to expand,
    partition this worker's rows of them, and build the histograms of their children."""
    slots = table.layout.column_slots
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        x = frontier.pairs[p].build
        # The sums of all workers take the place of this worker's own.
        built = work.histograms[frontier.nodes[x].slot]
        line = sums.lines[sums.line_of[x]]
        _copy_used(slots, sums.begin, 0, slots.size, built, line, True)
        work.partial_range[p, 0] = work.partial_range[p, 1] = 0
    if thread == 0:
        work.counts[EVALUATE] = 0
    wait(barrier, n_threads)  # the histograms are those of all workers
    find_splits(
        thread, n_threads, barrier, table, frontier, own, params, work, (packed, counts)
    )  # fmt: skip
    if thread == 0:
        plan_partition(own, work, n_threads)
    wait(barrier, n_threads)  # the tasks of the partition are there
    partition(thread, n_threads, barrier, table, own, work)
    wait(barrier, n_threads)  # the rows have moved
    if thread == 0:
        for k in range(frontier.state[fr.N_EXPAND]):
            own.expand[k].n_left = work.n_left[k]
        _add_lines(frontier, own, children, params)
        begin = _begin_of_counts(sums, children)
        for k in range(frontier.state[fr.N_EXPAND]):
            sums.message[begin + k] = work.n_left[k]
    _build(thread, n_threads, barrier, table, children, params, work, sums)


@kernel_without_allocation
def open_summed_nodes(
    thread, n_threads, barrier, table, frontier, own, params, work, built, rebuilt, packed, counts
):  # fmt: skip
    """Do the same, but for the partition, for rows on a GPU: the histograms of all workers' rows
    pass through the host.

    ``built`` are the histograms of the pairs' first nodes, ``rebuilt`` those of the nodes to
    recheck, or empty; both over the rows of all workers, and int32 of shape (n, 2, n_features,
    256). ``packed`` has room for the latter, ``counts`` are the numbers of rows of these nodes.
    """
    slots = table.layout.column_slots
    for p in range(thread, frontier.state[fr.N_PAIRS], n_threads):
        slot = frontier.nodes[frontier.pairs[p].build].slot
        pack_planes(slots, built[p], work.histograms[slot])
        work.partial_range[p, 0] = work.partial_range[p, 1] = 0
    for k in range(thread, rebuilt.shape[0], n_threads):
        pack_planes(slots, rebuilt[k], packed[k])
    if thread == 0:
        work.counts[EVALUATE] = work.counts[RECHECK] = 0
    wait(barrier, n_threads)  # the histograms are those of all workers
    find_splits(
        thread, n_threads, barrier, table, frontier, own, params, work, (packed, counts)
    )  # fmt: skip


@inner
def number_leaves(frontier, own, params, order, tree_offset):
    """Number the nodes of the final trees, and their leaves in both tables."""
    control.finish(frontier, params, order, tree_offset)
    for x in range(frontier.state[fr.N_NODES]):
        own.nodes[x].child = frontier.nodes[x].child
        own.nodes[x].leaf = frontier.nodes[x].leaf


@kernel_without_allocation
def finish(
    thread, n_threads, barrier, table, frontier, own, children, params, work, order, tree_offset,
    leaf,
):  # fmt: skip
    """Number the nodes of the final trees and write the leaf of every row of this worker."""
    if thread == 0:
        number_leaves(frontier, own, params, order, tree_offset)
        work.counts[LEAVES] = 0
    wait(barrier, n_threads)  # the leaves have their numbers
    scatter_leaves(table, own, work, leaf)
