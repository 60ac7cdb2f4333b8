"""Single trees: ``DecisionTree*`` and ``ExtraTree*``, for classification and for regression."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, resolve_device, to_numpy
from ..devices.policy import NO_WORK, Work, size_of
from ..estimators.base import kept_on_failure
from ..estimators.docstrings import (
    CLASS_ATTRIBUTES,
    CLASS_CRITERIA,
    CLASS_WEIGHT,
    FITTED,
    NUMBER_CRITERIA,
    TREE,
    documented,
)
from ..estimators.parameters import n_features_to_look_at, seed_of
from ..estimators.recursion import HasRecursion
from ..forest.forest import Forest
from ..forest.pruning import (
    cost_complexity_path,
    held_out_loss,
    prune_by_complexity,
    reduced_error_prune,
)
from ..forest.structure import decision_path, node_depths, tree_importances
from ..forest.view import TreeView
from ..inputs.arrays import to_input_library
from ..inputs.categories import read_features
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, current_workers
from ..kernels.statistics.samples import records_of_sample
from ..members.fitting import columns_of
from .cart import CartClassifier, CartEstimator, CartRegressor
from .growth import all_rows, cart_plan, grow_forest, tree_key
from .on_host import growth_on_host
from .parameters import cart_params, check_tree_parameters, work_of_trees
from .sharing import bring_to, device_to_grow_on, device_to_read_on, grow_among_workers
from .training_data import TrainingData


@dataclass(kw_only=True, eq=False, repr=False)
class SingleTree(CartEstimator):
    """Parameters and methods of every single tree."""

    criterion: str
    splitter: str = "best"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: int | float | str | None = None
    random_state: Any = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    monotonic_cst: Any = None
    categorical_features: Any = "from_dtype"
    max_bins: int | None = None
    n_jobs: int | None = None
    device: str = "auto"

    @documented(FITTED, ends="")
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, check_input: bool = True
    ) -> Any:
        """Grow the tree.

        Parameters
        ----------
        X : array, sparse matrix, data frame or BinnedTable, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow. NaN is missing. A ``BinnedTable`` brings
            its bins and, unless y is passed, its target.
        y : array, shape (n_rows,) or (n_rows, n_outputs), default=None
            The target: labels for a classifier, numbers for a regressor.
        sample_weight : array of shape (n_rows,), default=None
            Rows of weight zero are as if they were not there.
        check_input : bool, default=True
            Has no effect; scikit-learn's trees have it.

        <shared>
        """
        check_tree_parameters(self)
        work = self._training_work(X, y)
        device = resolve_device(self.device, X, work=work, y=y, sample_weight=sample_weight)
        with growth_on_host(device, self), self._working_on(device), kept_on_failure(self):
            data = self._read_training(X, y, sample_weight, device, 1)
            records = all_rows(data.shape[0], device)
            if data.used is not None:
                records = records[data.used]
            seeds = [tree_key(seed_of(self.random_state), 0)]
            plan = cart_plan(
                self, data.shape, data.itemsize, device,
                width=data.problem.width, is_there=True, held=True,
            )  # fmt: skip
            plan.require()
            with plan.explaining():
                self._keep(self._grow(data, lambda tree, device: records, seeds, device))
            self._warn_if_no_split(self.forest_, data, int(records.size))
        return self

    def _training_work(self, X: Any, y: Any) -> Work:
        return work_of_trees(self, size_of(X), 1)

    def _grow(
        self, data: TrainingData, sample: Any, seeds: Sequence[int], device: Device
    ) -> Forest:
        """Grow trees; ``sample(i, device)`` returns the records of the i-th of them."""
        params = cart_params(
            self,
            data.problem,
            data.shape[0],
            data.table.n_bins.size,
            random=self.splitter == "random",
        )
        if data.workers is not ONE_WORKER:
            device = bring_to(device, data, self, params)

        def some(trees: range) -> Forest:
            return grow_forest(
                data.table, data.problem, lambda i: sample(trees[i], device),
                [seeds[t] for t in trees], params, device,
            )  # fmt: skip

        def own(trees: range) -> Forest:
            with device.active():
                return some(trees)

        trees, workers = range(len(seeds)), data.workers
        return some(trees) if workers is ONE_WORKER else grow_among_workers(own, trees, workers)

    def _keep(self, forest: Forest) -> None:
        """Become the tree of a forest of one."""
        self.forest_ = prune_by_complexity(forest, self.ccp_alpha) if self.ccp_alpha else forest
        self.max_features_ = self._max_features()

    def _max_features(self) -> int:
        return n_features_to_look_at(self.max_features, self.n_features_in_)

    @property
    def tree_(self) -> TreeView:
        """The tree in scikit-learn's terms."""
        check_is_fitted(self)
        return TreeView(self.forest_, 0, self._n_classes)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the decrease of impurity, float64 of shape (n_features,)."""
        check_is_fitted(self)
        return tree_importances(self.forest_)[0]

    def get_depth(self) -> int:
        """Return the length of the longest path from the root to a leaf."""
        check_is_fitted(self)
        return int(node_depths(self.forest_).max())

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self)
        return int((self.forest_.feature < 0).sum())

    def apply(self, X: Any, check_input: bool = True) -> Any:
        """Return the leaf that each row ends in, int64 of shape (n_rows,).

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        check_input : bool, default=True
            Has no effect; scikit-learn's trees have it.
        """
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            table = read_features(X, device, estimator=self, reset=False)
            leaf = self.forest_.apply(table, device)[:, 0].astype(np.int64)
            return to_input_library(leaf, X)

    def decision_path(self, X: Any, check_input: bool = True) -> Any:
        """Return the nodes that each row passes.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        check_input : bool, default=True
            Has no effect; scikit-learn's trees have it.

        Returns
        -------
        sparse matrix in CSR format, shape (n_rows, n_nodes)
            1 where a row passes a node.
        """
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False)
            return decision_path(self.forest_, values, device)[0]

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Return where minimal cost-complexity pruning of the tree for (X, y) cuts branches.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,)
            The target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        Bunch
            ``ccp_alphas`` and ``impurities``, see ``gpuens.forest.pruning.cost_complexity_path``.
        """
        whole = clone(self).set_params(ccp_alpha=0.0).fit(X, y, sample_weight)
        return cost_complexity_path(whole.forest_)

    def prune(self, X_val: Any, y_val: Any, sample_weight: Any = None) -> Any:
        """Cut branches from the bottom wherever that does not increase the loss of held-out rows
        (reduced-error pruning, Quinlan 1987).

        Parameters
        ----------
        X_val : array, sparse matrix or data frame, shape (n_rows, n_features)
            Rows that the tree was not grown on.
        y_val : array, shape (n_rows,) or (n_rows, n_outputs)
            Their target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        device = self._device_to_predict(X_val, y=y_val, sample_weight=sample_weight)
        with self._working_on(device):
            table = read_features(X_val, device, estimator=self, reset=False, name="X_val")
            n = table.shape[0]
            weight = read_sample_weight(sample_weight, n, device)
            weight = None if weight is None else to_numpy(weight)
            loss = self._held_out_loss(table, y_val, weight, device)
        self.forest_ = reduced_error_prune(self.forest_, loss)
        return self

    def _held_out_loss(self, table: Array, y: Any, weight: Any, device: Device) -> np.ndarray:
        """Return the loss at every node, see ``gpuens.forest.pruning.held_out_loss``."""
        # The number of a class that the tree does not know is wrong in every leaf.
        truth = self._read_truth(y, table.shape[0], device, "y_val")
        loss = "squared_error" if self.criterion == "friedman_mse" else self.criterion
        if self._output_classes is not None:
            loss = "misclassification"
        elif loss == "poisson" and truth.min() < 0:
            raise ValueError(
                "y_val has negative values, which Poisson regression does not allow: the smallest "
                f"is {truth.min()}."
            )
        return held_out_loss(
            self.forest_, table, truth, weight, loss=loss, n_classes=self._n_classes,
            device=device,
        )  # fmt: skip

    def _fit_batch(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        samples: Sequence[Any],
        features: Sequence[np.ndarray],
        seeds: Sequence[int],
    ) -> list[Any]:
        """Fit the members of a bag, as one batch where they see the same features.

        A bag calls this method, where the class of its base estimator has one beside its ``fit``,
        on dense tables and samples whose counts are at most ``MAX_MULTIPLICITY`` of
        ``kernels.cart.problem``. A bag of 100 trees is fitted 3.3 times as fast with 500 rows of 10
        features, and twice as fast with 20,000, as if its members were fitted one by one (two
        cores). The trees of members that have a ``forest_`` also predict together.

        Parameters
        ----------
        X : array, shape (n_rows, n_features)
            NumPy or CuPy, any real dtype, not checked yet.
        y : int64 class numbers, shape (n_rows,); or float64, shape (n_rows,) or
            (n_rows, n_outputs)
            In the library of X.
        sample_weight : None
            The bag draws by weight, so counts contain the weights.
        samples : sequence of integers, shape (n_rows,)
            How often each row is in each member's sample; an entry is drawn when it is
            read, on the device of X.
        features : sequence of int64, shape (n_member_features,), NumPy
            The columns of X that each member sees, ascending, with repetitions if the bag
            draws them with replacement.
        seeds : sequence of int
            Each member's ``random_state``.

        Returns
        -------
        list of estimators
            Entry m is fitted as ``clone(self).set_params(random_state=seeds[m])`` would be by
            ``fit(X[:, features[m]], y, sample_weight=samples[m])``, up to the choice among equally
            good splits.
        """
        check_tree_parameters(self)
        # The bag has placed X, or only y where workers share the rows.
        workers = current_workers()
        device = device_to_grow_on(self.device, X, lambda table: NO_WORK, workers, y=y)
        home = device_to_read_on(device, workers)
        members: list[Any] = [None] * len(seeds)
        groups: dict[bytes, list[int]] = {}
        for m, columns in enumerate(features):
            groups.setdefault(columns.tobytes(), []).append(m)
        with self._working_on(home):
            for group in groups.values():
                columns = features[group[0]]
                reader = clone(self)
                own = columns_of(X, columns)
                data = reader._read_training(own, y, sample_weight, home, 31, workers)
                forest = reader._grow(
                    data,
                    partial(_records, samples, group, data),
                    [tree_key(seed_of(seeds[m]), 0) for m in group],
                    device,
                )
                if forest.n_trees < len(group):  # Ctrl-C: a bag needs all members
                    raise KeyboardInterrupt
                for i, m in enumerate(group):
                    member = copy.copy(reader).set_params(random_state=seeds[m])
                    member._keep(forest.slice(i, i + 1))
                    members[m] = member
        return members


def _records(
    samples: Sequence[Any], group: list[int], data: TrainingData, i: int, device: Device
) -> Any:
    """Return the records of the i-th member of a group."""
    counts = device.asarray(samples[group[i]])
    return records_of_sample(counts if data.used is None else counts * data.used)


_OF_ALL = {"bins": "None", "leaf": "1", "honest": ""}
_OF_CLASSES = _OF_ALL | {
    "criteria": CLASS_CRITERIA,
    "class_weight": CLASS_WEIGHT,
    "attributes": CLASS_ATTRIBUTES,
}
_OF_VALUES = _OF_ALL | {"criteria": NUMBER_CRITERIA, "class_weight": "", "attributes": ""}


@documented(TREE, splitter='"best"', features="None", **_OF_CLASSES)
@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeClassifier(CartClassifier, SingleTree):
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

    criterion: str = "gini"
    class_weight: Any = None


@documented(TREE, splitter='"best"', features="None", **_OF_VALUES)
@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeRegressor(HasRecursion, CartRegressor, SingleTree):
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

    _recursive_base = ("sklearn.tree", "DecisionTreeRegressor")

    criterion: str = "squared_error"


@documented(TREE, splitter='"random"', features='"sqrt"', **_OF_CLASSES)
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreeClassifier(DecisionTreeClassifier):
    """An extremely randomised classification tree (Geurts et al. 2006): one random cut for each
    feature that a node looks at. It is meant for ensembles (``ExtraTreesClassifier``).

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import BaggingClassifier, ExtraTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bag = BaggingClassifier(ExtraTreeClassifier(), n_estimators=20).fit(X, y)
    >>> bag.predict(X[:2]).tolist()
    [0, 0]
    """

    splitter: str = "random"
    max_features: int | float | str | None = "sqrt"


@documented(TREE, splitter='"random"', features="1.0", **_OF_VALUES)
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreeRegressor(DecisionTreeRegressor):
    """An extremely randomised regression tree (Geurts et al. 2006): one random cut for each
    feature that a node looks at. It is meant for ensembles (``ExtraTreesRegressor``).

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import BaggingRegressor, ExtraTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bag = BaggingRegressor(ExtraTreeRegressor(), n_estimators=20).fit(X, y)
    >>> bag.predict(X[:2]).shape
    (2,)
    """

    splitter: str = "random"
    max_features: int | float | str | None = 1.0
