"""Newton steps on a table that is read in the order of its rows: gradients are computed piece by
piece as often as they are needed, so that those of all rows never are in memory.

A row of a tree takes 6 bytes, four of the integers that growth adds up and two of its place, in
place of 12 with gradients of float32 and numbers of nodes. What that leaves to the codes of rows is
not read from the file in every pass. Gradients are computed twice: for their totals and for the
integers, whose scales follow from the totals but are nearly always those of the tree before, and
for the exact sums of the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...kernels.growth.grow import grow
from ...kernels.leaves.newton_steps import leaf_sums, steps_of_sums
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.dtypes import RowStatistics, Scales, Totals, Update
from ...kernels.statistics.add_leaf_values import add_leaf_values
from ...kernels.statistics.gradients import PieceTotals, gradients_of_piece, totals_of_pieces
from ...kernels.statistics.quantise import fixed_point_scales, pack, scales_for
from ...losses import Loss
from ..round_data import Round, Training
from .plain import Batch, Gradients, TreeGrowth, params_of

PIECE_ROWS = 1 << 18
"""Rows whose gradients are in memory: whole chunks of ``gradients``."""

NO_SCALES = Scales(1.0, 1.0)
"""Before the first tree."""


def takes_pieces(loss: Loss) -> bool:
    """Return whether the gradients of a piece of the rows can be computed without the others."""
    return type(loss).gradients is Loss.gradients and not loss.checks_rows


class PieceGradients(Gradients):
    """The gradients of one output after another, of which a piece is kept.

    Attributes
    ----------
    statistics : RowStatistics
        The integers of all rows, which trees are grown on.
    """

    statistics: RowStatistics

    def __init__(self, training: Training) -> None:
        self.training = training
        self._scales: dict[int, Scales] = {}  # of the last tree of each output
        self.g = self.h = np.empty((1, 0), np.float32)

    def compute(
        self, round_: Round, outputs: range, update: Update | None = None
    ) -> Sequence[Totals]:
        k, loss, n = outputs.start, round_.loss, self.training.n_rows
        expected = self._scales.get(k, NO_SCALES)
        words = np.empty((1, n), np.uint32)
        pieces, sums = self._pack(round_, outputs, expected, words)
        totals = totals_of_pieces(pieces)
        loss.check_totals(totals, round_)
        scales = self._scales[k] = scales_for(totals, n)
        if scales != expected:
            _, sums = self._pack(round_, outputs, scales, words)
        self.statistics = RowStatistics(words, sums, [scales], np.dtype(np.uint16))
        return [totals]

    def _pack(
        self, round_: Round, outputs: range, scales: Scales, words: np.ndarray
    ) -> tuple[list[PieceTotals], np.ndarray]:
        """Fill in the integers of all rows; return the totals of pieces, and the integers' sums."""
        draws = self.training.draws(round_, outputs)
        pieces, sums = [], np.zeros((1, 2), np.int64)
        for begin, end, g, h, totals in self.pieces(round_.loss, outputs.start, round_.shared):
            own = words[0, begin:end][None]
            sums += pack(begin, g[None], h[None], draws.rounding, draws.first, [scales], own)
            pieces.append(totals)
        return pieces, sums

    def pieces(
        self, loss: Any, k: int, shared: Array
    ) -> Iterator[tuple[int, int, Array, Array, PieceTotals]]:
        """Yield the first and the last row, exclusive, of each piece, its gradients and hessians,
        float32 of shape (n,) until the next one is asked for, and their ``PieceTotals``."""
        rows, n = self.training.rows, self.training.n_rows
        most = min(n, PIECE_ROWS)
        g, h = np.empty(most, np.float32), np.empty(most, np.float32)
        formula, raw = loss.formula(k), rows.raw[k]
        for begin in range(0, n, PIECE_ROWS):
            end = min(begin + PIECE_ROWS, n)
            target = loss.targets(rows.y[..., begin:end], k, self.training.device)
            own_g, own_h = g[: end - begin], h[: end - begin]
            totals = gradients_of_piece(
                formula, target, raw[begin:end], shared[begin:end], rows.weight[begin:end],
                own_g, own_h,
            )  # fmt: skip
            yield begin, end, own_g, own_h, totals

    def of_rows(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        loss, shared = self._loss_of(0)
        found = [np.empty((loss.n_outputs, at.size)) for at in rows]
        for k in range(loss.n_outputs):
            totals = []
            for begin, end, g, *_, of_piece in self.pieces(loss, k, shared):
                totals.append(of_piece)
                for of_rows, at in zip(found, rows, strict=True):
                    inside = (at >= begin) & (at < end)
                    of_rows[k, inside] = g[at[inside] - begin]
            loss.check_totals(totals_of_pieces(totals), "round 1")
        return found

    def _of_output(self, loss: Any, k: int, shared: Array) -> Totals:
        return totals_of_pieces([totals for *_, totals in self.pieces(loss, k, shared)])


class PieceGrowth(TreeGrowth):
    """Trees on the integers of all rows, added to the raw predictions while pieces of gradients
    are computed once more."""

    gradients: PieceGradients

    def start(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> Batch:
        training, statistics = self.training, self.gradients.statistics
        del self.gradients.statistics  # 4 bytes a row, which the next round makes again
        rows, params = training.rows, params_of(training, round_.sample)
        k = outputs.start
        keys = training.tree_keys(round_, outputs)
        rules = training.settings.rules
        trees = grow(rows.codes, training.n_bins, statistics, keys, params, rules)
        del statistics
        fixed = fixed_point_scales(totals[0], training.n_rows)
        sums = np.zeros((trees.left.size, 2), np.int64)
        for begin, end, g, h, _ in self.gradients.pieces(round_.loss, k, round_.shared):
            sums += leaf_sums(trees.leaf[0, begin:end], g, h, fixed, trees.left.size)
        largest = round_.loss.largest_step(round_.rate)
        values = steps_of_sums(trees, 0, sums, fixed, params.l2, params.min_sum_hessian, largest)
        add_leaf_values(rows.raw[k], trees.leaf[0], values, round_.rate)
        return Batch(outputs, totals, trees, [values])
