"""Reference twin of ``kernels.survival.intervals``."""

from __future__ import annotations

from array_api_compat import array_namespace

from ...runtime.arrays import Array
from ...scalars import survival
from ...scalars.primitives import vectorise
from ..intervals import EXTREME, LOGISTIC, NORMAL

GRADIENTS = {
    NORMAL: vectorise(survival.normal_gradient),
    LOGISTIC: vectorise(survival.logistic_gradient),
    EXTREME: vectorise(survival.extreme_gradient),
}
VALUES = {
    NORMAL: vectorise(survival.normal_value),
    LOGISTIC: vectorise(survival.logistic_value),
    EXTREME: vectorise(survival.extreme_value),
}


def interval_gradients(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    """The formula on whole arrays."""
    xp = array_namespace(score)
    inverses = xp.ones_like(score) * inverse
    return xp.stack(list(GRADIENTS[distribution](lower, upper, score, inverses)))


def interval_values(
    lower: Array, upper: Array, score: Array, inverse: float, distribution: int
) -> Array:
    """The formula on whole arrays."""
    xp = array_namespace(score)
    return VALUES[distribution](lower, upper, score, xp.ones_like(score) * inverse)
