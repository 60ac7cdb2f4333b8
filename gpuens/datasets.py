"""Tables of any size for demonstrations, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RULE_SEED = 2014
"""Seed of what ties the labels to the features; ``random_state`` draws the rows only."""
PILOT_ROWS = 8192
"""Rows of a fixed table that the two classes are balanced on."""

Score = Callable[[np.ndarray], np.ndarray]


def make_higgs_like(
    n_rows: int, n_features: int = 28, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Make a table in the manner of HIGGS: two classes told apart by products of features.

    Symmetric, heavy-tailed and coarsely graded features in turn. The labels follow at most
    twenty of the features, and noise that no model can remove.

    Parameters
    ----------
    n_rows : int
    n_features : int, default=28
    random_state : int, default=0
        Draws the rows. The rule behind the labels is always the same, so that two calls with
        different states give training and test rows of one problem.

    Returns
    -------
    X : float32, shape (n_rows, n_features)
    y : int64, shape (n_rows,)
        0 or 1, about as many of each.

    References
    ----------
    Baldi, Sadowski and Whiteson, "Searching for exotic particles in high-energy physics with
    deep learning", Nature Communications 5, 2014: the table that this one resembles.

    Examples
    --------
    >>> from gpuens.datasets import make_higgs_like
    >>> X, y = make_higgs_like(1000)
    >>> X.shape, X.dtype.name, sorted(set(y.tolist()))
    ((1000, 28), 'float32', [0, 1])
    """
    _check_size(n_rows=n_rows, n_features=n_features)
    score = _higgs_rule(n_features)
    centre = np.median(score(_higgs_rows(PILOT_ROWS, n_features, RULE_SEED)))
    X = _higgs_rows(n_rows, n_features, random_state)
    noise = np.random.default_rng([random_state, 1]).logistic(scale=0.8, size=n_rows)
    return X, (score(X) - centre + noise > 0).astype(np.int64)


def _higgs_rows(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    X = np.random.default_rng(seed).standard_normal((n_rows, n_features), dtype=np.float32)
    energies, grades = X[:, 1::4], X[:, 3::6]
    np.exp(energies * np.float32(0.5), out=energies)
    np.floor(grades * np.float32(3), out=grades)
    return X


def _higgs_rule(n_features: int) -> Score:
    rng = np.random.default_rng(RULE_SEED)
    n_used = min(n_features, 20)
    features = rng.integers(0, n_used, (16, 3))
    weights = rng.normal(size=(16, 2)).astype(np.float32)

    def score(X: np.ndarray) -> np.ndarray:
        total = np.zeros(X.shape[0], np.float32)
        for (i, j, k), (pair, single) in zip(features, weights, strict=True):
            total += pair * np.tanh(X[:, i] * X[:, j]) * np.cos(X[:, k])
            total += np.float32(0.3) * single * np.sqrt(np.abs(X[:, k]))
        return total

    return score


COVER_SHARES = (0.365, 0.488, 0.062, 0.005, 0.016, 0.030, 0.034)
"""About how often each class of ``make_covtype_like`` occurs, as in the original."""


def make_covtype_like(n_rows: int, random_state: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make a table in the manner of Covertype: seven classes, two of them common, three rare.

    Ten numeric features in whole numbers, then two choices coded as 4 and 40 columns of zeros
    and ones.

    Parameters
    ----------
    n_rows : int
    random_state : int, default=0
        Draws the rows; the rule behind the labels is always the same.

    Returns
    -------
    X : float32, shape (n_rows, 54)
    y : int64, shape (n_rows,)
        0 … 6; in a short table the rarest classes may not occur.

    References
    ----------
    Blackard and Dean, "Comparative accuracies of artificial neural networks and discriminant
    analysis in predicting forest cover types", Computers and Electronics in Agriculture 24,
    1999: the table that this one resembles.

    Examples
    --------
    >>> from gpuens.datasets import make_covtype_like
    >>> X, y = make_covtype_like(1000)
    >>> X.shape, X[:, 14:].sum(axis=1).tolist() == [1.0] * 1000
    ((1000, 54), True)
    """
    _check_size(n_rows=n_rows)
    rng = np.random.default_rng(random_state)
    numeric = rng.standard_normal((n_rows, 10), dtype=np.float32)
    altitude = numeric[:, 0]
    area = _graded(altitude + rng.normal(scale=0.8, size=n_rows), 4)
    soil = _graded(altitude + numeric[:, 1] + rng.normal(scale=1.0, size=n_rows), 40)
    X = np.zeros((n_rows, 54), np.float32)
    np.round(numeric * np.float32(200) + np.float32(1000), out=X[:, :10])
    X[np.arange(n_rows), 10 + area] = 1
    X[np.arange(n_rows), 14 + soil] = 1
    return X, _cover_type(numeric, area, soil, rng)


def _graded(values: np.ndarray, n_grades: int) -> np.ndarray:
    """Whole numbers from 0 to n_grades - 1 that rise with the values."""
    return np.clip((values + 3) * (n_grades / 6), 0, n_grades - 1).astype(np.int64)


def _cover_type(
    numeric: np.ndarray, area: np.ndarray, soil: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The class with the highest utility: common or rare, by place, by pairs of features."""
    rule = np.random.default_rng(RULE_SEED)
    n_classes = len(COVER_SHARES)
    utility = rng.gumbel(scale=0.6, size=(area.size, n_classes)).astype(np.float32)
    utility += np.log(np.array(COVER_SHARES, np.float32))
    utility += rule.normal(scale=0.8, size=(4, n_classes)).astype(np.float32)[area]
    utility += rule.normal(scale=0.8, size=(40, n_classes)).astype(np.float32)[soil]
    for k in range(n_classes):
        for _ in range(6):
            i, j = rule.integers(0, 10, 2)
            utility[:, k] += np.float32(rule.normal()) * np.tanh(numeric[:, i] * numeric[:, j])
    return utility.argmax(axis=1).astype(np.int64)


def _check_size(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {size!r}.")
