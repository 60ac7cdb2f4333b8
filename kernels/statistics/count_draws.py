"""Rows drawn with replacement, counted."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation


def count_draws(counts: Any, n_draws: int, key: int) -> None:
    """Add to every row's entry how often the row is drawn, in place.

    Draw i = 0, 1, ... hits row ``draw(key, i) * n >> 32``.

    Parameters
    ----------
    counts : int32, shape (n,)
        n below 2**31.
    n_draws : int
        Below 2**32.
    key : int
        Random key below 2**32.
    """
    implementation(__name__, counts).count_draws(counts, n_draws, key)
