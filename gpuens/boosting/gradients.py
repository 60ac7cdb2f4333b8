"""The gradients and hessians of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices.placement import to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import Totals, Update
from ..kernels.runtime.each import each
from .round_data import Round, Training
from .sampling import scale_statistics


class Gradients:
    """The gradients of one batch of outputs after another, in the same arrays.

    Attributes
    ----------
    g, h : float32, shape (n_outputs of the largest batch, n_rows), on the device
        Gradients and hessians, times the weights of the rows.
    """

    def __init__(self, training: Training, n_outputs: int) -> None:
        self.training = training
        n, xp = training.n_rows, training.device.xp
        self.g = xp.empty((n_outputs, n), dtype=xp.float32)
        self.h = xp.empty((n_outputs, n), dtype=xp.float32)

    def compute(
        self, round_: Round, outputs: range, update: Update | None = None
    ) -> Sequence[Totals]:
        """Compute the gradients of a batch of outputs and return their totals.

        Parameters
        ----------
        round_ : Round
        outputs : range
        update : Update or None
            Values that the raw predictions get in the same pass, before.

        Raises
        ------
        ValueError
            They are not finite.
        """
        totals = self._fill(round_, outputs, update)
        self._check(round_, outputs, totals)
        if round_.sample.factor.size:
            totals = self._scale(round_, len(outputs))
        round_.unchecked += [own for own in totals if not own.is_here]
        return totals

    def _fill(self, round_: Round, outputs: range, update: Update | None) -> Sequence[Totals]:
        rows, device, loss = self.training.rows, self.training.device, round_.loss
        g, h = self.g[: len(outputs)], self.h[: len(outputs)]
        raw = rows.raw[outputs.start : outputs.stop]
        if len(outputs) > 1:
            return loss.gradients_of_outputs(
                outputs, rows.y, raw, round_.shared, rows.weight, g, h, device
            )
        k = outputs.start
        target = loss.targets(rows.y, k, device)
        return [loss.gradients(k, target, raw[0], round_.shared, rows.weight, g[0], h[0], update)]

    def _check(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> None:
        """Check the gradients, or their totals where the host has them; a GPU's totals that nothing
        needs before the trees are checked when the round ends."""
        training, loss = self.training, round_.loss
        rows = training.rows

        def check(i: int) -> None:
            target = loss.targets(rows.y, outputs[i], training.device)
            raw = rows.raw[outputs[i]]
            loss.check_gradients(totals[i], self.g[i], self.h[i], target, raw, round_.name)

        searches = training.settings.line_search and not loss.exact_leaves
        waits = searches or loss.exact_leaves or round_.sample.factor.size > 0
        if loss.checks_rows:
            each(check, range(len(outputs)), self.g[0])
        elif waits or totals[0].is_here:
            for own in totals:
                loss.check_totals(own, round_.name)

    def _scale(self, round_: Round, n_outputs: int) -> Sequence[Totals]:
        """Multiply the gradients of a sample by the factors of its rows."""

        def scaled(i: int) -> Totals:
            own = scale_statistics(self.g[i], self.h[i], round_.sample, self.training.device)
            round_.loss.check_totals(own, round_.name)
            return own

        return each(scaled, range(n_outputs), self.g[0])

    def sum_of_rows(self, index: int, term: Callable[[Any, Any], Array], dtype: Any) -> Array:
        """Return the sum of a function of every row's gradient and hessian over all outputs."""
        total = self.training.device.xp.zeros(self.training.n_rows, dtype=dtype)
        loss, shared = self._loss_of(index)
        for k in range(loss.n_outputs):
            self._of_output(loss, k, shared)
            total += term(self.g[0], self.h[0])
        return total

    def of_rows(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the gradients of some rows before the first round, float64 of shape (n_outputs,
        n), for each array of their numbers."""
        loss, shared = self._loss_of(0)
        found = [np.empty((loss.n_outputs, at.size)) for at in rows]
        for k in range(loss.n_outputs):
            self._of_output(loss, k, shared)
            for of_rows, at in zip(found, rows, strict=True):
                of_rows[k] = to_numpy(self.g[0][self.training.device.asarray(at)])
        return found

    def sizes(self) -> tuple[float, float]:
        """Return the largest size of a gradient and the sum of the hessians, over all outputs."""
        loss, rows, largest, total = self.training.loss, self.training.rows, 0.0, 0.0
        shared = loss.shared(rows.y, rows.raw, self.training.device)
        for k in range(loss.n_outputs):
            totals = self._of_output(loss, k, shared)
            largest, total = max(largest, float(totals.max_g)), total + float(totals.sum_h)
        return largest, total

    def _loss_of(self, index: int) -> tuple[Any, Array]:
        """Return the loss of a round for all rows, and its shared values."""
        training = self.training
        rows, device = training.rows, training.device
        loss = training.loss.at_round(index)
        everything = device.xp.empty(0, dtype=np.int32)
        loss = loss.in_round(rows.y, rows.raw, training.whole_weight, everything, device)
        return loss, loss.shared(rows.y, rows.raw, device)

    def _of_output(self, loss: Any, k: int, shared: Array) -> Totals:
        """Compute the gradients of one output into the first line."""
        rows, device = self.training.rows, self.training.device
        target, g, h = loss.targets(rows.y, k, device), self.g[0], self.h[0]
        return loss.gradients(k, target, rows.raw[k], shared, rows.weight, g, h)
