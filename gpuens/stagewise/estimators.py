"""``StagewiseClassifier`` and ``StagewiseRegressor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import documented
from ..estimators.scores import ScoresClasses
from ..inputs.targets import read_labels, read_target
from ..kernels.runtime.arrays import Array
from ..losses import Exponential, Loss
from ..losses.names import OF_CLASSES, OF_NUMBERS, OF_POSITIVE_NUMBERS
from ..members.classes import labels_of
from .base import STAGEWISE, Stagewise


@documented(
    STAGEWISE,
    losses="""str, loss object or function, default="log_loss"
        "log_loss", "exponential" (for two classes) or "focal", an object of ``gpuens.losses``, or
        an ``ArrayLoss`` with a value.""",
    outputs="""one a round, or K a round for K > 2 classes, those of
        a round beside each other.""",
    attributes="""classes_ : ndarray
        The labels, ascending.""",
)
class StagewiseClassifier(ScoresClasses, ClassifierMixin, Stagewise):
    """Forward stagewise additive modelling for classification, with base learners of any kind.

    Gradient boosting as a functional gradient descent (Friedman 2001, "Greedy function
    approximation", algorithms 5 and 6; Hastie, Tibshirani and Friedman 2009, section 10.3): the
    model of the log-odds, or of one function a class for more than two classes, starts as the
    best constant. Every round fits regressors to the negative gradients of the loss, finds by line
    search how far to go along what they predict (for the multinomial loss in all functions at
    once), and adds that, times ``learning_rate``.

    The same data and seed give the same model on the CPU with any number of threads and on a GPU,
    bit for bit, where the base learners do.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from gpuens import StagewiseClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> base = make_pipeline(StandardScaler(), Ridge())
    >>> model = StagewiseClassifier(base, n_estimators=20).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _losses = OF_CLASSES
    classes_: np.ndarray

    def __init__(
        self,
        estimator: Any = None,
        *,
        loss: Any = "log_loss",
        n_estimators: int = 100,
        learning_rate: Any = 0.1,
        line_search: bool = True,
        selection: str = "best",
        subsample: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float | int | None = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = 0,
        callbacks: Any = None,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.line_search = line_search
        self.selection = selection
        self.subsample = subsample
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
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
        X : array, sparse matrix or data frame, shape (n_rows, n_features)

        Returns
        -------
        array of labels, shape (n_rows,)
            In the array library and on the device of X where labels are numbers.
        """
        return self._predict(X, self._labels)

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def decision_function(self, X: Any) -> Any:
        """Return raw predictions.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        return self._predict(X, _decision)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield classes after every round, as from ``predict``."""
        check_is_fitted(self)
        return self._staged(X, self._labels)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Yield probabilities after every round, as from ``predict_proba``."""
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """Yield raw predictions after every round, as from ``decision_function``."""
        check_is_fitted(self)
        return self._staged(X, _decision)

    def _labels(self, raw: Array, device: Device) -> Any:
        """Return class labels, on the device where they are numbers."""
        codes = (raw[0] > 0).astype(np.int64) if raw.shape[0] == 1 else raw.argmax(axis=0)
        return labels_of(codes, self.classes_, device)

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Array:
        labels = read_labels(y, n_rows, device, estimator=self, min_classes=2)
        if warm and labels.classes.tolist() != self.classes_.tolist():
            raise ValueError(
                "warm_start=True goes on from a model of the classes "
                f"{self.classes_.tolist()}, but y holds {labels.classes.tolist()}. Pass rows of "
                "the same classes, or set warm_start=False to start again."
            )
        self.classes_ = labels.classes
        return labels.codes.astype(np.float64)

    def _bound(self, loss: Loss) -> Loss:
        return loss.for_classes(len(self.classes_))

    def _of_classes(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        by_name = isinstance(self.loss, str) and self.loss == Exponential.name
        tags.classifier_tags.multi_class = not (by_name or isinstance(self.loss, Exponential))
        return tags


def _decision(raw: Array, device: Device) -> Any:
    return (raw[0] if raw.shape[0] == 1 else raw.T).copy()


@documented(
    STAGEWISE,
    losses="""str, loss object or function, default="squared_error"
        "squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma" or "tweedie", an
        object of ``gpuens.losses``, or an ``ArrayLoss`` with a value.
    quantile : float or list of float, default=None
        With loss="quantile": the quantiles to predict, in (0, 1).""",
    outputs="one a round, or one for each of several quantiles.",
    attributes="",
)
class StagewiseRegressor(RegressorMixin, Stagewise):
    """Forward stagewise additive modelling for regression, with base learners of any kind.

    Gradient boosting as a functional gradient descent (Friedman 2001, "Greedy function
    approximation", algorithm 1; Hastie, Tibshirani and Friedman 2009, section 10.3): the model
    starts as the best constant. Every round fits a base learner to the negative gradient of the
    loss at the rows' predictions, finds by line search how far to go along what it predicts, and
    adds that, times ``learning_rate``. With the squared error this is L2Boost (Bühlmann and Yu
    2003): base learners fitted to residuals.

    The same data and seed give the same model on the CPU with any number of threads and on a GPU,
    bit for bit, where the base learners do.

    <shared>

    Examples
    --------
    A tree or a line, whichever is better, in every round:

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from gpuens import DecisionTreeRegressor, StagewiseRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> kinds = [DecisionTreeRegressor(max_depth=1), Ridge()]
    >>> model = StagewiseRegressor(kinds, n_estimators=30).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    _losses = OF_NUMBERS

    def __init__(
        self,
        estimator: Any = None,
        *,
        loss: Any = "squared_error",
        quantile: Any = None,
        n_estimators: int = 100,
        learning_rate: Any = 0.1,
        line_search: bool = True,
        selection: str = "best",
        subsample: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float | int | None = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = 0,
        callbacks: Any = None,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.quantile = quantile
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.line_search = line_search
        self.selection = selection
        self.subsample = subsample
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def predict(self, X: Any) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,), or (n_rows, n_quantiles) for several quantiles
            In the array library and on the device of X (NumPy for data frames).
        """
        check_is_fitted(self)
        return self._predict(X, self._fitted_loss.predict)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield predictions after every round, as from ``predict``."""
        check_is_fitted(self)
        return self._staged(X, self._fitted_loss.predict)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions; of several quantiles the mean share of the pinball loss
        that is explained (``sklearn.metrics.d2_pinball_score``).

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        y, predicted = to_numpy(y), to_numpy(self.predict(X))
        if predicted.ndim == 1:
            return float(r2_score(y, predicted, sample_weight=weight))
        quantiles = getattr(self._fitted_loss, "quantile", ())
        scores = [
            d2_pinball_score(y, predicted[:, k], sample_weight=weight, alpha=quantile)
            for k, quantile in enumerate(quantiles)
        ]
        return float(np.mean(scores))

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Array:
        return read_target(y, n_rows, device, estimator=self)

    def _bound(self, loss: Loss) -> Loss:
        return loss.for_targets(1)

    def _of_classes(self) -> bool:
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        names = [loss.name for loss in OF_POSITIVE_NUMBERS]
        by_name = isinstance(self.loss, str) and self.loss in names
        tags.target_tags.positive_only = by_name or isinstance(self.loss, OF_POSITIVE_NUMBERS)
        return tags
