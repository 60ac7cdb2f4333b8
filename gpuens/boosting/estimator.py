"""What the gradient boosting estimators share: reading data, training, results."""

from __future__ import annotations

import copy
import sys
from abc import abstractmethod
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..callbacks import callbacks_of
from ..devices.placement import Device, resolve_device
from ..estimators.all_or_nothing import kept_on_failure
from ..estimators.base import ForestEstimator
from ..estimators.parameters import seed_of, threads_of
from ..estimators.training import Evaluation, TrainingPlan
from ..estimators.validation import EarlyStopping, EvalSet, eval_sets, split_rows, validation_set
from ..forest.structure import feature_sums
from ..inputs.categories import read_features
from ..inputs.targets import read_sample_weight
from ..losses import Loss, loss_of
from .categories import fit_binner
from .loop import BoostingResult, boost
from .memory import boosting_plan
from .metrics import metrics_for
from .parameters import check_parameters, feature_rules, growth_params, schedule_of
from .round import Grower, RoundSettings, TrainingRows
from .sampling import Sampling
from .trees import ForestBuilder

AUTO_EARLY_STOPPING_ROWS = 10_000
LARGEST = 1e37
"""Largest target and weight, a good deal below the largest float32."""


class BoostingEstimator(ForestEstimator):
    """What the classifier and the regressor share."""

    _losses: ClassVar[tuple[type[Loss], ...]]
    """What the names that ``loss`` may be stand for."""
    _categories: Any = None

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
        init: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Any:
        """Train.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing.
        y : array, shape (n_rows,)
            For a regression also (n_rows, n_targets): a tree for each target in every round.
        sample_weight : array of shape (n_rows,), default=None
            Rows of weight zero are as if they were not there.
        eval_set : (X, y) or list of these, default=None
            Further rows whose metrics are recorded after every round in ``evals_result_`` as
            "validation_0", "validation_1" and so on. Early stopping watches the first.
        eval_sample_weight : array or list of arrays, default=None
            One for each entry of ``eval_set``.
        init : fitted estimator of the same class, default=None
            Training goes on from its trees, which stay as they are, by ``n_estimators`` further
            rounds. The rows may be others than it was trained on, the features and classes must
            be the same.
        X_val, y_val, sample_weight_val : array, default=None
            scikit-learn's names for one evaluation set, for early stopping to watch. Its metrics
            are recorded as "validation", as those of rows held out are.

        Returns
        -------
        self
            Ctrl-C ends the training early and keeps the finished rounds; so does an error in a
            callback, which arrives all the same.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        """
        check_parameters(self)
        loss = self._read_loss()
        further = validation_set(X_val, y_val, sample_weight_val, eval_set, self.early_stopping)
        further += eval_sets(eval_set, eval_sample_weight)
        arrays = {name: array for rows in further for name, array in rows.arrays().items()}
        device = resolve_device(self.device, X, y=y, sample_weight=sample_weight, **arrays)
        with self._working_on(device):
            with nullcontext() if init is None else kept_on_failure(self):
                result = self._fit(X, y, sample_weight, further, loss, device, init)
            self._finish(result)
        if result.error is not None:
            raise result.error
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        further: list[EvalSet],
        loss: Loss,
        device: Device,
        init: Any,
    ) -> BoostingResult:
        before = self._result_before() if init is None else self._result_of(init)
        if before is None or init is not None:
            self._seed = seed_of(self.random_state)
        table = read_features(
            X,
            device,
            estimator=self,
            reset=before is None,
            categorical_features=self.categorical_features,
        ).values
        n = table.shape[0]
        target, weight = self._read_rows(n, y, sample_weight, device, fit=True)
        evaluated = [self._read_eval_set(rows, device) for rows in further]
        self._fitted_loss = loss = self._bound(loss, target)
        named = [(rows.names[1], t) for rows, (_, _, t, _) in zip(further, evaluated, strict=True)]
        for name, of_set in (("y", target), *named):
            loss.check_target(of_set if of_set.ndim == 1 else of_set.T, name)
        self.do_early_stopping_ = self._stops_early(n, bool(evaluated))
        if self.do_early_stopping_ and not evaluated and self.validation_fraction is not None:
            split = split_rows(
                n, target, weight, self.validation_fraction, self._n_classes(), self._seed
            )
            rows, held_out = (
                (table[at], target[at], weight[at] if weight.size else weight)
                for at in map(device.asarray, split)
            )
            evaluated = [("validation", *held_out)]
            table, target, weight = rows
        n_evaluated = [of_set.shape[0] for _, of_set, *_ in evaluated]
        plan = boosting_plan(
            self, table.shape, table.itemsize, device,
            n_outputs=loss.n_outputs, evaluated=n_evaluated, is_there=True,
        )  # fmt: skip
        plan.require()
        if self.verbose:
            print(plan, file=sys.stderr)
        n_rounds = int(self.n_estimators) + (before.n_iter if before and init is not None else 0)
        with plan.explaining():
            if before is None or init is not None:
                self._binner = fit_binner(
                    table,
                    weight if weight.size else None,
                    self._n_categories(table.shape[1]),
                    int(self.max_bins),
                    self._seed,
                    device,
                    threads_of(self.n_jobs),
                    int(self.cat_hash_groups),
                )
            return self._boost(table, target, weight, evaluated, loss, before, n_rounds, device)

    def _boost(
        self,
        table: Any,
        target: Any,
        weight: Any,
        evaluated: list[tuple[str, Any, Any, Any]],
        loss: Loss,
        before: BoostingResult | None,
        n_rounds: int,
        device: Device,
    ) -> BoostingResult:
        target = _outputs_first(target)
        base = _base_of(loss, target, weight, before, device)
        loss = loss.on_training_rows(target, weight, base, device)
        n_categories = self._n_categories(table.shape[1])
        forest = before.forest if before else None
        builder = ForestBuilder(table.shape[1], base, forest, n_categories)
        start = builder.freeze()

        def rows_of(X: Any, y: Any, w: Any) -> TrainingRows:
            codes = self._binner.transform(X, device)
            return TrainingRows(codes, _outputs_first(y), w, start.raw_predict(X, device))

        rows = rows_of(table, target.T, weight)
        settings = RoundSettings(
            growth_params(self),
            schedule_of(self.learning_rate, n_rounds),
            self._sampling(loss),
            self._seed,
            bool(self.line_search),
            feature_rules(self, n_categories > 0, self._n_classes()),
        )
        metrics = metrics_for(self.scoring, loss, getattr(self, "classes_", None), device)
        watched = [(data, rows_of(*columns)) for data, *columns in evaluated]
        if self.verbose or self.do_early_stopping_:
            watched = watched or [("training", rows)]
        del table, target
        stopping = EarlyStopping(
            int(self.n_iter_no_change), float(self.tol), metrics[0].higher_is_better
        )
        plan = TrainingPlan(
            n_rounds,
            before.n_iter if before else 0,
            before.evals if before else {},
            [Evaluation(data, m.name, r, m.compute) for data, r in watched for m in metrics],
            stopping if self.do_early_stopping_ else None,
            callbacks_of(self),
            bool(self.keep_best),
            device.runs_ahead,
        )
        grower = Grower(rows, self._binner, loss, settings, device)
        return boost(grower, builder, plan, self._snapshot)

    def _sampling(self, loss: Loss) -> Sampling:
        if self.sampling == "balanced" and not self._n_classes():
            raise ValueError("sampling='balanced' takes classes, this is a regression.")
        if self.sampling in ("goss", "mvs") and loss.exact_leaves:
            raise ValueError(
                f"sampling={self.sampling!r} counts rows by their gradients, but the leaf values "
                f"of loss={loss!r} are quantiles of the rows. Use sampling='uniform'."
            )
        return Sampling(
            self.sampling, float(self.subsample), float(self.top_rate), float(self.other_rate)
        )

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

    def _result_of(self, init: Any) -> BoostingResult:
        """What ``init`` has learned, with its attributes taken over."""
        if type(init) is not type(self):
            raise TypeError(
                f"init must be a fitted {type(self).__name__}, got {type(init).__name__}."
            )
        if not hasattr(init, "forest_"):
            raise ValueError(f"init must be fitted, got {init!r} before its fit.")
        params = self.get_params(deep=False)
        learned = {name: value for name, value in vars(init).items() if name not in params}
        self.__dict__ = {name: getattr(self, name) for name in params} | learned
        return BoostingResult(init.forest_, init.n_iter_, init.evals_result_, init.stopped_)

    def _stops_early(self, n_rows: int, has_eval_set: bool) -> bool:
        if self.early_stopping == "auto":
            return has_eval_set or n_rows > AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _read_rows(
        self,
        n: int,
        y: Any,
        sample_weight: Any,
        device: Device,
        fit: bool,
        names: tuple[str, str] = ("y", "sample_weight"),
    ) -> tuple[Any, Any]:
        """Target (float64) and weight (empty for none) of a table's rows."""
        target = self._read_y(y, n, device, fit, names[0])
        weight = read_sample_weight(sample_weight, n, device, estimator=self, name=names[1])
        weight = self._class_weighted(target, weight, device, fit)
        weight = device.xp.empty(0) if weight is None else weight
        _require_float32(target, names[0])
        _require_float32(weight, names[1])
        return target, weight

    def _class_weighted(self, target: Any, weight: Any, device: Device, fit: bool) -> Any:
        return weight

    def _read_eval_set(self, rows: EvalSet, device: Device) -> tuple[str, Any, Any, Any]:
        """Name, features, target and weight of an evaluation set."""
        X, y, weight = rows.names
        table = read_features(rows.X, device, estimator=self, reset=False, name=X).values
        n = table.shape[0]
        columns = self._read_rows(n, rows.y, rows.weight, device, fit=False, names=(y, weight))
        return rows.data, table, *columns

    def _n_categories(self, n_features: int) -> np.ndarray:
        """Categories of each feature, 0 for a numeric one."""
        categories = self._categories
        return np.zeros(n_features, np.int32) if categories is None else categories.n_categories

    @abstractmethod
    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Any:
        """The target as float64; class numbers for a classifier."""

    def _read_loss(self) -> Loss:
        """The parameter ``loss``, before the data is known."""
        return loss_of(self.loss, self._losses, getattr(self, "quantile", None))

    @abstractmethod
    def _bound(self, loss: Loss, target: Any) -> Loss:
        """The loss for the target that was read."""

    def _n_classes(self) -> int:
        """Number of classes, 0 for a regression."""
        return 0

    @property
    def n_trees_per_iteration_(self) -> int:
        """Trees that one round grows."""
        check_is_fitted(self)
        return self.forest_.n_outputs

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the gains of all splits, float64 of shape (n_features_in_,).

        The shares add up to 1; all are 0 if no tree has a split. Gains favour features with many
        different values: compare ``gpuens.inspection.permutation_importance``.
        """
        check_is_fitted(self)
        gain = feature_sums(self.forest_)
        return gain / (gain.sum() or 1.0)

    @property
    def validation_score_(self) -> np.ndarray:
        """The first metric on the first evaluation set, as scikit-learn gives it."""
        return self._scores("validation")

    @property
    def train_score_(self) -> np.ndarray:
        """The first metric on the training rows, empty where early stopping watches others."""
        return self._scores("training")

    def _scores(self, data: str) -> np.ndarray:
        check_is_fitted(self)
        for name_of_rows, metrics in self.evals_result_.items():
            if name_of_rows.startswith(data):
                name, values = next(iter(metrics.items()))
                return np.array(values) * (-1.0 if name == "loss" else 1.0)
        return np.empty(0)


def _outputs_first(target: Any) -> Any:
    """Several targets (n_rows, n_targets) as lines; one target (n_rows,) as it is."""
    return target if target.ndim == 1 else target.T.copy()


def _base_of(
    loss: Loss, target: Any, weight: Any, before: BoostingResult | None, device: Device
) -> np.ndarray:
    """Raw prediction before the first tree."""
    if before is None:
        loss.check_training(target, weight, device)
        return loss.base_score(target, weight, device)
    if before.forest.n_outputs != loss.n_outputs:
        raise ValueError(
            f"The model that warm_start=True goes on from grows {before.forest.n_outputs} trees a "
            f"round, loss={loss!r} and y ask for {loss.n_outputs}: set warm_start=False."
        )
    return before.forest.base


def _require_float32(values: Any, name: str) -> None:
    if values.size and not (largest := float(abs(values).max())) <= LARGEST:
        raise ValueError(
            f"{name} has values up to {largest:.3g}, but gradients are computed in float32: "
            f"divide it by a constant, so that none is above {LARGEST:g}."
        )
