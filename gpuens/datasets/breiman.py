"""Breiman's classification problems, whose Bayes errors are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .draws import LABELS, BlockDraws
from .tables import ARGUMENTS, check_counts, make_table

N_WAVE = 21

OF_NORMALS = f"""n_rows : int
        Rows of the table.
    n_features : int, default=20
        Columns of the table.
    {ARGUMENTS}

    Returns
    -------
    X : float32, shape (n_rows, n_features)
    y : int64, shape (n_rows,)
        0 or 1, equally likely.

    References
    ----------
    Breiman, "Arcing classifiers", The Annals of Statistics 26, 1998 (before: "Bias, variance and
    arcing classifiers", report 460, University of California, Berkeley, 1996)."""

Place = Callable[[Any, float, BlockDraws], tuple[Any, Any]]
"""The features (shape (n_features, n_rows)) and the classes of a block of rows, made of standard
normal deviates, ``2 / √n_features`` and further draws."""


@documented(OF_NORMALS)
def make_twonorm(
    n_rows: int, n_features: int = 20, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make Breiman's twonorm: two normal distributions with unit covariance.

    The mean of class 0 is (a, …, a), that of class 1 (-a, …, -a), with ``a = 2 / √n_features``.
    The Bayes rule is the sign of the sum of the features; its error is Φ(-2) = 2.28 %,
    whatever ``n_features`` (Breiman: 2.3 %).

    Parameters
    ----------
    <shared>

    Examples
    --------
    >>> from gpuens.datasets import make_twonorm
    >>> X, y = make_twonorm(1000)
    >>> X.shape, bool(X[y == 0].mean() > 0.4), bool(X[y == 1].mean() < -0.4)
    ((1000, 20), True, True)
    """

    def place(X: Array, a: float, draws: BlockDraws) -> tuple[Array, Array]:
        second, sign = _coin(draws, 0)
        return X + sign * a, second

    return _normals(place, n_rows, n_features, random_state, rows=rows, xp=xp, device=device)


@documented(OF_NORMALS)
def make_threenorm(
    n_rows: int, n_features: int = 20, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make Breiman's threenorm: three normal distributions with unit covariance, two classes.

    Class 0 has the mean (a, a, …, a) or (-a, -a, …, -a), equally likely, class 1 the mean
    (a, -a, a, -a, …), with ``a = 2 / √n_features``. The error of the Bayes rule is 10.5 %
    (Breiman) for 20 features.

    Parameters
    ----------
    <shared>

    Examples
    --------
    >>> from gpuens.datasets import make_threenorm
    >>> X, y = make_threenorm(1000)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 20), [0, 1])
    """

    def place(X: Array, a: float, draws: BlockDraws) -> tuple[Array, Array]:
        xp = draws.xp
        second, _ = _coin(draws, 0)
        _, sign = _coin(draws, 1)
        column = xp.arange(X.shape[0], dtype=xp.int64, device=draws.device)
        alternating = xp.astype(1 - column % 2 * 2, xp.float32)[:, None]
        return X + xp.where(second == 1, alternating, sign) * a, second

    return _normals(place, n_rows, n_features, random_state, rows=rows, xp=xp, device=device)


@documented(OF_NORMALS)
def make_ringnorm(
    n_rows: int, n_features: int = 20, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make Breiman's ringnorm: one normal distribution within another.

    Class 0 has the mean 0 and four times the unit covariance, class 1 the mean (a, …, a)
    with ``a = 2 / √n_features`` and unit covariance. The error of the Bayes rule is 1.3 %
    (Breiman) for 20 features. With ``a = 1 / √n_features``, which some descriptions have, it
    would be 1.5 %.

    Parameters
    ----------
    <shared>

    Examples
    --------
    >>> from gpuens.datasets import make_ringnorm
    >>> X, y = make_ringnorm(1000)
    >>> X.shape, bool(X[y == 0].std() > 1.9), bool(X[y == 1].std() < 1.1)
    ((1000, 20), True, True)
    """

    def place(X: Array, a: float, draws: BlockDraws) -> tuple[Array, Array]:
        second, sign = _coin(draws, 0)
        inner = sign * -0.5 + 0.5
        return X * (2.0 - inner) + inner * a, second

    return _normals(place, n_rows, n_features, random_state, rows=rows, xp=xp, device=device)


@documented(ARGUMENTS)
def make_waveform(
    n_rows: int, n_noise: int = 0, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make the waveform problem: three classes of mixtures of two of three triangular waves.

    Feature m = 1 … 21 is ``u h(m) + (1 - u) g(m)`` and a standard normal deviate, u uniform in
    (0, 1). h and g are the waves with peaks of height 6 at 11 and 15 (class 0), at 11 and 7
    (class 1), at 15 and 7 (class 2). The error of the Bayes rule is 14 % according to the book,
    13.3 % in a simulation of 100,000 rows.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_noise : int, default=0
        Further features, standard normal; 19 in the book's second version.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, 21 + n_noise)
    y : int64, shape (n_rows,)
        0, 1 or 2, equally likely.

    References
    ----------
    Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees", 1984, section
    2.6.2.

    Examples
    --------
    >>> from gpuens.datasets import make_waveform
    >>> X, y = make_waveform(1000)
    >>> X.shape, X[y == 2].mean(axis=0).argmax().item() in (6, 14)
    ((1000, 21), True)
    """
    check_counts(0, n_noise=n_noise)
    n_features = N_WAVE + int(n_noise)

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = draws.normal(n_features)
        signal, y = _wave(draws)
        X[:N_WAVE, :] = X[:N_WAVE, :] + signal
        return X, y

    return make_table(block, n_features, n_rows, random_state, rows=rows, xp=xp, device=device)


def _normals(
    place: Place, n_rows: int, n_features: int, random_state: Any, **where: Any
) -> tuple[Array, Array]:
    check_counts(n_rows=n_rows, n_features=n_features)
    n, a = int(n_features), 2.0 / math.sqrt(n_features)

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        return place(draws.normal(n), a, draws)

    return make_table(block, n, n_rows, random_state, **where)


def _coin(draws: BlockDraws, column: int) -> tuple[Array, Array]:
    """Draw zeros and ones (int64, shape (n_rows,)), and return 1.0 for 0, -1.0 for 1 (float32)."""
    head = draws.bits(first=column, stream=LABELS)[0, :] >> 31
    return head, draws.xp.astype(1 - head * 2, draws.xp.float32)


def _wave(draws: BlockDraws) -> tuple[Array, Array]:
    """Return the mixtures of waves without noise, shape (21, n_rows), and the classes."""
    xp = draws.xp
    u = draws.uniform(stream=LABELS)
    y = draws.choice(3, 1, stream=LABELS)
    m = xp.arange(1, N_WAVE + 1, dtype=xp.float32, device=draws.device)[:, None]
    at_7, at_11, at_15 = (xp.clip(6.0 - xp.abs(m - peak), 0.0, 6.0) for peak in (7.0, 11.0, 15.0))
    first = xp.where(y == 2, at_15, at_11)
    second = xp.where(y == 0, at_15, at_7)
    return u * first + (1.0 - u) * second, y
