"""The kernels that decide on a GPU which nodes are opened, what becomes of these, and which numbers
the leaves have: what each makes of the tables is what the control of growth makes of them, which
the CPU runs itself."""

from __future__ import annotations

import numpy as np

from gpuens.kernels.growth import control
from gpuens.kernels.growth import frontier as fr
from gpuens.kernels.growth.frontier import NO_GAIN
from gpuens.kernels.growth.params import UNLIMITED
from gpuens.kernels.runtime.compilation import callable_from_python
from tests.kernels.growth.rounds import commit, finish, start

ON_CPU = ()

WRITTEN = (
    "tree", "depth", "begin", "end", "g", "h", "gain", "child", "parent", "low", "high", "key",
)  # fmt: skip
"""The fields of a node that is opened, and of its children."""
simulate = callable_from_python(control.simulate)


def assert_slots_add_up(moment) -> None:
    """Each slot belongs to one node, or is free."""
    slots = moment.part("nodes")["slot"]
    found = np.sort(np.concatenate([slots[slots >= 0], moment.part("free_slots")]))
    np.testing.assert_array_equal(found, np.arange(moment.frontier.free_slots.size))


def assert_same_nodes(moment, tables) -> None:
    for count in (fr.N_NODES, fr.N_PAIRS, fr.N_RECHECK):
        assert moment.frontier.state[count] == tables.state[count]
    n_nodes, n_pairs, n_again = tables.state[[fr.N_NODES, fr.N_PAIRS, fr.N_RECHECK]]
    for name in WRITTEN:
        np.testing.assert_array_equal(moment.part("nodes")[name], tables.nodes[name][:n_nodes])
    np.testing.assert_array_equal(moment.part("pairs"), tables.pairs[:n_pairs])
    np.testing.assert_array_equal(moment.part("recheck"), tables.recheck[:n_again])
    # Which slot a histogram has decides nothing.
    is_kept = tables.nodes["slot"][:n_nodes] >= 0
    np.testing.assert_array_equal(moment.part("nodes")["slot"] >= 0, is_kept)
    assert_slots_add_up(moment)


def test_roots(batch, grown):
    tables = batch.frontier()
    start(tables, batch.params)
    assert_same_nodes(grown.rounds[0].opened, tables)


def test_open_nodes(batch, grown):
    for before, after in zip(grown.rounds[:-1], grown.rounds[1:], strict=True):
        tables = before.parted.tables()
        commit(tables, batch.params)
        assert_same_nodes(after.opened, tables)
        pairs = after.opened.part("pairs")
        siblings = pairs["sibling"][pairs["sibling"] >= 0]
        parents = tables.nodes["parent"][siblings]
        inherited = before.parted.frontier.nodes["slot"][parents]
        np.testing.assert_array_equal(after.opened.frontier.nodes["slot"][siblings], inherited)


def test_choose_nodes(batch, grown):
    """The nodes that are opened are the first ones that the best-first order needs."""
    for round_ in grown.rounds:
        moment, params = round_.searched, batch.params
        tables, expand = moment.tables(), moment.part("expand")
        of_tree = tables.nodes["tree"][expand["node"]]
        n_needed = 0
        for t in range(tables.trees.size):
            opened = expand[of_tree == t]
            nodes, first = moment.part("nodes"), tables.trees["first"][t]
            if params.max_leaves == UNLIMITED:
                may = (nodes["tree"] == t) & (nodes["child"] < 0) & (nodes["gain"] > NO_GAIN)
                need, closes = np.flatnonzero(may), False
            else:
                simulate(tables, params, t)
                tree = tables.trees[t]
                need = tables.need[first : first + tree["n_need"]]
                is_full = tree["n_splits"] == params.max_leaves - 1
                closes = need.size == 1 and tree["needs_last"] == 1 and is_full
            np.testing.assert_array_equal(opened["node"], need[: opened.size])
            assert (opened["closes"] == closes).all()
            n_needed += need.size
        assert moment.waiting > 0 if expand.size < n_needed else moment.waiting == 0
        assert expand.size > 0 or n_needed == 0
        assert_slots_add_up(moment)


def test_number_leaves(batch, grown):
    """Nodes that were opened too early are closed again."""
    tables = grown.rounds[-1].parted.tables()
    commit(tables, batch.params)
    order = np.empty(tables.nodes.size, np.int64)
    offset = np.empty(tables.trees.size + 1, np.int64)
    finish(tables, batch.params, order, offset)
    n_nodes = tables.state[fr.N_NODES]
    for name in ("leaf", "chosen", "child"):
        np.testing.assert_array_equal(
            grown.numbered.part("nodes")[name], tables.nodes[name][:n_nodes]
        )
