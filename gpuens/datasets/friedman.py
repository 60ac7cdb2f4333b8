"""Friedman's regression problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .draws import LABELS, BlockDraws, arctan, sin_pi, sqrt_float64
from .tables import ARGUMENTS, check_counts, check_not_negative, make_table

LOW = (0.0, 40 * math.pi, 0.0, 1.0)
WIDTH = (100.0, 520 * math.pi, 1.0, 10.0)
"""Ranges of the four features of the second and third problem."""

OF_A_CIRCUIT = f"""n_rows : int
        Rows of the table.
    noise : float, default=0.0
        Standard deviation of the normal noise. <third> is a third of that of the signal, as in the
        papers.
    {ARGUMENTS}

    Returns
    -------
    X : float32, shape (n_rows, 4)
    y : float64, shape (n_rows,)

    References
    ----------
    Friedman, "Multivariate adaptive regression splines", The Annals of Statistics 19, 1991.
    Breiman, "Bagging predictors", Machine Learning 24, 1996."""


@documented(ARGUMENTS)
def make_friedman1(
    n_rows: int, n_features: int = 10, noise: float = 0.0, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make Friedman's first problem: a sum of terms in five features; the others have no effect.

    ``y = 10 sin(π x₁ x₂) + 20 (x₃ - ½)² + 10 x₄ + 5 x₅`` and noise; the features are uniform in
    (0, 1).

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_features : int, default=10
        At least 5.
    noise : float, default=0.0
        Standard deviation of the normal noise; 1 in the papers.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, n_features)
    y : float64, shape (n_rows,)

    References
    ----------
    Friedman, "Multivariate adaptive regression splines", The Annals of Statistics 19, 1991.
    Breiman, "Bagging predictors", Machine Learning 24, 1996.

    Examples
    --------
    >>> from gpuens.datasets import make_friedman1
    >>> X, y = make_friedman1(1000, noise=1.0)
    >>> X.shape, y.shape, y.dtype.name
    ((1000, 10), (1000,), 'float64')
    """
    check_counts(5, n_features=n_features)
    check_not_negative(noise=noise)

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = draws.uniform(int(n_features))
        x1, x2, x3, x4, x5 = _in_float64(X, 5, draws)
        centred = x3 - 0.5
        y = sin_pi(x1 * x2, draws.xp) * 10.0 + centred * centred * 20.0
        return X, y + x4 * 10.0 + x5 * 5.0 + _noise(draws, noise)

    return make_table(
        block,
        int(n_features),
        n_rows,
        random_state,
        rows=rows,
        xp=xp,
        device=device,
        target="float64",
    )


@documented(OF_A_CIRCUIT, third="125")
def make_friedman2(
    n_rows: int, noise: float = 0.0, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make Friedman's second problem: the impedance of a circuit.

    ``y = √(x₁² + (x₂ x₃ - 1 / (x₂ x₄))²)`` and noise, with x₁ uniform in (0, 100), x₂ in
    (40 π, 560 π), x₃ in (0, 1) and x₄ in (1, 11).

    Parameters
    ----------
    <shared>

    Examples
    --------
    >>> from gpuens.datasets import make_friedman2
    >>> X, y = make_friedman2(1000)
    >>> X.shape, bool(y.min() > 0)
    ((1000, 4), True)
    """

    def impedance(x1: Array, reactance: Array, xp: ModuleType) -> Array:
        return sqrt_float64(x1 * x1 + reactance * reactance, xp)

    return _circuit(impedance, noise, n_rows, random_state, rows=rows, xp=xp, device=device)


@documented(OF_A_CIRCUIT, third="0.1")
def make_friedman3(
    n_rows: int, noise: float = 0.0, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make Friedman's third problem: the phase of a circuit.

    ``y = arctan((x₂ x₃ - 1 / (x₂ x₄)) / x₁)`` and noise, with the features of
    ``make_friedman2``.

    Parameters
    ----------
    <shared>

    Examples
    --------
    >>> from gpuens.datasets import make_friedman3
    >>> X, y = make_friedman3(1000)
    >>> X.shape, bool(abs(y).max() < 1.5708)
    ((1000, 4), True)
    """

    def phase(x1: Array, reactance: Array, xp: ModuleType) -> Array:
        return arctan(reactance / x1, xp)

    return _circuit(phase, noise, n_rows, random_state, rows=rows, xp=xp, device=device)


def _circuit(
    response: Callable[[Any, Any, Any], Any],
    noise: float,
    n_rows: int,
    random_state: Any,
    **where: Any,
) -> tuple[Array, Array]:
    check_not_negative(noise=noise)

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        xp = draws.xp
        low, width = (
            xp.asarray(numbers, dtype=xp.float64, device=draws.device)[:, None]
            for numbers in (LOW, WIDTH)
        )
        X = xp.astype(xp.astype(draws.uniform(4), xp.float64) * width + low, xp.float32)
        x1, x2, x3, x4 = _in_float64(X, 4, draws)
        y = response(x1, x2 * x3 - 1.0 / (x2 * x4), xp)
        return X, y + _noise(draws, noise)

    return make_table(block, 4, n_rows, random_state, target="float64", **where)


def _in_float64(X: Array, n: int, draws: BlockDraws) -> list[Array]:
    return [draws.xp.astype(X[k, :], draws.xp.float64) for k in range(n)]


def _noise(draws: BlockDraws, scale: float) -> Array:
    xp = draws.xp
    return xp.astype(draws.normal(stream=LABELS)[0, :], xp.float64) * float(scale)
