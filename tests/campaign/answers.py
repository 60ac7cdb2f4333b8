"""All that fitted models answer, and what holds for it whatever the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuens.losses.names import OF_DISTRIBUTIONS

from .attack import wrong

METHODS = ("predict", "predict_proba", "decision_function", "apply", "predict_survival_function",
           "predict_cumulative_hazard_function")  # fmt: skip
COVERAGE = 0.5
"""Coverage of intervals; one so low needs the error of a single row only."""
LEVELS = (0.1, 0.5, 0.9)


def answers(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return all that a fitted model predicts."""
    found = {}
    for method in METHODS:
        if hasattr(model, method):
            answer = getattr(model, method)(X)
            several = isinstance(answer, list)  # an array for each output
            found |= {f"{method} {k}": a for k, a in enumerate(answer)} if several else {
                method: np.asarray(answer)
            }  # fmt: skip
    if hasattr(model, "predict_interval"):
        found["predict_interval"] = np.asarray(model.predict_interval(X, coverage=COVERAGE))
    if hasattr(model, "predict_dist") and model._loss_is(*OF_DISTRIBUTIONS):
        found["quantiles of predict_dist"] = model.predict_dist(X).quantile(LEVELS)
    return found


def check_answers(model: Any, found: dict[str, np.ndarray], n_rows: int, words: str) -> None:
    """Check the answers for a table of some rows.

    Raises
    ------
    FoundError
    """
    classes = getattr(model, "classes_", None)
    if isinstance(classes, np.ndarray) and not np.isin(found["predict"], classes).all():
        raise wrong("predictions are not classes", f"{type(model).__name__} classes", words)
    for method, answer in found.items():
        fault = _fault_of(method, answer, n_rows)
        if fault:
            place = f"{type(model).__name__}.{method} {fault.split(',')[0]}"
            raise wrong(f"{method}: {fault}", place, words)


def _fault_of(method: str, answer: np.ndarray, n_rows: int) -> str | None:
    """Return what is wrong with an answer."""
    if len(answer) != n_rows:
        return f"wrong length, {len(answer)} for {n_rows} rows"
    numbers = answer.dtype.kind in "fc"
    endless = method == "predict_cumulative_hazard_function"
    if numbers and not (~np.isnan(answer) if endless else np.isfinite(answer)).all():
        return "not finite"
    if method.startswith("predict_proba"):
        sums = answer.sum(axis=1)
        if (answer < 0).any() or not np.allclose(sums, 1):
            return f"not shares of 1, sums {sums[:3]}"
    steps = np.diff(answer, axis=1) if numbers and answer.ndim == 2 and not endless else answer[:0]
    if method in ("predict_interval", "quantiles of predict_dist") and (steps < 0).any():
        return "ends cross"
    if endless and not (answer[:, 1:] >= answer[:, :-1]).all():
        return "hazards fall"
    if method == "predict_survival_function":
        if (steps > 0).any() or ((answer < 0) | (answer > 1)).any():
            return "not falling from 1"
    return None
