"""Boosting on a table whose rows several workers share: what it needs of all rows before the rounds
begin, and what it does not support.

Evaluation sets are not shared: every worker has them as a whole, and computes their metrics itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...devices.placement import Device, to_numpy
from ...estimators.training import Evaluation, TrainingState
from ...inputs.labels import classes_among_workers
from ...inputs.shared_tables import (
    dealt_rows,
    ranges_among,
)
from ...kernels.runtime.collective import (
    EachAlone,
    Share,
    current_share,
    not_sharing,
    objects_of_all,
)
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
from ...numerics.weighted import Later
from ..metrics import Metric
from ..round_data import RawRows, TrainingRows
from .shared_bins import refuse

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


def evaluations(
    watched: Sequence[tuple[str, TrainingRows]], metrics: Sequence[Metric], training: TrainingRows
) -> list[Evaluation]:
    """Return the metrics of all sets, of which the training rows may be shared.

    Raises
    ------
    NotImplementedError
        A metric other than the loss of shared rows.
    """
    is_shared = current_share() is not None
    found = []
    for data, rows in watched:
        for metric in metrics:
            compute = metric.compute
            if is_shared and rows is not training:
                compute = _of_whole_set(compute)
            elif is_shared and metric.name != "loss":
                refuse("scoring", metric.name, "use scoring='loss', or pass eval_set")
            found.append(Evaluation(data, metric.name, rows, compute))
    return found


def _of_whole_set(compute: Callable[[Any], Later]) -> Callable[[Any], Later]:
    """Return the metric for sets that every worker has as a whole."""

    def of_whole_set(rows: Any) -> Later:
        with not_sharing():
            value = compute(rows)()
        return lambda: value

    return of_whole_set


def classes_of_all(classes: np.ndarray, share: Share) -> np.ndarray:
    """Return the classes of all workers, ascending.

    Raises
    ------
    ValueError
        There is only one.
    """
    found = classes_among_workers(classes, share)
    if len(found) < 2:
        raise ValueError(
            f"y holds 1 class ({found[0]} in every row), the number of classes must be at least 2."
        )
    return found


def is_first_worker() -> bool:
    """Return whether this worker speaks for all, as it does where a table is not shared."""
    share = current_share()
    return share is None or share.collective.group.rank == 0


def callbacks_of_all(callbacks: Sequence[Any]) -> list[Any]:
    """Return the callbacks of this worker. Those of the user are called on the first worker, whose
    decision holds for all."""
    share = current_share()
    if share is None:
        return list(callbacks)
    everywhere = [each for each in callbacks if getattr(each, "runs_on_every_worker", False)]
    others = [each for each in callbacks if each not in everywhere]
    if not others:
        return everywhere
    return [_OnFirstWorker(others, share._replace(collective=share.collective.group)), *everywhere]


class _OnFirstWorker:
    """A callback that calls others on the first worker, and shares their result."""

    def __init__(self, callbacks: Sequence[Any], share: Share) -> None:
        self._callbacks, self._share = callbacks, share
        self._is_first = share.collective.rank == 0

    def after_iteration(self, state: TrainingState) -> bool:
        stop, error = False, None
        if self._is_first:
            try:
                calls = [getattr(each, "after_iteration", each) for each in self._callbacks]
                results = [call(state) for call in calls]
                stop = any(results)
            except Exception as failure:
                error = failure
        stop, text = objects_of_all((stop, repr(error) if error else ""), self._share)[0]
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
) -> tuple[list[RawRows], Share]:
    """Hold rows out of a shared table: return the training rows of this worker and all rows held
    out, and the new share.

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
    share = current_share()
    assert share is not None
    target = np.broadcast_to(0.0, share.n_all)
    has_weight = rows.weight > 0
    if reads_target:
        target = np.concatenate(share.collective.gather(to_numpy(rows.target)))
    if rows.weight.size:
        has_weight = np.concatenate(share.collective.gather(to_numpy(has_weight)))
    train, held_out = split(target, has_weight)
    ranges = ranges_among(share.collective.size, train.size)
    sets = [
        RawRows(
            name,
            rows.table.dealt(order, parts, share),
            *(dealt_rows(values, order, parts, share) for values in (rows.target, rows.weight)),
        )
        for name, order, parts in (
            (rows.data, train, ranges),
            ("validation", held_out, [(0, held_out.size)]),
        )
    ]
    if len(ranges) == 1:
        return sets, Share(EachAlone(share.collective.group), 0, train.size, train.size)
    begin, end = ranges[share.collective.rank]
    return sets, Share(share.collective, begin, end - begin, train.size)
