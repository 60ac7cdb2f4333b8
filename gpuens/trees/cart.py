"""Common base of decision trees and forests: reading training data, predicting with a forest."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from ..devices.memory_plan import MemoryPlan
from ..devices.placement import Device, home_of, is_sparse, to_numpy
from ..devices.sparse_tables import SparseTable
from ..estimators.base import ForestEstimator
from ..estimators.docstrings import EXPLAINED, documented
from ..estimators.nothing_learned import Seen, warn_if_no_split
from ..estimators.parameters import (
    monotone_constraints,
    n_features_to_look_at,
    seed_of,
)
from ..estimators.scores import ScoresClasses, ScoresValues
from ..explanation.explainer import explained
from ..forest.forest import Forest
from ..forest.sum_of_trees import IDENTITY, SumOfTrees
from ..inputs.categories import read_features
from ..inputs.labels import class_numbers, factors_of_keys, labels_of_all, read_labels
from ..inputs.shared_tables import agreed_table
from ..inputs.sparse import read_sparse
from ..inputs.targets import columns_of, read_sample_weight, read_target, shape_of, targets_of
from ..kernels.cart.problem import CartTable
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, rows_of_all
from ..tables.binned_table import BinnedTable
from ..tables.planned import planned_table
from .binned import beside_bins, cart_table_of_bins
from .criteria import (
    CLASSIFICATION,
    REGRESSION,
    Problem,
    classification_problem,
    regression_problem,
)
from .growth import cart_plan, reading_plan
from .sharing import rows_of_workers, table_of_workers
from .table import bins_for_classes, bytes_of_cell
from .training_data import OutputClasses, TrainingData


class CartEstimator(ForestEstimator, ABC):
    """A tree or an ensemble of trees that are averaged.

    Parameters ``max_bins``, ``categorical_features``, ``monotonic_cst``, ``n_jobs`` and
    ``device`` are common to all.
    """

    _criteria: ClassVar[dict[str, int]]
    _output_classes: Any = None
    """``OutputClasses`` of a classifier, None for regression."""
    _warns_of_column = False
    _takes_sparse = _keeps_sparse = True
    _averages_trees = True
    _grows_among_workers = False
    """Whether workers that share the rows can train it."""
    _categories: Any
    n_outputs_: int

    def _memory_plan(
        self, X: Any, y: Any = None, sample_weight: Any = None, n_outputs: int | None = None,
        n_workers: int | None = None,
    ) -> MemoryPlan:  # fmt: skip
        """Return the memory that ``fit`` would take; see ``gpuens.memory_plan``."""
        table = planned_table(self, self.device, X, y, sample_weight, n_outputs, n_workers)
        of_cell, n_found, is_of_classes = None, table.n_outputs, is_classifier(self)
        if is_sparse(X):
            entries = read_sparse(X, estimator=clone(self), reset=True, name="X")
            of_cell = bytes_of_cell(entries, self.max_bins)
        return cart_plan(
            self,
            (table.n_all or table.shape[0], table.shape[1]),
            table.itemsize,
            table.device,
            width=max(2, n_found) if is_of_classes else n_found,
            n_outputs=1 if is_of_classes else n_found,
            is_there=table.is_there,
            n_own=table.n_all and table.shape[0],
            cell_bytes=of_cell,
        )

    def _read_training(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        device: Device,
        multiplicity: int,
        workers: Workers = ONE_WORKER,
        *,
        keeps_values: bool = False,
    ) -> TrainingData:
        """Read the data of ``fit`` and set the attributes that describe it.

        ``multiplicity`` is the largest number of times that a row can be in a tree's sample;
        ``keeps_values`` is whether rows are predicted while trees grow.
        """
        if isinstance(X, BinnedTable):
            y, sample_weight = beside_bins(X, y, sample_weight, keeps_values)
        values = self._read_values(X, device, workers)
        n_own, n_features = values.shape
        n_rows, itemsize = rows_of_all(n_own, workers), values.itemsize
        if not device.is_gpu:
            sparse = values if isinstance(values, SparseTable) else None
            reading_plan(self, (n_rows, n_features), itemsize, device, sparse).require()
        if y is None:
            read_target(y, n_own, device, estimator=self)
        columns = self._target_columns(y)
        given = read_sample_weight(sample_weight, n_own, device, workers=workers)
        given = None if given is None else to_numpy(rows_of_workers(given, workers))
        read = self._read_outputs(columns, n_own, home_of(y, device), workers)
        targets = [to_numpy(target) for target in read]
        self.n_outputs_ = len(columns)
        weight = self._with_class_weight(given, targets)
        all_used = weight is None or bool((weight > 0).all())
        used = None if all_used else device.asarray(weight > 0)
        problem = self._problem_of_used(targets, weight, multiplicity, device)
        if weight is not None:
            # Bins follow the user's weights, and leave out what classes leave out.
            given = np.where(weight > 0, 1.0 if given is None else given, 0.0)
        table = self._table(values, given, problem, device, workers)
        y_read = targets[0] if len(targets) == 1 else np.stack(targets, axis=1)
        kept = values if keeps_values else None
        shape = n_rows, n_features
        return TrainingData(table, problem, used, y_read, shape, itemsize, kept, weight, workers)

    def _target_columns(self, y: Any) -> list[Any]:
        """Return the outputs of y."""
        columns = columns_of(y)
        if self._warns_of_column and len(columns) == 1 and len(shape_of(y)) == 2:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples,), for example using ravel().",
                DataConversionWarning,
                stacklevel=5,
            )
        return columns

    def _read_values(self, X: Any, device: Device, workers: Workers) -> Any:
        """Read the features and set the attributes that describe them."""
        values: Any = X
        if isinstance(X, BinnedTable):
            X.describe(self)
        else:
            values = read_features(
                X,
                home_of(X, device),
                estimator=self,
                categorical_features=self.categorical_features,
                workers=workers,
            )
        if workers is ONE_WORKER:
            return values
        if isinstance(values, BinnedTable):
            raise TypeError("X must be an array or a data frame where workers share the rows.")
        return agreed_table(values, self, workers)

    def _warn_if_no_split(self, forest: Forest, data: TrainingData, n_rows: int) -> None:
        """Warn if no tree has a split; each has seen so many rows."""

        def seen() -> Seen:
            used = slice(None) if data.weight is None else data.weight > 0
            n_bins = data.table.n_bins
            return Seen(n_rows, data.truth[used].T, lambda: bool((n_bins > 1).any()))

        warn_if_no_split(self, [forest], seen)

    def _n_columns_of(self, n_features: int) -> int:
        """Return how many columns a table of some features has as the trees read it."""
        return n_features

    def _bytes_to_bin(self, n_rows: int, n_columns: int) -> int:
        """Return the memory of columns that are computed from the table, to be binned."""
        return 0

    def _n_looked_at(self, n_columns: int) -> int:
        """Return how many of the columns a node looks at."""
        own: Any = self
        return n_features_to_look_at(own.max_features, n_columns)

    def _of_features(self, forest: Forest) -> Forest:
        """Return trees that were grown on these columns as trees of the features."""
        return forest

    def _problem_of_used(
        self, targets: list[np.ndarray], weight: Any, multiplicity: int, device: Device
    ) -> Problem:
        """Return the problem of the rows of positive weight, with places for the others."""
        if weight is None or (weight > 0).all():
            return self._problem(targets, weight, multiplicity, device)
        is_used = weight > 0
        some = [target[is_used] for target in targets]
        return self._problem(some, weight[is_used], multiplicity, device).with_unused(is_used)

    def _table(
        self, values: Array, weight: np.ndarray | None, problem: Problem, device: Device,
        workers: Workers,
    ) -> CartTable:  # fmt: skip
        n_rows = rows_of_all(values.shape[0], workers)
        n_rows = n_rows if weight is None else int(np.count_nonzero(weight))
        categories = self._categories
        n_categories = (
            np.zeros(values.shape[1], np.int32) if categories is None else categories.n_categories
        )
        max_bins = None if self.max_bins is None else int(self.max_bins)
        max_bins = bins_for_classes(max_bins, (n_rows, values.shape[1]), problem.n_classes)
        monotone = monotone_constraints(
            self.monotonic_cst, n_categories > 0, problem.n_classes, problem.n_outputs
        )
        if isinstance(values, BinnedTable):
            return cart_table_of_bins(values, max_bins, monotone, device)
        return self._cart_table(
            values,
            n_categories,
            monotone,
            workers,
            weight=weight,
            max_bins=max_bins,
            seed=seed_of(self.random_state),
            device=device,
        )

    def _cart_table(
        self, values: Array, n_categories: np.ndarray, monotone: np.ndarray, workers: Workers,
        **settings: Any,
    ) -> CartTable:  # fmt: skip
        """Return the columns that the trees are grown on, see ``cart_table``."""
        return table_of_workers(values, n_categories, monotone, workers, **settings)

    def _with_class_weight(self, weight: np.ndarray | None, targets: list[Any]) -> Any:
        return weight

    @property
    def _n_classes(self) -> tuple[int, ...]:
        """The values of each output in a leaf: classes, or one mean."""
        return (1,) * self.n_outputs_

    @abstractmethod
    def _read_outputs(
        self, columns: list[Any], n_rows: int, device: Device, workers: Workers
    ) -> list[Any]:
        """Return the class numbers or targets of each output, on the device; where workers share
        the rows, those of all. ``n_rows`` is the length of the columns."""

    @abstractmethod
    def _problem(
        self, targets: list[Any], weight: Any, multiplicity: int, device: Device
    ) -> Problem:
        """Return the problem that trees solve, of what ``_read_outputs`` returned."""

    @abstractmethod
    def _read_truth(self, y: Any, n_rows: int, device: Device, name: str) -> np.ndarray:
        """Return class numbers (-1 for unknown labels) or targets, shape (n_rows, n_outputs)."""

    def _outputs(self, X: Any, finish: Any) -> Any:
        """Return ``finish(mean, device)`` of the mean over the trees, float64 (width, n_rows)."""

        def averaged(raw: Any, device: Device) -> Any:
            if self.forest_.n_trees > 1:
                raw /= self.forest_.n_trees
            return finish(raw, device)

        return self._predict(X, averaged)

    def _sum_of_trees(self) -> SumOfTrees:
        response = "predict_proba" if is_classifier(self) else "predict"
        return replace(super()._sum_of_trees(), link=IDENTITY, response=response)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class CartClassifier(ScoresClasses, ClassifierMixin, CartEstimator):
    """A classifier made of trees."""

    _criteria = CLASSIFICATION
    classes_: Any
    n_classes_: Any

    @property
    def _output_classes(self) -> OutputClasses:
        return OutputClasses([self.classes_] if self.n_outputs_ == 1 else self.classes_)

    @property
    def _n_classes(self) -> tuple[int, ...]:
        return self._output_classes.sizes

    def _read_outputs(
        self, columns: list[Any], n_rows: int, device: Device, workers: Workers
    ) -> list[Any]:
        labels = [
            labels_of_all(read_labels(column, n_rows, device, estimator=self), workers)
            for column in columns
        ]
        classes = [label.classes for label in labels]
        counts = [len(c) for c in classes]
        single = len(columns) == 1
        self.classes_ = classes[0] if single else classes
        self.n_classes_ = counts[0] if single else counts
        return [label.codes for label in labels]

    def _with_class_weight(self, weight: np.ndarray | None, targets: list[Any]) -> Any:
        class_weight = self.class_weight
        if class_weight is None or class_weight == "balanced_subsample":
            return weight
        if isinstance(class_weight, list) and len(targets) == 1:
            raise ValueError(
                f"class_weight is a list of {len(class_weight)}, but y has one output: pass a dict."
            )
        labels = self._output_classes.labels
        if isinstance(class_weight, list) and len(class_weight) == len(targets):
            pairs = zip(class_weight, labels, strict=True)  # scikit-learn gets classes by number
            class_weight = [dict(enumerate(factors_of_keys(w, c))) for w, c in pairs]
        elif isinstance(class_weight, dict) and len(targets) == 1:
            class_weight = dict(enumerate(factors_of_keys(class_weight, labels[0])))
        codes = np.stack(targets, axis=1)
        factor = compute_sample_weight(class_weight, codes)
        factor = factor if weight is None else weight * factor
        if not float(factor.max()) > 0:
            raise ValueError("class_weight gives every row a weight of zero; raise one of them.")
        return factor

    def _problem(
        self, targets: list[Any], weight: Any, multiplicity: int, device: Device
    ) -> Problem:
        return classification_problem(
            targets, self._n_classes, weight, self.criterion, multiplicity, device
        )

    def _read_truth(self, y: Any, n_rows: int, device: Device, name: str) -> np.ndarray:
        known = self._output_classes.labels
        return class_numbers(y, known, n_rows, device, estimator=self, name=name)

    @documented(
        EXPLAINED,
        result="""array, shape (n_rows,) or (n_rows, n_outputs)
        In the array library of X.""",
    )
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict the class of the highest probability, the first of those that tie.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        check_is_fitted(self)
        classes = self._output_classes
        return self._outputs(X, lambda mean, device: classes.decoded(classes.largest(mean), device))

    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities: the mean of the class shares in the leaves.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows, n_classes), or a list of these, one for each output
            In the array library of X.
        """
        check_is_fitted(self)
        table = self._outputs(X, lambda mean, device: mean.T)
        if self.n_outputs_ == 1:
            return table
        return [share.T for share in self._output_classes.shares(table.T)]

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of ``predict_proba``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        """
        probabilities = self.predict_proba(X)
        if isinstance(probabilities, list):
            return [_log(p) for p in probabilities]
        return _log(probabilities)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class CartRegressor(ScoresValues, RegressorMixin, CartEstimator):
    """A regressor made of trees."""

    _criteria = REGRESSION

    def _read_outputs(
        self, columns: list[Any], n_rows: int, device: Device, workers: Workers
    ) -> list[Any]:
        targets = [
            rows_of_workers(read_target(column, n_rows, device, estimator=self), workers)
            for column in columns
        ]
        if self.criterion == "poisson":
            for target in targets:
                if float(target.min()) < 0:
                    raise ValueError(
                        "Some value(s) of y are negative which is not allowed for Poisson "
                        f"regression: the smallest is {float(target.min())}. Use another criterion."
                    )
                if not float(target.sum()) > 0:
                    raise ValueError(
                        "Sum of y is not strictly positive which is necessary for Poisson "
                        "regression. Use another criterion."
                    )
        return targets

    def _problem(
        self, targets: list[Any], weight: Any, multiplicity: int, device: Device
    ) -> Problem:
        return regression_problem(np.stack(targets), weight, self.criterion, multiplicity, device)

    def _read_truth(self, y: Any, n_rows: int, device: Device, name: str) -> np.ndarray:
        return targets_of(y, self.n_outputs_, n_rows, device, estimator=self, name=name)

    @documented(
        EXPLAINED,
        result="""float64, shape (n_rows,) or (n_rows, n_outputs)
        In the array library of X.""",
    )
    def predict(
        self, X: Any, *, pred_contribs: bool = False, pred_interactions: bool = False
    ) -> Any:
        """Predict the target: the mean over the trees.

        <shared>
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        check_is_fitted(self)
        return self._outputs(X, lambda mean, device: mean[0] if len(mean) == 1 else mean.T)


def _log(probabilities: Any) -> Any:
    with np.errstate(divide="ignore"):
        return array_namespace(probabilities).log(probabilities)
