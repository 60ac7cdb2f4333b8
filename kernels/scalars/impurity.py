"""How pure a node is: the additive scores that splits of classification and regression trees are
compared by.

A node's score is minus its weighted impurity, up to a term that is the same for all splits of
its parent; so the gain of a split is ``score(left) + score(right) - score(parent)`` and the
largest score wins. Sums over classes are added up one class after another, in their order.
"""

from .elementary import log
from .primitives import formula, mul, select


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
