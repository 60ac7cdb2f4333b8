"""Classes with curved boundaries: moons and spirals in the plane, nested spheres."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from scipy.special import chdtri

from ..estimators.docstrings import documented
from ..kernels.runtime.arrays import Array
from .draws import LABELS, BlockDraws, cos_pi, sin_pi, sqrt_float64
from .tables import ARGUMENTS, check_counts, check_not_negative, make_table


@documented(ARGUMENTS)
def make_moons(
    n_rows: int, noise: float = 0.0, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make two interleaved half circles, as ``sklearn.datasets.make_moons``.

    Points are uniform on the upper half of the unit circle (class 0) or on the lower half of
    that around (1, ½) (class 1).

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    noise : float, default=0.0
        Standard deviation of the normal noise on both features.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, 2)
    y : int64, shape (n_rows,)
        0 or 1, equally likely.

    Examples
    --------
    >>> from gpuens.datasets import make_moons
    >>> X, y = make_moons(200)
    >>> bool((abs((X[y == 0] ** 2).sum(axis=1) - 1) < 1e-6).all())
    True
    """

    def curve(lower: Array, sign: Array, u: Array, xp: ModuleType) -> tuple[Array, Array]:
        return lower + sign * cos_pi(u, xp), lower * 0.5 + sign * sin_pi(u, xp)

    return _plane(curve, noise, n_rows, random_state, rows=rows, xp=xp, device=device)


@documented(ARGUMENTS)
def make_spirals(
    n_rows: int, noise: float = 0.0, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make two intertwined spirals of three turns each.

    The radius is the square root of a uniform number, and the angle grows with it; class 1 is
    class 0 turned by half a circle. After the two-spirals problem of Lang and Witbrock.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    noise : float, default=0.0
        Standard deviation of the normal noise on both features; the arms are 1/6 apart.
    <shared>

    Returns
    -------
    X : float32, shape (n_rows, 2)
    y : int64, shape (n_rows,)
        0 or 1, equally likely.

    References
    ----------
    Lang and Witbrock, "Learning to tell two spirals apart", Proceedings of the 1988
    Connectionist Models Summer School.

    Examples
    --------
    >>> from gpuens.datasets import make_spirals
    >>> X, y = make_spirals(200)
    >>> X.shape, bool(((X**2).sum(axis=1) <= 1).all())
    ((200, 2), True)
    """

    def curve(lower: Array, sign: Array, u: Array, xp: ModuleType) -> tuple[Array, Array]:
        radius = sqrt_float64(u, xp)
        signed = sign * radius
        return signed * cos_pi(radius * 6.0, xp), signed * sin_pi(radius * 6.0, xp)

    return _plane(curve, noise, n_rows, random_state, rows=rows, xp=xp, device=device)


def _plane(
    curve: Any, noise: float, n_rows: int, random_state: Any, **where: Any
) -> tuple[Array, Array]:
    """Return points on a curve for each class: ``curve(0.0 or 1.0, 1.0 or -1.0, u, xp)`` in
    float64."""
    check_not_negative(noise=noise)

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        xp = draws.xp
        y = draws.bits(stream=LABELS)[0, :] >> 31
        lower = xp.astype(y, xp.float64)
        u = xp.astype(draws.uniform(first=1, stream=LABELS)[0, :], xp.float64)
        points = xp.stack(curve(lower, 1.0 - lower * 2.0, u, xp))
        shift = xp.astype(draws.normal(2), xp.float64) * float(noise)
        return xp.astype(points + shift, xp.float32), y

    return make_table(block, 2, n_rows, random_state, **where)


MEDIAN_OF_CHI_SQUARED_10 = 9.34
"""The value printed in the book."""


@documented(ARGUMENTS)
def make_hastie_10_2(
    n_rows: int, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make the ten-dimensional χ² example: is a normal point outside a sphere?

    y is 1 where the sum of the squares of ten standard normal features exceeds 9.34, the median
    of a χ² variable with ten degrees of freedom, else -1. The labels have no noise: the error
    of the Bayes rule is 0.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
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

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = draws.normal(10)
        return X, _shell(X, [MEDIAN_OF_CHI_SQUARED_10], draws) * 2 - 1

    return make_table(block, 10, n_rows, random_state, rows=rows, xp=xp, device=device)


@documented(ARGUMENTS)
def make_nested_spheres(
    n_rows: int, n_features: int = 10, n_classes: int = 3, random_state: Any = 0, *,
    rows: tuple[int, int] | None = None, xp: Any = None, device: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Make classes within concentric spheres: the shell that a normal point lies in.

    The spheres have such radii that all classes are equally likely (quantiles of the χ²
    distribution). The labels have no noise: the error of the Bayes rule is 0.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_features : int, default=10
        Columns of the table.
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

    def block(draws: BlockDraws) -> tuple[Array, Array]:
        X = draws.normal(int(n_features))
        return X, _shell(X, limits, draws)

    return make_table(block, int(n_features), n_rows, random_state, rows=rows, xp=xp, device=device)


def _shell(X: Array, limits: list[float], draws: BlockDraws) -> Array:
    """Count the squared radii that a point is beyond (int64). Squares of float32 are exact in
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
