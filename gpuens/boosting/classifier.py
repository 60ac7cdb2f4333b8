"""Gradient boosted classification trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import BOOSTING, documented
from ..inputs.targets import class_factors, read_labels
from ..kernels.runtime.arrays import Array
from ..losses import Exponential, Loss
from ..losses.names import OF_CLASSES
from .estimator import BoostingEstimator


@documented(
    BOOSTING,
    losses="""str, loss object or function, default="log_loss"
        "log_loss", "exponential" or "focal".
        "exponential" is for two classes. ``gpuens.losses`` has them as objects with their
        parameters, and ``CustomLoss``. A function of two arrays
        ``(y, score) -> (gradient, hessian)`` is the objective of an ``ArrayLoss``.""",
    class_weight="""class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the rows by class.
    """,
    attributes="""classes_ : ndarray
        The labels, ascending.
    """,
)
class GradientBoostingClassifier(ClassifierMixin, BoostingEstimator):
    """Gradient boosted classification trees on binned features.

    Newton boosting of the binomial or multinomial log loss (Friedman 2001; Chen and Guestrin
    2016) with histogram trees; K trees a round for K > 2 classes. The same data and seed give
    the same model, bit for bit, on the CPU with any number of threads and on a GPU.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import GradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=50).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _losses = OF_CLASSES

    def __init__(
        self,
        loss: Any = "log_loss",
        *,
        n_estimators: int = 100,
        learning_rate: Any = 0.1,
        line_search: bool = False,
        max_depth: int | None = None,
        max_leaf_nodes: int | None = 31,
        min_samples_leaf: int = 10,
        min_sum_hessian: float = 1e-3,
        l2_regularization: float = 1.0,
        min_gain_to_split: float = 0.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        sampling: str = "uniform",
        top_rate: float = 0.2,
        other_rate: float = 0.1,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        categorical_features: Any = "from_dtype",
        cat_smooth: float = 10.0,
        cat_l2: float = 0.0,
        max_cat_to_onehot: int = 4,
        cat_hash_groups: int = 1,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        early_stopping: bool | str = False,
        validation_fraction: float | int = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        keep_best: bool = True,
        scoring: Any = "loss",
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = False,
        callbacks: Any = None,
    ) -> None:
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.line_search = line_search
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.min_sum_hessian = min_sum_hessian
        self.l2_regularization = l2_regularization
        self.min_gain_to_split = min_gain_to_split
        self.max_bins = max_bins
        self.subsample = subsample
        self.sampling = sampling
        self.top_rate = top_rate
        self.other_rate = other_rate
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.categorical_features = categorical_features
        self.cat_smooth = cat_smooth
        self.cat_l2 = cat_l2
        self.max_cat_to_onehot = max_cat_to_onehot
        self.cat_hash_groups = cat_hash_groups
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.keep_best = keep_best
        self.scoring = scoring
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def predict(self, X: Any) -> Any:
        """Predict the class of each row.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        array of labels, shape (n_rows,)
            In the array library and on the device of X if labels are numbers, else NumPy.
        """
        return self._predict(X, self._labels)

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def decision_function(self, X: Any) -> Any:
        """Return the raw predictions.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,) for two classes (log-odds of the second one), else
        (n_rows, n_classes)
        """
        return self._predict(X, _decision)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the classes after every round, as from ``predict``."""
        return self._staged(X, self._labels)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Yield the probabilities after every round, as from ``predict_proba``."""
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """Yield the raw predictions after every round, as from ``decision_function``."""
        return self._staged(X, _decision)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of correctly classified rows.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        return float(accuracy_score(to_numpy(y), to_numpy(self.predict(X)), sample_weight=weight))

    def _labels(self, raw: Array, device: Device) -> Array:
        """Turn raw predictions into class labels, on the device if they are numbers."""
        xp = device.xp
        codes = (raw[0] > 0).astype(xp.int64) if raw.shape[0] == 1 else raw.argmax(axis=0)
        if self.classes_.dtype.kind in "biuf":
            return device.asarray(self.classes_)[codes]
        return self.classes_[to_numpy(codes)]

    def _read_y(self, y: Any, n: int, device: Device, fit: bool, name: str) -> Array:
        labels = read_labels(y, n, device, estimator=self, min_classes=2 if fit else 1, name=name)
        if fit and not hasattr(self, "forest_"):
            self.classes_ = labels.classes
        number = {label: k for k, label in enumerate(self.classes_.tolist())}
        found = labels.classes.tolist()
        if unknown := [label for label in found if label not in number]:
            raise ValueError(
                f"{name} has classes that the model does not know: {unknown}. It was trained on "
                f"{list(number)}."
            )
        return device.asarray([float(number[label]) for label in found])[labels.codes]

    def _class_weighted(
        self, target: Array, weight: Array | None, device: Device, fit: bool
    ) -> Array | None:
        """Multiply the weights by the factors of ``class_weight``.

        For evaluation sets, too, the factors are those of the training rows.
        """
        if self.class_weight is None:
            return weight
        codes = target.astype(np.int64)
        if fit:
            present = to_numpy(codes), None if weight is None else to_numpy(weight)
            self._class_factors = class_factors(self.class_weight, self.classes_, *present)
        factors = device.asarray(self._class_factors)[codes]
        weight = factors if weight is None else weight * factors
        if not float(weight.max()) > 0:
            raise ValueError(
                f"class_weight={self.class_weight!r} leaves no row with a positive weight; raise "
                "the factor of a class that occurs."
            )
        return weight

    def _bound(self, loss: Loss, target: Array) -> Loss:
        return loss.for_classes(self._n_classes())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        by_name = isinstance(self.loss, str) and self.loss == Exponential.name
        tags.classifier_tags.multi_class = not (by_name or isinstance(self.loss, Exponential))
        return tags

    def _n_classes(self) -> int:
        return len(self.classes_)


def _decision(raw: Array, device: Device) -> Array:
    return (raw[0] if raw.shape[0] == 1 else raw.T).copy()
