"""The additive scores that splits are compared by, and the values of nodes.

The score of a node is minus its loss, up to a term that is the same for all splits of its parent;
so the gain of a split is ``score(left) + score(right) - score(parent)`` and the largest score wins.
Scores are of the loss's second-order model, with bounds on the values for monotone constraints, or
weighted impurities of classification and regression trees. Sums over classes are added up one class
after another, in their order.
"""

from __future__ import annotations

from .elementary import log
from .primitives import formula, mul, select


@formula
def newton_score(g, h, l2):
    """g² / (h + l2): twice the drop of the loss's second-order model when the node takes its
    best value (Chen and Guestrin 2016, eq. 7). A split's gain is the sum over the children
    minus the parent's."""
    return g * g / (h + l2)


@formula
def newton_value(g, h, l2):
    """-g / (h + l2): the value that minimises the second-order model (eq. 5)."""
    return -g / (h + l2)


@formula
def category_key(g, h, smoothing):
    """g / (h + smoothing): the mean gradient of a category's rows, the closer to zero the
    lighter they are. For the second-order model some cut of the categories in this order is the
    best of all partitions in two (Fisher 1958; with smoothing, as LightGBM does it)."""
    return g / (h + smoothing)


@formula
def category_least_h(smoothing, row_h):
    """Return the hessian below which a category goes with the missing values: that of ``smoothing``
    rows, less half a row because hessians are rounded, and at least 1. ``row_h`` is the mean
    hessian of the node's rows."""
    least = (smoothing - 0.5) * row_h
    return select(least > 1.0, least, 1.0)


@formula
def within(value, low, high):
    """Return the number from ``low`` to ``high`` that is closest to ``value``."""
    value = select(value < low, low, value)
    return select(value > high, high, value)


@formula
def limited_value(g, h, l2, largest):
    """Return the value that minimises the second-order model, at most ``largest`` away from
    zero."""
    return within(newton_value(g, h, l2), -largest, largest)


@formula
def bounded_value(g, h, l2, low, high):
    """Return the value between the bounds that minimises the second-order model."""
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
    """Return whether the children's values rise (direction 1) or fall (-1) from left to right.

    Direction 0 allows any values."""
    return direction * left <= direction * right


@formula
def between_values(left, right):
    """Half-way between the children's values: what bounds their offspring (the "basic" method
    of LightGBM, and scikit-learn's)."""
    return mul(left, 0.5) + mul(right, 0.5)


@formula
def square(s):
    """Term of one class, or of one output's sum: Gini impurity and squared error.

    With w the node's weight, ``(sum over k of s_k**2) / w`` is the Gini score and
    ``s**2 / w`` that of the squared error (Breiman et al. 1984, 4.3 and 8.4)."""
    return mul(s, s)


@formula
def x_log_x(s):
    """s ln s, and 0 for s = 0: term of one class in the entropy score
    ``(sum over k of s_k ln s_k) - w ln w``."""
    return mul(s, log(select(s > 0.0, s, 1.0)))


@formula
def poisson_score(s, w):
    """s ln(s / w) of a sum s > 0: the score of the half Poisson deviance."""
    return mul(s, log(s / w))
