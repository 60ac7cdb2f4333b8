"""How good a node is: the additive score that splits are compared by."""

from .primitives import formula


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
