"""Classes whose boundaries no single feature shows: sparse parity, and Trunk's normal classes."""

from __future__ import annotations

import math
from typing import Any

from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .draws import LABELS, BlockDraws
from .tables import ARGUMENTS, check_counts, make_table


@documented(ARGUMENTS)
def make_sparse_parity(
    n_rows: int, n_features: int = 20, n_relevant: int = 3, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make the parity of the signs of a few features among many.

    Features are uniform on (-1, 1), and y is whether an odd number of the first ``n_relevant`` is
    positive. The labels have no noise: the error of the Bayes rule is 0.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_features : int, default=20
        Columns of the table.
    n_relevant : int, default=3
        At most ``n_features``.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, n_features)
    y : int64, shape (n_rows,)
        0 or 1, equally likely.

    References
    ----------
    Tomita et al., "Sparse projection oblique randomer forests", Journal of Machine Learning
    Research 21, 2020.

    Examples
    --------
    >>> from gpuens.datasets import make_sparse_parity
    >>> X, y = make_sparse_parity(1000)
    >>> bool((y == (X[:, :3] > 0).sum(axis=1) % 2).all())
    True
    """
    check_counts(n_features=n_features, n_relevant=n_relevant)
    if n_relevant > n_features:
        raise ValueError(
            f"n_relevant must be at most n_features={n_features}, got {n_relevant}: the parity is "
            "that of the first features."
        )

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = draws.uniform(int(n_features)) * 2.0 - 1.0
        positive = draws.xp.astype(X > 0.0, draws.xp.int64)
        y = positive[0, :]
        for k in range(1, int(n_relevant)):
            y = y ^ positive[k, :]
        return X, y

    return make_table(block, int(n_features), n_rows, random_state, rows=rows, xp=xp, device=device)


@documented(ARGUMENTS)
def make_trunk(
    n_rows: int, n_features: int = 100, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make two normal classes whose means differ less and less from feature to feature.

    Feature j = 1, 2, ... has the mean ``1 / sqrt(j)`` in class 1 and its negative in class 0, and
    the variance 1. Every further feature adds a little: the best rule is a sum of them all.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_features : int, default=100
        Columns of the table.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, n_features)
    y : int64, shape (n_rows,)
        0 or 1, equally likely.

    References
    ----------
    Trunk, "A problem of dimensionality: a simple example", IEEE Transactions on Pattern Analysis
    and Machine Intelligence 1, 1979.

    Examples
    --------
    >>> from gpuens.datasets import make_trunk
    >>> X, y = make_trunk(1000, 10)
    >>> bool(X[y == 1, 0].mean() > 0.8 > 0.4 > X[y == 1, 9].mean())
    True
    """
    check_counts(n_features=n_features)
    means = [[1.0 / math.sqrt(j)] for j in range(1, int(n_features) + 1)]

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        xp, device = draws.xp, draws.device
        y = draws.bits(stream=LABELS)[0, :] >> 31
        sign = xp.astype(y, xp.float32) * 2.0 - 1.0
        mean = xp.asarray(means, dtype=xp.float32, device=device)
        return draws.normal(int(n_features)) + mean * sign, y  # the products are exact

    return make_table(block, int(n_features), n_rows, random_state, rows=rows, xp=xp, device=device)
