"""Diversity of each pair of models (Kuncheva and Whitaker 2003, section 3).

Of two models, N11 rows are right by both, N10 and N01 by one alone, and N00 by none, of N rows.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from .inputs import (
    Counts,
    joint_counts,
    label_numbers,
    pair_counts,
    read_correct,
    read_predictions,
)


def q_statistic(predictions: Any, y: Any = None, *, X: Any = None) -> Any:
    """Yule's Q: ``(N11 N00 - N01 N10) / (N11 N00 + N01 N10)``.

    0 for models whose errors are independent, negative where they err on different rows, 1 where
    one errs only where the other does. 0 also where the denominator is zero: one of the models is
    then always right or always wrong, which depends on nothing.

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
    float64, shape (n_models, n_models)
        Symmetric, in the library and on the device of the predictions; ``pair_mean`` is the
        measure of the whole ensemble.

    Raises
    ------
    ValueError
        The predictions are no matrix, of fewer than two models, hold NaN, or do not fit y.

    References
    ----------
    Yule, "On the association of attributes in statistics", Phil. Trans. A 194, 1900.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import diversity
    >>> right = np.array([[1, 1], [1, 0], [0, 1], [0, 0], [1, 1]])
    >>> diversity.q_statistic(right)[0, 1].item()
    0.3333333333333333
    """
    return _q_statistic(pair_counts(read_correct(predictions, y, X)))


def correlation(predictions: Any, y: Any = None, *, X: Any = None) -> Any:
    """The correlation coefficient of being right:
    ``(N11 N00 - N01 N10) / sqrt((N11 + N10) (N01 + N00) (N11 + N01) (N10 + N00))``.

    0 also where one of the models is always right or always wrong.

    Parameters
    ----------
    predictions, y, X
        As for ``q_statistic``.

    Returns
    -------
    float64, shape (n_models, n_models)
    """
    return _correlation(pair_counts(read_correct(predictions, y, X)))


def disagreement(predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness") -> Any:
    """Share of the rows where one model is right and the other wrong: ``(N01 + N10) / N``
    (Skalak 1996).

    Parameters
    ----------
    predictions, y, X
        As for ``q_statistic``.
    of : {"correctness", "labels"}, default="correctness"
        "labels" compares what the models predict, whatever is right: the share of the rows where
        they predict different labels. It takes no y.

    Returns
    -------
    float64, shape (n_models, n_models)
    """
    if of_labels(of, y):
        same, _ = _label_counts(predictions, X)
        xp = array_namespace(same)
        return 1.0 - same / xp.max(same)  # a model agrees with itself in every row
    return _disagreement(pair_counts(read_correct(predictions, y, X)))


def agreement(predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness") -> Any:
    """One minus the disagreement: ``(N11 + N00) / N``.

    Parameters
    ----------
    predictions, y, X, of
        As for ``disagreement``.

    Returns
    -------
    float64, shape (n_models, n_models)
    """
    if of_labels(of, y):
        same, _ = _label_counts(predictions, X)
        return same / array_namespace(same).max(same)
    return _agreement(pair_counts(read_correct(predictions, y, X)))


def double_fault(predictions: Any, y: Any = None, *, X: Any = None) -> Any:
    """Share of the rows where both models are wrong: ``N00 / N`` (Giacinto and Roli 2001).

    On the diagonal stand the models' error rates.

    Parameters
    ----------
    predictions, y, X
        As for ``q_statistic``.

    Returns
    -------
    float64, shape (n_models, n_models)
    """
    return _double_fault(pair_counts(read_correct(predictions, y, X)))


def cohen_kappa(predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness") -> Any:
    """Cohen's kappa: ``(agreement - e) / (1 - e)`` with the agreement e of independent models
    that are right (or predict each label) as often.

    1 where the denominator is zero: both models are then right in every row (or wrong, or give
    the same label), and agree throughout.

    Parameters
    ----------
    predictions, y, X, of
        As for ``disagreement``; "labels" is the kappa of two raters, as
        ``sklearn.metrics.cohen_kappa_score`` computes it.

    Returns
    -------
    float64, shape (n_models, n_models)

    References
    ----------
    Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20, 1960; of correctness: Kuncheva and Whitaker 2003, equation 12.
    """
    if of_labels(of, y):
        same, counts = _label_counts(predictions, X)
        xp = array_namespace(same)
        n_rows = xp.max(same)
        by_chance = xp.matmul(counts, counts.T) / n_rows
        return _divided(same - by_chance, n_rows - by_chance, 1.0)
    return _cohen_kappa(pair_counts(read_correct(predictions, y, X)))


def pairwise(predictions: Any, y: Any = None, *, X: Any = None) -> dict[str, Any]:
    """All pairwise measures of correctness from one matrix product, by name.

    Parameters
    ----------
    predictions, y, X
        As for ``q_statistic``.

    Returns
    -------
    dict of str to float64, shape (n_models, n_models)
    """
    counts = pair_counts(read_correct(predictions, y, X))
    return {name: measure(counts) for name, measure in _MEASURES.items()}


def pair_mean(matrix: Any) -> float:
    """The mean over all pairs of different models: what a pairwise measure says of the ensemble.

    Parameters
    ----------
    matrix : float64, shape (n_models, n_models)
        From one of the pairwise measures.
    """
    xp = array_namespace(matrix)
    n = matrix.shape[0]
    others = xp.sum(matrix * (1.0 - xp.eye(n, dtype=matrix.dtype, device=device(matrix))))
    return float(others) / (n * (n - 1))


def _q_statistic(n: Counts) -> Any:
    together, apart = n.both * n.neither, n.first * n.second
    return _divided(together - apart, together + apart, 0.0)


def _correlation(n: Counts) -> Any:
    xp = array_namespace(n.both)
    of_first = (n.both + n.first) * (n.second + n.neither)
    of_second = (n.both + n.second) * (n.first + n.neither)
    covered = n.both * n.neither - n.first * n.second
    return _divided(covered, xp.sqrt(of_first * of_second), 0.0)


def _disagreement(n: Counts) -> Any:
    return (n.first + n.second) / n.n_rows


def _agreement(n: Counts) -> Any:
    return (n.both + n.neither) / n.n_rows


def _double_fault(n: Counts) -> Any:
    return n.neither / n.n_rows


def _cohen_kappa(n: Counts) -> Any:
    covered = n.both * n.neither - n.first * n.second
    apart = (n.both + n.first) * (n.first + n.neither)
    apart = apart + (n.both + n.second) * (n.second + n.neither)
    return _divided(2.0 * covered, apart, 1.0)


_MEASURES = {
    "q_statistic": _q_statistic,
    "correlation": _correlation,
    "disagreement": _disagreement,
    "agreement": _agreement,
    "double_fault": _double_fault,
    "cohen_kappa": _cohen_kappa,
}


def of_labels(of: str, y: Any) -> bool:
    """Whether labels are compared, and not where they are right; checks the two parameters."""
    if not (isinstance(of, str) and of in ("correctness", "labels")):
        raise ValueError(f"of must be 'correctness' or 'labels', got {of!r}.")
    if of == "labels" and y is not None:
        raise ValueError("of='labels' compares the models with each other: leave y out.")
    return of == "labels"


def _label_counts(predictions: Any, X: Any) -> tuple[Any, Any]:
    """In how many rows two models give the same label (n_models, n_models), and how often each
    gives each label (n_models, n_labels); float64."""
    numbers, n_labels = label_numbers(read_predictions(predictions, X))
    xp = array_namespace(numbers)
    same: Any = 0.0
    counts = []
    for label in range(n_labels):
        marked = numbers == label
        same = same + joint_counts(marked)
        counts.append(xp.sum(xp.astype(marked, xp.float64), axis=0))
    return same, xp.stack(counts, axis=1)


def _divided(numerator: Any, denominator: Any, otherwise: float) -> Any:
    """The quotient, and a fixed value where the denominator is zero."""
    xp = array_namespace(numerator)
    zero = denominator == 0
    safe = xp.where(zero, xp.ones_like(denominator), denominator)
    return xp.where(zero, xp.full_like(denominator, otherwise), numerator / safe)
