"""AdaBoost for numbers: ``AdaBoostRegressor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..devices.placement import Device
from ..estimators.docstrings import documented
from ..inputs.arrays import to_input_library
from ..inputs.targets import read_target
from ..trees.trees import DecisionTreeRegressor
from .base import ADABOOST, AdaBoost, score_of
from .median import weighted_median
from .members import AnyRegressors, numbers_of
from .parameters import check_regressor
from .rules import R2, Rule
from .trees import RegressionTrees

_TEXT = {
    "base": """What is fitted in each round: a regressor. It gets a sample of the rows, drawn by
        weight with replacement; as ``sample_weight`` where its ``fit`` takes that, else as rows.
        None is ``DecisionTreeRegressor(max_depth=3)`` of this package.""",
    "loss": """loss : {"linear", "square", "exponential"}, default="linear"
        Of a row, from 0 to 1, with r its absolute error by the largest of all: r, r**2, or
        1 - exp(-r).
    """,
    "estimator_weights": "Of the learners: ``learning_rate * ln((1 - e) / e)``; 1 without error.",
    "estimator_errors": "e, the weighted mean of the loss over all rows.",
    "forest": """Its leaves hold
        what the trees predict; the model is their median, not their sum.""",
    "attributes": "",
}


@documented(ADABOOST, **_TEXT)
class AdaBoostRegressor(RegressorMixin, AdaBoost):
    """AdaBoost.R2 for numbers (Drucker 1997): the weighted median of learners, each trained on
    rows drawn by how the ones before did.

    A learner whose mean loss is e has beta = e / (1 - e); the weight of a row with loss L is
    multiplied by ``beta ** ((1 - L) * learning_rate)``, and all are then made to sum up to one.
    Boosting ends with a learner without loss, and before one whose mean loss is not below 1/2; if
    that is the first one, it is the model. No row's weight falls below 2**-52. A sample has as many
    draws as there are rows of positive weight.

    The same data and seed give the same model, bit for bit, on the CPU with any number of threads
    and on a GPU, where the learners do.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import AdaBoostRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AdaBoostRegressor(loss="square").fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        loss: str = "linear",
        max_bins: int | None = 255,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: bool | int = 0,
        callbacks: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.loss = loss
        self.max_bins = max_bins
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    def predict(self, X: Any) -> Any:
        """The weighted median of the learners: the smallest prediction with half of the weight
        at or below it.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)

        Returns
        -------
        float64, shape (n_rows,)
            In the array library and on the device of X.
        """
        with self._asking(X) as (values, device):
            predicted = self._predictions(values, device)
            return to_input_library(weighted_median(predicted, self.estimator_weights_, device), X)

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Predictions after every round, as from ``predict``."""
        with self._asking(X) as (values, device):
            predicted = self._predictions(values, device)
        for n in range(1, len(self) + 1):
            with self._working_on(device):  # not around the yield: it is the caller's time
                median = weighted_median(predicted[:, :n], self.estimator_weights_[:n], device)
                result = to_input_library(median, X)
            yield result

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        return score_of(r2_score, y, self.predict(X), sample_weight)

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Scores after every round, as from ``score``."""
        for predicted in self.staged_predict(X):
            yield score_of(r2_score, y, predicted, sample_weight)

    def _predictions(self, values: Any, device: Device) -> Any:
        """What every learner predicts: float64, shape (n_rows, n_rounds)."""
        if hasattr(self, "forest_"):
            return self.forest_.tree_predict(values, device)
        columns = [numbers_of(member, values, device) for member in self._members]
        return device.xp.stack(columns, axis=1)

    def _base_estimator(self) -> Any:
        if self.estimator is None:
            return DecisionTreeRegressor(
                max_depth=3, max_bins=self.max_bins, n_jobs=self.n_jobs, device=self.device
            )
        return self.estimator

    def _check_base(self, base: Any) -> None:
        check_regressor(base)

    def _learners(self, grows: bool) -> type[Any]:
        return RegressionTrees if grows else AnyRegressors

    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Any:
        return read_target(y, n_rows, device, estimator=self)

    def _rule(self, target: Any, device: Device) -> Rule:
        return R2(target, self.loss, float(self.learning_rate), device)
