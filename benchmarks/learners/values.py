"""Measurements of the models of each library: one entry a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

MODULES = {
    "LightGBM": "lightgbm", "XGBoost": "xgboost", "scikit-survival": "sksurv",
    "NGBoost": "ngboost",
}  # fmt: skip
Values = dict[str, dict[str, list[float]]]
"""By library, lists of one entry a run: what is measured of its models, and ``cpu`` seconds."""


def present(libraries: Mapping[str, Any]) -> dict[str, Any]:
    """Return what belongs to libraries that are installed."""
    return {
        name: value for name, value in libraries.items()
        if name not in MODULES or find_spec(MODULES[name])
    }  # fmt: skip


def add(values: Values, library: str, **more: float) -> None:
    """Add the values of a run of a library."""
    for name, value in more.items():
        values.setdefault(library, {}).setdefault(name, []).append(float(value))


def cpu_seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that all threads of the process work, and the result."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result
