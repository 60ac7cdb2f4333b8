"""Measures of how differently the models of an ensemble err.

Every measure takes the predictions of the models as a matrix (n_rows, n_models), in any array
library and on any device, with the true labels ``y``; or zeros and ones that say where each model
is right ("oracle outputs"); or a fitted ensemble and rows ``X`` for its members to predict.

Pairwise measures give a matrix (n_models, n_models) from one matrix product; ``pair_mean`` is its
mean over the pairs. ``pairwise`` computes all of them, ``summary`` one number for every measure.

| measure | models are diverse where it is |
| --- | --- |
| ``q_statistic``, ``correlation``, ``agreement``, ``cohen_kappa`` | low |
| ``disagreement`` | high |
| ``double_fault`` | low |
| ``entropy``, ``kohavi_wolpert_variance`` | high |
| ``interrater_agreement``, ``difficulty`` | low |
| ``generalised_diversity``, ``coincident_failure_diversity`` | high |

References
----------
Kuncheva and Whitaker, "Measures of diversity in classifier ensembles and their relationship with
the ensemble accuracy", Machine Learning 51, 2003.
"""

from __future__ import annotations

from typing import Any

from .inputs import member_predictions, on_its_gpu, read_correct
from .measures import (
    agreement,
    cohen_kappa,
    coincident_failure_diversity,
    correlation,
    difficulty,
    disagreement,
    double_fault,
    entropy,
    generalised_diversity,
    interrater_agreement,
    kohavi_wolpert_variance,
    pair_mean,
    pairwise,
    q_statistic,
)
from .regression import (
    Ambiguity,
    Spread,
    ambiguity_decomposition,
    correlation_of_models,
    variance_of_average,
)

__all__ = [
    "Ambiguity",
    "Spread",
    "agreement",
    "ambiguity_decomposition",
    "cohen_kappa",
    "coincident_failure_diversity",
    "correlation",
    "correlation_of_models",
    "difficulty",
    "disagreement",
    "double_fault",
    "entropy",
    "generalised_diversity",
    "interrater_agreement",
    "kohavi_wolpert_variance",
    "member_predictions",
    "pair_mean",
    "pairwise",
    "q_statistic",
    "summary",
    "variance_of_average",
]

OF_ENSEMBLE = (
    entropy,
    kohavi_wolpert_variance,
    interrater_agreement,
    difficulty,
    generalised_diversity,
    coincident_failure_diversity,
)


@on_its_gpu
def summary(predictions: Any, y: Any = None, *, X: Any = None) -> dict[str, float]:
    """Return every measure of the ensemble by name, pairwise ones as the mean over the pairs.

    Parameters
    ----------
    predictions : array, shape (n_rows, n_models), or fitted ensemble
        What each model predicts; the members of an ensemble predict X.
    y : array, shape (n_rows,), default=None
        The labels. None: predictions are whether each model is right.
    X : array or data frame, shape (n_rows, n_features), default=None
        The rows that an ensemble's members predict.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier, diversity
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=5, device="cpu").fit(X[::2], y[::2])
    >>> found = diversity.summary(forest, y[1::2], X=X[1::2])
    >>> abs(found["agreement"] + found["disagreement"] - 1) < 1e-12
    True
    """
    correct = read_correct(predictions, y, X)
    found = {name: pair_mean(matrix) for name, matrix in pairwise(correct).items()}
    return found | {measure.__name__: measure(correct) for measure in OF_ENSEMBLE}
