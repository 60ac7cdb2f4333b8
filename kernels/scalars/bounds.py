"""Values and scores of nodes between two bounds, for monotone constraints."""

from .gain import newton_score, newton_value
from .primitives import formula, mul, select


@formula
def within(value, low, high):
    """The number from ``low`` to ``high`` that is closest to ``value``."""
    value = select(value < low, low, value)
    return select(value > high, high, value)


@formula
def bounded_value(g, h, l2, low, high):
    """The value between the bounds that minimises the second-order model."""
    return within(newton_value(g, h, l2), low, high)


@formula
def bounded_score(g, h, l2, low, high):
    """Twice the drop of the second-order model ``g v + (h + l2) v² / 2`` when the node takes
    its best value v between the bounds: ``newton_score`` where they are not in the way,
    otherwise less, and negative where the closest bound is worse than a value of zero."""
    value = bounded_value(g, h, l2, low, high)
    at_bound = -(mul(2.0 * g, value) + mul(mul(h + l2, value), value))
    return select((low < value) & (value < high), newton_score(g, h, l2), at_bound)


@formula
def keeps_order(left, right, direction):
    """Whether the children's values rise (direction 1) or fall (-1) from left to right; 0: any."""
    return direction * left <= direction * right


@formula
def between_values(left, right):
    """Half-way between the children's values: what bounds their offspring (the "basic" method
    of LightGBM, and scikit-learn's)."""
    return mul(left, 0.5) + mul(right, 0.5)
