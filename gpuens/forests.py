"""Forests of randomised trees: ``RandomForest*`` and ``ExtraTrees*``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from .cart_estimator import CartClassifier, CartRegressor
from .devices import Device
from .docstrings import (
    CLASS_CRITERIA,
    FOREST,
    FOREST_CLASS_ATTRIBUTES,
    FOREST_CLASS_WEIGHT,
    FOREST_NUMBER_ATTRIBUTES,
    NUMBER_CRITERIA,
    documented,
)
from .forest_estimator import ForestOfTrees
from .multi_output import class_numbers, targets_of
from .trees import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)


class _ForestClassifier(CartClassifier, ForestOfTrees):
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


class _ForestRegressor(CartRegressor, ForestOfTrees):
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


@documented(
    FOREST,
    criteria=CLASS_CRITERIA,
    features='"sqrt"',
    bins="255",
    bootstrap="True",
    class_weight=FOREST_CLASS_WEIGHT,
    attributes=FOREST_CLASS_ATTRIBUTES,
)
class RandomForestClassifier(_ForestClassifier):
    """A random forest for classes (Breiman 2001): trees on bootstrap samples, whose nodes look at
    features drawn at random.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=20, device="cpu").fit(X, y)
    >>> forest.predict(X[:2]).tolist()
    [0, 0]
    """

    _tree_class = DecisionTreeClassifier

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        oob_score: Any = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = 0,
        warm_start: bool = False,
        class_weight: Any = None,
        ccp_alpha: float = 0.0,
        max_samples: int | float | None = None,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = 255,
        device: str = "auto",
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.ccp_alpha = ccp_alpha
        self.max_samples = max_samples
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.device = device


@documented(
    FOREST,
    criteria=NUMBER_CRITERIA,
    features="1.0",
    bins="255",
    bootstrap="True",
    class_weight="",
    attributes=FOREST_NUMBER_ATTRIBUTES,
)
class RandomForestRegressor(_ForestRegressor):
    """A random forest for numbers (Breiman 2001): trees on bootstrap samples, whose nodes look at
    features drawn at random.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> forest.predict(X[:2]).shape
    (2,)
    """

    _tree_class = DecisionTreeRegressor

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        oob_score: Any = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = 0,
        warm_start: bool = False,
        ccp_alpha: float = 0.0,
        max_samples: int | float | None = None,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = 255,
        device: str = "auto",
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.ccp_alpha = ccp_alpha
        self.max_samples = max_samples
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.device = device


@documented(
    FOREST,
    criteria=CLASS_CRITERIA,
    features='"sqrt"',
    bins="255",
    bootstrap="False",
    class_weight=FOREST_CLASS_WEIGHT,
    attributes=FOREST_CLASS_ATTRIBUTES,
)
class ExtraTreesClassifier(_ForestClassifier):
    """Extremely randomised trees for classes (Geurts et al. 2006): a node looks at one random cut
    of each of the features that it draws.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import ExtraTreesClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ExtraTreesClassifier(n_estimators=20, device="cpu").fit(X, y)
    >>> forest.predict(X[:2]).tolist()
    [0, 0]
    """

    _tree_class = ExtraTreeClassifier
    _random_splits = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = False,
        oob_score: Any = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = 0,
        warm_start: bool = False,
        class_weight: Any = None,
        ccp_alpha: float = 0.0,
        max_samples: int | float | None = None,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = 255,
        device: str = "auto",
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.ccp_alpha = ccp_alpha
        self.max_samples = max_samples
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.device = device


@documented(
    FOREST,
    criteria=NUMBER_CRITERIA,
    features="1.0",
    bins="255",
    bootstrap="False",
    class_weight="",
    attributes=FOREST_NUMBER_ATTRIBUTES,
)
class ExtraTreesRegressor(_ForestRegressor):
    """Extremely randomised trees for numbers (Geurts et al. 2006): a node looks at one random cut
    of each of the features that it draws.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import ExtraTreesRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = ExtraTreesRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> forest.predict(X[:2]).shape
    (2,)
    """

    _tree_class = ExtraTreeRegressor
    _random_splits = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = False,
        oob_score: Any = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = 0,
        warm_start: bool = False,
        ccp_alpha: float = 0.0,
        max_samples: int | float | None = None,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = 255,
        device: str = "auto",
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.ccp_alpha = ccp_alpha
        self.max_samples = max_samples
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.device = device
