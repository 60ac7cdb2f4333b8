"""Update of the raw predictions by a tree."""

from __future__ import annotations

from typing import Any

from .dispatch import implementation


def add_leaf_values(raw: Any, leaf: Any, values: Any) -> None:
    """``raw[i] += values[leaf[i]]``, in place.

    Parameters
    ----------
    raw : float64, shape (n,), contiguous
    leaf : int32, shape (n,)
        All entries in [0, n_nodes).
    values : float64, shape (n_nodes,), NumPy
    """
    implementation("add_leaf_values", raw).add_leaf_values(raw, leaf, values)
