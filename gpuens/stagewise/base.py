"""What ``StagewiseClassifier`` and ``StagewiseRegressor`` share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted

from ..boosting.parameters import schedule_of
from ..callbacks import callbacks_of
from ..devices.placement import Device, on_host, resolve_device, to_numpy
from ..estimators.all_or_nothing import kept_on_failure
from ..estimators.base import Savable
from ..estimators.parameters import seed_of, threads_of
from ..estimators.training import Evaluation, TrainingPlan, train
from ..estimators.validation import EarlyStopping, holdout_rows
from ..inputs.arrays import to_input_library
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.cpu.team import using_threads
from ..losses import ArrayLoss, Loss, loss_of
from ..members.fitting import input_tags, read_features
from ..members.rows import OWN_PACKAGE, Rows, home_of
from ..trees.trees import DecisionTreeRegressor
from .parameters import check_kinds, check_stagewise_parameters, check_weighted
from .rounds import (
    StagewiseLearners,
    StagewiseResult,
    StagewiseRounds,
    StagewiseRows,
    directions_of,
)

Finish = Callable[[Any, Device], Any]


class Stagewise(Savable, MetaEstimatorMixin, BaseEstimator):
    """What the classifier and the regressor share."""

    _losses: ClassVar[tuple[type[Loss], ...]]
    """What the names that ``loss`` may be stand for."""
    _base_score: np.ndarray
    _fitted_loss: Loss
    _seed: int
    estimators_: list[Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Add base learners stage by stage.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow, with values that the base learners take.
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None
            For base learners whose ``fit`` takes weights. Rows of weight zero are as if they were
            not there.

        Returns
        -------
        self
            Ctrl-C ends the training early and keeps the finished rounds; so does an error in a
            callback, which is raised afterwards.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        """
        check_stagewise_parameters(self)
        kinds = self._kinds()
        check_kinds(kinds)
        if sample_weight is not None:
            check_weighted(kinds)
        loss = self._read_loss()
        device = self._device_for(kinds, X, y=y, sample_weight=sample_weight)
        with kept_on_failure(self), self._working_on(device):
            error = self._fit(X, y, sample_weight, kinds, loss, device)
        if error is not None:
            raise error
        return self

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, kinds: list[Any], loss: Loss, device: Device
    ) -> Exception | None:
        """Train, and return the error of a callback."""
        before = self._result_before()
        if before is None:
            self._seed = seed_of(self.random_state)
        table = Rows(self._read_table(X, kinds, device, before is None), device)
        target = self._read_y(y, table.n, device, before is not None)
        weight = read_sample_weight(sample_weight, table.n, device, estimator=self)
        weight = device.xp.empty(0) if weight is None else weight
        loss = self._bound(loss)
        loss.check_target(target, "y")
        if before is None:
            loss.check_training(target, weight, device)
        elif loss.n_outputs != self._base_score.size:
            raise ValueError(
                "The model that warm_start=True goes on from has "
                f"{self._base_score.size} base learners a round, loss={loss!r} and y ask for "
                f"{loss.n_outputs}: set warm_start=False."
            )
        training, held_out = self._split(table, target, weight, device)
        if before is None:
            base = loss.base_score(training.y, training.weight, device)
        else:
            base = self._base_score
        for rows in (training, held_out):
            if rows is not None:
                rows.raw = self._raw_so_far(rows.table, base, before, device)
        loss_of_rows = loss.on_training_rows(training.y, training.weight, base, device)
        rounds = StagewiseRounds(
            self._learners(kinds, device),
            loss_of_rows,
            schedule_of(self.learning_rate, int(self.n_estimators)),
            training,
            [] if held_out is None else [held_out],
            before or StagewiseResult([], [], [], {}),
            lambda so_far: self._snapshot(so_far, base, loss),
        )
        watched = [("training", training)]
        if held_out is not None:
            watched = [("validation", held_out), *watched]
        stopping = EarlyStopping(int(self.n_iter_no_change), float(self.tol), False)
        plan = TrainingPlan(
            int(self.n_estimators),
            len(before.rates) if before else 0,
            before.evals if before else {},
            [Evaluation(data, "loss", rows, rounds.mean_loss) for data, rows in watched],
            stopping if self.early_stopping else None,
            callbacks_of(self),
        )
        result = rounds.result(train(rounds, plan))
        self._finish(result, base, loss)
        return result.error

    def _learners(self, kinds: list[Any], device: Device) -> StagewiseLearners:
        return StagewiseLearners(
            kinds,
            self.selection == "cyclic",
            bool(self.line_search),
            float(self.subsample),
            self._seed,
            device,
        )

    def _split(
        self, table: Rows, target: Any, weight: Any, device: Device
    ) -> tuple[StagewiseRows, StagewiseRows | None]:
        """Rows to train on and rows held out, neither with rows of weight zero."""
        used = np.flatnonzero(to_numpy(weight)) if weight.size else np.arange(table.n)

        def part(rows: np.ndarray) -> StagewiseRows:
            if rows.size == table.n:
                return StagewiseRows(table, target, weight, None)
            at = device.asarray(rows)
            own_weight = weight[at] if weight.size else weight
            return StagewiseRows(table.part(rows), target[at], own_weight, None)

        if not self.early_stopping or self.validation_fraction is None:
            return part(used), None
        codes = to_numpy(target).astype(np.int64)[used] if self._of_classes() else None
        train, held_out = holdout_rows(
            used.size, self.validation_fraction, codes, self._seed, "validation_fraction"
        )
        return part(used[train]), part(used[held_out])

    def _result_before(self) -> StagewiseResult | None:
        """What a warm start goes on from."""
        if not (self.warm_start and hasattr(self, "estimators_")):
            return None
        if self.n_estimators < self.n_iter_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the "
                f"{self.n_iter_} rounds of the model that warm_start=True goes on from. Raise it, "
                "or set warm_start=False to start anew."
            )
        return StagewiseResult(
            self.estimators_,
            self.estimator_weights_.tolist(),
            self.learning_rates_.tolist(),
            self.evals_result_,
        )

    def _snapshot(self, so_far: StagewiseResult, base: np.ndarray, loss: Loss) -> Any:
        """A fitted copy with the rounds so far, without the callbacks, for checkpoints."""
        model = copy.copy(self)
        model.callbacks = None
        return model._finish(so_far, base, loss)

    def _finish(self, result: StagewiseResult, base: np.ndarray, loss: Loss) -> Any:
        self._base_score, self._fitted_loss = base, loss
        self.estimators_ = result.members
        self.estimator_weights_, self.learning_rates_ = result.weights()
        self.n_iter_ = len(result.rates)
        self.evals_result_ = result.evals
        self.stopped_ = result.stopped
        return self

    def _raw_so_far(
        self, table: Rows, base: np.ndarray, before: StagewiseResult | None, device: Device
    ) -> Any:
        raw = _constants(base, table.n, device)
        if before is not None:
            deque(_added(raw, table, before, device), maxlen=0)
        return raw

    def _predict(self, X: Any, finish: Finish) -> Any:
        """``finish(raw, device)`` of the raw predictions (n_outputs, n_rows), in the array
        library of X."""
        return deque(self._staged(X, finish, last_only=True), maxlen=1).pop()

    def _staged(self, X: Any, finish: Finish, last_only: bool = False) -> Iterator[Any]:
        """What ``_predict`` gives after every round; ``finish`` returns new arrays."""
        check_is_fitted(self)
        kinds = self._kinds()
        device = self._device_for(kinds, X)
        fitted = StagewiseResult(
            self.estimators_, self.estimator_weights_.tolist(), self.learning_rates_.tolist(), {}
        )
        with self._working_on(device):
            table = Rows(self._read_table(X, kinds, device, False), device)
            stages = _added(_constants(self._base_score, table.n, device), table, fitted, device)
        for t in range(1, self.n_iter_ + 1):
            with self._working_on(device):  # not around the yield: it is the caller's time
                raw = next(stages)
                if last_only and t < self.n_iter_:
                    continue
                result = to_input_library(finish(raw, device), X)
            yield result

    def _read_table(self, X: Any, kinds: list[Any], device: Device, reset: bool) -> Any:
        """X as arrays or sparse matrices; what the values may be is the base learners' business."""
        tags = [input_tags(kind) for kind in kinds]
        sparse = all(of_kind.sparse for of_kind in tags)
        values = read_features(X, device, estimator=self, reset=reset, sparse=sparse, allow_nd=True)
        if len({of_kind.allow_nan for of_kind in tags}) > 1:
            # Which kinds are asked is not known beforehand, and some would say nothing.
            assert_all_finite(on_host(values), input_name="X", estimator_name=type(self).__name__)
        return values

    def _kinds(self) -> list[Any]:
        """The base learners that there are to choose from."""
        if self.estimator is None:
            return [
                DecisionTreeRegressor(
                    max_depth=3, max_bins=255, n_jobs=self.n_jobs, device=self.device
                )
            ]
        several = isinstance(self.estimator, (list, tuple))
        return list(self.estimator) if several else [self.estimator]

    def _device_for(self, kinds: list[Any], X: Any, **others: Any) -> Device:
        own = all(type(kind).__module__.partition(".")[0] == OWN_PACKAGE for kind in kinds)
        return (resolve_device if own else home_of)(self.device, X, **others)

    @contextmanager
    def _working_on(self, device: Device) -> Iterator[None]:
        with using_threads(threads_of(self.n_jobs)), device.active():
            yield

    def _read_loss(self) -> Loss:
        """The parameter ``loss``, before the data is known."""
        loss = loss_of(self.loss, self._losses, getattr(self, "quantile", None))
        if isinstance(loss, ArrayLoss) and loss.value is None:
            raise ValueError(
                f"loss={loss!r} has no value, by which rounds are compared: pass "
                "gpuens.losses.ArrayLoss(objective, value=...)."
            )
        return loss

    @property
    def n_estimators_per_iteration_(self) -> int:
        """Base learners that one round adds: one an output."""
        check_is_fitted(self)
        return int(self._base_score.size)

    @property
    def train_score_(self) -> np.ndarray:
        """The mean loss over the training rows after every round, float64 of shape (n_rounds,)."""
        check_is_fitted(self)
        return np.array(self.evals_result_["training"]["loss"][1 : self.n_iter_ + 1])

    @property
    def validation_score_(self) -> np.ndarray:
        """The mean loss over the rows held out, before the first round and after every round that
        was run; empty without early stopping."""
        check_is_fitted(self)
        return np.array(self.evals_result_.get("validation", {}).get("loss", []), np.float64)

    def __len__(self) -> int:
        check_is_fitted(self)
        return len(self.estimators_)

    def __getitem__(self, index: int) -> Any:
        return self.estimators_[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_kinds = [input_tags(kind) for kind in self._kinds()]
        tags.input_tags.sparse = all(of_kind.sparse for of_kind in of_kinds)
        tags.input_tags.allow_nan = all(of_kind.allow_nan for of_kind in of_kinds)
        return tags

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Any:
        """The target as float64: numbers, or class numbers."""

    @abstractmethod
    def _bound(self, loss: Loss) -> Loss:
        """The loss for the target that was read."""

    @abstractmethod
    def _of_classes(self) -> bool:
        """Whether this is a classifier."""


def _constants(base: np.ndarray, n_rows: int, device: Device) -> Any:
    """Raw predictions before the first round: float64, shape (n_outputs, n_rows)."""
    return device.xp.zeros((base.size, n_rows)) + device.asarray(base)[:, None]


def _added(raw: Any, table: Rows, fitted: StagewiseResult, device: Device) -> Iterator[Any]:
    """The raw predictions after every round, all the same array; the sums are those of
    training."""
    n_outputs = raw.shape[0]
    for t, rate in enumerate(fitted.rates):
        of_round = slice(t * n_outputs, (t + 1) * n_outputs)
        directions = directions_of(fitted.members[of_round], table, device)
        for k, step in enumerate(fitted.steps[of_round]):
            raw[k] = raw[k] + (rate * step) * directions[k]
        yield raw
