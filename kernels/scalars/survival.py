"""Formulas of accelerated failure time: the logarithm of a time is known to be within bounds.

``lower`` and ``upper`` are logarithms of the bounds, equal for an observed time, ``-UNBOUNDED`` and
``UNBOUNDED`` where there are none. The logarithm of the time is f + scale · Z, with Z of one of
three distributions; ``inverse`` is 1 / scale. The value of a row is the negative logarithm of the
probability of its interval, or of the density of an observed logarithm.

The hessians never make a Newton step too long: where the curvature may grow faster than the
exponential of a step, they are at least half of the largest curvature there is.
"""

from __future__ import annotations

from .elementary import exp, log, sigmoid, softplus
from .primitives import formula, mul, select
from .rounding import larger

UNBOUNDED = 1e37
NARROW = 1e-5
"""Intervals narrower than this have the density of their middle."""
SMALLEST = 1e-300
LARGEST_LOG = 60.0
"""Bound of logarithms whose exponential is a term of a gradient."""
HALF_LOG_TWO_PI = 0.9189385332046727
SQRT_TWO_PI = 2.5066282746310002
LEAST_OF_NORMAL = 0.5
"""Half of the largest curvature of a normal distribution."""
LEAST_OF_EXTREME, FROM = 0.21, 3.0
"""Half of the largest curvature of -ln(1 - exp(-d)) in ln d, and the d from which it applies."""

(
    M0, M1, M2, M3, M4, M5, M6, M7, M8, M9, M10, M11, M12, M13, M14, M15, M16, M17, M18, M19, M20,
    M21, M22,
) = (
    1.4613989480718073, -0.8307438080674803, 0.6303528701202759, -0.42157844540462736,
    0.24440825835572, -0.11910648463987258, 0.04564289028606427, -0.011144488493424925,
    -0.0005613929578258314, 0.0022779005481810863, -0.0012739909691054892,
    0.00036155498180341286, -8.080193052506073e-06, -3.856718372488002e-05,
    1.344803346717644e-05, 8.96894040495279e-07, -1.92906398394792e-06,
    2.9020516767639837e-07, 2.0044791452673062e-07, -6.03720593386334e-08,
    -1.7143326292622406e-08, 5.558746458201677e-09, 9.85295458375357e-10,
)  # fmt: skip


@formula
def mills(x):
    """Return the probability of a standard normal number above x >= 0, divided by its density at x;
    within two units in the last place.

    (x + 3) times this is a polynomial in (x - 6) / (x + 6), interpolated at 23 Chebyshev nodes in
    60 digits, after Shepherd and Laframboise (1981, "Chebyshev approximation of
    (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞").
    """
    t = (x - 6.0) / (x + 6.0)
    p = mul(t, M22) + M21
    p = mul(t, p) + M20
    p = mul(t, p) + M19
    p = mul(t, p) + M18
    p = mul(t, p) + M17
    p = mul(t, p) + M16
    p = mul(t, p) + M15
    p = mul(t, p) + M14
    p = mul(t, p) + M13
    p = mul(t, p) + M12
    p = mul(t, p) + M11
    p = mul(t, p) + M10
    p = mul(t, p) + M9
    p = mul(t, p) + M8
    p = mul(t, p) + M7
    p = mul(t, p) + M6
    p = mul(t, p) + M5
    p = mul(t, p) + M4
    p = mul(t, p) + M3
    p = mul(t, p) + M2
    p = mul(t, p) + M1
    p = mul(t, p) + M0
    return p / (x + 3.0)


@formula
def normal_interval(low, high):
    """Return the interval [low, high], mirrored so that its nearer end is positive unless 0 is
    inside.

    Returns the ends a and b, the densities at them, and the probability, all three divided by the
    density at a or, where a < 0, at 0; a right-censored b has density 0.
    """
    flip = low + high < 0.0
    a = select(flip, -high, low)
    b = select(flip, -low, high)
    inside = a < 0.0
    near = select(inside, 0.0, a)
    end_b = exp(mul(0.5, mul(near - b, near + b)))
    end_a = select(inside, exp(mul(-0.5, mul(a, a))), 1.0)
    tail_a = mul(end_a, mills(select(inside, -a, a)))
    tail_b = mul(end_b, mills(larger(b, 0.0)))
    whole = select(inside, SQRT_TWO_PI - tail_a - tail_b, tail_a - tail_b)
    return a, b, end_a, end_b, larger(whole, SMALLEST)


@formula
def normal_gradient(lower, upper, f, inverse):
    low = mul(lower - f, inverse)
    high = mul(upper - f, inverse)
    a, b, end_a, end_b, whole = normal_interval(low, high)
    slope = (end_b - end_a) / whole
    bend = mul(slope, slope) + (mul(b, end_b) - mul(a, end_a)) / whole
    bend = select(bend > 1.0, 1.0, larger(bend, LEAST_OF_NORMAL))
    slope = select(low + high < 0.0, -slope, slope)
    narrow = b - a < NARROW
    slope = select(narrow, mul(-0.5, low + high), slope)
    bend = select(narrow, 1.0, bend)
    return mul(inverse, slope), mul(mul(inverse, inverse), bend)


@formula
def normal_value(lower, upper, f, inverse):
    low = mul(lower - f, inverse)
    high = mul(upper - f, inverse)
    a, b, _, _, whole = normal_interval(low, high)
    near = select(a < 0.0, 0.0, a)
    inside = mul(0.5, mul(near, near)) + HALF_LOG_TWO_PI - log(whole)
    middle = mul(0.5, low + high)
    width = select(lower == upper, inverse, larger(high - low, SMALLEST))
    exact = mul(0.5, mul(middle, middle)) + HALF_LOG_TWO_PI - log(width)
    return select(b - a < NARROW, exact, inside)


@formula
def logistic_gradient(lower, upper, f, inverse):
    low = mul(lower - f, inverse)
    high = mul(upper - f, inverse)
    below = sigmoid(low)
    above = sigmoid(-high)
    bend = mul(below, sigmoid(-low)) + mul(above, sigmoid(high))
    return mul(inverse, above - below), mul(mul(inverse, inverse), bend)


@formula
def logistic_value(lower, upper, f, inverse):
    low = mul(lower - f, inverse)
    high = mul(upper - f, inverse)
    width = high - low
    share = select(width < NARROW, width, 1.0 - exp(-width))
    share = select(lower == upper, inverse, larger(share, SMALLEST))
    return softplus(low) + softplus(-high) - log(share)


@formula
def extreme_rates(lower, upper, f, inverse):
    """Return the cumulative hazard at the lower bound, and what is added until the upper one."""
    low = mul(lower - f, inverse)
    high = mul(upper - f, inverse)
    first = exp(select(low > LARGEST_LOG, LARGEST_LOG, low))
    first = select(lower <= -UNBOUNDED, 0.0, first)
    last = exp(select(high > LARGEST_LOG, LARGEST_LOG, high))
    return first, larger(last - first, 0.0)


@formula
def extreme_gradient(lower, upper, f, inverse):
    """The distribution of the smallest of many numbers (Gumbel), so that times are Weibull's.

    With a the cumulative hazard at the lower bound, d the rest until the upper one, and
    r = d / (eᵈ - 1), the slope is r - a and the curvature a + r (d + r - 1).
    """
    first, more = extreme_rates(lower, upper, f, inverse)
    small = more < NARROW
    share = more / (exp(select(small, 1.0, more)) - 1.0)
    share = select(small, 1.0 - mul(0.5, more), share)
    bend = mul(share, more + share - 1.0)
    bend = select(more > FROM, larger(bend, LEAST_OF_EXTREME), larger(bend, 0.0))
    is_open = upper >= UNBOUNDED
    share = select(is_open, 0.0, share)
    bend = select(is_open, 0.0, bend)
    return mul(inverse, share - first), mul(mul(inverse, inverse), first + bend)


@formula
def extreme_value(lower, upper, f, inverse):
    first, more = extreme_rates(lower, upper, f, inverse)
    share = select(more < NARROW, more, 1.0 - exp(-more))
    inside = first - log(larger(share, SMALLEST))
    exact = first - mul(lower - f, inverse) - log(inverse)
    inside = select(upper >= UNBOUNDED, first, inside)
    return select(lower == upper, exact, inside)
