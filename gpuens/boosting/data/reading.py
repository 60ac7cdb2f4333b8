"""The rows that boosting is trained and evaluated on: named, read, held out, and checked."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ...devices.placement import CPU, Device, home_of, to_numpy
from ...devices.policy import size_of
from ...estimators.validation import split_rows
from ...inputs.categories import read_features
from ...inputs.shared_tables import agreed_table
from ...inputs.targets import read_sample_weight, weights_in_range
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import ONE_WORKER, Workers
from ...losses import Loss
from ...losses.survival import SurvivalLoss
from ...tables.binned_table import BinnedTable
from ..parameters import BoostingParameters
from ..round_data import RawRows, Training
from ..steps.linear_leaves import require_linear
from .memory import reading_plan
from .sharing import hold_out
from .tables import table_of

AUTO_EARLY_STOPPING_ROWS = 10_000
LARGEST = 1e37
"""Largest target and weight, well below the largest float32."""


class EvalSet(NamedTuple):
    """Further rows, as the user passed them.

    ``data`` is their key in ``evals_result_``; ``names`` are the arrays' in error messages.
    ``of_queries`` holds what a ranking has besides; ``workers`` share the training rows.
    """

    X: Any
    y: Any
    weight: Any
    data: str
    names: tuple[str, str, str]
    of_queries: Any = None
    workers: Workers = ONE_WORKER


def eval_sets(
    eval_set: Any,
    weights: Any,
    validation: tuple[Any, Any, Any] = (None, None, None),
    early_stopping: bool | str = False,
) -> list[EvalSet]:
    """Read the arguments that hold further rows.

    Parameters
    ----------
    eval_set : (X, y), list of these, or None
    weights : array for a single pair, list of arrays and None for a list, or None
    validation : tuple
        scikit-learn's names for one set: ``X_val``, ``y_val`` and ``sample_weight_val``.
    early_stopping : bool or "auto"
        Of the estimator.

    Raises
    ------
    ValueError, TypeError
        Names the argument, what it got and what it wants.
    """
    given = any(part is not None for part in validation)
    sets = [_validation_set(*validation, eval_set, early_stopping)] if given else []
    if eval_set is None:
        eval_set = []
    elif isinstance(eval_set, tuple):
        eval_set, weights = [eval_set], None if weights is None else [weights]
    if not isinstance(eval_set, list):
        raise TypeError(
            f"eval_set must be a pair (X, y) or a list of these, got {type(eval_set).__name__}."
        )
    for i, pair in enumerate(eval_set):
        if not isinstance(pair, tuple) or len(pair) != 2:
            size = f" of length {len(pair)}" if isinstance(pair, tuple) else ""
            raise ValueError(
                f"eval_set[{i}] must be a pair (X, y), got {type(pair).__name__}{size}."
            )
    if weights is None:
        weights = [None] * len(eval_set)
    if not isinstance(weights, (list, tuple)) or len(weights) != len(eval_set):
        size = f" of length {len(weights)}" if hasattr(weights, "__len__") else ""
        raise ValueError(
            f"eval_sample_weight must be a list with an array (or None) for each of the "
            f"{len(eval_set)} evaluation sets, got {type(weights).__name__}{size}."
        )
    sets += [
        EvalSet(X, y, weight, f"validation_{i}", _names(f"eval_set[{i}] "))
        for i, ((X, y), weight) in enumerate(zip(eval_set, weights, strict=True))
    ]
    return sets


def _names(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}X", f"{prefix}y", f"{prefix}sample_weight"


def _validation_set(
    X_val: Any, y_val: Any, weight: Any, eval_set: Any, early_stopping: bool | str
) -> EvalSet:
    """Read scikit-learn's names, of which one is not None. Raises a ValueError if the others are
    not there, early stopping is off, or ``eval_set`` is given too."""
    if X_val is None and y_val is None:
        raise ValueError(
            "sample_weight_val is provided, but X_val and y_val were not provided: pass the "
            "rows that the weights belong to."
        )
    for given, missing, array in (("X_val", "y_val", y_val), ("y_val", "X_val", X_val)):
        if array is None:
            raise ValueError(f"{given} is provided, but {missing} was not provided: pass both.")
    if eval_set is not None:
        raise ValueError(
            "X_val and eval_set are two names for rows to validate on: pass all of them in "
            "eval_set, as [(X_val, y_val), ...], or X_val and y_val alone."
        )
    if not early_stopping:
        raise ValueError(
            "X_val and y_val are passed to fit while at the same time early_stopping is False: "
            "set early_stopping to True or 'auto', or pass eval_set=[(X_val, y_val)] to record "
            "the metrics alone."
        )
    return EvalSet(X_val, y_val, weight, "validation", ("X_val", "y_val", "sample_weight_val"))


class ReadsRows(BoostingParameters):
    """The part of an estimator that reads rows: a mixin of ``BoostingEstimator``."""

    _seed: int
    _fitted_loss: Loss
    _categories: Any = None
    n_features_in_: int
    do_early_stopping_: bool

    def _stops_early(self, n_rows: int, has_eval_set: bool) -> bool:
        if self.early_stopping == "auto":
            return has_eval_set or n_rows > AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _read_sets(
        self, given: list[EvalSet], loss: Loss, device: Device, reset: bool
    ) -> list[RawRows]:
        """Read the training rows, which are the first, and the sets to evaluate, those that are
        held out included; several targets come first, then the rows."""
        sets = [self._read(rows, device, rows is given[0], reset) for rows in given]
        self._fitted_loss = loss = self._bound(loss, sets[0].target)
        for rows, read in zip(given, sets, strict=True):
            target = read.target
            loss.check_target(target if target.ndim == 1 else target.T, rows.names[1])
        self.do_early_stopping_ = self._stops_early(sets[0].table.n_all, len(sets) > 1)
        if self.linear_leaves:
            require_linear(self, loss, [rows.table for rows in sets])
        if self.do_early_stopping_:
            sets = self._hold_out(sets, device)
        kind = loss.target_type(device)
        targets = [device.asarray(rows.target, kind) for rows in sets]
        return [
            rows._replace(target=target if target.ndim == 1 else target.T.copy())
            for rows, target in zip(sets, targets, strict=True)
        ]

    def _hold_out(self, sets: list[RawRows], device: Device) -> list[RawRows]:
        """Hold rows out for early stopping if no evaluation set is given."""
        if len(sets) > 1 or self.validation_fraction is None:
            return sets
        if sets[0].table.workers is not ONE_WORKER:
            return hold_out(sets[0], self._split, self._split_reads_target())
        data, table, target, weight = sets[0]
        split = self._split(target, weight)
        return [
            RawRows(
                name,
                table.rows(own, device),
                target[home_of(target, device).asarray(own)],
                weight[at] if weight.size else weight,
            )
            for name, own, at in zip(
                (data, "validation"), split, map(device.asarray, split), strict=True
            )
        ]

    def _split_reads_target(self) -> bool:
        return self._n_classes() > 0

    def _split(self, target: Array, weight: Array) -> tuple[np.ndarray, np.ndarray]:
        """Draw the rows to train on and those to hold out."""
        fraction, n = self.validation_fraction, target.shape[0]
        return split_rows(n, target, weight, fraction, self._n_classes(), self._seed)

    def _read(self, rows: EvalSet, device: Device, fit: bool, reset: bool) -> RawRows:
        """Read a set; ``fit`` for the training rows, ``reset`` if their features are new."""
        X, y, weight = rows.names
        workers = rows.workers
        values = rows.X
        if not isinstance(values, BinnedTable):
            values = read_features(
                rows.X,
                home_of(rows.X, device),
                estimator=self,
                reset=fit and reset,
                categorical_features=self.categorical_features,
                name=X,
                workers=workers,
            )
            if workers is not ONE_WORKER:
                values = agreed_table(values, self, workers)
        elif fit and reset:
            values.describe(self)
        table = table_of(values, workers)
        shape, shape_of_y = table.shape, tuple(getattr(rows.y, "shape", ()))
        n = shape[0]
        if not device.is_gpu:
            n_targets = int(shape_of_y[1]) if len(shape_of_y) == 2 else 1
            reading_plan(shape, n_targets + (rows.weight is not None), device).require()
        target = self._read_y(rows, n, home_of(rows.y, device), fit)
        weights = read_sample_weight(rows.weight, n, device, name=weight, workers=workers)
        weights = self._class_weighted(target, weights, device, fit, workers)
        weights = device.xp.empty(0) if weights is None else weights_in_range(weights, workers)
        _require_float32(target, y)
        _require_float32(weights, weight)
        return RawRows(rows.data, table, target, weights)

    def _class_weighted(
        self, target: Array, weight: Array | None, device: Device, fit: bool, workers: Workers
    ) -> Array | None:
        return weight

    def _rows_to_deal(self, rows: RawRows) -> int:
        """Return how many rows can be held out in turn."""
        weight = rows.weight
        return int((weight > 0).sum()) if weight.size else int(rows.table.shape[0])

    def _labels_of_folds(self, training: Training) -> np.ndarray:
        """Return what ``draw_folds`` deals the rows by."""
        y = training.rows.y
        return to_numpy(y).astype(np.int64) if self._n_classes() else np.empty(0, np.int64)

    def _n_categories(self) -> np.ndarray:
        """Return the number of categories of each feature, 0 for a numeric one."""
        categories = self._categories
        if categories is None:
            return np.zeros(self.n_features_in_, np.int32)
        return categories.n_categories

    @abstractmethod
    def _read_y(self, rows: EvalSet, n: int, device: Device, fit: bool) -> Array:
        """Read the target as float64; class numbers for a classifier."""

    @abstractmethod
    def _bound(self, loss: Loss, target: Array) -> Loss:
        """Return the loss for the targets."""

    def _n_classes(self) -> int:
        """Return the number of classes, 0 for a regression."""
        return 0


TIMES_COLUMNS = 4
"""Numbers of a row while its times are read: both, and both in the target."""


def with_times(given: list[EvalSet], loss: SurvivalLoss, estimator: Any) -> list[EvalSet]:
    """Return sets whose y has the times of their rows, float64 of shape (n_rows, 2), if there is
    memory to read them."""
    if not (estimator.init is None or isinstance(estimator.init, str)):
        raise ValueError(
            f"init must be None or 'zero' with loss={loss.name!r}, got {estimator.init!r}: an "
            "estimator cannot be fitted to censored times."
        )
    read = []
    for rows in given:
        reading_plan(size_of(rows.X), TIMES_COLUMNS, CPU).require()
        times = loss.among(rows.workers).read_times(rows.y, rows.names[1])
        read.append(rows._replace(y=times))
    return read


def _require_float32(values: Array, name: str) -> None:
    largest = max(float(values.max()), -float(values.min())) if values.size else 0.0
    if not largest <= LARGEST:
        raise ValueError(
            f"{name} has values up to {largest:.3g}, but gradients are computed in float32: "
            f"divide it by a constant, so that none is above {LARGEST:g}."
        )
