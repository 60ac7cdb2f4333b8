"""The search of minima from slopes, for line search and best constants."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.numerics.minimise import minimise


def counted(slope):
    """The slope function, and the points that it was asked about."""
    points = []

    def wrapped(x):
        points.append(x)
        return slope(x)

    return wrapped, points


@given(st.floats(1e-3, 1e6) | st.floats(-1e6, -1e-3), st.floats(1e-3, 1e3), st.booleans())
def test_parabolas(centre, curvature, knows_curvature):
    def slope(x):
        return curvature * (x - centre), curvature if knows_curvature else 0.0

    found, points = counted(slope)
    assert minimise(found, 1e9) == pytest.approx(centre, rel=1e-8, abs=1e-12)
    assert len(points) < (6 if knows_curvature else 120)


@given(st.floats(-30, 30))
def test_exponentials(centre):
    found, points = counted(lambda x: (math.exp(x - centre) - 1.0, math.exp(x - centre)))
    assert minimise(found, 100.0) == pytest.approx(centre, rel=1e-8, abs=1e-8)
    assert len(points) < 80


@given(st.floats(0.001, 100), st.booleans())
def test_corners(corner, mirrored):
    """Of an absolute value: the slope jumps, and its derivative says nothing."""
    side = -1.0 if mirrored else 1.0
    assert minimise(lambda x: (math.copysign(1.0, x - side * corner), 1.0), 1e3) == pytest.approx(
        side * corner, rel=1e-8
    )


def test_limits():
    assert minimise(lambda x: (-1.0, 0.0), 16.0) == 16.0
    assert minimise(lambda x: (1.0, 5.0), 16.0) == -16.0
    assert minimise(lambda x: (-math.exp(-x), math.exp(-x)), 50.0) == 50.0
    assert minimise(lambda x: (-1.0, 0.0), 0.25) == 0.25


def test_nothing_to_do():
    assert minimise(lambda x: (0.0, 1.0), 10.0) == 0.0
    assert minimise(lambda x: (math.nan, 1.0), 10.0) == 0.0


def test_slopes_that_overflow_are_beyond_the_minimum():
    def slope(x):
        return (math.inf if x > 1.5 else x - 1.25), 0.0

    assert minimise(slope, 100.0) == pytest.approx(1.25)
    assert minimise(lambda x: (math.nan if x > 2.5 else x - 2.0, 1e-3), 1e6) == pytest.approx(2.0)
