"""Common base of random forests and extremely randomised trees."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ..devices.memory_plan import format_bytes
from ..devices.placement import CPU, Device, resolve_device, to_numpy
from ..devices.policy import Work, size_of
from ..estimators.base import kept_on_failure
from ..estimators.parameters import seed_of
from ..forest.forest import Forest
from ..forest.structure import decision_path, mean_importances
from ..inputs.categories import read_features
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.collective import Workers, current_workers
from ..kernels.runtime.system import available_memory
from ..members.samples import SampledMembers, made_members
from ..numerics.sampling import SamplingPlan
from ..trees.cart import CartEstimator
from ..trees.growth import tree_key
from ..trees.on_host import growth_on_host
from ..trees.parameters import check_tree_parameters, work_of_trees
from ..trees.sharing import device_to_grow_on, device_to_read_on, require_shareable
from ..trees.training_data import TrainingData
from .growing import ForestGrower, Progress, pruned, warn_of_interruption
from .out_of_bag import OOB_ATTRIBUTES, ForestReport, KnownRows, permutation_importances

MOST_DRAWS = 4
"""Draws for each row, up to which no row is drawn more often than growth can count."""


@dataclass(kw_only=True, eq=False, repr=False)
class ForestOfTrees(SampledMembers, CartEstimator):
    """Trees on samples of the rows, averaged.

    ``SamplingPlan`` draws the samples, ``ForestGrower`` grows the trees, and ``ForestReport``
    shows the progress and estimates the error on rows outside the samples.
    """

    n_estimators: int = field(default=100, kw_only=False)
    criterion: str
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: int | float | str | None = 1.0
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    bootstrap: bool = True
    oob_score: Any = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: bool | int = 0
    warm_start: bool = False
    ccp_alpha: float = 0.0
    max_samples: int | float | None = None
    monotonic_cst: Any = None
    categorical_features: Any = "from_dtype"
    max_bins: int | None = 255
    device: str = "auto"

    _warns_of_column = True
    _random_splits = False
    _grows_among_workers = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Grow the trees.

        Parameters
        ----------
        X : array, sparse matrix, data frame or BinnedTable, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing. A ``BinnedTable`` brings
            its bins and, unless y is passed, its target.
        y : array, shape (n_rows,) or (n_rows, n_outputs), default=None
            The target: labels for a classifier, numbers for a regressor.
        sample_weight : array of shape (n_rows,), default=None
            Factors on how often a row counts. Rows of weight zero are as if they were
            not there, except for the draws that they use up.

        Returns
        -------
        self
            Ctrl-C ends the growth early and keeps the trees that are finished.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        MemoryError
            The forest would not fit; the message says how large it would be.
        """
        check_tree_parameters(self)
        if self.oob_score and not self.bootstrap:
            raise ValueError(
                "Out of bag estimation only available if bootstrap=True: without it every tree "
                f"sees every row. Got oob_score={self.oob_score!r}, bootstrap={self.bootstrap!r}."
            )
        if self.max_samples is not None and not self.bootstrap:
            raise ValueError(
                "`max_sample` cannot be set if `bootstrap=False`. Either switch to "
                "`bootstrap=True` or set `max_sample=None`. Got "
                f"max_samples={self.max_samples!r}, bootstrap={self.bootstrap!r}."
            )
        workers = current_workers()
        require_shareable(self, workers)
        device = device_to_grow_on(
            self.device, X, lambda table: self._training_work(table, y), workers,
            y=y, sample_weight=sample_weight,
        )  # fmt: skip
        self._report_choice(device)
        home = device_to_read_on(device, workers)
        with growth_on_host(device, self), self._working_on(home), kept_on_failure(self):
            self._fit(X, y, sample_weight, device, workers)
        return self

    def _training_work(self, X: Any, y: Any) -> Work:
        return work_of_trees(self, size_of(X), self.n_estimators)

    def _fit(self, X: Any, y: Any, sample_weight: Any, device: Device, workers: Workers) -> None:
        home = device_to_read_on(device, workers)
        before = self._forest_before()
        if before is None:
            self._seed = seed_of(self.random_state)
            self._prepare(X, y, sample_weight)
        first = 0 if before is None else before.n_trees
        n_new = self._count_new_trees(first)
        classes, categories = getattr(self, "classes_", None), getattr(self, "_categories", None)
        fitted = self.__dict__.copy()
        keeps_values = bool(self.oob_score) or bool(getattr(self, "honest", False))
        multiplicity = 31 if self.bootstrap else 1
        data = self._read_training(
            X, y, sample_weight, home, multiplicity, workers, keeps_values=keeps_values
        )
        if n_new == 0:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new trees.",
                stacklevel=3,
            )
            if not self.oob_score or hasattr(self, "oob_score_"):
                self.__dict__ = fitted  # the data may be of another problem
                return
        if before is not None:
            self._require_same_problem(before, classes, categories, data)
        self._n_rows = data.shape[0]
        self._n_draws = self._draws(self._n_rows)
        report = self._report(data, before, home)
        if n_new > 0:
            self._forget_members()
            grower = ForestGrower(self, data, self._plan, self._seed, device)
            grown = pruned(self._grow(grower, first, n_new, report), self.ccp_alpha)
            self.forest_ = grown if before is None else Forest.concatenate([before, grown])
            self._warn_if_no_split(self.forest_, data, self._rows_of_tree(data))
            if report.done < n_new:
                warn_of_interruption(self.forest_.n_trees, stacklevel=3)
                # Its sums may lack a tree, or half of one.
                report = self._report(data, self.forest_, home)
        report.finish()

    def _forget_members(self) -> None:
        for name in (*OOB_ATTRIBUTES, "_members"):
            self.__dict__.pop(name, None)

    def _count_new_trees(self, n_before: int) -> int:
        if self.n_estimators < n_before:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the {n_before} trees "
                "that are there when warm_start==True."
            )
        return int(self.n_estimators - n_before)

    def _rows_of_tree(self, data: TrainingData) -> int:
        """Return how many rows decide about a tree's splits, counted as often as drawn."""
        drawn = self._n_draws
        if not self.bootstrap and data.weight is not None:
            drawn = int(np.count_nonzero(data.weight))
        return drawn // 2 if getattr(self, "honest", False) else drawn

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Choose what a forest that has no trees yet chooses by the data."""

    def _report(self, data: TrainingData, before: Forest | None, device: Device) -> Any:
        if self.oob_score:
            return ForestReport(self, data, before, device)
        return Progress(0 if before is None else before.n_trees, self.n_estimators, self.verbose)

    def _grow(self, grower: ForestGrower, first: int, n_new: int, report: Progress) -> Forest:
        return grower.grow(first, n_new, report)

    def _require_same_problem(
        self, before: Forest, classes: Any, categories: Any, data: TrainingData
    ) -> None:
        """Refuse a warm start on data that the existing trees cannot have been grown on."""
        now, then = (data.shape[1], data.problem.width), (before.n_features, before.width)
        if now[0] != then[0]:
            wrong = f"X has {now[0]} features, the existing trees know {then[0]}"
        elif not _same(classes, getattr(self, "classes_", None)):
            wrong = f"y has the classes {self.classes_}, the existing trees know {classes}"
        elif now[1] != then[1]:
            wrong = f"y has {now[1]} outputs, the existing trees predict {then[1]}"
        elif not _same(*(None if c is None else c.values for c in (categories, self._categories))):
            wrong = "X has other categories than the existing trees were grown on"
        else:
            return
        raise ValueError(f"{wrong}. Pass such data, or set warm_start=False to start again.")

    def _forest_before(self) -> Forest | None:
        """Return the trees that a warm start continues from."""
        return getattr(self, "forest_", None) if self.warm_start else None

    def _draws(self, n_rows: int) -> int:
        """Return the number of rows that are drawn for each tree."""
        share = self.max_samples
        if share is None or not self.bootstrap:
            return n_rows
        if isinstance(share, Integral):
            n_draws = int(share)
        else:
            n_draws = max(round(n_rows * share), 1)
        if n_draws > MOST_DRAWS * n_rows:
            raise ValueError(
                f"max_samples={share} draws {n_draws} of {n_rows} rows, at most {MOST_DRAWS} times "
                "the rows can be drawn. Pass a smaller number or share."
            )
        return n_draws

    @property
    def _plan(self) -> SamplingPlan:
        """The drawing of the rows of each tree."""
        n_draws = self._n_draws if self.bootstrap else self._n_rows
        return SamplingPlan.of_rows(self._n_rows, n_draws, bool(self.bootstrap), self._seed)

    @property
    def _plans(self) -> list[SamplingPlan]:
        return [self._plan] * self.forest_.n_trees

    @property
    def _n_samples_bootstrap(self) -> int:
        return self._n_draws

    @property
    def estimators_(self) -> list[Any]:
        """The trees as estimators; those of a classifier predict class numbers."""
        check_is_fitted(self)
        return made_members(self, self.forest_.n_trees)

    @property
    def estimator(self) -> Any:
        """An unfitted tree of the forest's kind; scikit-learn's forests have it too."""
        return self._tree_class()

    @property
    def estimator_(self) -> Any:
        """An unfitted tree of the forest's kind."""
        check_is_fitted(self)
        return self._tree_class()

    def _parameters_of_members(self) -> dict[str, Any]:
        """Return the parameters of the trees, and others."""
        return self.get_params(deep=False)

    def _member(self, t: int) -> Any:
        parameters = self._parameters_of_members()
        own = self._tree_class._get_param_names()
        shared = {name: parameters[name] for name in own if name in parameters}
        shared["splitter"] = "random" if self._random_splits else "best"
        if "class_weight" in shared:
            shared["class_weight"] = None
        member = self._tree_class(**{**shared, "random_state": tree_key(self._seed, t)})
        for name in ("_categories", "is_categorical_", "n_features_in_", "n_outputs_"):
            setattr(member, name, getattr(self, name))
        if self._output_classes is not None:
            numbers = [np.arange(n, dtype=np.float64) for n in self._n_classes]
            member.classes_ = numbers[0] if self.n_outputs_ == 1 else numbers
            member.n_classes_ = self.n_classes_
        member.forest_ = self.forest_.slice(t, t + 1)
        member.max_features_ = member._max_features()
        return member

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean decrease in impurity: share of each feature in the decrease of impurity, averaged
        over the trees, float64 of shape (n_features,). Biased towards features of many values:
        compare ``oob_permutation_importance``."""
        check_is_fitted(self)
        return mean_importances(self.forest_)

    @property
    def feature_importances_percent_(self) -> np.ndarray:
        """Importances in percent of the most important feature, from 0 to 100 (Friedman 2001)."""
        importances = self.feature_importances_
        return 100.0 * importances / max(float(importances.max()), 1e-300)

    def decision_path(self, X: Any) -> tuple[Any, np.ndarray]:
        """Return the nodes that each row passes.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        indicator : sparse matrix in CSR format, shape (n_rows, n_nodes)
            Nodes of all trees side by side.
        n_nodes_ptr : int64, shape (n_trees + 1,)
            Columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]`` are those of tree t.
        """
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False)
            return decision_path(self.forest_, values, device)

    def proximity(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return the share of the trees in which two rows end in the same leaf (Breiman 2001).

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        Y : array, sparse matrix or data frame, shape (n_rows, n_features), default=None
            The other rows; None: those of X.

        Returns
        -------
        float64, shape (n_rows_X, n_rows_Y), NumPy

        Raises
        ------
        MemoryError
            The result would not fit.
        """
        left = to_numpy(self.apply(X))
        right = left if Y is None else to_numpy(self.apply(Y))
        size = 8 * left.shape[0] * right.shape[0]
        available = available_memory()
        if available is not None and size > available:
            raise MemoryError(
                f"The proximities of {left.shape[0]} and {right.shape[0]} rows take "
                f"{format_bytes(size)}, {format_bytes(available)} are free. Pass fewer rows."
            )
        total = np.zeros((left.shape[0], right.shape[0]))
        for t in range(left.shape[1]):
            total += left[:, t, None] == right[None, :, t]
        return total / left.shape[1]

    def oob_permutation_importance(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        n_repeats: int = 1,
        random_state: Any = None,
    ) -> Bunch:
        """Return how much worse the trees predict the rows outside their samples once the values
        of a feature are shuffled among these (Breiman 2001, section 10).

        Parameters
        ----------
        X, y : array or data frame
            The data that the forest was fitted with.
        sample_weight : array of shape (n_rows,), default=None
            Its weights.
        n_repeats : int, default=1
            Shuffles of each feature.
        random_state : int, RandomState instance or None, default=None
            Seed of the orders; None is a fixed one.

        Returns
        -------
        Bunch
            ``importances_mean`` and ``importances_std``, float64 of shape (n_features,): mean and
            standard deviation over the trees of the rise in the share of wrong classes, or in the
            mean squared error; ``importances``, shape (n_features, n_trees).
        """
        check_is_fitted(self)
        if not self.bootstrap:
            raise ValueError("Out-of-bag importances need bootstrap=True: no tree leaves rows out.")
        if not isinstance(n_repeats, Integral) or n_repeats < 1:
            raise ValueError(f"n_repeats must be an integer >= 1, got {n_repeats!r}.")
        work = self._prediction_work(X).times(n_repeats * self.n_features_in_)
        device = resolve_device(self.device, X, work=work, y=y, sample_weight=sample_weight)
        rng = np.random.default_rng(seed_of(random_state))
        with self._working_on(device):
            known = self._known_rows(X, y, sample_weight, device)
            result = permutation_importances(self, known, n_repeats, rng)
        return Bunch(
            importances_mean=result.mean(axis=1),
            importances_std=result.std(axis=1),
            importances=result,
        )

    def _known_rows(self, X: Any, y: Any, sample_weight: Any, device: Device) -> KnownRows:
        """Read the training data again."""
        values = read_features(X, device, estimator=self, reset=False)
        n_rows = self._n_rows
        if values.shape[0] != n_rows:
            raise ValueError(
                f"X has {values.shape[0]} rows, the forest was fitted with {n_rows}: pass the "
                "training data, whose out-of-bag rows are known."
            )
        truth = self._read_truth(y, n_rows, device, "y")
        if self._output_classes is not None and truth.min() < 0:
            raise ValueError(
                "y has classes that the forest does not know: pass the training data, whose "
                "out-of-bag rows are known."
            )
        weight = read_sample_weight(sample_weight, n_rows, CPU)
        return KnownRows(values, truth, np.ones(n_rows) if weight is None else weight, device)


def _same(a: Any, b: Any) -> bool:
    """Return whether arrays are equal, or sequences of these, or both None."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return (a is None and b is None) or np.array_equal(a, b)
