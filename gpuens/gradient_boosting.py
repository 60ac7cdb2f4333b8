"""Gradient boosted trees: ``GradientBoostingClassifier`` and ``GradientBoostingRegressor``."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from .arrays import read_table, to_input_library
from .binning import Binner
from .boosting import BoostingResult, Evaluation, boost
from .callbacks import ProgressBar
from .devices import Device, resolve_device, to_numpy
from .docstrings import BOOSTING, documented
from .early_stopping import EarlyStopping
from .forest import Forest, ForestBuilder
from .growth import Grower, RoundSettings, TrainingRows
from .kernels.cpu.team import using_threads
from .losses import BinomialLogLoss, Loss, MultinomialLogLoss, SquaredError
from .metrics import metrics_for
from .parameters import check_parameters, growth_params, seed_of, threads_of
from .targets import read_labels, read_sample_weight, read_target
from .validation_split import split_rows

AUTO_EARLY_STOPPING_ROWS = 10_000


class _GradientBoosting(BaseEstimator):
    """What the classifier and the regressor share."""

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
    ) -> Any:
        """Train.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing.
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None
            Rows of weight zero are as if they were not there.
        eval_set : (X, y) or list of these, default=None
            Further rows whose metrics are recorded after every round in ``evals_result_``.
            Early stopping watches the first of them.
        eval_sample_weight : array or list of arrays, default=None
            One for each entry of ``eval_set``.

        Returns
        -------
        self
            Ctrl-C ends the training early and keeps the finished rounds.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        """
        check_parameters(self)
        device = resolve_device(self.device, X, y=y, sample_weight=sample_weight)
        with self._working_on(device):
            return self._fit(X, y, sample_weight, eval_set, eval_sample_weight, device)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        eval_set: Any,
        eval_sample_weight: Any,
        device: Device,
    ) -> Any:
        before = self._forest_before()
        table = read_table(X, device, estimator=self, reset=before is None).values
        target, weight = self._read_rows(table.shape[0], y, sample_weight, device, fit=True)
        evaluated = self._read_eval_sets(eval_set, eval_sample_weight, device)
        seed = seed_of(self.random_state)
        stop_early = self._stops_early(table.shape[0], bool(evaluated))
        if stop_early and not evaluated:
            train, held_out = split_rows(
                table.shape[0], target, self.validation_fraction, self._n_classes(), seed
            )
            train, held_out = device.asarray(train), device.asarray(held_out)
            weights = (weight, weight) if weight.size == 0 else (weight[train], weight[held_out])
            evaluated = [("validation", table[held_out], target[held_out], weights[1])]
            table, target, weight = table[train], target[train], weights[0]
        if before is None:
            n_threads = threads_of(self.n_jobs)
            self._binner = Binner.fit(
                table, weight if weight.size else None, int(self.max_bins), seed, device, n_threads
            )
        return self._boost(table, target, weight, evaluated, stop_early, seed, before, device)

    def _boost(
        self,
        table: Any,
        target: Any,
        weight: Any,
        evaluated: list[tuple[str, Any, Any, Any]],
        stop_early: bool,
        seed: int,
        before: Forest | None,
        device: Device,
    ) -> Any:
        loss = self._loss()
        base = loss.base_score(target, weight, device) if before is None else before.base
        start = ForestBuilder(table.shape[1], base, before)
        forest = start.freeze()

        def rows_of(X: Any, y: Any, w: Any) -> TrainingRows:
            codes = self._binner.transform(X, device)
            return TrainingRows(codes, y, w, forest.raw_predict(X, device))

        rows = rows_of(table, target, weight)
        settings = RoundSettings(
            growth_params(self), float(self.learning_rate), float(self.subsample), seed
        )
        metrics = metrics_for(self.scoring, loss, getattr(self, "classes_", None), device)
        watched = [(data, rows_of(*columns)) for data, *columns in evaluated]
        if self.verbose:
            watched = watched or [("training", rows)]
        del table, target
        callbacks = [*(self.callbacks or [])] + ([ProgressBar()] if self.verbose else [])
        result = boost(
            Grower(rows, self._binner, loss, settings, device),
            start,
            int(self.n_estimators),
            forest.n_trees // loss.n_outputs,
            [Evaluation(data, m.name, r, m.compute) for data, r in watched for m in metrics],
            self._stopping(metrics[0].higher_is_better) if stop_early else None,
            callbacks,
            self._snapshot,
        )
        return self._finish(result)

    def _finish(self, result: BoostingResult) -> Any:
        self.forest_ = result.forest
        self.n_iter_ = result.n_iter
        self.evals_result_ = result.evals
        self.stopped_ = result.stopped
        return self

    def _snapshot(self, forest: Forest, n_iter: int) -> Any:
        """A fitted copy with the trees so far, without the callbacks, for checkpoints."""
        model = copy.copy(self)
        model.callbacks = None
        return model._finish(BoostingResult(forest, n_iter, {}, "checkpoint"))

    def _forest_before(self) -> Forest | None:
        """The trees that a warm start goes on from."""
        if not (self.warm_start and hasattr(self, "forest_")):
            return None
        if self.n_estimators < self.n_iter_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the "
                f"{self.n_iter_} rounds of the model that warm_start=True goes on from. Raise it, "
                "or set warm_start=False to start anew."
            )
        return self.forest_

    def _stops_early(self, n_rows: int, has_eval_set: bool) -> bool:
        if self.early_stopping == "auto":
            return has_eval_set or n_rows > AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _stopping(self, higher_is_better: bool) -> EarlyStopping:
        return EarlyStopping(int(self.n_iter_no_change), float(self.tol), higher_is_better)

    def _read_rows(
        self, n: int, y: Any, sample_weight: Any, device: Device, fit: bool, name: str = ""
    ) -> tuple[Any, Any]:
        """Target (float64) and weight (empty for none) of a table's rows."""
        target = self._read_y(y, n, device, fit, f"{name}y")
        weight = read_sample_weight(
            sample_weight, n, device, estimator=self, name=f"{name}sample_weight"
        )
        weight = self._class_weighted(target, weight, device, fit)
        return target, device.xp.empty(0) if weight is None else weight

    def _class_weighted(self, target: Any, weight: Any, device: Device, fit: bool) -> Any:
        return weight

    def _read_eval_sets(
        self, eval_set: Any, eval_sample_weight: Any, device: Device
    ) -> list[tuple[str, Any, Any, Any]]:
        """(name, X, y, weight) of every evaluation set."""
        if eval_set is None:
            return []
        if isinstance(eval_set, tuple):
            eval_set, eval_sample_weight = [eval_set], [eval_sample_weight]
        weights = eval_sample_weight or [None] * len(eval_set)
        if len(weights) != len(eval_set):
            raise ValueError(
                f"eval_sample_weight has {len(weights)} entries, eval_set has {len(eval_set)}: "
                "pass one (or None) for each."
            )
        sets = []
        for i, (pair, w) in enumerate(zip(eval_set, weights, strict=True)):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"eval_set[{i}] must be a pair (X, y), got {type(pair).__name__}.")
            name = f"eval_set[{i}] "
            X = read_table(pair[0], device, estimator=self, reset=False, name=f"{name}X").values
            y, weight = self._read_rows(X.shape[0], pair[1], w, device, fit=False, name=name)
            sets.append((f"validation_{i}", X, y, weight))
        return sets

    @abstractmethod
    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        """The target as float64; class numbers for a classifier."""

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss, once the target is known."""

    def _n_classes(self) -> int:
        """Number of classes, 0 for a regression."""
        return 0

    @contextmanager
    def _working_on(self, device: Device) -> Iterator[None]:
        with using_threads(threads_of(self.n_jobs)), device.active():
            yield

    def _raw(self, X: Any) -> tuple[Any, Device]:
        """Raw predictions (n_outputs, n_rows) and the device they are on."""
        check_is_fitted(self, "forest_")
        device = resolve_device(self.device, X)
        table = read_table(X, device, estimator=self, reset=False).values
        with self._working_on(device):
            return self.forest_.raw_predict(table, device), device

    def _staged_raw(self, X: Any) -> Iterator[tuple[Any, Device]]:
        """Raw predictions after every round (the same array, updated)."""
        check_is_fitted(self, "forest_")
        device = resolve_device(self.device, X)
        table = read_table(X, device, estimator=self, reset=False).values
        forest, n_outputs = self.forest_, self.forest_.n_outputs
        raw = forest.slice(0, 0).raw_predict(table, device)
        for n_trees in range(n_outputs, forest.n_trees + 1, n_outputs):
            with self._working_on(device):
                forest.slice(n_trees - n_outputs, n_trees).add_to(raw, table, device)
            yield raw, device

    def apply(self, X: Any) -> Any:
        """The leaf that each row ends in.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        int32, shape (n_rows, n_trees)
            Node numbers counted from the root of each tree; the trees of one round stand
            beside each other, one for each output.
        """
        check_is_fitted(self, "forest_")
        device = resolve_device(self.device, X)
        table = read_table(X, device, estimator=self, reset=False).values
        with self._working_on(device):
            return to_input_library(self.forest_.apply(table, device), X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@documented(
    BOOSTING,
    losses='"squared_error", default="squared_error"',
    class_weight="",
    attributes="",
)
class GradientBoostingRegressor(RegressorMixin, _GradientBoosting):
    """Gradient boosted regression trees on binned features.

    Newton boosting (Friedman 2001; Chen and Guestrin 2016) with histogram trees. The same data
    and seed give the same model, bit for bit, on the CPU with any number of threads and on a
    GPU.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(n_estimators=50).fit(X, y)
    >>> round(model.score(X, y), 2) > 0.7
    True
    """

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        max_leaf_nodes: int | None = 31,
        min_samples_leaf: int = 10,
        min_sum_hessian: float = 1e-3,
        l2_regularization: float = 1.0,
        min_gain_to_split: float = 0.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        early_stopping: bool | str = False,
        validation_fraction: float | int = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        scoring: Any = "loss",
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = False,
        callbacks: Any = None,
    ) -> None:
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.min_sum_hessian = min_sum_hessian
        self.l2_regularization = l2_regularization
        self.min_gain_to_split = min_gain_to_split
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def predict(self, X: Any) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,)
            In the array library and on the device of X (NumPy for data frames).
        """
        raw, device = self._raw(X)
        return to_input_library(self._loss().predict(raw, device), X)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Predictions after every round, as from ``predict``."""
        for raw, device in self._staged_raw(X):
            yield to_input_library(self._loss().predict(raw, device), X)

    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        return read_target(y, n, device, estimator=self, name=name)

    def _loss(self) -> Loss:
        if self.loss != "squared_error":
            raise ValueError(f"loss must be 'squared_error', got {self.loss!r}.")
        return SquaredError()


@documented(
    BOOSTING,
    losses='"log_loss", default="log_loss"',
    class_weight="""class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the rows by class.
    """,
    attributes="""classes_ : ndarray
        The labels, ascending.
    """,
)
class GradientBoostingClassifier(ClassifierMixin, _GradientBoosting):
    """Gradient boosted classification trees on binned features.

    Newton boosting of the binomial or multinomial log loss (Friedman 2001; Chen and Guestrin
    2016) with histogram trees; K trees a round for K > 2 classes. The same data and seed give
    the same model, bit for bit, on the CPU with any number of threads and on a GPU.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import GradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=50).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    def __init__(
        self,
        loss: str = "log_loss",
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        max_leaf_nodes: int | None = 31,
        min_samples_leaf: int = 10,
        min_sum_hessian: float = 1e-3,
        l2_regularization: float = 1.0,
        min_gain_to_split: float = 0.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        early_stopping: bool | str = False,
        validation_fraction: float | int = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        scoring: Any = "loss",
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = False,
        callbacks: Any = None,
    ) -> None:
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.min_sum_hessian = min_sum_hessian
        self.l2_regularization = l2_regularization
        self.min_gain_to_split = min_gain_to_split
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def predict(self, X: Any) -> Any:
        """Predict the class of each row.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        array of labels, shape (n_rows,)
            In the array library and on the device of X where labels are numbers.
        """
        raw, device = self._raw(X)
        return self._labels(raw, device, X)

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        raw, device = self._raw(X)
        return to_input_library(self._loss().predict(raw, device), X)

    def decision_function(self, X: Any) -> Any:
        """Raw predictions.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,) for two classes (log-odds of the second one), else
        (n_rows, n_classes)
        """
        raw, _ = self._raw(X)
        return to_input_library(_decision(raw), X)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Predictions after every round, as from ``predict``."""
        for raw, device in self._staged_raw(X):
            yield self._labels(raw, device, X)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Probabilities after every round, as from ``predict_proba``."""
        for raw, device in self._staged_raw(X):
            yield to_input_library(self._loss().predict(raw, device), X)

    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """Raw predictions after every round, as from ``decision_function``."""
        for raw, _ in self._staged_raw(X):
            yield to_input_library(_decision(raw.copy()), X)

    def _labels(self, raw: Any, device: Device, like: Any) -> Any:
        xp = device.xp
        codes = (raw[0] > 0).astype(xp.int64) if raw.shape[0] == 1 else raw.argmax(axis=0)
        if self.classes_.dtype.kind in "biuf":
            return to_input_library(device.asarray(self.classes_)[codes], like)
        return self.classes_[to_numpy(codes)]

    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        labels = read_labels(y, n, device, estimator=self, min_classes=2 if fit else 1, name=name)
        if fit and not (self.warm_start and hasattr(self, "forest_")):
            self.classes_ = labels.classes
            return device.asarray(labels.codes, np.float64)
        unknown = np.setdiff1d(labels.classes, self.classes_)
        if unknown.size:
            raise ValueError(
                f"{name} has classes that the model does not know: {unknown.tolist()}; it was "
                f"trained on {self.classes_.tolist()}."
            )
        known = np.searchsorted(self.classes_, labels.classes).astype(np.float64)
        return device.asarray(known)[labels.codes]

    def _class_weighted(self, target: Any, weight: Any, device: Device, fit: bool) -> Any:
        if self.class_weight is None:
            return weight
        labels = self.classes_[to_numpy(target).astype(np.int64)]
        factor = device.asarray(compute_sample_weight(self.class_weight, labels))
        return factor if weight is None else weight * factor

    def _loss(self) -> Loss:
        if self.loss != "log_loss":
            raise ValueError(f"loss must be 'log_loss', got {self.loss!r}.")
        n_classes = self._n_classes()
        return BinomialLogLoss() if n_classes == 2 else MultinomialLogLoss(n_classes)

    def _n_classes(self) -> int:
        return len(self.classes_)


def _decision(raw: Any) -> Any:
    return raw[0] if raw.shape[0] == 1 else raw.T
