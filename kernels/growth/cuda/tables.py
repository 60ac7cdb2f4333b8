"""The tables of trees that grow on the device: those of ``frontier`` and the plan of the round.

All of them are in one piece of memory. The tables that the host writes come first and those that it
reads come last, so that either is one transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import TILE
from ...runtime.cuda.fetch import Fetched
from ...runtime.cuda.narrow import narrow
from ...runtime.cuda.target import (
    device_function,
    download,
    empty,
    is_simulated,
    records_in,
    write,
)
from ...runtime.dtypes import CODE_WORDS
from ..frontier import N_NODES, Frontier
from ..params import GrowthParams

_I, _F = np.int64, np.float64
PARAMS = np.dtype(
    [(name, _F if kind is float else _I) for name, kind in get_type_hints(GrowthParams).items()],
    align=True,
)
LIMITS = np.dtype(
    [
        ("wanted", _I),  # 1: a split is looked for
        ("least_h", _I),
        ("l2", _F),
        ("category_l2", _F),
        ("row_h", _F),
        ("scale_h", _F),
        ("least_rows", _I),  # of a child
        ("counted", _I),  # of a node to recheck: see ``plan.plan_counts``; -1: not counted yet
    ],
    align=True,
)
"""The limits of a node's splits."""

PLAN = np.dtype(
    [
        ("length", _I),  # of its order, see ``order``; ``size`` is an attribute of NumPy records
        ("expanded", _I),  # number of nodes
        ("pairs_begin", _I),  # its part of the round's pairs
        ("pairs_end", _I),
        ("recheck_begin", _I),  # and of the nodes to recheck
        ("recheck_end", _I),
        ("opened_begin", _I),  # and of the nodes that got children
        ("opened_end", _I),
        ("numbered", _I),  # its nodes on the levels done, see ``block.number_trees``
        ("offset", _I),  # of those of the level
    ],
    align=True,
)
"""The state of a tree in a round."""

N_TILES, N_LOOKED, IS_DONE, N_COUNTED, N_CLEARED, N_CLEARED_COUNTS, N_REST, SIDE = range(8)
"""Entries of ``Tables.counts``: tiles; nodes looked at; whether growth is done; histograms of nodes
to recheck; entries of ``cleared``, and histograms of nodes to recheck to be cleared; whether nodes
with a split wait to be opened; which of ``heap`` and ``need`` holds the order."""
N_COUNTS = 8


class Tables(NamedTuple):
    """Device arrays; the first twelve are those of ``Frontier``.

    params : PARAMS, one a tree
    tiles : TILE
        Work of the next launch over rows.
    first_tile : int64
        Of each node that the tiles belong to, and their number behind the last one.
    filled : int64
        Two an expansion: rows placed so far on the left and on the right.
    looked : int64
        Nodes whose split is sought: the two of each pair (-1: there is none), then those to
        recheck.
    limits : LIMITS, one a node looked at
    gaps : int64, one a node looked at
        Where it gets into the order, see ``order``.
    place : int64, one a node
        Where it is in the order.
    cleared : int64
        Slots that the next round may build histograms in, to be set to zero.
    plans : PLAN, one a tree
    counts : int64
    """

    nodes: Array
    trees: Array
    expand: Array
    pairs: Array
    recheck: Array
    free_slots: Array
    heap: Array
    need: Array
    rules: Array
    members: Array
    left_codes: Array
    state: Array
    params: Array
    tiles: Array
    first_tile: Array
    filled: Array
    looked: Array
    limits: Array
    gaps: Array
    place: Array
    cleared: Array
    plans: Array
    counts: Array


WRITTEN = ("trees", "rules", "members", "params")
READ = ("state", "counts", "nodes", "left_codes")
"""By the host. ``nodes`` and ``left_codes`` up to the number of nodes in ``state``."""
FEW_BYTES = 2**20
"""Size of one read, however little of it is filled."""
ALIGNMENT = 16


class Arena:
    """The tables of batches of the same sizes, in one piece of memory.

    Parameters
    ----------
    frontier : Frontier
        Host tables of the same sizes.
    n_tiles : int
        Most tiles of a launch, less one for each segment that is cut.
    n_counted : int
        Most histograms of nodes to recheck.
    """

    def __init__(self, frontier: Frontier, n_tiles: int, n_counted: int) -> None:
        kinds = self._kinds(frontier, n_tiles, n_counted)
        names = [name for name in Tables._fields if name not in WRITTEN + READ]
        order = [*WRITTEN, *names, *READ]
        sizes = [_aligned(kinds[name][1] * kinds[name][0].itemsize) for name in order]
        begins = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        self._begin = dict(zip(order, begins, strict=False))
        self._n_written = self._begin[names[0]]
        self._memory = empty(begins[-1], np.uint8)
        self._params: Sequence[GrowthParams] = ()
        views = {}
        for name, (dtype, size) in kinds.items():
            views[name] = records_in(self._memory, self._begin[name], dtype, size)
        width = CODE_WORDS
        views["left_codes"] = views["left_codes"].reshape(-1, width)
        self.tables = Tables(**views)

    @staticmethod
    def _kinds(frontier: Frontier, n_tiles: int, n_counted: int) -> dict[str, tuple[np.dtype, int]]:
        """Return the type and the number of entries of each table."""
        kinds = {
            name: (table.dtype, table.size)
            for name, table in zip(Frontier._fields, frontier, strict=True)
        }
        capacity = frontier.nodes.size
        n_looked = min(3 * capacity, 3 * frontier.free_slots.size + 2)
        kinds["params"] = PARAMS, frontier.trees.size
        kinds["tiles"] = TILE, n_tiles + capacity + n_counted
        kinds["first_tile"] = np.dtype(_I), capacity + n_counted + 1
        kinds["filled"] = np.dtype(_I), 2 * capacity
        kinds["looked"] = np.dtype(_I), n_looked
        kinds["limits"] = LIMITS, n_looked
        kinds["gaps"] = np.dtype(_I), n_looked
        kinds["place"] = np.dtype(_I), capacity
        kinds["cleared"] = np.dtype(_I), frontier.free_slots.size
        kinds["plans"] = PLAN, frontier.trees.size
        kinds["counts"] = np.dtype(_I), N_COUNTS
        return kinds

    def write(self, frontier: Frontier, params: Sequence[GrowthParams]) -> None:
        """Copy a new batch to the device, with the settings of each tree."""
        if params != self._params:  # those of most batches are the same
            self._params = params
            self._written_params = np.array([tuple(own) for own in params], PARAMS)
        host = np.zeros(self._n_written, np.uint8)
        written = {
            "trees": frontier.trees,
            "rules": frontier.rules,
            "members": frontier.members,
            "params": self._written_params,
        }
        for name, table in written.items():
            begin = self._begin[name]
            host[begin : begin + table.nbytes] = table.view(np.uint8).reshape(-1)
        write(self._memory, host)

    def fetch(self) -> Fetched:
        """Start the transfer of the part that ``read`` needs first."""
        begin, end = self._begin["state"], self._memory.shape[0]
        first = end if end - begin <= FEW_BYTES else self._begin["nodes"]
        return Fetched(self._memory[begin:first])

    def read(self, frontier: Frontier, fetched: Fetched) -> bool:
        """Return whether growth is done; fill the host's ``state`` and, if so, ``nodes`` and
        ``left_codes``."""
        begin, host = self._begin["state"], fetched.wait()
        first, end = begin + host.size, self._memory.shape[0]

        def part(name: str, table: np.ndarray, source: np.ndarray, offset: int) -> None:
            at = self._begin[name] - offset
            table.view(np.uint8).reshape(-1)[:] = source[at : at + table.nbytes]

        counts = np.empty(N_COUNTS, np.int64)
        part("state", frontier.state, host, begin)
        part("counts", counts, host, begin)
        if not counts[IS_DONE]:
            return False
        n_nodes = int(frontier.state[N_NODES])
        for name in ("nodes", "left_codes"):
            filled = getattr(frontier, name)[:n_nodes]
            source, offset = host, begin
            if first < end and filled.size:
                offset = self._begin[name]
                source = download(self._memory[offset : offset + filled.nbytes])
            if filled.size:
                part(name, filled, source, offset)
        return True


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


@device_function
def tables_of(
    nodes, trees, expand, pairs, recheck, free_slots,
    heap, need, rules, members, left_codes, state,
    params, tiles, first_tile, filled, looked, limits, gaps, place, cleared, plans, counts,
):  # fmt: skip
    """Return the tables as the kernels of a single block read them; ``gaps`` is one of atomic
    operations."""
    return Tables(
        narrow(nodes), narrow(trees), narrow(expand), narrow(pairs), narrow(recheck),
        narrow(free_slots), narrow(heap), narrow(need), narrow(rules), narrow(members),
        left_codes, narrow(state), narrow(params), narrow(tiles), narrow(first_tile),
        narrow(filled), narrow(looked), narrow(limits), gaps, narrow(place), narrow(cleared),
        narrow(plans), narrow(counts),
    )  # fmt: skip


if is_simulated():
    from ...runtime.cuda.simulator import unwrapped

    def frontier_of(*tables: Any) -> Frontier:
        """The simulator calls the control as compiled for the CPU."""
        return Frontier(*map(unwrapped, tables))

    def params_of(params: Any, tree: int) -> GrowthParams:
        return GrowthParams(*unwrapped(params)[tree].item())

else:

    @device_function
    def frontier_of(
        nodes, trees, expand, pairs, recheck, free_slots,
        heap, need, rules, members, left_codes, state,
    ):  # fmt: skip
        """The tables as the control takes them."""
        return Frontier(
            narrow(nodes), narrow(trees), narrow(expand), narrow(pairs), narrow(recheck),
            narrow(free_slots), narrow(heap), narrow(need), narrow(rules), narrow(members),
            left_codes, narrow(state),
        )  # fmt: skip

    @device_function
    def params_of(params, tree):
        """The settings of a tree as the control takes them."""
        return params[tree]
