"""The large nodes of a forest, which a fit on a small part of the rows does not have.

A block looks at all rows of a large node, one piece after another, whatever the number of
multiprocessors. So the slowest block of a launch has as many times the rows as the table, up to the
size from which nodes are huge. Its time follows from the launches of the small fit, whose largest
nodes shrink from level to level: it is a line over their rows.

Huge nodes are shared by blocks, tile by tile. Their launches are counted in a second, shallow fit
whose root is made huge, and happen once in each round; they have work as long as some node is huge.
That work is added to the launches over large nodes, from which it is not taken off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpuens.forest.forest import Forest
from gpuens.forest.structure import node_depths
from gpuens.kernels.cart.problem import MOST_LARGE, TILE
from tests.ptx.counts import Counts

from .launches import Launch, Work
from .profile import recorded

OF_LARGE = {
    "search_items": (1, 0), "write_splits": (2, 0), "write_cuts": (2, 0), "move_rows": (2, 1),
}  # fmt: skip
"""By kernel: its launches in a round, and which of them is over large nodes."""
OF_HUGE = ("sum_tiles", "sum_cuts", "search_cuts", "split_tiles", "join_tiles", "clear_lines")
SMALLEST_HUGE = 500
"""Rows from which nodes are huge in the shallow fit."""


@dataclass(frozen=True)
class Levels:
    """The nodes of each level of trees.

    Parameters
    ----------
    largest : int64, shape (n_levels,)
        Rows of the largest one.
    huge_share : float64, shape (n_levels,)
        Of the samples' rows, those in huge nodes.
    """

    largest: np.ndarray
    huge_share: np.ndarray


def levels_of(forest: Forest) -> Levels:
    """Return the levels of all trees together."""
    depth = node_depths(forest)
    rows = forest.n_samples.astype(np.int64)
    largest = np.zeros(depth.max() + 1, np.int64)
    np.maximum.at(largest, depth, rows)
    in_huge = np.bincount(depth, rows * (rows > MOST_LARGE), minlength=largest.size)
    return Levels(largest, in_huge / rows[forest.offset[:-1]].sum())


def with_large_nodes(work: Work, small: np.ndarray, large: np.ndarray) -> Work:
    """Return work in which the slowest block of each launch over large nodes looks at the rows of
    the large fit.

    Parameters
    ----------
    work : Work
        Of the small fit.
    small, large : int64
        Rows of the largest node of each level of both fits.
    """
    found = list(work.launches)
    for kernel, (per_round, which) in OF_LARGE.items():
        at = [i for i, launch in enumerate(found) if launch.kernel == kernel][which::per_round]
        if not at:  # no thresholds are exact
            continue
        rows = small[: len(at)].astype(np.float64)
        for card in found[at[0]].longest:
            measured = [found[i].longest[card] for i in at[: rows.size]]
            slope, start = np.polyfit(rows, measured, 1)
            for i, n in zip(at, large, strict=False):
                ahead = max(0.0, start) + max(0.0, slope) * min(n, MOST_LARGE)
                longest = found[i].longest
                found[i] = replace(found[i], longest=longest | {card: max(longest[card], ahead)})
    return replace(work, launches=found)


def launches_of_huge(
    fit: Callable[[], Any], multiprocessors: int, rows: int, n_rounds: int, levels: Levels
) -> list[Launch]:
    """Return the launches over huge nodes, of all rounds.

    Parameters
    ----------
    fit : callable
        Grows shallow trees on the same sample of the rows.
    multiprocessors : int
    rows : int
        Of the root in this fit.
    n_rounds : int
    levels : Levels
        Of the large fit.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuens.kernels.cart.cuda.grow_cart.MOST_LARGE", SMALLEST_HUGE)
        with recorded(multiprocessors, OF_HUGE.__contains__) as recorder:
            fit()
    by_kernel: dict[str, list[Launch]] = defaultdict(list)
    for launch in recorder.work.launches:
        by_kernel[launch.kernel].append(launch)
    longer = max(1.0, TILE / rows)
    shares = [*levels.huge_share, *[0.0] * n_rounds][:n_rounds]
    launched = [kernel for kernel in OF_HUGE if kernel in by_kernel]
    return [part_of(by_kernel[kernel][0], share, longer) for share in shares for kernel in launched]


def without_huge(work: Work, levels: Levels) -> Work:
    """Return work in which the launches over large nodes have only the rows of each level that are
    not in huge nodes."""
    found = list(work.launches)
    for kernel, (per_round, which) in OF_LARGE.items():
        at = [i for i, launch in enumerate(found) if launch.kernel == kernel][which::per_round]
        for i, share in zip(at, levels.huge_share, strict=False):
            found[i] = part_of(found[i], 1.0 - share, 1.0)
    return replace(work, launches=found)


def part_of(launch: Launch, share: float, longer: float) -> Launch:
    """Return a launch over the root as one over a share of its rows; the slowest block works so
    many times longer, or not at all."""
    return replace(
        launch,
        counts=Counts(*(value * share for value in launch.counts)),
        arrays={name: (size, sectors * share) for name, (size, sectors) in launch.arrays.items()},
        cycles={card: value * share for card, value in launch.cycles.items()},
        longest={card: longer * value * (share > 0) for card, value in launch.longest.items()},
    )
