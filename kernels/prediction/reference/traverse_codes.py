"""Reference twin of ``kernels.prediction.traverse_codes``."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ...growth.reference.partition import members_of
from ...runtime.dtypes import MISSING, N_SLOTS, NO_SETS, Codes
from ...runtime.reference.arrays import beside
from .traverse import descend


def traverse_codes(
    codes: Codes,
    feature: Any,
    bin_: Any,
    missing_left: Any,
    left: Any,
    right: Any,
    leaf: Any,
    left_codes: Any = NO_SETS,
) -> None:
    """Every row takes part; the entries that were set are kept at the end."""
    xp = array_namespace(leaf)
    sets = np.zeros((len(bin_), N_SLOTS), np.int32)
    for node, words in enumerate(left_codes):
        sets[node] = members_of(words)
    in_left = xp.reshape(beside(sets, leaf), (-1,))
    feature, bin_, left, right = (beside(a, leaf) for a in (feature, bin_, left, right))
    missing_left = beside(missing_left, leaf) != 0

    def goes_left(code: Any, node: Any) -> Any:
        below = xp.astype(code, xp.int32) <= xp.take(bin_, node)
        by_bin = xp.where(code == MISSING, xp.take(missing_left, node), below)
        at = xp.astype(node, xp.int64) * N_SLOTS + xp.astype(code, xp.int64)
        return xp.where(xp.take(bin_, node) < 0, xp.take(in_left, at) != 0, by_bin)

    reached = descend(codes.columns.T, feature, left, right, goes_left)
    leaf[...] = xp.where(leaf < 0, reached, leaf)
