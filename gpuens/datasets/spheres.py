"""Classes by the distance from the centre."""

from __future__ import annotations

from typing import Any

from scipy.special import chdtri

from ..estimators.docstrings import documented
from .draws import Draws
from .tables import ARGUMENTS, check_counts, make_table

MEDIAN_OF_CHI_SQUARED_10 = 9.34
"""As it is printed in the book."""


@documented(ARGUMENTS)
def make_hastie_10_2(
    n_rows: int,
    random_state: Any = 0,
    *,
    rows: tuple[int, int] | None = None,
    xp: Any = None,
    device: Any = None,
) -> tuple[Any, Any]:
    """Make the ten-dimensional χ² example: is a normal point outside of a sphere?

    y is 1 where the sum of the squares of ten standard normal features exceeds 9.34, the median
    of a χ² variable with ten degrees of freedom, else -1. The labels have no noise: the error
    of the Bayes rule is 0.

    Parameters
    ----------
    n_rows : int
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, 10)
    y : int64, shape (n_rows,)
        -1 or 1, as in the book and in scikit-learn.

    References
    ----------
    Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning", 2nd edition, 2009,
    equation 10.2.

    Examples
    --------
    >>> from gpuens.datasets import make_hastie_10_2
    >>> X, y = make_hastie_10_2(1000)
    >>> bool((y == 2 * ((X.astype(float) ** 2).sum(axis=1) > 9.34) - 1).all())
    True
    """

    def block(draws: Draws) -> tuple[Any, Any]:
        X = draws.normal(10)
        return X, _shell(X, [MEDIAN_OF_CHI_SQUARED_10], draws) * 2 - 1

    return make_table(block, 10, n_rows, random_state, rows=rows, xp=xp, device=device)


@documented(ARGUMENTS)
def make_nested_spheres(
    n_rows: int,
    n_features: int = 10,
    n_classes: int = 3,
    random_state: Any = 0,
    *,
    rows: tuple[int, int] | None = None,
    xp: Any = None,
    device: Any = None,
) -> tuple[Any, Any]:
    """Make classes within spheres around each other: the shell that a normal point lies in.

    The spheres have such radii that all classes are equally likely (quantiles of the χ²
    distribution). The labels have no noise: the error of the Bayes rule is 0.

    Parameters
    ----------
    n_rows : int
    n_features : int, default=10
    n_classes : int, default=3
        At least 2.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, n_features)
    y : int64, shape (n_rows,)
        0 (innermost) … n_classes - 1.

    References
    ----------
    Friedman, Hastie and Tibshirani, "Additive logistic regression: a statistical view of
    boosting", The Annals of Statistics 28, 2000, section 6.

    Examples
    --------
    >>> from gpuens.datasets import make_nested_spheres
    >>> X, y = make_nested_spheres(1000)
    >>> radius = (X**2).sum(axis=1)
    >>> bool(radius[y == 0].max() < radius[y == 1].min())
    True
    """
    check_counts(n_features=n_features)
    check_counts(2, n_classes=n_classes)
    shares = [k / int(n_classes) for k in range(1, int(n_classes))]
    limits = [round(float(chdtri(n_features, 1.0 - share)), 6) for share in shares]

    def block(draws: Draws) -> tuple[Any, Any]:
        X = draws.normal(int(n_features))
        return X, _shell(X, limits, draws)

    return make_table(block, int(n_features), n_rows, random_state, rows=rows, xp=xp, device=device)


def _shell(X: Any, limits: list[float], draws: Draws) -> Any:
    """How many of the squared radii a point is beyond (int64). Squares of float32 are exact in
    float64; they are added one after the other, because libraries sum in different orders."""
    xp = draws.xp
    X = xp.astype(X, xp.float64)
    squares = X * X
    total = squares[0, :]
    for k in range(1, squares.shape[0]):
        total = total + squares[k, :]
    shell = xp.astype(total > limits[0], xp.int64)
    for limit in limits[1:]:
        shell = shell + xp.astype(total > limit, xp.int64)
    return shell
