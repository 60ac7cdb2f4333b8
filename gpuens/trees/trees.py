"""Single trees: ``DecisionTree*`` and ``ExtraTree*``, for classes and for numbers."""

from __future__ import annotations

from typing import Any

from ..estimators.docstrings import (
    CLASS_ATTRIBUTES,
    CLASS_CRITERIA,
    CLASS_WEIGHT,
    NUMBER_CRITERIA,
    TREE,
    documented,
)
from .estimator import TreeClassifier, TreeRegressor


@documented(
    TREE,
    criteria=CLASS_CRITERIA,
    features="None",
    bins="None",
    class_weight=CLASS_WEIGHT,
    attributes=CLASS_ATTRIBUTES,
)
class DecisionTreeClassifier(TreeClassifier):
    """A classification tree (Breiman et al. 1984).

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = DecisionTreeClassifier(max_depth=2, device="cpu").fit(X, y)
    >>> tree.get_n_leaves()
    3
    """

    def __init__(
        self,
        *,
        criterion: str = "gini",
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.random_state = random_state
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.class_weight = class_weight
        self.ccp_alpha = ccp_alpha
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.n_jobs = n_jobs
        self.device = device


@documented(
    TREE, criteria=NUMBER_CRITERIA, features="None", bins="None", class_weight="", attributes=""
)
class DecisionTreeRegressor(TreeRegressor):
    """A regression tree (Breiman et al. 1984).

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tree = DecisionTreeRegressor(max_leaf_nodes=8, device="cpu").fit(X, y)
    >>> tree.get_n_leaves()
    8
    """

    def __init__(
        self,
        *,
        criterion: str = "squared_error",
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> None:
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.random_state = random_state
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.n_jobs = n_jobs
        self.device = device


class ExtraTreeClassifier(DecisionTreeClassifier):
    """An extremely randomised classification tree (Geurts et al. 2006): one random cut for each
    feature that a node looks at. Parameters are those of ``DecisionTreeClassifier`` with
    ``splitter="random"`` and ``max_features="sqrt"``."""

    def __init__(
        self,
        *,
        criterion: str = "gini",
        splitter: str = "random",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(
            criterion=criterion,
            splitter=splitter,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            random_state=random_state,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            class_weight=class_weight,
            ccp_alpha=ccp_alpha,
            monotonic_cst=monotonic_cst,
            categorical_features=categorical_features,
            max_bins=max_bins,
            n_jobs=n_jobs,
            device=device,
        )


class ExtraTreeRegressor(DecisionTreeRegressor):
    """An extremely randomised regression tree (Geurts et al. 2006): one random cut for each
    feature that a node looks at. Parameters are those of ``DecisionTreeRegressor`` with
    ``splitter="random"`` and ``max_features=1.0``."""

    def __init__(
        self,
        *,
        criterion: str = "squared_error",
        splitter: str = "random",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        categorical_features: Any = None,
        max_bins: int | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(
            criterion=criterion,
            splitter=splitter,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            random_state=random_state,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            ccp_alpha=ccp_alpha,
            monotonic_cst=monotonic_cst,
            categorical_features=categorical_features,
            max_bins=max_bins,
            n_jobs=n_jobs,
            device=device,
        )
