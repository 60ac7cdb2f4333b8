"""The decisions of growth on shared rows that are on GPUs: compiled for the host, which sees the
histograms of all workers' rows on their way through it (see ``kernels.growth.shared.phases``).
"""

from __future__ import annotations

from ...runtime.compilation import callable_from_python, kernel_without_allocation
from ...runtime.cpu.team import wait
from .. import frontier as fr
from ..cpu.histogram import pack_planes
from ..cpu.tables import EVALUATE, RECHECK
from ..shared import phases

begin_round = callable_from_python(phases.begin_round)
number_leaves = callable_from_python(phases.number_leaves)


@kernel_without_allocation
def open_nodes(
    thread, n_threads, barrier, table, frontier, own, params, work, built, rebuilt, packed, counts
):  # fmt: skip
    """Find the splits of the new nodes and choose the nodes to expand.

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
    wait(barrier, n_threads)
    phases.find_splits(
        thread, n_threads, barrier, table, frontier, own, params, work, (packed, counts)
    )  # fmt: skip
