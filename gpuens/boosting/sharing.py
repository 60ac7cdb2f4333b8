"""Boosting on a table whose rows several workers share: what it needs of all rows before the rounds
begin, and what it does not support.

Evaluation sets are not shared: every worker has them as a whole, and computes their metrics itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..devices.placement import CPU, Device, module_of, to_numpy
from ..devices.sparse_tables import SparseTable
from ..estimators.parameters import threads_of
from ..estimators.training import Evaluation, TrainingState
from ..inputs.binning import FEATURES_AT_ONCE, Binner, sample_rows
from ..inputs.category_bins import count_categories, with_counts
from ..inputs.labels import classes_among_workers
from ..inputs.shared_tables import (
    dealt_rows,
    entries_of_all,
    ranges_among,
    sparse_columns_of_all,
)
from ..inputs.sparse_bins import ENTRIES_AT_ONCE, fit_sparse_binner, parts_of_columns
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import (
    EachAlone,
    Share,
    current_share,
    not_sharing,
    objects_of_all,
)
from ..losses import ArrayLoss, CustomLoss, Loss
from ..losses.classes import Exponential, Focal, LogLoss
from ..losses.distributions import LogNormal, NegativeBinomial, Normal, StudentT
from ..losses.names import OF_RANKINGS
from ..losses.regression import (
    AbsoluteError,
    Gamma,
    Huber,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from ..losses.survival import AFT, Cox
from ..numerics.weighted import Later
from ..tables.binned_table import BinnedTable
from .metrics import Metric
from .round_data import RawRows, TrainingRows

SHAREABLE_LOSSES: tuple[type[Loss], ...] = (
    *(SquaredError, Poisson, Gamma, Tweedie, AbsoluteError, Huber, Quantile),
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
        _refuse("loss", model.loss, f"use one of {names}, a CustomLoss or an ArrayLoss")
    if getattr(model, "init", None) not in (None, "zero"):
        _refuse("init", model.init, "use init=None or init='zero'")


def require_shareable_on(device: Device, model: Any, loss: Loss) -> None:
    """Raise NotImplementedError for losses of shared rows that need the CPU."""
    if device.kind != "cpu" and isinstance(loss, ON_CPUS):
        _refuse(
            "device", model.device,
            f"loss={loss!r} orders the rows of all workers on the host: set device='cpu'",
        )  # fmt: skip


def _refuse(name: str, value: Any, instead: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}={value!r} is not supported where several workers share the rows: {instead}, or "
        "train on one machine."
    )


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
        RawRows(name, *(dealt_rows(values, order, parts, share) for values in rows[1:]))
        for name, order, parts in (
            (rows.data, train, ranges),
            ("validation", held_out, [(0, held_out.size)]),
        )
    ]
    if len(ranges) == 1:
        return sets, Share(EachAlone(share.collective.group), 0, train.size, train.size)
    begin, end = ranges[share.collective.rank]
    return sets, Share(share.collective, begin, end - begin, train.size)


def _rows_on_host(values: Array, at: np.ndarray) -> np.ndarray:
    """Return some rows of an array as a contiguous one on the host."""
    return np.ascontiguousarray(to_numpy(values[module_of(values).asarray(at)]))


def fit_shared_binner(model: Any, rows: RawRows, share: Share, device: Device) -> Binner:
    """Return the bins that ``Binner.fit`` chooses for all rows.

    The rows that it samples are gathered, some columns at a time, and each worker cuts its own
    columns.
    """
    if isinstance(rows.table, BinnedTable):
        raise TypeError("X must be an array or a data frame where workers share the rows.")
    collective = share.collective
    at, first, n_used = np.arange(share.n_own), share.first, share.n_all
    if rows.weight.size:
        at = np.flatnonzero(to_numpy(rows.weight) > 0)
        of_workers = objects_of_all(at.size, share)
        first, n_used = sum(of_workers[: collective.rank]), sum(of_workers)
    sampled = sample_rows(n_used, model._seed)
    if sampled is not None:
        inside = (sampled >= first) & (sampled < first + at.size)
        at = at[sampled[inside] - first]
    weight = None
    if rows.weight.size:
        weight = np.concatenate(collective.gather(_rows_on_host(rows.weight, at)))
    if isinstance(rows.table, SparseTable):
        if device.is_gpu:
            _refuse("device", model.device, "set device='cpu' for a sparse X")
        own_rows = rows.table if at.size == share.n_own else rows.table[at]
        return _fit_shared_sparse_binner(model, own_rows, weight, share)
    n_features = rows.table.shape[1]
    cuts: list[np.ndarray] = []
    for begin in range(0, n_features, FEATURES_AT_ONCE * collective.size):
        end = min(begin + FEATURES_AT_ONCE * collective.size, n_features)
        own = _rows_on_host(rows.table[:, begin:end], at)
        sample = np.concatenate(collective.gather(own))
        bounds = np.linspace(0, end - begin, collective.size + 1).astype(int)
        mine = sample[:, bounds[collective.rank] : bounds[collective.rank + 1]]
        threads = threads_of(model.n_jobs)
        of_mine = Binner.fit(mine, weight, int(model.max_bins), model._seed, CPU, threads)
        for each in objects_of_all(of_mine.thresholds, share):
            cuts += each
    binner = Binner(tuple(cuts))
    n_categories = model._n_categories()
    if not n_categories.any():
        return binner
    of_rows = rows.weight if rows.weight.size else None
    counts = count_categories(rows.table, of_rows, n_categories, device)
    for of_feature in counts:
        if of_feature is not None:
            collective.add(of_feature)
    how = int(model.max_bins), int(model.cat_hash_groups), model._seed
    return with_counts(binner, counts, *how)


def _fit_shared_sparse_binner(
    model: Any, sample: SparseTable, weight: np.ndarray | None, share: Share
) -> Binner:
    """Return the bins of the columns of a sparse table, from each worker's rows of the sample and
    the weights of all rows of it."""
    collective = share.collective
    indptr = np.cumsum(np.append(0, entries_of_all(sample)))
    cuts: list[np.ndarray] = []
    for features in parts_of_columns(indptr, ENTRIES_AT_ONCE):
        table = sparse_columns_of_all(sample, slice(features.start, features.stop), share)
        bounds = np.linspace(0, len(features), collective.size + 1).astype(int)
        mine = table.columns(slice(*bounds[collective.rank : collective.rank + 2]))
        of_mine = fit_sparse_binner(mine, weight, int(model.max_bins), model._seed)
        for each in objects_of_all(of_mine.thresholds, share):
            cuts += each
    return Binner(tuple(cuts))
