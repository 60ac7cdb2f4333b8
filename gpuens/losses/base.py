"""What all losses of gradient boosting have in common.

A loss knows how many raw predictions a row has, where they start, how its gradients are
computed, what a leaf adds, and how raw predictions become predictions. Its formulas stand in
``gpuens.kernels.scalars.losses``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..devices.placement import Device
from ..kernels.leaves.newton_steps import newton_steps
from ..kernels.runtime.dtypes import NodeValues, Totals, Update
from ..kernels.statistics.gradients import gradients, row_values
from ..numerics.weighted import Later, mean_later
from .leaves import LeafRows

Self = TypeVar("Self", bound="Loss")


class Loss:
    """Base of the losses.

    Raw predictions, targets and weights are arrays on one device. ``raw`` has shape
    (n_outputs, n_rows); ``y`` has shape (n_rows,), or (n_targets, n_rows) where there are
    several targets; ``weight`` is empty where every weight is 1.

    A loss never changes: methods that fit it to something return another one.
    """

    name: ClassVar[str]
    """As in the parameter ``loss``."""
    exact_leaves: ClassVar[bool] = False
    """Whether the leaf values minimise the loss, so that a line search finds a step of 1."""
    coupled: ClassVar[bool] = False
    """Whether the gradients of an output depend on the others."""
    checks_rows: ClassVar[bool] = False
    """Whether ``check_gradients`` looks at the rows."""
    reads_raw: ClassVar[bool] = False
    """Whether more of a round than the gradients needs the raw predictions."""
    has_hessian: ClassVar[bool] = True
    """Whether hessians say how far a minimum is."""
    n_outputs: int = 1

    def for_targets(self: Self, n_targets: int) -> Self:
        """The loss of a regression.

        Raises
        ------
        ValueError
            It is not one, or not for several targets.
        """
        raise ValueError(
            f"loss={self!r} is a loss of classes, for a classifier. A regressor takes "
            "'squared_error', 'absolute_error', 'huber', 'quantile', 'poisson', 'gamma', 'tweedie' "
            "or a function."
        )

    def for_classes(self, n_classes: int) -> Loss:
        """The loss of a classification.

        Raises
        ------
        ValueError
            It is not one, or not for so many classes.
        """
        raise ValueError(
            f"loss={self!r} is a loss of numbers, for a regressor. A classifier takes 'log_loss', "
            "'exponential', 'focal' or a function."
        )

    def check_target(self, y: Any, name: str) -> None:
        """Raise ValueError for targets that the loss is not defined for."""

    def check_training(self, y: Any, weight: Any, device: Device) -> None:
        """Raise ValueError for targets that allow no best constant."""

    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        """The best constant raw prediction, float64 of shape (n_outputs,)."""
        raise NotImplementedError

    def formula(self, k: int) -> Any:
        """The named tuple of ``kernels.scalars.losses`` for output k."""
        raise NotImplementedError

    def on_training_rows(self: Self, y: Any, weight: Any, base: np.ndarray, device: Device) -> Self:
        """The loss that metrics compute, the same in all rounds."""
        return self

    def in_round(
        self: Self, y: Any, raw: Any, whole_weight: Any, sample: Any, device: Device
    ) -> Self:
        """The loss of a round of boosting.

        ``whole_weight`` is that of ``whole_weights``; ``sample`` (int32) are the rows that take
        part, all if it is empty.
        """
        return self

    def targets(self, y: Any, k: int, device: Device) -> Any:
        """The target of output k, float64 of shape (n_rows,)."""
        return y if y.ndim == 1 else y[k]

    def shared(self, y: Any, raw: Any, device: Device) -> Any:
        """What the gradients of all outputs are computed from beside their own raw predictions."""
        return device.xp.empty(0)

    def gradients(
        self,
        k: int,
        target: Any,
        raw: Any,
        shared: Any,
        weight: Any,
        g: Any,
        h: Any,
        update: Update | None = None,
    ) -> Totals:
        """Fill ``g`` and ``h`` of output k, whose raw prediction is ``raw``; see
        ``kernels.statistics.gradients``."""
        return gradients(self.formula(k), target, raw, shared, weight, g, h, update)

    def check_gradients(
        self, totals: Totals, g: Any, h: Any, target: Any, raw: Any, where: str
    ) -> None:
        """Raise ValueError for gradients that trees cannot be grown on; ``where`` is the round."""
        self.check_totals(totals, where)

    def check_totals(self, totals: Totals, where: str) -> None:
        """The same, as far as totals tell."""
        if not all(total < math.inf for total in totals):
            raise ValueError(
                f"The gradients of {where} do not fit float32: divide y or sample_weight by a "
                "constant, or lower learning_rate."
            )

    def leaf_values(self, rows: LeafRows, k: int) -> NodeValues:
        """What the nodes of a tree of output k add, and the sums of their hessians."""
        of_rows = rows.g, rows.h, rows.totals
        return newton_steps(rows.trees, rows.i, *of_rows, rows.l2, rows.min_sum_hessian)

    def mean(self, y: Any, raw: Any, weight: Any, device: Device) -> float:
        """Weighted mean of the loss over the rows; the same number on every device."""
        return self.mean_later(y, raw, weight, device)()

    def mean_later(self, y: Any, raw: Any, weight: Any, device: Device) -> Later:
        """The same for whoever has other things to do until it is there."""
        return self.mean_of(self.formula, y, raw, weight, device)

    def mean_of(
        self, formula: Callable[[int], Any], y: Any, raw: Any, weight: Any, device: Device
    ) -> Later:
        """The same of any value: ``formula(k)`` is that of output k."""
        shared = self.shared(y, raw, device)
        total = row_values(formula(0), self.targets(y, 0, device), raw[0], shared)
        for k in range(1, self.n_outputs):
            target = self.targets(y, k, device)
            total = total + row_values(formula(k), target, raw[k], shared)
        return mean_later(total, weight, device, self._terms())

    def _terms(self) -> int:
        """How many outputs the loss of a row is the mean of, rather than the sum."""
        return self.n_outputs

    def predict(self, raw: Any, device: Device) -> Any:
        """Predictions from raw ones: (n_rows,) or (n_rows, n_outputs) for regression, else class
        probabilities of shape (n_rows, n_classes)."""
        raise NotImplementedError

    def _with(self: Self, **attributes: Any) -> Self:
        """A copy with other attributes."""
        other = copy.copy(self)
        other.__dict__.update(attributes)
        return other


class RegressionLoss(Loss):
    """Base of the losses that take numbers: one output for each target, independently."""

    def for_targets(self: Self, n_targets: int) -> Self:
        return self._with(n_outputs=n_targets)

    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        outputs = range(self.n_outputs)
        targets = (self.targets(y, k, device) for k in outputs)
        return np.array([self._constant(k, t, weight, device) for k, t in enumerate(targets)])

    def _constant(self, k: int, target: Any, weight: Any, device: Device) -> float:
        """The best constant raw prediction of output k."""
        raise NotImplementedError

    def predict(self, raw: Any, device: Device) -> Any:
        return raw[0].copy() if self.n_outputs == 1 else raw.T.copy()


def first_row(wrong: Any) -> tuple[int, ...]:
    """The place of the first true entry: (row,), or (row, target) where there are several."""
    if wrong.ndim == 1:
        return (int(wrong.argmax()),)
    row = int(wrong.any(axis=0).argmax())
    return row, int(wrong[:, row].argmax())
