"""Quantile regression forests: the whole distribution of the target, not its mean alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, on_host
from ..estimators.docstrings import FOREST, FOREST_NUMBER_ATTRIBUTES, NUMBER_CRITERIA, documented
from ..estimators.parameters import is_number
from ..forest.forest import Forest
from ..inputs.arrays import resolve_device, to_input_library
from ..inputs.categories import read_features
from ..trees.cart import TrainingData
from .forests import RandomForestRegressor
from .leaf_targets import TargetsInLeaves, rows_of_trees

DEFAULT_QUANTILES = """default_quantiles : float, list of float or "mean", default=0.5
        What ``predict`` gives when it is not told.
    """


@dataclass
class _Grown:
    """What the targets in the leaves are collected from."""

    data: TrainingData
    records: list[np.ndarray]


@documented(
    FOREST,
    criteria=NUMBER_CRITERIA,
    features="1.0",
    bins="255",
    bootstrap="True",
    class_weight=DEFAULT_QUANTILES,
    attributes=FOREST_NUMBER_ATTRIBUTES,
)
class QuantileForestRegressor(RandomForestRegressor):
    """A quantile regression forest (Meinshausen 2006): a random forest whose leaves keep the
    targets of their training rows, for quantiles and prediction intervals.

    In each tree the training rows in the leaf that x reaches share a weight of one, in
    proportion to their sample weights and to how often they were drawn. The weights are averaged
    over the trees. The q-quantile is the smallest target up to which the weights add up to at
    least q (the lower inverse of the distribution function, ``method="inverted_cdf"`` of
    ``numpy.quantile``). Sums count in steps of 2**-31 of a tree, rounded in favour of the
    smaller target, and are therefore the same on every device.

    The targets take 8 bytes for each row in the sample of each tree and 8 for each node, beside
    the forest itself. y has one column.

    <shared>

    References
    ----------
    Meinshausen, "Quantile Regression Forests", JMLR 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import QuantileForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = QuantileForestRegressor(min_samples_leaf=5, device="cpu").fit(X, y)
    >>> forest.predict(X[:3], quantiles=[0.1, 0.5, 0.9]).shape
    (3, 3)
    >>> low, high = forest.predict_interval(X[:3], coverage=0.8).T
    >>> bool((low <= high).all())
    True
    """

    _targets: TargetsInLeaves

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        default_quantiles: float | Sequence[float] | str = 0.5,
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
        super().__init__(
            n_estimators,
            criterion=criterion,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            bootstrap=bootstrap,
            oob_score=oob_score,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            warm_start=warm_start,
            ccp_alpha=ccp_alpha,
            max_samples=max_samples,
            monotonic_cst=monotonic_cst,
            categorical_features=categorical_features,
            max_bins=max_bins,
            device=device,
        )
        self.default_quantiles = default_quantiles

    def _fit(self, X: Any, y: Any, sample_weight: Any, device: Device) -> None:
        _read_quantiles(self.default_quantiles, "default_quantiles")
        before = self._forest_before()
        super()._fit(X, y, sample_weight, device)
        grown: _Grown | None = self.__dict__.pop("_grown", None)
        if grown is None:  # a warm start that had nothing to add
            return
        first = 0 if before is None else before.n_trees
        forest = self.forest_.slice(first, self.forest_.n_trees)
        data = grown.data
        targets = TargetsInLeaves.collect(forest, grown.records, data.y, data.problem.weight)
        self._targets = targets if before is None else self._targets.joined(targets)

    def _grow(
        self, data: TrainingData, first: int, n_new: int, watch: Any, device: Device
    ) -> Forest:
        kept: list[np.ndarray] = []

        def keep_records(batch: int, forest: Forest, records: Any) -> bool:
            kept.extend(rows_of_trees(forest, records))
            return watch(batch, forest, records)

        watching: Any = keep_records
        grown = super()._grow(data, first, n_new, watching, device)
        self._grown = _Grown(data, kept)
        # Ctrl-C can come between the end of a batch and the look at its records.
        return grown.slice(0, len(kept)) if len(kept) < grown.n_trees else grown

    def _read_outputs(self, columns: list[Any], n_rows: int, device: Device) -> list[Any]:
        if len(columns) > 1:
            raise ValueError(
                f"y has {len(columns)} columns, {type(self).__name__} predicts the quantiles of "
                "one. Fit a forest for each (sklearn.multioutput.MultiOutputRegressor), or use "
                "RandomForestRegressor for their means."
            )
        return super()._read_outputs(columns, n_rows, device)

    def predict(self, X: Any, quantiles: Any = None) -> Any:
        """Quantiles of the target, or its mean.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        quantiles : float, list of float, "mean" or None, default=None
            Numbers in [0, 1]; "mean": what a random forest predicts; None:
            ``default_quantiles``.

        Returns
        -------
        float64, shape (n_rows,), or (n_rows, n_quantiles) for a list
            In the array library of X.

        Raises
        ------
        ValueError
            A quantile is not in [0, 1], or the list is empty.
        """
        check_is_fitted(self)
        name = "quantiles"
        if quantiles is None:
            name, quantiles = "default_quantiles", self.default_quantiles
        wanted = _read_quantiles(quantiles, name)
        if wanted is None:
            return super().predict(X)
        device = resolve_device(self.device, X)
        with self._working_on(device):
            values = read_features(X, device, estimator=self, reset=False).values
            result = self._targets.quantiles(self.forest_, values, wanted.reshape(-1), device)
            return to_input_library(result if wanted.ndim else result[:, 0], X)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Between which two values the target lies with some probability.

        An estimate, not a guarantee: where the target follows the features closely, intervals
        hold more than the share that is asked for; where leaves hold few rows of a noisy target,
        less (raise ``min_samples_leaf``). Compare the two on rows held out.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        coverage : float, default=0.9
            In (0, 1]; as much of the rest lies below the interval as above.

        Returns
        -------
        float64, shape (n_rows, 2)
            The quantiles ``(1 - coverage) / 2`` and ``(1 + coverage) / 2``, in the array library
            of X.
        """
        if not is_number(coverage) or not 0 < coverage <= 1:
            raise ValueError(f"coverage must be a number in (0, 1], got {coverage!r}.")
        return self.predict(X, [(1 - coverage) / 2, (1 + coverage) / 2])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def _read_quantiles(quantiles: Any, name: str) -> np.ndarray | None:
    """Quantiles as float64, of shape () or (n_quantiles,); None for the mean."""
    if isinstance(quantiles, str) and quantiles == "mean":
        return None
    wanted = on_host(quantiles)
    values = [wanted] if is_number(wanted) else wanted
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or array.size == 0 or not bool(((array >= 0) & (array <= 1)).all()):
        raise ValueError(
            f"{name} must be a number in [0, 1], a list of at least one of these, or 'mean', got "
            f"{quantiles!r}."
        )
    return array[0] if is_number(wanted) else array
