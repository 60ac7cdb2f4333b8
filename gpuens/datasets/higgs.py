"""A table in the manner of HIGGS."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..estimators.docstrings import documented
from .draws import LABELS, RULE, Draws, sqrt_float32
from .tables import ARGUMENTS, check_counts, column, labels, make_table, pilot

N_TERMS = 16
NOISE = 1.58
"""Standard deviation of what is added to the score."""


@documented(ARGUMENTS)
def make_higgs_like(
    n_rows: int,
    n_features: int = 28,
    random_state: Any = 0,
    *,
    rows: tuple[int, int] | None = None,
    xp: Any = None,
    device: Any = None,
) -> tuple[Any, Any]:
    """Make a table in the manner of HIGGS: two classes told apart by products of features.

    Symmetric, heavy-tailed and coarsely graded features in turn. The labels follow at most
    twenty of the features, and noise that no model can remove.

    Parameters
    ----------
    n_rows : int
    n_features : int, default=28
    <shared>

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
    >>> block, _ = make_higgs_like(1000, rows=(300, 400))
    >>> bool((block == X[300:400]).all())
    True
    """
    check_counts(n_rows=n_rows, n_features=n_features)
    centre = _centre(int(n_features))

    def block(draws: Draws) -> tuple[Any, Any]:
        X = _features(draws, int(n_features))
        return X, labels(_noisy_score(X, draws) > centre, draws)

    return make_table(block, int(n_features), n_rows, random_state, rows=rows, xp=xp, device=device)


def _features(draws: Draws, n_features: int) -> Any:
    X = draws.normal(n_features)
    energies = X[1::4, :] * 2.0**-5 + 1.0
    for _ in range(4):  # (1 + z/32)^16 is about e^(z/2)
        energies = energies * energies
    X[1::4, :] = energies
    X[3::6, :] = draws.xp.floor(X[3::6, :] * 3.0)
    return X


@functools.cache
def _terms(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The features (3, N_TERMS) and the weights (2, N_TERMS) of each term."""
    draws = pilot()
    n_used = min(n_features, 20)
    features = np.stack([draws.choice(n_used, k, stream=RULE)[:N_TERMS] for k in range(3)])
    return features, draws.normal(2, first=3, stream=RULE)[:, :N_TERMS]


def _noisy_score(X: Any, draws: Draws) -> Any:
    """A sum of terms with a product, its slope falling as that grows, times a hump."""
    xp = draws.xp
    features, weights = _terms(X.shape[0])
    i, j, k = (xp.take(X, xp.asarray(which, device=draws.device), axis=0) for which in features)
    pair, single = (column(weight, draws) for weight in weights)
    product, square = i * j, k * k * 0.4
    terms = pair * product * (1.0 - square) / ((xp.abs(product) + 1.0) * (square + 1.0))
    terms = terms + single * sqrt_float32(xp.abs(k), xp) * 0.3
    total = draws.normal(stream=LABELS)[0, :] * NOISE
    for term in range(N_TERMS):
        total = total + terms[term, :]
    return total


@functools.cache
def _centre(n_features: int) -> float:
    draws = pilot()
    return float(np.median(_noisy_score(_features(draws, n_features), draws)))
