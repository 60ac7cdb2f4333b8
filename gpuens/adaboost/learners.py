"""The learners of AdaBoost: clones of any estimator, or trees that share one binned table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..devices.placement import Device, home_of, near, to_numpy
from ..estimators.nothing_learned import of_ensemble
from ..estimators.parameters import monotone_constraints, seed_of
from ..forest.forest import Forest
from ..inputs.categories import read_features
from ..kernels.cart.grow_cart import grow_cart
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_TREE
from ..members import fitting
from ..members.classes import labels_of
from ..numerics.sampling import weighted_counts
from ..trees.criteria import Problem, classification_problem, regression_problem
from ..trees.growth import all_rows, forest_of, tree_key
from ..trees.parameters import cart_params, check_tree_parameters
from ..trees.table import bins_for_classes, cart_table
from ..trees.trees import DecisionTreeClassifier, DecisionTreeRegressor
from .rounds import GRID, Learners, RowWeights

SEED_BITS = np.uint64(0x7FFFFFFF)
_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)


def member_seeds(seed: int, t: int, n: int) -> list[int]:
    """Return seeds for the n parameters of learner t that take one, below 2**31."""
    key = np.uint64(_subkey(np.uint64(seed), PURPOSE_TREE, np.uint64(t)))
    return [int(_draw(key, np.uint64(k)) & SEED_BITS) for k in range(n)]


def new_member(base: Any, seed: int, t: int) -> Any:
    """Return learner t, not fitted: a clone with seeds of its own."""
    member = clone(base)
    names = fitting.names_of_seeds(member)
    return member.set_params(**dict(zip(names, member_seeds(seed, t, len(names)), strict=True)))


def bootstrap_weights(rows: RowWeights, seed: int, t: int) -> np.ndarray:
    """Draw how often each row is in the sample of learner t: float64, shape (n_rows,), NumPy. As
    many rows are drawn as have a positive weight, with chances by weight."""
    counts = weighted_counts(to_numpy(rows.values), rows.n_used, seed, t)
    return counts.astype(np.float64)


def read_any(X: Any, device: Device, *, estimator: Any, base: Any, reset: bool) -> Any:
    """Return the features as the learners get them: values of any type, two dimensions or more."""
    sparse = fitting.input_tags(base).sparse
    return fitting.read_features(
        X, device, estimator=estimator, reset=reset, sparse=sparse, allow_nd=True
    )


def class_numbers(member: Any, X: Any, classes: np.ndarray, device: Device) -> Array:
    """Return the numbers of the classes that a learner predicts, int64 on the device; -1 for a
    label that is not among the classes."""
    predicted, xp = member.predict(X), device.xp
    if classes.dtype.kind in "biuf":
        predicted, known = device.asarray(predicted), device.asarray(classes)
    else:
        predicted, known, xp = np.asarray(to_numpy(predicted), classes.dtype), classes, np
    codes = xp.minimum(xp.searchsorted(known, predicted), len(classes) - 1)
    return device.asarray(xp.where(known[codes] == predicted, codes, -1))


class AnyLearners(Learners):
    """Clones of ``base``: classifiers, which know the labels and are fitted to all rows with their
    weights, or regressors, which are fitted to samples drawn by weight. ``estimator`` is the
    ensemble, which learns the features of X; ``before`` has the learners of earlier rounds."""

    def __init__(
        self, estimator: Any, base: Any, X: Any, device: Device, before: list[Any] | None
    ) -> None:
        self.values = read_any(X, device, estimator=estimator, base=base, reset=before is None)
        self.n_rows = self.values.shape[0]
        self._estimator, self._base, self._device = estimator, base, device
        self.members: list[Any] = [] if before is None else list(before)

    def start(self, y: Array, rows: RowWeights) -> None:
        self._y = labels_of(y, self._classes, self._device) if self._classifies else y

    def fit(self, t: int, rows: RowWeights) -> Array:
        member = new_member(self._base, self._estimator._seed, t)
        with of_ensemble():
            if self._classifies:
                member.fit(self.values, self._y, sample_weight=rows.on_grid())
            else:
                self._fit_to_sample(member, t, rows)
        self.members.append(fitting.whole(member))
        return self.predictions(t)

    def _fit_to_sample(self, member: Any, t: int, rows: RowWeights) -> None:
        """Fit a regressor to a sample drawn by weight, which is a weight for each row where the
        regressor takes them: that copies nothing."""
        counts = bootstrap_weights(rows, self._estimator._seed, t)
        if has_fit_parameter(member, "sample_weight"):
            member.fit(self.values, self._y, sample_weight=self._device.asarray(counts))
            return
        drawn = np.repeat(np.arange(self.n_rows), counts.astype(np.int64))
        part = fitting.take(self.values, drawn, self._device)
        member.fit(part, self._y[self._device.asarray(drawn)])

    def predictions(self, t: int) -> Array:
        if self._classifies:
            return class_numbers(self.members[t], self.values, self._classes, self._device)
        return numbers_of(self.members[t], self.values, self._device)

    def keep(self, n: int) -> None:
        del self.members[n:]

    def forest(self, weights: np.ndarray) -> Any:
        """Raise an AttributeError."""
        raise AttributeError(
            "forest_ exists only if all learners are trees of gpuens, not copies of "
            f"{self._base!r}."
        )

    def set_on(self, estimator: Any, weights: np.ndarray) -> None:
        estimator._members = self.members[: weights.size]


def numbers_of(member: Any, X: Any, device: Device) -> Array:
    """Return the predictions of a regressor: float64, shape (n_rows,), on the device."""
    return device.asarray(member.predict(X), np.float64).reshape(X.shape[0])


_OWN = (
    *("fit", "predict", "apply", "_grow", "_keep", "_read_training", "_problem"),
    "_with_class_weight",
)
"""Methods of trees that this module replaces."""


def are_trees(base: Any) -> bool:
    """Return whether the learners are trees of this package that can be grown here: a user's
    subclass may do other things, and class weights, pruning and the checks of the Poisson criterion
    belong to the trees' own ``fit``."""
    for tree in (DecisionTreeClassifier, DecisionTreeRegressor):
        # Extremely randomised trees have the same methods.
        if all(getattr(type(base), name, None) is getattr(tree, name, None) for name in _OWN):
            weighted = getattr(base, "class_weight", None) is not None
            return not (weighted or base.ccp_alpha or base.criterion == "poisson")
    return False


class TreeLearners(Learners):
    """Trees (``are_trees``) that are grown on the rows of one table: for classification on all rows
    with their weights, for regression on samples drawn by weight. ``before`` is the forest of the
    rounds before, which has seen the same features."""

    def __init__(
        self, estimator: Any, base: Any, X: Any, device: Device, before: Forest | None
    ) -> None:
        check_tree_parameters(base)
        values = read_features(
            X,
            home_of(X, device),
            estimator=estimator,
            reset=before is None,
            categorical_features=base.categorical_features,
        )
        self.values = near(values, device)  # every round predicts all rows
        self.n_rows, self._n_features = self.values.shape
        self._estimator, self._base, self._device = estimator, base, device
        self.trees: list[Forest] = [] if before is None else list(trees_of(before))

    def start(self, y: Array, rows: RowWeights) -> None:
        estimator, base = self._estimator, self._base
        categories = estimator._categories
        n_categories = np.zeros(self._n_features, np.int32)
        if categories is not None:
            n_categories = categories.n_categories
        max_bins = None if base.max_bins is None else int(base.max_bins)
        self._table = cart_table(
            self.values,
            weight=to_numpy(rows.values),
            n_categories=n_categories,
            monotone=monotone_constraints(
                base.monotonic_cst, n_categories > 0, self._n_classes(), 1
            ),
            max_bins=bins_for_classes(max_bins, self.values.shape, self._n_classes()),
            seed=estimator._seed,
            device=self._device,
        )
        self._y, self._problem = y[None], None
        if self._classifies:
            self._problem = classification_problem(
                [y], self._n_classes(), None, base.criterion, 1, self._device
            )
        self._all = all_rows(self.n_rows, self._device)

    def fit(self, t: int, rows: RowWeights) -> Array:
        problem, records = self._sample(t, rows)
        (seed,) = member_seeds(self._estimator._seed, t, 1)
        params = cart_params(
            self._base,
            problem,
            self.n_rows,
            self._n_features,
            random=self._base.splitter == "random",
        )
        begin, end = np.zeros(1, np.int64), np.array([records.size], np.int64)
        key = np.array([tree_key(seed_of(seed), 0)], np.uint64)
        grown = grow_cart(self._table, problem.target, records, begin, end, key, params)
        self.trees.append(forest_of(self._table, problem, grown, records))
        return self.predictions(t)

    def predictions(self, t: int) -> Array:
        tree = self.trees[t]
        leaf = tree.apply(self.values, self._device)[:, 0]
        return self._device.asarray(self._answers(tree))[leaf]

    def keep(self, n: int) -> None:
        del self.trees[n:]

    def forest(self, weights: np.ndarray) -> Forest:
        return self._weighted(Forest.concatenate(self.trees[: weights.size]), weights)

    def set_on(self, estimator: Any, weights: np.ndarray) -> None:
        trees = Forest.concatenate(self.trees[: weights.size])
        estimator._trees, estimator.forest_ = trees, self._weighted(trees, weights)

    def _weighted(self, trees: Forest, weights: np.ndarray) -> Forest:
        return forest_of_votes(trees, weights) if self._classifies else trees

    def _n_classes(self) -> tuple[int, ...]:
        """Return the number of classes; empty for a regression."""
        return (len(self._classes),) if self._classifies else ()

    def _sample(self, t: int, rows: RowWeights) -> tuple[Problem, Array]:
        """Return what tree t learns, and the records of its rows."""
        if self._problem is not None:
            target = self._problem.target._replace(weight=rows.whole())
            return replace(self._problem, target=target, weight_scale=GRID), self._all.copy()
        weight = bootstrap_weights(rows, self._estimator._seed, t)
        problem = regression_problem(self._y, weight, self._base.criterion, 1, self._device)
        return problem, self._all[self._device.asarray(weight > 0)]

    def _answers(self, tree: Forest) -> np.ndarray:
        """Return the predictions of the nodes of a tree, float64."""
        if self._classifies:
            return tree.value.argmax(axis=1).astype(np.float64)
        return tree.value[:, 0]


def trees_of(forest: Forest) -> Iterator[Forest]:
    """Yield the trees of a forest, each as a forest."""
    return (forest.slice(t, t + 1) for t in range(forest.n_trees))


def forest_of_votes(trees: Forest, weights: np.ndarray) -> Forest:
    """Return trees whose nodes hold weighted votes in place of class shares. For at most two
    classes a vote is the weight, with a minus sign for the first class; for more it is the weight
    for its class and ``-weight / (K - 1)`` for the others."""
    n_nodes, n_classes = trees.value.shape
    voted = trees.value.argmax(axis=1)
    weight = np.repeat(weights, np.diff(trees.offset))
    if n_classes <= 2:
        value = np.where(voted == 1, weight, -weight)[:, None]
    else:
        value = np.repeat((-weight / (n_classes - 1))[:, None], n_classes, axis=1)
        value[np.arange(n_nodes), voted] = weight
    return replace(trees, value=value, base=np.zeros(value.shape[1]))
