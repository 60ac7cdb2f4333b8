"""Diversity of all models together (Kuncheva and Whitaker 2003, section 4).

L models are right on l(j) counts of row j, of N rows.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from .inputs import label_numbers, read_correct, read_predictions
from .pairwise import of_labels


def entropy(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """How far the models are from agreeing on being right, from 0 to 1:
    ``mean of min(l, L - l) / (L - ceil(L / 2))``.

    1 where half of the models are right in every row. No logarithm is taken (Cunningham and
    Carney 2000 have the measure with one).

    Parameters
    ----------
    predictions : array, shape (n_rows, n_models), or fitted ensemble
        Labels, or without ``y`` booleans (zeros and ones) that say where each model is right. Of
        an ensemble the members are compared, see ``member_predictions``.
    y : array, shape (n_rows,), default=None
        The true labels.
    X : array or data frame, shape (n_rows, n_features), default=None
        The rows that an ensemble shall predict.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        The predictions are no matrix, of fewer than two models, hold NaN, or do not fit y.

    Examples
    --------
    >>> from gpuens import diversity
    >>> diversity.entropy([[1, 1, 0], [1, 1, 1]])
    0.5
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    fewer = xp.where(right < n_models - right, right, n_models - right)
    return float(xp.mean(fewer)) / (n_models - (n_models + 1) // 2)


def kohavi_wolpert_variance(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Variance of being right: ``mean of l (L - l) / L**2``, from 0 to 1/4.

    It is ``(L - 1) / (2 L)`` times the mean disagreement of the pairs.

    Parameters
    ----------
    predictions, y, X
        As for ``entropy``.

    Returns
    -------
    float

    References
    ----------
    Kohavi and Wolpert, "Bias plus variance decomposition for zero-one loss functions", ICML 1996.
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    return float(xp.mean(right * (n_models - right))) / n_models**2


def interrater_agreement(
    predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness"
) -> float:
    """Fleiss' kappa: ``(A - e) / (1 - e)`` with the mean agreement A of the pairs, and that by
    chance, e.

    1 where the denominator is zero: all models are then right everywhere (or wrong, or give one
    label).

    Parameters
    ----------
    predictions, y, X
        As for ``entropy``.
    of : {"correctness", "labels"}, default="correctness"
        "labels" compares what the models predict, whatever is right. It takes no y.

    Returns
    -------
    float

    References
    ----------
    Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76, 1971.
    """
    if of_labels(of, y):
        numbers, n_labels = label_numbers(read_predictions(predictions, X))
        xp, n_models = array_namespace(numbers), numbers.shape[1]
        votes = [xp.sum(xp.astype(numbers == k, xp.float64), axis=1) for k in range(n_labels)]
    else:
        right, n_models = _right(predictions, y, X)
        xp = array_namespace(right)
        votes = [right, n_models - right]
    pairs = sum(float(xp.mean(v * (v - 1.0))) for v in votes) / (n_models * (n_models - 1))
    shares = [float(xp.mean(v)) / n_models for v in votes]
    others = sum(share * (1.0 - share) for share in shares)  # one minus the agreement by chance
    return 1.0 - (1.0 - pairs) / others if others > 0 else 1.0


def difficulty(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Variance over the rows of the share of models that are right (Hansen and Salamon 1990).

    Small where the models are diverse; 1/4 where all are right on one half of the rows and wrong
    on the other.

    Parameters
    ----------
    predictions, y, X
        As for ``entropy``.

    Returns
    -------
    float
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    share = right / n_models
    return float(xp.mean((share - xp.mean(share)) ** 2))


def generalised_diversity(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """``1 - p(2) / p(1)`` with the chances that one model, and that two models, fail on a row
    (drawn at random, like the models).

    1 where a model fails only where all others are right, 0 where all fail together, and 0 where
    none ever fails.

    Parameters
    ----------
    predictions, y, X
        As for ``entropy``.

    Returns
    -------
    float

    References
    ----------
    Partridge and Krzanowski, "Software diversity: practical statistics for its measurement and
    exploitation", Information and Software Technology 39, 1997.
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    wrong = n_models - right
    one = float(xp.mean(wrong)) / n_models
    two = float(xp.mean(wrong * (wrong - 1.0))) / (n_models * (n_models - 1))
    return 1.0 - two / one if one > 0 else 0.0


def coincident_failure_diversity(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Mean of ``(L - i) / (L - 1)`` over the rows on which any model fails, i of them.

    1 where only one model fails at a time, 0 where all fail together, and 0 where none ever
    fails.

    Parameters
    ----------
    predictions, y, X
        As for ``entropy``.

    Returns
    -------
    float

    References
    ----------
    Partridge and Krzanowski 1997, see ``generalised_diversity``.
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    failing = float(xp.sum(xp.astype(right < n_models, xp.float64)))
    if failing == 0:
        return 0.0
    alone = xp.where(right < n_models, right, xp.zeros_like(right))
    return float(xp.sum(alone)) / (n_models - 1) / failing


def _right(predictions: Any, y: Any, X: Any) -> tuple[Any, int]:
    """How many models are right in each row, float64 (n_rows,), and how many there are."""
    correct = read_correct(predictions, y, X)
    xp = array_namespace(correct)
    return xp.sum(xp.astype(correct, xp.float64), axis=1), correct.shape[1]
