"""A table in the manner of Covertype."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..estimators.docstrings import documented
from .draws import LABELS, RULE, Draws
from .tables import ARGUMENTS, column, make_table, pilot, rule

N_NUMERIC, N_AREAS, N_SOILS = 10, 4, 40
N_CLASSES, N_PAIRS = 7, 6
UTILITY_OF_CLASS = (-0.6, -0.9, -2.2, -5.3, -4.1, -3.7, -3.0)
"""Such that the classes are about as frequent as in the original."""
NOISE, PAIR = 1.2, 2.0
"""Standard deviation of the noise of each utility, and the weight of pairs of features."""

# Columns of the streams LABELS (a draw for each row) and RULE (one for each class or code).
AREA, SOIL, UTILITY = 0, 1, 2
OF_AREA, OF_SOIL, OF_PAIR, FIRST_OF_PAIR, SECOND_OF_PAIR = range(5)


@documented(ARGUMENTS)
def make_covtype_like(
    n_rows: int,
    random_state: Any = 0,
    *,
    rows: tuple[int, int] | None = None,
    xp: Any = None,
    device: Any = None,
) -> tuple[Any, Any]:
    """Make a table in the manner of Covertype: seven classes, two of them common, three rare.

    Ten numeric features in whole numbers, then two choices coded as 4 and 40 columns of zeros
    and ones.

    Parameters
    ----------
    n_rows : int
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


def _block(draws: Draws) -> tuple[Any, Any]:
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


def _graded(values: Any, n_grades: int, xp: Any) -> Any:
    """Whole numbers from 0 to n_grades - 1 that rise with the values."""
    return xp.astype(xp.clip((values + 3.0) * (n_grades / 6), 0, n_grades - 1), xp.int64)


def _indicators(codes: Any, n: int, draws: Draws) -> Any:
    xp = draws.xp
    which = xp.arange(n, dtype=xp.int64, device=draws.device)
    return xp.astype(codes[None, :] == which[:, None], xp.float32)


def _cover_type(numeric: Any, area: Any, soil: Any, draws: Draws) -> Any:
    """The class with the highest utility: common or rare, by place, by pairs of features."""
    xp, of_rule = draws.xp, rule(draws)
    classes = xp.arange(N_CLASSES, dtype=xp.int64, device=draws.device)[:, None]
    utility = draws.normal(N_CLASSES, first=UTILITY, stream=LABELS) * NOISE
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
    """The two features and the weight of each pair (N_PAIRS, N_CLASSES)."""
    draws, shape = pilot(), (N_PAIRS, N_CLASSES)
    n = N_PAIRS * N_CLASSES
    features = [
        draws.choice(N_NUMERIC, k, stream=RULE)[:n] for k in (FIRST_OF_PAIR, SECOND_OF_PAIR)
    ]
    weights = draws.normal(first=OF_PAIR, stream=RULE)[0, :n]
    return features[0].reshape(shape), features[1].reshape(shape), weights.reshape(shape)


def _largest(utility: Any, xp: Any) -> Any:
    """The first of the largest in each column: libraries differ in which ``argmax`` takes."""
    best = utility[0, :]
    which = xp.zeros_like(best, dtype=xp.int64)
    for k in range(1, N_CLASSES):
        better = utility[k, :] > best
        best = xp.where(better, utility[k, :], best)
        which = xp.where(better, xp.full_like(which, k), which)
    return which
