"""What random forests and extremely randomised trees share: growing many trees at once."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.class_weight import compute_sample_weight

from ..devices.placement import Device, resolve_device
from ..estimators.all_or_nothing import kept_on_failure
from ..estimators.parameters import seed_of
from ..forest.forest import Forest
from ..forest.pruning import prune_by_complexity
from ..inputs.targets import class_numbers, targets_of
from ..kernels.statistics.samples import records_of_sample
from ..trees.cart import CartClassifier, CartRegressor, TrainingData
from ..trees.criteria import Problem
from ..trees.growth import all_rows, cart_plan, grow_forest, tree_key
from ..trees.parameters import cart_params, check_tree_parameters
from .fitted import FittedForest
from .out_of_bag import trees_of
from .progress import ForestProgress

MOST_DRAWS = 4
"""Draws for each row, up to which no row is drawn more often than growth can count."""
OOB_ATTRIBUTES = ("oob_score_", "oob_scores_path_", "oob_decision_function_", "oob_prediction_")


class ForestOfTrees(FittedForest):
    """Trees on samples of the rows, averaged."""

    _warns_of_column = True

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
            ForestProgress(self, data, before, device).finish()
            return
        for name in OOB_ATTRIBUTES:
            self.__dict__.pop(name, None)
        progress = ForestProgress(self, data, before, device)
        grown = self._grow_within_memory(data, first, n_new, progress, device)
        self.forest_ = grown if before is None else Forest.concatenate([before, grown])
        self.__dict__.pop("_members", None)
        if progress.done < n_new:
            warnings.warn(
                f"Training was interrupted: the forest keeps the {self.forest_.n_trees} trees "
                "that were finished.",
                RuntimeWarning,
                stacklevel=3,
            )
            # Its sums may lack a tree, or half of one.
            progress = ForestProgress(self, data, self.forest_, device)
        progress.finish()

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

    def _grow_within_memory(
        self, data: TrainingData, first: int, n_new: int, progress: ForestProgress, device: Device
    ) -> Forest:
        progress.require_memory(data.problem, n_new)
        shape, itemsize = data.values.shape, data.values.itemsize
        plan = cart_plan(
            self, shape, itemsize, device, width=data.problem.width, is_there=True, held=True
        )
        plan.require()
        with plan.explaining():
            grown = self._grow(data, first, n_new, progress, device)
        if not self.ccp_alpha:
            return grown
        return Forest.concatenate(
            [prune_by_complexity(tree, self.ccp_alpha) for tree in trees_of(grown)]
        )

    def _grow(
        self, data: TrainingData, first: int, n_new: int, progress: ForestProgress, device: Device
    ) -> Forest:
        n_features = data.table.n_bins.size
        params = cart_params(
            self, data.problem, data.values.shape[0], n_features,
            random=self._random_splits,
        )  # fmt: skip
        seeds = [tree_key(self._seed, t) for t in range(first, first + n_new)]

        def sample(i: int) -> Any:
            return self._sample(first + i, data.used, device)

        if getattr(self, "class_weight", None) != "balanced_subsample":
            return grow_forest(
                data.table, data.problem, sample, seeds, params, device, after_batch=progress
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
                progress(i, tree, None)
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

    @abstractmethod
    def _set_oob_prediction(self, mean: np.ndarray, truth: np.ndarray) -> None:
        """Keep the out-of-bag prediction (width, n_rows), NaN where there is none, and score
        it."""


class ForestClassifier(CartClassifier, ForestOfTrees):
    """Trees that vote by their class shares."""

    def _describe_member(self, member: Any) -> None:
        numbers = [np.arange(n, dtype=np.float64) for n in self._n_classes]
        member.classes_ = numbers[0] if self.n_outputs_ == 1 else numbers
        member.n_classes_ = self.n_classes_

    def _numbers_of(self, y: Any, device: Device) -> np.ndarray:
        known = [self.classes_] if self.n_outputs_ == 1 else self.classes_
        numbers = class_numbers(y, known, self._n_rows, device, estimator=self, name="y")
        if numbers.min() < 0:
            raise ValueError(
                "y has classes that the forest does not know: pass the training data, whose "
                "out-of-bag rows are known."
            )
        return numbers

    def _row_errors(self, mean: np.ndarray, truth: np.ndarray) -> np.ndarray:
        wrong = [share.argmax(axis=0) != truth[:, o] for o, share in enumerate(self._shares(mean))]
        return np.mean(wrong, axis=0)

    def _set_oob_prediction(self, mean: np.ndarray, truth: np.ndarray) -> None:
        shares: list[Any] = [np.ascontiguousarray(share.T) for share in self._shares(mean)]
        if len(shares) == 1:
            self.oob_decision_function_ = shares[0]
        elif len({share.shape[1] for share in shares}) == 1:
            self.oob_decision_function_ = np.stack(shares, axis=2)
        else:
            self.oob_decision_function_ = shares
        seen = ~np.isnan(mean[0])
        labels = [self.classes_] if self.n_outputs_ == 1 else self.classes_
        predicted = [c[s[seen].argmax(axis=1)] for c, s in zip(labels, shares, strict=True)]
        true = [c[truth[seen, o]] for o, c in enumerate(labels)]
        self.oob_score_ = _score(self.oob_score, accuracy_score, true, predicted)


class ForestRegressor(CartRegressor, ForestOfTrees):
    """Trees whose predictions are averaged."""

    def _numbers_of(self, y: Any, device: Device) -> np.ndarray:
        return targets_of(y, self.n_outputs_, self._n_rows, device, estimator=self, name="y")

    def _row_errors(self, mean: np.ndarray, truth: np.ndarray) -> np.ndarray:
        return ((mean.T - truth) ** 2).mean(axis=1)

    def _set_oob_prediction(self, mean: np.ndarray, truth: np.ndarray) -> None:
        self.oob_prediction_ = mean[0] if len(mean) == 1 else np.ascontiguousarray(mean.T)
        seen = ~np.isnan(mean[0])
        self.oob_score_ = _score(self.oob_score, r2_score, list(truth[seen].T), list(mean[:, seen]))


def _score(metric: Any, default: Any, true: list[Any], predicted: list[Any]) -> float:
    """The score of out-of-bag predictions, given output by output."""
    if len(true[0]) == 0:
        return float("nan")
    if callable(metric):
        default = metric
    if len(true) == 1:
        return float(default(true[0], predicted[0]))
    if default is accuracy_score:  # of several outputs: all labels of the row
        return float(
            np.mean(np.all([t == p for t, p in zip(true, predicted, strict=True)], axis=0))
        )
    return float(default(np.stack(true, axis=1), np.stack(predicted, axis=1)))


def _same(a: Any, b: Any) -> bool:
    """Whether arrays are equal, or sequences of these, or both None."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return (a is None and b is None) or np.array_equal(a, b)
