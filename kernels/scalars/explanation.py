"""The expected value of a tree where each feature of a row is known with probability t, and its
derivatives (see ``kernels.explanation.contributions``)."""

from .primitives import formula, mul


@formula
def known_share(t, z):
    """Return the probability that a feature is known, among what came along a path that the row
    follows. Known rows pass all splits by the feature, unknown ones pass with probability z
    (Bayes); z is 1 before the first of these splits."""
    return t / (mul(z, 1.0 - t) + t)


@formula
def known_slope(t, z):
    """Return the derivative of ``known_share`` by t."""
    passing = mul(z, 1.0 - t) + t
    return z / mul(passing, passing)


@formula
def step_to_known(on_left, on_path, share):
    """Return by how much the share that goes left changes where the value is known: 1 - share or
    -share; 0 where the row has left the path at an earlier split by the feature. The first two
    arguments are 0.0 or 1.0, and ``on_left`` is 0.0 where ``on_path`` is."""
    return on_left - mul(on_path, share)


@formula
def left_share(share, step, known):
    """Return the share that goes left where the value is known with a probability."""
    return share + mul(step, known)


@formula
def mixed(left, right, share):
    """Return the expected value of a node from those of its children."""
    return right + mul(share, left - right)


@formula
def slope(flow, known, left, right):
    """Return the derivative of the expected value by t through the share of one node that goes
    left, up to the step. ``flow`` is what arrives at the node, ``known`` the derivative of the
    probability that its feature is known."""
    return mul(mul(flow, known), left - right)


@formula
def flow_slope(flow, share, weight, known, step):
    """Return the derivative of what goes left by t of the node's own feature. ``flow`` is the
    derivative of what arrives, ``weight``."""
    return mul(flow, share) + mul(mul(weight, known), step)
