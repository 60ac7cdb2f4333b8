"""Launches as the model knows them, and how their numbers grow with the rows of the table.

A fit that can be run here is small, so it is run as on a small part of a card: with as many rows a
multiprocessor as the large fit has, on one multiprocessor and on two, say. Each of its blocks then
does what a block of the large fit does, and the numbers of a launch over rows are a constant part
(work on nodes) and one that is proportional to the rows. Two fits show both. Launches over nodes,
whose work follows from the trees alone, are taken as they are in the larger fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.ptx.counts import Counts


@dataclass(frozen=True)
class Launch:
    """One launch.

    Parameters
    ----------
    kernel : str
    ptx : str
        What it was linked from.
    blocks : float
    threads, shared_bytes : int
        Of a block.
    counts : Counts
    arrays : dict
        By argument: bytes, and sectors that blocks read or write first.
    cycles, longest : dict of float
        By the kind of card (``cards.LATENCIES``): of all blocks together, each alone on a
        multiprocessor, and of the slowest.
    code : float
        Slots of the instructions that some thread runs, each once.
    """

    kernel: str
    ptx: str
    blocks: float
    threads: int
    shared_bytes: int
    counts: Counts
    arrays: dict[str, tuple[float, float]]
    cycles: dict[str, float]
    longest: dict[str, float]
    code: float = 0.0


@dataclass(frozen=True)
class Work:
    """What a fit or a prediction asks of a card.

    Parameters
    ----------
    launches : list of Launch
    others : Counter
        Work on the stream that is not a launch: "fill", "copy", "upload", "fetch", "wait".
    waits : int
        How often the host waits for a result.
    downloaded : float
        Bytes that it waits for.
    """

    launches: list[Launch]
    others: Counter[str]
    waits: int = 0
    downloaded: float = 0.0


def numbered(launches: Iterable[Launch]) -> dict[tuple[str, int], Launch]:
    """Return launches by kernel and occurrence."""
    seen: Counter[str] = Counter()
    found = {}
    for launch in launches:
        found[launch.kernel, seen[launch.kernel]] = launch
        seen[launch.kernel] += 1
    return found


def line(small: float, large: float, share: float) -> float:
    """Go on along a line; ``share`` is 0 at the small value and 1 at the large one.

    What shrinks from the small fit to the large one, as numbers that chance decides do, stays at
    the larger value.
    """
    if large <= small:
        return max(small, large)
    return small + share * (large - small)


def extrapolated(small: Work, large: Work, share: float, over_nodes: Collection[str] = ()) -> Work:
    """Return the work of a larger fit.

    Parameters
    ----------
    small, large : Work
        Of fits with n₁ and n₂ rows on as many multiprocessors as keep the rows of each the same.
    share : float
        (n − n₁) / (n₂ − n₁) of the fit with n rows.
    over_nodes : collection of str
        Kernels whose work does not depend on the rows.

    Raises
    ------
    ValueError
        The fits do not have the same launches.
    """
    ours, theirs = numbered(small.launches), numbered(large.launches)
    if list(ours) != list(theirs):
        different = set(ours) ^ set(theirs)
        raise ValueError(f"The fits have different launches: {sorted(different)[:5]}.")
    launches = [
        _between(ours[key], theirs[key], share, 0.0 if key[0] in over_nodes else share)
        for key in ours
    ]
    others = {
        kind: round(line(small.others[kind], large.others[kind], share))
        for kind in small.others | large.others
    }
    return Work(launches, Counter(others), large.waits, large.downloaded)


def _between(small: Launch, large: Launch, share: float, of_work: float) -> Launch:
    """Return a launch of the larger fit; its work goes on by ``of_work``."""

    def work(own: float, other: float) -> float:
        return line(own, other, of_work) if of_work else max(own, other)

    counts = Counts(*map(work, small.counts, large.counts))
    arrays = {
        name: (line(size, large.arrays[name][0], share), work(sectors, large.arrays[name][1]))
        for name, (size, sectors) in small.arrays.items()
    }
    blocks = line(small.blocks, large.blocks, share)
    cycles = {key: work(own, large.cycles[key]) for key, own in small.cycles.items()}
    longest = {
        key: _slowest(own, large.longest[key], (small.blocks, large.blocks, blocks), of_work)
        for key, own in small.longest.items()
    }
    return Launch(
        small.kernel, small.ptx, blocks, small.threads, small.shared_bytes, counts, arrays, cycles,
        longest, max(small.code, large.code),
    )  # fmt: skip


def scaled(work: Work, factor: float, same: Collection[str] = ()) -> Work:
    """Return work of which all but the number of launches, and the slowest block of each, is
    proportional to the rows, or to the trees. The arrays in ``same`` keep their sizes."""
    launches = [
        replace(
            launch,
            blocks=launch.blocks * factor,
            counts=Counts(*(value * factor for value in launch.counts)),
            arrays={
                name: (size * (1.0 if name in same else factor), sectors * factor)
                for name, (size, sectors) in launch.arrays.items()
            },
            cycles={k: value * factor for k, value in launch.cycles.items()},
        )
        for launch in work.launches
    ]
    return replace(work, launches=launches, downloaded=work.downloaded * factor)


def _slowest(small: float, large: float, blocks: tuple[float, float, float], share: float) -> float:
    """Return the cycles of the slowest block. Where there are more blocks in the larger fit, a
    part of it is shared by them."""
    ours, theirs, wanted = blocks
    if ours == theirs:
        return line(small, large, share) if share else max(small, large)
    common = (small - large) / (1 / ours - 1 / theirs)
    return max(0.0, large + common * (1 / wanted - 1 / theirs))


def total(launches: Sequence[Launch]) -> Counts:
    """Add up counts."""
    return Counts(*np.sum([launch.counts for launch in launches], axis=0).tolist())
