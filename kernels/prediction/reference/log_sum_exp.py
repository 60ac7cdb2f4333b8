"""Reference twin of ``kernels.prediction.log_sum_exp``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from ...scalars import elementary
from ...scalars.primitives import vectorise

exp = vectorise(elementary.exp)
log = vectorise(elementary.log)


def log_sum_exp(raw: Any) -> Any:
    """The classes one after another, each for all rows."""
    xp = array_namespace(raw)
    largest = xp.max(raw, axis=0)
    total = xp.zeros_like(largest)
    for k in range(raw.shape[0]):
        total = total + exp(raw[k, :] - largest)
    return largest + log(total)
