"""What a fitted forest tells: its trees, their samples, and what both say about the data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ..devices.memory import available_memory, format_bytes
from ..devices.placement import CPU, Device, resolve_device, to_numpy
from ..estimators.parameters import seed_of
from ..forest.structure import decision_path, tree_importances
from ..inputs.categories import read_features
from ..inputs.targets import read_sample_weight
from ..numerics.sampling import bootstrap_counts
from ..trees.cart import CartEstimator
from ..trees.growth import tree_key
from .out_of_bag import permutation_importances, trees_of


class FittedForest(CartEstimator):
    """Trees on samples of the rows, averaged; ``ForestOfTrees`` grows them."""

    _random_splits = False
    _tree_class: Any
    _seed: int
    _n_rows: int
    _n_draws: int

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
        for t, forest in enumerate(trees_of(self.forest_)):
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
            result = permutation_importances(self, values, truth, weight, n_repeats, rng, device)
        return Bunch(
            importances_mean=result.mean(axis=1),
            importances_std=result.std(axis=1),
            importances=result,
        )

    # What depends on whether classes or numbers are predicted.

    @abstractmethod
    def _numbers_of(self, y: Any, device: Device) -> np.ndarray:
        """Class numbers or targets of the rows, (n_rows, n_outputs)."""

    @abstractmethod
    def _row_errors(self, mean: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Error of each row, averaged over the outputs; ``mean`` is (width, n_rows)."""
