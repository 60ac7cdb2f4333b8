"""Two classes in the plane, to draw the regions of decision of a model."""

from __future__ import annotations

from typing import Any

from ..estimators.docstrings import documented
from .draws import LABELS, Draws, sqrt_float64
from .functions import cos_pi, sin_pi
from .tables import ARGUMENTS, check_not_negative, make_table


@documented(ARGUMENTS)
def make_moons(
    n_rows: int,
    noise: float = 0.0,
    random_state: Any = 0,
    *,
    rows: tuple[int, int] | None = None,
    xp: Any = None,
    device: Any = None,
) -> tuple[Any, Any]:
    """Make two half circles that reach into each other, as ``sklearn.datasets.make_moons``.

    Points are uniform on the upper half of the unit circle (class 0) or on the lower half of
    that around (1, ½) (class 1).

    Parameters
    ----------
    n_rows : int
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

    def curve(lower: Any, sign: Any, u: Any, xp: Any) -> tuple[Any, Any]:
        return lower + sign * cos_pi(u, xp), lower * 0.5 + sign * sin_pi(u, xp)

    return _plane(curve, noise, n_rows, random_state, rows=rows, xp=xp, device=device)


@documented(ARGUMENTS)
def make_spirals(
    n_rows: int,
    noise: float = 0.0,
    random_state: Any = 0,
    *,
    rows: tuple[int, int] | None = None,
    xp: Any = None,
    device: Any = None,
) -> tuple[Any, Any]:
    """Make two spirals around each other, three times around the centre.

    The radius is the square root of a uniform number, and the angle grows with it; class 1 is
    class 0 turned by half a circle. After the two-spirals problem of Lang and Witbrock.

    Parameters
    ----------
    n_rows : int
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

    def curve(lower: Any, sign: Any, u: Any, xp: Any) -> tuple[Any, Any]:
        radius = sqrt_float64(u, xp)
        signed = sign * radius
        return signed * cos_pi(radius * 6.0, xp), signed * sin_pi(radius * 6.0, xp)

    return _plane(curve, noise, n_rows, random_state, rows=rows, xp=xp, device=device)


def _plane(
    curve: Any, noise: float, n_rows: int, random_state: Any, **where: Any
) -> tuple[Any, Any]:
    """Points on a curve for each class: ``curve(0.0 or 1.0, 1.0 or -1.0, u, xp)`` in float64."""
    check_not_negative(noise=noise)

    def block(draws: Draws) -> tuple[Any, Any]:
        xp = draws.xp
        y = draws.bits(stream=LABELS)[0, :] >> 31
        lower = xp.astype(y, xp.float64)
        u = xp.astype(draws.uniform(first=1, stream=LABELS)[0, :], xp.float64)
        points = xp.stack(curve(lower, 1.0 - lower * 2.0, u, xp))
        shift = xp.astype(draws.normal(2), xp.float64) * float(noise)
        return xp.astype(points + shift, xp.float32), y

    return make_table(block, 2, n_rows, random_state, **where)
