"""Cumulative hazards in the leaves of survival forests, and log-rank scores to grow them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..devices.threads import map_in_threads
from ..forest.forest import Forest
from ..forest.structure import children, levels
from ..inputs.survival import Survival
from ..kernels.leaves.hazards import LeafSteps, fill_hazards, mean_hazards
from ..kernels.runtime.cpu.team import get_threads


class Timeline(NamedTuple):
    """Rows among the ascending times of events; an event counts where its weight is positive.
    ``rank`` is the last of the times that the row is at risk at, -1 for none."""

    times: np.ndarray
    event: np.ndarray
    rank: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, survival: Survival, weight: np.ndarray | None) -> Timeline:
        factor = np.ones(survival.time.size) if weight is None else weight
        event = survival.event & (factor > 0.0)
        times = np.unique(survival.time[event])
        rank = np.searchsorted(times, survival.time, side="right") - 1
        return cls(times, event, rank.astype(np.int32), factor)

    def scores(self) -> np.ndarray:
        """Return the log-rank scores of the rows, float64 of shape (n_rows,): their events minus
        those that the Nelson–Aalen estimate of all rows expects (Peto and Peto 1972)."""
        n = self.times.size
        leaving = np.bincount(self.rank + 1, self.weight, n + 1)
        dying = np.bincount(self.rank[self.event], self.weight[self.event], n)
        at_risk = np.cumsum(leaving[::-1])[::-1][1:]
        hazard = np.concatenate([[0.0], np.cumsum(dying / np.maximum(at_risk, dying))])
        return self.event - hazard[self.rank + 1]


@dataclass(frozen=True, eq=False)
class LeafHazards:
    """The cumulative hazards in the leaves of a forest (NumPy, read-only), steps at times of
    events. Tree t owns nodes ``offset[t]:offset[t + 1]``, node k the steps ``begin[k]:begin[k +
    1]``, of which inner nodes have none; ``time`` ascends in each leaf, ``increase`` is
    positive."""

    offset: np.ndarray
    begin: np.ndarray
    time: np.ndarray
    increase: np.ndarray

    def __post_init__(self) -> None:
        for array in (self.offset, self.begin, self.time, self.increase):
            array.flags.writeable = False

    @classmethod
    def collect(
        cls, forest: Forest, records: Sequence[np.ndarray], timeline: Timeline
    ) -> LeafHazards:
        """Estimate the hazards in every leaf (Nelson–Aalen), from the records of each tree as
        growth left them (see ``TargetsInLeaves.collect``) and the timeline of the training rows."""
        order = np.argsort(timeline.rank, kind="stable").astype(np.int32)
        n_nodes = np.diff(forest.offset)
        n_steps = np.zeros(forest.feature.size, np.int64)
        kept: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * len(records)

        def fill(t: int) -> None:
            nodes = slice(forest.offset[t], forest.offset[t + 1])
            segment = np.empty((n_nodes[t], 2), np.int64)
            steps = np.empty(records[t].size, np.int32)
            increases = np.empty(records[t].size)
            fill_hazards(
                forest.left[nodes], forest.n_samples[nodes], records[t], order, timeline.rank,
                timeline.event, timeline.weight, segment, steps, increases, n_steps[nodes],
            )  # fmt: skip
            # Those of a leaf are contiguous, the leaves in the order of the nodes.
            first, n = segment[:, 0], n_steps[nodes]
            place = np.repeat(first - np.cumsum(n) + n, n) + np.arange(n.sum())
            kept[t] = timeline.times[steps[place]], increases[place]

        map_in_threads(fill, range(len(records)), get_threads())
        begin = np.concatenate([[0], np.cumsum(n_steps)])
        time, increase = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        return cls(forest.offset, begin, time, increase)

    def joined(self, other: LeafHazards) -> LeafHazards:
        """Return these trees, then the others."""
        return LeafHazards(
            np.concatenate([self.offset, self.offset[-1] + other.offset[1:]]),
            np.concatenate([self.begin, self.begin[-1] + other.begin[1:]]),
            np.concatenate([self.time, other.time]),
            np.concatenate([self.increase, other.increase]),
        )

    def mean(self, leaf: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the mean cumulative hazards at ascending times, float64 of shape
        (n_rows, n_times), for the leaves (n_rows, n_trees) of rows."""
        place = np.searchsorted(times, self.time, side="left").astype(np.int32)
        steps = LeafSteps(self.offset, self.begin, place, self.increase)
        return mean_hazards(steps, leaf, times.size)

    def with_mortality(self, forest: Forest, times: np.ndarray) -> Forest:
        """Return the forest whose leaves hold the sum of their cumulative hazards over some times,
        ascending; an inner node holds the mean of its children by the weight of their rows."""
        later = times.size - np.searchsorted(times, self.time, side="left")
        node = np.repeat(np.arange(forest.feature.size), np.diff(self.begin))
        value = np.bincount(node, self.increase * later, forest.feature.size)
        for nodes in reversed(list(levels(forest))):
            inner = nodes[forest.feature[nodes] >= 0]
            left, right = children(forest, inner)
            share = forest.cover[left] / (forest.cover[left] + forest.cover[right])
            value[inner] = share * value[left] + (1.0 - share) * value[right]
        return replace(forest, value=value[:, None])
