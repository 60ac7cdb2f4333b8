"""Forests of randomised trees: ``RandomForest*`` and ``ExtraTrees*``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..estimators.docstrings import FOREST, FOREST_OF_CLASSES, FOREST_OF_VALUES, documented
from ..estimators.recursion import HasRecursion
from ..trees.cart import CartClassifier, CartRegressor
from ..trees.trees import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from .estimator import ForestOfTrees


@documented(FOREST, bins="255", bootstrap="True", **FOREST_OF_CLASSES)
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestClassifier(CartClassifier, ForestOfTrees):
    """A random forest for classification (Breiman 2001): trees on bootstrap samples, whose
    nodes consider features drawn at random.

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

    criterion: str = "gini"
    max_features: int | float | str | None = "sqrt"
    class_weight: Any = None
    honest: bool = False


@documented(FOREST, bins="255", bootstrap="True", **FOREST_OF_VALUES)
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestRegressor(HasRecursion, CartRegressor, ForestOfTrees):
    """A random forest for regression (Breiman 2001): trees on bootstrap samples, whose
    nodes consider features drawn at random.

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
    _recursive_base = ("sklearn.ensemble", "RandomForestRegressor")

    criterion: str = "squared_error"
    honest: bool = False


@documented(FOREST, bins="255", bootstrap="False", **FOREST_OF_CLASSES)
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesClassifier(CartClassifier, ForestOfTrees):
    """Extremely randomised trees for classification (Geurts et al. 2006): a node considers one
    random cut of each of the features that it draws.

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

    criterion: str = "gini"
    max_features: int | float | str | None = "sqrt"
    bootstrap: bool = False
    class_weight: Any = None
    honest: bool = False


@documented(FOREST, bins="255", bootstrap="False", **FOREST_OF_VALUES)
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesRegressor(CartRegressor, ForestOfTrees):
    """Extremely randomised trees for regression (Geurts et al. 2006): a node considers one
    random cut of each of the features that it draws.

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

    criterion: str = "squared_error"
    bootstrap: bool = False
    honest: bool = False
