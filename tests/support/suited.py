"""Targets that suit a learner, whatever its kind."""

from __future__ import annotations

from typing import Any

import numpy as np

QUERY = 8
"""Rows of a query; the last one may have fewer."""


def suited(name: str, loss: Any, y: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """Return a target for an estimator made of numbers around 0, and what ``fit`` needs beside it.

    Parameters
    ----------
    name : str
        The class.
    loss : str or None
        Its parameter ``loss``, if it has one.
    y : float64, shape (n_rows,)
    """
    steps = np.digitize(y, [-1, 1])
    if name.endswith("Classifier"):
        return np.array(["no", "yes", "perhaps"])[steps], {}
    if name.endswith("Ranker"):
        whole, rest = divmod(len(y), QUERY)
        return steps, {"group": [QUERY] * whole + [rest] * (rest > 0)}
    time, event = np.exp(y).round(2) + 0.01, np.arange(len(y)) % 3 > 0
    if "Surviv" in name or loss == "cox":
        columns = [("event", bool), ("time", float)]
        return np.array(list(zip(event, time, strict=True)), columns), {}
    if loss == "aft":
        return np.stack([time, np.where(event, time, np.inf)], axis=1), {}
    positive = {
        "poisson": steps,
        "gamma": time,
        "tweedie": time,
        "log_normal": time,
        "negative_binomial": steps,
    }
    return (positive[loss] if isinstance(loss, str) and loss in positive else y), {}
