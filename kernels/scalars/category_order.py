"""What categories are ordered by."""

from .primitives import formula


@formula
def category_key(g, h, smoothing):
    """g / (h + smoothing): the mean gradient of a category's rows, the closer to zero the
    lighter they are. For the second-order model some cut of the categories in this order is the
    best of all partitions in two (Fisher 1958; with smoothing, as LightGBM does it)."""
    return g / (h + smoothing)
