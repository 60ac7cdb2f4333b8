"""Reference twin of ``kernels.prediction.probabilities``."""

from __future__ import annotations

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...scalars import elementary
from ...scalars.primitives import vectorise

exp = vectorise(elementary.exp)
log = vectorise(elementary.log)
sigmoid = vectorise(elementary.sigmoid)
is_far = vectorise(elementary.is_far)
within = vectorise(elementary.within)


def log_sum_exp(raw: Array) -> Array:
    """The classes one after another, each for all rows."""
    xp = array_namespace(raw)
    largest = xp.max(raw, axis=-2)
    total = xp.zeros_like(largest)
    for k in range(raw.shape[-2]):
        total = total + exp(raw[..., k, :] - largest)
    return largest + log(total)


def probabilities(raw: Array) -> Array:
    """Whole arrays at once."""
    xp = array_namespace(raw)
    if raw.shape[0] == 1:
        p = sigmoid(raw[0, :])
        return xp.stack([1.0 - p, p], axis=1)
    raw = within(raw)
    shift = log_sum_exp(raw)
    below = raw - xp.max(raw, axis=0)
    shares = xp.where(is_far(shift), exp(below - log_sum_exp(below)), exp(raw - shift))
    return xp.permute_dims(shares, (1, 0))
