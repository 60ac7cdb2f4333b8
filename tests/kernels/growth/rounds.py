"""A batch of trees that grows phase by phase, by the kernels that train, with copies of the tables
between the phases: what each kernel was given, and what it has made of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpuens.kernels.growth import control
from gpuens.kernels.growth import frontier as fr
from gpuens.kernels.growth.cpu import grow as cpu
from gpuens.kernels.growth.cpu.histogram import STRIDE, expand
from gpuens.kernels.growth.cpu.search import (
    evaluate,
    has_few_rows,
    is_taken_from_sibling,
    needs_histograms,
    recheck,
    settle_nodes,
)
from gpuens.kernels.growth.frontier import Frontier
from gpuens.kernels.growth.params import NO_RULES, UNLIMITED, FeatureRules, GrowthParams
from gpuens.kernels.runtime.compilation import callable_from_python
from gpuens.kernels.runtime.cpu.team import run, threads_for, wait
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.runtime.dtypes import MISSING, N_SLOTS, NO_LEAF, Scales
from tests.kernels.growth.compiled import kernel_around

start = callable_from_python(control.start)
choose = callable_from_python(control.choose)
commit = callable_from_python(control.commit)
finish = callable_from_python(control.finish)


@dataclass(frozen=True)
class Batch:
    """What trees grow on: codes, uint8 of shape (n_features, n_rows), and the records of each tree,
    uint64 of shape (n_trees, n_records).

    Where ``kept_histograms`` is given, growth keeps no more; ``counted_rows`` is ``LEAST_COUNTED``.
    With ``few_rows`` the CPU searches small nodes without a histogram, as it does in training.
    """

    columns: np.ndarray
    n_bins: np.ndarray
    words: np.ndarray
    scales: list[Scales]
    params: GrowthParams
    rules: FeatureRules = NO_RULES
    kept_histograms: int | None = None
    counted_rows: int | None = None
    few_rows: bool = True

    def sums(self) -> np.ndarray:
        signed = self.words.astype(np.int64)
        return np.stack([(signed >> 48).sum(axis=1), ((signed >> 32) & 0xFFFF).sum(axis=1)], axis=1)

    def frontier(self) -> Frontier:
        n_trees, n_records = self.words.shape
        with pytest.MonkeyPatch.context() as patch:
            if self.kept_histograms is not None:
                kept = self.kept_histograms * self.n_bins.size * N_SLOTS * 8
                patch.setattr(fr, "HISTOGRAM_BYTES", kept)
            keys = np.arange(1, n_trees + 1, dtype=np.uint64)
            frontier = fr.allocate(
                [n_records] * n_trees, keys, self.params, self.n_bins, self.rules
            )
        fr.set_statistics(frontier, self.sums(), self.scales)
        return frontier


class Moment(NamedTuple):
    """The tables and both buffers of records between two phases.

    ``waiting`` is 1 where a GPU knows that nodes with a split wait for another round.
    """

    frontier: Frontier
    buffers: tuple[np.ndarray, np.ndarray]
    waiting: int = 0

    def rows_of(self, x: int) -> np.ndarray:
        """The records of a node."""
        node = self.frontier.nodes[x]
        return self.buffers[node["depth"] & 1][node["begin"] : node["end"]]

    def records(self) -> np.ndarray:
        """The records of all nodes without children, in one buffer."""
        found = np.zeros_like(self.buffers[0])
        for x in range(self.frontier.state[fr.N_NODES]):
            node = self.frontier.nodes[x]
            if node["child"] < 0:
                found[node["begin"] : node["end"]] = self.rows_of(x)
        return found

    def part(self, name: str) -> np.ndarray:
        """The entries in use of a table."""
        count = {
            "nodes": fr.N_NODES, "expand": fr.N_EXPAND, "pairs": fr.N_PAIRS,
            "recheck": fr.N_RECHECK, "free_slots": fr.N_FREE_SLOTS,
        }[name]  # fmt: skip
        return getattr(self.frontier, name)[: self.frontier.state[count]]

    def new(self) -> list[int]:
        """The nodes whose splits are to be found for the first time."""
        pairs = self.part("pairs")
        return [int(x) for x in (*pairs["build"], *pairs["sibling"]) if x >= 0]

    def tables(self) -> Frontier:
        """Copies for a function that changes them."""
        return copied(self.frontier)


class Round(NamedTuple):
    """A round: ``opened`` has the new nodes and those to recheck, ``searched`` their splits and the
    nodes to open, ``parted`` the rows of these moved to their sides.

    histograms : dict
        Those that the search has had, planes of g and h, by node.
    counted : set
        New nodes whose search has counted rows, so that their children have enough.
    """

    opened: Moment
    histograms: dict[int, np.ndarray]
    counted: set[int]
    searched: Moment
    parted: Moment


class Grown(NamedTuple):
    """All rounds of a batch; ``numbered`` has the leaves of the nodes, ``leaf`` those of the rows,
    int32 of shape (n_trees, n_rows)."""

    rounds: list[Round]
    numbered: Moment
    leaf: np.ndarray


def copied(frontier: Frontier) -> Frontier:
    return Frontier(*(table.copy() for table in frontier))


def grown_on(target: Any, batch: Batch) -> Grown:
    """Grow a batch by the kernels of an implementation (see ``tests/kernels/conftest.py``)."""
    if target.implementation is Implementation.CUDA:
        return _grown_on_cuda(target, batch)
    return _grown_on_cpu(target, batch)


HISTOGRAMS, SEARCH, PARTITION, LEAVES = range(4)


@kernel_around(cpu)
def _run_phase(thread, n_threads, barrier, phase, table, frontier, params, work, leaf):
    """A phase as in ``grow_together``, what thread 0 plans before it included."""
    if phase == HISTOGRAMS:
        if thread == 0:
            cpu.plan_histograms(table, frontier, params, work, n_threads)
        wait(barrier, n_threads)
        cpu.histograms(table, frontier, work)
    elif phase == SEARCH:
        evaluate(thread, n_threads, table, frontier, params, work)
        recheck(thread, table, frontier, params, work, ())
        wait(barrier, n_threads)
        if thread == 0:
            settle_nodes(frontier, params, work)
    elif phase == PARTITION:
        if thread == 0:
            cpu.plan_partition(frontier, work, n_threads)
        wait(barrier, n_threads)
        cpu.partition(thread, n_threads, barrier, table, frontier, work)
    else:
        cpu.scatter_leaves(table, frontier, work, leaf)


@kernel_around(cpu)
def _unpack(packed, features, total, out):
    """Read the histogram of a node as the search does; ``out`` are its planes."""
    for f in range(features.size):
        feature = features[f]
        o = feature.column * STRIDE
        bins = packed[o : o + N_SLOTS]
        if feature.stride != 0:
            expanded = np.zeros(N_SLOTS, np.int64)
            expand(bins, feature, total, expanded)
            bins = expanded
        for b in range(N_SLOTS):
            if b < feature.n_bins or b == MISSING:
                out[0, f, b] = bins[b] >> 32
                out[1, f, b] = bins[b] & 0xFFFFFFFF


_has_few_rows = callable_from_python(has_few_rows)
_needs_histograms = callable_from_python(needs_histograms)
_is_taken_from_sibling = callable_from_python(is_taken_from_sibling)


def _histograms_on_cpu(
    table: Any, frontier: Frontier, params: GrowthParams
) -> Iterator[tuple[int, int]]:
    """Yield the new nodes that have a histogram, and its slot."""
    for pair in frontier.pairs[: frontier.state[fr.N_PAIRS]]:
        if not _needs_histograms(table, frontier, params, pair):
            continue
        if not _is_taken_from_sibling(table, frontier, params, pair):
            yield int(pair["build"]), int(frontier.nodes["slot"][pair["build"]])
        if pair["sibling"] >= 0:
            yield int(pair["sibling"]), int(frontier.nodes["slot"][pair["sibling"]])


def _grown_on_cpu(target: Any, batch: Batch) -> Grown:
    codes, params, frontier = target.codes(batch.columns), batch.params, batch.frontier()
    words, n_threads = batch.words.reshape(-1).copy(), threads_for(100)
    table, work = cpu.workspace_of(codes, batch.n_bins, words, frontier, n_threads)
    leaf = np.full((len(batch.words), batch.columns.shape[1]), -1, np.int32)

    def moment() -> Moment:
        first, second = table.records
        return Moment(copied(frontier), (first.copy(), second.copy()))

    def phase(number: int) -> None:
        run(_run_phase, n_threads, number, table, frontier, params, work, leaf)

    table = table if batch.few_rows else table._replace(few_rows=0)
    work.counts[:] = 0
    start(frontier, params)
    rounds = []
    while True:
        opened = moment()
        built = list(_histograms_on_cpu(table, frontier, params))
        counted = {x for x in opened.new() if _has_few_rows(table, frontier, params, x)}
        phase(HISTOGRAMS)
        phase(SEARCH)  # which adds up the pieces of histograms, and subtracts
        histograms = {}
        for x, slot in built:
            total = (frontier.nodes["g"][x] << 32) + frontier.nodes["h"][x]
            planes = np.zeros((2, batch.n_bins.size, N_SLOTS), np.int32)
            _unpack(work.histograms[slot], table.layout.features, total, planes)
            histograms[x] = planes
        choose(frontier, params, np.int64(control.QUARTER))
        searched = moment()
        phase(PARTITION)
        expand_ = frontier.expand[: frontier.state[fr.N_EXPAND]]
        expand_["n_left"] = work.n_left[: expand_.size]
        rounds.append(Round(opened, histograms, counted, searched, moment()))
        if expand_.size == 0:
            break
        commit(frontier, params)
    order, offset = np.empty(frontier.nodes.size, np.int64), np.empty(len(leaf) + 1, np.int64)
    finish(frontier, params, order, offset)
    phase(LEAVES)
    return Grown(rounds, moment(), leaf)


def _grown_on_cuda(target: Any, batch: Batch) -> Grown:
    from gpuens.kernels.growth.cuda import grow as cuda

    with pytest.MonkeyPatch.context() as patch:
        if batch.counted_rows is not None:
            patch.setattr(cuda, "LEAST_COUNTED", batch.counted_rows)
        return _grown_by(cuda, target, batch)


def _grown_by(cuda: Any, target: Any, batch: Batch) -> Grown:
    from gpuens.kernels.growth.cuda.tables import IS_DONE, N_COUNTS, N_REST
    from gpuens.kernels.runtime.cuda.target import download, upload

    codes, params, frontier = target.codes(batch.columns), batch.params, batch.frontier()
    words = target.array(batch.words.reshape(-1))
    of_trees = [params] * frontier.trees.size
    space = cuda.Workspace(codes, batch.n_bins, words.size, frontier, of_trees)
    space.arena.write(frontier, of_trees)
    buffers, scales = (words, space.spare), np.array(batch.scales, np.float64)
    space.spare[...] = words  # where no row goes, there is no fault to be found
    roots = upload(batch.sums().reshape(-1), scales.reshape(-1))
    choosing = cuda.choosing_kernel(params.max_leaves != UNLIMITED)

    def part(name: str, dtype: Any, size: int) -> np.ndarray:
        begin = space.arena._begin[name]
        n_bytes = size * np.dtype(dtype).itemsize
        return download(space.arena._memory[begin : begin + n_bytes]).view(dtype).copy()

    def moment() -> Moment:
        tables = Frontier(
            *(
                part(name, table.dtype, table.size).reshape(table.shape)
                for name, table in zip(Frontier._fields, frontier, strict=True)
            )
        )
        first, second = (download(buffer).copy() for buffer in buffers)
        waiting = part("counts", np.int64, N_COUNTS)[N_REST]
        return Moment(tables, (first[: words.size], second[: words.size]), int(waiting))

    rounds = []
    while True:
        space.open_nodes(roots if not rounds else None)
        opened = moment()
        space.add_histograms(codes, buffers)
        space.search(codes, buffers)
        slots = opened.frontier.nodes["slot"]
        kept = download(space.histograms)
        histograms = {x: kept[slots[x]].copy() for x in opened.new()}
        space.choose(choosing)
        searched = moment()
        space.partition(codes, buffers)
        parted = moment()
        filled = part("filled", np.int64, 2 * parted.frontier.expand.size)
        parted.frontier.expand["n_left"] = filled[::2]
        rounds.append(Round(opened, histograms, set(), searched, parted))
        before = space.arena._memory.copy()
        space.number()
        if part("counts", np.int64, N_COUNTS)[IS_DONE]:
            break
        space.arena._memory[...] = before  # the next round opens the nodes itself
    leaf_shape = frontier.trees.size, codes.columns.shape[1]
    leaf = target.array(np.full(leaf_shape, NO_LEAF, np.uint16))
    numbered = moment()
    space.scatter(buffers, leaf)
    return Grown(rounds, numbered, target.host_leaves(leaf))
