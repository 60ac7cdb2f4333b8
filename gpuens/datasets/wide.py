"""A wide generated table whose cells are mostly zero."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..estimators.docstrings import documented
from ..estimators.parameters import is_number
from ..kernels.runtime.arrays import Array
from .draws import LABELS, RULE, BlockDraws
from .tables import ARGUMENTS, check_counts, column, labels, make_table, pilot

N_USED, N_SINGLE, N_PAIRS = 200, 40, 40
MOST_OF_A_COLUMN = 0.9
NOISE = 1.0


@documented(ARGUMENTS)
def make_wide_sparse(
    n_rows: int, n_features: int = 1000, density: float = 0.02, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make a wide table that resembles word counts: most cells are 0.

    As with words, the first columns have many counts and the last ones few (Zipf's law). The
    labels follow 40 single counts and 40 pairs of columns among the first 200, and noise. The
    array is dense.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_features : int, default=1000
        Columns of the table.
    density : float, default=0.02
        About the share of the cells that are not 0, in (0, 0.5].
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, n_features)
        0, or 1 … 4; of the counts above 0 a quarter exceed 1, a quarter of these 2, and so on.
    y : int64, shape (n_rows,)
        0 or 1, about as many of each.

    Examples
    --------
    >>> from gpuens.datasets import make_wide_sparse
    >>> X, y = make_wide_sparse(1000)
    >>> X.shape, round(float((X > 0).mean()), 2), float(X.max())
    ((1000, 1000), 0.02, 4.0)
    """
    check_counts(n_rows=n_rows, n_features=n_features)
    if not (is_number(density) and 0 < density <= 0.5):
        raise ValueError(f"density must be a number in (0, 0.5], got {density!r}.")
    n_features, density = int(n_features), float(density)
    limit = _limit(n_features, density)

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = _counts(draws, n_features, density, n_features)
        return X, labels(_noisy_score(X, draws) > limit, draws)

    return make_table(block, n_features, n_rows, random_state, rows=rows, xp=xp, device=device)


@functools.cache
def _chances(n_features: int, density: float) -> np.ndarray:
    """Return the chance of each column's cells to be above 0, in units of 2**-32 (int64)."""
    zipf = [1.0 / (k + 1 + n_features // 20) for k in range(n_features)]
    scale = density * n_features / math.fsum(zipf)
    return np.array([int(min(scale * z, MOST_OF_A_COLUMN) * 2**32) for z in zipf], np.int64)


def _counts(draws: BlockDraws, n_features: int, density: float, n: int) -> Array:
    """Return the first n columns, shape (n, n_rows)."""
    xp = draws.xp
    bits = draws.bits(n)
    chance = xp.asarray(_chances(n_features, density)[:n, None], device=draws.device)
    count = xp.astype(bits < chance, xp.float32)
    for k in range(1, 4):
        count = count + xp.astype(bits < chance >> 2 * k, xp.float32)
    return count


@functools.cache
def _terms(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of single counts, of both sides of pairs, and the weights of all."""
    n = N_SINGLE + 2 * N_PAIRS
    draws = pilot()
    columns = draws.choice(min(n_features, N_USED), 0, stream=RULE)[:n]
    return columns, draws.normal(first=1, stream=RULE)[0, : N_SINGLE + N_PAIRS]


def _noisy_score(X: Array, draws: BlockDraws) -> Any:
    xp = draws.xp
    columns, weights = _terms(X.shape[0])
    used = xp.take(X, xp.asarray(columns, device=draws.device), axis=0)
    first, second = used[N_SINGLE : N_SINGLE + N_PAIRS, :], used[N_SINGLE + N_PAIRS :, :]
    terms = xp.concat([used[:N_SINGLE, :], first * second], axis=0) * column(weights, draws)
    total = draws.normal(stream=LABELS)[0, :] * NOISE
    for k in range(N_SINGLE + N_PAIRS):
        total = total + terms[k, :]
    return total


@functools.cache
def _limit(n_features: int, density: float) -> float:
    """Return the median of the score, for which only the first columns are needed."""
    draws = pilot()
    X = _counts(draws, n_features, density, min(n_features, N_USED))
    return float(np.median(_noisy_score(X, draws)))
