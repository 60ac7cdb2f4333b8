"""The shares of a weight that define a quantile.

The quantile is the mean of two values: the least up to which the weights sum to at least q of
the whole, and the least up to which they sum to more ("averaged inverted distribution function",
Hyndman and Fan 1996, definition 2). Both minimise the quantile loss; weights are whole numbers,
so that there is no doubt which values these are.
"""

from .primitives import floor, formula, mul, select


@formula
def lower_share(quantile, total):
    """⌈q total⌉, from 1 to total (a whole float64)."""
    share = -floor(-mul(quantile, total))
    return select(share < 1.0, 1.0, select(share > total, total, share))


@formula
def upper_share(quantile, total):
    """⌊q total⌋ + 1, at most total."""
    share = floor(mul(quantile, total)) + 1.0
    return select(share > total, total, share)
