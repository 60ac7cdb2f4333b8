"""The arguments of ``fit`` that hold further rows to evaluate."""

from __future__ import annotations

from typing import Any

EvalSet = tuple[Any, Any, Any]
"""X, y and weights."""


def eval_sets(eval_set: Any, weights: Any) -> list[EvalSet]:
    """X, y and weight of every evaluation set.

    Parameters
    ----------
    eval_set : (X, y), list of these, or None
    weights : array for a single pair, list of arrays and None for a list, or None

    Raises
    ------
    ValueError, TypeError
        Names the argument, what it got and what it wants.
    """
    if eval_set is None:
        eval_set = []
    elif isinstance(eval_set, tuple):
        eval_set, weights = [eval_set], None if weights is None else [weights]
    if not isinstance(eval_set, list):
        raise TypeError(
            f"eval_set must be a pair (X, y) or a list of these, got {type(eval_set).__name__}."
        )
    for i, pair in enumerate(eval_set):
        if not isinstance(pair, tuple) or len(pair) != 2:
            size = f" of length {len(pair)}" if isinstance(pair, tuple) else ""
            raise ValueError(
                f"eval_set[{i}] must be a pair (X, y), got {type(pair).__name__}{size}."
            )
    if weights is None:
        weights = [None] * len(eval_set)
    if not isinstance(weights, (list, tuple)) or len(weights) != len(eval_set):
        size = f" of length {len(weights)}" if hasattr(weights, "__len__") else ""
        raise ValueError(
            f"eval_sample_weight must be a list with an array (or None) for each of the "
            f"{len(eval_set)} evaluation sets, got {type(weights).__name__}{size}."
        )
    return [(X, y, weight) for (X, y), weight in zip(eval_set, weights, strict=True)]
