"""The base of the gradient boosting estimators: reading data, training, results."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ..callbacks import callbacks_of
from ..devices.among_workers import device_among_workers
from ..devices.memory_plan import MemoryPlan
from ..devices.placement import Device, resolve_device
from ..devices.policy import Work, boosting_work, outputs_in, size_of
from ..estimators.base import kept_on_failure
from ..estimators.docstrings import ENDS_EARLY, FITTED, documented
from ..estimators.parameters import seed_of
from ..estimators.recursion import HasRecursion
from ..estimators.training import Evaluation, TrainingPlan, rounds_in_words, train
from ..estimators.validation import EarlyStopping
from ..forest.forest import Forest
from ..forest.structure import feature_sums
from ..forest.sum_of_trees import IDENTITY, SumOfTrees
from ..inputs.binning import Binner
from ..inputs.category_bins import set_bins
from ..inputs.sparse_bins import NarrowBinner
from ..kernels.growth.params import GrowthParams
from ..kernels.runtime.collective import ONE_WORKER, Workers, current_workers
from ..kernels.runtime.dtypes import Codes
from ..losses import Loss, SquaredError, loss_of
from ..losses.base import RegressionLoss
from ..losses.distributions import DistributionLoss
from ..losses.survival import SurvivalLoss
from ..members.side_by_side import TrainingGroup
from ..tables.binned_table import BinnedTable
from ..tables.planned import planned_table
from ..tables.streaming import streamed
from .auto import shapes_to_try, training_by_search
from .data.auto_values import (
    AUTO,
    FEWEST_ROUNDS,
    most_rounds,
    settled,
    with_rounds_found,
)
from .data.memory import boosting_plan, plan_of_training
from .data.reading import EvalSet, ReadsRows, eval_sets, with_times
from .data.sharing import (
    callbacks_of_all,
    require_shareable,
    require_shareable_metrics,
    require_shareable_on,
)
from .forest_builder import ForestBuilder
from .metrics import Metric, RecordsScores, metrics_for
from .nothing_learned import warn_if_nothing_was_learned
from .parameters import (
    check_parameters,
    feature_rules,
    growth_params,
    rules_of_columns,
    schedule_of,
    width_of,
)
from .round_data import BoostingResult, RawRows, RoundSettings, Training, TrainingRows
from .rounds import BoostingRounds
from .start import FOUND_BY_TRAINING, base_after
from .steps.dropout import Dropout, DropoutRounds, DropsTrees
from .steps.many_models import RoundsTogether, can_meet, group_on_gpu, meeting_here
from .steps.ranked_categories import NO_BINS, rank_categories
from .steps.rare_categories import smooth_categories
from .steps.sampling import Sampling


class BoostingEstimator(HasRecursion, DropsTrees, ReadsRows, RecordsScores):
    """Base of the classifier, the regressor and the ranker."""

    _recursive_base = ("sklearn.ensemble._gb", "BaseGradientBoosting")
    _losses: ClassVar[tuple[type[Loss], ...]]
    """The losses that ``loss`` may name."""
    _keeps_sparse = True
    _grows_among_workers = True

    @documented(FITTED, ends=ENDS_EARLY)
    def fit(
        self,
        X: Any,
        y: Any = None,
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
        X : array, data frame, sparse matrix or BinnedTable, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars, pyarrow or SciPy. NaN is missing, an absent entry of
            a sparse matrix is zero. A ``BinnedTable`` brings its bins, categories and weights
            along, and y unless it is passed.
        y : array, shape (n_rows,), default=None
            For a regression also (n_rows, n_targets): a tree for each target in every round.
        sample_weight : array of shape (n_rows,), default=None
            Rows of weight zero have no effect.
        eval_set : (X, y) or list of these, default=None
            Further rows whose metrics are recorded after every round in ``evals_result_`` as
            "validation_0", "validation_1" and so on. Early stopping watches the first.
        eval_sample_weight : array or list of arrays, default=None
            One for each entry of ``eval_set``.
        init : fitted estimator of the same class, default=None
            Training continues after its trees, which do not change, with ``n_estimators`` further
            rounds, and from what they started from, whatever the parameter ``init`` is. Other rows
            may be used; the features and classes must be the same.
        X_val, y_val, sample_weight_val : array, default=None
            scikit-learn's names for one evaluation set, which early stopping watches. Its metrics
            are recorded as "validation", as those of held-out rows are.

        <shared>
        """
        check_parameters(self)
        if isinstance(X, BinnedTable):
            y, sample_weight = X.beside(y, sample_weight, is_classifier(self))
        validation = X_val, y_val, sample_weight_val
        further = eval_sets(eval_set, eval_sample_weight, validation, self.early_stopping)
        names = "X", "y", "sample_weight"
        training = EvalSet(X, y, sample_weight, "training", names, workers=current_workers())
        return self._train([training, *further], self._read_loss(), init)

    def _train(self, given: list[EvalSet], loss: Loss, init: Any) -> Any:
        """Train on the first of the sets and evaluate on the others; returns the estimator."""
        if isinstance(loss, SurvivalLoss) and isinstance(loss, self._losses):
            given = with_times(given, loss, self)
        arrays: dict[str, Any] = {}
        for rows in given:
            arrays |= zip(rows.names, rows[:3], strict=True)
        X, y = arrays.pop("X"), arrays["y"]
        if (workers := given[0].workers) is ONE_WORKER:
            device = resolve_device(
                self.device, X, work=lambda: self._training_work(X, y), **arrays
            )
        else:
            require_shareable(self, loss)
            device = device_among_workers(self.device, workers, X, **arrays)
            require_shareable_on(device, self, loss)
        with kept_on_failure(self):
            for name in FOUND_BY_TRAINING:
                self.__dict__.pop(name, None)
            with self._working_on(device):
                result = self._fit(given, loss, device, init)
                self._finish(result)
            self._complete(given[0])
        if result.error is not None:
            raise result.error
        return self

    def _sum_of_trees(self) -> SumOfTrees:
        trees, loss = super()._sum_of_trees(), self._fitted_loss
        response = None  # a function of the raw prediction
        if is_classifier(self):
            response = "decision_function"
        elif isinstance(loss, RegressionLoss) and loss.link == IDENTITY:
            response = "predict"
        return replace(
            trees,
            link=loss.link,
            unlinked=f"loss={loss!r} turns raw scores into predictions by a function that no "
            "other format knows",
            response=response,
            share_is_cover=isinstance(loss, SquaredError),  # whose hessians are the weights
        )

    def _complete(self, training: EvalSet) -> None:
        """Learn what predictions need beside the trees."""

    def _training_work(self, X: Any, y: Any) -> Work:
        """Return the work of all rounds: how many early stopping leaves is not known yet."""
        n_targets = outputs_in(y, is_classifier(self))
        levels = getattr(self, "quantile", None)
        n_trees = n_targets * np.size(1 if levels is None else levels)
        n_rounds = FEWEST_ROUNDS if self.n_estimators == AUTO else self.n_estimators
        return boosting_work(size_of(X), n_trees).times(n_rounds)

    def _memory_plan(
        self, X: Any, y: Any = None, sample_weight: Any = None, n_outputs: int | None = None,
        n_workers: int | None = None,
    ) -> MemoryPlan:  # fmt: skip
        """Return the memory that ``fit`` would take; see ``gpuens.memory_plan``."""
        wanted = self.device if n_workers is None else "cpu"
        table = planned_table(self, wanted, X, y, sample_weight, n_outputs, n_workers)
        return plan_of_training(self, table)

    def _group_on_gpu(self, X: Any) -> type[TrainingGroup] | None:
        return group_on_gpu(self, X)

    def _fit(self, given: list[EvalSet], loss: Loss, device: Device, init: Any) -> BoostingResult:
        before = self._result_before() if init is None else self._result_of(init)
        is_new = before is None or init is not None  # else bins and seed are those of the trees
        if is_new:
            self._seed = seed_of(self.random_state)
            self.__dict__.pop("_category_smoothing", None)
        sets = self._read_sets(given, loss, device, before is None)
        table, workers, loss = sets[0].table, sets[0].table.workers, self._fitted_loss
        shape = table.n_all, table.shape[1]
        continues = before is not None or workers is not ONE_WORKER
        n_counted = shape[0] if continues else self._rows_to_deal(sets[0])
        chosen = settled(self, loss, n_counted, table.is_sparse, continues, self.do_early_stopping_)
        n_rounds = int(most_rounds(chosen, n_counted))
        n_rounds += before.n_iter if before and init is not None else 0
        settings = chosen._round_settings(n_rounds, shape)
        dropped = self._features_to_drop(before) if self.dropout else ()
        columns, size = table.size(
            settings.params, dropped, device, loss.n_outputs,
            [rows.table for rows in sets[1:]], sets[0].weight.size > 0,
        )  # fmt: skip
        if isinstance(self.learning_rate, str):
            self.learning_rate_ = chosen.learning_rate
        shapes: list[GrowthParams] = []
        if chosen.n_estimators == AUTO and not self.do_early_stopping_:
            shapes = shapes_to_try(self, settings.params, table.is_sparse, (n_counted, shape[1]))
        del table
        tried = shapes or [settings.params]
        plans = [boosting_plan(chosen, loss, params, size, device) for params in tried]
        plan = max(plans, key=attrgetter("total"))
        plan.require()
        if self.verbose:
            self._report_plan(device, n_rounds, sets, len(shapes) > 0, plan)
        with plan.explaining():
            if is_new:
                self._binner = sets[0].table.fit_binner(chosen, sets[0].weight, device)
            binner = self._binner if columns is None else NarrowBinner.of(self._binner, columns)
            if columns is not None:
                settings = replace(settings, rules=rules_of_columns(settings.rules, columns))
            return self._boost(
                sets, before, n_rounds, settings, device, binner, plan, is_new, shapes
            )

    def _report_plan(
        self, device: Device, n_rounds: int, sets: list[RawRows], searches: bool, plan: MemoryPlan
    ) -> None:
        """Print where training runs, how many rounds, and its memory; of workers the first does."""
        workers = sets[0].table.workers
        if workers is not ONE_WORKER and workers.collective.group.rank > 0:
            return
        words = f"At most {n_rounds} rounds, as many as are best for rows held out."
        if not searches:
            patience = int(self.n_iter_no_change) if self.do_early_stopping_ else None
            words = rounds_in_words(n_rounds, patience, sets[min(1, len(sets) - 1)].data)
        self._report_choice(device, words)
        if self.verbose > 1:
            print(plan, file=sys.stderr)

    def _boost(
        self, sets: list[RawRows], before: BoostingResult | None, n_rounds: int,
        settings: RoundSettings, device: Device, binner: Binner, memory: MemoryPlan, is_new: bool,
        shapes: list[GrowthParams],
    ) -> BoostingResult:  # fmt: skip
        """Train on the first of the sets and evaluate on the others, which leave the list; with
        shapes of trees search for the best one and its number of rounds first."""
        loss, builder = self._begin(sets[0], before, settings, device)
        dropout = self._dropout_after(before, builder, binner) if self.dropout else None
        start = builder.freeze()
        settings, own_bins = replace(settings, in_pieces=memory.in_pieces), NO_BINS
        if self._categories is not None:
            binner, settings, own_bins = rank_categories(
                self, sets[0], is_new, loss, start.base, binner, settings, device
            )
            self._binner = binner if own_bins else self._binner
        # No frame holds a set while it is binned but the list: a table that is not the user's own
        # is released before the next one is binned, and before training.
        binned = []
        while sets:
            binned.append(self._bin(sets.pop(0), start, binner, device, dropout, memory.streams))
        (_, rows), *watched = binned
        for feature, bins in own_bins.items():
            set_bins(cast(Codes, rows.codes), feature, device.asarray(bins))
        if memory.streams:
            rows.codes = streamed(rows.codes, memory.n_resident)
        if self.verbose or (self.do_early_stopping_ and not watched):
            watched.append(binned[0])  # behind the set that early stopping watches
        metrics = metrics_for(self.scoring, loss, getattr(self, "classes_", None), device)
        plan = self._training_plan(n_rounds, before, watched, metrics, rows.workers, device)
        if dropout is not None:  # which looks at the trees of the round before
            plan = replace(plan, runs_ahead=False)
        training = Training(rows, binner, loss, settings, device)
        if self._categories is not None:
            training = smooth_categories(self, training, is_new)
        if shapes:
            training, found = training_by_search(
                self, training, builder, metrics[0], n_rounds, shapes
            )
            plan = replace(plan, n_rounds=found)
        rounds = self._rounds(training, builder, plan, dropout)
        result = rounds.result(train(rounds, plan))
        warn_if_nothing_was_learned(self, result.forest, rounds)
        return result

    def _training_plan(
        self, n_rounds: int, before: BoostingResult | None,
        watched: list[tuple[str, TrainingRows]], metrics: list[Metric], workers: Workers,
        device: Device,
    ) -> TrainingPlan:  # fmt: skip
        """Return the number of rounds, and what happens after each."""
        callbacks = callbacks_of(self)
        if workers is not ONE_WORKER:
            require_shareable_metrics(watched, metrics)
            callbacks = callbacks_of_all(callbacks, workers)
        patience, tol = int(self.n_iter_no_change), float(self.tol)
        stopping = EarlyStopping(patience, tol, metrics[0].higher_is_better)
        return TrainingPlan(
            n_rounds,
            before.n_iter if before else 0,
            before.evals if before else {},
            [
                Evaluation(data, metric.name, rows, metric.compute)
                for data, rows in watched
                for metric in metrics
            ],
            stopping if self.do_early_stopping_ else None,
            callbacks,
            bool(self.keep_best),
            device.runs_ahead,
        )

    def _rounds(
        self, training: Training, builder: ForestBuilder, plan: TrainingPlan,
        dropout: Dropout | None,
    ) -> BoostingRounds:  # fmt: skip
        """Return the rounds of this training: with dropout, beside those of other models that
        share the table, or by themselves."""
        meeting, seen = meeting_here.get(), [own.rows for own in plan.evaluations]
        if dropout:
            return DropoutRounds(dropout, training, builder, seen, self._snapshot)
        if meeting is None or not can_meet(training):
            return BoostingRounds(training, builder, seen, self._snapshot)
        meeting.share_table(training)
        rounds = RoundsTogether(training, builder, seen, self._snapshot)
        rounds.verbose = bool(self.verbose)
        rounds.n_unseen = 0 if seen or plan.callbacks else plan.n_rounds
        meeting.share_sets(rounds)
        return rounds

    def _with_rounds_found(self, estimator: Any, is_sparse: bool) -> Any:
        """Return an estimator for parts of the rows, which does not search for rounds again."""
        return with_rounds_found(estimator, self, is_sparse)

    def _begin(
        self, rows: RawRows, before: BoostingResult | None, settings: RoundSettings, device: Device
    ) -> tuple[Loss, ForestBuilder]:
        """Return the loss of the training rows, and the forest before the first round."""
        target = rows.target.astype(np.float64, copy=False)
        loss = self._fitted_loss.among(rows.table.workers)
        width = loss.n_outputs if settings.one_tree else 1
        if before is None:
            loss.check_training(target, rows.weight, device)
            base = loss.base_score(target, rows.weight, device)
        else:
            base = base_after(before, loss, width)
        loss = loss.on_training_rows(target, rows.weight, base, device)
        if before is None:
            self.__dict__.pop("init_", None)
            if getattr(self, "init", None) is not None:
                base = self._fit_start(rows, base)
        n_features = rows.table.shape[1]
        forest = before.forest if before else None
        return loss, ForestBuilder(
            n_features, base, forest, self._n_categories(), self.linear_leaves, width
        )

    def _bin(
        self,
        rows: RawRows,
        start: Forest,
        binner: Binner,
        device: Device,
        dropout: Dropout | None,
        streams: bool,
    ) -> tuple[str, TrainingRows]:
        """Return the name of a set, and its rows as rounds need them."""
        codes = rows.table.codes(binner, device, rows.data, streams)
        if dropout is None:
            raw = self._raw_before(start, rows.table, device)
        else:
            raw = self._raw_before_dropout(start, dropout, rows.table, device)
        values = device.asarray(rows.table.values) if self.linear_leaves else None
        return rows.data, TrainingRows(
            codes, rows.target, rows.weight, raw, values, rows.table.workers
        )

    def _round_settings(self, n_rounds: int, shape: tuple[int, int]) -> RoundSettings:
        """Read the parameters, of which none is "auto" any more, for so many rounds, and rows of
        all workers and features."""
        loss, n_classes = self._fitted_loss, self._n_classes()
        if self.sampling == "balanced" and not n_classes:
            raise ValueError(
                "sampling='balanced' is for classes, but this is a regression: use another scheme."
            )
        if self.sampling in ("goss", "mvs") and loss.exact_leaves:
            raise ValueError(
                f"sampling={self.sampling!r} weights rows by their gradients, but the leaf values "
                f"of loss={loss!r} are quantiles of the rows. Use sampling='uniform'."
            )
        sampling = Sampling(
            self.sampling, float(self.subsample), float(self.top_rate), float(self.other_rate)
        )
        return RoundSettings(
            growth_params(self, shape),
            schedule_of(self.learning_rate, n_rounds),
            sampling,
            self._seed,
            bool(self.line_search),
            feature_rules(self, self._n_categories() > 0, n_classes),
            float(self.min_impurity_decrease),
            float(self.linear_lambda) if self.linear_leaves else None,
            one_tree=width_of(self, loss) > 1,
        )

    def _finish(self, result: BoostingResult) -> Any:
        self.forest_ = result.forest
        self.n_iter_ = result.n_iter
        self.evals_result_ = result.evals
        self.stopped_ = result.stopped
        self.__dict__.pop("_dropout", None)
        if result.dropout is not None:
            self._dropout = result.dropout
        return self

    def _snapshot(self, result: BoostingResult) -> Any:
        """Return a fitted copy with the trees so far, without the callbacks, for checkpoints."""
        model = copy.copy(self)
        model.callbacks = None
        return model._finish(result)

    def _read_loss(self) -> Loss:
        """Read the parameter ``loss``, before the data is known."""
        loss = loss_of(self.loss, self._losses, getattr(self, "quantile", None))
        if isinstance(loss, DistributionLoss) and self.line_search:
            raise ValueError(
                f"line_search=True does not go with loss={loss!r}, whose two parameters have steps "
                "of their own: set line_search=False."
            )
        return loss

    @property
    def n_trees_per_iteration_(self) -> int:
        """Trees that one round grows."""
        check_is_fitted(self)
        return self.forest_.n_outputs // self.forest_.width

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the gains of all splits, float64 of shape (n_features,).

        The shares add up to 1; all are 0 if no tree has a split. Gains favour features with many
        different values: compare ``gpuens.inspection.permutation_importance``.
        """
        check_is_fitted(self)
        gain = feature_sums(self.forest_)
        return gain / (gain.sum() or 1.0)
