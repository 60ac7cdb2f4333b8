"""Reference twin of ``kernels.traverse_codes``."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from ..dtypes import MISSING, Codes
from . import beside
from .traverse import descend


def traverse_codes(
    codes: Codes, feature: Any, bin_: Any, missing_left: Any, left: Any, right: Any, leaf: Any
) -> None:
    """Every row takes part; the entries that were set are kept at the end."""
    xp = array_namespace(leaf)
    feature, bin_, left, right = (beside(a, leaf) for a in (feature, bin_, left, right))
    missing_left = beside(missing_left, leaf) != 0

    def goes_left(code: Any, node: Any) -> Any:
        below = xp.astype(code, xp.int32) <= xp.take(bin_, node)
        return xp.where(code == MISSING, xp.take(missing_left, node), below)

    reached = descend(codes.columns.T, feature, left, right, goes_left)
    leaf[...] = xp.where(leaf < 0, reached, leaf)
