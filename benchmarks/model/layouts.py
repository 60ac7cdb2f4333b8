"""The most that other layouts of histograms could gain, by features: why there is one layout.

A round of boosting is modelled for narrow and wide tables, on a card with much shared memory and
on the one with the least. ``idle`` is the share of the lanes without a feature. A layout that
leaves none idle, or lets more blocks run beside each other, saves issue slots or waits, but no byte
and no addition in global memory: each histogram is timed again without what idle lanes take
(``all lanes``), and also as if nothing ever waited (``no waits``). What is left is a floor for
every layout of the same records and codes, so the difference is the most that one can gain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuens.datasets import make_higgs_like
from gpuens.devices.cards import CARDS, Card
from gpuens.kernels.growth.cuda.histogram import LANES
from tests.ptx.costs import linked

from ..common.program import Results
from .cards import LAUNCH_GAP
from .cases import one_round
from .groups import HISTOGRAM, OVER_NODES
from .launches import Launch, extrapolated
from .times import RESOURCES, Time, blocks_at_once, moved, time_of

M = 1_000_000
OF_LANES = ("issue", "integer", "shared", "l1", "latency")
"""Resources that idle lanes take."""
SIZES = (1, 2)
"""Multiprocessors of the fits."""


class Table(NamedTuple):
    """A table that is modelled."""

    card: Card
    n_rows: int
    n_features: int

    @property
    def name(self) -> str:
        return f"{self.card.name}, {self.n_rows // M}M × {self.n_features}"


TABLES = (
    *(Table(CARDS["H100"], M, n) for n in (1, 2, 4, 8, 12, 20, 28)),
    Table(CARDS["H100"], 11 * M, 20),
    *(Table(CARDS["T4"], M, n) for n in (4, 28, 54)),
)


def busy(n_features: int) -> float:
    """Return the share of the lanes that have a feature, over all groups of features."""
    widths = [min(LANES, n_features - first) for first in range(0, n_features, LANES)]
    return float(np.mean([LANES // width * width / LANES for width in widths]))


def floor_of(time: Time, share: float, waits: bool) -> float:
    """Return the seconds of a launch whose lanes are all busy."""
    left = {
        name: seconds * (share if name in OF_LANES else 1.0)
        for name, seconds in time.by_resource.items()
        if waits or name != "latency"
    }
    return max(left.values()) + time.code


def of(case: Table) -> Results:
    """Model one round of boosting on a table."""
    share = case.n_rows // case.card.multiprocessors
    X, y = make_higgs_like(share * SIZES[0], case.n_features)
    settings: dict[str, Any] = {"max_depth": 8, "max_leaf_nodes": None}
    found = []
    for n in SIZES:
        rows = np.tile(X, (n // SIZES[0], 1)), np.tile(y, n // SIZES[0])
        found.append(one_round(n, *rows, settings, case.card))
    ahead = (case.card.multiprocessors - SIZES[0]) / (SIZES[1] - SIZES[0])
    launches = extrapolated(*found, ahead, OVER_NODES).launches
    return result_of(case, launches)


def result_of(case: Table, launches: list[Launch]) -> Results:
    """Return the numbers of a round."""
    card = case.card
    times = [time_of(launch, card) for launch in launches]
    tree = sum(time.seconds for time in times) + len(times) * LAUNCH_GAP
    pairs = [(one, t) for one, t in zip(launches, times, strict=True) if one.kernel == HISTOGRAM]
    histograms, of_them = zip(*pairs, strict=True)
    root, share = histograms[0], busy(case.n_features)
    code = linked(root.ptx, card.architecture)
    now = sum(time.seconds for time in of_them)
    floors = {
        title: sum(floor_of(time, share, waits) for time in of_them)
        for title, waits in (("all lanes", True), ("no waits", False))
    }
    return {
        "idle": 1 - share,
        "threads": root.threads,
        "blocks": blocks_at_once(root, card, code),
        "blocks by shared memory": blocks_at_once(root, card, code._replace(registers=1)),
        "registers": code.registers,
        "passes": root.counts.atomic_passes / root.counts.atomic_accesses,
        "gb": sum(moved(one, card) for one in histograms) / 1e9,
        "binds": RESOURCES[of_them[0].binds],
        "tree_ms": 1e3 * tree,
        "ms": 1e3 * now,
        "gains": {title: 100 * (now - floor) / tree for title, floor in floors.items()},
    }


def measure() -> Results:
    """Model all tables."""
    return {"tables": {case.name: of(case) for case in TABLES}}
