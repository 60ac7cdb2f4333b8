"""``StagewiseClassifier`` and ``StagewiseRegressor``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..boosting.additive import AdditiveClassifier, AdditiveRegressor
from ..devices.placement import Device
from ..estimators.docstrings import documented
from ..inputs.labels import read_labels
from ..inputs.targets import read_target
from ..kernels.runtime.arrays import Array
from ..losses import Loss
from ..losses.names import OF_CLASSES, OF_NUMBERS
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
@dataclass(kw_only=True, eq=False, repr=False)
class StagewiseClassifier(AdditiveClassifier, Stagewise):
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

    loss: str | Loss | Callable[..., Any] = "log_loss"

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


@documented(
    STAGEWISE,
    losses="""str, loss object or function, default="squared_error"
        "squared_error", "absolute_error", "huber", "quantile", "expectile", "poisson", "gamma" or
        "tweedie", an object of ``gpuens.losses``, or an ``ArrayLoss`` with a value.
    quantile : float or list of float, default=None
        With loss="quantile": the quantiles to predict, in (0, 1). With loss="expectile": the level
        of the expectile, one number in (0, 1).""",
    outputs="one a round, or one for each of several quantiles.",
    attributes="",
)
@dataclass(kw_only=True, eq=False, repr=False)
class StagewiseRegressor(AdditiveRegressor, Stagewise):
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

    loss: str | Loss | Callable[..., Any] = "squared_error"
    quantile: float | Sequence[float] | None = None

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Array:
        return read_target(y, n_rows, device, estimator=self)

    def _bound(self, loss: Loss) -> Loss:
        return loss.for_targets(1)

    def _of_classes(self) -> bool:
        return False
