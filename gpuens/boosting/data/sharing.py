"""Boosting on a table whose rows several workers share: what it needs of all rows before the rounds
begin, and what it does not support.

Evaluation sets are not shared: every worker has them as a whole, and computes their metrics itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...devices.placement import Device, to_numpy
from ...estimators.training import TrainingState
from ...inputs.shared_tables import dealt_rows, ranges_among
from ...kernels.runtime.collective import ONE_WORKER, Alone, Workers, objects_of_all
from ...losses import ArrayLoss, CustomLoss, Loss
from ...losses.classes import Exponential, Focal, LogLoss
from ...losses.distributions import LogNormal, NegativeBinomial, Normal, StudentT
from ...losses.names import OF_RANKINGS
from ...losses.regression import (
    AbsoluteError,
    Expectile,
    Gamma,
    Huber,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from ...losses.survival import AFT, Cox
from ..metrics import Metric
from ..round_data import RawRows, TrainingRows
from .tables import refuse

SHAREABLE_LOSSES: tuple[type[Loss], ...] = (
    *(SquaredError, Poisson, Gamma, Tweedie, AbsoluteError, Huber, Quantile, Expectile),
    *(LogLoss, Exponential, Focal, Normal, LogNormal, StudentT, NegativeBinomial),
    *(*OF_RANKINGS, AFT, Cox, CustomLoss, ArrayLoss),
)
"""Those whose constants and leaf values are made of sums over rows, or are quantiles, and whose
gradients are those of a row, or are computed from the scores of all rows."""


ON_CPUS: tuple[type[Loss], ...] = (*OF_RANKINGS, AFT, Cox)
"""Those that are shared on CPUs alone."""


def require_shareable(model: Any, loss: Loss) -> None:
    """Raise NotImplementedError for settings that would not give the model of all rows.

    Parameters
    ----------
    model : BoostingEstimator
    loss : Loss
    """
    if type(loss) not in SHAREABLE_LOSSES:
        names = ", ".join(repr(each.name) for each in SHAREABLE_LOSSES[:-2])
        refuse("loss", model.loss, f"use one of {names}, a CustomLoss or an ArrayLoss")
    if getattr(model, "init", None) not in (None, "zero"):
        refuse("init", model.init, "use init=None or init='zero'")


def require_shareable_on(device: Device, model: Any, loss: Loss) -> None:
    """Raise NotImplementedError for losses of shared rows that need the CPU."""
    if device.kind != "cpu" and isinstance(loss, ON_CPUS):
        refuse(
            "device", model.device,
            f"loss={loss!r} orders the rows of all workers on the host: set device='cpu'",
        )  # fmt: skip


def require_shareable_metrics(
    watched: Sequence[tuple[str, TrainingRows]], metrics: Sequence[Metric]
) -> None:
    """Raise NotImplementedError for a metric other than the loss of rows that are shared; the
    evaluation sets are not."""
    for _, rows in watched:
        for metric in metrics:
            if rows.workers is not ONE_WORKER and metric.name != "loss":
                refuse("scoring", metric.name, "use scoring='loss', or pass eval_set")


def callbacks_of_all(callbacks: Sequence[Any], workers: Workers) -> list[Any]:
    """Return the callbacks of this worker. Those of the user are called on the first worker, whose
    decision holds for all."""
    everywhere = [each for each in callbacks if getattr(each, "runs_on_every_worker", False)]
    others = [each for each in callbacks if each not in everywhere]
    if not others:
        return everywhere
    group = workers._replace(collective=workers.collective.group)
    return [_OnFirstWorker(others, group), *everywhere]


class _OnFirstWorker:
    """A callback that calls others on the first worker, and shares their result."""

    def __init__(self, callbacks: Sequence[Any], workers: Workers) -> None:
        self._callbacks, self._workers = callbacks, workers
        self._is_first = workers.collective.rank == 0

    def after_iteration(self, state: TrainingState) -> bool:
        stop, error = False, None
        if self._is_first:
            try:
                calls = [getattr(each, "after_iteration", each) for each in self._callbacks]
                results = [call(state) for call in calls]
                stop = any(results)
            except Exception as failure:
                error = failure
        stop, text = objects_of_all((stop, repr(error) if error else ""), self._workers)[0]
        if error is not None:
            raise error
        if text:
            raise RuntimeError(f"A callback has failed on the first worker: {text}")
        return stop

    def after_training(self, state: TrainingState) -> None:
        for each in self._callbacks if self._is_first else ():
            if hasattr(each, "after_training"):
                each.after_training(state)


def hold_out(
    rows: RawRows, split: Callable[[Any, Any], tuple[np.ndarray, np.ndarray]], reads_target: bool
) -> list[RawRows]:
    """Hold rows out of a shared table: return the training rows of this worker, of those that are
    left, dealt to the workers again, and all rows held out.

    Parameters
    ----------
    rows : RawRows
        Of this worker.
    split : callable
        Returns the numbers of the rows to train on, in the order to train in, and of those to hold
        out, from the targets and the weights of all rows.
    reads_target : bool
        Whether it needs the targets.
    """
    workers = rows.table.workers
    collective = workers.collective
    target = np.broadcast_to(0.0, workers.n_all)
    has_weight = rows.weight > 0
    if reads_target:
        target = np.concatenate(collective.gather(to_numpy(rows.target)))
    if rows.weight.size:
        has_weight = np.concatenate(collective.gather(to_numpy(has_weight)))
    train, held_out = split(target, has_weight)
    ranges = ranges_among(collective.size, train.size)
    new = Workers(Alone(collective.group), 0, train.size, train.size)
    if len(ranges) > 1:
        begin, end = ranges[collective.rank]
        new = Workers(collective, begin, end - begin, train.size)
    return [
        RawRows(
            name,
            rows.table.dealt(order, parts, own),
            *(dealt_rows(values, order, parts, workers) for values in (rows.target, rows.weight)),
        )
        for name, order, parts, own in (
            (rows.data, train, ranges, new),
            ("validation", held_out, [(0, held_out.size)], ONE_WORKER),
        )
    ]
