"""A tree of Newton steps on a table that is read in the order of its rows: gradients are computed
piece by piece as often as they are needed, so that those of all rows never are in memory.

A row of a tree takes 6 bytes, four of the integers that growth adds up and two of its place, in
place of 12 with gradients of float32 and numbers of nodes. What that leaves to the codes of rows is
not read from the file in every pass. Gradients are computed twice: for their totals and for the
integers, whose scales follow from the totals but are nearly always those of the tree before, and
for the exact sums of the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..devices.placement import Device
from ..kernels.boosting.newton_trees import Draws, NewtonTrees
from ..kernels.growth.grow import grow
from ..kernels.growth.params import FeatureRules, GrowthParams
from ..kernels.leaves.newton_steps import leaf_sums, steps_of_sums
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import RowStatistics, Scales, Totals
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import draw
from ..kernels.statistics.add_leaf_values import add_leaf_values
from ..kernels.statistics.gradients import PieceTotals, gradients_of_piece, totals_of_pieces
from ..kernels.statistics.quantise import fixed_point_scales, pack, scales_for
from ..losses import Loss

PIECE_ROWS = 1 << 18
"""Rows whose gradients are in memory: whole chunks of ``gradients``."""

NO_SCALES = Scales(1.0, 1.0)
"""Before the first tree."""

_draw = vectorise(draw)


class Gradients(NamedTuple):
    """The arguments of the gradients of an output.

    loss : Loss
    output : int
    y, raw, shared, weight : array
        As ``Loss.gradients`` takes them, of all rows.
    device : Device
    """

    loss: Loss
    output: int
    y: Array
    raw: Array
    shared: Array
    weight: Array
    device: Device

    def pieces(self) -> Iterator[tuple[int, int, Array, Array, PieceTotals]]:
        """Yield the first and the last row, exclusive, of each piece, its gradients and hessians,
        float32 of shape (n,) until the next one is asked for, and their ``PieceTotals``."""
        n, k = self.raw.shape[0], self.output
        most = min(n, PIECE_ROWS)
        g, h = np.empty(most, np.float32), np.empty(most, np.float32)
        formula = self.loss.formula(k)
        for begin in range(0, n, PIECE_ROWS):
            end = min(begin + PIECE_ROWS, n)
            target = self.loss.targets(self.y[..., begin:end], k, self.device)
            of_rows = target, self.raw[begin:end], self.shared[begin:end], self.weight[begin:end]
            own = g[: end - begin], h[: end - begin]
            yield begin, end, *own, gradients_of_piece(formula, *of_rows, *own)

    def fill(self, g: Array, h: Array) -> Totals:
        """Fill in the gradients and hessians of all rows."""
        target = self.loss.targets(self.y, self.output, self.device)
        of_rows = target, self.raw, self.shared, self.weight
        return self.loss.gradients(self.output, *of_rows, g, h)

    def totals(self) -> Totals:
        """Return the totals of all rows, piece by piece."""
        return totals_of_pieces([totals for *_, totals in self.pieces()])

    def integers(self, draws: Draws, expected: Scales, where: str) -> tuple[Totals, RowStatistics]:
        """Return the totals of all rows, and what a tree grows on.

        Parameters
        ----------
        draws : Draws
        expected : Scales
            Where the totals give others, the integers are computed a second time.
        where : str
            The round, for the error.

        Raises
        ------
        ValueError
            The totals are not finite.
        """
        words = np.empty((1, self.raw.shape[0]), np.uint32)
        pieces, sums = self._pack(draws, expected, words)
        totals = totals_of_pieces(pieces)
        self.loss.check_totals(totals, where)
        scales = scales_for(totals, self.raw.shape[0])
        if scales != expected:
            _, sums = self._pack(draws, scales, words)
        return totals, RowStatistics(words, sums, [scales], np.dtype(np.uint16))

    def _pack(
        self, draws: Draws, scales: Scales, words: np.ndarray
    ) -> tuple[list[PieceTotals], np.ndarray]:
        """Fill in the integers of all rows; return the totals of pieces, and the integers' sums."""
        pieces, sums = [], np.zeros((1, 2), np.int64)
        for begin, end, g, h, totals in self.pieces():
            how = draws.rounding, draws.first, [scales], words[0, begin:end][None]
            sums += pack(begin, g[None], h[None], *how)
            pieces.append(totals)
        return pieces, sums


def takes_pieces(loss: Loss) -> bool:
    """Return whether the gradients of a piece of the rows can be computed without the others."""
    return type(loss).gradients is Loss.gradients and not loss.checks_rows


def add_tree(
    codes: Any,
    n_bins: np.ndarray,
    gradients: Gradients,
    totals: Totals,
    statistics: RowStatistics,
    draws: Draws,
    factor: float,
    largest: float,
    params: GrowthParams,
    rules: FeatureRules,
) -> NewtonTrees:
    """Do what ``kernels.boosting.newton_trees.add_newton_trees`` does for one tree; ``totals`` and
    ``statistics`` are those of ``Gradients.integers``."""
    keys = np.array([_draw(int(draws.tree), int(draws.first))], np.uint64)
    trees = grow(codes, n_bins, statistics, keys, params, rules)
    fixed = fixed_point_scales(totals, gradients.raw.shape[0])
    of_leaves = np.zeros((trees.left.size, 2), np.int64)
    for begin, end, g, h, _ in gradients.pieces():
        of_leaves += leaf_sums(trees.leaf[0, begin:end], g, h, fixed, trees.left.size)
    limits = params.l2, params.min_sum_hessian, largest
    values = steps_of_sums(trees, 0, of_leaves, fixed, *limits)
    add_leaf_values(gradients.raw, trees.leaf[0], values, factor)
    return NewtonTrees(trees, [values])
