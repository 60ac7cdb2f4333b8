"""Boosting on a table whose rows several workers share: what it needs of all rows before the rounds
begin, and what it does not support.

Evaluation sets are not shared: every worker has them as a whole, and computes their metrics itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..devices.placement import Device
from ..estimators.parameters import threads_of
from ..estimators.training import Evaluation
from ..inputs.binning import FEATURES_AT_ONCE, Binner, sample_rows
from ..kernels.runtime.collective import Share, current_share, not_sharing, objects_of_all
from ..losses import Loss
from ..losses.classes import Exponential, Focal, LogLoss
from ..losses.regression import Gamma, Poisson, SquaredError, Tweedie
from ..numerics.weighted import Later
from ..tables.binned_table import BinnedTable
from .metrics import Metric
from .round import TrainingRows

if TYPE_CHECKING:
    from .estimator import RawRows

SHAREABLE_LOSSES = (SquaredError, Poisson, Gamma, Tweedie, LogLoss, Exponential, Focal)
"""Those whose constants and leaf values are made of sums."""


def require_shareable(model: Any, loss: Loss, init: Any) -> None:
    """Raise NotImplementedError for settings that would not give the model of all rows.

    Parameters
    ----------
    model : BoostingEstimator
    loss : Loss
    init : object
        The argument of ``fit``.
    """
    if type(loss) not in SHAREABLE_LOSSES:
        names = ", ".join(repr(each.name) for each in SHAREABLE_LOSSES)
        _refuse("loss", model.loss, f"use one of {names}")
    if model.sampling != "uniform":
        _refuse("sampling", model.sampling, "use sampling='uniform'")
    if model.dropout:
        _refuse("dropout", model.dropout, "use dropout=0")
    if getattr(model, "class_weight", None) is not None:
        _refuse("class_weight", model.class_weight, "pass sample_weight")
    if init is not None:
        _refuse("init", init, "set warm_start=True")
    if getattr(model, "init", None) not in (None, "zero"):
        _refuse("init", model.init, "use init=None or init='zero'")
    if model.min_impurity_decrease != 0.0:
        _refuse("min_impurity_decrease", model.min_impurity_decrease, "use min_gain_to_split")
    if model.min_samples_split != 2:
        _refuse("min_samples_split", model.min_samples_split, "use min_samples_leaf")
    if model.verbose:
        _refuse("verbose", model.verbose, "set verbose=False")
    if any(not getattr(each, "runs_on_every_worker", False) for each in model.callbacks or []):
        _refuse("callbacks", model.callbacks, "set callbacks=None")
    if model.device not in ("auto", "cpu"):
        _refuse("device", model.device, "set device='cpu'")


def _refuse(name: str, value: Any, instead: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}={value!r} is not supported where several workers share the rows: {instead}, or "
        "train on one machine."
    )


def require_whole_table(model: Any) -> None:
    """Raise NotImplementedError where rows would be held out of a shared table."""
    if current_share() is not None:
        fraction = model.validation_fraction
        _refuse("validation_fraction", fraction, "pass eval_set, or set early_stopping=False")


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
                _refuse("scoring", metric.name, "use scoring='loss', or pass eval_set")
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
    found = np.unique(np.concatenate(objects_of_all(classes, share)))
    if len(found) < 2:
        raise ValueError(
            f"y holds 1 class ({found[0]} in every row), the number of classes must be at least 2."
        )
    return found


def fit_shared_binner(model: Any, rows: RawRows, share: Share, device: Device) -> Binner:
    """Return the bins that ``Binner.fit`` chooses for all rows.

    The rows that it samples are gathered, some columns at a time, and each worker cuts its own
    columns.
    """
    if isinstance(rows.table, BinnedTable):
        raise TypeError("X must be an array or a data frame where workers share the rows.")
    if model._n_categories().any():
        _refuse("categorical_features", model.categorical_features, "set it to None")
    collective = share.collective
    sampled = sample_rows(share.n_all, model._seed)
    at = np.arange(share.n_own)
    if sampled is not None:
        inside = (sampled >= share.first) & (sampled < share.first + share.n_own)
        at = sampled[inside] - share.first
    weight = None
    if rows.weight.size:
        weight = np.concatenate(collective.gather(np.ascontiguousarray(rows.weight[at])))
    n_features = rows.table.shape[1]
    cuts: list[np.ndarray] = []
    for begin in range(0, n_features, FEATURES_AT_ONCE * collective.size):
        end = min(begin + FEATURES_AT_ONCE * collective.size, n_features)
        own = np.ascontiguousarray(rows.table[at, begin:end])
        sample = np.concatenate(collective.gather(own))
        bounds = np.linspace(0, end - begin, collective.size + 1).astype(int)
        mine = sample[:, bounds[collective.rank] : bounds[collective.rank + 1]]
        threads = threads_of(model.n_jobs)
        of_mine = Binner.fit(mine, weight, int(model.max_bins), model._seed, device, threads)
        for each in objects_of_all(of_mine.thresholds, share):
            cuts += each
    return Binner(tuple(cuts))
