"""Gradient boosted trees: ``GradientBoostingClassifier`` and ``GradientBoostingRegressor``."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from .arrays import read_table
from .base import ForestEstimator
from .binning import Binner
from .boosting import BoostingResult, Evaluation, boost
from .callbacks import ProgressBar
from .class_weights import class_factors
from .devices import Device, resolve_device, to_numpy
from .docstrings import BOOSTING, documented
from .early_stopping import EarlyStopping
from .evaluation_sets import EvalSet, eval_sets
from .forest import ForestBuilder
from .growth import Grower, RoundSettings, TrainingRows
from .losses import BinomialLogLoss, Loss, MultinomialLogLoss, SquaredError
from .metrics import metrics_for
from .parameters import check_parameters, growth_params, seed_of, threads_of
from .targets import read_labels, read_sample_weight, read_target
from .validation_split import split_rows

AUTO_EARLY_STOPPING_ROWS = 10_000
LARGEST = 1e37
"""Largest target and weight, a good deal below the largest float32."""


class _GradientBoosting(ForestEstimator):
    """What the classifier and the regressor share."""

    _losses: tuple[str, ...]

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
            Further rows whose metrics are recorded after every round in ``evals_result_`` as
            "validation_0", "validation_1" and so on. Early stopping watches the first.
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
        check_parameters(self, self._losses)
        further = eval_sets(eval_set, eval_sample_weight)
        arrays = {
            f"eval_set[{i}] {name}": array
            for i, arrays in enumerate(further)
            for name, array in zip(("X", "y", "sample_weight"), arrays, strict=True)
        }
        device = resolve_device(self.device, X, y=y, sample_weight=sample_weight, **arrays)
        with self._working_on(device):
            return self._fit(X, y, sample_weight, further, device)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, further: list[EvalSet], device: Device
    ) -> Any:
        before = self._result_before()
        if before is None:
            self._seed = seed_of(self.random_state)
        table = read_table(X, device, estimator=self, reset=before is None).values
        n = table.shape[0]
        target, weight = self._read_rows(n, y, sample_weight, device, fit=True)
        evaluated = [self._read_eval_set(i, *arrays, device) for i, arrays in enumerate(further)]
        self.do_early_stopping_ = self._stops_early(n, bool(evaluated))
        if self.do_early_stopping_ and not evaluated:
            split = split_rows(
                n, target, weight, self.validation_fraction, self._n_classes(), self._seed
            )
            rows, held_out = (
                (table[at], target[at], weight[at] if weight.size else weight)
                for at in map(device.asarray, split)
            )
            evaluated = [("validation", *held_out)]
            table, target, weight = rows
        if before is None:
            self._binner = Binner.fit(
                table,
                weight if weight.size else None,
                int(self.max_bins),
                self._seed,
                device,
                threads_of(self.n_jobs),
            )
        return self._boost(table, target, weight, evaluated, before, device)

    def _boost(
        self,
        table: Any,
        target: Any,
        weight: Any,
        evaluated: list[tuple[str, Any, Any, Any]],
        before: BoostingResult | None,
        device: Device,
    ) -> Any:
        loss = self._loss()
        base = before.forest.base if before else loss.base_score(target, weight, device)
        builder = ForestBuilder(table.shape[1], base, before.forest if before else None)
        start = builder.freeze()

        def rows_of(X: Any, y: Any, w: Any) -> TrainingRows:
            codes = self._binner.transform(X, device)
            return TrainingRows(codes, y, w, start.raw_predict(X, device))

        rows = rows_of(table, target, weight)
        settings = RoundSettings(
            growth_params(self), float(self.learning_rate), float(self.subsample), self._seed
        )
        metrics = metrics_for(self.scoring, loss, getattr(self, "classes_", None), device)
        watched = [(data, rows_of(*columns)) for data, *columns in evaluated]
        if self.verbose:
            watched = watched or [("training", rows)]
        del table, target
        stopping = EarlyStopping(
            int(self.n_iter_no_change), float(self.tol), metrics[0].higher_is_better
        )
        result = boost(
            Grower(rows, self._binner, loss, settings, device),
            builder,
            int(self.n_estimators),
            before.n_iter if before else 0,
            [Evaluation(data, m.name, r, m.compute) for data, r in watched for m in metrics],
            stopping if self.do_early_stopping_ else None,
            [*(self.callbacks or [])] + ([ProgressBar()] if self.verbose else []),
            self._snapshot,
            before.evals if before else {},
        )
        return self._finish(result)

    def _finish(self, result: BoostingResult) -> Any:
        self.forest_ = result.forest
        self.n_iter_ = result.n_iter
        self.evals_result_ = result.evals
        self.stopped_ = result.stopped
        return self

    def _snapshot(self, result: BoostingResult) -> Any:
        """A fitted copy with the trees so far, without the callbacks, for checkpoints."""
        model = copy.copy(self)
        model.callbacks = None
        return model._finish(result)

    def _result_before(self) -> BoostingResult | None:
        """What a warm start goes on from; without one the model is forgotten."""
        if not hasattr(self, "forest_"):
            return None
        if not self.warm_start:
            del self.forest_
            return None
        if self.n_estimators < self.n_iter_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the "
                f"{self.n_iter_} rounds of the model that warm_start=True goes on from. Raise it, "
                "or set warm_start=False to start anew."
            )
        return BoostingResult(self.forest_, self.n_iter_, self.evals_result_, self.stopped_)

    def _stops_early(self, n_rows: int, has_eval_set: bool) -> bool:
        if self.early_stopping == "auto":
            return has_eval_set or n_rows > AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _read_rows(
        self, n: int, y: Any, sample_weight: Any, device: Device, fit: bool, name: str = ""
    ) -> tuple[Any, Any]:
        """Target (float64) and weight (empty for none) of a table's rows."""
        target = self._read_y(y, n, device, fit, f"{name}y")
        weight = read_sample_weight(
            sample_weight, n, device, estimator=self, name=f"{name}sample_weight"
        )
        weight = self._class_weighted(target, weight, device, fit)
        weight = device.xp.empty(0) if weight is None else weight
        _require_float32(target, f"{name}y")
        _require_float32(weight, f"{name}sample_weight")
        return target, weight

    def _class_weighted(self, target: Any, weight: Any, device: Device, fit: bool) -> Any:
        return weight

    def _read_eval_set(
        self, i: int, X: Any, y: Any, sample_weight: Any, device: Device
    ) -> tuple[str, Any, Any, Any]:
        """Name, features, target and weight of an evaluation set."""
        name = f"eval_set[{i}] "
        table = read_table(X, device, estimator=self, reset=False, name=f"{name}X").values
        rows = self._read_rows(table.shape[0], y, sample_weight, device, fit=False, name=name)
        return f"validation_{i}", table, *rows

    @abstractmethod
    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        """The target as float64; class numbers for a classifier."""

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss, once the target is known."""

    def _n_classes(self) -> int:
        """Number of classes, 0 for a regression."""
        return 0

    @property
    def n_trees_per_iteration_(self) -> int:
        """Trees that one round grows."""
        check_is_fitted(self)
        return self.forest_.n_outputs

    @property
    def validation_score_(self) -> np.ndarray:
        """The first metric on the first evaluation set, as scikit-learn gives it."""
        check_is_fitted(self)
        for data, metrics in self.evals_result_.items():
            if data.startswith("validation"):
                name, values = next(iter(metrics.items()))
                return np.array(values) * (-1.0 if name == "loss" else 1.0)
        return np.empty(0)


def _require_float32(values: Any, name: str) -> None:
    if values.size and not (largest := float(abs(values).max())) <= LARGEST:
        raise ValueError(
            f"{name} has values up to {largest:.3g}, but gradients are computed in float32: "
            f"divide it by a constant, so that none is above {LARGEST:g}."
        )


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

    _losses = ("squared_error",)

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
        return self._predict(X, self._loss().predict)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Predictions after every round, as from ``predict``."""
        return self._staged(X, self._loss().predict)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        return float(r2_score(to_numpy(y), to_numpy(self.predict(X)), sample_weight=weight))

    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        return read_target(y, n, device, estimator=self, name=name)

    def _loss(self) -> Loss:
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

    _losses = ("log_loss",)

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
        return self._predict(X, self._labels)

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
        check_is_fitted(self)
        return self._predict(X, self._loss().predict)

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
        return self._predict(X, _decision)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Classes after every round, as from ``predict``."""
        return self._staged(X, self._labels)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Probabilities after every round, as from ``predict_proba``."""
        check_is_fitted(self)
        return self._staged(X, self._loss().predict)

    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """Raw predictions after every round, as from ``decision_function``."""
        return self._staged(X, _decision)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows that are classified correctly.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        return float(accuracy_score(to_numpy(y), to_numpy(self.predict(X)), sample_weight=weight))

    def _labels(self, raw: Any, device: Device) -> Any:
        """Class labels; on the device where they are numbers."""
        xp = device.xp
        codes = (raw[0] > 0).astype(xp.int64) if raw.shape[0] == 1 else raw.argmax(axis=0)
        if self.classes_.dtype.kind in "biuf":
            return device.asarray(self.classes_)[codes]
        return self.classes_[to_numpy(codes)]

    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        labels = read_labels(y, n, device, estimator=self, min_classes=2 if fit else 1, name=name)
        if fit and not hasattr(self, "forest_"):
            self.classes_ = labels.classes
        number = {label: k for k, label in enumerate(self.classes_.tolist())}
        found = labels.classes.tolist()
        if unknown := [label for label in found if label not in number]:
            raise ValueError(
                f"{name} has classes that the model does not know: {unknown}; it was trained on "
                f"{list(number)}."
            )
        return device.asarray([float(number[label]) for label in found])[labels.codes]

    def _class_weighted(self, target: Any, weight: Any, device: Device, fit: bool) -> Any:
        """The weights times the factors of ``class_weight``, which follow from the training
        rows also for evaluation sets."""
        if self.class_weight is None:
            return weight
        codes = target.astype(np.int64)
        if fit:
            present = to_numpy(codes), None if weight is None else to_numpy(weight)
            self._class_factors = class_factors(self.class_weight, self.classes_, *present)
        factors = device.asarray(self._class_factors)[codes]
        weight = factors if weight is None else weight * factors
        if not float(weight.max()) > 0:
            raise ValueError(
                f"class_weight={self.class_weight!r} leaves no row with a positive weight; raise "
                "the factor of a class that occurs."
            )
        return weight

    def _loss(self) -> Loss:
        n_classes = self._n_classes()
        return BinomialLogLoss() if n_classes == 2 else MultinomialLogLoss(n_classes)

    def _n_classes(self) -> int:
        return len(self.classes_)


def _decision(raw: Any, device: Device) -> Any:
    return (raw[0] if raw.shape[0] == 1 else raw.T).copy()
