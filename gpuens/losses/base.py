"""The interface of the losses of gradient boosting.

A loss defines how many raw predictions a row has, where they start, their gradients, the values of
leaves, and how raw predictions become predictions. Its formulas are defined in
``gpuens.kernels.scalars.losses``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..devices.placement import Device
from ..forest.sum_of_trees import IDENTITY, Link
from ..kernels.boosting.many_models import values_of_models
from ..kernels.leaves.newton_steps import newton_steps
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..kernels.runtime.dtypes import NodeValues, Totals, Update
from ..kernels.runtime.each import each
from ..kernels.statistics.gradients import (
    NO_CLASS,
    gradients,
    gradients_of_outputs,
    row_values,
)
from ..numerics.weighted import Later, mean_later
from .joint_rows import JointRows
from .leaves import LeafBatch

Self = TypeVar("Self", bound="Loss")
GradientInputs = tuple[Any, Array, Array, Array, Array]
"""The first arguments of ``kernels.statistics.gradients``, from the formula to the weights."""


class Loss:
    """A loss of gradient boosting.

    Raw predictions, targets and weights are arrays on one device. ``raw`` has shape
    (n_outputs, n_rows); ``y`` has shape (n_rows,), or (n_targets, n_rows) where there are
    several targets; ``weight`` is empty where every weight is 1.

    Losses are immutable: methods that adapt one to targets or classes return another.
    """

    name: ClassVar[str]
    """Its name in the parameter ``loss``."""
    exact_leaves: ClassVar[bool] = False
    """Whether the leaf values minimise the loss, so that a line search finds a step of 1."""
    coupled: ClassVar[bool] = False
    """Whether the gradients of an output depend on the others."""
    reads_all_rows: ClassVar[bool] = False
    """Whether every worker of those that share a table needs the raw predictions of all rows."""
    checks_rows: ClassVar[bool] = False
    """Whether ``check_gradients`` needs the gradients of every row, not only their totals."""
    reads_raw: ClassVar[bool] = False
    """Whether a round needs the raw predictions for more than the gradients."""
    has_hessian: ClassVar[bool] = True
    """Whether hessians estimate the distance to the minimum."""
    has_value: ClassVar[bool] = True
    """Whether the metric "loss" can be computed."""
    row_bytes: ClassVar[int] = 0
    """Bytes of a row in rankings and risk sets."""
    n_outputs: int = 1
    workers: Workers = ONE_WORKER
    """Those that share the rows (see ``among``)."""

    @property
    def link(self) -> Link | None:
        """From raw predictions to predictions; None: a function that no other format knows."""
        return None

    def for_targets(self: Self, n_targets: int) -> Self:
        """Return the loss for a regression.

        Raises
        ------
        ValueError
            It is a loss of classes, or supports one target only.
        """
        raise ValueError(
            f"loss={self!r} is a loss of classes. A regressor takes "
            "'squared_error', 'absolute_error', 'huber', 'quantile', 'expectile', 'poisson', "
            "'gamma', 'tweedie' or a function."
        )

    def for_classes(self, n_classes: int) -> Loss:
        """Return the loss for a classification.

        Raises
        ------
        ValueError
            It is a loss of regression, or does not support so many classes.
        """
        raise ValueError(
            f"loss={self!r} is a loss of regression. A classifier takes 'log_loss', "
            "'exponential', 'focal' or a function."
        )

    def among(self: Self, workers: Workers) -> Self:
        """Return the loss of rows that workers share: what it measures is of the rows of all."""
        return self if workers is self.workers else self._with(workers=workers)

    def check_target(self, y: Array, name: str) -> None:
        """Raise ValueError if the loss is not defined for a target."""

    def check_training(self, y: Array, weight: Array, device: Device) -> None:
        """Raise ValueError if the training targets have no best constant."""

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        """Return the best constant raw prediction, float64 of shape (n_outputs,)."""
        raise NotImplementedError

    def formula(self, k: int) -> Any:
        """Return the named tuple of ``kernels.scalars.losses`` for output k."""
        raise NotImplementedError

    def on_training_rows(
        self: Self, y: Array, weight: Array, base: np.ndarray, device: Device
    ) -> Self:
        """Return the loss that the metric "loss" computes, the same in all rounds."""
        return self

    def in_round(
        self: Self, index: int, y: Array, raw: Array, whole_weight: Array, sample: Array,
        device: Device,
    ) -> Self:  # fmt: skip
        """Return the loss of a round of boosting, counted from 0.

        ``whole_weight`` comes from ``whole_weights``; ``sample`` (int32) holds the rows that take
        part, all if it is empty.
        """
        return self

    @staticmethod
    def in_round_of_models(
        losses: Sequence[Any], rows: JointRows, samples: Sequence[Array]
    ) -> Sequence[Any]:
        """Return the losses of a round of several models, all of one class, each as ``in_round``
        does; of ``rows`` the ``samples`` take part. A loss that has its own ``in_round`` grows
        with others only if it has this, too."""
        return losses

    def target_type(self, device: Device) -> np.dtype:
        """Return the type in which the rounds of a training keep the targets: float64, or one that
        holds the same numbers and that the operations on the device take."""
        return np.dtype(np.float64)

    def targets(self, y: Array, k: int, device: Device) -> Array:
        """Return the target of output k, of shape (n_rows,): float64 or as y is."""
        return y if y.ndim == 1 else y[k]

    def joint_targets(self, y: Array, outputs: range) -> tuple[Array, int]:
        """Return the targets of several outputs and the first class, as
        ``kernels.statistics.gradients.gradients_of_outputs`` takes them."""
        return y if y.ndim == 1 else y[outputs.start : outputs.stop], NO_CLASS

    def shared(self, y: Array, raw: Array, device: Device) -> Array:
        """Compute the rows' values that the gradients of all outputs share.

        A loss that ``has_plain_gradients`` also takes raw predictions of several models,
        (n_models, n_outputs, n_rows), and does not read ``y``; the result has a line a model then,
        or no rows.
        """
        return raw[..., :0].reshape(-1)  # no rows: cheaper than a new array

    @property
    def has_plain_gradients(self) -> bool:
        """Whether the gradients are those that the formulas give for targets, raw predictions and
        shared values as they are, so that one launch may compute those of several models."""
        own = type(self)
        is_own_in_round = own.in_round is not Loss.in_round
        if is_own_in_round and own.in_round_of_models is Loss.in_round_of_models:
            return False
        return (
            own.gradients is Loss.gradients
            and own.gradient_inputs is Loss.gradient_inputs
            and own.gradients_of_outputs is Loss.gradients_of_outputs
        )

    def gradients(
        self,
        k: int,
        target: Array,
        raw: Array,
        shared: Array,
        weight: Array,
        g: Array,
        h: Array,
        update: Update | None = None,
    ) -> Totals:
        """Fill ``g`` and ``h`` of output k, whose raw prediction is ``raw``; see
        ``kernels.statistics.gradients``. ``update`` is None for losses whose
        gradients are computed from all raw predictions (``reads_raw``)."""
        given = self.gradient_inputs(k, target, raw, shared, weight)
        return gradients(*given, g, h, self.workers, update)

    def gradient_inputs(
        self, k: int, target: Array, raw: Array, shared: Array, weight: Array
    ) -> GradientInputs:
        """Return the formula of output k, and the target, raw predictions, shared values and
        weights that it takes."""
        return self.formula(k), target, raw, shared, weight

    def gradients_of_outputs(
        self,
        outputs: range,
        y: Array,
        raw: Array,
        shared: Array,
        weight: Array,
        g: Array,
        h: Array,
        device: Device,
    ) -> Sequence[Totals]:
        """Fill ``g`` and ``h`` of several outputs, arrays of a line an output as ``raw``; see
        ``kernels.statistics.gradients``."""
        formulas = [self.formula(k) for k in outputs]
        if len(set(formulas)) > 1:

            def one(i: int) -> Totals:
                k = outputs[i]
                target = self.targets(y, k, device)
                return self.gradients(k, target, raw[i], shared, weight, g[i], h[i])

            return each(one, range(len(outputs)), g[0], self.workers)
        target, first_class = self.joint_targets(y, outputs)
        return gradients_of_outputs(
            formulas[0], target, raw, shared, weight, g, h, first_class, self.workers
        )

    def check_gradients(
        self, totals: Totals, g: Array, h: Array, target: Array, raw: Array, where: object
    ) -> None:
        """Raise ValueError unless trees can be grown on the gradients; ``where`` is the round."""
        self.check_totals(totals, where)

    def check_totals(self, totals: Totals, where: object) -> None:
        """Raise ValueError unless the totals of the gradients are finite."""
        if not sum(totals) < math.inf:  # none is negative, and float64 has room for their sum
            raise ValueError(
                f"The gradients of {where} do not fit float32: divide y or sample_weight by a "
                "constant, or lower learning_rate."
            )

    def leaf_values(self, batch: LeafBatch, outputs: range) -> Sequence[NodeValues]:
        """Compute the values of the nodes of a batch of trees, one an output, and the sums of their
        hessians."""
        l2, min_sum_hessian = batch.params.l2, batch.params.min_sum_hessian
        largest = self.largest_step(batch.learning_rate)
        return newton_steps(
            batch.trees, batch.g, batch.h, batch.totals, l2, min_sum_hessian, largest, self.workers
        )

    def safe_rate(self, learning_rate: float) -> float:
        """Return the factor on the trees of a round that is asked for by a learning rate."""
        return learning_rate

    def largest_step(self, learning_rate: float) -> float:
        """Return the largest Newton step of a leaf, before shrinkage, that is known not to raise
        the loss (see ``safe_steps``); infinite where every one is safe, or nothing is known."""
        return math.inf

    def mean(self, y: Array, raw: Array, weight: Array, device: Device) -> float:
        """Return the weighted mean of the loss over the rows, the same on every device."""
        return self.mean_later(y, raw, weight, device)()

    def mean_later(self, y: Array, raw: Array, weight: Array, device: Device) -> Later:
        """Asynchronous ``mean``: returns a callable that waits for the value."""
        return self.mean_of(self.formula, y, raw, weight, device)

    def mean_of(
        self, formula: Callable[[int], Any], y: Array, raw: Array, weight: Array, device: Device
    ) -> Later:
        """Asynchronous mean of any function of a row: ``formula(k)`` is that of output k."""
        shared = self.shared(y, raw, device)
        total = row_values(formula(0), self.targets(y, 0, device), raw[0], shared)
        for k in range(1, self.n_outputs):
            target = self.targets(y, k, device)
            total = total + row_values(formula(k), target, raw[k], shared)
        return mean_later(total, weight, device, self.workers, self.n_terms)

    @staticmethod
    def values_of_models(losses: Sequence[Any], rows: JointRows) -> Array:
        """Return the loss of each row of several models whose losses are of one class and have
        plain means, float64 of shape (n_models, n_rows)."""
        n_models, n_outputs = len(losses), losses[0].n_outputs
        formulas = [loss.formula(k) for loss in losses for k in range(n_outputs)]
        shared = losses[0].shared(rows.target, rows.raw_of_models, rows.device)
        values = values_of_models(
            formulas, rows.target, rows.raw, shared, rows.first_class, n_models
        )
        of_models = values.reshape(n_models, n_outputs, -1)
        total = of_models[:, 0]
        for k in range(1, n_outputs):
            total = total + of_models[:, k]
        return total

    @property
    def has_plain_mean(self) -> bool:
        """Whether the mean is that of ``values_of_models``."""
        own = type(self)
        is_plain = own.mean_later is Loss.mean_later and own.mean_of is Loss.mean_of
        return is_plain and self.has_plain_gradients

    def _mean(self, values: Array, weight: Array, device: Device) -> float:
        """Return the weighted mean of values of the rows."""
        return mean_later(values, weight, device, self.workers)()

    @property
    def n_terms(self) -> int:
        """The number that the sum over the outputs is divided by."""
        return self.n_outputs

    def predict(self, raw: Array, device: Device) -> Array:
        """Turn raw predictions into predictions: (n_rows,) or (n_rows, n_outputs) for regression,
        class probabilities of shape (n_rows, n_classes) for classification."""
        raise NotImplementedError

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        """Turn predictions, as ``predict`` returns them, into raw ones, (n_outputs, n_rows).

        Raises
        ------
        ValueError
            A prediction is not possible with this loss, or the loss has no known link.
        """
        raise NotImplementedError

    def _with(self: Self, **attributes: Any) -> Self:
        """Return a copy with other attributes."""
        other = copy.copy(self)
        other.__dict__.update(attributes)
        return other


class RegressionLoss(Loss):
    """A loss of regression: one output for each target, independently."""

    @property
    def link(self) -> Link | None:
        return IDENTITY

    def for_targets(self: Self, n_targets: int) -> Self:
        return self._with(n_outputs=n_targets)

    def base_score(self, y: Array, weight: Array, device: Device) -> np.ndarray:
        outputs = range(self.n_outputs)
        targets = (self.targets(y, k, device) for k in outputs)
        return np.array([self._constant(k, t, weight, device) for k, t in enumerate(targets)])

    def _constant(self, k: int, target: Array, weight: Array, device: Device) -> float:
        """Return the best constant raw prediction of output k."""
        raise NotImplementedError

    def predict(self, raw: Array, device: Device) -> Array:
        return raw[0].copy() if self.n_outputs == 1 else raw.T.copy()

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        return columns_first(predicted)


def columns_first(predicted: np.ndarray) -> np.ndarray:
    """Return predictions of one column (n_rows,), or of several, as (n_columns, n_rows)."""
    return predicted.T if predicted.ndim == 2 else predicted[None]


def first_row(wrong: Array) -> tuple[int, ...]:
    """Locate the first true entry: (row,), or (row, target) for several targets."""
    if wrong.ndim == 1:
        return (int(wrong.argmax()),)
    row = int(wrong.any(axis=0).argmax())
    return row, int(wrong[:, row].argmax())
