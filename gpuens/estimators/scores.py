"""The method ``score`` of classifiers and regressors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.lazy_tables import require_in_memory
from ..devices.placement import CPU, to_numpy
from ..inputs.labels import class_numbers, unknown_labels
from ..kernels.runtime.arrays import Array
from .nothing_learned import warn_user

MOST_NAMED = 10
"""Labels that a warning names."""


class _Scores:
    """A score of predictions, for arrays of any library."""

    _scored_by: str
    """The name of a function in ``sklearn.metrics``, which takes long to import."""
    predict: Callable[..., Any]

    def _score_of(self, y: Array, predicted: Array, sample_weight: Array | None) -> float:
        from sklearn import metrics

        score = getattr(metrics, self._scored_by)
        try:
            weight = None if sample_weight is None else to_numpy(sample_weight)
            return float(score(to_numpy(y), to_numpy(predicted), sample_weight=weight))
        except (TypeError, ValueError, ZeroDivisionError) as error:  # few name an argument
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f"y or sample_weight do not fit the predictions of {type(self).__name__}: {error}"
            ) from error


class ScoresClasses(_Scores):
    """Gives a classifier its ``score``, the accuracy."""

    _scored_by = "accuracy_score"
    classes_: Any

    def _score_of(self, y: Any, predicted: Any, sample_weight: Any) -> float:
        """Compare the numbers of the classes, as ``fit`` reads them: scikit-learn's metrics refuse
        many of its labels. A label that ``fit`` has not seen is not predicted right."""
        classes = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        n_rows = predicted.shape[0]
        truth, found = (
            class_numbers(labels, classes, n_rows, CPU, estimator=self, name=name)
            for labels, name in ((y, "y"), (predicted, "the prediction"))
        )
        if (truth < 0).any():
            _warn_of_unseen(y, truth)
        is_right = ((truth == found) & (truth >= 0)).all(axis=1)
        return super()._score_of(np.ones(n_rows), is_right.astype(np.float64), sample_weight)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the rows that are classified correctly, in all outputs.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,) or (n_rows, n_outputs)
            Labels of any type that ``fit`` takes.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        require_in_memory(y, "y")
        require_in_memory(sample_weight, "sample_weight")
        return self._score_of(y, self.predict(X), sample_weight)


def _warn_of_unseen(y: Any, numbers: Array) -> None:
    """Name the labels that ``fit`` has not seen, whose class numbers are -1."""
    labels = unknown_labels(y, numbers)
    further = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    warn_user(
        f"y holds labels that fit has not seen: {', '.join(map(repr, labels[:MOST_NAMED]))}"
        f"{further}, in {(numbers < 0).any(axis=1).sum()} of {len(numbers)} rows. These rows count "
        "as wrong.",
        UserWarning,
    )


class ScoresValues(_Scores):
    """Gives a regressor its ``score``, R²."""

    _scored_by = "r2_score"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions, for several outputs the mean of theirs.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        y : array, shape (n_rows,) or (n_rows, n_outputs)
            The true target.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        require_in_memory(y, "y")
        require_in_memory(sample_weight, "sample_weight")
        return self._score_of(y, self.predict(X), sample_weight)
