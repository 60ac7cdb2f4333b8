"""The arguments of ``fit`` that hold further rows to evaluate."""

from __future__ import annotations

from typing import Any, NamedTuple


class EvalSet(NamedTuple):
    """Further rows, as the user passed them.

    ``data`` is what ``evals_result_`` calls them, ``names`` what error messages call the arrays.
    """

    X: Any
    y: Any
    weight: Any
    data: str
    names: tuple[str, str, str]

    def arrays(self) -> dict[str, Any]:
        """The arrays by name."""
        return dict(zip(self.names, (self.X, self.y, self.weight), strict=True))


def eval_sets(eval_set: Any, weights: Any) -> list[EvalSet]:
    """Read the arguments ``eval_set`` and ``eval_sample_weight``.

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
    return [
        EvalSet(X, y, weight, f"validation_{i}", _names(f"eval_set[{i}] "))
        for i, ((X, y), weight) in enumerate(zip(eval_set, weights, strict=True))
    ]


def _names(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}X", f"{prefix}y", f"{prefix}sample_weight"


def validation_set(
    X_val: Any, y_val: Any, weight: Any, eval_set: Any, early_stopping: Any
) -> list[EvalSet]:
    """Read the arguments ``X_val``, ``y_val`` and ``sample_weight_val``.

    Parameters
    ----------
    X_val, y_val, weight : array or None
    eval_set : object
        The other way to pass such rows; None where ``X_val`` is given.
    early_stopping : bool or "auto"
        Of the estimator.

    Returns
    -------
    list of EvalSet
        One, or none where nothing was passed.

    Raises
    ------
    ValueError
        One comes without the other, nothing would watch them, or ``eval_set`` is given too.
    """
    if X_val is None and y_val is None:
        if weight is not None:
            raise ValueError(
                "sample_weight_val is provided, but X_val and y_val were not provided: pass the "
                "rows that the weights belong to."
            )
        return []
    for given, missing, array in (("X_val", "y_val", y_val), ("y_val", "X_val", X_val)):
        if array is None:
            raise ValueError(f"{given} is provided, but {missing} was not provided: pass both.")
    if eval_set is not None:
        raise ValueError(
            "X_val and eval_set are two names for rows to validate on: pass all of them in "
            "eval_set, as [(X_val, y_val), ...], or X_val and y_val alone."
        )
    if not early_stopping:
        raise ValueError(
            "X_val and y_val are passed to fit while at the same time early_stopping is False: "
            "set early_stopping to True or 'auto', or pass eval_set=[(X_val, y_val)] to record "
            "the metrics alone."
        )
    return [EvalSet(X_val, y_val, weight, "validation", ("X_val", "y_val", "sample_weight_val"))]
