"""Reference twin of ``kernels.prediction.probabilities``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from ...scalars.elementary import exp, sigmoid
from ...scalars.primitives import vectorise
from .log_sum_exp import log_sum_exp


def probabilities(raw: Any) -> Any:
    """Whole arrays at once."""
    xp = array_namespace(raw)
    if raw.shape[0] == 1:
        p = vectorise(sigmoid)(raw[0, :])
        return xp.stack([1.0 - p, p], axis=1)
    return xp.permute_dims(vectorise(exp)(raw - log_sum_exp(raw)), (1, 0))
