"""Measures of diversity: of pairs of models and of all models together.

Kuncheva and Whitaker 2003, sections 3 and 4. Of two models, N11 rows are right by both, N10 and N01
by one alone, and N00 by none, of N rows.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .inputs import (
    Counts,
    joint_counts,
    label_numbers,
    on_its_gpu,
    pair_counts,
    read_correct,
    read_predictions,
)

_ARGUMENTS = """predictions : array, shape (n_rows, n_models), or fitted ensemble
        Labels, or without ``y`` booleans (zeros and ones) that say where each model is right. Of
        an ensemble the members are compared, see ``member_predictions``.
    y : array, shape (n_rows,), default=None
        The true labels.
    X : array or data frame, shape (n_rows, n_features), default=None
        The rows that an ensemble predicts.<of>"""
_ERRORS = """Raises
    ------
    ValueError
        The predictions are not a matrix, are of fewer than two models, hold NaN, or do not
        fit y."""
PAIRWISE = f"""Parameters
    ----------
    {_ARGUMENTS}

    Returns
    -------
    float64, shape (n_models, n_models)
        Symmetric, in the library and on the device of the predictions; ``pair_mean`` is the
        measure of the whole ensemble.

    {_ERRORS}"""
OVERALL = f"""Parameters
    ----------
    {_ARGUMENTS}

    Returns
    -------
    float

    {_ERRORS}"""
PAIRWISE_ARGUMENTS = f"""Parameters
    ----------
    {_ARGUMENTS.replace("<of>", "")}"""
OF = """
    of : {"correctness", "labels"}, default="correctness"
        "labels" compares what the models predict, whatever is right. It takes no y."""


@documented(PAIRWISE, of="")
@on_its_gpu
def q_statistic(predictions: Any, y: Any = None, *, X: Any = None) -> Any:
    """Yule's Q: ``(N11 N00 - N01 N10) / (N11 N00 + N01 N10)``.

    0 for models whose errors are independent, negative where they err on different rows, 1 where
    one errs only where the other does. 0 also where the denominator is zero: one of the models is
    then always right or always wrong, which depends on nothing.

    <shared>

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


@documented(PAIRWISE, of="")
@on_its_gpu
def correlation(predictions: Any, y: Any = None, *, X: Any = None) -> Any:
    """Return the correlation coefficient of being right: ``(N11 N00 - N01 N10) / sqrt((N11 + N10)
    (N01 + N00) (N11 + N01) (N10 + N00))``.

    0 also where one of the models is always right or always wrong.

    <shared>
    """
    return _correlation(pair_counts(read_correct(predictions, y, X)))


@documented(PAIRWISE, of=OF)
@on_its_gpu
def disagreement(predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness") -> Any:
    """Share of the rows where one model is right and the other wrong: ``(N01 + N10) / N``
    (Skalak 1996); of labels, the share of the rows where they predict different ones.

    <shared>
    """
    if of_labels(of, y):
        same, _ = _label_counts(predictions, X)
        xp = array_namespace(same)
        return 1.0 - same / xp.max(same)  # a model agrees with itself in every row
    return _disagreement(pair_counts(read_correct(predictions, y, X)))


@documented(PAIRWISE, of=OF)
@on_its_gpu
def agreement(predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness") -> Any:
    """One minus the disagreement: ``(N11 + N00) / N``.

    <shared>
    """
    if of_labels(of, y):
        same, _ = _label_counts(predictions, X)
        return same / array_namespace(same).max(same)
    return _agreement(pair_counts(read_correct(predictions, y, X)))


@documented(PAIRWISE, of="")
@on_its_gpu
def double_fault(predictions: Any, y: Any = None, *, X: Any = None) -> Any:
    """Share of the rows where both models are wrong: ``N00 / N`` (Giacinto and Roli 2001).

    On the diagonal stand the models' error rates.

    <shared>
    """
    return _double_fault(pair_counts(read_correct(predictions, y, X)))


@documented(PAIRWISE, of=OF)
@on_its_gpu
def cohen_kappa(predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness") -> Any:
    """Cohen's kappa: ``(agreement - e) / (1 - e)`` with the agreement e of independent models
    that are right (or predict each label) as often.

    1 where the denominator is zero: both models are then right in every row (or wrong, or give
    the same label), and agree throughout. Of labels it is the kappa of two raters, as
    ``sklearn.metrics.cohen_kappa_score`` computes it.

    <shared>

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


@documented(PAIRWISE_ARGUMENTS)
@on_its_gpu
def pairwise(predictions: Any, y: Any = None, *, X: Any = None) -> dict[str, Any]:
    """Return all pairwise measures of correctness, from one matrix product, by name.

    <shared>

    Returns
    -------
    dict of str to float64, shape (n_models, n_models)
    """
    counts = pair_counts(read_correct(predictions, y, X))
    return {name: measure(counts) for name, measure in _MEASURES.items()}


@on_its_gpu
def pair_mean(matrix: Array) -> float:
    """Return the mean of a pairwise measure over all pairs of different models.

    Parameters
    ----------
    matrix : float64, shape (n_models, n_models)
        From one of the pairwise measures.
    """
    xp = array_namespace(matrix)
    n = matrix.shape[0]
    others = xp.sum(matrix * (1.0 - xp.eye(n, dtype=matrix.dtype, device=device(matrix))))
    return float(others) / (n * (n - 1))


def _q_statistic(n: Counts) -> Array:
    together, apart = n.both * n.neither, n.first * n.second
    return _divided(together - apart, together + apart, 0.0)


def _correlation(n: Counts) -> Array:
    xp = array_namespace(n.both)
    of_first = (n.both + n.first) * (n.second + n.neither)
    of_second = (n.both + n.second) * (n.first + n.neither)
    covered = n.both * n.neither - n.first * n.second
    return _divided(covered, xp.sqrt(of_first * of_second), 0.0)


def _disagreement(n: Counts) -> Array:
    return (n.first + n.second) / n.n_rows


def _agreement(n: Counts) -> Array:
    return (n.both + n.neither) / n.n_rows


def _double_fault(n: Counts) -> Array:
    return n.neither / n.n_rows


def _cohen_kappa(n: Counts) -> Array:
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
    """Return whether labels are compared instead of correctness; check the two parameters."""
    if not (isinstance(of, str) and of in ("correctness", "labels")):
        raise ValueError(f"of must be 'correctness' or 'labels', got {of!r}.")
    if of == "labels" and y is not None:
        raise ValueError("of='labels' compares the models with each other: leave y out.")
    return of == "labels"


def _label_counts(predictions: Any, X: Any) -> tuple[Array, Array]:
    """Count the rows in which two models give the same label (n_models, n_models), and how often
    each gives each label (n_models, n_labels); float64."""
    numbers, n_labels = label_numbers(read_predictions(predictions, X))
    xp = array_namespace(numbers)
    same: Any = 0.0
    counts = []
    for label in range(n_labels):
        marked = numbers == label
        same = same + joint_counts(marked)
        counts.append(xp.sum(xp.astype(marked, xp.float64), axis=0))
    return same, xp.stack(counts, axis=1)


def _divided(numerator: Array, denominator: Array, otherwise: float) -> Array:
    """Divide, with a fixed value where the denominator is zero."""
    xp = array_namespace(numerator)
    zero = denominator == 0
    safe = xp.where(zero, xp.ones_like(denominator), denominator)
    return xp.where(zero, xp.full_like(denominator, otherwise), numerator / safe)


@documented(OVERALL, of="")
@on_its_gpu
def entropy(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Measure how far the models are from agreeing, from 0 to 1: ``mean of min(l, L - l) / (L -
    ceil(L / 2))``.

    1 where half of the models are right in every row. No logarithm is taken (Cunningham and
    Carney 2000 have the measure with one).

    <shared>

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


@documented(OVERALL, of="")
@on_its_gpu
def kohavi_wolpert_variance(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Variance of being right: ``mean of l (L - l) / L**2``, from 0 to 1/4.

    It is ``(L - 1) / (2 L)`` times the mean disagreement of the pairs.

    <shared>

    References
    ----------
    Kohavi and Wolpert, "Bias plus variance decomposition for zero-one loss functions", ICML 1996.
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    return float(xp.mean(right * (n_models - right))) / n_models**2


@documented(OVERALL, of=OF)
@on_its_gpu
def interrater_agreement(
    predictions: Any, y: Any = None, *, X: Any = None, of: str = "correctness"
) -> float:
    """Fleiss' kappa: ``(A - e) / (1 - e)`` with the mean agreement A of the pairs, and that by
    chance, e.

    1 where the denominator is zero: all models are then right everywhere (or wrong, or give one
    label).

    <shared>

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


@documented(OVERALL, of="")
@on_its_gpu
def difficulty(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Variance over the rows of the share of models that are right (Hansen and Salamon 1990).

    Small where the models are diverse; 1/4 where all are right on one half of the rows and wrong
    on the other.

    <shared>
    """
    right, n_models = _right(predictions, y, X)
    xp = array_namespace(right)
    share = right / n_models
    return float(xp.mean((share - xp.mean(share)) ** 2))


@documented(OVERALL, of="")
@on_its_gpu
def generalised_diversity(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """``1 - p(2) / p(1)`` with the chances that one model, and that two models, fail on a row
    (drawn at random, like the models).

    1 where a model fails only where all others are right, 0 where all fail together, and 0 where
    none ever fails.

    <shared>

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


@documented(OVERALL, of="")
@on_its_gpu
def coincident_failure_diversity(predictions: Any, y: Any = None, *, X: Any = None) -> float:
    """Mean of ``(L - i) / (L - 1)`` over the rows on which any model fails, i of them.

    1 where only one model fails at a time, 0 where all fail together, and 0 where none ever
    fails.

    <shared>

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


def _right(predictions: Any, y: Any, X: Any) -> tuple[Array, int]:
    """Count the models that are right in each row, float64 (n_rows,), and all models."""
    correct = read_correct(predictions, y, X)
    xp = array_namespace(correct)
    return xp.sum(xp.astype(correct, xp.float64), axis=1), correct.shape[1]
