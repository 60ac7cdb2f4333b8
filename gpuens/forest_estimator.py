"""What random forests and extremely randomised trees share: growing many trees at once, and what
the rows outside their samples say."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from .bootstrap import bootstrap_counts, records_of_sample
from .callbacks import ProgressBar, TrainingState
from .cart_estimator import CartEstimator, TrainingData
from .categories import read_features
from .criteria import Problem
from .devices import CPU, Device, resolve_device, to_numpy
from .forest import Forest
from .kept_on_failure import kept_on_failure
from .memory import available_memory, format_bytes
from .parameters import seed_of
from .pruning import prune_by_complexity
from .targets import read_sample_weight
from .training_memory import cart_plan
from .tree_growth import all_rows, grow_forest, tree_key
from .tree_parameters import cart_params, check_tree_parameters
from .tree_view import decision_path, tree_importances

NODE_BYTES = 70
"""Of a node in a finished forest, without its values."""
LIKELY_SHARE = 0.2
"""Of the nodes that a tree can have at most, the share that it has at least as a rule."""
MOST_DRAWS = 4
"""Draws for each row, up to which no row is drawn more often than growth can count."""
OOB_ATTRIBUTES = ("oob_score_", "oob_scores_path_", "oob_decision_function_", "oob_prediction_")


class ForestOfTrees(CartEstimator):
    """Trees on samples of the rows, averaged."""

    _warns_of_column = True
    _random_splits = False
    _tree_class: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Grow the trees.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing.
        y : array, shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array of shape (n_rows,), default=None
            Factors on how often a row counts. Rows of weight zero are as if they were
            not there, but for the draws that they use up.

        Returns
        -------
        self
            Ctrl-C ends the growth early and keeps the trees that are finished.

        Raises
        ------
        ValueError, TypeError
            Bad data or parameters; names the argument, what it got and what it wants.
        MemoryError
            The forest would not fit; says how large it would be.
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
        device = resolve_device(self.device, X, y=y, sample_weight=sample_weight)
        with self._working_on(device), kept_on_failure(self):
            self._fit(X, y, sample_weight, device)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, device: Device) -> None:
        before = self._forest_before()
        if before is None:
            self._seed = seed_of(self.random_state)
        first = 0 if before is None else before.n_trees
        n_new = self.n_estimators - first
        if n_new < 0:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the {first} trees "
                "that are there when warm_start==True."
            )
        multiplicity = 31 if self.bootstrap else 1
        known = getattr(self, "classes_", None), getattr(self, "_categories", None)
        fitted = self.__dict__.copy()
        data = self._read_training(X, y, sample_weight, device, multiplicity)
        if n_new == 0:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new trees.",
                stacklevel=3,
            )
            if not self.oob_score or hasattr(self, "oob_score_"):
                self.__dict__ = fitted  # the data may be of another problem
                return
        if before is not None:
            self._require_same_problem(before, *known, data)
        n_rows = data.values.shape[0]
        self._n_rows, self._n_draws = n_rows, self._draws(n_rows)
        if n_new == 0:
            _Watch(self, data, before, device).finish()
            return
        for name in OOB_ATTRIBUTES:
            self.__dict__.pop(name, None)
        watch = _Watch(self, data, before, device)
        watch.require_memory(data.problem, n_new)
        shape, itemsize = data.values.shape, data.values.itemsize
        plan = cart_plan(
            self, shape, itemsize, device, width=data.problem.width, is_there=True, held=True
        )
        plan.require()
        with plan.explaining():
            grown = self._grow(data, first, n_new, watch, device)
        if self.ccp_alpha:
            pruned = [prune_by_complexity(tree, self.ccp_alpha) for tree in _trees_of(grown)]
            grown = Forest.concatenate(pruned)
        self.forest_ = grown if before is None else Forest.concatenate([before, grown])
        self.__dict__.pop("_members", None)
        if watch.done < n_new:
            warnings.warn(
                f"Training was interrupted: the forest keeps the {self.forest_.n_trees} trees "
                "that were finished.",
                RuntimeWarning,
                stacklevel=3,
            )
            watch = _Watch(self, data, self.forest_, device)  # sums may lack a tree, or half of one
        watch.finish()

    def _require_same_problem(
        self, before: Forest, classes: Any, categories: Any, data: TrainingData
    ) -> None:
        """Refuse a warm start on data that the trees that are there cannot have been grown on."""
        now, then = (data.table.n_bins.size, data.problem.width), (before.n_features, before.width)
        if now[0] != then[0]:
            wrong = f"X has {now[0]} features, the trees that are there know {then[0]}"
        elif not _same(classes, getattr(self, "classes_", None)):
            wrong = f"y has the classes {self.classes_}, the trees that are there know {classes}"
        elif now[1] != then[1]:
            wrong = f"y has {now[1]} outputs, the trees that are there predict {then[1]}"
        elif not _same(*(None if c is None else c.values for c in (categories, self._categories))):
            wrong = "X has other categories than the trees that are there were grown on"
        else:
            return
        raise ValueError(f"{wrong}. Pass such data, or set warm_start=False to start anew.")

    def _forest_before(self) -> Forest | None:
        """The trees that a warm start goes on from."""
        return getattr(self, "forest_", None) if self.warm_start else None

    def _draws(self, n_rows: int) -> int:
        """Rows drawn for each tree."""
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

    def _grow(
        self, data: TrainingData, first: int, n_new: int, watch: _Watch, device: Device
    ) -> Forest:
        n_features = data.table.n_bins.size
        params = cart_params(
            self, data.problem, data.values.shape[0], n_features, shuffle=True,
            random=self._random_splits,
        )  # fmt: skip
        seeds = [tree_key(self._seed, t) for t in range(first, first + n_new)]

        def sample(i: int) -> Any:
            return self._sample(first + i, data.used, device)

        if getattr(self, "class_weight", None) != "balanced_subsample":
            return grow_forest(
                data.table, data.problem, sample, seeds, params, device, after_batch=watch
            )
        trees: list[Forest] = []
        try:
            for i in range(n_new):  # every tree has weights of its own
                problem = self._balanced(data, first + i, device)
                records = sample(i)
                tree = grow_forest(
                    data.table, problem, [records].__getitem__, seeds[i : i + 1], params, device
                )
                trees.append(tree)
                watch(i, tree, None)
        except KeyboardInterrupt:
            if not trees:
                raise
        return Forest.concatenate(trees)

    def _balanced(self, data: TrainingData, tree: int, device: Device) -> Problem:
        """The problem with weights that balance the classes in a tree's sample."""
        rows = self._sampled_rows(tree)
        targets = [data.y] if data.y.ndim == 1 else list(data.y.T)
        factor = compute_sample_weight("balanced", self._labels(targets), indices=rows)
        weight = factor if data.weight is None else factor * data.weight
        weight = np.where(weight > 0, weight, 1.0)  # outside the sample, or never used
        return self._problem([device.asarray(t) for t in targets], weight, 31, device)

    def _sample(self, tree: int, used: Any, device: Device) -> Any:
        """The records of a tree."""
        if not self.bootstrap:
            records = all_rows(self._n_rows, device)
            return records if used is None else records[used]
        counts = self._counts(tree, device)
        if used is not None:
            counts = counts * used
            if not bool(counts.any()):  # no row of positive weight was drawn
                counts = counts.astype(np.uint8)
                counts[int(used.argmax())] = 1
        return records_of_sample(counts)

    def _counts(self, tree: int, device: Device) -> Any:
        """How often each row is in a tree's sample."""
        return bootstrap_counts(self._n_rows, self._n_draws, self._seed, tree, device)

    def _sampled_rows(self, tree: int) -> np.ndarray:
        if not self.bootstrap:
            return np.arange(self._n_rows, dtype=np.int32)
        return np.repeat(np.arange(self._n_rows, dtype=np.int32), self._counts_on_host(tree))

    def _counts_on_host(self, tree: int) -> np.ndarray:
        return self._counts(tree, CPU)

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """The rows of each tree's sample, ascending, with repetitions; drawn again when asked
        for."""
        check_is_fitted(self)
        return [self._sampled_rows(t) for t in range(self.forest_.n_trees)]

    @property
    def estimators_(self) -> list[Any]:
        """The trees as estimators; those of a classifier predict class numbers."""
        check_is_fitted(self)
        if "_members" not in self.__dict__:
            self._members = list(self._make_members())
        return self._members

    def _make_members(self) -> Iterator[Any]:
        parameters = self.get_params(deep=False)
        own = self._tree_class._get_param_names()
        shared = {name: parameters[name] for name in own if name in parameters}
        shared["splitter"] = "random" if self._random_splits else "best"
        if "class_weight" in shared:
            shared["class_weight"] = None
        for t, forest in enumerate(_trees_of(self.forest_)):
            member = self._tree_class(**{**shared, "random_state": tree_key(self._seed, t)})
            member._categories = self._categories
            member.is_categorical_ = self.is_categorical_
            member.n_features_in_ = self.n_features_in_
            member.n_outputs_ = self.n_outputs_
            self._describe_member(member)
            member.forest_ = forest
            member.max_features_ = member._max_features()
            yield member

    def _describe_member(self, member: Any) -> None:
        """Attributes beyond those of every tree."""

    @property
    def estimator(self) -> Any:
        """The same, before ``fit`` too; scikit-learn's forests have it."""
        return self._tree_class()

    @property
    def _n_samples_bootstrap(self) -> int:
        return self._n_draws

    @property
    def estimator_(self) -> Any:
        """An unfitted tree of the forest's kind."""
        check_is_fitted(self)
        return self._tree_class()

    def __len__(self) -> int:
        check_is_fitted(self)
        return self.forest_.n_trees

    def __getitem__(self, tree: int) -> Any:
        return self.estimators_[tree]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_members"}

    @property
    def feature_importances_(self) -> np.ndarray:
        """Mean decrease in impurity: share of each feature in the decrease of impurity, averaged
        over the trees, float64 of shape (n_features,). Biased towards features of many values:
        compare ``oob_permutation_importance``."""
        check_is_fitted(self)
        importances = tree_importances(self.forest_)
        importances = importances[importances.sum(axis=1) > 0]
        if not len(importances):
            return np.zeros(self.n_features_in_)
        mean = importances.mean(axis=0)
        return mean / mean.sum()

    @property
    def feature_importances_percent_(self) -> np.ndarray:
        """The same in percent of the most important feature, from 0 to 100 (Friedman 2001)."""
        importances = self.feature_importances_
        return 100.0 * importances / max(float(importances.max()), 1e-300)

    def decision_path(self, X: Any) -> tuple[Any, np.ndarray]:
        """The nodes that each row passes.

        Returns
        -------
        indicator : sparse matrix in CSR format, shape (n_rows, n_nodes)
            Nodes of all trees side by side.
        n_nodes_ptr : int64, shape (n_trees + 1,)
            Columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]`` are those of tree t.
        """
        check_is_fitted(self)
        device = resolve_device(self.device, X)
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False).values
            return decision_path(self.forest_, values, device)

    def proximity(self, X: Any, Y: Any = None) -> np.ndarray:
        """Share of the trees in which two rows end in the same leaf (Breiman 2001).

        Parameters
        ----------
        X, Y : array or data frame, shape (n_rows, n_features)
            Y is X if it is None.

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
        """How much worse the trees predict the rows outside their samples once the values of
        a feature are shuffled among these (Breiman 2001, section 10).

        Parameters
        ----------
        X, y, sample_weight
            What the forest was fitted with.
        n_repeats : int
            Shuffles of each feature.
        random_state : int, RandomState instance or None, default=None

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
        device = resolve_device(self.device, X, y=y, sample_weight=sample_weight)
        rng = np.random.default_rng(seed_of(random_state))
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False).values
            if values.shape[0] != self._n_rows:
                raise ValueError(
                    f"X has {values.shape[0]} rows, the forest was fitted with {self._n_rows}: "
                    "pass the training data, whose out-of-bag rows are known."
                )
            truth = self._numbers_of(y, device)
            weight = read_sample_weight(sample_weight, self._n_rows, CPU, estimator=self)
            weight = np.ones(self._n_rows) if weight is None else weight
            result = np.zeros((self.n_features_in_, self.forest_.n_trees))
            for t, tree in enumerate(_trees_of(self.forest_)):
                rows = np.flatnonzero(self._counts_on_host(t) == 0)
                if rows.size == 0 or not weight[rows].sum() > 0:
                    continue
                table = to_numpy(values[device.asarray(rows)]).copy()
                args = truth[rows], weight[rows], tree, device
                whole = self._error_of_tree(table, *args)
                for f in np.unique(tree.feature[tree.feature >= 0]):
                    kept = table[:, f].copy()
                    for _ in range(n_repeats):
                        table[:, f] = rng.permutation(kept)
                        result[f, t] += (self._error_of_tree(table, *args) - whole) / n_repeats
                    table[:, f] = kept
        return Bunch(
            importances_mean=result.mean(axis=1),
            importances_std=result.std(axis=1),
            importances=result,
        )

    def _error_of_tree(
        self, table: np.ndarray, truth: np.ndarray, weight: np.ndarray, tree: Forest, device: Device
    ) -> float:
        raw = to_numpy(tree.raw_predict(device.asarray(table), device))
        return float(np.average(self._row_errors(raw, truth), weights=weight))

    # What depends on whether classes or numbers are predicted.

    @abstractmethod
    def _numbers_of(self, y: Any, device: Device) -> np.ndarray:
        """Class numbers or targets of the rows, (n_rows, n_outputs)."""

    @abstractmethod
    def _row_errors(self, mean: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Error of each row, averaged over the outputs; ``mean`` is (width, n_rows)."""

    @abstractmethod
    def _set_oob_prediction(self, mean: np.ndarray, truth: np.ndarray) -> None:
        """Keep the out-of-bag prediction (width, n_rows), NaN where there is none, and score
        it."""


class _Watch:
    """What happens after each batch of trees: out-of-bag sums, progress, and a look at memory."""

    def __init__(
        self, estimator: ForestOfTrees, data: TrainingData, before: Forest | None, device: Device
    ) -> None:
        self.estimator = estimator
        self.values = data.values
        self.truth = data.y.reshape(data.y.shape[0], -1)
        self.device = device
        self.first = 0 if before is None else before.n_trees
        self.done = 0
        self.path: list[float] = []
        self.checked = False
        n_rows = data.values.shape[0]
        self.sums = np.zeros((data.problem.width, n_rows if estimator.oob_score else 0))
        self.n_models = np.zeros(self.sums.shape[1], np.int64)
        self.bar = ProgressBar() if estimator.verbose else None
        self.state = TrainingState(
            self.first, estimator.n_estimators, self.first, {}, self._nothing, self._nothing
        )
        if before is not None and estimator.oob_score:
            for t, tree in enumerate(_trees_of(before)):
                self._add_out_of_bag(t, tree)

    @staticmethod
    def _nothing() -> Any:
        """A forest that is half grown is nobody's business; the progress bar does not ask."""

    def require_memory(self, problem: Problem, n_trees: int) -> None:
        """Refuse a forest that cannot fit, before a tree is grown."""
        leaves = self._most_leaves()
        node = NODE_BYTES + 8 * problem.width
        size = LIKELY_SHARE * n_trees * (2 * leaves - 1) * node
        self._require(size, n_trees, f"up to {leaves} leaves each")
        self.node = node

    def _most_leaves(self) -> int:
        estimator = self.estimator
        leaves = max(1, int(estimator._n_draws * (0.632 if estimator.bootstrap else 1.0)))
        if isinstance(estimator.min_samples_leaf, Integral):
            leaves = max(1, leaves // int(estimator.min_samples_leaf))
        if estimator.max_depth is not None and estimator.max_depth < 31:
            leaves = min(leaves, 2 ** int(estimator.max_depth))
        if estimator.max_leaf_nodes is not None:
            leaves = min(leaves, int(estimator.max_leaf_nodes))
        return leaves

    def _require(self, size: float, n_trees: int, what: str) -> None:
        available = available_memory()
        if available is not None and size > available:
            raise MemoryError(
                f"A forest of {n_trees} trees with {what} takes about {format_bytes(size)}, "
                f"{format_bytes(available)} are free. Grow fewer trees (n_estimators), or smaller "
                "ones (max_depth, max_leaf_nodes, min_samples_leaf, max_samples)."
            )

    def __call__(self, first: int, forest: Forest, records: Any) -> bool:
        estimator = self.estimator
        if not self.checked:
            self.checked = True
            left = estimator.n_estimators - self.first - forest.n_trees
            nodes = forest.feature.size / forest.n_trees
            self._require(left * nodes * self.node, left, f"about {round(nodes)} nodes each")
        if estimator.oob_score:
            for i, tree in enumerate(_trees_of(forest)):
                pruned = prune_by_complexity(tree, estimator.ccp_alpha)
                self._add_out_of_bag(self.first + first + i, pruned)
        self.done += forest.n_trees
        self.state.iteration = self.first + self.done
        if self.bar is not None:
            self.bar.after_iteration(self.state)
        return False

    def _add_out_of_bag(self, t: int, tree: Forest) -> None:
        rows = np.flatnonzero(self.estimator._counts_on_host(t) == 0)
        raw = to_numpy(tree.raw_predict(self.values, self.device))
        self.sums[:, rows] += raw[:, rows]
        self.n_models[rows] += 1
        seen = self.n_models > 0
        errors = self.estimator._row_errors(
            self.sums[:, seen] / self.n_models[seen], self.truth[seen]
        )
        self.path.append(float(errors.mean()) if errors.size else float("nan"))

    def finish(self) -> None:
        """Set the estimator's out-of-bag attributes."""
        if self.bar is not None:
            self.bar.after_training(self.state)
        estimator = self.estimator
        if not estimator.oob_score:
            return
        estimator.oob_scores_path_ = np.array(self.path)
        unseen = self.n_models == 0
        if unseen.any():
            warnings.warn(
                "Some inputs do not have OOB scores. This probably means too few trees were used "
                f"to compute any reliable OOB estimates. ({np.count_nonzero(unseen)} of "
                f"{unseen.size} rows were in every sample; raise n_estimators.)",
                stacklevel=4,
            )
        mean = np.full(self.sums.shape, np.nan)
        np.divide(self.sums, self.n_models, out=mean, where=~unseen)
        estimator._set_oob_prediction(mean, self.truth)


def _same(a: Any, b: Any) -> bool:
    """Whether arrays are equal, or sequences of these, or both None."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return (a is None and b is None) or np.array_equal(a, b)


def _trees_of(forest: Forest) -> Iterator[Forest]:
    """Its trees, each as a forest."""
    return (forest.slice(t, t + 1) for t in range(forest.n_trees))


def with_metric(oob_score: Any, default: Any) -> Any:
    """The function that out-of-bag predictions are scored with."""
    return oob_score if callable(oob_score) else default
