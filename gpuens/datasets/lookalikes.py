"""Generated tables that resemble HIGGS and Covertype."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np

from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .draws import LABELS, RULE, BlockDraws, sqrt_float32
from .tables import ARGUMENTS, check_counts, column, labels, make_table, pilot, rule

N_TERMS = 16
HIGGS_NOISE = 1.58
"""Standard deviation of what is added to the score."""


@documented(ARGUMENTS)
def make_higgs_like(
    n_rows: int, n_features: int = 28, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make a table that resembles HIGGS: two classes separated by products of features.

    Symmetric, heavy-tailed and coarsely graded features in turn. The labels follow at most
    twenty of the features, and noise that no model can remove.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_features : int, default=28
        Columns of the table.
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

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = _features(draws, int(n_features))
        return X, labels(_noisy_score(X, draws) > centre, draws)

    return make_table(block, int(n_features), n_rows, random_state, rows=rows, xp=xp, device=device)


def _features(draws: BlockDraws, n_features: int) -> Array:
    X = draws.normal(n_features)
    energies = X[1::4, :] * 2.0**-5 + 1.0
    for _ in range(4):  # (1 + z/32)^16 is about e^(z/2)
        energies = energies * energies
    X[1::4, :] = energies
    X[3::6, :] = draws.xp.floor(X[3::6, :] * 3.0)
    return X


@functools.cache
def _terms(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features (3, N_TERMS) and the weights (2, N_TERMS) of each term."""
    draws = pilot()
    n_used = min(n_features, 20)
    features = np.stack([draws.choice(n_used, k, stream=RULE)[:N_TERMS] for k in range(3)])
    return features, draws.normal(2, first=3, stream=RULE)[:, :N_TERMS]


def _noisy_score(X: Array, draws: BlockDraws) -> Any:
    """Return a sum of terms with a product, its slope falling as that grows, times a hump."""
    xp = draws.xp
    features, weights = _terms(X.shape[0])
    i, j, k = (xp.take(X, xp.asarray(which, device=draws.device), axis=0) for which in features)
    pair, single = (column(weight, draws) for weight in weights)
    product, square = i * j, k * k * 0.4
    terms = pair * product * (1.0 - square) / ((xp.abs(product) + 1.0) * (square + 1.0))
    terms = terms + single * sqrt_float32(xp.abs(k), xp) * 0.3
    total = draws.normal(stream=LABELS)[0, :] * HIGGS_NOISE
    for term in range(N_TERMS):
        total = total + terms[term, :]
    return total


@functools.cache
def _centre(n_features: int) -> float:
    draws = pilot()
    return float(np.median(_noisy_score(_features(draws, n_features), draws)))


N_NUMERIC, N_AREAS, N_SOILS = 10, 4, 40
N_CLASSES, N_PAIRS = 7, 6
UTILITY_OF_CLASS = (-0.6, -0.9, -2.2, -5.3, -4.1, -3.7, -3.0)
"""Such that the classes are about as frequent as in the original."""
COVTYPE_NOISE, PAIR = 1.2, 2.0
"""Standard deviation of the noise of each utility, and the weight of pairs of features."""

# Columns of the streams LABELS (a draw for each row) and RULE (one for each class or code).
AREA, SOIL, UTILITY = 0, 1, 2
OF_AREA, OF_SOIL, OF_PAIR, FIRST_OF_PAIR, SECOND_OF_PAIR = range(5)


@documented(ARGUMENTS)
def make_covtype_like(
    n_rows: int, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make a table that resembles Covertype: seven classes, two of them common, three rare.

    Ten numeric features in whole numbers, then two choices coded as 4 and 40 columns of zeros
    and ones.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    <shared>

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
    n_features = N_NUMERIC + N_AREAS + N_SOILS
    return make_table(_block, n_features, n_rows, random_state, rows=rows, xp=xp, device=device)


def _block(draws: BlockDraws) -> tuple[Array, Array]:
    xp = draws.xp
    numeric, noise = draws.normal(N_NUMERIC), draws.normal(2, stream=LABELS)
    altitude = numeric[0, :]
    area = _graded(altitude + noise[AREA, :] * 0.8, N_AREAS, xp)
    soil = _graded(altitude + numeric[1, :] + noise[SOIL, :], N_SOILS, xp)
    X = xp.concat(
        [
            xp.floor(numeric * 200.0 + 1000.5),
            _indicators(area, N_AREAS, draws),
            _indicators(soil, N_SOILS, draws),
        ],
        axis=0,
    )
    return X, _cover_type(numeric, area, soil, draws)


def _graded(values: Array, n_grades: int, xp: ModuleType) -> Array:
    """Return whole numbers from 0 to n_grades - 1 that rise with the values."""
    return xp.astype(xp.clip((values + 3.0) * (n_grades / 6), 0, n_grades - 1), xp.int64)


def _indicators(codes: Array, n: int, draws: BlockDraws) -> Array:
    xp = draws.xp
    which = xp.arange(n, dtype=xp.int64, device=draws.device)
    return xp.astype(codes[None, :] == which[:, None], xp.float32)


def _cover_type(numeric: Array, area: Array, soil: Array, draws: BlockDraws) -> Array:
    """Return the class with the highest utility: common or rare, by place, by pairs of features."""
    xp, of_rule = draws.xp, rule(draws)
    classes = xp.arange(N_CLASSES, dtype=xp.int64, device=draws.device)[:, None]
    utility = draws.normal(N_CLASSES, first=UTILITY, stream=LABELS) * COVTYPE_NOISE
    utility = utility + column(UTILITY_OF_CLASS, draws)
    utility = utility + of_rule.effect(area[None, :] * N_CLASSES + classes, OF_AREA) * 0.8
    utility = utility + of_rule.effect(soil[None, :] * N_CLASSES + classes, OF_SOIL) * 0.8
    first, second, weights = _pairs()
    for pair in range(N_PAIRS):
        i, j = (xp.asarray(which[pair], device=draws.device) for which in (first, second))
        product = xp.take(numeric, i, axis=0) * xp.take(numeric, j, axis=0)
        slowing = product / (xp.abs(product) + 1.0)
        utility = utility + column(weights[pair], draws) * slowing * PAIR
    return _largest(utility, xp)


@functools.cache
def _pairs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the two features and the weight of each pair (N_PAIRS, N_CLASSES)."""
    draws, shape = pilot(), (N_PAIRS, N_CLASSES)
    n = N_PAIRS * N_CLASSES
    features = [
        draws.choice(N_NUMERIC, k, stream=RULE)[:n] for k in (FIRST_OF_PAIR, SECOND_OF_PAIR)
    ]
    weights = draws.normal(first=OF_PAIR, stream=RULE)[0, :n]
    return features[0].reshape(shape), features[1].reshape(shape), weights.reshape(shape)


def _largest(utility: Array, xp: ModuleType) -> Array:
    """Return the first of the largest in each column; libraries differ in which they return."""
    best = utility[0, :]
    which = xp.zeros_like(best, dtype=xp.int64)
    for k in range(1, N_CLASSES):
        better = utility[k, :] > best
        best = xp.where(better, utility[k, :], best)
        which = xp.where(better, xp.full_like(which, k), which)
    return which
